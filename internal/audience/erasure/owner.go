package erasure

import (
	"context"
	"fmt"

	"lksms/internal/platform/erase"
)

type (
	// Step erases rows of a person in the transaction of ctx, which other rooms share, and returns how many. It can be repeated.
	Step func(ctx context.Context, p *erase.Person) (erase.Counts, error)
	// Portions erases rows of a person in any number of transactions, each with run. After an interruption it is repeated: it then finds the remaining rows.
	Portions func(ctx context.Context, p *erase.Person, run erase.Runner) error
)

// Owner is a room with data about people, and what the room does in an erasure. A room needs one function at least; the usual one is Erase.
type Owner struct {
	Room string // its statements are in db/queries/<Room>/erase.sql

	// Erase erases the data in the last pass: no more tasks of the person exist then. ErasePortions is the same for many rows, and runs before.
	Erase         Step
	ErasePortions Portions

	// EraseSources erases data from which tasks to the person are created, at the beginning of each pass. EraseSourcePortions runs afterwards.
	EraseSources        Step
	EraseSourcePortions Portions

	// Reading returns how many lists from before the erasure are being read: they possibly contain the person. HasEarlier reports whether messages from before
	// the erasure are not tasks yet. The erasure waits for both.
	Reading    func(ctx context.Context, p *erase.Person) (int64, error)
	HasEarlier func(ctx context.Context, p *erase.Person) (bool, error)

	// BeforeTasks erases what contains p.Recent, the recent ones of the tasks that EraseTasks erases next. EraseTasks erases the rows of tasks that have ended.
	BeforeTasks Portions
	EraseTasks  func(ctx context.Context, p *erase.Person, taskIDs []string) (erase.Counts, error)
}

// together calls a function of each owner in one transaction. ids are the tasks that this transaction changes.
func (s *Service) together(ctx context.Context, r *run, ids []string, of func(Owner) Step) error {
	return s.count(ctx, r, ids, func(ctx context.Context) (erase.Counts, error) {
		all := erase.Counts{}
		for _, o := range s.Owners {
			if step := of(o); step != nil {
				c, err := step(ctx, r.Person)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", o.Room, err)
				}
				all.Add(c)
			}
		}
		return all, nil
	})
}

// portions calls a function of each owner, which runs transactions of its own.
func (s *Service) portions(ctx context.Context, r *run, of func(Owner) Portions) error {
	count := func(ctx context.Context, do func(ctx context.Context) (erase.Counts, error)) error {
		return s.count(ctx, r, nil, do)
	}
	for _, o := range s.Owners {
		if step := of(o); step != nil {
			if err := step(ctx, r.Person, count); err != nil {
				return fmt.Errorf("%s: %w", o.Room, err)
			}
		}
	}
	return nil
}

// ofTasks returns the EraseTasks of an owner for these tasks, as a Step.
func ofTasks(ids []string) func(Owner) Step {
	return func(o Owner) Step {
		if o.EraseTasks == nil {
			return nil
		}
		return func(ctx context.Context, p *erase.Person) (erase.Counts, error) { return o.EraseTasks(ctx, p, ids) }
	}
}

// hasEarlier reports whether an owner has messages from before the erasure that are not tasks yet.
func (s *Service) hasEarlier(ctx context.Context, r *run) (bool, error) {
	for _, o := range s.Owners {
		if o.HasEarlier == nil {
			continue
		}
		if has, err := o.HasEarlier(ctx, r.Person); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// reading returns how many lists from before the erasure are being read.
func (s *Service) reading(ctx context.Context, r *run) (lists int64, err error) {
	for _, o := range s.Owners {
		if o.Reading == nil {
			continue
		}
		n, err := o.Reading(ctx, r.Person)
		if err != nil {
			return 0, err
		}
		lists += n
	}
	return lists, nil
}
