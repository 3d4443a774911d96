package claim

import (
	"cmp"
	"slices"

	"lksms/gen/dispatchq"
)

// offer is a task that a sender is allowed to claim. In each lane, a sender claims the tasks of all its pools in the order of their positions, see inOrder.
type offer struct {
	dispatchq.TaskOfferRow
	position     float64
	nextPosition float64                 // position of the pool after this task
	sim          *int16                  // slot of the SIM; nil: the sender has no SIMs, or chooses one itself
	rankOf       *dispatchq.TaskOfferRow // the task of the same company at whose rank this task is claimed; nil: its own rank; see inFlows
}

// compare orders tasks of equal position by rank. Tasks of equal rank are ordered by age. Tasks without a rank come last.
func (o offer) compare(other offer) int {
	byRank := 0
	switch {
	case o.Rank != nil && other.Rank != nil:
		byRank = cmp.Compare(*o.Rank, *other.Rank)
	case o.Rank != nil:
		byRank = -1
	case other.Rank != nil:
		byRank = 1
	}
	return cmp.Or(byRank, o.CreatedAt.Compare(other.CreatedAt), cmp.Compare(o.TaskID, other.TaskID))
}

func byPosition(a, b offer) int {
	return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.position, b.position), a.compare(b))
}

// inOrder merges the tasks of several pools by lane and then by position. The position of a task is the position of its pool for this sender, plus the distance
// in rank from the first task of its pool and lane. Therefore a pool that other senders have served too little gets no advantage here. A step in rank that is
// larger than the gap of the task counts as the gap. A company with several pools has one share for all its pools: the positions of its consecutive tasks
// differ by one gap. rows must be in the order of TaskOffer.
func (a admission) inOrder(rows []dispatchq.TaskOfferRow) []offer {
	pools := map[int64]admittedPool{}
	for _, p := range a.pools {
		pools[p.id] = p
	}
	offers := make([]offer, len(rows))
	for i, row := range rows {
		offers[i] = offer{TaskOfferRow: row, position: pools[row.PoolID].position}
		if i == 0 || rows[i-1].PoolID != row.PoolID || rows[i-1].Lane != row.Lane {
			continue
		}
		offers[i].position = offers[i-1].position
		if before := rows[i-1].Rank; before != nil && row.Rank != nil {
			step := *row.Rank - *before
			if row.Gap > 0 {
				step = min(step, row.Gap)
			}
			offers[i].position += step
		}
	}
	slices.SortFunc(offers, byPosition)

	type laneOf struct {
		id   int64
		lane int32
	}
	type served struct {
		taken  float64
		behind float64 // largest difference so far between the position of a task and the sum of the gaps up to this task
	}
	companies := map[laneOf]served{}
	for i := range offers {
		o := &offers[i]
		company := pools[o.PoolID].companyID
		if company == 0 || o.Gap == 0 {
			continue
		}
		of, seen := companies[laneOf{company, o.Lane}]
		of.taken++
		if behind := o.position - of.taken*o.Gap; !seen || behind > of.behind {
			of.behind = behind
		}
		o.position = of.taken*o.Gap + of.behind
		companies[laneOf{company, o.Lane}] = of
	}
	slices.SortFunc(offers, byPosition)

	next := map[laneOf]float64{}
	for i := range slices.Backward(offers) {
		o := &offers[i]
		of := laneOf{o.PoolID, o.Lane}
		o.nextPosition = o.position
		if position, any := next[of]; any {
			o.nextPosition = position
		}
		next[of] = o.position
	}
	return offers
}

// choose returns the first offers that the claim is allowed to lease, within the limits of tasks per pool, of all tasks, and of segments. isCut reports that
// the next offer needs more segments than remain, or that an offer was skipped because no SIM had room for it. With inOneCall, all chosen tasks have the rendering
// of the first task. A task that expires before the sender can send it is skipped.
func (p claimPart) choose(offers []offer, inOneCall bool) (chosen []offer, isCut bool) {
	ofPool := map[int64]int64{}
	var segments int64
	for _, o := range offers {
		if int64(len(chosen)) == p.limit {
			break
		}
		if ofPool[o.PoolID] == p.maxTasks[o.PoolID] || o.SecondsLeft < p.interval*float64(p.taken+int64(len(chosen))) {
			continue
		}
		ofPool[o.PoolID]++
		if inOneCall && !o.isOfCall(offers[0]) {
			continue
		}
		if p.offer.SegmentsLeft != nil && segments+o.Segments > *p.offer.SegmentsLeft {
			return chosen, true
		}
		if p.sims != nil {
			var ok bool
			if o.sim, ok = p.sims.take(o); !ok {
				isCut = true
				continue
			}
		}
		segments += o.Segments
		chosen = append(chosen, o)
	}
	return chosen, isCut
}

// isOfCall reports whether a driver can send o and first in one call.
func (o offer) isOfCall(first offer) bool {
	if o.RenderingID == nil || first.RenderingID == nil {
		return o.TaskID == first.TaskID
	}
	return *o.RenderingID == *first.RenderingID
}
