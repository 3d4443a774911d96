package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// crowd is a group of clients that the rounds run beside the others.
type crowd interface {
	setUp(ctx context.Context) error
	run(ctx context.Context, round int)
	settle(ctx context.Context) error // without faults, until nothing is left of what they asked for
	verdicts(ctx context.Context, conn *pgx.Conn) ([]verdict, error)
	print()
}

// newCrowds returns the clients of newer parts of the service. They need a PostgreSQL of the soak's own.
func newCrowds(s *stack, l *load, t *tenants) ([]crowd, error) {
	u, err := url.Parse(s.adminURL())
	if err != nil {
		return nil, fmt.Errorf("read database URL: %w", err)
	}
	if s.aside, err = startProxy(filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")); err != nil {
		return nil, err
	}
	u.Host, u.User = s.aside.address(), url.UserPassword(shopRole, password)
	u.RawQuery = url.Values{"sslmode": {"disable"}, "application_name": {shopRole}}.Encode()
	return []crowd{newStarters(l), &forgotten{load: l, stack: s, tenants: t}, &shop{load: l, stack: s, url: u.String()}, newElders(l, s)}, nil
}

// awaitNone returns when a count is 0.
func awaitNone(ctx context.Context, s *stack, what, sql string) error {
	for {
		left := 1
		err := s.query(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&left) })
		if err == nil && left == 0 {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d %s are left: %w", left, what, ctx.Err())
		}
	}
}
