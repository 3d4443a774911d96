package smppserver_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/stranger"
)

// kannel runs Kannel: its bearerbox binds to a server of SMPP, and its smsbox accepts messages over HTTP. It returns the address of the smsbox.
func kannel(t *testing.T, smpp, password, receiver string) (sendsms string) {
	t.Helper()
	for _, program := range []string{"bearerbox", "smsbox"} {
		if _, err := exec.LookPath(program); err != nil {
			stranger.Missing(t, "Kannel is missing: apt-get install kannel")
		}
	}
	host, port, _ := net.SplitHostPort(smpp)
	admin, box, web := freePort(t), freePort(t), freePort(t)
	file := filepath.Join(t.TempDir(), "kannel.conf")
	config := fmt.Sprintf(`group = core
admin-port = %[1]d
admin-password = secret
smsbox-port = %[2]d
dlr-storage = internal

group = smsc
smsc = smpp
smsc-id = lksms
host = %[4]s
port = %[5]s
transceiver-mode = true
smsc-username = user-of-acme
smsc-password = %[6]s
system-type = ""
source-addr-ton = 0
source-addr-npi = 1
dest-addr-ton = 1
dest-addr-npi = 1
msg-id-type = 0x00
reconnect-delay = 1

group = smsbox
bearerbox-host = 127.0.0.1
sendsms-port = %[3]d
global-sender = 10690001

group = sendsms-user
username = kannel
password = kannel
concatenation = true
max-messages = 10

group = sms-service
keyword = default
catch-all = true
max-messages = 0
get-url = "%[7]s/received?from=%%p&text=%%a&charset=%%C"
`, admin, box, web, host, port, password, receiver)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{"bearerbox"}, {"smsbox"}} {
		cmd := exec.Command(args[0], "-v", "3", file)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		})
		awaitPort(t, []int{box, web}[i])
	}
	// The smsbox opens its port first: a message before it is connected to the bearerbox makes it crash.
	apptest.Eventually(t, "the smsbox is connected", func() bool {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/status.txt?password=secret", admin))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		status, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(status), "smsbox:")
	})
	return fmt.Sprintf("http://127.0.0.1:%d/cgi-bin/sendsms", web)
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func awaitPort(t *testing.T, port int) {
	t.Helper()
	apptest.Eventually(t, "the port is open", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// C5: Kannel binds with an SMPP password, 200 texts arrive as they were sent, and Kannel gets receipts and messages of people.
func TestKannelSubmitsThroughTheServer(t *testing.T) {
	b := setup(t, nil)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_content_notification": 1024, "max_segments_notification": 15})
	b.AddSender(map[string]any{"sender_no": "a", "inbox_company_no": "acme"})
	got := make(chan url.Values, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Query() }))
	t.Cleanup(receiver.Close)
	created := apptest.Decode[api.NewSmppPassword](t, b.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/smpp-password", nil))
	sendsms := kannel(t, b.App.SMPP.Addresses()[0], created.Password, receiver.URL)
	send := func(text string, more ...string) {
		t.Helper()
		values := url.Values{"username": {"kannel"}, "password": {"kannel"}, "to": {"8613800138000"}, "text": {text}, "charset": {"UTF-8"}}
		if strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(stranger.GSM, r) }) {
			values.Set("coding", "2")
		}
		for i := 0; i < len(more); i += 2 {
			values.Set(more[i], more[i+1])
		}
		res, err := http.Get(sendsms + "?" + values.Encode())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusAccepted {
			t.Fatalf("Kannel answers %d to %q", res.StatusCode, text)
		}
	}
	texts := stranger.Texts()
	for _, text := range texts {
		send(text)
	}
	apptest.Eventually(t, "all messages are tasks", func() bool { return b.Count("SELECT count(*) FROM messages") == len(texts) })
	arrived := contents(b)
	for _, text := range texts {
		if arrived[text]--; arrived[text] < 0 {
			t.Errorf("%q did not arrive as it was sent", text)
		}
	}
	send("with a report", "dlr-mask", "31", "dlr-url", receiver.URL+"/report?type=%d&reply=%A")
	apptest.Eventually(t, "the message is a task", func() bool { return b.Count("SELECT count(*) FROM messages") == len(texts)+1 })
	id := apptest.Scan[string](b, "SELECT task_id FROM messages WHERE content = 'with a report'")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	var types []string
	sequence(t, b, "the report", func() bool {
		select {
		case values := <-got:
			types = append(types, values.Get("type"))
		default:
		}
		return len(types) == 2
	})
	if fmt.Sprint(types) != "[8 2]" { // 8: the server accepted the message; 2: it is not delivered
		t.Errorf("the reports are %v", types)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "a", "messages": []any{map[string]any{"from": "13800138000", "to": "10690001", "content": "hello €"}}})
	var received url.Values
	sequence(t, b, "the message of a person", func() bool {
		select {
		case received = <-got:
			return true
		default:
			return false
		}
	})
	if received.Get("from") != "+8613800138000" && received.Get("from") != "8613800138000" || received.Get("text") != "hello €" {
		t.Errorf("received %v", received)
	}
}
