package sender_test

import (
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

// expectMetrics fails the test unless /metrics has lines with each prefix in want, and no line with a prefix in not.
func expectMetrics(b *apptest.Bundle, want, not []string) {
	b.T.Helper()
	lines := "\n" + b.Expect(200, "", "GET", "/metrics", nil).Raw
	for _, line := range want {
		if !strings.Contains(lines, "\n"+line) {
			b.T.Errorf("/metrics has no %s", line)
		}
	}
	for _, line := range not {
		if strings.Contains(lines, "\n"+line) {
			b.T.Errorf("/metrics has %s", line)
		}
	}
}

func TestMetricsShowTheStateOfSenders(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	b.AddSender(map[string]any{"sender_no": "limited", "limits": map[string]any{"per_day": 10}, "balance": 30})
	b.AddSender(map[string]any{"sender_no": "slow", "interval_ms": 60_000})
	b.AddSender(map[string]any{"sender_no": "off", "status": "off"})
	b.AddSender(map[string]any{"sender_no": "driven", "kind": "http-sms", "config": p.SenderConfig()})
	b.AddSender(map[string]any{"sender_no": "paused", "kind": "http-sms", "config": p.SenderConfig()})
	b.Exec("UPDATE sender_states SET openings = 1, rest_until = now() + interval '1 minute' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'paused')")
	b.Submit("one")
	b.Submit("two")
	if n := len(b.Claim("limited", 1)) + len(b.Claim("slow", 1)); n != 2 {
		t.Fatalf("claimed %d tasks", n)
	}
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectMetrics(b, []string{
		`lksms_sender_ready{sender="limited"} 1`,
		`lksms_sender_ready{sender="slow"} 1`, // the sender only waits for its interval
		`lksms_sender_ready{sender="off"} 0`,
		`lksms_sender_ready{sender="driven"} 1`,
		`lksms_sender_ready{sender="paused"} 0`,
		`lksms_sender_balance{sender="limited"} 29`,
		`lksms_sender_limit_used_ratio{sender="limited",window="day"} 0.1`,
		`lksms_sender_last_seen_seconds{sender="limited"} `,
		`lksms_senders{state="ready"} 3`, `lksms_senders{state="not_ready"} 1`, `lksms_senders{state="off"} 1`,
	}, []string{
		`lksms_sender_balance{sender="slow"}`,
		`lksms_sender_limit_used_ratio{sender="limited",window="hour"}`,
		`lksms_sender_last_seen_seconds{sender="off"}`,
	})

	b.Exec("UPDATE senders SET per_hour = 0 WHERE sender_no = 'limited'")
	b.Exec("UPDATE sender_states SET rest_until = now() WHERE rest_until IS NOT NULL") // half-open
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '1 hour'")
	expectMetrics(b, []string{
		`lksms_sender_limit_used_ratio{sender="limited",window="hour"} 1`,
		`lksms_sender_ready{sender="limited"} 0`,
		`lksms_sender_ready{sender="slow"} 0`, // the sender is silent
		`lksms_sender_ready{sender="driven"} 1`,
		`lksms_sender_ready{sender="paused"} 1`, // as in the overview
		`lksms_sender_last_seen_seconds{sender="slow"} 36`,
	}, nil)

	b.Exec("UPDATE senders SET status = 'retired' WHERE sender_no = 'off'")
	expectMetrics(b, []string{`lksms_senders{state="off"} 0`}, []string{`lksms_sender_ready{sender="off"}`})
}

func TestMetricsNameAtMostAThousandSenders(t *testing.T) {
	b := apptest.New(t)
	b.Exec("INSERT INTO senders (sender_no, name, status, is_self_registered) SELECT 'off-' || i, 'x', 'off', true FROM generate_series(1, 20) i")
	b.Exec("INSERT INTO senders (sender_no, name, is_self_registered) SELECT 'app-' || i, 'x', true FROM generate_series(1, 1000) i")
	b.Exec("INSERT INTO senders (sender_no, name) SELECT 'added-' || i, 'x' FROM generate_series(1, 10) i")
	b.Exec("INSERT INTO sender_states (sender_id) SELECT id FROM senders")
	b.Exec("UPDATE sender_states SET seen_at = now() WHERE sender_id IN (SELECT id FROM senders WHERE sender_no IN ('app-1000', 'off-1'))")
	expectMetrics(b, []string{
		`lksms_sender_ready{sender="added-10"} 0`, `lksms_sender_ready{sender="app-1000"} 1`,
		`lksms_senders{state="ready"} 1`, `lksms_senders{state="not_ready"} 1009`, `lksms_senders{state="off"} 20`,
	}, []string{`lksms_sender_ready{sender="off-1"}`})
	raw := b.Expect(200, "", "GET", "/metrics", nil).Raw
	if n := strings.Count(raw, "\nlksms_sender_ready{"); n != 1000 {
		t.Errorf("%d senders are named", n)
	}
}
