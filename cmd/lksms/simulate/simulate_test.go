package simulate

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/cmpp/ismg"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp/smsc"
)

// output is a buffer for several goroutines.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func script(t *testing.T, text string) carrier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return carrier{Account: "acme", Secret: "secret", Script: file}
}

// C3: both sides of the simulation understand each other, and the carrier follows its script.
func TestProgramAndCarrierUnderstandEachOther(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		script string
		listen func(simulated.Options) (address string, deliver func(from, to, text string) error, end func() error, err error)
		dialer dialer
	}{
		"smpp": {`[{"match": "full", "status": "ESME_RMSGQFUL"}, {"match": "hello", "id": "7f", "receipts": [{"stat": "DELIVRD"}], "reply": "thanks"}]`,
			func(o simulated.Options) (string, func(from, to, text string) error, func() error, error) {
				s, err := smsc.Listen("127.0.0.1:0", o)
				return s.Addr(), s.Deliver, s.Close, err
			}, smppDialer{"acme", "secret"}},
		"cmpp": {`[{"match": "full", "status": 8}, {"match": "hello", "id": "127", "receipts": [{"stat": "DELIVRD"}], "reply": "thanks"}]`,
			func(o simulated.Options) (string, func(from, to, text string) error, func() error, error) {
				s, err := ismg.Listen("127.0.0.1:0", o)
				return s.Addr(), s.Deliver, s.Close, err
			}, cmppDialer{"acme", "secret", cmpp.V30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := script(t, one.script)
			rules, err := c.rules(smppStatus)
			if err != nil {
				t.Fatal(err)
			}
			var out output
			var deliver func(from, to, text string) error
			address, deliver, end, err := one.listen(rules.options(c, &out, func(from, to, text string) error { return deliver(from, to, text) }))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := end(); err != nil {
					t.Error(err)
				}
			}()
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 10)
			p, err := one.dialer.dial(t.Context(), conn, func(what string) { got <- what })
			if err != nil {
				t.Fatal(err)
			}
			if id, err := p.submit(t.Context(), "10690001", "8613800138000", "full", 1); err == nil {
				t.Errorf("the refused message was accepted as %s", id)
			}
			if _, err := p.submit(t.Context(), "10690001", "8613800138000", "hello", 2); err != nil {
				t.Error(err)
			}
			seen := ""
			for range 2 {
				select {
				case what := <-got:
					seen += what + "\n"
				case <-time.After(time.Minute):
					t.Fatalf("got only %s", seen)
				}
			}
			if !strings.Contains(seen, "DELIVRD") || !strings.Contains(seen, `"thanks"`) {
				t.Errorf("got %s", seen)
			}
			if err := p.end(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// C3: the first rule that matches applies, each n-th time if the rule says so. Wrong rules are refused with their number.
func TestRulesApplyInTheirOrder(t *testing.T) {
	t.Parallel()
	rules, err := script(t, `[{"match": "^8613900", "status": 88, "every": 2}, {"match": "x", "cut": true}]`).rules(smppStatus)
	if err != nil {
		t.Fatal(err)
	}
	m := simulated.Message{To: "8613900139000", Text: "hello"}
	if first, second := rules.find(m), rules.find(m); first != usual || second.status != 88 {
		t.Errorf("the rules are %+v and %+v", first, second)
	}
	if cut := rules.find(simulated.Message{To: "1", Text: "x"}); !cut.Cut {
		t.Errorf("the rule is %+v", cut)
	}
	for text, want := range map[string]string{
		`{}`: "no list of rules", `[{"match": "("}]`: "rule 1", `[{}, {"status": "ESME_X"}]`: "rule 2", `[{"matches": ""}]`: "matches",
	} {
		if _, err := script(t, text).rules(smppStatus); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
