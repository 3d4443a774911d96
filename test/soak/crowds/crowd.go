// Package crowds contains the groups of clients that run beside the main load. Each group has its own invariants.
package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
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
	return []Crowd{newStarters(l), &erasures{load: l, stack: s, tenants: t}, &shop{load: l, stack: s, url: u.String()}, newElders(l, s), newPeople(l, s, t), newSleepers(l, s, t), newCodes(l, s, t), newCarriers(l, s, t)}, nil
}

// createTenant creates a company, a user with its name who submits for it, and senders that are not shared.
func createTenant(ctx context.Context, client *api.ClientWithResponses, no string, senders ...api.SenderRequest) error {
	company, err := client.CreateCompanyWithResponse(ctx, nil, api.CompanyRequest{CompanyNo: no, Name: no})
	if err := load.CheckCreated("company", err, company); err != nil {
		return err
	}
	secret := secretOf(no)
	user, err := client.CreateUserWithResponse(ctx, api.UserRequest{Username: no, Password: &secret, Role: api.RoleSubmit, CompanyNo: &no})
	if err := load.CheckCreated("user", err, user); err != nil {
		return err
	}
	for _, request := range senders {
		request.Name, request.IsShared = request.SenderNo, new(false)
		sender, err := client.CreateSenderWithResponse(ctx, nil, request)
		if err := load.CheckCreated("sender", err, sender); err != nil {
			return err
		}
	}
	return nil
}

// secretOf returns the password of a tenant's user.
func secretOf(no string) string { return "soak-of-" + no }

// sendRest lets a sender send until no task of a company remains. stream separates the random numbers of the callers.
func sendRest(ctx context.Context, s *stack.Stack, l *load.Load, companyNo, senderNo string, stream uint64) error {
	var all sync.WaitGroup
	defer all.Wait()
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Go(func() {
		app := load.Sender{Load: l, Rng: rand.New(rand.NewPCG(l.Seed, stream)), AppID: senderNo, Calm: true}
		app.Run(sending)
	})
	return awaitNone(ctx, s, "tasks of "+companyNo, "SELECT count(*) FROM queue q JOIN companies c ON c.id = q.company_id WHERE c.company_no = '"+companyNo+"'")
}

// awaitNone waits until the query sql returns 0. The error names the counted things.
func awaitNone(ctx context.Context, s *stack.Stack, things, sql string) error {
	for {
		left := 1
		err := s.Query(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&left) })
		if err == nil && left == 0 {
			return nil
		}
		if !stack.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d %s remain: %w", left, things, ctx.Err())
		}
	}
}
