package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/platform/result"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// erasures are clients that submit messages to people, and erase these people while their messages wait, are leased, or have ended.
type erasures struct {
	load    *load.Load
	stack   *stack.Stack
	tenants *load.Tenants

	mu     sync.Mutex
	people []*erasedPerson
	erased atomic.Int64
}

// erasedPerson is a person whose messages were all accepted.
type erasedPerson struct {
	phone string
	ids   []string // task ids
	id    int64    // erasure id; 0: the request has no response yet
}

func (f *erasures) SetUp(context.Context) error { return nil }

func (f *erasures) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range 2 {
		rng := rand.New(rand.NewPCG(f.load.Seed, uint64(round)<<16|uint64(1<<10+i)))
		all.Go(func() {
			for stack.Pause(ctx, time.Duration(rng.IntN(800))*time.Millisecond) {
				if p := f.meet(rng); p != nil {
					stack.Pause(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
					f.erase(rng, p)
				}
			}
		})
	}
	all.Wait()
}

// meet submits messages to a new person. It returns nil if the outcome of a submission is unknown: such a person is not erased.
func (f *erasures) meet(rng *rand.Rand) *erasedPerson {
	serial := f.load.Serial.Add(1)
	p := &erasedPerson{phone: fmt.Sprintf("139%08d", serial)}
	kind, user := api.Marketing, f.tenants.Users[0]
	isKnown := true
	texts := map[string]string{} // by task id
	for i := range 1 + rng.IntN(4) {
		text := fmt.Sprintf("soak-%d-of-somebody-%d-%d", f.load.Seed, serial, i)
		id := ""
		for n := 0; n < load.KeyedTries && id == ""; n++ {
			res, err := f.load.Any(rng).SendSmsWithResponse(load.CallContext(), &api.SendSmsParams{IdempotencyKey: &text},
				api.SendRequest{PhoneNumber: p.phone, Content: &text, MessageType: &kind}, user.Authorize)
			status := 0
			if err == nil {
				status = res.StatusCode()
			}
			f.load.History.Calls[load.OutcomeOf(status, err)].Add(1)
			if err == nil && res.JSON200 != nil {
				id = res.JSON200.Data.TaskID
				continue
			}
			time.Sleep(time.Duration(50+rng.IntN(300)) * time.Millisecond)
		}
		if id == "" {
			f.load.History.Submitted(text, load.Unknown, "")
			isKnown = false
			continue
		}
		texts[id] = text
		p.ids = append(p.ids, id)
	}
	if !isKnown {
		for id, text := range texts {
			f.load.History.Submitted(text, load.Answered, id)
		}
		return nil
	}
	for _, id := range p.ids {
		f.load.History.Erased.Store(id, true)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.people = append(f.people, p)
	return p
}

// erase requests the erasure of a person, and repeats the request until it gets a response or KeyedTries are used up.
func (f *erasures) erase(rng *rand.Rand, p *erasedPerson) {
	key := "erase-" + p.phone
	for range load.KeyedTries {
		res, err := f.load.Any(rng).EraseContactsWithResponse(load.CallContext(), &api.EraseContactsParams{IdempotencyKey: &key},
			api.EraseContactsJSONRequestBody{Phone: &p.phone}, f.tenants.Users[0].Authorize)
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		f.load.History.Calls[load.OutcomeOf(status, err)].Add(1)
		if err == nil && res.JSON200 != nil {
			f.mu.Lock()
			p.id = res.JSON200.Data.ErasureID
			f.mu.Unlock()
			f.erased.Add(1)
			return
		}
		time.Sleep(time.Duration(50+rng.IntN(300)) * time.Millisecond)
	}
}

func (f *erasures) Settle(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(f.load.Seed, 1<<10))
	f.mu.Lock()
	people := f.people[:len(f.people):len(f.people)]
	f.mu.Unlock()
	for _, p := range people {
		for p.id == 0 && stack.Pause(ctx, time.Millisecond) {
			f.erase(rng, p)
		}
	}
	return awaitNone(ctx, f.stack, "erasures", "SELECT count(*) FROM erasures WHERE status <> 'finished'")
}

// erasureInvariants must hold when no client runs. The table erased_people has one row per person, erased_tasks one row per task of these people.
var erasureInvariants = []check.Invariant{
	{Name: "every erasure is finished, and no data of the person remains", SQL: `
		SELECT 'erasure ' || f.erasure_id || ' is ' || coalesce(e.status, 'missing') FROM erased_people f LEFT JOIN erasures e ON e.id = f.erasure_id
		WHERE e.status IS DISTINCT FROM 'finished'
		UNION ALL
		SELECT 'message ' || m.task_id FROM messages m JOIN erased_people f ON m.recipient = f.phone OR m.phone_number = f.phone
			OR m.content LIKE 'soak-%-of-somebody-' || substr(f.phone, 4)::bigint || '-%'
		UNION ALL
		SELECT 'refused or repeated submission ' || s.id FROM fruitless_submissions s JOIN erased_people f ON s.phone_number = f.phone
		UNION ALL
		SELECT 'answer ' || k.key FROM idempotency_keys k JOIN erased_tasks t ON position(convert_to('of-somebody', 'UTF8') IN k.response) > 0
			AND position(convert_to(t.task_id, 'UTF8') IN k.response) > 0`},
	{Name: "an erased message still has its task, and no other message is erased", SQL: `
		SELECT coalesce(t.task_id, m.task_id) || ' is ' || coalesce(m.content, 'missing') FROM erased_tasks t
			FULL JOIN (SELECT * FROM messages WHERE content = '` + result.Erased + `') m USING (task_id)
		WHERE t.task_id IS NULL OR m.task_id IS NULL`},
}

func (f *erasures) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	if _, err := conn.Exec(ctx, `CREATE TEMP TABLE erased_people (phone text, erasure_id bigint); CREATE TEMP TABLE erased_tasks (task_id text COLLATE "C")`); err != nil {
		return nil, err
	}
	f.mu.Lock()
	var people, tasks [][]any
	for _, p := range f.people {
		people = append(people, []any{p.phone, p.id})
		for _, id := range p.ids {
			tasks = append(tasks, []any{id})
		}
	}
	f.mu.Unlock()
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"erased_people"}, []string{"phone", "erasure_id"}, pgx.CopyFromRows(people)); err != nil {
		return nil, err
	}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"erased_tasks"}, []string{"task_id"}, pgx.CopyFromRows(tasks)); err != nil {
		return nil, err
	}
	return check.All(ctx, conn, erasureInvariants)
}

func (f *erasures) Print() { fmt.Printf("  %5d  people erased\n", f.erased.Load()) }
