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
