package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
	"lksms/internal/platform/snapshot"
	"lksms/test/soak/check"
	"lksms/test/soak/stack"
)

// Tenants are two companies beside the default company, with routes of their own:
//
//	acme, notification   sender-acme-three (weight 3) and sender-acme-one (weight 1)
//	acme, verification   sender-push-sick and sender-push-well, both driven; the provider of the first has temporary troubles
//	acme, marketing      sender-both
//	bolt, notification   sender-bolt-any; for China sender-bolt-china, whose route is deleted and created repeatedly
//	bolt, marketing      sender-both, which serves bolt three times as often as acme
//
// bolt does not use shared senders. Its route to sender-bolt-any is sometimes switched off. Meanwhile messages of that route wait.
//
// Other clients guess passwords from the same address as all clients.
type Tenants struct {
	load    *Load
	Users   [2]tenant
	route   api.RouteRequest // the route for China, which is deleted and created repeatedly
	routeNo atomic.Int64     // number of that route; 0 while it is deleted
	any     api.Route        // the route of bolt to BoltAny, which is switched off and on

	mu       sync.Mutex
	routes   []routePeriod
	measures []measure // measurements of this round

	Guesses, Troubles, Flips atomic.Int64
}

// tenant is a company and the credentials of its user.
type tenant struct {
	Company   string
	Authorize api.RequestEditorFn
}

// routePeriod is a period in which a route of a company possibly exists and is on.
type routePeriod struct {
	company, sender string
	kind            int // message type
	since, until    time.Time
}

// measure is a measurement: a set of messages that waited at the same time, and the expected shares of the owners in their first leases.
type measure struct {
	what   string             // prefix of the texts
	first  int                // number of leases that count
	column string             // SQL expression for the owner of a lease: its company or its sender
	parts  map[string]float64 // expected share by owner
	off    float64            // allowed deviation of a share
}

// These are the companies and their senders.
const (
	Acme      = "acme"
	Bolt      = "bolt"
	acmeThree = "sender-acme-three"
	acmeOne   = "sender-acme-one"
	ofBoth    = "sender-both"
	BoltAny   = "sender-bolt-any"
	boltChina = "sender-bolt-china"
	sick      = "sender-push-sick"
	well      = "sender-push-well"
)

// Elder is the company whose marketing messages wait too long. ElderSender is the only sender of Elder.
const (
	Elder       = "elder"
	ElderSender = "sender-elder"
)

// Quiet is an app that polls so rarely that it sometimes counts as silent.
const Quiet = "sender-quiet"

// tenantSenders are the apps of the tenants.
var tenantSenders = []string{acmeThree, acmeOne, ofBoth, BoltAny, boltChina}

// kinds are the numbers of the message types.
var kinds = map[api.MessageType]int{api.Verification: 0, api.Notification: 1, api.Marketing: 2}

// NewTenants returns the tenants of a load. SetUp creates them in the service.
func NewTenants(l *Load) *Tenants { return &Tenants{load: l} }

// CheckCreated returns an error unless err is nil and the response has the status 200.
func CheckCreated(what string, err error, answer interface{ Status() string }) error {
	if err == nil && !strings.HasPrefix(answer.Status(), "200") {
		err = errors.New(answer.Status())
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", what, err)
	}
	return nil
}

// SetUp creates the companies, users, senders and routes.
func (t *Tenants) SetUp(ctx context.Context) error {
	c := t.load.Clients[0]
	region := "CN"
	country, err := c.CreateCountryWithResponse(ctx, nil, api.CountryRequest{CountryNo: "CN", Name: "China", DialPrefix: "86", Region: nullable.NewNullableWithValue(region)})
	if err := CheckCreated("country", err, country); err != nil {
		return err
	}
	for i, no := range []string{Acme, Bolt} {
		weight := []float64{1, 3}[i]
		body := api.CompanyRequest{CompanyNo: no, Name: no, Weight: &weight}
		if no == Bolt && !t.load.isPlain() {
			body.UsesSharedSenders = new(false)
		}
		company, err := c.CreateCompanyWithResponse(ctx, nil, body)
		if err := CheckCreated("company", err, company); err != nil {
			return err
		}
		secret := "soak-of-" + no
		user, err := c.CreateUserWithResponse(ctx, api.UserRequest{Username: no, Password: &secret, Role: api.RoleSubmit, CompanyNo: &no})
		if err := CheckCreated("user", err, user); err != nil {
			return err
		}
		t.Users[i] = tenant{no, func(_ context.Context, r *http.Request) error {
			r.SetBasicAuth(no, secret)
			return nil
		}}
	}
	key, err := c.CreateKeyWithResponse(ctx, Bolt, api.KeyRequest{Name: "soak"})
	if err := CheckCreated("key", err, key); err != nil {
		return err
	}
	bearer := "Bearer " + key.JSON200.Data.Key
	t.Users[1].Authorize = func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", bearer)
		return nil
	}
	no := false
	for _, name := range tenantSenders {
		if err := t.MakeSender(ctx, api.SenderRequest{SenderNo: name, Name: name, IsShared: &no}); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{sick: "/sick", well: "/well"} {
		if err := t.MakeSender(ctx, t.load.Provider.sender(name, path)); err != nil {
			return err
		}
	}
	t.route = api.RouteRequest{CompanyNo: Bolt, MessageType: api.Notification, CountryNo: &region, SenderNo: boltChina}
	weight := int64(3)
	for _, route := range []api.RouteRequest{
		{CompanyNo: Acme, MessageType: api.Notification, SenderNo: acmeThree, Weight: &weight},
		{CompanyNo: Acme, MessageType: api.Notification, SenderNo: acmeOne},
		{CompanyNo: Acme, MessageType: api.Verification, SenderNo: sick},
		{CompanyNo: Acme, MessageType: api.Verification, SenderNo: well},
		{CompanyNo: Acme, MessageType: api.Marketing, SenderNo: ofBoth},
		{CompanyNo: Bolt, MessageType: api.Marketing, SenderNo: ofBoth},
		{CompanyNo: Bolt, MessageType: api.Notification, SenderNo: BoltAny},
		t.route,
	} {
		since := time.Now()
		res, err := c.CreateRouteWithResponse(ctx, nil, route)
		if err := CheckCreated("route", err, res); err != nil {
			return err
		}
		t.AddRoute(route, since)
		switch {
		case route.CountryNo != nil:
			t.routeNo.Store(res.JSON200.Data.RouteNo)
		case route.SenderNo == BoltAny:
			t.any = res.JSON200.Data
		}
	}
	return nil
}

// MakeSender creates a sender.
func (t *Tenants) MakeSender(ctx context.Context, body api.SenderRequest) error {
	res, err := t.load.Clients[0].CreateSenderWithResponse(ctx, nil, body)
	return CheckCreated("sender", err, res)
}

// forever is a time long after the end of the soak.
var forever = time.Now().Add(1000 * time.Hour)

// AddRoute records that a route possibly exists from the time since on.
func (t *Tenants) AddRoute(route api.RouteRequest, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.routes = append(t.routes, routePeriod{route.CompanyNo, route.SenderNo, kinds[route.MessageType], since, forever})
}

// endRoute records that the route of bolt to a sender is now deleted or off. For up to age, servers can still use a cached view of the routes.
func (t *Tenants) endRoute(senderNo string, age time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.routes {
		if n := &t.routes[i]; n.company == Bolt && n.sender == senderNo && n.until.Equal(forever) {
			n.until = time.Now().Add(age)
		}
	}
}

// Run submits, claims, changes routes and causes troubles until ctx ends.
func (t *Tenants) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(t.load.Seed, uint64(round)<<16|uint64(1<<12+n))) }
	for i := range 6 {
		all.Go(func() { t.submit(ctx, rng(i), t.Users[i%2]) })
	}
	for i, name := range tenantSenders {
		all.Go(func() {
			s := Sender{Load: t.load, Rng: rng(10 + i), AppID: name}
			s.Run(ctx)
		})
	}
	all.Go(func() { t.flip(ctx, rng(20)) })
	all.Go(func() { t.trouble(ctx, rng(21)) })
	if !t.load.isPlain() {
		all.Go(func() { t.switchRoute(ctx, rng(22)) })
	}
	for i := range 3 {
		all.Go(func() { t.guess(ctx, rng(30+i)) })
	}
	all.Wait()
}

// submit submits messages of a company, of all types that the company uses.
func (t *Tenants) submit(ctx context.Context, rng *rand.Rand, user tenant) {
	types := []api.MessageType{api.Verification, api.Notification, api.Notification, api.Marketing}
	if user.Company == Bolt {
		types = types[1:]
	}
	for stack.Pause(ctx, time.Duration(rng.IntN(60))*time.Millisecond) {
		serial := t.load.Serial.Add(1)
		text := fmt.Sprintf("soak-%d-%s-%d", t.load.Seed, user.Company, serial)
		kind := types[rng.IntN(len(types))]
		body := api.SendRequest{PhoneNumber: fmt.Sprintf("138%08d", serial), Content: &text, MessageType: &kind}
		if rng.IntN(20) == 0 {
			at := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			body.ExpectSendTime = &at
		}
		t.load.Submit(t.load.Any(rng), nil, body, text, user.Authorize)
	}
}

// flip deletes the route for China and creates it again. It repeats each request until the outcome is known.
func (t *Tenants) flip(ctx context.Context, rng *rand.Rand) {
	for stack.Pause(ctx, time.Duration(500+rng.IntN(2500))*time.Millisecond) {
		t.Flips.Add(1)
		if no := t.routeNo.Load(); no != 0 {
			t.remove(rng, no)
		} else {
			t.bringBack(rng)
		}
	}
}

func (t *Tenants) remove(rng *rand.Rand, no int64) {
	for range KeyedTries {
		res, err := t.load.Any(rng).DeleteRouteWithResponse(CallContext(), no)
		if err == nil && (res.StatusCode() == http.StatusOK || res.StatusCode() == http.StatusNotFound) {
			t.endRoute(boltChina, 2*snapshot.Fresh) // a server can use a cached view of the routes that is this old
			t.routeNo.Store(0)
			return
		}
		time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
	}
}

// bringBack creates the route again. A request without a response has possibly created the route. Because of the idempotency key, a repeated request gets the
// response to the first request.
func (t *Tenants) bringBack(rng *rand.Rand) {
	key := fmt.Sprintf("route-%d-%d", t.load.Seed, t.Flips.Load())
	t.AddRoute(t.route, time.Now())
	for range 5 * KeyedTries {
		res, err := t.load.Any(rng).CreateRouteWithResponse(CallContext(), &api.CreateRouteParams{IdempotencyKey: &key}, t.route)
		if err == nil && res.JSON200 != nil {
			t.routeNo.Store(res.JSON200.Data.RouteNo)
			return
		}
		time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
	}
}

// switchRoute switches the route of bolt to BoltAny off and on again. It repeats each request until the outcome is known. Once the route is off, no claim uses
// it.
func (t *Tenants) switchRoute(ctx context.Context, rng *rand.Rand) {
	for stack.Pause(ctx, time.Duration(1000+rng.IntN(2000))*time.Millisecond) {
		if t.setRoute(rng, api.StatusOff) {
			t.endRoute(BoltAny, 0)
			stack.Pause(ctx, time.Duration(rng.IntN(1000))*time.Millisecond)
			t.AddRoute(api.RouteRequest{CompanyNo: Bolt, MessageType: api.Notification, SenderNo: BoltAny}, time.Now())
		}
		t.setRoute(rng, api.StatusOn)
	}
}

// setRoute switches the route of bolt to BoltAny, and reports whether the switch was confirmed.
func (t *Tenants) setRoute(rng *rand.Rand, status api.OnOff) bool {
	for range 5 * KeyedTries {
		res, err := t.load.Any(rng).UpdateRouteWithResponse(CallContext(), t.any.RouteNo, api.RoutePatch{Status: &status})
		if err == nil && res.JSON200 != nil {
			return true
		}
		time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
	}
	return false
}

// trouble repeatedly puts the provider of one sender into trouble for a while.
func (t *Tenants) trouble(ctx context.Context, rng *rand.Rand) {
	defer t.load.Provider.ailment.Store(healthy)
	for stack.Pause(ctx, time.Duration(rng.IntN(4000))*time.Millisecond) {
		t.load.Provider.ailment.Store(1 + rng.Int32N(ailments-1))
		t.Troubles.Add(1)
		stack.Pause(ctx, time.Duration(500+rng.IntN(3000))*time.Millisecond)
		t.load.Provider.ailment.Store(healthy)
	}
}

// guess tries wrong passwords for existing and unknown users, from the same address as all clients.
func (t *Tenants) guess(ctx context.Context, rng *rand.Rand) {
	c := http.Client{Timeout: CallLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	for stack.Pause(ctx, time.Duration(rng.IntN(150))*time.Millisecond) {
		s := t.load.servers[rng.IntN(len(t.load.servers))]
		req, err := http.NewRequestWithContext(CallContext(), http.MethodGet, s.URL+"/api/v1/admin/task-statistics", nil)
		if err != nil {
			continue
		}
		names := []string{"admin", Acme, Bolt, "nobody", fmt.Sprint("nobody-", rng.IntN(1000))}
		req.SetBasicAuth(names[rng.IntN(len(names))], fmt.Sprint("guess-", rng.Uint32()))
		res, err := c.Do(req)
		if err != nil {
			continue // the server is possibly down
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		t.Guesses.Add(1)
		if res.StatusCode == http.StatusOK {
			t.load.History.Breach("a wrong password was accepted")
		}
	}
}

const (
	sharesMany, sharesFirst = 620, 500
	fairMany, fairFirst     = 340, 400 // number of messages of each company, and number of leases that count
	aloneMany               = 150      // number of messages of one company, before the other company starts
)

// MeasureShares submits messages that all wait at the same time, and then makes senders claim them without faults. Each measurement has different texts,
// because earlier messages can still have an unknown outcome.
func (t *Tenants) MeasureShares(ctx context.Context, round int) error {
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(t.load.Seed, uint64(round)<<16|uint64(1<<13+n))) }
	prefix := fmt.Sprintf("soak-%d-round-%d-", t.load.Seed, round)
	shares, fair := prefix+"shares-", prefix+"fair-"
	if err := t.pile(ctx, t.Users[0], api.Notification, shares, sharesMany); err != nil {
		return err
	}
	sizes := []int{4, 7, 3, 1, 5, 2}
	t.take(ctx, rng, sizes[(round-1)%len(sizes)], acmeThree, acmeOne)
	// A company that starts to submit later must not get credit for the time before.
	if err := t.pile(ctx, t.Users[0], api.Marketing, prefix+"alone-", aloneMany); err != nil {
		return err
	}
	t.take(ctx, rng, MaxClaim, ofBoth)
	for i, user := range t.Users {
		if err := t.pile(ctx, user, api.Marketing, fmt.Sprint(fair, i, "-"), fairMany); err != nil {
			return err
		}
	}
	t.take(ctx, rng, sizes[round%len(sizes)], ofBoth)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measures = []measure{
		{shares, sharesFirst, "l.app_id", map[string]float64{acmeThree: 0.75, acmeOne: 0.25}, 0.02},
		// within a tenth of the expected share
		{fair, fairFirst, "c.company_no", map[string]float64{Bolt: 0.75}, 0.075},
		{fair, fairFirst, "c.company_no", map[string]float64{Acme: 0.25}, 0.025},
	}
	return nil
}

// pile submits messages for a measurement.
func (t *Tenants) pile(ctx context.Context, user tenant, kind api.MessageType, prefix string, n int) error {
	var body api.SendBatchRequest
	for i := range n {
		text := fmt.Sprint(prefix, i)
		body.Messages = append(body.Messages, api.SendRequest{PhoneNumber: fmt.Sprintf("138%08d", t.load.Serial.Add(1)), Content: &text, MessageType: &kind})
	}
	res, err := t.load.Clients[0].SendSmsBatchWithResponse(ctx, nil, body, user.Authorize)
	if err := CheckCreated("messages to be measured", err, res); err != nil {
		return err
	}
	if res.JSON200.Data.Accepted != n {
		return fmt.Errorf("create messages to be measured: %s", res.Body)
	}
	for i, m := range body.Messages {
		t.load.History.Submitted(*m.Content, Answered, *res.JSON200.Data.Items[i].TaskID)
	}
	return nil
}

// take lets senders poll concurrently, with limit tasks per claim, until no task is left. Each sender has two pollers, one at each server.
func (t *Tenants) take(ctx context.Context, rng func(int) *rand.Rand, limit int, names ...string) {
	var all sync.WaitGroup
	var idle atomic.Int64 // number of consecutive polls of all senders that returned no task
	for i, name := range names {
		for j, client := range t.load.Clients {
			rng := rng(2*i + j)
			all.Go(func() {
				s := Sender{Load: t.load, Rng: rng, AppID: name, Calm: true}
				for idle.Load() < 50 && ctx.Err() == nil {
					tasks := s.claimFrom(client, limit, 0)
					if len(tasks) == 0 {
						idle.Add(1)
						stack.Pause(ctx, 10*time.Millisecond)
						continue
					}
					idle.Store(0)
					s.SendAll(tasks)
				}
			})
		}
	}
	all.Wait()
}

// Verdicts compares the measured shares with the expected shares, and the leases of the tenants with the routes.
func (t *Tenants) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.copyRoutes(ctx, conn); err != nil {
		return nil, fmt.Errorf("copy routes: %w", err)
	}
	shares := check.Verdict{Name: "senders of a route share by weight, within 2 points of 500"}
	fair := check.Verdict{Name: "a sender of two pools serves their companies by weight, within a tenth of 400"}
	for _, m := range t.measures {
		v := &fair
		if m.column == "l.app_id" {
			v = &shares
		}
		if err := m.check(ctx, conn, v); err != nil {
			return nil, err
		}
	}
	all := []check.Verdict{shares, fair}
	for _, i := range []check.Invariant{
		{Name: "no message goes through a sender without a route of its company", SQL: `
			SELECT c.company_no || ' ' || l.task_id || ' through ' || l.app_id || ' at ' || l.created_at
			FROM leases l
			JOIN task_states t USING (task_id)
			JOIN companies c ON c.id = t.company_id
			WHERE c.company_no <> 'default' AND (c.company_no, l.app_id) <> ('` + Elder + `', '` + ElderSender + `') AND NOT EXISTS (
				SELECT FROM named n
				WHERE n.company_no = c.company_no AND n.kind = t.message_type AND n.sender_no = l.app_id
					AND l.created_at BETWEEN n.since AND n.until
			)`},
		{Name: "no message fails or loses an attempt because of a provider's trouble", SQL: `
			SELECT r.task_id || ' by ' || r.app_id || ': ' || coalesce(r.error_message, '') FROM report_logs r
			WHERE r.app_id IN ('` + sick + `', '` + well + `') AND r.event = 'reported' AND r.effect IN ('retry', 'failed', 'exhausted')`},
	} {
		v, err := i.Check(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// copyRoutes copies the periods of the routes into the temporary table named.
func (t *Tenants) copyRoutes(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "CREATE TEMP TABLE named (company_no text, sender_no text, kind int, since timestamptz, until timestamptz)"); err != nil {
		return err
	}
	rows := make([][]any, len(t.routes))
	for i, n := range t.routes {
		rows[i] = []any{n.company, n.sender, n.kind, n.since, n.until}
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"named"}, []string{"company_no", "sender_no", "kind", "since", "until"}, pgx.CopyFromRows(rows))
	return err
}

// check counts the first leases by owner, and adds a violation to v for each wrong share.
func (m measure) check(ctx context.Context, conn *pgx.Conn, v *check.Verdict) error {
	rows, err := conn.Query(ctx, `SELECT f.whose, count(*) FROM (
			SELECT `+m.column+` AS whose
			FROM leases l
			JOIN task_states t USING (task_id)
			JOIN companies c ON c.id = t.company_id
			WHERE starts_with(t.content, $1)
			ORDER BY l.id
			LIMIT $2
		) f
		GROUP BY f.whose`, m.what, m.first)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	var whose string
	var n int
	total := 0
	if _, err := pgx.ForEachRow(rows, []any{&whose, &n}, func() error { counts[whose] = n; total += n; return nil }); err != nil {
		return err
	}
	if total != m.first {
		v.Add(fmt.Sprintf("%s: %d leases instead of %d", m.what, total, m.first))
		return nil
	}
	for whose, part := range m.parts {
		if got := float64(counts[whose]) / float64(m.first); got < part-m.off || got > part+m.off {
			v.Add(fmt.Sprintf("%s: %s has %d of %d instead of %.0f", m.what, whose, counts[whose], m.first, part*float64(m.first)))
		}
	}
	return nil
}
