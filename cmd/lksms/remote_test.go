package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lksms/client"
	"lksms/cmd/lksms/remote"
	"lksms/cmd/lksms/sender"
	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// shell runs commands against a server.
type shell struct {
	t      *testing.T
	dir    string // working folder, and folder of the profiles
	env    []string
	stdin  string
	server *apptest.Bundle
}

// newShell starts a server and its sweeps. It returns a shell with the credentials of the server's admin.
func newShell(t *testing.T) *shell {
	t.Helper()
	return newShellOf(t, apptest.New(t))
}

func newShellOf(t *testing.T, b *apptest.Bundle) *shell {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	t.Cleanup(func() { stop(); <-served })
	s := &shell{t: t, dir: pgtest.Dir(t), server: b}
	s.env = []string{"LKSMS_URL=" + b.URL, "LKSMS_USER=" + apptest.Username, "LKSMS_PASSWORD=" + apptest.Password}
	return s
}

// with returns a shell with additional environment variables.
func (s *shell) with(env ...string) *shell {
	other := *s
	other.env = env
	return &other
}

func (s *shell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(s.stdin)
	cmd.Env = append(environment("TZ=UTC", "XDG_CONFIG_HOME="+s.dir), s.env...)
	return cmd
}

// run runs a command and returns its output and exit status.
func (s *shell) run(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	var out, problems bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		s.t.Fatalf("%v: %v", args, err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// expect runs a command. It fails the test unless the command has this exit status and its standard error contains all of these texts.
func (s *shell) expect(status int, texts []string, args ...string) string {
	s.t.Helper()
	out, problems, got := s.run(args...)
	if got != status {
		s.t.Errorf("%v: exit status %d, want %d: %s%s", args, got, status, out, problems)
	}
	for _, text := range texts {
		if !strings.Contains(problems, text) {
			s.t.Errorf("%v: %q does not name %q", args, problems, text)
		}
	}
	if len(texts) == 0 && problems != "" {
		s.t.Errorf("%v: standard error is a pipe, and has %q", args, problems)
	}
	return out
}

// decode runs a command with -o json and decodes its output.
func decode[T any](s *shell, args ...string) (v T) {
	s.t.Helper()
	out := s.expect(0, nil, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return v
}

var (
	someTask = regexp.MustCompile(`task_\d{8}_[0-9A-Z]{26}`)
	someCode = regexp.MustCompile(`vrf_[0-9A-Z]+`)
	someTime = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
)

// golden replaces the ids and times in an output, which differ between runs. Widths stay the same, except that of verifications, which are in no table.
func golden(out string) string {
	out = someCode.ReplaceAllString(someTask.ReplaceAllString(out, "task_________TASK______________________"), "vrf___")
	return someTime.ReplaceAllString(out, "yyyy-mm-dd hh:mm:ss")
}

func (s *shell) expectTable(want string, args ...string) {
	s.t.Helper()
	if got := golden(s.expect(0, nil, args...)); got != want {
		s.t.Errorf("%v:\n%s\nwant:\n%s", args, got, want)
	}
}

func TestMessageCommandsSubmitAndShowTasks(t *testing.T) {
	s := newShell(t)
	s.expectTable(`task    task_________TASK______________________
status  PENDING
text    您的快递已到
`, "send", apptest.Phone, "您的快递已到", "--source", "shop")
	s.stdin = "from a pipe\n"
	sent := decode[client.Submitted](s, "send", apptest.Phone, "-", "--priority", "3", "--dedup-key", "order-1")
	if task := s.server.Task(sent.TaskID); task.Content != "from a pipe" || task.Priority != 3 {
		t.Errorf("task: %+v", task)
	}
	if again := decode[client.Submitted](s, "send", apptest.Phone, "-", "--dedup-key", "order-1"); again.TaskID != sent.TaskID || !*again.Deduplicated {
		t.Errorf("again: %+v", again)
	}
	s.expectTable(`task      task_________TASK______________________
status    PENDING
number    13800138000
text      from a pipe
type      notification
segments  1
retries   0
created   yyyy-mm-dd hh:mm:ss
due       yyyy-mm-dd hh:mm:ss
`, "status", sent.TaskID)
	s.expectTable(`TIME                 EVENT     SENDER  EFFECT  MESSAGE
yyyy-mm-dd hh:mm:ss  received
yyyy-mm-dd hh:mm:ss  repeated
`, "status", sent.TaskID, "--events")
	s.server.AddSender(map[string]any{"sender_no": "phone_7", "status": "off"})
	if out := s.expect(0, nil, "explain", sent.TaskID); !strings.Contains(out, "why        ") || !strings.Contains(out, "phone_7 cannot take it: off") {
		t.Errorf("explain:\n%s", out)
	}
	abroad := decode[client.Submitted](s, "send", "0812-3456-7890", "x", "--default-region", "ID")
	if task := s.server.Task(abroad.TaskID); task.PhoneNumber != "+6281234567890" {
		t.Errorf("a number of a region: %+v", task)
	}
	before := s.server.Count("SELECT count(*) FROM messages")
	s.expect(0, nil, "send", "\u202a(138)\u00a0００１３\u2011８０００\u202c", "x", "--dry-run") // a copied number
	if out := s.expect(0, nil, "send", apptest.Phone, "x", "--dry-run"); !strings.HasPrefix(out, "verdict    would wait\n") {
		t.Errorf("dry run: %s", out)
	}
	s.server.SetQuiet("marketing", -time.Hour, 5*time.Hour)
	if out := s.expect(0, nil, "send", apptest.Phone, "x", "--type", "marketing", "--dry-run"); !strings.Contains(out, "\nreason     quiet hours\nuntil      20") {
		t.Errorf("dry run in quiet hours: %s", out)
	}
	cancels := "POST        " + s.server.URL + "/api/v1/sms/task/" + sent.TaskID + "/cancel"
	if out := s.expect(0, nil, "cancel", sent.TaskID, "--dry-run"); !strings.Contains(out, cancels) || strings.Contains(out, "Basic") {
		t.Errorf("dry run: %s", out)
	}
	planned := decode[[]remote.UnsentRequest](s, "requeue", sent.TaskID, "--remark", "why", "--dry-run")
	if len(planned) != 1 || planned[0].Body != `{"remark":"why"}` {
		t.Errorf("dry run: %+v", planned)
	}
	if after := s.server.Count("SELECT count(*) FROM messages"); after != before || s.server.Task(sent.TaskID).Status != api.TaskPending {
		t.Errorf("a dry run changed something")
	}
	s.expectTable(`TASK                                      STATUS
task_________TASK______________________  CANCELLED
`, "cancel", sent.TaskID)
	s.expect(1, []string{"task.not_pending", "lksms status"}, "cancel", sent.TaskID)
	s.expect(1, []string{"task.not_found"}, "requeue", "task_none", sent.TaskID)
	if status := s.server.Task(sent.TaskID).Status; status != api.TaskPending {
		t.Errorf("the status of the second task is %d: the refusal of the first task must not prevent its requeue", status)
	}
}

func TestSendWaitsForTheEndOfTheTask(t *testing.T) {
	s := newShell(t)
	s.server.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_name": "code", "template_no": "login-code", "template_content": "Your code is {code}",
	})
	// The message is stored, so both output formats must contain its task.
	out := s.expect(3, []string{"--timeout"}, "send", apptest.Phone, "x", "--wait", "--timeout", "2s", "-o", "json")
	var stored client.Submitted
	if err := json.Unmarshal([]byte(out), &stored); err != nil || s.server.Task(stored.TaskID).Status != api.TaskPending {
		t.Fatalf("printed: %s, %v", out, err)
	}
	s.server.Report(s.server.ClaimIDs(10)[0], "app", 2, nil)
	out = s.expect(3, []string{"--timeout"}, "send", apptest.Phone, "x", "--wait", "--timeout", "2s")
	if !strings.HasPrefix(out, "task    task_") {
		t.Errorf("printed: %s", out)
	}
	s.server.Report(s.server.ClaimIDs(10)[0], "app", 2, nil)
	for status, want := range map[int]int{2: 0, 3: 1} {
		done := make(chan string, 1)
		go func() {
			out, _, got := s.run("send", apptest.Phone, "--template", "login-code", "--param", "code=12=34", "--wait")
			done <- fmt.Sprintln(got) + out
		}()
		var ids []string
		apptest.Eventually(t, "the message exists", func() bool { ids = s.server.ClaimIDs(1); return len(ids) == 1 })
		s.server.Report(ids[0], "app", status, map[string]any{"error_message": "空号\x1b[31m"})
		out = <-done
		if !strings.HasPrefix(out, fmt.Sprintln(want)) || !strings.Contains(out, "text      Your code is 12=34") || strings.Contains(out, "\x1b") {
			t.Errorf("the report %d: %s", status, out)
		}
		s.expect(want, map[bool][]string{true: nil, false: {"FAILED"}}[want == 0], "watch", ids[0])
	}
}

// A script that repeats a command after the exit status 3 must not send twice.
func TestSendPrintsTheIdempotencyKeyWhenTheOutcomeIsUnknown(t *testing.T) {
	s := newShell(t)
	var asked atomic.Int64
	hang := make(chan struct{})
	proxy := passOn(t, s.server.URL, nil)
	losing := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		asked.Add(1)
		<-hang
	}))
	t.Cleanup(losing.Close)
	t.Cleanup(func() { close(hang) })
	direct := *s
	s = s.with(append([]string{"LKSMS_URL=" + losing.URL}, s.env[1:]...)...)
	hint := regexp.MustCompile(`It may be stored: repeat with (--idempotency-key) (\S+)`)
	repeat := func(problems string) {
		t.Helper()
		flag := hint.FindStringSubmatch(problems)
		if flag == nil || strings.Contains(problems, "Is the server running") {
			t.Fatalf("standard error: %s", problems)
		}
		before := s.server.Count("SELECT count(*) FROM messages")
		direct.expect(0, nil, "send", apptest.Phone, "x", flag[1], flag[2])
		if after := s.server.Count("SELECT count(*) FROM messages"); before == 0 || after != before {
			t.Errorf("%d messages became %d", before, after)
		}
	}
	_, problems, status := s.run("send", apptest.Phone, "x", "--timeout", "2s")
	if status != 3 {
		t.Errorf("a lost answer: exit status %d", status)
	}
	repeat(problems)
	cmd := s.command("send", apptest.Phone, "x")
	var said lockedBuffer
	cmd.Stderr = &said
	before := asked.Load()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "it has sent", func() bool { return asked.Load() > before })
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("an interruption: exit status %d", got)
	}
	repeat(said.String())
	out, problems, status := s.with("LKSMS_URL=http://127.0.0.1:1", "LKSMS_KEY=k").run("send", apptest.Phone, "x", "--timeout", "200ms")
	if status != 3 || out != "" || !strings.Contains(problems, "Is the server running") || hint.MatchString(problems) {
		t.Errorf("no connection: exit status %d: %s%s", status, out, problems)
	}
}

// A batch is created with each field of the API, and --strict fails if the server guessed the encoding.
func TestBatchCommandsNameTheEncodingAndOtherFields(t *testing.T) {
	s := newShell(t)
	if err := os.WriteFile(filepath.Join(s.dir, "latin.csv"), []byte("phone,name\n13800138000,M\xFCller\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]string{{"--html", "<b>x</b>"}, {"--sign-column", "nowhere"}, {"--company-no", "nobody"}, {"--encoding", "latin"}} {
		s.expect(1, []string{wrong[0]}, "batch", "create", "latin.csv", "--content", "x", wrong[0], wrong[1])
	}
	s.expect(1, []string{"--biz-type"}, "batch", "create", "latin.csv", "--biz-type", "7")
	doubtful := decode[client.BatchCreated](s, "batch", "create", "latin.csv", "--content", "{name}")
	number := strconv.FormatInt(doubtful.BatchID, 10)
	s.expect(0, nil, "batch", "check", number)
	s.expect(1, []string{"encoding is doubtful"}, "batch", "check", number, "--strict")
	named := decode[client.BatchCreated](s, "batch", "create", "latin.csv", "--content", "{name}", "--encoding", "Windows-1252")
	number = strconv.FormatInt(named.BatchID, 10)
	s.expect(0, []string{}, "batch", "check", number, "--strict")
}

func TestBatchCommandsUploadAndControlBatches(t *testing.T) {
	s := newShell(t)
	list := "phone,name\n13800138000,张三\n13800138001,李四\n12,x\n13800138000,again\n"
	if err := os.WriteFile(filepath.Join(s.dir, "list.csv"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := decode[remote.UnsentRequest](s, "batch", "create", "list.csv", "--content", "{name}，您好", "--dry-run")
	if !strings.Contains(shown.Body, "multipart/form-data") {
		t.Errorf("dry run: %+v", shown)
	}
	s.expect(1, []string{"default_region (--default-region)"}, "batch", "create", "list.csv", "--content", "x", "--default-region", "XX")
	s.expect(1, []string{"content (the text, --content)", "nobody"}, "batch", "create", "list.csv", "--content", "{nobody}")
	for range 2 {
		s.expectTable("batch   1\nstatus  checking\n",
			"batch", "create", "list.csv", "--content", "{name}，您好", "--name", "recall", "--idempotency-key", "k")
	}
	s.expectTable(`batch     1
name      recall
status    ready
text      {name}，您好
rows      2 valid, 1 invalid, 1 duplicate
segments  2
created   yyyy-mm-dd hh:mm:ss
ROW  NUMBER          STATUS     WHY
4    12              invalid    phone_number is not a phone number that can be dialled
5    +8613800138000  duplicate  phone_number repeats row 2
`, "batch", "check", "1")
	s.expect(1, []string{"2 rows"}, "batch", "check", "1", "--strict")
	s.expect(3, []string{"--timeout"}, "watch", "1", "--timeout", "200ms")
	if planned := decode[remote.UnsentRequest](s, "batch", "confirm", "1", "--dry-run"); !strings.HasSuffix(planned.URL, "/api/v1/batches/1/confirm") {
		t.Errorf("dry run: %+v", planned)
	}
	s.expect(0, nil, "batch", "confirm", "1")
	s.expect(0, nil, "batch", "pause", "1")
	s.expect(0, nil, "batch", "resume", "1")
	s.server.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": "off"})
	for _, args := range [][]string{{"batch", "check", "1"}, {"send", apptest.Phone, "x", "--dry-run"}} {
		if out := s.expect(0, nil, args...); !regexp.MustCompile(`(?m)^held by +channel sms$`).MatchString(out) {
			t.Errorf("%v names no switch: %s", args, out)
		}
	}
	s.server.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": "on"})
	done := make(chan int, 1)
	go func() { _, _, status := s.run("batch", "watch", "1"); done <- status }()
	taken := 0
	apptest.Eventually(t, "both are claimed", func() bool {
		for _, id := range s.server.ClaimIDs(10) {
			s.server.Report(id, "app", 2+taken, nil)
			taken++
		}
		return taken == 2
	})
	if status := <-done; status != 1 {
		t.Errorf("a batch of which one message failed: exit status %d", status)
	}
	s.expectTable(`BATCH  NAME    STATUS    VALID  SUCCESS  FAILED  CREATED
1      recall  finished  2      1        1       yyyy-mm-dd hh:mm:ss
`, "batch", "list")
	if again := decode[client.BatchRequeued](s, "batch", "requeue", "1"); again.Count != 1 {
		t.Errorf("requeue: %+v", again)
	}
	s.expect(0, nil, "batch", "cancel", "1")
	s.expect(1, []string{"batch.not_found"}, "batch", "watch", "99")
}

func TestVerifyCommandsSendAndCheckCodes(t *testing.T) {
	s := newShellOf(t, apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets))
	start := []string{"verify", "start", apptest.Phone, "--purpose", "login", "--language", "en", "--client-ip", "203.0.113.9", "--idempotency-key", "k"}
	s.expect(2, []string{"--purpose"}, "verify", "start", apptest.Phone)
	s.expect(2, []string{"--user-id"}, "verify", "start", "--purpose", "login")
	s.expect(1, []string{"client_ip (--client-ip)"}, "verify", "start", apptest.Phone, "--purpose", "login", "--client-ip", "x")
	if planned := decode[remote.UnsentRequest](s, append(start, "--dry-run")...); !strings.Contains(planned.Body, `"purpose":"login"`) {
		t.Errorf("dry run: %+v", planned)
	}
	s.expectTable(`verification  vrf___
task          task_________TASK______________________
expires       yyyy-mm-dd hh:mm:ss
resend after  yyyy-mm-dd hh:mm:ss
`, start...)
	id := decode[client.VerificationStarted](s, start...).VerificationID
	// A limit of the person is no overload of the server: the command does not wait for its end.
	s.expect(3, []string{"recipient.limited"}, "verify", "resend", id, "--client-ip", "203.0.113.9")
	s.server.Exec("UPDATE capped_recipients SET times = ARRAY(SELECT t - interval '61 seconds' FROM unnest(times) AS t)")
	if again := decode[client.VerificationStarted](s, "verify", "resend", id); again.VerificationID != id {
		t.Errorf("sent again: %+v", again)
	}
	digits := regexp.MustCompile(`\d{6,}`)
	tasks := s.server.Claim("app", 2)
	if len(tasks) != 2 || tasks[0].Content != tasks[1].Content {
		t.Fatalf("claimed: %+v", tasks)
	}
	code := digits.FindString(tasks[0].Content)
	s.stdin = "wrong\n"
	if out := golden(s.expect(4, []string{"lksms: the code is wrong; attempts left: 4\n"}, "verify", "check", id, "-")); out != `verification   vrf___
status         pending
attempts left  4
` {
		t.Errorf("a wrong code: %s", out)
	}
	s.stdin = "\n"
	s.expect(2, []string{"the code is empty"}, "verify", "check", id, "-")
	s.stdin = code + "\r\n"
	if checked := decode[client.VerificationOutcome](s, "verify", "check", id, "-"); checked.Status != client.CodeIsRight {
		t.Errorf("the right code: %+v", checked)
	}
	s.expect(1, []string{"verification.approved", "start a new verification"}, "verify", "check", id, code)
	s.expectTable(`verification   vrf___
status         approved
purpose        login
channel        sms
attempts left  3
tasks          task_________TASK______________________, task_________TASK______________________
message        PROCESSING
created        yyyy-mm-dd hh:mm:ss
expires        yyyy-mm-dd hh:mm:ss
ended          yyyy-mm-dd hh:mm:ss
`, "verify", "show", id)
	other := decode[client.VerificationStarted](s, "verify", "start", "+8613800138000", "--purpose", "payment", "--length", "8", "--ttl-seconds", "600")
	if text := s.server.Claim("app", 1)[0].Content; len(digits.FindString(text)) != 8 || !strings.Contains(text, "10分钟") {
		t.Errorf("a code of 8 digits for 10 minutes: %s", text)
	}
	if v := decode[client.Verification](s, "verify", "cancel", other.VerificationID); v.Status != api.VerificationCancelled {
		t.Errorf("cancelled: %+v", v)
	}
	s.expect(1, []string{"verification.cancelled", "The verification was cancelled"}, "verify", "check", other.VerificationID, code)
	s.expect(1, []string{"verification.not_found"}, "verify", "show", "vrf_none")

	start = []string{"verify", "start", apptest.Phone, "--purpose", "order"}
	replaced := decode[client.VerificationStarted](s, start...).VerificationID
	s.server.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"max_checks": 1, "per_minute": 0}})
	id = decode[client.VerificationStarted](s, start...).VerificationID
	s.expectTable(`verification   vrf___
status         cancelled
purpose        order
channel        sms
attempts left  5
tasks          task_________TASK______________________
message        CANCELLED
created        yyyy-mm-dd hh:mm:ss
expires        yyyy-mm-dd hh:mm:ss
ended          yyyy-mm-dd hh:mm:ss
replaced by    vrf___
`, "verify", "show", replaced)
	s.expect(1, []string{"verification.exhausted"}, "verify", "check", id, "wrong")
}

func TestTheSendersAndClaimCommandsPrintTheirResults(t *testing.T) {
	s := newShell(t)
	s.server.AddSender(map[string]any{"sender_no": "account_1", "name": "账号一", "balance": 10})
	s.expectTable(`SENDER     NAME    CHANNEL  KIND  STATE   BALANCE  TODAY  SEEN  SENT
account_1  账号一  sms      app   silent  10       0
`, "senders") // app-3 has never polled
	s.server.Exec("UPDATE sender_states SET seen_at = now()")
	s.expectTable(`SENDER     NAME    CHANNEL  KIND  STATE  BALANCE  TODAY  SEEN                 SENT
account_1  账号一  sms      app   ready  10       0      yyyy-mm-dd hh:mm:ss
`, "senders")
	s.server.AddSender(map[string]any{"sender_no": "old", "name": "old", "status": "retired"})
	if out, _, _ := s.run("senders", "--search", "old"); !strings.Contains(out, " retired ") {
		t.Errorf("a retired sender: %s", out)
	}
	if all := decode[[]client.Sender](s, "senders", "--search", "nobody"); all == nil || len(all) != 0 {
		t.Errorf("senders: %+v", all)
	}
	s.server.Submit("to be claimed")
	if planned := decode[remote.UnsentRequest](s, "claim", "--app-id", "app", "--dry-run"); !strings.Contains(planned.Body, `"app_id":"app"`) {
		t.Errorf("dry run: %+v", planned)
	}
	s.server.AddUser("phone", "send", map[string]any{"app_id": "phone_7"})
	bound := s.with("LKSMS_URL="+s.server.URL, "LKSMS_USER=phone", "LKSMS_PASSWORD="+apptest.UserPassword)
	if tasks := decode[[]client.ClaimedTask](bound, "claim"); len(tasks) != 1 || tasks[0].Content != "to be claimed" {
		t.Errorf("claimed: %+v", tasks)
	}
	s.expect(2, []string{"--app-id"}, "claim")
	bound.expect(1, []string{"auth.forbidden", "ask an admin"}, "senders")
}

func TestReceivedCommandsHandOverListAndReadMessages(t *testing.T) {
	s := newShell(t)
	s.server.AddSender(map[string]any{"sender_no": "modem_1"})
	add := []string{
		"received", "add", "--app-id", "modem_1", "--from", "13712345678", "--to", "10690", "--sim", "2", "--received-at", "2026-11-24T18:00:00+08:00",
		"--message-no", "4711", "--content", "-",
	}
	s.stdin = "OK,\nthanks\x1b[31m\n"
	if planned := decode[remote.UnsentRequest](s, append(add, "--dry-run")...); !strings.Contains(planned.Body, `"message_no":"4711"`) {
		t.Errorf("dry run: %+v", planned)
	}
	s.expectTable("id  1\n", add...)
	s.expectTable("id        1\nrepeated  yes\n", add...)
	decode[client.ReceivedBatch](s, "received", "add", "--app-id", "modem_1", "--from", "10010", "--content", "")
	s.expectTable(`ID  RECEIVED             NUMBER          SENDER   ANSWERS  UNREAD  TEXT
3   yyyy-mm-dd hh:mm:ss  10010           modem_1           yes
1   yyyy-mm-dd hh:mm:ss  +8613712345678  modem_1           yes     OK, thanks�[31m
`, "received", "list")
	s.expectTable("ID  READ BY\n1   admin\n", "received", "read", "1")
	s.expect(1, []string{"received.not_found"}, "received", "read", "999")
	s.expectTable(`id          1
number      +8613712345678
text        OK, thanks�[31m
kind        text
company     default
sender      modem_1
sim         2
sent to     10690
received    yyyy-mm-dd hh:mm:ss
stored      yyyy-mm-dd hh:mm:ss
message no  4711
read        yyyy-mm-dd hh:mm:ss by admin
`, "received", "show", "1")
	for _, filter := range [][]string{{"--unread"}, {"--number", "10010"}, {"--limit", "1"}, {"--limit", "1", "--sender-no", "modem_1", "--kind", "text", "--since", "2020-01-01T00:00:00Z"}} {
		if all := decode[[]client.Received](s, append([]string{"received", "list"}, filter...)...); len(all) != 1 || all[0].PhoneNumber != "10010" {
			t.Errorf("%v: %+v", filter, all)
		}
	}
	s.expect(2, []string{"--from"}, "received", "add", "--content", "x")
	s.expect(1, []string{"422", "sim (--sim)"}, "received", "add", "--app-id", "modem_1", "--from", "1", "--content", "x", "--sim", "11")
}

// R1: a message that a gateway received is not lost while the server is down, and is stored once.
func TestASpoolKeepsMessagesUntilTheServerStoresThem(t *testing.T) {
	s := newShell(t)
	s.server.AddSender(map[string]any{"sender_no": "modem_1"})
	spool := pgtest.Dir(t)
	add := func(more ...string) []string {
		return append([]string{"received", "add", "--app-id", "modem_1", "--spool", spool}, more...)
	}
	down := s.with("LKSMS_URL=http://127.0.0.1:1", "LKSMS_KEY=k")
	for _, text := range []string{"first", "second"} {
		down.expect(3, []string{"wait in " + spool}, add("--from", "13712345678", "--content", text, "--timeout", "200ms")...)
	}
	files, _ := filepath.Glob(filepath.Join(spool, "*.json"))
	if len(files) != 2 {
		t.Fatalf("the folder contains %v", files)
	}
	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"3.json": `{"from": "10010", "content": "of a gateway"}`, "4.json": `{"content": "of nobody"}`, "5.json": "no JSON", "6.tmp": "not yet complete",
	} {
		if err := os.WriteFile(filepath.Join(spool, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(1, []string{"4.json.refused: refused with 422", "from (--from)", "5.json.refused: the file is no message"}, add()...)
	// A run that was killed before it deleted its file hands over the message again.
	for _, file := range []string{files[0], filepath.Join(spool, "3.json")} {
		content := first
		if file != files[0] {
			content = []byte(`{"from": "10010", "content": "of a gateway"}`)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.expectTable("handed over  3\n", add("--from", "13712345678", "--content", "third")...)
	s.expectTable("handed over  0\n", add()...)
	var texts []string
	for _, m := range decode[[]client.Received](s, "received", "list") {
		texts = append(texts, m.Content)
	}
	slices.Sort(texts)
	if got := strings.Join(texts, ","); got != "first,of a gateway,second,third" {
		t.Errorf("stored are %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(spool, "*")); len(left) != 3 {
		t.Errorf("left are %v", left)
	}
}

// R1: a gateway does not repeat a message, so the folder keeps also a message without a number, without valid text or with a wrong time.
func TestASpoolKeepsMessagesThatTheServerWouldRefuse(t *testing.T) {
	s := newShell(t)
	s.server.AddSender(map[string]any{"sender_no": "modem_1"})
	add := []string{"received", "add", "--app-id", "modem_1", "--spool", pgtest.Dir(t)}
	for _, more := range [][]string{
		{"--from", "", "--content", "hidden"}, {"--from", "10010", "--content", "gr\xfcn"}, {"--from", "10010", "--content", "late", "--received-at", "soon"},
		{"--from", strings.Repeat("1", 60), "--content", "long", "--sim", "11", "--message-no", strings.Repeat("n", 300)},
	} {
		s.expectTable("handed over  1\n", append(slices.Clone(add), more...)...)
	}
	stored := map[string]string{}
	for _, m := range decode[[]client.Received](s, "received", "list") {
		stored[m.Content] = m.PhoneNumber
	}
	want := map[string]string{"hidden": "unknown", "gr\uFFFDn": "10010", "late": "10010", "long": strings.Repeat("1", 50)}
	if !maps.Equal(stored, want) {
		t.Errorf("stored are %v", stored)
	}
	s.expect(2, []string{"--from"}, append(slices.Clone(add), "--content", "nobody")...)
	for _, flags := range [][]string{{"--from", "10010", "--content", "gr\xfcn"}, {"--from", "", "--content", "x"}, {"--from", "10010", "--content", "x", "--received-at", "soon"}} {
		s.expect(2, []string{"lksms"}, append([]string{"received", "add", "--app-id", "modem_1"}, flags...)...)
	}
}

func TestTailContinuesAfterTheServerReturns(t *testing.T) {
	s := newShell(t)
	target := s.server.URL
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	first := relay(t, listener, target)
	s.env[0] = "LKSMS_URL=http://" + address
	cmd := s.command("tail", "-o", "json")
	var out, problems lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	apptest.Eventually(t, "the server listens", func() bool { return s.server.Count("SELECT count(*) FROM feed_listeners") > 0 })
	settle := func() string {
		id := s.server.Submit("x")
		s.server.Report(s.server.ClaimIDs(1)[0], "app", 2, nil)
		return id
	}
	seen := func(id string) {
		t.Helper()
		apptest.Eventually(t, "the event is printed", func() bool { return strings.Contains(out.String(), id) })
	}
	seen(settle())
	s.expect(0, nil, "received", "add", "--app-id", "app", "--from", "10010", "--content", "an answer")
	seen("an answer")
	first.CloseClientConnections()
	first.Close()
	id := settle()
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	relay(t, listener, target)
	seen(id)
	firstCursors := 0
	defer func() {
		if firstCursors != 1 {
			t.Errorf("%d lines with the first cursor", firstCursors)
		}
	}()
	for line := range strings.Lines(out.String()) {
		var event client.Event
		if strings.HasPrefix(line, `{"next_cursor":"`) && strings.HasPrefix(out.String(), line) {
			firstCursors++
			continue
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Type != "message.sent" && event.Type != "message.received" {
			t.Errorf("line %s: %v", line, err)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	if err := <-ended; err != nil || problems.String() != "" {
		t.Errorf("ended: %v, %s", err, problems.String())
	}
	s.env[0] = "LKSMS_URL=" + target
	s.server.Exec("UPDATE feed_state SET pruned_id = (SELECT max(id) FROM feed)")
	s.expect(1, []string{"events.cursor_gone", "--after "}, "tail", "--after", "0")
}

// passOn returns a handler that forwards requests to a server, except those for which isLost returns true.
func passOn(t *testing.T, to string, isLost func(*http.Request) bool) http.Handler {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		gone := isLost != nil && isLost(r)
		mu.Unlock()
		if gone {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})
}

// relay forwards requests from a listener to a server.
func relay(t *testing.T, listener net.Listener, to string) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(passOn(t, to, nil))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func TestCommandsExitWithTheDocumentedStatus(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: pgtest.Dir(t)}
	s.expect(2, []string{"lksms --help"}, "nonsense")
	s.expect(2, []string{"Usage: lksms send", "<number>"}, "send")
	s.expect(2, []string{"lksms login"}, "status", "task_1")
	s = s.with("LKSMS_URL=http://127.0.0.1:1", "LKSMS_KEY=secret-key")
	s.expect(2, []string{"--template"}, "send", "1")
	s.expect(2, []string{"--param"}, "send", "1", "x", "--param", "a=b")
	s.expect(2, []string{"--tag"}, "batch", "create", "--content", "x")
	s.expect(2, []string{"--server", "--profile"}, "status", "task_1", "--server", "http://x", "--profile", "y")
	s.expect(2, []string{"http://"}, "status", "task_1", "--server", "x:1")
	s.expect(2, []string{"<task_id> is empty"}, "status", "")
	s.expect(2, []string{"--dedup-key is empty"}, "send", apptest.Phone, "x", "--dedup-key", "")
	s.expect(2, []string{"--sender-no is empty"}, "batch", "create", "list.csv", "--sender-no=")
	s.expect(2, []string{"<task_id> is empty"}, "explain", "")
	s.expect(2, []string{"<task_id> is empty"}, "cancel", "task_1", "")
	s.expect(2, []string{"<task_id> is empty"}, "requeue", "")
	s.expect(2, []string{"--output"}, "status", "task_1", "-o", "xml")
	s.expect(2, []string{"--parallel"}, "sender", "run", "--exec", "true", "--parallel", "0")
	s.expect(2, []string{"--exec"}, "sender", "run", "--exec", "./none.sh", "--app-id", "x")
	s.expect(3, []string{"not reached", "127.0.0.1:1"}, "status", "task_1", "--timeout", "200ms")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	s.expect(3, []string{"--timeout"}, "status", "task_1", "--server", "http://"+silent.Addr().String(), "--timeout", "200ms")
	s.with("LKSMS_URL=http://127.0.0.1:1").expect(2, []string{"LKSMS_KEY"}, "status", "task_1")
	s.with("LKSMS_URL=http://127.0.0.1:1", "LKSMS_PROFILE=x").expect(2, []string{"LKSMS_PROFILE"}, "status", "task_1")
	s.with("LKSMS_URL=http://127.0.0.1:1", "LKSMS_PASSWORD=x").expect(2, []string{"LKSMS_USER"}, "status", "task_1")
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600") // the wait is long, so that no call is repeated
		if strings.Contains(r.URL.Path, "task_1") {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(busy.Close)
	s.with("LKSMS_URL="+busy.URL, "LKSMS_KEY=k").expect(3, []string{"task_2"}, "requeue", "task_1", "task_2")
	// A file .env of the working folder must not decide where credentials are sent.
	for _, file := range []string{"LKSMS_URL=http://127.0.0.1:1\n", "no file of variables\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, ".env"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		s.with("LKSMS_KEY=secret-key").expect(2, []string{"no server is known"}, "status", "task_1")
	}
	os.Remove(filepath.Join(s.dir, ".env"))
	if err := os.Mkdir(filepath.Join(s.dir, ".env"), 0o700); err != nil { // a folder cannot be read as a file
		t.Fatal(err)
	}
	s.with("LKSMS_KEY=secret-key").expect(2, []string{"no server is known"}, "status", "task_1")
}

// The commands must fail at once. Standard error is not a terminal, so nobody would see that a command waits.
func TestCommandsThatWaitFailOnAnUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the failed handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	s := &shell{t: t, dir: pgtest.Dir(t), env: []string{"LKSMS_URL=" + server.URL, "LKSMS_KEY=k"}}
	for _, args := range [][]string{{"watch", "task_1"}, {"watch", "1"}, {"tail"}, {"batch", "watch", "1"}, {"batch", "check", "1"}} {
		s.expect(3, []string{"certificate signed by unknown authority", "does this machine trust"}, append(args, "--timeout", "20s")...)
	}
}

func TestProfilesAreReadableOnlyByTheirUser(t *testing.T) {
	s := newShell(t)
	s.server.AddUser("system_a", "submit", nil)
	clean := s.with()
	clean.stdin = "\uFEFF" + apptest.UserPassword + "\r\n"
	out := clean.expect(0, nil, "login", s.server.URL+"/", "--user", "system_a", "--profile", "prod", "--secret-stdin")
	if !strings.Contains(out, "system_a with the role submit") {
		t.Errorf("login: %s", out)
	}
	path := filepath.Join(s.dir, "lksms", "profiles.json")
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	clean.stdin = "wrong\n"
	clean.expect(1, []string{"auth.required"}, "login", s.server.URL, "--user", "system_a", "--profile", "bad", "--secret-stdin")
	clean.stdin = ""
	clean.expect(2, []string{"--secret-stdin"}, "login", s.server.URL, "--user", "system_a")
	clean.expect(2, []string{"is empty"}, "login", s.server.URL, "--secret-stdin")
	if text, err := os.ReadFile(path); err != nil || os.WriteFile(path, append([]byte("\uFEFF"), text...), 0o600) != nil { // as an editor on Windows writes it
		t.Fatal(err)
	}
	clean.expect(0, nil, "send", apptest.Phone, "by the profile in use")
	clean.expect(0, nil, "send", apptest.Phone, "by its name", "--profile", "prod")
	clean.with("LKSMS_PROFILE=prod").expect(0, nil, "send", apptest.Phone, "by the environment")
	clean.expect(2, []string{`"other"`}, "send", apptest.Phone, "x", "--profile", "other")
	// The credentials of a profile are sent only to its server.
	clean.expect(2, []string{"no credentials"}, "status", "task_1", "--server", "http://127.0.0.1:1")
	out = clean.expect(0, nil, "profile", "list")
	if !strings.Contains(out, "*  prod  "+s.server.URL+"  system_a\n") || strings.Contains(out, apptest.UserPassword) {
		t.Errorf("list: %s", out)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		clean.expect(2, []string{"chmod 600 " + path}, "send", apptest.Phone, "x")
	}
	os.Chmod(path, 0o600)
	proxy := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	clean.stdin = "secret\n"
	through := clean.with("HTTP_PROXY="+proxy.URL, "LKSMS_KEY=k")
	through.expect(1, []string{"unencrypted"}, "login", "http://lksms.invalid", "--secret-stdin")
	through.expect(1, []string{"unencrypted"}, "status", "task_1", "--server", "http://lksms.invalid")
	clean.stdin = ""
	broken := clean.with("XDG_CONFIG_HOME=" + filepath.Join(s.dir, "broken"))
	os.MkdirAll(filepath.Join(s.dir, "broken", "lksms", "profiles.json"), 0o700)
	broken.expect(2, []string{"not a regular file"}, "status", "task_1")
	os.Remove(filepath.Join(s.dir, "broken", "lksms", "profiles.json"))
	os.WriteFile(filepath.Join(s.dir, "broken", "lksms", "profiles.json"), []byte("{"), 0o600)
	broken.expect(2, []string{"read "}, "status", "task_1")
	clean.expect(0, nil, "profile", "remove", "prod")
	clean.expect(2, []string{"lksms login"}, "send", apptest.Phone, "x")
	clean.expect(2, []string{"prod"}, "profile", "use", "prod")
}

func TestShellsCompleteCommandsFlagsAndProfiles(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: pgtest.Dir(t)}
	if err := os.Mkdir(filepath.Join(s.dir, "lksms"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := `{"used":"prod","profiles":{"prod":{"server":"http://x","secret":"s"},"test":{"server":"http://x","secret":"s"}}}`
	if err := os.WriteFile(filepath.Join(s.dir, "lksms", "profiles.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"sen":                       "send senders sender",
		"batch con":                 "confirm",
		"verify ":                   "start check resend cancel show",
		"send --dr":                 "--dry-run",
		"batch create --dr":         "--dry-run",
		"send --profile ":           "prod test",
		"send 1 x --profile=te":     "--profile=test",
		"status x -o ":              "table json",
		"profile use p":             "prod",
		"completion z":              "zsh",
		"batch create ":             "",
		"send --wait --source a -o": "",
	} {
		out := s.expect(0, nil, append([]string{completionWord}, strings.Split(line, " ")...)...)
		if got := strings.Join(strings.Fields(out), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		script := filepath.Join(s.dir, name)
		if err := os.WriteFile(script, []byte(s.expect(0, nil, "completion", name)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", name, err, out)
		}
		if name == "bash" {
			line := `source "$1"; COMP_WORDS=("$2" send --profile t); COMP_CWORD=3; _lksms; echo "${COMPREPLY[@]}"`
			cmd := exec.Command(path, "-c", line, "bash", script, binary)
			cmd.Env = append(environment(), "XDG_CONFIG_HOME="+s.dir)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "test\n" {
				t.Errorf("bash completes %q, %v", out, err)
			}
		}
	}
}

// effects counts the reports by their effect.
func (s *shell) effects() map[string]int {
	s.t.Helper()
	rows, err := s.server.DB.Query(s.t.Context(), "SELECT effect, count(*) FROM report_logs GROUP BY effect")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var effect string
		var n int
		if err := rows.Scan(&effect, &n); err != nil {
			s.t.Fatal(err)
		}
		all[effect] = n
	}
	return all
}

// runner is a running `lksms sender run`.
type runner struct {
	*exec.Cmd
	t      *testing.T
	log    *lockedBuffer
	exited chan struct{}
	err    error // error of the exit; read after exited is closed
}

// send starts a sender with a script for sh.
func (s *shell) send(script string, flags ...string) *runner {
	s.t.Helper()
	path := filepath.Join(s.dir, "send.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		s.t.Fatal(err)
	}
	r := &runner{t: s.t, log: &lockedBuffer{}, exited: make(chan struct{})}
	all := []string{"sender", "run", "--exec", "./send.sh", "--app-id", "phone_1", "--wait", "1", "--log-format", "json"}
	r.Cmd = s.command(append(all, flags...)...)
	r.Stdout, r.Stderr = r.log, r.log
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { r.err = r.Wait(); close(r.exited) }()
	s.t.Cleanup(func() {
		r.Process.Kill()
		<-r.exited
		if s.t.Failed() {
			s.t.Logf("log of the sender:\n%s", r.log)
		}
	})
	return r
}

// ends waits until the command ends, and fails the test unless it has this exit status.
func (r *runner) ends(status int) {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(30 * time.Second):
		r.t.Fatalf("the sender does not end:\n%s", r.log)
	}
	if got := r.ProcessState.ExitCode(); got != status {
		r.t.Errorf("exit status %d, want %d", got, status)
	}
}

func (s *shell) await(id string, status api.TaskStatus) {
	s.t.Helper()
	apptest.Eventually(s.t, fmt.Sprintf("the task is %d", status), func() bool { return s.server.Task(id).Status == status })
}

func TestTheExitStatusOfAScriptDecidesTheReport(t *testing.T) {
	s := newShell(t)
	r := s.send(`read -r json
case $LKSMS_CONTENT in
fails) echo first; echo 空号 >&2; exit 1;;
later) exit 75;;
dies) kill -9 $$;;
leaves) sleep 300 & echo $! > left.pid;;
"") exit 1;;
esac
printf '%s' "$json" > "$LKSMS_TASK_ID.json"
env > "$LKSMS_TASK_ID.env"
tr '\0' ' ' < /proc/$$/cmdline > "$LKSMS_TASK_ID.args"
echo "done for $LKSMS_PHONE_NUMBER $1"
`, "--parallel", "2", "--", "with an argument")
	const evil = "a text; $(touch injected) '\""
	good, bad := s.server.Submit(evil), s.server.Submit("fails")
	s.await(good, api.TaskSuccess)
	s.await(bad, api.TaskFailed)
	if task := s.server.Task(good); *task.Result != "done for "+apptest.Phone+" with an argument" || *task.ProcessingAppID != "phone_1" {
		t.Errorf("sent: %+v", *task.Result)
	}
	if task := s.server.Task(bad); *task.Result != "空号" || task.RetryCount != 0 {
		t.Errorf("failed: %s", *task.Result)
	}
	read := func(suffix string) string {
		raw, err := os.ReadFile(filepath.Join(s.dir, good+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var given sender.ScriptTask
	if err := json.Unmarshal([]byte(read(".json")), &given); err != nil || given.Content != evil || given.PhoneNumber != apptest.Phone {
		t.Errorf("given: %+v, %v", given, err)
	}
	if args := read(".args"); strings.Contains(args, "a text") || strings.Contains(args, apptest.Phone) {
		t.Errorf("the process list shows %s", args)
	}
	if env := read(".env"); strings.Contains(env, apptest.Password) || !strings.Contains(env, "LKSMS_ATTEMPT=1\n") {
		t.Errorf("the environment of the script: %s", env)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "injected")); err == nil {
		t.Error("a shell has read the text")
	}
	later := s.server.Submit("later")
	apptest.Eventually(t, "it waits for another attempt", func() bool { return s.server.Task(later).RetryCount == 1 })
	s.expectUnclear(r, s.server.Submit("dies"))
	left := s.server.Submit("leaves")
	s.await(left, api.TaskSuccess)
	raw, _ := os.ReadFile(filepath.Join(s.dir, "left.pid"))
	expectGone(t, string(raw))
	if log := r.log.String(); strings.Contains(log, "a text") || strings.Contains(log, apptest.Phone) {
		t.Errorf("the log has the message: %s", log)
	}
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
}

// expectUnclear waits until the script for a task was killed. It fails the test if a report followed.
func (s *shell) expectUnclear(r *runner, id string) {
	s.t.Helper()
	killed := regexp.MustCompile(`"msg":"killed, and not reported[^\n]*` + id)
	apptest.Eventually(s.t, "the log contains the killed message", func() bool { return killed.MatchString(r.log.String()) })
	if task := s.server.Task(id); task.Status != api.TaskProcessing || task.RetryCount != 0 {
		s.t.Errorf("the task is %d after %d retries: only the end of its lease may decide", task.Status, task.RetryCount)
	}
	if n := s.server.Count("SELECT count(*) FROM report_logs WHERE task_id = $1", id); n != 0 {
		s.t.Errorf("%d reports", n)
	}
}

func expectGone(t *testing.T, pid string) {
	t.Helper()
	var number int
	if _, err := fmt.Sscan(pid, &number); err != nil {
		t.Fatalf("pid %q: %v", pid, err)
	}
	apptest.Eventually(t, "the process has ended", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", number))
		return err != nil || strings.Contains(string(state), ") Z ") // a zombie counts as ended, because possibly no process waits for it
	})
}

func TestAScriptGetsExpiresAt(t *testing.T) {
	s := newShell(t)
	given := filepath.Join(s.dir, "given")
	r := s.send("cat > " + given)
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	id := s.server.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "expires_at": expires}).TaskID
	s.await(id, api.TaskSuccess)
	raw, err := os.ReadFile(given)
	if err != nil {
		t.Fatal(err)
	}
	var task struct {
		ExpiresAt *time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(raw, &task); err != nil || task.ExpiresAt == nil || !task.ExpiresAt.Equal(expires) {
		t.Errorf("given %s, %v", raw, err)
	}
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
}

func TestAScriptThatHangsIsKilledWithItsGroup(t *testing.T) {
	s := newShell(t)
	r := s.send(`[ "$LKSMS_CONTENT" = next ] && exit 0; sleep 300 & echo $! > child.pid; sleep 300`, "--run-limit", "500ms")
	s.expectUnclear(r, s.server.Submit("x"))
	s.await(s.server.Submit("next"), api.TaskSuccess) // the slot of the killed script is free again
	raw, _ := os.ReadFile(filepath.Join(s.dir, "child.pid"))
	expectGone(t, string(raw))
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
}

func TestAStoppedSenderFinishesRunningMessagesAndClaimsNoMore(t *testing.T) {
	s := newShell(t)
	first := s.server.Submit("first")
	r := s.send("touch started; while [ ! -e finish ]; do sleep 0.05; done")
	apptest.Eventually(t, "the script runs", func() bool { _, err := os.Stat(filepath.Join(s.dir, "started")); return err == nil })
	r.Process.Signal(syscall.SIGTERM)
	second := s.server.Submit("second")
	if status := s.server.Task(first).Status; status != api.TaskProcessing {
		t.Errorf("the first is %d", status)
	}
	os.WriteFile(filepath.Join(s.dir, "finish"), nil, 0o600)
	r.ends(0)
	if a, b := s.server.Task(first).Status, s.server.Task(second).Status; a != api.TaskSuccess || b != api.TaskPending {
		t.Errorf("the tasks are %d and %d", a, b)
	}
}

func TestASecondSignalKillsScriptsWithoutAReport(t *testing.T) {
	s := newShell(t)
	id := s.server.Submit("x")
	r := s.send("touch started; sleep 300")
	apptest.Eventually(t, "the script runs", func() bool { _, err := os.Stat(filepath.Join(s.dir, "started")); return err == nil })
	r.Process.Signal(syscall.SIGTERM)
	apptest.Eventually(t, "a second signal after more than a second kills the script", func() bool {
		r.Process.Signal(syscall.SIGINT)
		select {
		case <-r.exited:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
	r.ends(0)
	s.expectUnclear(r, id)
}

func TestAMessageThatIsClaimedAfterAStopSignalIsSent(t *testing.T) {
	s := newShell(t)
	r := s.send("exit 0", "--wait", "20")
	apptest.Eventually(t, "the claim waits", func() bool { return strings.Contains(r.log.String(), "sending") && s.server.App.Queue.Waiting() == 1 })
	r.Process.Signal(syscall.SIGTERM)
	id := s.server.Submit("x")
	r.ends(0)
	if status := s.server.Task(id).Status; status != api.TaskSuccess {
		t.Errorf("the task is %d", status)
	}
}

func TestALostReportIsRepeated(t *testing.T) {
	s := newShell(t)
	lost := 0
	relayed := httptest.NewServer(passOn(t, s.server.URL, func(r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/report") && lost < 3 {
			lost++
			return true
		}
		return false
	}))
	t.Cleanup(relayed.Close)
	s.env[0] = "LKSMS_URL=" + relayed.URL
	r := s.send("exit 0")
	id := s.server.Submit("x")
	s.await(id, api.TaskSuccess)
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
	if effects := s.effects(); effects["success"] != 1 || lost == 0 {
		t.Errorf("effects: %v after %d lost reports", effects, lost)
	}
}

func TestAProxyErrorDoesNotStopASenderThatHasClaimed(t *testing.T) {
	s := newShell(t)
	claims := 0
	proxy := passOn(t, s.server.URL, nil)
	var mu sync.Mutex
	relayed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		isClaim := strings.HasSuffix(r.URL.Path, "/claim")
		if isClaim {
			claims++
		}
		n := claims
		mu.Unlock()
		switch {
		case isClaim && n == 2:
			http.Error(w, "<html>no such page", http.StatusNotFound)
		case isClaim && n == 3:
			io.WriteString(w, "<html>maintenance")
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(relayed.Close)
	s.env[0] = "LKSMS_URL=" + relayed.URL
	r := s.send("exit 0")
	s.await(s.server.Submit("first"), api.TaskSuccess)
	apptest.Eventually(t, "the proxy has answered", func() bool { mu.Lock(); defer mu.Unlock(); return claims >= 3 })
	s.await(s.server.Submit("second"), api.TaskSuccess)
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	s.env[0] = "LKSMS_URL=" + elsewhere.URL
	s.send("exit 0").ends(1)
}

func TestAStopSignalEndsTheRetriesOfAClaim(t *testing.T) {
	s := newShell(t)
	var claims atomic.Int64
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		claims.Add(1)
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(busy.Close)
	s.env[0] = "LKSMS_URL=" + busy.URL
	r := s.send("exit 0")
	apptest.Eventually(t, "it has claimed", func() bool { return claims.Load() == 1 })
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
	if n := claims.Load(); n != 1 {
		t.Errorf("%d claims", n)
	}
}

// The first message runs alone, so no other message is allowed to lose an attempt.
func TestASenderEndsIfItsFirstScriptFails(t *testing.T) {
	s := newShell(t)
	ids := []string{s.server.Submit("1"), s.server.Submit("2"), s.server.Submit("3")}
	r := s.send("no-such-program", "--parallel", "3")
	r.ends(1)
	failed := 0
	for _, id := range ids {
		if task := s.server.Task(id); task.Status == api.TaskFailed || task.RetryCount > 0 {
			failed++
			if task.Status == api.TaskFailed {
				t.Errorf("%s is FAILED", id)
			}
		}
	}
	if failed != 1 || !strings.Contains(r.log.String(), "127") {
		t.Errorf("%d messages were touched", failed)
	}
	refused := s.with("LKSMS_URL="+s.server.URL, "LKSMS_KEY=wrong")
	refused.send("exit 0").ends(1)
}

// The script holds the second and the third message until both run. With one message at a time, the script would wait forever.
func TestScriptsRunInParallelAfterTheFirstScriptEnded(t *testing.T) {
	s := newShell(t)
	for _, text := range []string{"first", "a", "b"} {
		s.server.Submit(text)
	}
	r := s.send(`[ "$LKSMS_CONTENT" = first ] && exit 1
: > "$LKSMS_CONTENT.runs"
while [ ! -e a.runs ] || [ ! -e b.runs ]; do sleep 0.02; done
`, "--parallel", "2")
	apptest.Eventually(t, "both have run", func() bool { return s.effects()["success"] == 2 })
	r.Process.Signal(syscall.SIGTERM)
	r.ends(0)
}

func TestAProgramThatCannotBeRunIsRefusedAtTheStart(t *testing.T) {
	s := &shell{t: t, dir: pgtest.Dir(t), env: []string{"LKSMS_URL=http://127.0.0.1:1", "LKSMS_KEY=k"}}
	for name, script := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"windows.sh": {"#!/bin/sh\r\nexit 0\r\n", 0o700},
		"none.sh":    {"#! /no/such/shell -e\nexit 0\n", 0o700},
		"plain.sh":   {"#!/bin/sh\nexit 0\n", 0o600},
		"good.sh":    {"#!\t/usr/bin/env sh\nexit 0\n", 0o700},
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(script.text), script.mode); err != nil {
			t.Fatal(err)
		}
	}
	for exec, want := range map[string]string{
		"./windows.sh": "end with CRLF", "./none.sh": `"/no/such/shell", which is missing`, "./plain.sh": "permission denied",
		"good.sh": "write ./good.sh", "./missing.sh": "no such file",
	} {
		s.expect(2, []string{"--exec: ", want}, "sender", "run", "--exec", exec, "--app-id", "phone_1")
	}
}

// newer returns a server that forwards requests, and adds a field to each object of a response, as a later version can.
func newer(t *testing.T, to string) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	add := func(values ...any) {
		for _, value := range values {
			if object, ok := value.(map[string]any); ok {
				object["is_newer"] = 1
			}
		}
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(res *http.Response) error {
			var answer map[string]any
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
				return err
			}
			switch data := answer["data"].(type) {
			case []any:
				add(data...)
			case map[string]any:
				items, _ := data["items"].([]any)
				add(append(items, data)...)
			}
			body, err := json.Marshal(answer)
			res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			res.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return err
		},
	})
	t.Cleanup(server.Close)
	return server
}

func TestJSONOutputContainsTheFieldsOfANewerServer(t *testing.T) {
	s := newShell(t)
	s.env[0] = "LKSMS_URL=" + newer(t, s.server.URL).URL
	if err := os.WriteFile(filepath.Join(s.dir, "list.csv"), []byte("phone\n13800138000\n12\n13\n13800138000\n13800138000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.server.AddSender(map[string]any{"sender_no": "phone_7"})
	s.server.AddSender(map[string]any{"sender_no": "phone_8"})
	one, two := s.server.Submit("x"), s.server.Submit("y")
	expect := func(want int, args ...string) string {
		t.Helper()
		out, problems, _ := s.run(append(args, "-o", "json")...)
		if got := strings.Count(out, `"is_newer"`); got != want || !json.Valid([]byte(out)) {
			t.Errorf("%v: the output contains the field of a newer server %d times, want %d: %s%s", args, got, want, out, problems)
		}
		return out
	}
	expect(1, "send", apptest.Phone, "x")
	expect(1, "send", apptest.Phone, "x", "--dry-run")
	expect(1, "status", one)
	expect(1, "status", one, "--events")
	expect(1, "explain", one)
	expect(2, "cancel", one, "task_none", two)
	expect(1, "watch", one)
	expect(0, "requeue", one, "--dry-run")
	expect(2, "requeue", one, two)
	expect(2, "senders")
	expect(1, "senders", "--limit", "1")
	expect(3, "claim", "--app-id", "phone_9", "--limit", "3")
	expect(0, "claim", "--app-id", "phone_9")
	expect(2, "received", "add", "--app-id", "phone_7", "--from", "1", "--content", "x")
	expect(1, "received", "list")
	expect(1, "received", "show", "1")
	expect(1, "received", "read", "1")
	expect(1, "batch", "create", "list.csv", "--content", "x")
	expect(4, "batch", "check", "1", "--limit", "3")
	expect(5, "batch", "check", "1")
	expect(1, "batch", "list")
	expect(0, "batch", "confirm", "1", "--dry-run")
	expect(1, "batch", "confirm", "1")

	tail := s.command("tail", "--type", "message.failed", "-o", "json")
	var out lockedBuffer
	tail.Stdout = &out
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tail.Process.Kill(); tail.Wait() })
	apptest.Eventually(t, "the server listens", func() bool { return strings.Count(out.String(), "\n") == 1 })
	s.server.Report(one, "phone_9", 3, nil)
	apptest.Eventually(t, "it prints the event", func() bool { return strings.Count(out.String(), "\n") == 2 })
	lines := strings.Split(out.String(), "\n")
	var line struct {
		IsNewer int    `json:"is_newer"`
		Type    string `json:"type"`
		Cursor  string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(lines[1]), &line); err != nil || line.IsNewer != 1 || line.Type != "message.failed" || line.Cursor == "" {
		t.Errorf("the line of an event: %s, %v", lines[1], err)
	}
}
