package upgrade

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

func TestOnly503ResponsesOfUnreadyServersAreAccepted(t *testing.T) {
	t.Parallel()
	one := &stack.Server{Name: "one", URL: "http://127.0.0.1:1"}
	now := time.Now()
	unready := map[*stack.Server][]stack.Window{one: {{From: now.Add(-time.Second), To: now.Add(time.Second)}}}
	for _, c := range []struct {
		name   string
		status int
		at     map[*stack.Server][]stack.Window
		broken int
	}{
		{"503 meanwhile", 503, unready, 0},
		{"500 meanwhile", 500, unready, 1},
		{"503 of a ready server", 503, map[*stack.Server][]stack.Window{one: {{From: now.Add(-time.Minute), To: now.Add(-time.Second)}}}, 1},
		{"200", 200, nil, 0},
	} {
		f := newTraffic([]*stack.Server{one})
		f.record(&http.Request{URL: &url.URL{Host: "127.0.0.1:1", Path: "/api/v1/sms/send"}}, now, c.status)
		if v := f.verdict(c.at); v.Broken != c.broken {
			t.Errorf("%s: %d broken, want %d: %v", c.name, v.Broken, c.broken, v.Samples)
		}
	}
}

func TestLongestGapAndLongestCallAreMeasured(t *testing.T) {
	t.Parallel()
	f, from := newTraffic(nil), time.Now()
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	f.answers[load.SubmitCall] = []span{{at(5), at(6)}, {at(0), at(1)}, {at(1), at(9)}, {at(20), at(30)}}
	without, took := f.longest(load.SubmitCall, stack.Window{From: from, To: at(11)})
	if without != 5*time.Second || took != 8*time.Second {
		t.Errorf("the longest gap is %s, the longest call is %s", without, took)
	}
}

func TestLogCheckFindsErrorsAndSchemaFailures(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"level":"ERROR","msg":"request failed","error":"x"}`:                                                                       true,
		`{"level":"WARN","msg":"a sweep failed","error":"ERROR: column \"start_until\" does not exist (SQLSTATE 42703)"}`:            true,
		`{"level":"WARN","msg":"a migration waits until others release a table","error":"pq: canceling statement (SQLSTATE 55P03)"}`: false,
		`{"level":"WARN","msg":"the provider did not answer","error":"timeout"}`:                                                     false,
		`{"level":"INFO","msg":"request","status":200}`:                                                                              false,
		`  LKSMS is serving`: false,
	} {
		if got := isTrouble([]byte(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
