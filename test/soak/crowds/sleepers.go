package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

const (
	sleepersCompany = "sleepers"
	sleepersSender  = "sender-sleepers"
	leastNight      = 20 * time.Second // minimum duration of quiet hours
	leastDay        = 20 * time.Second // minimum time between quiet hours
	rulesLag        = 5 * time.Second  // a server notices a change of another server within four seconds
)

// sleepers have quiet hours that begin and end while messages are submitted to them. Half of the messages expire soon after the end of the quiet hours.
type sleepers struct {
	load      *load.Load
	stack     *stack.Stack
	tenants   *load.Tenants
	authorize api.RequestEditorFn
	zone      *time.Location // time zone of the numbers

	mu        sync.Mutex
	nights    []night
	submitted atomic.Int64
}

// night is a period of quiet hours that all servers know.
type night struct{ from, until time.Time }

func newSleepers(l *load.Load, s *stack.Stack, t *load.Tenants) *sleepers {
	return &sleepers{load: l, stack: s, tenants: t, authorize: func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(sleepersCompany, secretOf(sleepersCompany))
		return nil
	}}
}

func (p *sleepers) SetUp(ctx context.Context) (err error) {
	if p.zone, err = time.LoadLocation("Asia/Shanghai"); err != nil {
		return fmt.Errorf("load time zone: %w", err)
	}
	c, no := p.load.Clients[0], sleepersCompany
	if err := createTenant(ctx, c, no, api.SenderRequest{SenderNo: sleepersSender}); err != nil {
		return err
	}
	route := api.RouteRequest{CompanyNo: no, MessageType: api.Marketing, SenderNo: sleepersSender}
	p.tenants.AddRoute(route, time.Now())
	res, err := c.CreateRouteWithResponse(ctx, nil, route)
	if err := load.CheckCreated("route", err, res); err != nil {
		return err
	}
	until := endOfNight(time.Now().Add(time.Minute)) // a short run ends before the night does
	if err := p.sleep(ctx, until); err != nil {
		return err
	}
	p.nights = []night{{time.Now().Add(rulesLag), until}} // nothing is submitted before
	return nil
}

// endOfNight returns the end of quiet hours that contain a time: they begin and end at whole minutes.
func endOfNight(at time.Time) time.Time {
	return at.Add(leastNight).Truncate(time.Minute).Add(time.Minute)
}

// sleep sets quiet hours from now until a time. The zero time ends the quiet hours.
func (p *sleepers) sleep(ctx context.Context, until time.Time) error {
	hours := ""
	if !until.IsZero() {
		hours = time.Now().In(p.zone).Format("15:04") + "-" + until.In(p.zone).Format("15:04")
	}
	change := api.RecipientRulesChange{}
	change.QuietHours = new(struct {
		Marketing    nullable.Nullable[string] `json:"marketing,omitempty"`
		Notification nullable.Nullable[string] `json:"notification,omitempty"`
	})
	change.QuietHours.Marketing = nullable.NewNullableWithValue(hours)
	changed, err := p.load.Clients[0].UpdateCompanyWithResponse(ctx, sleepersCompany, api.CompanyPatch{Recipient: &change})
	return load.CheckCreated("quiet hours", err, changed)
}

func (p *sleepers) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(p.load.Seed, uint64(round)<<16|uint64(1<<13+n))) }
	for i := range 2 {
		all.Go(func() {
			rng := rng(i)
			for stack.Pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond) {
				p.submit(rng)
			}
		})
	}
	all.Go(func() {
		app := load.Sender{Load: p.load, Rng: rng(10), AppID: sleepersSender, Calm: true}
		app.Run(ctx)
	})
	for stack.Pause(ctx, time.Until(p.morning())+leastDay+time.Duration(rng(11).Int64N(int64(leastDay)))) {
		p.fallAsleep(ctx)
	}
	all.Wait()
}

// morning returns the end of the last night.
func (p *sleepers) morning() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nights[len(p.nights)-1].until
}

// fallAsleep sets other quiet hours, and waits until these apply to all waiting messages.
func (p *sleepers) fallAsleep(ctx context.Context) {
	until := endOfNight(time.Now())
	if p.sleep(ctx, until) != nil { // the response is possibly lost. The next attempt begins later
		return
	}
	known := time.Now().Add(rulesLag)
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := awaitNone(limited, p.stack, "changes of quiet hours",
		"SELECT count(*) FROM quiet_changes q JOIN companies c ON c.id = q.company_id WHERE c.company_no = '"+sleepersCompany+"'")
	if err != nil {
		known = until // the night ended before its hours applied to all waiting messages, or the run has ended
	} else if now := time.Now(); now.After(known) {
		known = now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nights = append(p.nights, night{known, until})
}

// submit submits a marketing message to a new number.
func (p *sleepers) submit(rng *rand.Rand) {
	serial := p.load.Serial.Add(1)
	kind, text := api.Marketing, fmt.Sprintf("soak-%d-%s-%d", p.load.Seed, sleepersCompany, serial)
	body := api.SendRequest{PhoneNumber: fmt.Sprintf("135%08d", serial), Content: &text, MessageType: &kind}
	if until := p.morning(); rng.IntN(2) == 0 && time.Until(until) > 0 {
		body.ExpiresAt = new(until.Add(leastDay)) // so the message is sent in the first half of the day
	}
	p.load.Submit(p.load.Any(rng), nil, body, text, p.authorize)
	p.submitted.Add(1)
}

// Settle ends the quiet hours, and waits until the sender has sent everything. It makes all messages due: the service would do this later, and a retry that waits
// for the end of the night would keep its time.
func (p *sleepers) Settle(ctx context.Context) error {
	for err := p.sleep(ctx, time.Time{}); err != nil; err = p.sleep(ctx, time.Time{}) {
		if !stack.Pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
	p.mu.Lock()
	last := &p.nights[len(p.nights)-1]
	if now := time.Now(); last.until.After(now) {
		last.until = now
	}
	p.mu.Unlock()
	stack.Pause(ctx, rulesLag)
	err := p.stack.Query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "UPDATE queue q SET due_at = now(), quiet_from = NULL FROM companies c WHERE c.company_no = '"+sleepersCompany+
			"' AND q.company_id = c.id AND q.lease_until IS NULL")
		return err
	})
	if err != nil {
		return fmt.Errorf("make messages due: %w", err)
	}
	return sendRest(ctx, p.stack, p.load, sleepersCompany, sleepersSender, 1<<13)
}

// sleepersInvariants must hold when no client runs. The table nights contains the nights.
var sleepersInvariants = []check.Invariant{
	{Name: "no message is leased in the quiet hours of its recipient", SQL: `
		SELECT l.task_id || ' was leased at ' || l.created_at || ', it was quiet from ' || n.since || ' until ' || n.until
		FROM messages m JOIN companies c ON c.id = m.company_id JOIN leases l USING (task_id) JOIN nights n ON l.created_at >= n.since AND l.created_at < n.until
		WHERE c.company_no = '` + sleepersCompany + `'`},
}

func (p *sleepers) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE nights (since timestamptz, until timestamptz)"); err != nil {
		return nil, err
	}
	for _, n := range p.nights {
		if _, err := conn.Exec(ctx, "INSERT INTO nights VALUES ($1, $2)", n.from, n.until); err != nil {
			return nil, err
		}
	}
	return check.All(ctx, conn, sleepersInvariants)
}

func (p *sleepers) Print() {
	fmt.Printf("  %5d  messages to people with quiet hours, in %d nights\n", p.submitted.Load(), len(p.nights))
}
