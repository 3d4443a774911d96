// Package crowds contains the groups of clients that run beside the main load. Each group has its own invariants.
package crowds

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/proxy"
	"lksms/test/soak/stack"
)

// Crowd is a group of clients that runs beside the main load in each round.
type Crowd interface {
	SetUp(ctx context.Context) error
	Run(ctx context.Context, round int)
	Settle(ctx context.Context) error // Settle runs without faults, until all work that the crowd requested is finished
	Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error)
	Print()
}

// New returns all crowds. They need a PostgreSQL that the soak started itself.
func New(s *stack.Stack, l *load.Load, t *load.Tenants) ([]Crowd, error) {
	u, err := url.Parse(s.AdminURL())
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	if s.ClientProxy, err = proxy.Start(filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")); err != nil {
		return nil, err
	}
	u.Host, u.User = s.ClientProxy.Address(), url.UserPassword(shopRole, stack.Password)
	u.RawQuery = url.Values{"sslmode": {"disable"}, "application_name": {shopRole}}.Encode()
	return []Crowd{newStarters(l), &erasures{load: l, stack: s, tenants: t}, &shop{load: l, stack: s, url: u.String()}, newElders(l, s), newPeople(l, s, t), newSleepers(l, s, t)}, nil
}

// awaitNone waits until the query sql returns 0. In the error, what describes the counted things.
func awaitNone(ctx context.Context, s *stack.Stack, what, sql string) error {
	for {
		left := 1
		err := s.Query(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&left) })
		if err == nil && left == 0 {
			return nil
		}
		if !stack.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d %s remain: %w", left, what, ctx.Err())
		}
	}
}
