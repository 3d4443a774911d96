package task

import (
	"cmp"
	"slices"

	"lksms/gen/dbq"
)

// offer is a task that a sender may take, and its turn between the pools of that sender.
type offer struct {
	dbq.TaskOfferRow
	turn     float64
	nextTurn float64 // of the pool, once this task is taken
}

// place is the order of tasks of equal turn, and that within a pool. What has no rank yet comes behind what has.
func (o offer) place(other offer) int {
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

func byTurn(a, b offer) int {
	return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.turn, b.turn), a.place(b))
}

// inOrder puts what pools offer into one order: by lane, then by turn. The turn of a task is the distance from the first of its
// pool and lane, counted from the pool's own turn with this sender: what a pool missed elsewhere is not owed to it here. A hole in
// the ranks counts as the task's gap, which is never more while its company waits. A company with several pools has one share of
// them: its tasks come one after the other, a gap apart. Rows come as TaskOffer orders them.
func (a admission) inOrder(rows []dbq.TaskOfferRow) []offer {
	pools := map[int64]admittedPool{}
	for _, p := range a.pools {
		pools[p.PoolID] = p
	}
	offers := make([]offer, len(rows))
	for i, row := range rows {
		offers[i] = offer{TaskOfferRow: row, turn: pools[row.PoolID].Turn}
		if i == 0 || rows[i-1].PoolID != row.PoolID || rows[i-1].Lane != row.Lane {
			continue
		}
		offers[i].turn = offers[i-1].turn
		if before := rows[i-1].Rank; before != nil && row.Rank != nil {
			step := *row.Rank - *before
			if row.Gap > 0 {
				step = min(step, row.Gap)
			}
			offers[i].turn += step
		}
	}
	slices.SortFunc(offers, byTurn)

	type laneOf struct {
		id   int64
		lane int32
	}
	type share struct {
		taken  float64
		behind float64 // how far the turns are from those of a company that has been served one task after the other
	}
	companies := map[laneOf]share{}
	for i := range offers {
		o := &offers[i]
		company := pools[o.PoolID].CompanyID
		if company == 0 || o.Gap == 0 {
			continue
		}
		of, seen := companies[laneOf{company, o.Lane}]
		of.taken++
		if behind := o.turn - of.taken*o.Gap; !seen || behind > of.behind {
			of.behind = behind
		}
		o.turn = of.taken*o.Gap + of.behind
		companies[laneOf{company, o.Lane}] = of
	}
	slices.SortFunc(offers, byTurn)

	next := map[laneOf]float64{}
	for i := range slices.Backward(offers) {
		o := &offers[i]
		of := laneOf{o.PoolID, o.Lane}
		o.nextTurn = o.turn
		if turn, any := next[of]; any {
			o.nextTurn = turn
		}
		next[of] = o.turn
	}
	return offers
}

// choose gives the first of offers that p may take together: as many of each pool and of all, and as fit into its segments. In one
// call: only tasks of the same rendering as the first.
func (p claimPart) choose(offers []offer, inOneCall bool) []offer {
	var chosen []offer
	ofPool := map[int64]int64{}
	var segments int64
	for _, o := range offers {
		if int64(len(chosen)) == p.limit {
			break
		}
		if ofPool[o.PoolID] == p.most[o.PoolID] {
			continue
		}
		ofPool[o.PoolID]++
		if inOneCall && !o.isOfCall(offers[0]) {
			continue
		}
		if segments += o.Segments; p.offer.SegmentsLeft != nil && segments > *p.offer.SegmentsLeft {
			break
		}
		chosen = append(chosen, o)
	}
	return chosen
}

// isOfCall says whether a driver may send o together with first.
func (o offer) isOfCall(first offer) bool {
	if o.RenderingID == nil || first.RenderingID == nil {
		return o.TaskID == first.TaskID
	}
	return *o.RenderingID == *first.RenderingID
}
