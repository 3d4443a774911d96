package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// NewDir creates the folder of a run.
func NewDir() (string, error) {
	dir, err := os.MkdirTemp("/tmp", "lksms-soak-") // the folder is not in $TMPDIR, because the path of a socket must be short
	if err != nil {
		return "", fmt.Errorf("create folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // under root, PostgreSQL runs as another account, which must traverse the folder
		return "", fmt.Errorf("open folder: %w", err)
	}
	return dir, nil
}

// Build builds the server. overlay, if it is not nil, writes a file with changes of the code for the Go command, and returns the path of that file.
func Build(ctx context.Context, dir string, overlay func(root, dir string) (string, error)) (string, error) {
	root, err := ProjectRoot(ctx)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "lksms")
	args := []string{"build", "-o", binary}
	if overlay != nil {
		path, err := overlay(root, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", path)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/lksms")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// ProjectRoot returns the root folder of the project.
func ProjectRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the project (run soak inside its folder): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readProject reads a file of the project.
func readProject(ctx context.Context, name string) (string, error) {
	root, err := ProjectRoot(ctx)
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return string(content), nil
}

// replaceAll makes changes in the text of a file. It returns an error unless the file contains the old text of each change exactly once. Otherwise the tested
// configuration would differ from the documented configuration.
func replaceAll(text, file string, changes [][2]string) (string, error) {
	for _, change := range changes {
		if strings.Count(text, change[0]) != 1 {
			return "", fmt.Errorf("%s does not contain %q exactly once: change test/soak too", file, change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text, nil
}
