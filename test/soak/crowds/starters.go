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

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// These constants describe the apps that start the leases they claim.
const (
	startApps    = 2
	startPollers = 2 // number of pollers per app
	StartSeconds = 1
	StartPrefix  = "sender-start-"
)

// starters are apps that claim with start_seconds and start each lease before they send. They start some leases late or never.
type starters struct {
	load *load.Load

	mu     sync.Mutex
	leases map[int64]*startedLease
	did    [startActs]atomic.Int64
}

type startAct int

const (
	startLease startAct = iota
	refuseStart
	doubtStart
	leaveUnstarted
	startActs
)

var startActNames = [startActs]string{"leases started", "starts refused", "starts with an unknown outcome", "leases never started"}

// startedLease is a lease that its app has to start.
type startedLease struct {
	taskID, appID string
	until         time.Time // end of the lease in the response to the claim
	outcome       startAct
	runs          time.Time // end of the lease after its start
}

func newStarters(l *load.Load) *starters {
	return &starters{load: l, leases: map[int64]*startedLease{}}
}

func (s *starters) SetUp(context.Context) error { return nil }

func (s *starters) Settle(context.Context) error { return nil }

func (s *starters) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range startApps * startPollers {
		rng := rand.New(rand.NewPCG(s.load.Seed, uint64(round)<<16|uint64(1<<9+i)))
		all.Go(func() {
			app := load.Sender{Load: s.load, Rng: rng, AppID: fmt.Sprint(StartPrefix, i%startApps)}
			defer app.Late.Wait()
			for stack.Pause(ctx, time.Duration(10+rng.IntN(60))*time.Millisecond) {
				s.claimOnce(ctx, &app)
			}
		})
	}
	all.Wait()
}

// claimOnce claims tasks, starts their leases and reports them, once.
func (s *starters) claimOnce(ctx context.Context, app *load.Sender) {
	limit, within := 1+app.Rng.IntN(load.MaxClaim), int32(StartSeconds)
	client := s.load.Any(app.Rng)
	res, err := client.ClaimTasksNowWithResponse(load.CallContext(), api.ClaimRequest{AppID: app.AppID, Limit: &limit, StartSeconds: &within})
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	s.load.History.Calls[load.OutcomeOf(status, err)].Add(1)
	if err != nil || res.JSON200 == nil || len(res.JSON200.Data) == 0 {
		return
	}
	body := api.StartRequest{AppID: app.AppID}
	s.mu.Lock()
	for _, t := range res.JSON200.Data {
		s.load.History.RecordClaims(load.Claimed{AppID: app.AppID, Task: t})
		s.leases[t.LeaseID] = &startedLease{taskID: t.TaskID, appID: app.AppID, until: t.LeaseUntil, outcome: leaveUnstarted}
		body.Leases = append(body.Leases, api.HeldLease{TaskID: t.TaskID, LeaseID: t.LeaseID})
	}
	s.mu.Unlock()
	switch app.Rng.IntN(10) {
	case 0:
		s.did[leaveUnstarted].Add(int64(len(body.Leases)))
		return
	case 1: // starts the leases near their end
		stack.Pause(ctx, StartSeconds*time.Second+time.Duration(app.Rng.IntN(400)-250)*time.Millisecond)
	}
	s.start(app, body)
	if app.Rng.IntN(10) == 0 {
		s.start(app, body) // a repeated start must change nothing
	}
	var sent []api.ClaimedTask
	s.mu.Lock()
	for _, t := range res.JSON200.Data {
		if s.leases[t.LeaseID].outcome == startLease {
			sent = append(sent, t)
		}
	}
	s.mu.Unlock()
	for _, t := range sent {
		if app.Rng.IntN(12) == 0 {
			s.load.Misdeed[load.LostReport].Add(1)
			continue
		}
		app.Send(t)
	}
}

// start starts leases and records each outcome. While the outcome is unknown, start repeats the request, at most three times in total.
func (s *starters) start(app *load.Sender, body api.StartRequest) {
	s.mark(body, doubtStart)
	for range 3 {
		res, err := s.load.Any(app.Rng).StartTasksWithResponse(load.CallContext(), body)
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		o := load.OutcomeOf(status, err)
		s.load.History.Calls[o].Add(1)
		if o != load.Answered {
			s.did[doubtStart].Add(1)
			time.Sleep(time.Duration(10+app.Rng.IntN(100)) * time.Millisecond)
			continue
		}
		s.mu.Lock()
		for _, item := range res.JSON200.Data.Items {
			lease := s.leases[item.LeaseID]
			switch {
			case item.Code == http.StatusOK && item.LeaseUntil != nil:
				if lease.outcome == startLease && !lease.runs.Equal(*item.LeaseUntil) {
					s.load.History.Breach("lease %d was started until %s, and then until %s", item.LeaseID, lease.runs, *item.LeaseUntil)
				}
				lease.outcome, lease.runs = startLease, *item.LeaseUntil
				s.did[startLease].Add(1)
			case item.Code == http.StatusConflict:
				lease.outcome = max(lease.outcome, refuseStart)
				s.did[refuseStart].Add(1)
			default:
				s.load.History.Breach("the response to the start of lease %d has the code %d", item.LeaseID, item.Code)
			}
		}
		s.mu.Unlock()
		return
	}
}

// mark sets the outcome of all leases in body that have not been started yet.
func (s *starters) mark(body api.StartRequest, outcome startAct) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range body.Leases {
		if l := s.leases[h.LeaseID]; l.outcome != startLease {
			l.outcome = outcome
		}
	}
}

// startInvariants must hold when no client runs. The table starts has one row for each lease that an app of starters claimed, with the outcome of its start.
var startInvariants = []check.Invariant{
	{Name: "a lease that its sender started runs for the sender's time, and never counts as unsent", SQL: `
		SELECT s.task_id || ', lease ' || s.lease_id || ' runs until ' || coalesce(l.lease_until::text, 'nothing') || ', answered ' || s.runs
			|| coalesce(', ' || e.event || ' ' || e.effect, '')
		FROM starts s
			LEFT JOIN leases l ON l.id = s.lease_id
			LEFT JOIN ends e ON e.lease_id = s.lease_id AND e.effect = 'untried'
		WHERE s.outcome = 'started' AND (l.lease_until IS DISTINCT FROM s.runs OR e.lease_id IS NOT NULL)`},
	{Name: "a lease that its sender never started is released as unsent, unless a report ended it", SQL: `
		SELECT s.task_id || ', lease ' || s.lease_id || ' until ' || coalesce(l.lease_until::text, 'nothing') || ': ' || coalesce(e.effects, 'no end')
		FROM starts s
			LEFT JOIN leases l ON l.id = s.lease_id
			LEFT JOIN (
				SELECT lease_id, string_agg(effect, ', ' ORDER BY id) AS effects, bool_or(event = 'reported') AS is_reported FROM ends GROUP BY lease_id
			) e ON e.lease_id = s.lease_id -- such a report is perhaps a late report of an earlier lease, without a lease id
		WHERE s.outcome = 'never' AND (l.lease_until IS DISTINCT FROM s.until OR NOT coalesce(e.is_reported, false) AND e.effects IS DISTINCT FROM 'untried')`},
}

func (s *starters) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	s.mu.Lock()
	var rows [][]any
	for id, l := range s.leases {
		outcome := map[startAct]string{startLease: "started", leaveUnstarted: "never"}[l.outcome]
		var runs any
		if outcome == "started" {
			runs = l.runs
		}
		rows = append(rows, []any{l.taskID, id, l.until, outcome, runs})
	}
	s.mu.Unlock()
	if _, err := conn.Exec(ctx, `CREATE TEMP TABLE starts (task_id text COLLATE "C", lease_id bigint, until timestamptz, outcome text, runs timestamptz)`); err != nil {
		return nil, err
	}
	columns := []string{"task_id", "lease_id", "until", "outcome", "runs"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"starts"}, columns, pgx.CopyFromRows(rows)); err != nil {
		return nil, err
	}
	return check.All(ctx, conn, startInvariants)
}

func (s *starters) Print() {
	for i, name := range startActNames {
		fmt.Printf("  %5d  %s\n", s.did[i].Load(), name)
	}
}
