package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// binGlobs are the folders in which the packages of Debian, Red Hat, Homebrew and Postgres.app install the server.
var binGlobs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// oldestMajor is the oldest supported major version of PostgreSQL.
const oldestMajor = 14

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// Binaries returns the folder of the PostgreSQL that a private server would use, for tests that start other servers.
func Binaries(binDir string, more []string) (string, error) {
	a, err := unprivileged()
	if err != nil {
		return "", err
	}
	return findBinaries(a, binDir, more, "")
}

// findBinaries returns a folder with a usable initdb and postgres: binDir if it is set, else the newest version found. If major is set, only this major version
// is used, because a cluster can only be opened by its own major version.
func findBinaries(a *account, binDir string, more []string, major string) (string, error) {
	found := map[int]string{}
	var closed error // the reason why the account cannot run an installed PostgreSQL
	for _, dir := range candidates(binDir, more) {
		version := 0
		err := a.checkEntry(dir, "set LKSMS_PG_BIN to a PostgreSQL that this user can run")
		if err != nil {
			closed = err
		} else {
			version, err = binaryMajor(a, dir)
		}
		if err != nil {
			if binDir != "" {
				return "", fmt.Errorf("LKSMS_PG_BIN: %w", err)
			}
			continue
		}
		if _, taken := found[version]; !taken && version >= oldestMajor {
			found[version] = dir
		}
	}
	if major != "" {
		want, err := strconv.Atoi(major)
		if dir, ok := found[want]; err == nil && ok {
			return dir, nil
		}
		return "", errors.Join(fmt.Errorf("the data folder was made by PostgreSQL %s, which is not installed here: install that version, or set LKSMS_PG_BIN to its bin folder", major), closed)
	}
	versions := make([]int, 0, len(found))
	for version := range found {
		versions = append(versions, version)
	}
	if len(versions) == 0 {
		return "", errors.Join(fmt.Errorf("no PostgreSQL %d or newer was found: run `make postgres`, or `apt-get install postgresql`, or set DATABASE_URL to a server, or LKSMS_PG_BIN to the folder of initdb and postgres", oldestMajor), closed)
	}
	sort.Sort(sort.Reverse(sort.IntSlice(versions)))
	return found[versions[0]], nil
}

func candidates(binDir string, more []string) []string {
	if binDir != "" {
		return []string{binDir}
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, glob := range append(binGlobs, more...) {
		matches, err := filepath.Glob(glob)
		if err == nil {
			dirs = append(dirs, matches...)
		}
	}
	return dirs
}

// binaryMajor runs postgres --version as the account, because the program possibly belongs to the account.
func binaryMajor(a *account, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	cmd := exec.Command(filepath.Join(dir, "postgres"), "--version")
	cmd.Dir = "/"
	a.apply(cmd)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("run %s/postgres --version: %w", dir, err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("%s/postgres --version prints no version", dir)
	}
	return strconv.Atoi(string(match[1]))
}

// clusterMajor returns the major version of the cluster in dataDir. It returns an empty string if no cluster exists.
func clusterMajor(dataDir string) (string, error) {
	content, err := readOwned(filepath.Join(dataDir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the cluster's version: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}
