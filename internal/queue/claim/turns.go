package claim

import (
	"cmp"
	"context"
	"slices"

	"lksms/gen/dispatchq"
)

// The flows of a company take turns: its submitters and its batches. A company has the places that the ranks of its tasks are, so that its share does
// not depend on how many flows it has. Which of its tasks is taken at a place follows from their flow ranks.

// share is where a company has places.
type share struct {
	pool, company int64
	lane          int32
}

func (o offer) share() share { return share{o.PoolID, o.CompanyID, o.Lane} }

// isExchanged reports whether the task is taken in the place of another one.
func (o offer) isExchanged() bool { return o.place != nil && o.place.TaskID != o.TaskID }

// turnOf returns the order of a queued task among those of its company. It is never behind its rank, whatever a server left in flow_rank that does
// not know the column.
func turnOf(t dispatchq.TaskOfferRow) float64 {
	switch {
	case t.Rank == nil:
		return 0 // never: a queued task has a rank
	case t.FlowRank == nil:
		return *t.Rank
	default:
		return min(*t.Rank, *t.FlowRank)
	}
}

// byFlow orders the tasks of a company, as queue_turns_idx does. Ids ascend with time.
func byFlow(a, b dispatchq.TaskOfferRow) int {
	return cmp.Or(cmp.Compare(turnOf(a), turnOf(b)), cmp.Compare(a.TaskID, b.TaskID))
}

// inTurns puts the tasks of companies whose flows take turns into the places of these companies: the first task into the first place.
func (p claimPart) inTurns(ctx context.Context, q *dispatchq.Queries, offers []offer) ([]offer, error) {
	tasks := map[share][]dispatchq.TaskOfferRow{}
	for _, o := range offers {
		if o.HasTurns {
			tasks[o.share()] = append(tasks[o.share()], o.TaskOfferRow)
		}
	}
	if len(tasks) == 0 {
		return offers, nil
	}
	rows, err := q.TaskTurns(ctx, p.turnsOf(tasks))
	if err != nil {
		return nil, err
	}
	isOffered := make(map[string]bool, len(offers))
	for _, o := range offers {
		isOffered[o.TaskID] = true
	}
	takesTurns := map[share]bool{}
	for _, row := range rows {
		of := share{row.PoolID, row.CompanyID, row.Lane}
		takesTurns[of] = true
		if isOffered[row.TaskID] {
			continue
		}
		tasks[of] = append(tasks[of], dispatchq.TaskOfferRow{
			TaskID: row.TaskID, PoolID: row.PoolID, CompanyID: row.CompanyID, Lane: row.Lane, Rank: row.Rank, FlowRank: row.FlowRank,
			CreatedAt: row.CreatedAt, RenderingID: row.RenderingID, Segments: row.Segments, SecondsLeft: row.SecondsLeft,
		})
	}
	for _, all := range tasks {
		slices.SortFunc(all, byFlow)
	}
	for i, o := range offers {
		if of := o.share(); o.HasTurns && takesTurns[of] {
			offers[i] = offer{TaskOfferRow: tasks[of][0], turn: o.turn, nextTurn: o.nextTurn, place: &o.TaskOfferRow}
			tasks[of] = tasks[of][1:]
		}
	}
	return offers, nil
}

// turnsOf asks for as many tasks of each company as it has places.
func (p claimPart) turnsOf(places map[share][]dispatchq.TaskOfferRow) dispatchq.TaskTurnsParams {
	asked := dispatchq.TaskTurnsParams{
		SenderNo: p.offer.SenderNo, RetryMaxWait: p.offer.RetryMaxWait, LeaseLeast: p.offer.LeaseLeast, Sign: p.offer.Sign,
		SegmentSize: p.offer.SegmentSize, CountsSegments: p.offer.CountsSegments, SegmentsLeft: p.offer.SegmentsLeft, IsTight: p.offer.IsTight,
	}
	for of, tasks := range places {
		pool := slices.Index(p.offer.PoolIds, of.pool)
		asked.PoolIds, asked.Lanes, asked.CompanyIds = append(asked.PoolIds, of.pool), append(asked.Lanes, of.lane), append(asked.CompanyIds, of.company)
		asked.Most, asked.RivalRooms = append(asked.Most, int64(len(tasks))), append(asked.RivalRooms, p.offer.RivalRooms[pool])
		asked.FromSegments = append(asked.FromSegments, p.offer.FromSegments[pool])
	}
	return asked
}

// passedOver returns the tasks in whose places others were chosen and that were not chosen themselves, and the ranks that they get: those of the chosen
// tasks whose own places were not used. So the company has the other places that it had.
func passedOver(chosen []offer) (ids []string, ranks []float64) {
	isChosen, isUsed := map[string]bool{}, map[string]bool{}
	for _, o := range chosen {
		isChosen[o.TaskID] = true
		if o.place != nil {
			isUsed[o.place.TaskID] = true
		}
	}
	passed, free := map[share][]dispatchq.TaskOfferRow{}, map[share][]float64{}
	for _, o := range chosen {
		if !o.isExchanged() {
			continue
		}
		if !isChosen[o.place.TaskID] {
			passed[o.share()] = append(passed[o.share()], *o.place)
		}
		if !isUsed[o.TaskID] {
			free[o.share()] = append(free[o.share()], *o.Rank)
		}
	}
	for of, tasks := range passed {
		slices.SortFunc(tasks, byFlow)
		slices.Sort(free[of])
		for i, t := range tasks {
			ids, ranks = append(ids, t.TaskID), append(ranks, free[of][i])
		}
	}
	return ids, ranks
}
