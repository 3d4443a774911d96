package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// way is how a server of a drill reaches the primary.
type way int

const (
	throughHAProxy   way = iota // HAProxy, which asks each Patroni for its role
	throughPgBouncer            // PgBouncer in transaction mode, in front of HAProxy
	amongHosts                  // the URL contains all nodes, and the server selects the node that accepts writes
	ways
)

func (w way) String() string {
	return [ways]string{"through HAProxy", "through PgBouncer and HAProxy", "by a URL with three hosts"}[w]
}

// WayOf returns the way of a server. Over three consecutive seeds, each server uses each way once.
func WayOf(server int, seed uint64) way { return way((uint64(server) + seed) % uint64(ways)) }

// serverURL returns the URL with which a server reaches the primary.
func (c *Cluster) serverURL(w way, application string) string {
	values := url.Values{}
	var hosts []string
	switch w {
	case throughPgBouncer:
		hosts = []string{"127.0.0.1:" + c.bouncerPort}
		values.Set("default_query_exec_mode", "cache_describe") // PgBouncer before 1.21 does not support prepared statements
	case amongHosts:
		values.Set("target_session_attrs", "read-write")
		values.Set("connect_timeout", "2")
		return c.nodesURL(application, values)
	case throughHAProxy, ways:
		hosts = []string{"127.0.0.1:" + c.database}
	}
	return databaseURL(hosts, application, values)
}

// nodesURL returns a URL that contains all nodes.
func (c *Cluster) nodesURL(application string, values url.Values) string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, "127.0.0.1:"+n.Port)
	}
	return databaseURL(hosts, application, values)
}

func databaseURL(hosts []string, application string, more url.Values) string {
	values := url.Values{"sslmode": {"disable"}, "application_name": {application}}
	maps.Copy(values, more)
	u := url.URL{Scheme: "postgres", User: url.User("lksms"), Host: strings.Join(hosts, ","), Path: "/lksms", RawQuery: values.Encode()}
	return u.String()
}

// startPgBouncer starts PgBouncer in front of HAProxy, with the configuration from docs/operations.md.
func (c *Cluster) startPgBouncer(ctx context.Context) error {
	text, err := readProject(ctx, "docs/operations.md")
	if err != nil {
		return err
	}
	_, text, _ = strings.Cut(text, "\n## PgBouncer\n")
	_, text, _ = strings.Cut(text, "```ini\n")
	text, _, isFound := strings.Cut(text, "```\n")
	if !isFound {
		return errors.New("docs/operations.md has no pgbouncer.ini: change test/soak/stack/ways.go too")
	}
	text, err = replaceAll(text, "pgbouncer.ini of docs/operations.md", [][2]string{
		{"host=10.0.0.11 port=5432", "host=127.0.0.1 port=" + c.database + " user=lksms"},
		{"auth_type = scram-sha-256\n", "auth_type = any\n"}, {"auth_file = /etc/pgbouncer/userlist.txt\n", "unix_socket_dir =\n"},
		{"listen_addr = 127.0.0.1\n", "listen_addr = 127.0.0.1\nlisten_port = " + c.bouncerPort + "\n"},
	})
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // PgBouncer runs as another user
		return fmt.Errorf("write configuration: %w", err)
	}
	c.bouncer = newDaemon(filepath.Join(c.dir, "run"), filepath.Join(c.dir, "pgbouncer.log"), bouncerProgram, path)
	c.bouncer.start()
	return nil
}
