package main

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

func TestOnlyA503OfAServerThatIsNotReadyIsExplained(t *testing.T) {
	t.Parallel()
	one := &server{name: "one", url: "http://127.0.0.1:1"}
	now := time.Now()
	unready := map[*server][]window{one: {{now.Add(-time.Second), now.Add(time.Second)}}}
	for _, c := range []struct {
		name   string
		status int
		at     map[*server][]window
		broken int
	}{
		{"503 meanwhile", 503, unready, 0},
		{"500 meanwhile", 500, unready, 1},
		{"503 of a ready server", 503, map[*server][]window{one: {{now.Add(-time.Minute), now.Add(-time.Second)}}}, 1},
		{"200", 200, nil, 0},
	} {
		f := newTraffic([]*server{one})
		f.note(&http.Request{URL: &url.URL{Host: "127.0.0.1:1", Path: "/api/v1/sms/send"}}, now, c.status)
		if v := f.verdict(c.at); v.broken != c.broken {
			t.Errorf("%s: %d broken, want %d: %v", c.name, v.broken, c.broken, v.samples)
		}
	}
}

func TestThePauseOfAKindOfCallsIsTheLongestTimeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, from := newTraffic(nil), time.Now()
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	f.answers[submitCall] = []span{{at(5), at(6)}, {at(0), at(1)}, {at(1), at(9)}, {at(20), at(30)}}
	without, took := f.longest(submitCall, window{from, at(11)})
	if without != 5*time.Second || took != 8*time.Second {
		t.Errorf("%s without, %s took", without, took)
	}
}

func TestTroubleWithTheSchemaIsFoundInALog(t *testing.T) {
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
