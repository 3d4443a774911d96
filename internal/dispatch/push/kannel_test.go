package push_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/stranger"
)

// driveSMPP is a carrier of Kannel. Kannel's developers test Kannel with it.
const driveSMPP = "/usr/lib/kannel/test/drive_smpp"

// startDriveSMPP starts drive_smpp, which delivers the numbers from 1 to n as messages to the client that binds. printed returns what drive_smpp has printed, and isEnded
// reports whether it has ended without an error.
func startDriveSMPP(t *testing.T, n int, config string) (port int, printed func() string, isEnded func() bool) {
	t.Helper()
	if _, err := exec.LookPath(driveSMPP); err != nil {
		stranger.Missing(t, "drive_smpp is missing: apt-get install kannel-extras")
	}
	// drive_smpp also connects to a bearerbox, always at this port, and ends if nothing listens there. It only waits for messages of the bearerbox. An error means that
	// another program listens there, which is enough.
	if box, err := net.Listen("tcp", "127.0.0.1:13001"); err == nil {
		t.Cleanup(func() { _ = box.Close() })
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	folder := t.TempDir()
	file := filepath.Join(folder, "drive_smpp.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(folder, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(driveSMPP, "-v", "0", "-p", strconv.Itoa(port), "-m", strconv.Itoa(n), "-c", file)
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- cmd.Wait()
	}()
	printed = func() string {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Log(printed())
		}
	})
	return port, printed, func() bool {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("drive_smpp: %v", err)
			}
			return true
		default:
			return false
		}
	}
}

// C5: drive_smpp of Kannel receives what a sender sends to it, and what it delivers is in the inbox. It knows no bind_transceiver, checks no password, accepts all
// messages without an id, and sends no receipts. It prints the octets of texts up to the first NUL, so that the texts are ASCII, and the parts of the long text have no
// header. It prints no optional parameters, but warns of those that it does not know. All its messages have the parameter receipted_message_id, although they are no
// receipts.
func TestDriveSMPPOfKannelServesASender(t *testing.T) {
	const n = 20
	port, printed, isEnded := startDriveSMPP(t, n, "group = core\n\ngroup = smpp-tlv\nname = own\ntag = 0x1400\ntype = octetstring\nlength = 10\n")
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "bound", "kind": "smpp", "config": map[string]any{
		"host": "127.0.0.1", "port": port, "system_id": "lksms", "password": "secret", "bind": "transmitter_receiver", "long_messages": "sar",
		"tlvs": map[string]any{"0x1400": "x"},
	}})
	b.App.Pusher.Start()
	long := strings.Repeat("two parts ", 19) + "."
	texts := []string{long[:153], long[153:]}
	b.SubmitBody(map[string]any{"phone_number": "13800130000", "content": long})
	for i := range n {
		texts = append(texts, fmt.Sprintf("text %d", i))
		b.SubmitBody(map[string]any{"phone_number": fmt.Sprintf("1380013%04d", i), "content": texts[len(texts)-1]})
	}
	apptest.Eventually(t, "all messages are sent", func() bool { return b.Count("SELECT count(*) FROM report_logs WHERE outcome = 2") == n+1 })
	apptest.Eventually(t, "all requests of drive_smpp are answered", func() bool {
		return strings.Count(printed(), "of type deliver_sm_resp") == n && strings.Count(printed(), "of type enquire_link_resp") == n
	})
	if got := b.Count("SELECT count(DISTINCT content) FROM received_messages WHERE phone_number = '456' AND content::int BETWEEN 1 AND $1", n); got != n {
		t.Errorf("%d messages of drive_smpp are in the inbox, want %d", got, n)
	}
	b.App.Close()
	apptest.Eventually(t, "drive_smpp ends with the links", isEnded)
	var arrived []string
	for _, match := range regexp.MustCompile(`short_message = <(.*)>`).FindAllStringSubmatch(printed(), -1) {
		arrived = append(arrived, match[1])
	}
	slices.Sort(arrived)
	slices.Sort(texts)
	if !slices.Equal(arrived, texts) {
		t.Errorf("drive_smpp got %q, want %q", arrived, texts)
	}
	if rejected := regexp.MustCompile(`(?m)^.*(WARNING|ERROR|PANIC):.*$`).FindAllString(printed(), -1); len(rejected) > 0 {
		t.Errorf("drive_smpp prints %q", rejected)
	}
}
