package claim

import (
	"context"
	"slices"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Request is a sender's request for tasks.
type Request struct {
	SenderNo string
	Limit    int // maximum number of tasks
	// InOneCall is true if the sender sends all tasks of one rendering in one call. The claim then returns only tasks of one rendering, and all these tasks
	// together use one interval of the sender.
	InOneCall bool
	// StartWithin is the duration of the leases until the sender starts them, at most the sender's own lease time. Nil: the leases need no start.
	StartWithin *time.Duration
	// StillMay returns a fault if the caller has lost the right to claim. It is called after each wait for tasks. Nil: no check.
	StillMay func(ctx context.Context) error
	// OnLease stores additional data about one or more leases, in the transaction of the claim. If OnLease fails, nothing is leased. Nil: nothing is stored.
	OnLease func(ctx context.Context, tx postgres.Runner, leases []Lease) error
}

// Lease is a task that a sender holds until LeaseUntil. LeaseUntil is never after ExpiresAt.
type Lease struct {
	TaskID, PhoneNumber string
	Content             string // text for the sender; SignMode decides whether it begins with the signature
	Sign                string // signature at the beginning of Content, or added by the provider; empty: no signature
	SignMode            string // sign_mode of the sender
	LeaseID             int64
	Attempt             int16
	LeaseUntil          time.Time
	ExpiresAt           *time.Time // the message must not be sent after this time; nil: no limit
	Traceparent         *string    // traceparent of the submission; nil: no trace
	BatchID             *int64     // nil: the task belongs to no batch
	Sim                 *int16     // slot of the SIM that sends the message; nil: the sender has no SIMs, or chooses one itself
	Sealed              *string    // encrypted text of a sensitive message; nil: the message is not sensitive

	// Values contains the values of the placeholders in the rendering of a sensitive message; nil: not sensitive, or no rendering. Service.Claim sets Values, and
	// replaces the mask in Content.
	Values []byte

	leasedAt               time.Time
	PoolID                 int64
	companyID              int64
	segments               int64
	lane                   int32
	position, nextPosition float64
}

// These are the values of a sender's sign_mode. The mode decides how the signature of a message is sent.
const (
	SignInText     = "in_text"     // the sender receives the text with the signature in front
	SignByProvider = "by_provider" // the provider adds the signature
	SignNone       = "none"        // the provider forbids signatures
)

// Rules contains the configured times of a claim.
type Rules struct {
	Lease        time.Duration  // lease time of senders without their own lease time
	RetryMaxWait *time.Duration // a retry that has been due for this time counts as a new task; nil: never
	SilentAfter  time.Duration  // a sender without a poll for this time is not available
}

// MinLease is the minimum time from the claim of a task to its expiry. A task that expires sooner could not be sent in time.
const MinLease = time.Second

// CanOnlyExpire reports whether no claim would return a task that is due at dueAt, because it expires too early. A nil expiresAt means no limit.
func CanOnlyExpire(expiresAt *time.Time, dueAt time.Time) bool {
	return expiresAt != nil && !expiresAt.After(dueAt.Add(MinLease))
}

// On leases tasks to a sender in tx, which must be a transaction of postgres.DB.Dispatch. If the sender is unknown or off, On leases no task.
func On(ctx context.Context, tx postgres.Runner, c Request, rules Rules) ([]Lease, error) {
	q := dispatchq.New(tx)
	a, err := admit(ctx, q, c, rules)
	if err != nil || a == nil {
		return nil, err
	}
	var leases []Lease
	for isCut := false; ; {
		// Repeat only if a task was skipped because it needs more segments than remain: a smaller task can follow the skipped task.
		p, may := a.part(c, rules, leases)
		p.offer.IsTight = p.offer.IsTight || isCut
		if !may || len(leases) > 0 && (!p.offer.IsTight || c.InOneCall) {
			break
		}
		var more []Lease
		if more, isCut, err = a.lease(ctx, q, c, p); err != nil {
			return nil, err
		}
		if len(more) == 0 && (p.offer.IsTight || !isCut) {
			break
		}
		leases = append(leases, more...)
		a.advance(more)
	}
	passed, err := a.passed(ctx, q, c.SenderNo, rules, leases)
	if err != nil {
		return nil, err
	}
	if p, any := a.charge(c, leases, passed); any {
		err = q.SenderCharge(ctx, p)
	}
	if err == nil && len(leases) > 0 && c.OnLease != nil {
		err = c.OnLease(ctx, tx, leases)
	}
	return leases, err
}

// lease leases tasks within the limits of p. isCut reports that lease stopped at a task that needs more segments than remain.
func (a admission) lease(ctx context.Context, q *dispatchq.Queries, c Request, p claimPart) (leases []Lease, isCut bool, err error) {
	p.sims, err = a.readSims(ctx, q)
	if err != nil {
		return nil, false, err
	}
	if p.sims != nil {
		if len(p.sims.list) == 0 {
			return nil, false, nil
		}
		p.offer.SimsAt, p.offer.IsTight = p.sims.at(), p.offer.IsTight || p.sims.canLackSim(a.maxSegments())
	}
	offers, err := q.TaskOffer(ctx, p.offer)
	if err != nil {
		return nil, false, err
	}
	ordered, err := p.inFlows(ctx, q, a.inOrder(offers))
	if err != nil {
		return nil, false, err
	}
	if p.sims != nil {
		if err := p.sims.addTasks(ctx, q, c, a.sender.SenderID, ordered); err != nil {
			return nil, false, err
		}
	}
	chosen, isCut := p.choose(ordered, c.InOneCall)
	if len(chosen) == 0 {
		return nil, isCut, nil
	}
	leases, err = a.leaseChosen(ctx, q, c, p, chosen)
	if err == nil && p.sims != nil {
		err = p.sims.charge(ctx, q, a.sender.SenderID, leases)
	}
	return leases, isCut, err
}

// leaseChosen leases tasks that TaskOffer locked. It skips tasks that have expired since then.
func (a admission) leaseChosen(ctx context.Context, q *dispatchq.Queries, c Request, p claimPart, chosen []offer) ([]Lease, error) {
	if ids, ranks := passedOver(chosen); len(ids) > 0 {
		if err := q.TaskExchange(ctx, dispatchq.TaskExchangeParams{TaskIds: ids, Ranks: ranks}); err != nil {
			return nil, err
		}
	}
	params := dispatchq.TaskLeaseParams{
		SenderNo: c.SenderNo, Asked: int16(c.Limit), IsPaced: a.sender.IsPaced, LeaseSeconds: a.sender.LeaseSeconds,
		Sign: a.sender.Sign, SignMode: a.sender.SignMode,
		MustStart: c.StartWithin != nil, TaskIds: make([]string, len(chosen)), Segments: make([]int64, len(chosen)), At: p.at,
		Ranks: []*float64{}, HasSims: p.sims != nil, Sims: []int16{},
	}
	ranks := make([]*float64, len(chosen))
	for i, o := range chosen {
		params.TaskIds[i], params.Segments[i] = o.TaskID, o.Segments
		if p.sims != nil {
			params.Sims = append(params.Sims, optional.Value(o.sim))
		}
		if o.isForAnother() {
			params.HasFlows, ranks[i] = true, o.rankOf.Rank
		}
	}
	if params.HasFlows {
		params.Ranks = ranks
	}
	rows, err := q.TaskLease(ctx, params)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]dispatchq.TaskLeaseRow, len(rows))
	for _, row := range rows {
		byID[row.TaskID] = row
	}
	var leases []Lease
	for _, o := range chosen {
		row, isLeased := byID[o.TaskID]
		if !isLeased { // the task expired after TaskOffer locked it
			continue
		}
		leases = append(leases, Lease{
			TaskID: row.TaskID, PhoneNumber: row.PhoneNumber, Content: row.Content, Sign: row.Sign, SignMode: a.sender.SignMode,
			LeaseID: row.LeaseID, Attempt: row.Attempt, LeaseUntil: row.LeaseUntil, ExpiresAt: row.SendBefore,
			Traceparent: row.Traceparent, BatchID: row.BatchID, Sim: o.sim, Sealed: row.Sealed, leasedAt: row.LeasedAt,
			PoolID: o.PoolID, companyID: row.CompanyID, segments: o.Segments, lane: o.Lane, position: o.position, nextPosition: o.nextPosition,
		})
	}
	return leases, nil
}

// admission contains the limits of a claim, and the pools from which the sender is allowed to claim.
type admission struct {
	sender       dispatchq.SenderAdmitRow
	tasks        int64   // maximum number of tasks
	segments     *int64  // maximum number of segments; nil: no limit
	interval     float64 // seconds between two tasks; 0: no interval
	lastPosition float64 // largest position (see inOrder) of all tasks that the sender has claimed
	pools        []admittedPool
}

// admittedPool is a pool from which a sender is allowed to claim, with the sender's share of the tasks.
type admittedPool struct {
	id        int64
	companyID int64   // 0: the shared pool of a channel
	gap       float64 // the fraction of the company's share that one task uses
	position  float64 // position of the pool's first task; it advances with each claimed task
	maxTasks  int64   // maximum number of tasks from this pool

	fromSegments int64 // a sender that other senders outrank receives only tasks with at least this number of segments; 0: all tasks
	rivalRoom    int64 // a task that failed with the sender is left to the rivals if it has at most this number of segments

	routeID int64 // 0: the sender has no route to the pool
	weight  int64
	served  float64 // tasks served by the route, divided by its weight; from Share
	top     float64 // largest served of the rivals; 0 without rivals

	hasMoved     bool    // position has advanced in this claim
	lastPosition float64 // largest position of the tasks of this claim; 0: no task
}

// seenSteps is the number of times per silent_after that the polls of a sender are stored.
const seenSteps = 4

// admit returns the limits and the pools of a claim. It returns nil if the sender is unknown or off.
func admit(ctx context.Context, q *dispatchq.Queries, c Request, rules Rules) (*admission, error) {
	sender, err := q.SenderAdmit(ctx, dispatchq.SenderAdmitParams{
		SenderNo: c.SenderNo, Lease: rules.Lease, RecordedWithin: rules.SilentAfter / seenSteps,
	})
	if postgres.IsNoRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.StartWithin != nil { // the shorter lease limits how many tasks a sender with an interval can claim, because the sender starts each task only when it sends the task
		sender.LeaseSeconds = min(sender.LeaseSeconds, c.StartWithin.Seconds())
	}
	a := &admission{sender: sender, tasks: int64(c.Limit), lastPosition: sender.SharedLastTurn}
	if sender.IsPaced {
		budget, err := q.SenderBudget(ctx, dispatchq.SenderBudgetParams{
			SenderID: sender.SenderID, ClaimLimit: a.tasks, InOneCall: c.InOneCall, LeaseSeconds: sender.LeaseSeconds,
		})
		if postgres.IsNoRows(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		a.tasks, a.interval = budget.Tasks, budget.IntervalSeconds
		if budget.HasLimit {
			a.segments = &budget.Segments
		}
	}
	if a.tasks == 0 {
		return a, nil
	}
	if err := a.addRoutes(ctx, q, rules); err != nil {
		return nil, err
	}
	if err := a.addShared(ctx, q, rules); err != nil {
		return nil, err
	}
	return a, nil
}

// addRoutes adds the pools of the sender's routes to the admission.
func (a *admission) addRoutes(ctx context.Context, q *dispatchq.Queries, rules Rules) error {
	if !a.sender.HasRoutes {
		return nil
	}
	routes, err := q.RouteAdmit(ctx, dispatchq.RouteAdmitParams{
		SenderID: a.sender.SenderID, GivesWay: a.sender.GivesWay, SilentAfter: rules.SilentAfter,
	})
	if err != nil {
		return err
	}
	for _, r := range routes {
		a.lastPosition = max(a.lastPosition, r.LastTurn)
		p := admittedPool{
			id: r.PoolID, companyID: r.CompanyID, gap: r.Gap, position: max(r.NextTurn, a.lastPosition), maxTasks: a.tasks,
			rivalRoom: r.RivalRoom, routeID: r.RouteID, weight: r.Weight, served: r.Served,
		}
		if len(r.RivalsServed) > 0 {
			rivals := make([]RouteShare, len(r.RivalsServed))
			for i := range rivals {
				rivals[i] = RouteShare{r.RivalsServed[i], r.RivalsWeights[i]}
			}
			maxTasks, served, top := Share(RouteShare{r.Served, r.Weight}, r.WasServed, rivals)
			p.maxTasks, p.served, p.top = min(maxTasks, a.tasks), served, top
		}
		a.add(p, r.IsOutranked, r.PrimaryRoom)
	}
	return nil
}

// addShared adds the shared pool of the sender's channel. Call addRoutes first, because addRoutes reads the last position.
func (a *admission) addShared(ctx context.Context, q *dispatchq.Queries, rules Rules) error {
	if a.sender.SharedPoolID == nil {
		return nil
	}
	p := admittedPool{id: *a.sender.SharedPoolID, position: max(a.sender.SharedNextTurn, a.lastPosition), maxTasks: a.tasks}
	var rooms dispatchq.PoolRoomsRow
	if a.sender.HasPrimaries || a.sender.GivesWay {
		var err error
		rooms, err = q.PoolRooms(ctx, dispatchq.PoolRoomsParams{SenderID: a.sender.SenderID, GivesWay: a.sender.GivesWay, SilentAfter: rules.SilentAfter})
		if err != nil {
			return err
		}
	}
	p.rivalRoom = rooms.RivalRoom
	a.add(p, rooms.IsOutranked, rooms.PrimaryRoom)
	return nil
}

// add adds a pool. If the sender is outranked, and the senders with a larger sort can send every task of the pool, add skips the pool.
func (a *admission) add(p admittedPool, isOutranked bool, primaryRoom int64) {
	if isOutranked {
		if primaryRoom >= maxTasksSegments {
			return
		}
		p.fromSegments = primaryRoom + 1
	}
	a.pools = append(a.pools, p)
}

// maxTasksSegments is the maximum number of segments of a task at its submission (constraint messages_segments_range).
const maxTasksSegments = 100

// maxSegments returns the maximum number of segments of one attempt of the sender, for a text of 200 characters and a signature of 50 characters with
// brackets. If the sender has fewer segments left, TaskOffer returns only tasks that fit. Longer texts are rare: choose rejects a longer text if it
// does not fit.
func (a admission) maxSegments() int64 {
	switch {
	case !a.sender.CountsSegments:
		return 1
	case a.sender.SegmentSize != nil:
		return 252 / *a.sender.SegmentSize + 1
	default:
		return 8 // characters outside the basic plane count twice
	}
}

// segmentsLeft returns the segments that remain after the sender used some. Nil means no limit.
func (a admission) segmentsLeft(used int64) *int64 {
	if a.segments == nil {
		return nil
	}
	left := *a.segments - used
	return &left
}

// claimPart contains the limits of one pair of TaskOffer and TaskLease.
type claimPart struct {
	offer    dispatchq.TaskOfferParams
	limit    int64
	maxTasks map[int64]int64 // maximum number of tasks by pool
	at       *time.Time      // time of the earlier leases of this claim; nil: this is the first part

	sims *sims // nil: the sender has no SIMs

	taken    int64   // number of tasks that the sender sends before the tasks of this part
	interval float64 // see admission
}

// part returns the limits that remain after leases. may reports whether the sender is allowed to claim more.
func (a admission) part(c Request, rules Rules, leases []Lease) (p claimPart, may bool) {
	taken, segments := takenOf(leases)
	p = claimPart{limit: a.tasks - int64(len(leases)), maxTasks: map[int64]int64{}, taken: int64(len(leases)), interval: a.interval, offer: dispatchq.TaskOfferParams{
		SenderNo: c.SenderNo, SenderID: a.sender.SenderID, RetryMaxWait: rules.RetryMaxWait, MinLease: MinLease,
		Sign: a.sender.Sign, SignMode: a.sender.SignMode, SegmentSize: a.sender.SegmentSize, CountsSegments: a.sender.CountsSegments,
		SegmentsLeft: a.segmentsLeft(segments),
	}}
	if len(leases) > 0 {
		p.at = &leases[0].leasedAt
	}
	p.offer.IsTight = p.offer.SegmentsLeft != nil && *p.offer.SegmentsLeft < a.maxSegments()
	for _, pool := range a.pools {
		maxTasks := min(pool.maxTasks-taken[pool.id], p.limit)
		if maxTasks <= 0 {
			continue
		}
		p.maxTasks[pool.id] = maxTasks
		p.offer.PoolIds, p.offer.MaxTasks = append(p.offer.PoolIds, pool.id), append(p.offer.MaxTasks, maxTasks)
		p.offer.RivalRooms, p.offer.FromSegments = append(p.offer.RivalRooms, pool.rivalRoom), append(p.offer.FromSegments, pool.fromSegments)
	}
	return p, p.limit > 0 && len(p.maxTasks) > 0 && (p.offer.SegmentsLeft == nil || *p.offer.SegmentsLeft > 0)
}

// takenOf returns the number of leased tasks by pool, and the total number of leased segments.
func takenOf(leases []Lease) (tasks map[int64]int64, segments int64) {
	tasks = map[int64]int64{}
	for _, l := range leases {
		tasks[l.PoolID]++
		segments += l.segments
	}
	return tasks, segments
}

// passed returns pools in which the sender lags behind its rivals, but all remaining tasks must be sent by other senders (PoolsPassed). A pool is returned only
// if the sender claimed fewer tasks than its limits allow. The sender loses its unused share of these pools, so that its rivals do not wait for this sender.
func (a admission) passed(ctx context.Context, q *dispatchq.Queries, senderNo string, rules Rules, leases []Lease) ([]int64, error) {
	taken, segments := takenOf(leases)
	p := dispatchq.PoolsPassedParams{
		SenderNo: senderNo, SenderID: a.sender.SenderID, Sign: a.sender.Sign, SignMode: a.sender.SignMode,
		SegmentSize: a.sender.SegmentSize, CountsSegments: a.sender.CountsSegments,
		SegmentsLeft: a.segmentsLeft(segments), RetryMaxWait: rules.RetryMaxWait, MinLease: MinLease,
	}
	for _, pool := range a.pools {
		if pool.served < pool.top && taken[pool.id] < pool.maxTasks {
			p.PoolIds = append(p.PoolIds, pool.id)
		}
	}
	if n := len(leases); int64(n) == a.tasks && n > 0 {
		p.LastLane = &leases[n-1].lane
	}
	if len(p.PoolIds) == 0 {
		return nil, nil
	}
	sims, err := a.readSims(ctx, q)
	if err != nil {
		return nil, err
	}
	if sims != nil && len(sims.list) > 0 && sims.canLackSim(a.maxSegments()) {
		p.SimsAt = sims.at()
	}
	return q.PoolsPassed(ctx, p)
}

// charge returns the cost of a claim for the sender and its routes. any reports whether the cost must be stored.
func (a admission) charge(c Request, leases []Lease, passed []int64) (p dispatchq.SenderChargeParams, any bool) {
	isToBeSeen := a.sender.IsUnseen && (a.sender.HasRoutes || a.sender.HasDependents)
	p = dispatchq.SenderChargeParams{SenderID: a.sender.SenderID, IsToBeSeen: isToBeSeen, Calls: int64(len(leases))}
	if c.InOneCall {
		p.Calls = min(1, p.Calls)
	}
	taken, _ := takenOf(leases)
	for _, l := range leases {
		p.LeaseIds, p.CompanyIds = append(p.LeaseIds, l.LeaseID), append(p.CompanyIds, l.companyID)
		p.Segments, p.At = append(p.Segments, l.segments), &l.leasedAt
	}
	for _, pool := range a.pools {
		hasPassed := slices.Contains(passed, pool.id)
		switch {
		case pool.routeID == 0:
			if pool.hasMoved && len(a.pools) > 1 {
				p.SharedLastTurn, p.SharedNextTurn = &pool.lastPosition, &pool.position
			}
		case pool.hasMoved || hasPassed || taken[pool.id] > 0:
			served := pool.served + float64(taken[pool.id])/float64(pool.weight)
			if hasPassed {
				served = max(served, pool.top)
			}
			p.RouteIds, p.Served = append(p.RouteIds, pool.routeID), append(p.Served, served)
			p.LastTurns, p.NextTurns = append(p.LastTurns, pool.lastPosition), append(p.NextTurns, pool.position)
		}
	}
	return p, isToBeSeen || a.sender.IsPaced && len(leases) > 0 || p.SharedNextTurn != nil || len(p.RouteIds) > 0
}

// advance moves the positions of the pools from which tasks were claimed. It also moves the positions of other pools of the same companies, because a company
// has one share for all its pools. Only the last lane counts, because the claim took all tasks of the lanes before that lane.
func (a *admission) advance(leases []Lease) {
	companies := map[int64]int64{} // company id by pool id
	for _, p := range a.pools {
		companies[p.id] = p.companyID
	}
	for _, l := range leases {
		if l.lane != leases[len(leases)-1].lane {
			continue
		}
		for i := range a.pools {
			p := &a.pools[i]
			switch {
			case p.id == l.PoolID && p.companyID == 0:
				p.hasMoved, p.lastPosition, p.position = true, max(p.lastPosition, l.position), max(p.position, l.nextPosition)
			case p.companyID != 0 && p.companyID == companies[l.PoolID]:
				p.hasMoved, p.lastPosition, p.position = true, max(p.lastPosition, l.position), max(p.position, l.position+p.gap)
			}
		}
	}
}
