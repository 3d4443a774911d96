package crowds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/result"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smpp/smsc"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// These constants describe the company of the carriers, and the senders that send through them.
const (
	carriersCompany = "carriers"
	CarrierPrefix   = "sender-carrier-" // of the names of the senders. A server renews their leases while it sends the parts of long messages
	carrierBinds    = 2
	CarrierLinks    = 2 * carrierBinds // links of both senders
	carrierWindow   = 8
	carrierAnswer   = time.Second // response_seconds: a later answer is useless
	carrierLease    = 6           // lease_seconds: an answer can be reported although the database was away for a moment
	carrierSecret   = "soak"
	maxSpoilt       = 2           // for how many parts of a message a carrier hides its answer, or does not accept the part. MAX_RETRY_COUNT + 1 attempts therefore suffice
	matchLimit      = time.Minute // for receipts that are matched by a sweep
	carrierClients  = 4           // clients that submit messages for one sender
)

// carriers are programs that submit messages of a company with two senders. Each sender sends through a carrier of its own, which speaks SMPP. The carriers
// delay, throttle and hide answers, cut links, and send receipts before the answer, late, twice and in random order. One sender has the policy `retry` for
// unclear outcomes, and the other one `fail`. Servers die meanwhile, as for all crowds.
type carriers struct {
	load      *load.Load
	stack     *stack.Stack
	tenants   *load.Tenants
	authorize api.RequestEditorFn
	all       []*carrier
	did       [carrierActs]atomic.Int64
}

type carrierAct int

const (
	acceptPart carrierAct = iota
	throttlePart
	answerLate
	cutBefore
	cutAfter
	ignorePart
	hideAnswer
	cutAll
	deliverReceipt
	repeatReceipt
	hastenReceipt
	reorderReceipts
	loseReceipt
	carrierActs
)

var carrierActNames = [carrierActs]string{
	"parts of messages that a carrier accepted", "parts that a carrier throttled", "answers of a carrier after the timeout", "links that a carrier cut instead of accepting a part",
	"links that a carrier cut instead of an answer", "parts that a carrier ignored", "answers that a carrier did not send", "times that a carrier cut all of its links",
	"receipts of carriers that were accepted", "receipts that a carrier sent twice", "receipts before the answer", "receipts in the wrong order", "receipts that nobody accepted",
}

// carrier is the carrier of a sender.
type carrier struct {
	did      *[carrierActs]atomic.Int64
	senderNo string
	kind     api.MessageType // of the messages that go through the sender
	policy   api.OnUnclear
	server   *smsc.Server
	isCalm   atomic.Bool
	waiting  atomic.Int64 // receipts that are not sent yet

	mu       sync.Mutex
	rng      *rand.Rand
	spoilt   map[string]int // number of parts of a message that maxSpoilt counts, by the number of its recipient
	accepted []acceptedPart
	receipts map[sentReceipt]*receiptCount
}

// acceptedPart is a part of a message that a carrier accepted, even if its answer was lost. Each message has its own recipient.
type acceptedPart struct {
	providerNo, number string
	part, parts        int
}

// sentReceipt is a receipt, without its repetitions.
type sentReceipt struct{ providerNo, number, stat, err string }

// receiptCount counts how often a carrier sent a receipt, and how often a server accepted it.
type receiptCount struct{ sent, accepted int }

func newCarriers(l *load.Load, s *stack.Stack, t *load.Tenants) *carriers {
	return &carriers{load: l, stack: s, tenants: t, authorize: func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(carriersCompany, secretOf(carriersCompany))
		return nil
	}}
}

func (c *carriers) SetUp(ctx context.Context) error {
	var senders []api.SenderRequest
	for i, of := range []*carrier{
		{senderNo: CarrierPrefix + "retry", kind: api.Notification, policy: api.OnUnclearRetry},
		{senderNo: CarrierPrefix + "fail", kind: api.Verification, policy: api.OnUnclearFail},
	} {
		of.did, of.rng = &c.did, rand.New(rand.NewPCG(c.load.Seed, uint64(1<<10+i)))
		of.spoilt, of.receipts = map[string]int{}, map[sentReceipt]*receiptCount{}
		var err error
		of.server, err = smsc.Listen("127.0.0.1:0", simulated.Options{Secret: carrierSecret, Answer: of.answer, Receipted: of.receipted, Forgets: true})
		if err != nil {
			return fmt.Errorf("start carrier: %w", err)
		}
		c.all = append(c.all, of)
		bind := []string{"transceiver", "transmitter_receiver"}[i]
		senders = append(senders, api.SenderRequest{
			SenderNo: of.senderNo, Kind: new("smpp"), Status: new(api.SenderOn), LeaseSeconds: new(int64(carrierLease)), OnUnclear: &of.policy,
			Config: &map[string]any{
				"host": "127.0.0.1", "port": of.server.Port(), "system_id": carriersCompany, "password": carrierSecret, "source_addr": "10690001", "bind": bind,
				"binds": carrierBinds, "window": carrierWindow, "response_seconds": carrierAnswer.Seconds(), "enquire_link_seconds": 2,
			},
		})
	}
	client := c.load.Clients[0]
	if err := createTenant(ctx, client, carriersCompany, senders...); err != nil {
		return err
	}
	for _, of := range c.all {
		route := api.RouteRequest{CompanyNo: carriersCompany, MessageType: of.kind, SenderNo: of.senderNo}
		c.tenants.AddRoute(route, time.Now())
		made, err := client.CreateRouteWithResponse(ctx, nil, route)
		if err := load.CheckCreated("route", err, made); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the carriers.
func (c *carriers) Close() error {
	var all []error
	for _, of := range c.all {
		all = append(all, of.server.Close())
	}
	return errors.Join(all...)
}

func (c *carriers) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	rng := func(n int) *rand.Rand {
		return rand.New(rand.NewPCG(c.load.Seed, uint64(round)<<16|uint64(1<<10+16+n)))
	}
	for i, of := range c.all {
		of.isCalm.Store(false)
		all.Go(func() {
			rng := rng(i)
			for stack.Pause(ctx, 6*time.Second+time.Duration(rng.IntN(8000))*time.Millisecond) {
				c.did[cutAll].Add(1)
				of.server.Cut()
			}
		})
		for n := range carrierClients {
			all.Go(func() {
				rng := rng(8 + carrierClients*i + n)
				for stack.Pause(ctx, time.Duration(rng.IntN(800))*time.Millisecond) {
					c.submit(rng, of.kind)
				}
			})
		}
	}
	all.Wait()
}

// submit submits a message until a server accepts it, sometimes to both servers at the same time. Its recipient gets no other message.
func (c *carriers) submit(rng *rand.Rand, kind api.MessageType) {
	serial := c.load.Serial.Add(1)
	key := fmt.Sprintf("soak-%d-%s-%d", c.load.Seed, carriersCompany, serial)
	text := key
	switch n := rng.IntN(10); {
	case n < 2:
		text = "短信 " + key
	case n < 4:
		text = key + strings.Repeat(" a long message", 10+rng.IntN(2)) // 200 characters are allowed
	case n < 5:
		text = key + strings.Repeat("，一条长短信", 9+rng.IntN(19))
	}
	body := api.SendRequest{PhoneNumber: fmt.Sprintf("159%08d", serial), Content: &text, MessageType: &kind}
	params := &api.SendSmsParams{IdempotencyKey: &key}
	for range load.KeyedTries {
		if rng.IntN(4) == 0 {
			var both sync.WaitGroup
			for _, client := range c.load.Clients {
				both.Go(func() { c.load.Submit(client, params, body, text, c.authorize) })
			}
			both.Wait()
		} else if c.load.Submit(c.load.Any(rng), params, body, text, c.authorize) != "" {
			return
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
}

// answer decides what happens with a part of a message. The server calls it for one part at a time.
func (c *carrier) answer(m simulated.Message) simulated.Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	part, _, _ := smpp.TextStyle{}.Part(m.Body.(*smpp.Message))
	one := acceptedPart{providerNo: fmt.Sprint("m", m.Nth), number: m.To, part: max(1, int(part.Part)), parts: max(1, int(part.Total))}
	act, a := c.choose(one.number), simulated.Answer{ID: one.providerNo}
	c.did[act].Add(1)
	switch act {
	case throttlePart:
		a.Status = uint32([]smpp.Status{smpp.RThrottled, smpp.RMsgQFul}[c.rng.IntN(2)])
		return a
	case cutBefore:
		a.Cut = true
		return a
	case ignorePart:
		a.Silent = true
		return a
	case answerLate:
		a.Delay = carrierAnswer + time.Duration(100+c.rng.IntN(1000))*time.Millisecond
	case cutAfter:
		a.Cut = true
	case hideAnswer:
		a.Silent = true
	default:
		if c.rng.IntN(4) == 0 {
			a.Delay = time.Duration(c.rng.IntN(300)) * time.Millisecond
		}
	}
	if act != acceptPart {
		c.did[acceptPart].Add(1)
	}
	c.accepted = append(c.accepted, one)
	a.Receipts = c.receiptsOf(one)
	return a
}

// choose chooses what a carrier does with a part of the message to a number.
func (c *carrier) choose(number string) carrierAct {
	n := c.rng.IntN(50)
	switch {
	case c.isCalm.Load():
		return acceptPart
	case n < 2:
		return throttlePart
	case n >= 2+len(spoiling) || c.spoilt[number] == maxSpoilt:
		return acceptPart
	}
	c.spoilt[number]++
	return spoiling[n-2]
}

// spoiling are the acts that maxSpoilt limits. A carrier chooses a frequent one more often.
var spoiling = []carrierAct{
	answerLate, answerLate, answerLate, cutBefore, cutBefore, cutAfter, cutAfter, cutAfter, ignorePart, ignorePart, hideAnswer, hideAnswer, hideAnswer,
}

// receiptsOf returns the receipts of a part, and counts them. Some parts have none, and some have an intermediate receipt after the final one.
func (c *carrier) receiptsOf(one acceptedPart) []simulated.Receipt {
	final := simulated.Receipt{Stat: simulated.Delivered, Err: "000"}
	if c.rng.IntN(5) == 0 {
		final.Stat, final.Err = "UNDELIV", "034"
	}
	if !c.isCalm.Load() {
		final.After = time.Duration(c.rng.IntN(2000)) * time.Millisecond
		final.Early = c.rng.IntN(6) == 0
	}
	all := []simulated.Receipt{final}
	switch n := c.rng.IntN(20); {
	case n == 0:
		return nil
	case n < 6:
		c.did[repeatReceipt].Add(1)
		again := final
		again.Early = final.Early && n == 1
		all = append(all, again)
	case n < 10:
		c.did[reorderReceipts].Add(1)
		all = append(all, simulated.Receipt{Stat: "ENROUTE", Err: "000", After: final.After / 2})
	}
	if final.Early {
		c.did[hastenReceipt].Add(1)
	}
	for _, r := range all {
		c.waiting.Add(1)
		c.count(one.providerNo, one.number, r).sent++
	}
	return all
}

// count returns the count of a receipt. The caller holds mu.
func (c *carrier) count(providerNo, number string, r simulated.Receipt) *receiptCount {
	of := sentReceipt{providerNo, number, r.Stat, r.Err}
	if c.receipts[of] == nil {
		c.receipts[of] = &receiptCount{}
	}
	return c.receipts[of]
}

// receipted counts a receipt that a server accepted. If a server stores a receipt and its response is lost, the carrier sends the receipt again.
func (c *carrier) receipted(m simulated.Message, r simulated.Receipt, isAccepted bool) {
	defer c.waiting.Add(-1)
	if !isAccepted {
		c.did[loseReceipt].Add(1)
		return
	}
	c.did[deliverReceipt].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(r.ID, m.To, r).accepted++
}

// Settle waits until all messages have ended, and until all receipts are sent and matched. The carriers are calm from now on. A receipt that arrived before the
// number of its message was stored is matched with the report. If a server died between the two, a sweep matches it later. The invariants list receipts that are
// still not matched.
func (c *carriers) Settle(ctx context.Context) error {
	for _, of := range c.all {
		of.isCalm.Store(true)
	}
	err := awaitNone(ctx, c.stack, "tasks of "+carriersCompany, "SELECT count(*) FROM queue q JOIN companies c ON c.id = q.company_id WHERE c.company_no = '"+carriersCompany+"'")
	if err != nil {
		return err
	}
	for _, of := range c.all {
		for of.waiting.Load() > 0 {
			if !stack.Pause(ctx, 100*time.Millisecond) {
				return fmt.Errorf("%d receipts of %s are not sent: %w", of.waiting.Load(), of.senderNo, ctx.Err())
			}
		}
	}
	limited, cancel := context.WithTimeout(ctx, matchLimit)
	defer cancel()
	_ = awaitNone(limited, c.stack, "receipts", "SELECT count(*) FROM receipts r JOIN deliveries d USING (sender_no, provider_no) WHERE r.matched_at IS NULL") // see above
	return nil
}

// carrierEvidence creates the tables of what the carriers did. parts_taken has one row for each acceptance of a part, even if its answer was lost. receipts_sent
// has one row for each receipt, with the number of times that it was sent, and that a server accepted it.
const carrierEvidence = `
CREATE TEMP TABLE parts_taken (sender_no text, provider_no text, recipient text, part int, parts int);
CREATE TEMP TABLE receipts_sent (sender_no text, provider_no text, recipient text, state int, code text, sent int, accepted int)`

// carrierTasks creates the table of the messages of the company. numbers and taken count the stored numbers of their parts, and the parts that the carrier accepted
// under these numbers. The columns must_be and can_be follow from the receipts that a server accepted, and from those that were sent.
const carrierTasks = `
CREATE INDEX ON parts_taken (provider_no);
CREATE INDEX ON parts_taken (recipient);
CREATE INDEX ON receipts_sent (provider_no);
ANALYZE parts_taken, receipts_sent, deliveries, receipts;
CREATE TEMP TABLE carrier_tasks AS
	SELECT t.task_id, t.status, t.recipient, t.delivery, coalesce(t.result, '') AS result, CASE t.message_type WHEN 0 THEN 'fail' ELSE 'retry' END AS policy,
		e.event, e.effect, n.*
	FROM task_states t
		JOIN companies c ON c.id = t.company_id AND c.company_no = '` + carriersCompany + `'
		LEFT JOIN report_logs e ON e.task_id = t.task_id AND e.outcome IS NOT NULL
		CROSS JOIN LATERAL (
			SELECT count(*) AS numbers, count(DISTINCT p.part) AS taken, max(p.parts) AS parts,
				bool_and(s.good_accepted) AS must_be_delivered, bool_and(s.good_sent) AS can_be_delivered,
				bool_or(s.bad_accepted) AS must_be_undelivered, bool_or(s.bad_sent) AS can_be_undelivered
			FROM deliveries d
				LEFT JOIN parts_taken p ON p.sender_no = d.sender_no AND p.provider_no = d.provider_no AND p.recipient = d.recipient
				CROSS JOIN LATERAL (
					SELECT coalesce(bool_or(r.state = 1 AND r.accepted > 0), false) AS good_accepted, coalesce(bool_or(r.state = 1), false) AS good_sent,
						coalesce(bool_or(r.state = 2 AND r.accepted > 0), false) AS bad_accepted, coalesce(bool_or(r.state = 2), false) AS bad_sent
					FROM receipts_sent r WHERE r.sender_no = d.sender_no AND r.provider_no = d.provider_no
				) s
			WHERE d.task_id = t.task_id AND d.provider_no IS NOT NULL
		) n`

// inPart is the condition that a carrier took only some parts of a message. Another attempt would repeat these parts. Such a message is therefore FAILED, whatever
// the policy of its sender.
const inPart = `result ~ 'the carrier took [1-9][0-9]* of [0-9]+ parts' AND EXISTS (SELECT FROM parts_taken p WHERE p.recipient = t.recipient AND p.parts > 1)`

// carrierInvariants must hold when no client runs, and all receipts of the carriers are sent. $1 is MAX_RETRY_COUNT.
//
// A message of the sender with the policy `retry` can be FAILED for two reasons: all of its attempts had an unclear outcome, or inPart. Throttling ends no attempt.
var carrierInvariants = []check.Invariant{
	// A message that the carrier took in part is FAILED, with the numbers of these parts.
	{Name: "each message through a carrier has ended, and is SUCCESS only if the carrier accepted each of its parts", SQL: `
		SELECT task_id || ' is ' || status || ' with ' || numbers || ' numbers, the carrier accepted ' || taken || ' of ' || coalesce(parts, 0) || ' parts'
		FROM carrier_tasks t
		WHERE status NOT IN (2, 3) OR status = 2 AND (numbers, taken) IS DISTINCT FROM (parts::bigint, parts::bigint)
			OR status = 3 AND numbers > 0 AND (numbers <> taken OR taken >= parts OR NOT coalesce(` + inPart + `, false))`},
	{Name: "a carrier gets no part twice under fail", SQL: `
		SELECT recipient || ' part ' || part || ' of ' || parts || ': ' || count(*) || ' times' FROM parts_taken
		WHERE sender_no = '` + CarrierPrefix + `fail' GROUP BY recipient, part, parts HAVING count(*) > 1`},
	{Name: "under fail, a message through a carrier is FAILED only with an unclear outcome", SQL: `
		SELECT task_id || ': ' || coalesce(event || ' ' || effect, 'no end') || ', ' || result FROM carrier_tasks t
		WHERE policy = 'fail' AND status = 3 AND NOT coalesce(
			(event, effect) = ('recovered', 'unclear') OR (event, effect) = ('reported', 'failed') AND (starts_with(result, '` + result.UnclearFrom + `') OR ` + inPart + `), false)`},
	{Name: "under retry, a message through a carrier is FAILED only after MAX_RETRY_COUNT + 1 unclear attempts", SQL: `
		SELECT task_id || ': ' || coalesce(event || ' ' || effect, 'no end') || ' after ' || a.unclear || ' unclear attempts, ' || result FROM carrier_tasks t
			CROSS JOIN LATERAL (SELECT count(*) AS unclear FROM ends e WHERE e.task_id = t.task_id AND e.event = 'recovered' AND e.effect IN ('retry', 'exhausted')) a
		WHERE policy = 'retry' AND status = 3 AND NOT coalesce(
			(event, effect) = ('recovered', 'exhausted') AND a.unclear = $1::int + 1 OR (event, effect) = ('reported', 'failed') AND ` + inPart + `, false)`},
	{Name: "each receipt of a carrier that was accepted is stored once, and no other", SQL: `
		SELECT coalesce(s.sender_no, r.sender_no) || ' ' || coalesce(s.provider_no, r.provider_no) || ' ' || coalesce(s.code, r.code) || ': accepted '
			|| coalesce(s.accepted, 0) || ' times, stored ' || coalesce(r.stored, 0) || ' times'
		FROM receipts_sent s
			FULL JOIN (
				SELECT sender_no, provider_no, recipient, state::int, code, count(*) AS stored FROM receipts WHERE starts_with(sender_no, '` + CarrierPrefix + `')
				GROUP BY sender_no, provider_no, recipient, state, code
			) r USING (sender_no, provider_no, recipient, state, code)
		WHERE s.sent IS NULL OR coalesce(r.stored, 0) > 1 OR s.accepted > 0 AND r.stored IS NULL`},
	// The number of a part is stored with the SUCCESS of its message. If the answer was lost, nobody knows the number, and its receipts match nothing.
	{Name: "each receipt of a carrier is matched if and only if its number belongs to a message", SQL: `
		SELECT r.sender_no || ' ' || r.provider_no || ' ' || r.code || CASE WHEN r.matched_at IS NULL THEN ' is not matched' ELSE ' is matched' END
			|| ', messages with this number: ' || d.messages
		FROM receipts r
			CROSS JOIN LATERAL (SELECT count(*) AS messages FROM deliveries d WHERE d.sender_no = r.sender_no AND d.provider_no = r.provider_no) d
		WHERE starts_with(r.sender_no, '` + CarrierPrefix + `') AND (r.matched_at IS NOT NULL)::int <> d.messages`},
	{Name: "a message through a carrier is delivered if and only if the carrier said so", SQL: `
		SELECT task_id || ' is ' || CASE t.delivery WHEN 1 THEN 'delivered' WHEN 2 THEN 'undelivered' ELSE 'on its way' END
			|| CASE WHEN must_be_delivered THEN ', all receipts say delivered' WHEN must_be_undelivered THEN ', a receipt says undelivered' ELSE '' END
		FROM carrier_tasks t
		WHERE t.status = 3 AND t.delivery IS NOT NULL -- the receipts of its parts do not change it
			OR t.status <> 3 AND (t.delivery = 1 AND can_be_delivered IS NOT TRUE OR t.delivery = 2 AND can_be_undelivered IS NOT TRUE
				OR must_be_delivered AND t.delivery IS DISTINCT FROM 1 OR must_be_undelivered AND t.delivery IS DISTINCT FROM 2)`},
}

// states are the states of receipts in the database.
var states = map[string]int{"ENROUTE": 0, simulated.Delivered: 1, "UNDELIV": 2}

func (c *carriers) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	if _, err := conn.Exec(ctx, carrierEvidence); err != nil {
		return nil, err
	}
	var parts, receipts [][]any
	for _, of := range c.all {
		of.mu.Lock()
		for _, p := range of.accepted {
			parts = append(parts, []any{of.senderNo, p.providerNo, "+" + p.number, p.part, p.parts})
		}
		for r, n := range of.receipts {
			receipts = append(receipts, []any{of.senderNo, r.providerNo, "+" + r.number, states[r.stat], r.stat + " " + r.err, n.sent, n.accepted})
		}
		of.mu.Unlock()
	}
	columns := []string{"sender_no", "provider_no", "recipient", "part", "parts"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"parts_taken"}, columns, pgx.CopyFromRows(parts)); err != nil {
		return nil, err
	}
	columns = []string{"sender_no", "provider_no", "recipient", "state", "code", "sent", "accepted"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"receipts_sent"}, columns, pgx.CopyFromRows(receipts)); err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, carrierTasks); err != nil {
		return nil, err
	}
	return check.All(ctx, conn, carrierInvariants)
}

func (c *carriers) Print() {
	for i, name := range carrierActNames {
		fmt.Printf("  %5d  %s\n", c.did[i].Load(), name)
	}
}
