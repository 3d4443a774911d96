package crowds

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
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

// These constants describe the people, their company, and the only sender of the company.
const (
	peopleCompany = "people"
	peopleSender  = "sender-people"
	peoplePhone   = "phone-people" // a phone with the SMSGate app, which only receives
	cappedNumbers = 30             // numbers that get more marketing messages than their cap allows
	perMinute     = 3              // the cap of marketing messages
	answerText    = "soak answer"
	confirmText   = "soak confirmation"
)

// people write to a company. Some of their messages match a rule, some ask for no more marketing messages. The company has a cap of marketing messages per number.
// Each message is handed over twice at the same time, to both servers, and again until it is acknowledged.
type people struct {
	load      *load.Load
	stack     *stack.Stack
	tenants   *load.Tenants
	authorize api.RequestEditorFn
	phone     *phone

	mu       sync.Mutex
	messages []personMessage
	stops    []personStop
	limited  []limitedCall
	did      [personActs]atomic.Int64
}

type personAct int

const (
	writeText personAct = iota
	writeToPhone
	repeatText
	askForAnswer
	optOut
	reachCap
	personActs
)

var personActNames = [personActs]string{
	"messages of people", "messages that a phone with the SMSGate app posts", "messages with the same text, a second later", "messages that match a rule", "opt-outs", "messages refused by a cap",
}

// personMessage is a message that a sender handed over.
type personMessage struct {
	number, content string
	at              time.Time
	isAnswered      bool // a server acknowledged it
}

// personStop is the time at which a server acknowledged an opt-out.
type personStop struct {
	number string
	at     time.Time
}

// limitedCall is a call that a cap refused.
type limitedCall struct {
	number       string
	since, until time.Time
}

func newPeople(l *load.Load, s *stack.Stack, t *load.Tenants) *people {
	return &people{load: l, stack: s, tenants: t, authorize: func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(peopleCompany, secretOf(peopleCompany))
		r.Header.Set(load.Capped, "true")
		return nil
	}}
}

func (p *people) SetUp(ctx context.Context) (err error) {
	c, no := p.load.Clients[0], peopleCompany
	if err := createTenant(ctx, c, no, api.SenderRequest{SenderNo: peopleSender, InboxCompanyNo: &no}, api.SenderRequest{SenderNo: peoplePhone, InboxCompanyNo: &no}); err != nil {
		return err
	}
	if p.phone, err = pair(ctx, c, peoplePhone); err != nil {
		return err
	}
	for _, kind := range []api.MessageType{api.Notification, api.Marketing} {
		route := api.RouteRequest{CompanyNo: no, MessageType: kind, SenderNo: peopleSender}
		p.tenants.AddRoute(route, time.Now())
		res, err := c.CreateRouteWithResponse(ctx, nil, route)
		if err := load.CheckCreated("route", err, res); err != nil {
			return err
		}
	}
	rules := api.RecipientRulesChange{OptOutReply: nullable.NewNullableWithValue(confirmText)}
	rules.Caps = new(struct {
		Marketing    *api.CapsChange `json:"marketing,omitempty"`
		Notification *api.CapsChange `json:"notification,omitempty"`
		Verification *api.CapsChange `json:"verification,omitempty"`
	})
	rules.Caps.Marketing = &api.CapsChange{PerMinute: nullable.NewNullableWithValue[int64](perMinute)}
	changed, err := c.UpdateCompanyWithResponse(ctx, no, api.CompanyPatch{Recipient: &rules})
	if err := load.CheckCreated("rules about recipients", err, changed); err != nil {
		return err
	}
	text := answerText
	rule, err := c.CreateReplyRuleWithResponse(ctx, nil, api.ReplyRuleRequest{
		CompanyNo: &no, Match: api.ReplyMatchPrefix, Words: []string{"info"}, Action: api.ReplyActionReply, Content: &text,
	})
	if err := load.CheckCreated("rule", err, rule); err != nil {
		return err
	}
	for _, text := range []string{answerText, confirmText} { // the service submits them by itself
		p.load.History.Submitted(text, load.Unknown, "")
	}
	return nil
}

func (p *people) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(p.load.Seed, uint64(round)<<16|uint64(1<<14+n))) }
	for i := range 8 {
		all.Go(func() {
			rng := rng(i)
			for stack.Pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond) {
				p.submit(rng, fmt.Sprintf("137%08d", rng.IntN(cappedNumbers)))
			}
		})
	}
	for i := range 4 {
		all.Go(func() {
			rng := rng(10 + i)
			for stack.Pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond) {
				p.write(rng)
				p.stop(rng)
			}
		})
	}
	all.Go(func() {
		app := load.Sender{Load: p.load, Rng: rng(20), AppID: peopleSender}
		app.Run(ctx)
	})
	all.Wait()
}

// newNumber returns a number to which nobody else sends.
func (p *people) newNumber() string { return fmt.Sprintf("136%08d", p.load.Serial.Add(1)) }

// submit submits a marketing message to a number, and returns the status of the response; 0: none.
func (p *people) submit(rng *rand.Rand, number string) int {
	kind, text := api.Marketing, fmt.Sprintf("soak-%d-%s-%d", p.load.Seed, peopleCompany, p.load.Serial.Add(1))
	since := time.Now()
	res, err := p.load.Any(rng).SendSmsWithResponse(load.CallContext(), nil, api.SendRequest{PhoneNumber: number, Content: &text, MessageType: &kind}, p.authorize)
	status, id := 0, ""
	if err == nil {
		status = res.StatusCode()
		if res.JSON200 != nil {
			id = res.JSON200.Data.TaskID
		}
		switch {
		case status != http.StatusTooManyRequests:
		case bytes.Contains(res.Body, []byte("recipient.limited")):
			p.did[reachCap].Add(1)
			p.mu.Lock()
			p.limited = append(p.limited, limitedCall{"+86" + number, since, time.Now()})
			p.mu.Unlock()
		default:
			p.load.History.Breach("a submission was refused with 429: %s", res.Body)
		}
	}
	o := load.OutcomeOf(status, err)
	p.load.History.Calls[o].Add(1)
	p.load.History.Submitted(text, o, id)
	return status
}

// hand hands over a message of a person twice at the same time, to both servers, and again until one of them acknowledges it. Half of the messages have another
// id each time, as phones give it after a restart of their app.
func (p *people) hand(rng *rand.Rand, number, content string, at time.Time) (isAnswered bool) {
	hasID := rng.IntN(2) == 0
	return p.handBy(rng, number, content, at, func(client *api.ClientWithResponses) (status int, isKept bool, err error) {
		m := api.ReceivedInput{From: number, Content: content, ReceivedAt: &at}
		if hasID {
			m.MessageNo = new(newMessageNo())
		}
		res, err := client.ReceiveMessagesWithResponse(load.CallContext(), api.ReceivedRequest{AppID: peopleSender, Messages: []api.ReceivedInput{m}})
		if err != nil {
			return 0, false, err
		}
		return res.StatusCode(), res.JSON200 != nil && res.JSON200.Data.Items[0].Code == http.StatusOK, nil
	})
}

// post works like hand for a phone with the SMSGate app.
func (p *people) post(rng *rand.Rand, number, content string, at time.Time) {
	p.handBy(rng, number, content, at, func(client *api.ClientWithResponses) (status int, isKept bool, err error) {
		status, err = p.phone.post(load.CallContext(), client, newMessageNo(), number, content, at)
		return status, status == http.StatusOK, err
	})
}

// newMessageNo returns a new id of a message.
func newMessageNo() string { return strconv.FormatUint(rand.Uint64(), 10) }

// handBy calls each server with call until one of them has acknowledged the message.
func (p *people) handBy(
	rng *rand.Rand, number, content string, at time.Time, call func(client *api.ClientWithResponses) (status int, isKept bool, err error),
) (isAnswered bool) {
	var answered atomic.Bool
	for range 5 * load.KeyedTries {
		var both sync.WaitGroup
		for _, client := range p.load.Clients {
			both.Go(func() {
				status, isKept, err := call(client)
				p.load.History.Calls[load.OutcomeOf(status, err)].Add(1)
				if isKept {
					answered.Store(true)
				}
			})
		}
		both.Wait()
		if answered.Load() {
			break
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, personMessage{"+86" + number, content, at, answered.Load()})
	return answered.Load()
}

// write lets a new person write a text, and perhaps the same text again.
func (p *people) write(rng *rand.Rand) {
	number, at := p.newNumber(), time.Now().Truncate(time.Second)
	p.did[writeText].Add(1)
	if rng.IntN(3) == 0 {
		p.did[askForAnswer].Add(1)
		p.hand(rng, number, "info, please", at)
		return
	}
	by := func(at time.Time) { p.hand(rng, number, "hello", at) }
	if rng.IntN(2) == 0 {
		p.did[writeToPhone].Add(1)
		by = func(at time.Time) { p.post(rng, number, "hello", at) }
	}
	if rng.IntN(2) == 0 {
		p.did[repeatText].Add(1)
		by(at.Add(-time.Second))
	}
	by(at)
}

// stop lets a new person get marketing messages, and opt out while one more is submitted.
func (p *people) stop(rng *rand.Rand) {
	number := p.newNumber()
	for range rng.IntN(perMinute) {
		p.submit(rng, number)
	}
	var all sync.WaitGroup
	other := rand.New(rand.NewPCG(rng.Uint64(), 0))
	all.Go(func() { p.submit(other, number) })
	isAnswered := p.hand(rng, number, "STOP", time.Now().Truncate(time.Second))
	at := time.Now()
	all.Wait()
	if !isAnswered {
		return
	}
	p.did[optOut].Add(1)
	p.mu.Lock()
	p.stops = append(p.stops, personStop{"+86" + number, at})
	p.mu.Unlock()
	if p.submit(rng, number) == http.StatusOK {
		p.load.History.Breach("a marketing message to %s was accepted after the opt-out", number)
	}
}

// Settle waits until the rules are applied, and until the sender has sent everything.
func (p *people) Settle(ctx context.Context) error {
	if err := awaitNone(ctx, p.stack, "messages without the action of a rule", "SELECT count(*) FROM reply_actions WHERE outcome IS NULL"); err != nil {
		return err
	}
	return sendRest(ctx, p.stack, p.load, peopleCompany, peopleSender, 1<<14)
}

// peopleInvariants must hold when no client runs. The tables replied, stopped and limited contain the recorded history of the people. The time of a message is
// that of its transaction, which can begin up to the time limit of a call before the cap is decided.
var peopleInvariants = []check.Invariant{
	{Name: "a message from a person is kept once, and never lost after its acknowledgement", SQL: `
		SELECT r.content || ' of ' || r.number || ' at ' || r.at || ' is kept ' || count(m.id) || ' times'
		FROM replied r LEFT JOIN received_messages m ON m.phone_number = r.number AND m.content = r.content AND m.received_at = r.at
		GROUP BY r.number, r.content, r.at, r.is_answered
		HAVING count(m.id) > 1 OR r.is_answered AND count(m.id) = 0`},
	{Name: "each message from a person has one event", SQL: `
		SELECT m.content || ' of ' || m.phone_number || ' has ' || count(f.id) || ' events'
		FROM received_messages m LEFT JOIN feed f ON f.type = 'message.received' AND (f.data ->> 'received_id')::bigint = m.id
		GROUP BY m.id, m.content, m.phone_number HAVING count(f.id) <> 1`},
	{Name: "nothing is leased that a person opted out of, after the acknowledgement", SQL: `
		SELECT l.task_id || ' to ' || s.number || ' leased at ' || l.created_at || ', opted out at ' || s.at
		FROM stopped s JOIN messages m ON m.recipient = s.number AND m.message_type = 2 JOIN leases l USING (task_id)
		WHERE l.created_at > s.at`},
	{Name: "no number gets more messages in a minute than its cap", SQL: `
		WITH counted AS MATERIALIZED (
			SELECT m.task_id, m.recipient, m.created_at FROM messages m
			JOIN companies c ON c.id = m.company_id
			JOIN task_states t ON t.task_id = m.task_id
			WHERE c.company_no = '` + peopleCompany + `' AND m.message_type = 2 AND t.status <> 4 -- CANCELLED
		)
		SELECT a.recipient || ' got ' || count(*) || ' messages until ' || a.created_at
		FROM counted a JOIN counted b ON b.recipient = a.recipient AND b.created_at <= a.created_at
			AND b.created_at > a.created_at - interval '1 minute' + interval '` + load.CallLimit.String() + `'
		GROUP BY a.task_id, a.recipient, a.created_at HAVING count(*) > ` + fmt.Sprint(perMinute)},
	{Name: "a cap refuses no message that was due", SQL: `
		WITH counted AS (
			SELECT m.recipient, m.created_at AS at FROM messages m WHERE m.message_type = 2
			UNION ALL -- a requeued message counts again
			SELECT m.recipient, r.created_at FROM report_logs r JOIN messages m USING (task_id) WHERE r.event = 'requeued' AND m.message_type = 2
		)
		SELECT l.number || ' was refused between ' || l.since || ' and ' || l.until || ', after ' || count(m.at) || ' messages'
		FROM limited l LEFT JOIN counted m ON m.recipient = l.number
			AND m.at <= l.until AND m.at > l.since - interval '1 minute' - interval '` + load.CallLimit.String() + `'
		GROUP BY l.number, l.since, l.until HAVING count(m.at) < ` + fmt.Sprint(perMinute)},
	{Name: "each message that a rule answers gets one reply, and each opt-out one confirmation", SQL: `
		SELECT m.content || ' of ' || m.phone_number || ' got ' || count(t.task_id) || ' answers'
		FROM received_messages m
		JOIN companies c ON c.id = m.company_id
		LEFT JOIN messages t ON t.recipient = m.phone_number AND t.content IN ('` + answerText + `', '` + confirmText + `')
		WHERE c.company_no = '` + peopleCompany + `'
		GROUP BY m.id, m.content, m.phone_number
		HAVING count(t.task_id) <> (m.content <> 'hello')::int`},
}

func (p *people) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	p.mu.Lock()
	var replied, stopped, limited [][]any
	for _, m := range p.messages {
		replied = append(replied, []any{m.number, m.content, m.at, m.isAnswered})
	}
	for _, s := range p.stops {
		stopped = append(stopped, []any{s.number, s.at})
	}
	for _, l := range p.limited {
		limited = append(limited, []any{l.number, l.since, l.until})
	}
	p.mu.Unlock()
	_, err := conn.Exec(ctx, `
		CREATE TEMP TABLE replied (number text, content text, at timestamptz, is_answered boolean);
		CREATE TEMP TABLE stopped (number text, at timestamptz);
		CREATE TEMP TABLE limited (number text, since timestamptz, until timestamptz)`)
	if err != nil {
		return nil, err
	}
	for table, rows := range map[string][][]any{"replied": replied, "stopped": stopped, "limited": limited} {
		columns := map[string][]string{"replied": {"number", "content", "at", "is_answered"}, "stopped": {"number", "at"}, "limited": {"number", "since", "until"}}[table]
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows)); err != nil {
			return nil, err
		}
	}
	return check.All(ctx, conn, peopleInvariants)
}

func (p *people) Print() {
	for i, name := range personActNames {
		fmt.Printf("  %5d  %s\n", p.did[i].Load(), name)
	}
}
