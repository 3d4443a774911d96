package kills

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
	"lksms/internal/testkit/queries"
	"lksms/test/soak/proxy"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// If a statement was renamed, a path with its former name would kill no server.
func TestEveryKillPathNamesExistingStatements(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	for _, s := range queries.All(t) {
		exist[s.Name] = true
	}
	for _, p := range proxy.Paths {
		for _, name := range slices.Concat(p.Names, p.Without) {
			if beginning, isMany := strings.CutSuffix(name, "*"); isMany {
				name = ""
				for of := range exist {
					if strings.HasPrefix(of, beginning) {
						name = of
					}
				}
			}
			if !exist[name] {
				t.Errorf("%s names %q, which is no statement", p.Name, name)
			}
		}
	}
}

// aimed is a database connection through a proxy that can have an aim.
type aimed struct {
	t     *testing.T
	proxy *proxy.Proxy
	conn  *pgx.Conn
}

func connectAimed(t *testing.T) *aimed {
	t.Helper()
	u, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Start(filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	u.Host, u.RawQuery = p.Address(), "sslmode=disable"
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &aimed{t: t, proxy: p, conn: conn}
}

// exec runs a statement with a parameter.
func (a *aimed) exec(on interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, statement string,
) {
	a.t.Helper()
	rows, err := on.Query(a.t.Context(), statement, 1)
	if err != nil {
		a.t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		a.t.Fatal(err)
	}
}

// execInTx runs statements in one transaction.
func (a *aimed) execInTx(isRolledBack bool, statements ...string) {
	a.t.Helper()
	tx, err := a.conn.Begin(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, s := range statements {
		a.exec(tx, s)
	}
	if isRolledBack {
		err = tx.Rollback(a.t.Context())
	} else {
		err = tx.Commit(a.t.Context())
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func TestServersAreKilledOnlyAtStatementsOfThePath(t *testing.T) {
	t.Parallel()
	on := connectAimed(t)
	mine := &proxy.Path{Name: "mine", Names: []string{"Mine"}, Without: []string{"Other"}}
	const isMine, isOther, hasNone = "-- name: Mine :one\nSELECT $1::integer", "-- name: Other :one\nSELECT $1::integer", "SELECT $1::integer"
	for name, c := range map[string]struct {
		at                 proxy.Point
		statements         []string
		inTx, isRolledBack bool
		isTaken            bool
	}{
		"a statement of the path":                    {at: proxy.AtStatement, statements: []string{isMine}, isTaken: true},
		"a statement in a transaction":               {at: proxy.AtStatement, statements: []string{hasNone, isMine}, inTx: true, isTaken: true},
		"another statement":                          {at: proxy.AtStatement, statements: []string{isOther, hasNone}},
		"after a statement of another path":          {at: proxy.AtStatement, statements: []string{isOther, isMine}, inTx: true},
		"the same, in a transaction of its own":      {at: proxy.AtStatement, statements: []string{isOther, isMine}, isTaken: true},
		"COMMIT of the path":                         {at: proxy.AtCommit, statements: []string{isMine, hasNone}, inTx: true, isTaken: true},
		"COMMIT of another transaction":              {at: proxy.AtCommit, statements: []string{hasNone}, inTx: true},
		"the reply to COMMIT of the path":            {at: proxy.AtCommitReply, statements: []string{isMine}, inTx: true, isTaken: true},
		"the reply to a statement alone":             {at: proxy.AtCommitReply, statements: []string{isMine}, isTaken: true},
		"a reply to ROLLBACK":                        {at: proxy.AtCommitReply, statements: []string{isMine}, inTx: true, isRolledBack: true},
		"the reply to COMMIT of a later transaction": {at: proxy.AtCommitReply, statements: []string{hasNone}, inTx: true},
	} {
		times := 0
		a := &proxy.Aim{Path: mine, At: c.at, Strike: func(*proxy.Link) bool { times++; return true }}
		on.proxy.Aim.Store(a)
		if c.inTx {
			on.execInTx(c.isRolledBack, c.statements...)
		} else {
			for _, s := range c.statements {
				on.exec(on.conn, s)
			}
		}
		on.proxy.Aim.Store(nil)
		if want := map[bool]int{true: 1}[c.isTaken]; times != want {
			t.Errorf("%s: taken %d times, want %d", name, times, want)
		}
	}
}

func TestKillLogIsReadAgainAfterAnInterruption(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kills")
	for _, r := range []killedRound{{Seed: 1, Kills: 80}, {Seed: 2, Kills: 45, Broken: []string{"x"}}} {
		log, err := openKillLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.add(r); err != nil {
			t.Fatal(err)
		}
	}
	log, err := openKillLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if log.kills() != 125 || len(log.Rounds) != 2 || len(log.Rounds[1].Broken) != 1 {
		t.Errorf("the log has %+v", log.Rounds)
	}
}
