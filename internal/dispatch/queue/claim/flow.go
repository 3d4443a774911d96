package claim

import (
	"cmp"
	"context"
	"slices"

	"lksms/gen/dispatchq"
)

// The tasks of a company form flows. Each batch is a flow, and all other tasks of one submitter are a flow. The flows of a company take turns. The ranks of a
// company's tasks determine when the company is served, so the share of a company does not depend on the number of its flows. At each rank, the task with the
// smallest flow rank is claimed.

// companyLane identifies the waiting tasks of a company in one pool and lane.
type companyLane struct {
	pool, company int64
	lane          int32
}

func (o offer) companyLane() companyLane { return companyLane{o.PoolID, o.CompanyID, o.Lane} }

// isForAnother reports whether the task is claimed at the rank of another task.
func (o offer) isForAnother() bool { return o.rankOf != nil && o.rankOf.TaskID != o.TaskID }

// flowRank returns the position of a queued task among the tasks of its company. The position is never greater than the rank of the task. A server of an
// older version, which does not use the column flow_rank, can leave a wrong value in this column.
func flowRank(t dispatchq.TaskOfferRow) float64 {
	switch {
	case t.Rank == nil:
		return 0 // cannot happen: every queued task has a rank
	case t.FlowRank == nil:
		return *t.Rank
	default:
		return min(*t.Rank, *t.FlowRank)
	}
}

// byFlowRank compares tasks of a company in the order of the index queue_flow_ranks_idx. Task ids ascend with time.
func byFlowRank(a, b dispatchq.TaskOfferRow) int {
	return cmp.Or(cmp.Compare(flowRank(a), flowRank(b)), cmp.Compare(a.TaskID, b.TaskID))
}

// inFlows orders the tasks of each company so that its flows take turns. The first rank of a company among the offers goes to its first task by flow
// rank, the second rank to its second task, and so on.
func (p claimPart) inFlows(ctx context.Context, q *dispatchq.Queries, offers []offer) ([]offer, error) {
	tasks, isOffered := map[companyLane][]dispatchq.TaskOfferRow{}, map[string]bool{}
	for _, o := range offers {
		if o.HasFlows {
			tasks[o.companyLane()] = append(tasks[o.companyLane()], o.TaskOfferRow)
			isOffered[o.TaskID] = true
		}
	}
	if len(tasks) == 0 {
		return offers, nil
	}
	rows, err := q.TaskFlows(ctx, p.flowsOf(tasks))
	if err != nil {
		return nil, err
	}
	hasFlows := map[companyLane]bool{}
	for _, row := range rows {
		of := companyLane{row.PoolID, row.CompanyID, row.Lane}
		hasFlows[of] = true
		if !isOffered[row.TaskID] {
			tasks[of] = append(tasks[of], dispatchq.TaskOfferRow{
				TaskID: row.TaskID, PoolID: row.PoolID, CompanyID: row.CompanyID, Lane: row.Lane, Rank: row.Rank, FlowRank: row.FlowRank,
				CreatedAt: row.CreatedAt, RenderingID: row.RenderingID, Segments: row.Segments, SecondsLeft: row.SecondsLeft,
			})
		}
	}
	for _, all := range tasks {
		slices.SortFunc(all, byFlowRank)
	}
	for i, o := range offers {
		if of := o.companyLane(); o.HasFlows && hasFlows[of] {
			offers[i] = offer{TaskOfferRow: tasks[of][0], position: o.position, nextPosition: o.nextPosition, rankOf: &o.TaskOfferRow}
			tasks[of] = tasks[of][1:]
		}
	}
	return offers, nil
}

// flowsOf returns the parameters of a query that reads as many tasks of each company as the company has offers.
func (p claimPart) flowsOf(offered map[companyLane][]dispatchq.TaskOfferRow) dispatchq.TaskFlowsParams {
	asked := dispatchq.TaskFlowsParams{
		SenderNo: p.offer.SenderNo, SenderID: p.offer.SenderID, SimsAt: p.offer.SimsAt, RetryMaxWait: p.offer.RetryMaxWait, MinLease: p.offer.MinLease,
		Sign: p.offer.Sign, SignMode: p.offer.SignMode,
		SegmentSize: p.offer.SegmentSize, CountsSegments: p.offer.CountsSegments, SegmentsLeft: p.offer.SegmentsLeft, IsTight: p.offer.IsTight,
	}
	for of, tasks := range offered {
		pool := slices.Index(p.offer.PoolIds, of.pool)
		asked.PoolIds, asked.Lanes, asked.CompanyIds = append(asked.PoolIds, of.pool), append(asked.Lanes, of.lane), append(asked.CompanyIds, of.company)
		asked.MaxTasks, asked.RivalRooms = append(asked.MaxTasks, int64(len(tasks))), append(asked.RivalRooms, p.offer.RivalRooms[pool])
		asked.FromSegments = append(asked.FromSegments, p.offer.FromSegments[pool])
	}
	return asked
}

// passedOver returns the tasks that were not chosen although another task was chosen at their rank. ranks are the new ranks of the returned tasks: the ranks
// of chosen tasks at which no task was chosen. All other ranks of the company remain unchanged.
func passedOver(chosen []offer) (ids []string, ranks []float64) {
	isChosen, isUsed := map[string]bool{}, map[string]bool{} // by task id, and by id of the task that had the rank
	for _, o := range chosen {
		isChosen[o.TaskID] = true
		if o.rankOf != nil {
			isUsed[o.rankOf.TaskID] = true
		}
	}
	passed, free := map[companyLane][]dispatchq.TaskOfferRow{}, map[companyLane][]float64{}
	for _, o := range chosen {
		if !o.isForAnother() {
			continue
		}
		if !isChosen[o.rankOf.TaskID] {
			passed[o.companyLane()] = append(passed[o.companyLane()], *o.rankOf)
		}
		if !isUsed[o.TaskID] {
			free[o.companyLane()] = append(free[o.companyLane()], *o.Rank)
		}
	}
	for of, tasks := range passed {
		slices.SortFunc(tasks, byFlowRank)
		slices.Sort(free[of])
		for i, t := range tasks {
			ids, ranks = append(ids, t.TaskID), append(ranks, free[of][i])
		}
	}
	return ids, ranks
}
