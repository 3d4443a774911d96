package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestAURLMayNameSeveralHosts(t *testing.T) {
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

func TestTheHostThatWroteLastIsTriedFirstAndOneThatHangsLast(t *testing.T) {
	t.Parallel()
	f := &follower{resolved: map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2", "fd00::2"}, "c": {"10.0.0.2"}}}
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
	for _, c := range []struct{ writes, hangs, want string }{
		{"", "", "abc::1"}, {"10.0.0.2:2", "", "bac::1"}, {"[fd00::2]:2", "10.0.0.1:1", "bc::1a"}, {"", "10.0.0.1:1", "bc::1a"},
		{"10.0.0.2:3", "10.0.0.2:2", "ca::1b"}, {"[::1]:4", "", "::1abc"}, {"10.9.9.9:1", "10.9.9.9:2", "abc::1"},
	} {
		f.writes, f.hangs = c.writes, c.hangs
		if got := order(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
