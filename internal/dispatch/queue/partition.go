package queue

import (
	"context"

	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
)

// RunByDay runs all items together in one transaction, or in a savepoint of the caller's transaction. A partition can be locked for minutes. If an item needs
// a locked partition, RunByDay runs the items of each day separately, so that only items of the locked partition fail. idOf returns the task id of an item.
// If the first run fails with another error, RunByDay returns this error, and no item is done.
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
		_ = brief(days[day]) // brief stores the error in the results
	}
	return results, nil
}
