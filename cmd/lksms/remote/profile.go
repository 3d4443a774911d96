package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"lksms/client"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
)

// profile is a server, and the password of a user or an API key.
type profile struct {
	Server   string        `json:"server"`
	Username string        `json:"username,omitempty"` // empty: the secret is an API key
	Secret   config.Secret `json:"secret"`
}

func (p profile) credentials() client.Credentials {
	if p.Username == "" {
		return client.Key(string(p.Secret))
	}
	return client.Basic(p.Username, string(p.Secret))
}

// profiles is the content of the file with all profiles.
type profiles struct {
	Used     string             `json:"used"`
	Profiles map[string]profile `json:"profiles"`
}

func profileFile() (string, error) {
	dir, err := os.UserConfigDir() // $XDG_CONFIG_HOME, or ~/.config
	if err != nil {
		return "", fmt.Errorf("find the folder of profiles: %w", err)
	}
	return filepath.Join(dir, "lksms", "profiles.json"), nil
}

// ReadProfiles reads the file of profiles. It returns an error if other users of the machine can read or change the file.
func ReadProfiles() (all profiles, err error) {
	all.Profiles = map[string]profile{}
	path, err := profileFile()
	if err != nil {
		return all, err
	}
	file, err := os.Open(path) //nolint:gosec // the user's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("open the profiles: %w", err)
	}
	defer file.Close() //nolint:errcheck // the file was only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return all, fmt.Errorf("check the profiles: %w", err)
	case !info.Mode().IsRegular():
		return all, Usage("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return all, Usage("%s holds credentials, and others can read or change it (mode %04o): run chmod 600 %s,"+
			" and change the credentials if others may have read them", path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1<<20))
	if err != nil {
		return all, fmt.Errorf("read the profiles: %w", err)
	}
	if err := json.Unmarshal(bom.Decode(text), &all); err != nil {
		return all, Usage("read %s: %w", path, err)
	}
	if all.Profiles == nil {
		all.Profiles = map[string]profile{}
	}
	return all, nil
}

// readProfile returns the profile called name. If name is empty, it returns the profile in use.
func readProfile(name string) (profile, error) {
	all, err := ReadProfiles()
	if err != nil {
		return profile{}, err
	}
	if name == "" {
		name = all.Used
	}
	if name == "" {
		return profile{}, Usage("no server is known: run lksms login URL, or set LKSMS_URL and LKSMS_KEY")
	}
	p, found := all.Profiles[name]
	if !found {
		return profile{}, Usage("no profile is called %q: lksms profile list shows all, lksms login adds one", name)
	}
	return p, nil
}

// write replaces the file as a whole, so that an interrupted command leaves the old file.
func (all profiles) write() error {
	path, err := profileFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of profiles: %w", err)
	}
	next, err := os.CreateTemp(filepath.Dir(path), "profiles-*.json") // the file has mode 0600
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	defer os.Remove(next.Name()) //nolint:errcheck // the file was renamed or cannot be removed
	encoder := json.NewEncoder(next)
	encoder.SetIndent("", "  ")
	err = errors.Join(encoder.Encode(all), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	return nil
}

// LoginCmd is the command `lksms login`.
type LoginCmd struct {
	Server      string `arg:"" placeholder:"URL" help:"URL of the server, such as https://lksms.example.com."`
	Name        string `name:"profile" default:"default" completion:"profile" help:"Name of the profile."`
	Username    string `name:"user" help:"Name of the user. Without it, the secret is an API key."`
	SecretStdin bool   `name:"secret-stdin" help:"Read the password or API key from standard input instead of asking for it."`
}

// Help returns the text that is shown below the flags.
func (LoginCmd) Help() string {
	return "Asks for the password or API key without showing it, tries it, and stores it in a file that only you can read. " +
		"The profile is used from now on. Secrets are never arguments: other users of the machine see those."
}

func (c *LoginCmd) Run(ctx context.Context) error {
	secret, err := c.readSecret()
	if err != nil {
		return err
	}
	p := profile{Server: strings.TrimRight(c.Server, "/"), Username: c.Username, Secret: config.Secret(secret)}
	try, err := client.New(p.Server, p.credentials(), client.WithUserAgent("lksms/"+build.Read().Version))
	if err != nil {
		return Usage("%w", err)
	}
	warnIfReadable(p.Server)
	ctx, cancel := context.WithTimeout(ctx, PlainLimit)
	defer cancel()
	who, err := try.Who(ctx)
	if err != nil {
		return InTime(ctx, err)
	}
	all, err := ReadProfiles()
	if err != nil {
		return err
	}
	all.Profiles[c.Name], all.Used = p, c.Name
	if err := all.write(); err != nil {
		return err
	}
	_, err = fmt.Printf("%s is %s with the role %s at %s\n", c.Name, printable(who.Username), printable(string(who.Role)), p.Server)
	return err
}

var warnOnce sync.Once // a command can create two clients

// warnIfReadable warns before the credentials are sent to a URL on which the network can read them.
func warnIfReadable(server string) {
	if isReadable(server) {
		warnOnce.Do(func() {
			fmt.Fprintln(os.Stderr, "lksms: http:// sends the credentials unencrypted: use https:// for other machines")
		})
	}
}

// isReadable reports whether the network can read requests to a server.
func isReadable(server string) bool {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "https" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !addr.IsLoopback())
}

func (c *LoginCmd) readSecret() (string, error) {
	asked := "API key: "
	if c.Username != "" {
		asked = "Password or API key of " + c.Username + ": "
	}
	switch {
	case c.SecretStdin:
		line, err := bufio.NewReader(io.LimitReader(os.Stdin, 1<<16)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the secret: %w", err)
		}
		return nonempty(strings.TrimRight(strings.TrimPrefix(line, bom.Mark), "\r\n"))
	case !term.IsTerminal(int(os.Stdin.Fd())):
		return "", Usage("standard input is not a terminal: give the password or API key there, with --secret-stdin")
	}
	fmt.Fprint(os.Stderr, asked)
	secret, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	return nonempty(string(secret))
}

func nonempty(secret string) (string, error) {
	if secret == "" {
		return "", Usage("the password or API key is empty")
	}
	return secret, nil
}

// ProfileCmd is the command `lksms profile`.
type ProfileCmd struct {
	List   profileListCmd   `cmd:"" help:"List the profiles."`
	Use    profileUseCmd    `cmd:"" help:"Use a profile from now on."`
	Remove profileRemoveCmd `cmd:"" help:"Remove a profile with its credentials."`
}

type profileListCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"table or json."`
}

func (c *profileListCmd) Run() error {
	all, err := ReadProfiles()
	if err != nil {
		return err
	}
	type shown struct {
		Name     string `json:"name"`
		Server   string `json:"server"`
		Username string `json:"username"`
		IsUsed   bool   `json:"is_used"`
	}
	list, rows := []shown{}, [][]string{}
	for _, name := range slices.Sorted(maps.Keys(all.Profiles)) {
		p, used := all.Profiles[name], ""
		if name == all.Used {
			used = "*"
		}
		list = append(list, shown{name, p.Server, p.Username, name == all.Used})
		user := p.Username
		if user == "" {
			user = "(API key)"
		}
		rows = append(rows, []string{used, name, p.Server, user})
	}
	return output{out: os.Stdout, isJSON: c.Output == "json"}.list(list, []string{"", "NAME", "SERVER", "USER"}, rows)
}

type profileUseCmd struct {
	Name string `arg:"" completion:"profile" help:"Name of the profile."`
}

func (c *profileUseCmd) Run() error {
	return changeProfile(c.Name, func(all *profiles) { all.Used = c.Name })
}

type profileRemoveCmd struct {
	Name string `arg:"" completion:"profile" help:"Name of the profile."`
}

func (c *profileRemoveCmd) Run() error {
	return changeProfile(c.Name, func(all *profiles) {
		delete(all.Profiles, c.Name)
		if all.Used == c.Name {
			all.Used = ""
		}
	})
}

func changeProfile(name string, change func(*profiles)) error {
	all, err := ReadProfiles()
	if err != nil {
		return err
	}
	if _, found := all.Profiles[name]; !found {
		return Usage("no profile is called %q: lksms profile list shows all", name)
	}
	change(&all)
	return all.write()
}
