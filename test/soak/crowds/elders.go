package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

const elderTasks = 12 // number of tasks of each message type, per round

// elders checks the priority of verification codes. It makes marketing messages old and submits codes. Then one sender claims all these messages, one claim at
// a time. No claim is allowed to return old marketing messages while a code waits. A round is not judged if a claim or the submission of a code has an unknown
// outcome, because its transaction can still lock rows for a moment.
type elders struct {
	load      *load.Load
	stack     *stack.Stack
	authorize api.RequestEditorFn

	aged, rounds atomic.Int64
	inverted     check.Verdict
}

func newElders(l *load.Load, s *stack.Stack) *elders {
	return &elders{load: l, stack: s, inverted: check.Verdict{Name: "no verification code is claimed after old marketing"}, authorize: func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(load.Elder, secretOf(load.Elder))
		return nil
	}}
}

func (e *elders) SetUp(ctx context.Context) error {
	c, no := e.load.Clients[0], load.Elder
	if err := createTenant(ctx, c, no, api.SenderRequest{SenderNo: load.ElderSender}); err != nil {
		return err
	}
	for _, kind := range []api.MessageType{api.Verification, api.Marketing} {
		route, err := c.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: no, MessageType: kind, SenderNo: load.ElderSender})
		if err := load.CheckCreated("route", err, route); err != nil {
			return err
		}
	}
	return nil
}

func (e *elders) Run(ctx context.Context, round int) {
	rng := rand.New(rand.NewPCG(e.load.Seed, uint64(round)<<16|uint64(1<<11+1)))
	app := load.Sender{Load: e.load, Rng: rng, AppID: load.ElderSender}
	defer app.Late.Wait()
	for stack.Pause(ctx, time.Duration(rng.IntN(500))*time.Millisecond) {
		e.round(ctx, &app)
	}
}

// submit submits a message and returns its task id, or "" if the outcome is unknown.
func (e *elders) submit(rng *rand.Rand, kind api.MessageType) string {
	serial := e.load.Serial.Add(1)
	text := fmt.Sprintf("soak-%d-%s-%d", e.load.Seed, load.Elder, serial)
	return e.load.Submit(e.load.Any(rng), nil, api.SendRequest{PhoneNumber: fmt.Sprintf("138%08d", serial), Content: &text, MessageType: &kind}, text, e.authorize)
}

// round submits marketing messages, makes them old, submits codes, and claims until no task is left.
func (e *elders) round(ctx context.Context, app *load.Sender) {
	old := map[string]bool{}
	for range elderTasks {
		old[e.submit(app.Rng, api.Marketing)] = true
	}
	if !e.age(ctx) {
		return
	}
	left, isJudged := map[string]bool{}, true
	for range elderTasks {
		id := e.submit(app.Rng, api.Verification)
		isJudged = isJudged && id != ""
		left[id] = true
	}
	for ctx.Err() == nil {
		limit := 1 + app.Rng.IntN(5)
		res, err := e.load.Any(app.Rng).ClaimTasksNowWithResponse(load.CallContext(), api.ClaimRequest{AppID: load.ElderSender, Limit: &limit})
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		o := load.OutcomeOf(status, err)
		e.load.History.Calls[o].Add(1)
		if o != load.Answered || res.JSON200 == nil {
			isJudged = isJudged && o != load.Unknown
			stack.Pause(ctx, time.Duration(10+app.Rng.IntN(100))*time.Millisecond)
			continue
		}
		if len(res.JSON200.Data) == 0 {
			return
		}
		behind := false // true if this claim has already returned an old marketing message
		for _, t := range res.JSON200.Data {
			e.load.History.RecordClaims(load.Claimed{AppID: load.ElderSender, Task: t})
			if isCode := left[t.TaskID]; isCode {
				delete(left, t.TaskID)
				if behind && isJudged {
					e.inverted.Add(fmt.Sprint(t.TaskID, " came after old marketing in a claim of ", limit))
				}
			} else if old[t.TaskID] && t.Attempt == 1 {
				behind = true
			}
		}
		if behind && isJudged && len(left) > 0 {
			e.inverted.Add(fmt.Sprint(len(left), " codes still waited when old marketing was claimed, in a claim of ", limit))
			isJudged = false // one violation per round is enough
		}
		for _, t := range res.JSON200.Data {
			app.Send(t)
		}
	}
}

// age makes the waiting marketing messages two hours old, and waits until the sweep has moved them to an earlier lane. It returns false on an error or at the
// end of ctx.
func (e *elders) age(ctx context.Context) bool {
	const mine = " FROM companies c WHERE c.company_no = '" + load.Elder + "' AND q.company_id = c.id AND q.message_type = 2 AND q.lease_until IS NULL"
	err := e.stack.Query(ctx, func(conn *pgx.Conn) error {
		aged, err := conn.Exec(ctx, "UPDATE queue q SET due_at = now() - interval '2 hours'"+mine+" AND q.due_at > now() - interval '1 hour'")
		e.aged.Add(aged.RowsAffected())
		return err
	})
	if err != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = awaitNone(limited, e.stack, "tasks that waited long", "SELECT count(*) FROM queue q WHERE EXISTS (SELECT"+mine+
		" AND q.due_at < now() - interval '1 hour' AND (q.lane IS NULL OR q.lane >= 32 * q.priority))")
	if err == nil {
		e.rounds.Add(1)
	}
	return err == nil
}

// Settle claims and reports the remaining tasks of the last round.
func (e *elders) Settle(ctx context.Context) error {
	return sendRest(ctx, e.stack, e.load, load.Elder, load.ElderSender, 1<<11)
}

func (e *elders) Verdicts(context.Context, *pgx.Conn) ([]check.Verdict, error) {
	return []check.Verdict{e.inverted}, nil
}

func (e *elders) Print() {
	fmt.Printf("  %5d  marketing messages made old, in %d rounds\n", e.aged.Load(), e.rounds.Load())
}
