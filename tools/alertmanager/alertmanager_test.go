// Package alertmanager runs a real Alertmanager. It is a separate module, so that the server does not depend on Alertmanager.
package alertmanager

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	password = "a long test password"
	patience = 30 * time.Second
)

// config makes Alertmanager post at once, with the API key of a user.
const config = `
route:
  receiver: phones
  group_by: [alertname]
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: phones
    webhook_configs:
      - url: %s/api/v1/inbound/alertmanager
        max_alerts: 20
        http_config:
          authorization: {credentials: %s}
`

// B16: an alert of a real Alertmanager reaches a phone, and the end of the alert also reaches the phone. Two Alertmanagers that do not know each other cause
// one message.
func TestAnAlertOfAnAlertmanagerReachesAPhone(t *testing.T) {
	folder := t.TempDir()
	server := startServer(t, program(t, "lksms"))
	server.do("POST", "/api/v1/admin/users", `{"username":"alertmanager","role":"submit"}`)
	var made struct{ Key string }
	decode(t, server.do("POST", "/api/v1/admin/users/alertmanager/keys", `{"name":"alertmanager"}`), &made)
	server.do("POST", "/api/v1/admin/inbounds", `{"inbound_no":"alertmanager","preset":"alertmanager","phone_numbers":["13800138000"]}`)

	file := filepath.Join(folder, "alertmanager.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, server.url, made.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	first := startAlertmanager(t, folder, file, "first")
	begin := time.Now().UTC().Add(-time.Minute)
	alert := func(to string, end time.Time) {
		post(t, to, []map[string]any{{
			"labels": map[string]string{"alertname": "HostDown", "instance": "db1"}, "annotations": map[string]string{"summary": "db1 does not answer"},
			"startsAt": begin, "endsAt": end,
		}})
	}
	alert(first, time.Now().Add(time.Hour))
	if got := server.claim(); got != "[firing:1] HostDown: db1 does not answer" {
		t.Fatalf("the phone got %q", got)
	}

	second := startAlertmanager(t, folder, file, "second")
	alert(second, time.Now().Add(time.Hour))
	eventually(t, "the second Alertmanager posts", func() bool {
		return strings.Contains(get(t, second+"/metrics"), `alertmanager_notification_requests_total{integration="webhook"} 1`)
	})
	alert(first, time.Now())
	if got := server.claim(); got != "[resolved:1] HostDown: db1 does not answer" { // no other message came before
		t.Fatalf("the phone got %q", got)
	}
	for _, one := range []string{first, second} {
		if metrics := get(t, one+"/metrics"); regexp.MustCompile(`alertmanager_notifications_failed_total\{.*integration="webhook".*\} [1-9]`).MatchString(metrics) {
			t.Error("a post was refused")
		}
	}
}

// program returns the path of a program that make has built.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs a program until the end of the test, and returns its output.
func start(t *testing.T, name string, env []string, args ...string) (log *os.File) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // the context of t ends before the cleanup
	command := exec.CommandContext(ctx, name, args...)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), env...), log, log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 20 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // the error is ignored, because the program was interrupted
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), contents(t, log))
		}
	})
	return log
}

func contents(t *testing.T, file *os.File) string {
	t.Helper()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not within %s: %s", patience, what)
}

// server is a running LKSMS.
type server struct {
	t   *testing.T
	url string
}

func startServer(t *testing.T, program string) server {
	t.Helper()
	log := start(t, program, []string{"BASIC_AUTH_USERNAME=admin", "BASIC_AUTH_PASSWORD=" + password, "APP_PORT=0"}, "serve")
	s := server{t: t}
	address := regexp.MustCompile(`(?m)^ *address *(\S+)`)
	eventually(t, "the server says its address", func() bool {
		found := address.FindStringSubmatch(contents(t, log))
		if found != nil {
			s.url = found[1]
		}
		return found != nil
	})
	return s
}

// do sends a request as the admin, and returns the data of the answer.
func (s server) do(method, path, body string) json.RawMessage {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth("admin", password)
	req.Header.Set("Content-Type", "application/json")
	var answer struct{ Data json.RawMessage }
	decode(s.t, send(s.t, req), &answer)
	return answer.Data
}

// claim waits for a message in the same way as a phone, and returns its text.
func (s server) claim() string {
	s.t.Helper()
	var tasks []struct{ Content string }
	eventually(s.t, "a message arrives", func() bool {
		decode(s.t, s.do("GET", "/api/v1/sms/tasks/pending?app_id=phone&wait=5", ""), &tasks)
		return len(tasks) > 0
	})
	if len(tasks) > 1 {
		s.t.Fatalf("the phone got %v", tasks)
	}
	return tasks[0].Content
}

// startAlertmanager returns the URL of an Alertmanager that belongs to no cluster.
func startAlertmanager(t *testing.T, folder, config, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	start(t, program(t, "alertmanager"), nil, "--config.file="+config, "--storage.path="+filepath.Join(folder, name),
		"--web.listen-address="+address, "--cluster.listen-address=")
	url := "http://" + address
	eventually(t, "Alertmanager is ready", func() bool {
		res, err := http.Get(url + "/-/ready") //nolint:gosec,noctx // the address of this test
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return url
}

func post(t *testing.T, alertmanager string, alerts any) {
	t.Helper()
	body, err := json.Marshal(alerts)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, alertmanager+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	send(t, req)
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(send(t, req))
}

// send returns the body of an answer, which must be a success.
func send(t *testing.T, req *http.Request) []byte {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v %s", req.Method, req.URL, res.StatusCode, err, body)
	}
	return body
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
