package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/contracttest"
	"lksms/internal/testkit/pgtest"
)

// binary is the path of the program lksms.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lksms-bin-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users also run the program
	}
	if err == nil {
		binary = filepath.Join(dir, "lksms")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build lksms:", err)
		os.Exit(1)
	}
	var wrong atomic.Int64
	http.DefaultTransport = contracttest.Transport(http.DefaultTransport, func(err error) {
		wrong.Add(1)
		fmt.Fprintln(os.Stderr, err)
	})
	code := max(pgtest.Run(m), int(min(wrong.Load(), 1)))
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running `lksms serve`.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	output *lockedBuffer
	exited chan struct{}
	err    error // error of the exit; read after exited is closed
}

// environment returns the environment of the test without the variables that configure lksms, and adds the extra variables.
func environment(extra ...string) []string {
	var env []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "DATABASE_URL", "APP_HOST", "APP_PORT", "BASIC_AUTH_USERNAME", "BASIC_AUTH_PASSWORD", "LKSMS_DATA",
			"LKSMS_URL", "LKSMS_PROFILE", "LKSMS_USER", "LKSMS_PASSWORD", "LKSMS_KEY", "XDG_CONFIG_HOME":
		default:
			env = append(env, variable)
		}
	}
	return append(env, extra...)
}

const testPassword = "test-password"

// serve starts a server on a free port and waits until it is ready.
func serve(t *testing.T, env ...string) *process {
	t.Helper()
	return serveIn(t, pgtest.Dir(t), nil, env...) // the working folder contains no .env
}

// serveIn works like serve in a working folder. If user is not nil, the server runs as this user.
func serveIn(t *testing.T, folder string, user *syscall.Credential, env ...string) *process {
	t.Helper()
	p, address := launch(t, folder, user, "0", env...)
	p.await(address)
	return p
}

// launch starts a server on a port, and does not wait for the server. The channel receives the address of the server once the server is ready.
func launch(t *testing.T, folder string, user *syscall.Credential, port string, env ...string) (*process, <-chan string) {
	t.Helper()
	p := &process{t: t, output: &lockedBuffer{}, exited: make(chan struct{})}
	p.cmd = exec.Command(binary, "serve", "--app-port="+port)
	p.cmd.Dir = folder
	p.cmd.Env = environment(append([]string{"BASIC_AUTH_PASSWORD=" + testPassword}, env...)...)
	p.cmd.Stderr = p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user} // the process has its own process group, as in a terminal
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		lines, shown := bufio.NewScanner(stdout), ""
		for lines.Scan() {
			fmt.Fprintln(p.output, lines.Text())
			fields := strings.Fields(lines.Text())
			switch {
			case len(fields) == 2 && fields[0] == "address":
				shown = fields[1]
			case strings.HasSuffix(lines.Text(), " demo"): // the last line of the greeting
				address <- shown
			}
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("output of the server:\n%s", p.output)
		}
	})
	return p, address
}

// await waits until the server is ready.
func (p *process) await(address <-chan string) {
	p.t.Helper()
	select {
	case p.url = <-address:
	case <-p.exited:
		p.t.Fatalf("the server ended: %v\n%s", p.err, p.output)
	case <-time.After(time.Minute):
		p.t.Fatalf("the server does not serve:\n%s", p.output)
	}
}

func (p *process) client() *api.ClientWithResponses {
	p.t.Helper()
	client, err := api.NewClientWithResponses(p.url, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth("admin", testPassword)
		return nil
	}))
	if err != nil {
		p.t.Fatal(err)
	}
	return client
}

// stop sends a signal and waits until the process ends.
func (p *process) stop(signal syscall.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(time.Minute):
		p.t.Fatalf("still running a minute after %s:\n%s", signal, p.output)
		return nil
	}
}

func TestTwoServersSendAllTasksOfOneQueue(t *testing.T) {
	t.Parallel()
	const tasks, pollers, limit = 10_000, 16, 20
	databaseURL := pgtest.New(t)
	servers := []*process{serve(t, "DATABASE_URL="+databaseURL), serve(t, "DATABASE_URL="+databaseURL)}
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `INSERT INTO tasks (task_id, phone_number, recipient, content, created_at)
		SELECT 'task_' || i, '13800138000', '+8613800138000', 'x', now() - make_interval(secs => i) FROM generate_series(1, $1::int) i`, tasks); err != nil {
		t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		seen = make(map[string]bool, tasks)
		wg   sync.WaitGroup
	)
	for s, server := range servers {
		client := server.client()
		for n := range pollers {
			wg.Go(func() {
				params := api.ClaimTasksParams{AppID: fmt.Sprintf("app-%d-%d", s, n), Limit: new(int)}
				*params.Limit = limit
				for {
					res, err := client.ClaimTasksWithResponse(t.Context(), &params)
					if err != nil || res.JSON200 == nil {
						t.Errorf("claim: %v %s", err, res.Status())
						return
					}
					claimed := res.JSON200.Data
					if len(claimed) == 0 {
						return
					}
					if len(claimed) > limit {
						t.Errorf("claimed %d, the limit is %d", len(claimed), limit)
					}
					for _, task := range claimed {
						mu.Lock()
						if seen[task.TaskID] {
							t.Errorf("%s was claimed twice", task.TaskID)
						}
						seen[task.TaskID] = true
						mu.Unlock()
						report, err := client.ReportTaskWithResponse(t.Context(), api.ReportRequest{
							TaskID: task.TaskID, AppID: params.AppID, Status: api.ReportSuccess, LeaseID: &task.LeaseID,
						})
						if err != nil || report.JSON200 == nil {
							t.Errorf("report: %v %s", err, report.Status())
							return
						}
					}
				}
			})
		}
	}
	wg.Wait()
	if len(seen) != tasks {
		t.Errorf("%d tasks were claimed, want %d", len(seen), tasks)
	}
	var done, leases, reports int
	if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM tasks WHERE status = 2 AND retry_count = 0),
		(SELECT count(*) FROM send_logs), (SELECT count(*) FROM report_logs WHERE effect = 'success')`).Scan(&done, &leases, &reports); err != nil {
		t.Fatal(err)
	}
	if done != tasks || leases != tasks || reports != tasks {
		t.Errorf("%d succeeded with %d leases and %d reports, want %d of each", done, leases, reports, tasks)
	}
	for _, server := range servers {
		if err := server.stop(syscall.SIGTERM); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
}

func TestServeStartsAndStopsAPrivatePostgres(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	p := serve(t, "LKSMS_DATA="+dir)
	res, err := p.client().SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000", Content: new(string("x"))})
	if err != nil || res.JSON200 == nil {
		t.Fatalf("submit: %v %s", err, res.Body)
	}
	id := res.JSON200.Data.TaskID
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	if pid := postmaster(dir); pid != 0 {
		t.Errorf("PostgreSQL %d outlived the server", pid)
	}
	// If the server is killed, its PostgreSQL also stops. After the next start the accepted task still exists.
	again := serve(t, "LKSMS_DATA="+dir)
	pid := postmaster(dir)
	if pid == 0 {
		t.Fatal("no PostgreSQL runs")
	}
	again.stop(syscall.SIGKILL)
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL %d outlived a killed server", pid)
		}
	}
	third := serve(t, "LKSMS_DATA="+dir)
	seen, err := third.client().GetTaskWithResponse(t.Context(), id)
	if err != nil || seen.JSON200 == nil {
		t.Errorf("the task is missing: %v %s", err, seen.Body)
	}
	if err := third.stop(syscall.SIGINT); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// libpqVariables contains variables that people who work with PostgreSQL often set. Each of these variables once prevented a server from starting.
var libpqVariables = []string{
	"PGHOST=nowhere.invalid", "PGPORT=1", "PGUSER=somebody", "PGDATABASE=elsewhere", "PGPASSWORD=wrong", "PGSSLMODE=verify-full",
	"PGPASSFILE=/nonexistent", "PGSERVICE=nowhere", "PGSERVICEFILE=/nonexistent", "PGOPTIONS=-c default_transaction_read_only=on",
	"PGTARGETSESSIONATTRS=read-only", "PGDATA=/nonexistent", "PGTZ=Mars/Olympus", "PGDATESTYLE=nonsense", "PGCLIENTENCODING=nonsense",
	"PGCONNECT_TIMEOUT=nonsense", "PGAPPNAME=other",
}

func TestAPrivatePostgresIgnoresTheVariablesOfLibpq(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, user *syscall.Credential) {
		dir := pgtest.Dir(t)
		if user != nil {
			if err := os.Chown(dir, int(user.Uid), int(user.Gid)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the first round has no cluster, the second round uses the existing cluster
			p := serveIn(t, pgtest.Dir(t), user, append(libpqVariables, "LKSMS_DATA="+dir)...)
			res, err := p.client().SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000", Content: new(string("x"))})
			if err != nil || res.JSON200 == nil {
				t.Fatalf("submit: %v %s", err, res.Body)
			}
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
	}
	t.Run("as the user of the test", func(t *testing.T) {
		t.Parallel()
		check(t, nil)
	})
	t.Run("as an ordinary user", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("only root can become another user")
		}
		nobody, err := user.Lookup("nobody")
		if err != nil {
			t.Skip(err)
		}
		uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			t.Fatal(err)
		}
		check(t, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)})
	})
}

// With DATABASE_URL, the variables of libpq complete the parts that the URL omits, as in psql.
func TestTheVariablesOfLibpqCompleteTheDatabaseURL(t *testing.T) {
	t.Parallel()
	whole, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := whole.User.Password()
	part := *whole
	part.User = url.User(whole.User.Username())
	p := serve(t, "DATABASE_URL="+part.String(), "PGPASSWORD="+password, "PGPORT=1") // the URL contains a port, so PGPORT must have no effect
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestHealthReportsReadiness(t *testing.T) {
	t.Parallel()
	p := serve(t, "DATABASE_URL="+pgtest.New(t))
	ask := func() error {
		cmd := exec.Command(binary, "health", "--url="+p.url)
		cmd.Dir = t.TempDir()
		return cmd.Run()
	}
	if err := ask(); err != nil {
		t.Errorf("a ready server: %v", err)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	if ask() == nil {
		t.Error("a stopped server counts as ready")
	}
}

// In a container, the health command has the same environment as the server. So the TLS settings of the server also apply to the command.
func TestHealthCommandWorksWithTLS(t *testing.T) {
	t.Parallel()
	certFile, keyFile := writeCertificate(t)
	p := serve(t, "DATABASE_URL="+pgtest.New(t), "TLS_CERT_FILE="+certFile, "TLS_KEY_FILE="+keyFile)
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "health")
	cmd.Dir, cmd.Env = t.TempDir(), environment("TLS_CERT_FILE="+certFile, "APP_PORT="+address.Port())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a ready server: %v %s", err, out)
	}
}

// writeCertificate writes the certificate and key of the test servers of net/http.
func writeCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	source := httptest.NewTLSServer(http.NotFoundHandler())
	defer source.Close()
	key, err := x509.MarshalPKCS8PrivateKey(source.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: source.Certificate().Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

// A terminal sends Ctrl-C to the whole process group, but PostgreSQL must not stop before the server.
func TestCtrlCFinishesTheWaitingRequests(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	p := serve(t, "LKSMS_DATA="+dir)
	secret, err := os.ReadFile(filepath.Join(dir, "postgres.service.password"))
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://lksms_service:%s@/lksms?host=%s/socket", strings.TrimSpace(string(secret)), dir))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	conn, watcher := connect(), connect()
	client := p.client()
	if _, err := client.CreateDefaultContentWithResponse(t.Context(), nil, api.DefaultContentRequest{PhoneNumber: "13800138000", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM default_contents FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		res, err := client.SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000"})
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		answered <- res.StatusCode()
	}()
	eventually(t, "the request waits", func() bool { // uses watcher: tx would see the same statistics until its end
		return scan[int](t, watcher, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") > 0
	})
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // if PostgreSQL stopped, it would end our session within this time
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("PostgreSQL has ended: %v", err)
	}
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the waiting request got %d", status)
	}
	<-p.exited
	if p.err != nil {
		t.Errorf("stop: %v", p.err)
	}
}

// postmaster returns the process id of the PostgreSQL in dir, or 0 if no PostgreSQL runs there.
func postmaster(dir string) int {
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	var pid int
	fmt.Sscan(string(content), &pid)
	return pid
}

// A superuser of the database can read the environment of the PostgreSQL process, so it must contain no secrets.
func TestAPrivatePostgresDoesNotInheritTheEnvironment(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show the environment of a process")
	}
	dir := pgtest.Dir(t)
	serve(t, "LKSMS_DATA="+dir, "SECRETS_KEY="+secret.NewKey(), "PLATFORM_URL=https://console.example.com", "LANG=de_DE.UTF-8")
	password, err := os.ReadFile(filepath.Join(dir, "postgres.password"))
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, fmt.Sprintf("postgres://lksms:%s@/lksms?host=%s/socket", strings.TrimSpace(string(password)), dir))
	given := scan[string](t, admin, "SELECT encode(pg_read_binary_file($1), 'escape')", fmt.Sprintf("/proc/%d/environ", postmaster(dir)))
	for variable := range strings.SplitSeq(strings.TrimSuffix(given, `\000`), `\000`) {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "LD_LIBRARY_PATH", "TZ", "HOME", "LC_ALL":
		default:
			t.Errorf("PostgreSQL inherited %s", name)
		}
	}
	if !strings.Contains(given, "PATH=") {
		t.Errorf("no environment was read: %q", given)
	}
}

// The output of a service is stored in logs. So the server prints the password itself only on a terminal.
func TestTheGeneratedPasswordIsStoredAndNotPrinted(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	shown := regexp.MustCompile(`password +generated, in (\S+)`)
	var passwords []string
	for range 2 {
		p := serve(t, "LKSMS_DATA="+dir, "BASIC_AUTH_PASSWORD=")
		match := shown.FindStringSubmatch(p.output.String())
		if match == nil {
			t.Fatalf("the file of the password is not named:\n%s", p.output)
		}
		kept, err := os.ReadFile(match[1])
		if err != nil {
			t.Fatal(err)
		}
		password := strings.TrimSpace(string(kept))
		if strings.Contains(p.output.String(), password) {
			t.Errorf("the password is in the output:\n%s", p.output)
		}
		passwords = append(passwords, password)
		req, err := http.NewRequest("GET", p.url+"/api/v1/admin/task-statistics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("admin", password)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("a request with the shown password is answered with %d", res.StatusCode)
		}
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if passwords[0] != passwords[1] {
		t.Error("the second start generated another password")
	}
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("stored with mode %v %v", info.Mode(), err)
	}
}

func TestTheSecondServerUsesThePrivatePostgresOfTheFirst(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	// Both servers start at the same time without a cluster. One server creates the cluster, and the other server waits for the cluster.
	servers := make([]*process, 2)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() { servers[i] = serve(t, "LKSMS_DATA="+dir) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	res, err := servers[0].client().SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000", Content: new(string("x"))})
	if err != nil || res.JSON200 == nil {
		t.Fatalf("submit: %v", err)
	}
	seen, err := servers[1].client().GetTaskWithResponse(t.Context(), res.JSON200.Data.TaskID)
	if err != nil || seen.JSON200 == nil {
		t.Errorf("the other server does not see the task: %v", err)
	}
}

func TestTheDemoSettlesAllItsTasksAndChangesNoOtherTasks(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	p := serve(t, "DATABASE_URL="+databaseURL, "SECRETS_KEY="+secret.NewKey())
	demo := func(open int) {
		t.Helper()
		cmd := exec.Command(binary, "demo", "--url="+p.url, "--count=30")
		cmd.Dir = t.TempDir()
		cmd.Env = environment("BASIC_AUTH_PASSWORD=" + testPassword)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("demo: %v\n%s", err, out)
		}
		for _, want := range []string{fmt.Sprintf("pending, new    %6d", open), "pending, retry       0", "processing           0", "Timeline of task_", "received", "claimed",
			"DingTalk  to zhang and li: 【应急成像】已发起", "e-mail    to li@example.com: 【应急成像】已发起", "WeChat    to openid-zhang: 瑜伽课", "wechat    sent once"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	}
	demo(0)
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	count := func(sql string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no <> 'lksms-demo'"); n != 0 {
		t.Errorf("the demo submitted %d messages for other companies", n)
	}
	// Run the demo again on the same database, while other messages wait on all its channels and the demo's number has a different default content.
	client := p.client()
	if _, err := client.SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000", Content: new(string("x"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateDefaultContentWithResponse(t.Context(), nil, api.DefaultContentRequest{PhoneNumber: "13800138000", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	somebody := api.ContactChange{
		UserID: "somebody", DingtalkName: nullable.NewNullableWithValue("somebody"), Email: nullable.NewNullableWithValue("somebody@example.com"),
	}
	if _, err := client.PutContactsWithResponse(t.Context(), api.ContactsRequest{Contacts: []api.ContactChange{somebody}}); err != nil {
		t.Fatal(err)
	}
	notified, err := client.CreateNotificationsWithResponse(t.Context(), nil, api.NotificationRequest{
		BizType: 0, BizID: 1, Channels: []string{"dingtalk", "email"}, UserIds: &[]string{"somebody"},
		Payload: api.Payload{"taskName": "x", "creatorName": "x", "createTime": "x"},
	})
	if err != nil || notified.JSON200 == nil {
		t.Fatalf("notify: %v %s", err, notified.Body)
	}
	for range 2 {
		demo(3)
	}
	if n := count("tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no = 'default' AND t.status = 0 AND t.retry_count = 0"); n != 3 {
		t.Errorf("%d of the 3 messages of others still wait", n)
	}
	if n := count("default_contents WHERE is_sent AND company_id = 1"); n != 0 {
		t.Error("the demo sent the default content of another company")
	}
	if n := count("senders WHERE status = 'on'") + count("users WHERE NOT is_disabled") + count("contacts WHERE user_id LIKE 'demo%'"); n != 0 {
		t.Errorf("%d senders, users and contacts of the demo are left", n)
	}
}

func TestMigrateCommandsApplyRevertAndListMigrations(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmpty(t)
	run := func(args ...string) string {
		cmd := exec.Command(binary, append([]string{"migrate"}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = environment("DATABASE_URL=" + databaseURL)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("migrate %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if out := run("status"); !strings.Contains(out, "missing 20261127000001_create_platform.sql") || strings.Contains(out, "applied") {
		t.Errorf("at first:\n%s", out)
	}
	first := run("up")
	if out := run("status"); strings.Contains(out, "missing") {
		t.Errorf("after up:\n%s", out)
	}
	if out := run("up"); out != "0 applied\n" || out == first {
		t.Errorf("up again: %s", out)
	}
	later := 0 // number of reverted migrations; the oldest migrations, which create the schema, cannot be reverted
	for ; ; later++ {
		down := exec.Command(binary, "migrate", "down")
		down.Dir = t.TempDir()
		down.Env = environment("DATABASE_URL=" + databaseURL)
		out, err := down.CombinedOutput()
		if err == nil {
			continue
		}
		if !strings.Contains(string(out), "drop the database") {
			t.Errorf("down from the first version: %v\n%s", err, out)
		}
		break
	}
	if out := run("status"); strings.Count(out, "missing") != later {
		t.Errorf("after down by %d:\n%s", later, out)
	}
	if out := run("up"); later > 0 && out != fmt.Sprintln(later, "applied") {
		t.Errorf("up again by %d: %s", later, out)
	}
	if out := run("status"); strings.Contains(out, "missing") {
		t.Errorf("in the end:\n%s", out)
	}
}

// forerunner is the .env.example of the Python service of the same name, without its comments.
const forerunner = `BASIC_AUTH_USERNAME=admin
BASIC_AUTH_PASSWORD=your_secure_password_here
POSTGRES_PORT=5432
POSTGRES_DB=lksms_db
POSTGRES_USER=lksms_user
POSTGRES_PASSWORD=lksms_password
APP_HOST=0.0.0.0
APP_PORT=8000
DEBUG=false
LOG_LEVEL=INFO
MAX_RETRY_COUNT=3
RETRY_DELAY_MINUTES=5
PROCESSING_TIMEOUT_MINUTES=30
ENABLE_DOCS=true
`

func TestTheServerStartsWithTheEnvironmentOfThePythonService(t *testing.T) {
	t.Parallel()
	folder := pgtest.Dir(t)
	if err := os.WriteFile(filepath.Join(folder, ".env"), []byte(forerunner), 0o600); err != nil {
		t.Fatal(err)
	}
	// The test gives the server another port. The empty password in the environment must not replace the password of the file.
	p := serveIn(t, folder, nil, "LKSMS_DATA="+pgtest.Dir(t), "BASIC_AUTH_PASSWORD=")
	req, err := http.NewRequest("GET", p.url+"/api/v1/admin/task-statistics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", "your_secure_password_here")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("a request with the password of the file is answered with %d", res.StatusCode)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	out := p.output.String()
	if n := strings.Count(out, "POSTGRES_PORT, POSTGRES_DB, POSTGRES_USER, POSTGRES_PASSWORD"); n != 1 || strings.Contains(out, "lksms_password") {
		t.Errorf("%d warnings about ignored settings, want one:\n%s", n, out)
	}
	if !strings.Contains(out, "set a password of your own") {
		t.Errorf("no warning about the sample password:\n%s", out)
	}
}

func TestAGeneratedSecretsKeyIsKeptInItsFile(t *testing.T) {
	t.Parallel()
	databaseURL, file := pgtest.New(t), filepath.Join(pgtest.Dir(t), "volume", "secrets.key")
	// Docker Compose passes unset settings as empty variables.
	env := []string{"DATABASE_URL=" + databaseURL, "SECRETS_KEY_FILE=" + file}
	for _, name := range config.Variables() {
		switch name {
		case "DATABASE_URL", "SECRETS_KEY_FILE", "BASIC_AUTH_PASSWORD":
		default:
			env = append(env, name+"=")
		}
	}
	var keys []string
	for range 2 {
		p := serve(t, env...)
		channel, kind := "wechat", "wechat"
		settings := map[string]any{"appId": "x", "appSecret": "a secret"}
		res, err := p.client().CreateSenderWithResponse(t.Context(), nil, api.SenderRequest{
			SenderNo: fmt.Sprint("sender-", len(keys)), Name: "x", Channel: &channel, Kind: &kind, Config: &settings,
		})
		if err != nil || res.JSON200 == nil {
			t.Errorf("a sender with a secret: %v %s", err, res.Body)
		}
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Errorf("stop: %v", err)
		}
		key, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
	}
	if keys[0] != keys[1] {
		t.Error("the second start generated another key")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("stored with mode %v %v", info.Mode(), err)
	}
}

// The audit records changes by the command line under the name of the user of the operating system.
func TestTheCommandLineIsAudited(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = environment("DATABASE_URL="+databaseURL, "SECRETS_KEY="+secret.NewKey())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	conn := connect(t, databaseURL)
	if _, err := conn.Exec(t.Context(), `SELECT task_partitions_ahead('day', '2026-01-05', '2026-01-05');
		INSERT INTO senders (sender_no, name, kind, channel_id, config) SELECT 'w', 'w', 'wechat', id, '{"appId":"w","appSecret":"open"}' FROM channels WHERE channel = 'wechat';
		DELETE FROM audit`); err != nil {
		t.Fatal(err)
	}
	run("user", "add", "phone", "--role=send")
	run("user", "disable", "phone")
	run("user", "passwd", "phone")
	run("user", "key", "phone", "k")
	run("secrets", "rotate")
	run("history", "drop", "2026-01-05", "--lose")
	const want = `created user phone, changed user phone, changed user phone, created api_key phone/1, changed sender w, changed partition 2026-01-05`
	if got := scan[string](t, conn, "SELECT string_agg(action || ' ' || entity || ' ' || entity_key, ', ' ORDER BY id) FROM audit"); got != want {
		t.Errorf("audit has %s, want %s", got, want)
	}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := scan[string](t, conn, "SELECT string_agg(DISTINCT coalesce(actor, 'nobody'), ',') FROM audit"), "cli:"+who.Username; got != want {
		t.Errorf("the actor is %s, want %s", got, want)
	}
	if n := scan[int](t, conn, "SELECT count(*) FROM audit a WHERE a::text LIKE '%\"open%' OR a::text LIKE '%sealed:%'"); n > 0 {
		t.Errorf("%d rows have the secret", n)
	}
}

// B12: the operator grants a role the right to submit, lists it, and revokes it. The audit records both changes.
func TestSQLCommandsGrantListAndRevoke(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	run := func(args ...string) (string, error) {
		cmd := exec.Command(binary, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = environment("DATABASE_URL=" + databaseURL)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	expect := func(want string, args ...string) {
		t.Helper()
		if out, err := run(args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	role := "shop_" + strings.ToLower(rand.Text())[:12]
	admin := connect(t, pgtest.Admin(t, databaseURL))
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role); err != nil {
		t.Fatal(err)
	}
	expect("", "user", "add", "jane", "--role=submit")
	expect("", "user", "add", "reader", "--role=read")
	for _, args := range [][]string{{"jane", "no_such_role"}, {"nobody", role}, {"reader", role}} {
		if out, err := run(append([]string{"sql", "grant"}, args...)...); err == nil || !strings.Contains(out, "not_there") {
			t.Errorf("grant %v: %v\n%s", args, err, out)
		}
	}
	expect("", "sql", "grant", "jane", role)
	expect("", "sql", "grant", "jane", role) // the command is repeated
	expect(role, "sql", "list")
	conn := connect(t, databaseURL)
	if may := scan[bool](t, conn, "SELECT has_schema_privilege($1, 'lksms', 'USAGE')", role); !may {
		t.Error("the role lacks the schema")
	}
	expect("", "user", "disable", "jane")
	expect("the user is disabled", "sql", "list")
	expect("", "sql", "revoke", role)
	if out, err := run("sql", "revoke", role); err == nil || !strings.Contains(out, "not_there") {
		t.Errorf("revoked twice: %v\n%s", err, out)
	}
	if _, err := admin.Exec(t.Context(), "DROP ROLE "+role); err != nil {
		t.Errorf("something keeps the role: %v", err)
	}
	const want = "created sql_role cli:, deleted sql_role cli:"
	if got := scan[string](t, conn, "SELECT string_agg(action || ' ' || entity || ' ' || left(actor, 4), ', ' ORDER BY id) FROM audit WHERE entity_key = $1", role); got != want {
		t.Errorf("audit has %s, want %s", got, want)
	}
}

// The roles of db/roles.sql cannot connect without a grant. sql revoke takes back a CONNECT that sql grant granted, so that the role can be dropped. A CONNECT
// that the role had before stays.
func TestSQLRevokeTakesBackTheConnectOfSQLGrant(t *testing.T) {
	t.Parallel()
	ownersURL := pgtest.New(t)
	serviceRole(t, ownersURL)
	admin := connect(t, pgtest.Admin(t, ownersURL))
	run := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run("INSERT INTO users (username, role) VALUES ('jane', 'submit')")
	for _, hadConnect := range []bool{false, true} {
		role := "shop_" + strings.ToLower(rand.Text())[:12]
		run("CREATE ROLE " + role)
		if hadConnect {
			run("GRANT CONNECT ON DATABASE " + admin.Config().Database + " TO " + role)
		}
		for _, args := range []string{"grant jane " + role, "grant jane " + role, "revoke " + role} {
			cmd := exec.Command(binary, append([]string{"sql"}, strings.Fields(args)...)...)
			cmd.Dir = t.TempDir()
			cmd.Env = environment("DATABASE_URL=" + ownersURL)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("sql %s: %v\n%s", args, err, out)
			}
			can := scan[bool](t, admin, "SELECT has_database_privilege($1, current_database(), 'CONNECT')", role)
			if want := hadConnect || strings.HasPrefix(args, "grant"); can != want {
				t.Errorf("had CONNECT: %v; after sql %s: %v, want %v", hadConnect, args, can, want)
			}
		}
		if hadConnect {
			run("REVOKE CONNECT ON DATABASE " + admin.Config().Database + " FROM " + role)
		}
		run("DROP ROLE " + role) // fails if a grant still depends on the role
	}
}

func TestUserCommandsManageUsersAndKeys(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	run := func(input string, args ...string) (string, error) {
		cmd := exec.Command(binary, append([]string{"user"}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = environment("DATABASE_URL=" + databaseURL)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	must := func(input string, args ...string) string {
		t.Helper()
		out, err := run(input, args...)
		if err != nil {
			t.Fatalf("user %v: %v\n%s", args, err, out)
		}
		return out
	}
	first := must("", "add", "phone", "--role=send", "--app-id=app_1")
	must("\uFEFFa password from stdin\r\n", "add", "system", "--role=submit", "--password-stdin")
	key := must("", "key", "system", "production")
	p := serve(t, "DATABASE_URL="+databaseURL)
	status := func(username, password, path string) int {
		t.Helper()
		req, err := http.NewRequest("GET", p.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(username, password)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	const pending, tasks = "/api/v1/sms/tasks/pending?app_id=app_1", "/api/v1/sms/tasks"
	for _, c := range []struct {
		username, password, path string
		want                     int
	}{
		{"phone", first, pending, 200},
		{"phone", first, tasks, 403},
		{"system", "a password from stdin", tasks, 200},
		{"system", key, tasks, 200},
	} {
		if got := status(c.username, c.password, c.path); got != c.want {
			t.Errorf("%s on %s: %d, want %d", c.username, c.path, got, c.want)
		}
	}
	second := must("", "passwd", "phone")
	if got := status("phone", second, pending); got != 200 {
		t.Errorf("with the new password: %d", got)
	}
	must("", "disable", "system")
	if got := must("", "list"); got != "submit   disabled system\nsend     enabled  phone as app_1" {
		t.Errorf("listed:\n%s", got)
	}
	must("", "enable", "system")
	must("", "add", "tabs", "--role=send", "--app-id=a\nadmin    enabled  fake")
	if got := must("", "list"); !strings.HasPrefix(got, "send     enabled  tabs as a\\nadmin    enabled  fake\n") {
		t.Errorf("listed:\n%s", got)
	}
	for _, name := range []string{"z\tx", "..", "q\nsubmit   enabled  fake"} {
		if out, err := run("", "add", name, "--role=submit"); err == nil || !strings.Contains(out, "username wrong_format") {
			t.Errorf("the name %q: %v %s", name, err, out)
		}
	}
	if out, err := run("a password with \xff\n", "passwd", "phone", "--password-stdin"); err == nil || !strings.Contains(out, "password wrong_format") {
		t.Errorf("a password that is not UTF-8: %v %s", err, out)
	}
	if out, err := run("", "add", "phone", "--role=read"); err == nil || !strings.Contains(out, "user.exists") {
		t.Errorf("a user that exists: %v %s", err, out)
	}
	if out, err := run("", "add", "admin", "--role=read"); err == nil || !strings.Contains(out, "BASIC_AUTH_USERNAME") {
		t.Errorf("the name of the configured admin: %v %s", err, out)
	}
	if out, err := run("short\n", "passwd", "phone", "--password-stdin"); err == nil || !strings.Contains(out, "at least 12") {
		t.Errorf("a short password: %v %s", err, out)
	}
	if out, err := run("", "disable", "nobody"); err == nil || !strings.Contains(out, "user.not_found") {
		t.Errorf("an unknown user: %v %s", err, out)
	}
}

func TestAnInvalidSettingIsRejectedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ env, says string }{
		"a port that is no number":             {"APP_PORT=http", "APP_PORT"},
		"a port that is too large":             {"APP_PORT=70000", "APP_PORT"},
		"too many retries":                     {"MAX_RETRY_COUNT=21", "MAX_RETRY_COUNT"},
		"negative retries":                     {"MAX_RETRY_COUNT=-1", "MAX_RETRY_COUNT"},
		"a delay that is no number":            {"RETRY_DELAY_MINUTES=soon", "RETRY_DELAY_MINUTES"},
		"a delay of NaN":                       {"RETRY_DELAY_MINUTES=NaN", "RETRY_DELAY_MINUTES"},
		"a lease time of zero":                 {"PROCESSING_TIMEOUT_MINUTES=0", "PROCESSING_TIMEOUT_MINUTES"},
		"an unknown level":                     {"LOG_LEVEL=loud", "LOG_LEVEL"},
		"an invalid boolean":                   {"ENABLE_DOCS=perhaps", "ENABLE_DOCS"},
		"the sample password":                  {"APP_HOST=0.0.0.0\nBASIC_AUTH_PASSWORD=your_secure_password", "BASIC_AUTH_PASSWORD"},
		"the other sample password":            {"APP_HOST=192.168.1.1\nBASIC_AUTH_PASSWORD=your_password_here", "BASIC_AUTH_PASSWORD"},
		"a short password":                     {"BASIC_AUTH_PASSWORD=your_secure", "BASIC_AUTH_PASSWORD"},
		"a proxy that is no address":           {"TRUSTED_PROXIES=10.0.0.0/8,proxy", "TRUSTED_PROXIES"},
		"an origin with a path":                {"CORS_ORIGINS=https://x.example/y", "CORS_ORIGINS"},
		"a certificate without a key":          {"TLS_CERT_FILE=/tmp/cert.pem", "TLS_KEY_FILE"},
		"no connections":                       {"MAX_CONNECTIONS=0", "MAX_CONNECTIONS"},
		"no URL":                               {"DATABASE_URL=mysql:secret-word@x", "DATABASE_URL"},
		"a path that is too long for a socket": {"LKSMS_DATA=/tmp/" + strings.Repeat("x", 100), "LKSMS_DATA"},
		"a folder without PostgreSQL programs": {"LKSMS_DATA=" + pgtest.Dir(t) + "\nLKSMS_PG_BIN=/nonexistent", "LKSMS_PG_BIN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(binary, "serve")
			cmd.Dir = t.TempDir()
			// The test sets the variable in .env. A variable in the environment would take precedence.
			if err := os.WriteFile(filepath.Join(cmd.Dir, ".env"), []byte(c.env+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd.Env = environment()
			if !strings.Contains(c.env, "APP_PORT") {
				cmd.Env = append(cmd.Env, "APP_PORT=0")
			}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("the server started: %v\n%s", err, out)
			}
			if !strings.Contains(string(out), c.says) {
				t.Errorf("the output does not name %s:\n%s", c.says, out)
			}
			if strings.Contains(string(out), "secret-word") || strings.Contains(string(out), "your_secure") {
				t.Errorf("the output repeats a secret:\n%s", out)
			}
		})
	}
}

func TestHelpListsVariablesAndDefaults(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(binary, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"APP_HOST", "APP_PORT", "BASIC_AUTH_USERNAME", "BASIC_AUTH_PASSWORD", "DATABASE_URL", "DEBUG", "MAX_RETRY_COUNT",
		"RETRY_DELAY_MINUTES", "PROCESSING_TIMEOUT_MINUTES", "LOG_LEVEL", "ENABLE_DOCS", "LKSMS_DATA", "LKSMS_PG_BIN",
		"8000", "127.0.0.1",
	} {
		if !bytes.Contains(out, []byte(name)) {
			t.Errorf("the help does not name %s", name)
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// serviceRole creates a role for lksms serve with db/roles.sql, on a database without migrations.
func serviceRole(t *testing.T, ownersURL string) (url string) {
	t.Helper()
	role := "service_" + strings.ToLower(rand.Text())
	owner, err := pgx.ParseConfig(ownersURL)
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile("../../db/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, pgtest.Admin(t, ownersURL))
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD '"+role+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	names := strings.NewReplacer("DATABASE lksms", "DATABASE "+owner.Database, "lksms_owner", owner.User, "lksms_service", role)
	if _, err := admin.Exec(t.Context(), names.Replace(string(documented))); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(ownersURL, owner.User+":"+owner.Password+"@", role+":"+role+"@", 1)
}

func TestTheServerRunsWithoutRightsToChangeTheSchema(t *testing.T) {
	t.Parallel()
	ownersURL := pgtest.NewEmpty(t)
	databaseURL := serviceRole(t, ownersURL)
	early := exec.Command(binary, "serve", "--app-port=0")
	early.Dir, early.Env = t.TempDir(), environment("DATABASE_URL="+databaseURL, "BASIC_AUTH_PASSWORD="+testPassword)
	if out, err := early.CombinedOutput(); err == nil || !strings.Contains(string(out), "lksms migrate up") {
		t.Errorf("without the migrations: %v\n%s", err, out)
	}
	if _, err := migrate.Up(t.Context(), ownersURL, nil); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, databaseURL)
	for _, sql := range []string{"CREATE TABLE another (id int)", "ALTER TABLE queue ADD another int", "DROP VIEW tasks", "TRUNCATE messages"} {
		var refused *pgconn.PgError
		if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	p := serve(t, "DATABASE_URL="+databaseURL, "SECRETS_KEY="+secret.NewKey())
	for _, args := range [][]string{{"demo", "--url=" + p.url, "--count=10"}, {"migrate", "up"}, {"user", "add", "phone", "--role=send"}} {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = t.TempDir(), environment("DATABASE_URL="+databaseURL, "BASIC_AUTH_PASSWORD="+testPassword)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	eventually(t, "the sweeps count the changes", func() bool {
		return scan[int](t, conn, "SELECT count(*) FROM facts") == 0
	})
	// The role can create partitions of charges and batch rows, drop old partitions, and has the same privileges on all of them.
	const unequal = `SELECT coalesce(string_agg(p.relid::regclass::text, ' '), '') FROM pg_partition_tree($1) p WHERE NOT (
		has_table_privilege(p.relid, 'SELECT') AND has_table_privilege(p.relid, 'INSERT') AND has_table_privilege(p.relid, 'UPDATE') AND has_table_privilege(p.relid, 'DELETE'))`
	for parent, numbers := range map[string]string{"sender_ledger": "lease_ids", "batch_rows": "batches_id_seq"} {
		partitions := scan[int](t, conn, "SELECT count(*) FROM pg_partition_tree($1)", parent)
		for range 6 { // alternately starts a partition and creates the next one
			scan[int64](t, conn, "SELECT nextval($1::text::regclass)", numbers)
			if _, err := conn.Exec(t.Context(), "UPDATE number_partitions SET entered_at = now() - interval '3 days' WHERE entered_at IS NOT NULL"); err != nil {
				t.Fatal(err)
			}
			scan[int](t, conn, "SELECT number_partitions_ahead($1, '1 day')", parent)
		}
		if made := scan[int](t, conn, "SELECT count(*) FROM pg_partition_tree($1)", parent); made <= partitions {
			t.Errorf("%s has %d partitions, had %d", parent, made, partitions)
		}
		if tables := scan[string](t, conn, unequal, parent); tables != "" {
			t.Errorf("the role lacks rights on %s", tables)
		}
	}
	if _, err := conn.Exec(t.Context(), "UPDATE number_partitions SET left_at = now() - interval '1 year' WHERE left_at IS NOT NULL"); err != nil {
		t.Fatal(err)
	}
	if dropped := scan[string](t, conn, "SELECT ledger_partition_drop('9 days', 'x') || ' ' || batch_partition_drop('9 days')"); dropped != "1 1" {
		t.Errorf("dropped %s partitions of charges and of rows of batches", dropped)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	if out := p.output.String(); strings.Contains(out, "permission denied") || strings.Contains(out, "sweep failed") {
		t.Errorf("the role lacks a right:\n%s", out)
	}
}
