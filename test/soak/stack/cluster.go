package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/config"
	"lksms/internal/platform/pgserver"
)

// These constants are the size of a cluster and the prefix of its node names.
const (
	ClusterServers = 3
	ClusterNodes   = 3
	NodePrefix     = "node-"
	nodeSize       = 1 << 30 // size of the file system of a node in bytes
)

// patience contains the time limits of Patroni in seconds: ttl, loop_wait and retry_timeout. Patroni's defaults are 30, 10 and 10. Patroni replaces a lost
// primary after ttl.
type patience struct{ ttl, loop, retry int }

var (
	drillPatience = patience{10, 2, 4}
	shortPatience = patience{8, 1, 3} // used in a short drill
)

// drillRoles are the roles of the servers of a drill.
var drillRoles = [ClusterServers]string{"api,console", "claim,callback,push", "sweep,watch,webhook"}

// Cluster is three PostgreSQL nodes under Patroni, which stores the leader key in etcd. HAProxy forwards connections to the primary, and requests to the
// servers by their roles.
type Cluster struct {
	dir         string
	bin         string // folder of PostgreSQL's programs
	isAsync     bool
	patience    patience
	isThird     bool // Patroni uses version 3 of the etcd API
	mounted     bool // the folder of each node is a small file system
	Nodes       []*Node
	Etcd        *daemon
	haproxy     *daemon
	bouncer     *daemon
	database    string // port of the primary at HAProxy
	bouncerPort string // port of the primary at PgBouncer
	front       string // port of the servers at HAProxy
	release     func() error
}

// Node is one PostgreSQL and its Patroni.
type Node struct {
	Name, Dir, Config string
	Port, APIPort     string
	Etcd              *relay // between this node's Patroni and etcd
	Patroni           *daemon
}

func (n *Node) data() string { return filepath.Join(n.Dir, "data") }

// ClusterOptions are the variants of a cluster.
type ClusterOptions struct {
	Seed    uint64 // selects the way in which each server reaches the primary
	IsAsync bool   // replicate asynchronously
	IsThird bool   // Patroni uses version 3 of the etcd API
	IsShort bool   // use shorter time limits, for a short drill
}

// StartCluster starts a cluster, and servers of different roles on it.
func StartCluster(ctx context.Context, dir, binary string, o ClusterOptions) (*Stack, error) {
	c := &Cluster{dir: dir, isAsync: o.IsAsync, isThird: o.IsThird, patience: drillPatience}
	if o.IsShort {
		c.patience = shortPatience
	}
	s := &Stack{Dir: dir, Cluster: c}
	var err error
	if c.release, err = startGuard(dir); err != nil {
		return s, err
	}
	if err := c.start(ctx); err != nil {
		return s, err
	}
	s.Mounted = c.mounted
	if err := s.createDatabase(ctx); err != nil {
		return s, err
	}
	for i, roles := range drillRoles {
		name := fmt.Sprintf("server-%d", i+1)
		srv, err := newServerOn(c.serverURL(WayOf(i, o.Seed), name), name, dir, binary, "--roles="+roles)
		if err != nil {
			return s, err
		}
		srv.Env = append(srv.Env, "TRUSTED_PROXIES=127.0.0.1")
		if i == 0 { // this server answers lists and statistics
			srv.Env = append(srv.Env, "DATABASE_REPLICA_URL="+c.nodesURL(name+"-reads", nil))
		}
		s.Servers = append(s.Servers, srv)
	}
	if err := c.startHAProxy(ctx, s.Servers); err != nil {
		return s, err
	}
	if err := Await(ctx, 20*time.Second, "HAProxy still forwards to nodes other than the primary", c.leadsToPrimary); err != nil {
		return s, err
	}
	if err := c.startPgBouncer(ctx); err != nil {
		return s, err
	}
	front := &Server{Name: "the front", URL: "http://127.0.0.1:" + c.front}
	s.Endpoints = []*Server{front, front} // one endpoint for each client
	if err := s.serve(ctx); err != nil {
		return s, err
	}
	return s, Await(ctx, 20*time.Second, "HAProxy forwards to no server", func(ctx context.Context) bool {
		_, err := front.Statistics(ctx)
		return err == nil
	})
}

// leadsToPrimary reports whether HAProxy forwards only to the primary. Before its first checks, HAProxy treats all nodes as primaries.
func (c *Cluster) leadsToPrimary(ctx context.Context) bool {
	for range 2 * ClusterNodes { // HAProxy distributes connections round-robin
		conn, err := pgx.Connect(ctx, c.adminURL())
		if err != nil {
			return false
		}
		doesNotWrite := inRecovery(ctx, conn)
		_ = conn.Close(ctx)
		if doesNotWrite {
			return false
		}
	}
	return true
}

// adminURL returns the URL of the primary for a superuser, through HAProxy.
func (c *Cluster) adminURL() string {
	return "postgres://postgres@127.0.0.1:" + c.database + "/lksms?sslmode=disable&application_name=soak"
}

// createDatabase creates the role and the database of the servers.
func (s *Stack) createDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	primary := s.Cluster.Primary(ctx)
	if primary == nil {
		return errors.New("create database: no primary")
	}
	conn, err := pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+primary.Port+"/postgres?sslmode=disable")
	if err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection is no longer needed
	for _, statement := range []string{"CREATE ROLE lksms LOGIN", "CREATE DATABASE lksms OWNER lksms", "ALTER ROLE lksms IN DATABASE lksms SET jit = off"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create database: %w", err)
		}
	}
	return nil
}

// start starts etcd and the nodes, and waits until two nodes follow the first.
func (c *Cluster) start(ctx context.Context) error {
	for _, program := range []string{"etcd", "patroni", "patronictl", haproxyProgram, bouncerProgram} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed: run make drill", program)
		}
	}
	var err error
	if c.bin, err = pgserver.Binaries(config.PostgresBin(), config.UnpackedPostgres()); err != nil {
		return err
	}
	for _, port := range []*string{&c.database, &c.bouncerPort, &c.front} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	if err := c.makeFolder("run"); err != nil {
		return err
	}
	store, err := c.startEtcd()
	if err != nil {
		return err
	}
	if err := Await(ctx, 20*time.Second, "etcd does not answer", func(ctx context.Context) bool {
		return StatusOf(ctx, "http://"+store+"/health") == http.StatusOK
	}); err != nil {
		return err
	}
	c.mounted = os.Geteuid() == 0
	for i := range ClusterNodes {
		n, err := c.newNode(ctx, i+1, store)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
		n.Patroni.start()
		if i == 0 { // the first node must create the cluster, so the others wait for it
			isPrimary := func(ctx context.Context) bool { return c.Primary(ctx) == n }
			if err := Await(ctx, time.Minute, "the first node does not become primary", isPrimary); err != nil {
				return err
			}
		}
	}
	return Await(ctx, 2*time.Minute, "the replicas do not follow the primary", c.IsWhole)
}

// makeFolder creates a folder that belongs to the account of PostgreSQL.
func (c *Cluster) makeFolder(name string) error {
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	return own(path)
}

// own makes the account of PostgreSQL the owner of a folder.
func own(path string) error {
	owner, err := pgserver.Prepare(exec.Command("true")) // this command never runs
	if err == nil && owner != nil {
		err = os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return fmt.Errorf("change owner of folder: %w", err)
	}
	return nil
}

// startEtcd starts etcd, and returns its address.
func (c *Cluster) startEtcd() (string, error) {
	if err := c.makeFolder("etcd"); err != nil {
		return "", err
	}
	var addresses [2]string
	for i := range addresses {
		port, err := freePort()
		if err != nil {
			return "", err
		}
		addresses[i] = "127.0.0.1:" + port
	}
	client, peer := "http://"+addresses[0], "http://"+addresses[1]
	dir := filepath.Join(c.dir, "etcd")
	c.Etcd = newDaemon(dir, dir+".log", "etcd", "--name=drill", "--data-dir="+filepath.Join(dir, "data"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=drill="+peer, "--log-level=warn", "--enable-v2=true")
	c.Etcd.start()
	return addresses[0], nil
}

// storeKind returns the name of the section for etcd in Patroni's configuration. With version 3 of the etcd API, Patroni 3.0.2 overwrites the leader key
// without checking its holder. A primary that was stopped for a while then takes the leader key back from its successor.
func (c *Cluster) storeKind() string {
	if c.isThird {
		return "etcd3"
	}
	return "etcd"
}

// object is part of a configuration.
type object map[string]any

func (c *Cluster) newNode(ctx context.Context, number int, store string) (*Node, error) {
	n := &Node{Name: NodePrefix + strconv.Itoa(number)}
	n.Dir, n.Config = filepath.Join(c.dir, n.Name), filepath.Join(c.dir, n.Name+".json")
	if err := c.makeFolder(n.Name); err != nil {
		return nil, err
	}
	if c.mounted {
		c.mounted = exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(nodeSize)+",mode=0700", "tmpfs", n.Dir).Run() == nil
		if err := own(n.Dir); err != nil {
			return nil, err
		}
	}
	var err error
	for _, port := range []*string{&n.Port, &n.APIPort} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if n.Etcd, err = startRelay(store); err != nil {
		return nil, err
	}
	address, rest := "127.0.0.1:"+n.Port, "127.0.0.1:"+n.APIPort
	content, err := json.Marshal(object{ // JSON is valid YAML
		"scope": "lksms", "name": n.Name,
		"watchdog":    object{"mode": "off"}, // a watchdog would restart this machine
		"restapi":     object{"listen": rest, "connect_address": rest},
		c.storeKind(): object{"hosts": []string{n.Etcd.address()}, "use_proxies": true}, // without use_proxies, Patroni would find etcd without the relay
		"bootstrap": object{
			"dcs": object{
				"ttl": c.patience.ttl, "loop_wait": c.patience.loop, "retry_timeout": c.patience.retry,
				"maximum_lag_on_failover": 64 << 20, "synchronous_mode": !c.isAsync,
				"postgresql": object{
					"use_pg_rewind": true, "use_slots": true,
					"parameters": object{
						"max_connections": 200, "shared_buffers": "64MB", "max_wal_size": "128MB", "min_wal_size": "32MB", "wal_keep_size": "64MB",
						"max_slot_wal_keep_size": "256MB", "checkpoint_timeout": "30s", "autovacuum_naptime": "5s",
						"dynamic_shared_memory_type": "mmap", // so that no shared memory remains after a kill of the node
					},
				},
			},
			"initdb": []any{object{"encoding": "UTF8"}, object{"locale": "C"}, "data-checksums"},
		},
		"postgresql": object{
			"listen": address, "connect_address": address, "data_dir": n.data(), "bin_dir": c.bin, "pgpass": filepath.Join(c.dir, "run", n.Name+".pgpass"),
			"authentication": object{
				"superuser":   object{"username": "postgres", "password": Password},
				"replication": object{"username": "replicator", "password": Password},
			},
			"pg_hba":     []string{"local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"},
			"parameters": object{"unix_socket_directories": filepath.Join(c.dir, "run")},
			// No operator is present, so a node is copied again if it cannot be rewound.
			"remove_data_directory_on_rewind_failure": true, "remove_data_directory_on_diverged_timelines": true,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(n.Config, content, 0o644); err != nil { // readable, because Patroni runs as another user; the password is used only here
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	n.Patroni = newDaemon(n.Dir, filepath.Join(c.dir, n.Name+".log"), "patroni", n.Config)
	return n, nil
}

// Debian installs these two programs in a folder that is not in the search path of normal users.
const (
	haproxyProgram = "/usr/sbin/haproxy"
	bouncerProgram = "/usr/sbin/pgbouncer"
)

// startHAProxy starts HAProxy with deploy/haproxy/roles.cfg and deploy/patroni/haproxy.cfg, with the addresses of the drill.
func (c *Cluster) startHAProxy(ctx context.Context, all []*Server) error {
	address := func(i int) string { return strings.TrimPrefix(all[i].URL, "http://") }
	asItIs := [2]string{"    user haproxy\n    group haproxy\n", ""} // HAProxy already runs as another user
	toPrimary := [][2]string{asItIs, {"bind 127.0.0.1:5000", "bind 127.0.0.1:" + c.database}}
	for i, n := range c.Nodes {
		old := fmt.Sprintf("server pg%d PG%d_ADDRESS:5432 check port 8008", i+1, i+1)
		toPrimary = append(toPrimary, [2]string{old, fmt.Sprintf("server %s 127.0.0.1:%s check port %s", n.Name, n.Port, n.APIPort)})
	}
	text := ""
	for _, file := range []struct {
		name    string
		changes [][2]string
	}{
		{"deploy/haproxy/roles.cfg", [][2]string{
			{"maxconn 20000", "maxconn 2000"}, // HAProxy needs two file descriptors for each connection
			asItIs,
			{"bind :8080", "bind 127.0.0.1:" + c.front},
			{" lksms-api:8000", " " + address(0)}, {" lksms:8000", " " + address(0)},
			{" lksms-claim:8000", " " + address(1)}, {" lksms-callback:8000", " " + address(1)},
			{" init-addr last,libc,none resolvers system", ""}, {"\nresolvers system\n    parse-resolv-conf\n", "\n"},
		}},
		{"deploy/patroni/haproxy.cfg", toPrimary},
	} {
		content, err := readProject(ctx, file.name)
		if err == nil {
			content, _, _ = strings.Cut(content, "\n# SMPP (") // the servers of the drill do not accept SMPP
			content, err = replaceAll(content, file.name, file.changes)
		}
		if err != nil {
			return err
		}
		text += content
	}
	path := filepath.Join(c.dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // HAProxy runs as another user
		return fmt.Errorf("write configuration: %w", err)
	}
	c.haproxy = newDaemon(filepath.Join(c.dir, "run"), filepath.Join(c.dir, "haproxy.log"), haproxyProgram, "-db", "-f", path)
	c.haproxy.start()
	return nil
}

// stop stops all processes of the cluster. It removes the folder unless keep is set.
func (c *Cluster) stop(keep bool) error {
	var daemons []*daemon
	for _, n := range c.Nodes {
		daemons = append(daemons, n.Patroni)
	}
	for _, d := range append(daemons, c.bouncer, c.haproxy, c.Etcd) {
		if d != nil {
			d.stop()
		}
	}
	for _, n := range c.Nodes {
		n.Etcd.stop()
	}
	failed := []error{endProcesses(c.dir)}
	if !keep {
		failed = append(failed, removeTree(c.dir))
	}
	if c.release != nil {
		failed = append(failed, c.release())
	}
	return errors.Join(failed...)
}

// Primary returns the node that is the primary and, according to its Patroni, holds the leader key. It returns nil if no such node exists.
func (c *Cluster) Primary(ctx context.Context) *Node {
	for _, n := range c.Nodes {
		if StatusOf(ctx, "http://127.0.0.1:"+n.APIPort+"/primary") == http.StatusOK {
			return n
		}
	}
	return nil
}

// IsWhole reports whether one node is the primary and all others follow it. Without isAsync, Patroni must also know a synchronous standby.
func (c *Cluster) IsWhole(ctx context.Context) bool {
	primary := c.Primary(ctx)
	if primary == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+primary.Port+"/postgres?sslmode=disable")
	if err != nil {
		return false
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection is no longer needed
	var streaming, synchronous int
	err = conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication
		WHERE state = 'streaming'`).Scan(&streaming, &synchronous)
	return err == nil && streaming == ClusterNodes-1 && (c.isAsync || synchronous > 0 && c.hasHeir(ctx)) && !inRecovery(ctx, conn)
}

// hasHeir reports whether Patroni knows a synchronous standby. Patroni knows the standby some seconds later than PostgreSQL. Until then, Patroni promotes no
// node if the primary dies.
func (c *Cluster) hasHeir(ctx context.Context) bool {
	return slices.ContainsFunc(c.Nodes, func(n *Node) bool {
		return StatusOf(ctx, "http://127.0.0.1:"+n.APIPort+"/sync") == http.StatusOK
	})
}

// IsLed reports whether one node is the primary.
func (c *Cluster) IsLed(ctx context.Context) bool { return c.Primary(ctx) != nil }

func inRecovery(ctx context.Context, conn *pgx.Conn) bool {
	isSo := true
	err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&isSo)
	return err != nil || isSo
}

// Kill sends a signal to all processes of a node's PostgreSQL whose title contains the text. An empty text selects all processes.
func (n *Node) Kill(sig syscall.Signal, title string) error {
	pids, err := postgresProcesses(n.data())
	if err != nil {
		return err
	}
	if title == "" { // the postmaster is stopped first, because a session that it starts later would keep the shared memory
		_ = syscall.Kill(pids[0], syscall.SIGSTOP)
		if pids, err = postgresProcesses(n.data()); err != nil {
			return err
		}
	}
	for _, pid := range slices.Backward(pids) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // the process can have ended
		if strings.Contains(string(line), title) {
			_ = syscall.Kill(pid, sig)
		}
	}
	return nil
}
