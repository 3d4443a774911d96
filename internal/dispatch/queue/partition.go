package queue

import (
	"context"

	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
)

// RunByDay runs items together, in a transaction or a savepoint of its own. If one of them needs a partition that is locked, which may take
// minutes, the items of each day run apart, so that only those of the locked partition fail. idOf returns the task of an item. An error other
// than that of a lock is returned if all items ran together; then none is done.
func RunByDay[In, Out any](ctx context.Context, db *postgres.DB, items []In, idOf func(In) string,
	run func(ctx context.Context, items []In) ([]Out, error),
) ([]merge.Result[Out], error) {
	results := make([]merge.Result[Out], len(items))
	brief := func(members []int) error {
		some := make([]In, len(members))
		for i, of := range members {
			some[i] = items[of]
		}
		outs, err := postgres.Again(ctx, db, func() (outs []Out, err error) {
			err = db.Briefly(ctx, func(ctx context.Context) (err error) {
				outs, err = run(ctx, some)
				return err
			})
			return outs, err
		})
		for i, of := range members {
			if results[of].Err = err; err == nil {
				results[of].Out = outs[i]
			}
		}
		return err
	}
	all := make([]int, len(items))
	days, order := map[string][]int{}, []string{}
	for i, item := range items {
		all[i] = i
		day := taskid.DayOf(idOf(item))
		if days[day] == nil {
			order = append(order, day)
		}
		days[day] = append(days[day], i)
	}
	err := brief(all)
	if err != nil && !postgres.IsLockTimeout(err) {
		return nil, err
	}
	if err == nil || len(days) == 1 {
		return results, nil
	}
	for _, day := range order {
		_ = brief(days[day]) // it is the result of each of them
	}
	return results, nil
}
