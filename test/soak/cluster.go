package main

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

const (
	servers    = 3
	nodes      = 3
	nodePrefix = "node-"
	nodeSize   = 1 << 30 // bytes of the file system of a node

)

// patience is how long Patroni waits, in seconds: ttl, loop_wait and retry_timeout. Its usual times are 30, 10 and 10. A primary that is gone is replaced
// after ttl.
type patience struct{ ttl, turn, retry int }

var (
	drillPatience = patience{10, 2, 4}
	shortPatience = patience{8, 1, 3} // of a short drill, which is to be over soon
)

// drillRoles are the roles of the servers of a drill.
var drillRoles = [servers]string{"api,console", "claim,callback,push", "sweep,watch,webhook"}

// cluster is three PostgreSQL nodes under Patroni, which keep their leader in etcd. HAProxy leads to the primary, and to the servers by their roles.
type cluster struct {
	dir         string
	bin         string // folder of PostgreSQL's programs
	isAsync     bool
	patience    patience
	isThird     bool // Patroni uses the third API of etcd
	mounted     bool // the folder of each node is a small file system
	nodes       []*node
	etcd        *daemon
	haproxy     *daemon
	bouncer     *daemon
	database    string // port of the primary, in HAProxy
	bouncerPort string // port of the primary, in PgBouncer
	front       string // port of the servers, in HAProxy
	release     func() error
}

// node is one PostgreSQL and its Patroni.
type node struct {
	name, dir, config string
	port, rest        string
	etcd              *relay // between its Patroni and etcd
	patroni           *daemon
}

func (n *node) data() string { return filepath.Join(n.dir, "data") }

// clusterOptions are the variants of a cluster.
type clusterOptions struct {
	seed    uint64 // of the ways of the servers to the primary
	isAsync bool   // it replicates asynchronously
	isThird bool   // Patroni uses the third API of etcd
	isShort bool   // the drill is to be over soon
}

// startDrill starts a cluster and servers of different roles on it.
func startDrill(ctx context.Context, dir, binary string, o clusterOptions) (*stack, error) {
	c := &cluster{dir: dir, isAsync: o.isAsync, isThird: o.isThird, patience: drillPatience}
	if o.isShort {
		c.patience = shortPatience
	}
	s := &stack{dir: dir, cluster: c}
	var err error
	if c.release, err = startGuard(dir); err != nil {
		return s, err
	}
	if err := c.start(ctx); err != nil {
		return s, err
	}
	s.mounted = c.mounted
	if err := s.createDatabase(ctx); err != nil {
		return s, err
	}
	for i, roles := range drillRoles {
		name := fmt.Sprintf("server-%d", i+1)
		srv, err := newServerOn(c.serverURL(wayOf(i, o.seed), name), name, dir, binary, "--roles="+roles)
		if err != nil {
			return s, err
		}
		srv.env = append(srv.env, "TRUSTED_PROXIES=127.0.0.1")
		if i == 0 { // it answers lists and statistics
			srv.env = append(srv.env, "DATABASE_REPLICA_URL="+c.nodesURL(name+"-reads", nil))
		}
		s.servers = append(s.servers, srv)
	}
	if err := c.startHAProxy(ctx, s.servers); err != nil {
		return s, err
	}
	if err := await(ctx, 20*time.Second, "HAProxy leads to nodes that do not write", c.leadsToPrimary); err != nil {
		return s, err
	}
	if err := c.startPgBouncer(ctx); err != nil {
		return s, err
	}
	front := &server{name: "the front", url: "http://127.0.0.1:" + c.front}
	s.doors = []*server{front, front} // a client each
	for _, srv := range s.servers {
		srv.supervise(ctx)
	}
	if err := s.awaitServing(ctx, time.Minute); err != nil {
		return s, err
	}
	return s, await(ctx, 20*time.Second, "HAProxy leads to no server", func(ctx context.Context) bool {
		_, err := front.statistics(ctx)
		return err == nil
	})
}

// leadsToPrimary reports whether HAProxy, which takes all nodes for primaries until it has checked them, leads to the primary alone.
func (c *cluster) leadsToPrimary(ctx context.Context) bool {
	for range 2 * nodes { // it takes turns
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
func (c *cluster) adminURL() string {
	return "postgres://postgres@127.0.0.1:" + c.database + "/lksms?sslmode=disable&application_name=soak"
}

// createDatabase creates the role and the database of the servers.
func (s *stack) createDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	primary := s.cluster.primary(ctx)
	if primary == nil {
		return errors.New("create database: no primary")
	}
	conn, err := pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+primary.port+"/postgres?sslmode=disable")
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

// start starts etcd and the nodes, and waits until two follow the first.
func (c *cluster) start(ctx context.Context) error {
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
	if err := await(ctx, 20*time.Second, "etcd does not answer", func(ctx context.Context) bool {
		return statusOf(ctx, "http://"+store+"/health") == http.StatusOK
	}); err != nil {
		return err
	}
	c.mounted = os.Geteuid() == 0
	for i := range nodes {
		n, err := c.newNode(ctx, i+1, store)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		n.patroni.start()
		if i == 0 { // the first one makes the cluster, whatever the order in which the others come up
			isPrimary := func(ctx context.Context) bool { return c.primary(ctx) == n }
			if err := await(ctx, time.Minute, "the first node does not become primary", isPrimary); err != nil {
				return err
			}
		}
	}
	return await(ctx, 2*time.Minute, "the replicas do not follow", c.isWhole)
}

// makeFolder makes a folder of the account of PostgreSQL.
func (c *cluster) makeFolder(name string) error {
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	return own(path)
}

// own gives a folder to the account of PostgreSQL.
func own(path string) error {
	owner, err := pgserver.Prepare(exec.Command("true")) // never run
	if err == nil && owner != nil {
		err = os.Chown(path, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return fmt.Errorf("give folder: %w", err)
	}
	return nil
}

// startEtcd starts etcd, and returns its address.
func (c *cluster) startEtcd() (string, error) {
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
	c.etcd = newDaemon(dir, dir+".log", "etcd", "--name=drill", "--data-dir="+filepath.Join(dir, "data"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=drill="+peer, "--log-level=warn", "--enable-v2=true")
	c.etcd.start()
	return addresses[0], nil
}

// storeKind is the section of Patroni's configuration for etcd. With the third API, Patroni 3.0.2 writes the key of the leader without a look at who
// has it: a primary that was stopped takes it back from its successor.
func (c *cluster) storeKind() string {
	if c.isThird {
		return "etcd3"
	}
	return "etcd"
}

// object is part of a configuration.
type object map[string]any

func (c *cluster) newNode(ctx context.Context, number int, store string) (*node, error) {
	n := &node{name: nodePrefix + strconv.Itoa(number)}
	n.dir, n.config = filepath.Join(c.dir, n.name), filepath.Join(c.dir, n.name+".json")
	if err := c.makeFolder(n.name); err != nil {
		return nil, err
	}
	if c.mounted {
		c.mounted = exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(nodeSize)+",mode=0700", "tmpfs", n.dir).Run() == nil
		if err := own(n.dir); err != nil {
			return nil, err
		}
	}
	var err error
	for _, port := range []*string{&n.port, &n.rest} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	if n.etcd, err = startRelay(store); err != nil {
		return nil, err
	}
	address, rest := "127.0.0.1:"+n.port, "127.0.0.1:"+n.rest
	content, err := json.Marshal(object{ // JSON is YAML
		"scope": "lksms", "name": n.name,
		"watchdog":    object{"mode": "off"}, // that of this machine would restart it
		"restapi":     object{"listen": rest, "connect_address": rest},
		c.storeKind(): object{"hosts": []string{n.etcd.address()}, "use_proxies": true}, // it would look for ways around the relay
		"bootstrap": object{
			"dcs": object{
				"ttl": c.patience.ttl, "loop_wait": c.patience.turn, "retry_timeout": c.patience.retry,
				"maximum_lag_on_failover": 64 << 20, "synchronous_mode": !c.isAsync,
				"postgresql": object{
					"use_pg_rewind": true, "use_slots": true,
					"parameters": object{
						"max_connections": 200, "shared_buffers": "64MB", "max_wal_size": "128MB", "min_wal_size": "32MB", "wal_keep_size": "64MB",
						"max_slot_wal_keep_size": "256MB", "checkpoint_timeout": "30s", "autovacuum_naptime": "5s",
						"dynamic_shared_memory_type": "mmap", // nothing is left in memory when a node is killed
					},
				},
			},
			"initdb": []any{object{"encoding": "UTF8"}, object{"locale": "C"}, "data-checksums"},
		},
		"postgresql": object{
			"listen": address, "connect_address": address, "data_dir": n.data(), "bin_dir": c.bin, "pgpass": filepath.Join(c.dir, "run", n.name+".pgpass"),
			"authentication": object{
				"superuser":   object{"username": "postgres", "password": password},
				"replication": object{"username": "replicator", "password": password},
			},
			"pg_hba":     []string{"local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"},
			"parameters": object{"unix_socket_directories": filepath.Join(c.dir, "run")},
			// Without an operator, a node that cannot be rewound is copied again.
			"remove_data_directory_on_rewind_failure": true, "remove_data_directory_on_diverged_timelines": true,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(n.config, content, 0o644); err != nil { // Patroni runs as another user, and the password opens nothing else
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	n.patroni = newDaemon(n.dir, filepath.Join(c.dir, n.name+".log"), "patroni", n.config)
	return n, nil
}

// Debian has these two where the search path of a user does not lead.
const (
	haproxyProgram = "/usr/sbin/haproxy"
	bouncerProgram = "/usr/sbin/pgbouncer"
)

// startHAProxy starts HAProxy with deploy/haproxy/roles.cfg and deploy/patroni/haproxy.cfg, with the addresses of the drill.
func (c *cluster) startHAProxy(ctx context.Context, all []*server) error {
	address := func(i int) string { return strings.TrimPrefix(all[i].url, "http://") }
	asItIs := [2]string{"    user haproxy\n    group haproxy\n", ""} // it runs as another user already
	toPrimary := [][2]string{asItIs, {"bind 127.0.0.1:5000", "bind 127.0.0.1:" + c.database}}
	for i, n := range c.nodes {
		old := fmt.Sprintf("server pg%d PG%d_ADDRESS:5432 check port 8008", i+1, i+1)
		toPrimary = append(toPrimary, [2]string{old, fmt.Sprintf("server %s 127.0.0.1:%s check port %s", n.name, n.port, n.rest)})
	}
	text := ""
	for _, file := range []struct {
		name    string
		changes [][2]string
	}{
		{"deploy/haproxy/roles.cfg", [][2]string{
			{"maxconn 20000", "maxconn 2000"}, // it needs two file descriptors for each
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

// stop ends everything. It removes the folder unless keep is set.
func (c *cluster) stop(keep bool) error {
	var daemons []*daemon
	for _, n := range c.nodes {
		daemons = append(daemons, n.patroni)
	}
	for _, d := range append(daemons, c.bouncer, c.haproxy, c.etcd) {
		if d != nil {
			d.stop()
		}
	}
	for _, n := range c.nodes {
		n.etcd.stop()
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

// primary returns the node that says that it is the primary and holds the key of the leader; nil: none.
func (c *cluster) primary(ctx context.Context) *node {
	for _, n := range c.nodes {
		if statusOf(ctx, "http://127.0.0.1:"+n.rest+"/primary") == http.StatusOK {
			return n
		}
	}
	return nil
}

// isWhole reports whether all nodes run, one as primary and the others behind it, one of them synchronously, which Patroni knows.
func (c *cluster) isWhole(ctx context.Context) bool {
	primary := c.primary(ctx)
	if primary == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+primary.port+"/postgres?sslmode=disable")
	if err != nil {
		return false
	}
	defer conn.Close(ctx) //nolint:errcheck // the connection is no longer needed
	var streaming, synchronous int
	err = conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication
		WHERE state = 'streaming'`).Scan(&streaming, &synchronous)
	return err == nil && streaming == nodes-1 && (c.isAsync || synchronous > 0 && c.hasHeir(ctx)) && !inRecovery(ctx, conn)
}

// hasHeir reports whether Patroni knows a standby that replicates synchronously. It learns that some seconds after PostgreSQL does, and until then it
// promotes nobody in place of a primary that dies.
func (c *cluster) hasHeir(ctx context.Context) bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool {
		return statusOf(ctx, "http://127.0.0.1:"+n.rest+"/sync") == http.StatusOK
	})
}

// isLed reports whether one node is primary.
func (c *cluster) isLed(ctx context.Context) bool { return c.primary(ctx) != nil }

func inRecovery(ctx context.Context, conn *pgx.Conn) bool {
	isSo := true
	err := conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&isSo)
	return err != nil || isSo
}

// kill sends a signal to all processes of the PostgreSQL of a node, or to those whose title contains the text.
func (n *node) kill(sig syscall.Signal, title string) error {
	pids, err := postgresProcesses(n.data())
	if err != nil {
		return err
	}
	if title == "" { // a session that starts meanwhile would be left out, and keep the memory that all share
		_ = syscall.Kill(pids[0], syscall.SIGSTOP)
		if pids, err = postgresProcesses(n.data()); err != nil {
			return err
		}
	}
	for _, pid := range slices.Backward(pids) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if strings.Contains(string(line), title) {
			_ = syscall.Kill(pid, sig)
		}
	}
	return nil
}
