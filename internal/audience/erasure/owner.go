package erasure

import (
	"context"
	"fmt"

	"lksms/internal/platform/erase"
)

type (
	// Step erases rows of a person in the transaction of ctx, and returns the numbers of erased rows. Steps of other rooms share the transaction. A Step can be
	// repeated.
	Step func(ctx context.Context, p *erase.Person) (erase.Counts, error)
	// Portions erases rows of a person in any number of transactions. It calls run for each transaction. After an interruption, Portions is called again and
	// erases the remaining rows.
	Portions func(ctx context.Context, p *erase.Person, run erase.Runner) error
)

// Owner is a room with data about people. Its functions erase the data of the room. A room needs at least one function; the usual function is Erase.
type Owner struct {
	Room string // the statements of the room are in db/queries/<Room>/erase.sql

	// Erase erases data in the last pass, when the person has no more tasks. ErasePortions runs before Erase, and erases many rows.
	Erase         Step
	ErasePortions Portions

	// EraseSources runs at the beginning of each pass. It erases data from which tasks to the person are created. EraseSourcePortions runs after EraseSources.
	EraseSources        Step
	EraseSourcePortions Portions

	// Reading returns how many lists that are older than the erasure are being read, because they can contain the person. HasEarlier reports whether messages
	// from before the erasure have not become tasks yet. The erasure waits until Reading returns 0 and HasEarlier returns false.
	Reading    func(ctx context.Context, p *erase.Person) (int64, error)
	HasEarlier func(ctx context.Context, p *erase.Person) (bool, error)

	// EraseTasks erases the rows of ended tasks. BeforeTasks runs before EraseTasks. It erases rows that contain a task of p.Recent: the recent tasks among
	// those that EraseTasks erases next.
	BeforeTasks Portions
	EraseTasks  func(ctx context.Context, p *erase.Person, taskIDs []string) (erase.Counts, error)
}

// callOwners calls one function of each owner, all in one transaction. `of` selects the function. ids are the tasks that this transaction changes.
func (s *Service) callOwners(ctx context.Context, r *run, ids []string, of func(Owner) Step) error {
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

// portions calls one function of each owner, which runs its own transactions. `of` selects the function.
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

// ofTasks converts EraseTasks of an owner to a Step for these tasks.
func ofTasks(ids []string) func(Owner) Step {
	return func(o Owner) Step {
		if o.EraseTasks == nil {
			return nil
		}
		return func(ctx context.Context, p *erase.Person) (erase.Counts, error) { return o.EraseTasks(ctx, p, ids) }
	}
}

// hasEarlier reports whether an owner has messages that are older than the erasure and not tasks yet.
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

// reading returns how many lists that are older than the erasure are being read.
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
