// Package crowds has the groups of clients that work beside the load, each with its own invariants.
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

// Crowd is a group of clients that the rounds run beside the others.
type Crowd interface {
	SetUp(ctx context.Context) error
	Run(ctx context.Context, round int)
	Settle(ctx context.Context) error // without faults, until nothing is left of what they asked for
	Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error)
	Print()
}

// New returns the clients of newer parts of the service. They need a PostgreSQL of the soak's own.
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
	return []Crowd{newStarters(l), &erasures{load: l, stack: s, tenants: t}, &shop{load: l, stack: s, url: u.String()}, newElders(l, s)}, nil
}

// awaitNone returns when a count is 0.
func awaitNone(ctx context.Context, s *stack.Stack, what, sql string) error {
	for {
		left := 1
		err := s.Query(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&left) })
		if err == nil && left == 0 {
			return nil
		}
		if !stack.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d %s are left: %w", left, what, ctx.Err())
		}
	}
}
