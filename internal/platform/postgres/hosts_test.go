package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestAURLCanContainSeveralHosts(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:p@a:1,b:2/db":                                 "a:1 b:2 writes",
		"postgres://u:p@a,b:2/db?sslmode=disable":                   "a:5432 b:2 writes",
		"postgres://u:p@[::1]:1,b:2/db":                             "::1:1 b:2 writes",
		"postgres://u:p@/db?host=/a,/b&port=1,2":                    "/a:1 /b:2 writes",
		"postgres://u:p@a:1,a:2/db?target_session_attrs=read-write": "a:1 a:2 writes",
		"postgres://u:p@a:1/db":                                     "a:1",
		"postgres://u:p@a:1/db?default_query_exec_mode=exec":        "a:1",
	} {
		cfg, err := parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		var got []string
		for _, ways := range hostsOf(&cfg.Config) {
			got = append(got, fmt.Sprintf("%s:%d", ways[0].Host, ways[0].Port))
		}
		if cfg.ValidateConnect != nil {
			got = append(got, "writes")
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", url, text, want)
		}
		if cfg.DefaultQueryExecMode == pgx.QueryExecModeExec {
			t.Errorf("%s: statements are sent without their types", url)
		}
	}
	const secret = "a-secret"
	for _, url := range []string{"postgres://u:" + secret + "@a:1,b:x/db", "postgres://u:" + secret + "@a:1,b:2,c/db?port=1,2", "postgres://u:" + secret + "%zz@a,b/db"} {
		if _, err := parse(url); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestTheLastWritableHostIsTriedFirstAndAHangingHostLast(t *testing.T) {
	t.Parallel()
	f := newFollower()
	f.resolved = map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2", "fd00::2"}, "c": {"10.0.0.2"}}
	order := func() (text string) {
		cfg, err := parse("postgres://u:p@a:1,b:2,c:3,[::1]:4/db?sslmode=prefer")
		if err != nil {
			t.Fatal(err)
		}
		f.order(&cfg.Config)
		for _, ways := range hostsOf(&cfg.Config) {
			text += ways[0].Host
			if len(ways) != 2 || ways[0].TLSConfig == nil || ways[1].TLSConfig != nil {
				t.Errorf("%s: %d ways", ways[0].Host, len(ways))
			}
		}
		return text
	}
	long := time.Now().Add(-2 * connectLimit)
	for _, c := range []struct {
		writes string
		hangs  []string // tried last in this order, and long ago
		want   string
	}{
		{"", nil, "abc::1"}, {"10.0.0.2:2", nil, "bac::1"}, {"[fd00::2]:2", []string{"10.0.0.1:1"}, "bc::1a"}, {"", []string{"10.0.0.1:1"}, "bc::1a"},
		{"10.0.0.2:3", []string{"10.0.0.2:2"}, "ca::1b"}, {"[::1]:4", nil, "::1abc"}, {"10.9.9.9:1", []string{"10.9.9.9:2"}, "abc::1"},
		{"", []string{"10.0.0.2:2", "10.0.0.1:1"}, "c::1ba"},
	} {
		f.writes = c.writes
		clear(f.hangs)
		for i, address := range c.hangs {
			f.hangs[address] = long.Add(time.Duration(i))
		}
		if got := order(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	// The two hanging hosts of the last case were tried just now, and are therefore omitted.
	if got := order(); got != "c::1" {
		t.Errorf("soon again: %s", got)
	}
	for _, address := range []string{"10.0.0.2:3", "[::1]:4"} {
		f.hangs[address] = time.Now()
	}
	if got := order(); len(got) != len("abc::1") {
		t.Errorf("when all hang: %s", got)
	}
}

func TestAHostCountsAsHangingAfterTwoFailedProbes(t *testing.T) {
	t.Parallel()
	f := newFollower()
	began := time.Now()
	f.writes, f.wroteAt = "a:1", began.Add(-time.Minute)
	f.hangs["c:3"], f.hangs["d:4"] = began, began
	f.open[nil] = "c:3" // a host that is no longer used has no connections
	f.addProbe(began, false)
	f.addProbe(began, true)
	f.addProbe(began, false)
	if _, isLeft := f.hangs["d:4"]; len(f.hangs) != 1 || !isLeft || !f.missedAt.IsZero() {
		t.Errorf("one slow probe marks the host as hanging: %v", f.hangs)
	}
	f.addProbe(began, false)
	if f.hangs["a:1"].IsZero() || f.writes != "" || f.missedAt.IsZero() {
		t.Errorf("two probes do not mark the host as hanging: %v", f.hangs)
	}
	f.writes, f.wroteAt = "b:2", began.Add(time.Second) // another pool connects to host b while the probe waits for host a
	f.addProbe(began, false)
	f.addProbe(began, false)
	if f.writes != "b:2" || len(f.hangs) != 2 {
		t.Errorf("a probe marks a host that it did not reach as hanging: %v", f.hangs)
	}
}
