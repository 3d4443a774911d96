package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lksms/gen/erasureq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// cancelledBy is the user name that is recorded when an erasure cancels the waiting tasks of a person.
const cancelledBy = "system:erasures"

// Run performs the due erasures, and returns how many ended. An erasure repeats all of its steps until a pass finds nothing new. It ends only if no sender
// holds a lease on a task of the person, no list is being read that can contain the person, and the SQL inbox contains no message that is older than the
// erasure. An interrupted step is repeated, and processes the remaining rows.
func (s *Service) Run(ctx context.Context) (ended int, err error) {
	due, err := s.q.ErasuresDue(ctx, maxDue)
	if err != nil {
		return 0, fmt.Errorf("find erasures: %w", err)
	}
	var failures []error
	for _, e := range due {
		isOver, err := s.pass(ctx, newRun(e))
		if err != nil {
			// A failed erasure must not delay the next erasures.
			failures = append(failures, fmt.Errorf("erasure %d: %w", e.ID, err), s.wait(ctx, e.ID, e.Held))
		} else if isOver {
			ended++
		}
	}
	return ended, errors.Join(failures...)
}

func (s *Service) wait(ctx context.Context, id, held int64) error {
	return postgres.Wrap("wait with erasure", s.q.ErasureWait(ctx, erasureq.ErasureWaitParams{ID: id, Held: held, Seconds: waitSeconds}), nil)
}

// run is one pass of an erasure.
type run struct {
	*erase.Person

	id       int64
	stored   int  // number of user ids that are stored in the row of the erasure
	hasFound bool // whether this pass found contacts or tasks
}

// digitsShown is the number of last digits of a phone number that statements compare first. isAmong then compares the whole number.
const digitsShown = 8

func newRun(e Row) *run {
	p := &erase.Person{
		CompanyID: e.CompanyID, UserIDs: e.UserIds, Recipients: e.Recipients, AskedRecipients: e.AskedRecipients, Since: e.CreatedAt,
		Pseudonym: fmt.Sprintf("erased-%d-", e.ID), Has: func(address string) bool { return isAmong(e.Recipients, address) },
	}
	for _, address := range e.Recipients {
		at := phone.NationalFormat(address)
		if at != "" {
			p.AtHome = append(p.AtHome, at)
		}
		if strings.HasPrefix(address, "+") {
			digits := address[1:]
			p.Digits = append(p.Digits, digits[max(0, len(digits)-digitsShown):])
			if at != "" && len(at) < digitsShown { // the country code or a zero precedes the last digits of a short national number
				p.Digits = append(p.Digits, at, "0"+at)
			}
		}
	}
	return &run{Person: p, id: e.ID, stored: len(e.UserIds)}
}

// isAmong reports whether recipients contains an address. The address can have any notation.
func isAmong(recipients []string, address string) bool {
	normal, err := phone.Normalise("", address, "")
	if err != nil {
		normal = address
	}
	return slices.ContainsFunc(recipients, func(one string) bool {
		return normal == one || strings.HasPrefix(one, "+") && (phone.HasCountryCode(one, address) || phone.IsNationalFormat(one, address))
	})
}

// pass performs the steps of an erasure once.
func (s *Service) pass(ctx context.Context, r *run) (isOver bool, err error) {
	// The lists are also counted before the first step: a list that ends during the pass can add rows that the steps have missed.
	before, err := s.reading(ctx, r)
	if err != nil {
		return false, err
	}
	if err := s.callOwners(ctx, r, nil, func(o Owner) Step { return o.EraseSources }); err != nil {
		return false, err
	}
	if err := s.portions(ctx, r, func(o Owner) Portions { return o.EraseSourcePortions }); err != nil {
		return false, err
	}
	// This check runs before the search for tasks: if a message becomes a task now, this search or the next pass finds the task.
	hasEarlier, err := s.hasEarlier(ctx, r)
	if err != nil {
		return false, err
	}
	held, err := s.eraseTasks(ctx, r)
	if err != nil {
		return false, err
	}
	lists, err := s.reading(ctx, r)
	if err != nil {
		return false, err
	}
	lists = max(lists, before)
	if held+lists > 0 || r.hasFound || hasEarlier { // a transaction that read the contact before its erasure can still commit tasks after the search for tasks
		return false, s.wait(ctx, r.id, held+lists)
	}
	if err := s.portions(ctx, r, func(o Owner) Portions { return o.ErasePortions }); err != nil {
		return false, err
	}
	if err := s.callOwners(ctx, r, nil, func(o Owner) Step { return o.Erase }); err != nil {
		return false, err
	}
	return true, postgres.Wrap("end erasure", s.q.ErasureEnd(ctx, r.id), nil)
}

// eraseTasks cancels the waiting tasks, erases the ended tasks, and returns how many tasks senders hold.
func (s *Service) eraseTasks(ctx context.Context, r *run) (held int64, err error) {
	for after, n := "", erase.Portion; n == erase.Portion; {
		rows, err := s.Tasks.FindByPerson(ctx, r.Person, after)
		if err != nil {
			return held, err
		}
		if n = len(rows); n == 0 {
			break
		}
		after = rows[n-1].TaskID
		r.hasFound = true // if a task is requeued during this pass, the next pass finds it
		open, err := s.erasePortion(ctx, r, rows)
		if err != nil {
			return held, err
		}
		held += open
	}
	return held, nil
}

func (s *Service) erasePortion(ctx context.Context, r *run, rows []task.PersonRow) (held int64, err error) {
	ids := make([]string, len(rows))
	r.Recent = nil
	for i, row := range rows {
		ids[i] = row.TaskID
		if row.IsRecent {
			r.Recent = append(r.Recent, row.TaskID)
		}
	}
	if len(r.Recent) > 0 { // this step must precede the erasure of the tasks, because the search does not find erased tasks again
		if err := s.portions(ctx, r, func(o Owner) Portions { return o.BeforeTasks }); err != nil {
			return 0, err
		}
	}
	open, err := s.cancel(ctx, r, ids)
	if err != nil {
		return 0, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(open, id) })
	if len(ids) > 0 {
		err = s.callOwners(ctx, r, ids, ofTasks(ids))
	}
	return int64(len(open)), err
}

// cancel cancels the waiting tasks among ids. It returns the tasks that are still open because senders hold them: no other sender gets these tasks.
func (s *Service) cancel(ctx context.Context, r *run, ids []string) (held []string, err error) {
	open, err := s.Tasks.FindUnfinished(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		// This is a separate transaction, because it locks rows of the queue that senders wait for.
		err := s.count(ctx, r, nil, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.Tasks.CancelUnsent(ctx, open, cancelledBy)
			return erase.Counts{erase.Cancelled: int64(n)}, err
		})
		if err != nil {
			return nil, err
		}
	}
	return s.Tasks.FindUnfinished(ctx, ids)
}

// count runs a step in a transaction, and adds the counts that the step returns to the counts of the erasure. If the step added user ids to the person, count
// also stores these ids: the step deleted the contacts with these ids, so a later pass cannot find the ids. ids are the tasks that the step changes.
func (s *Service) count(ctx context.Context, r *run, ids []string, step func(ctx context.Context) (erase.Counts, error)) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		returned, err := step(ctx)
		if err != nil {
			return err
		}
		c := erase.Counts{}
		c.Add(returned)
		r.hasFound = r.hasFound || c[erase.Contacts]+c[erase.Tasks]+c[erase.Cancelled] > 0
		if len(r.UserIDs) > r.stored {
			if err := s.q.ErasureUsers(ctx, erasureq.ErasureUsersParams{ID: r.id, UserIds: r.UserIDs}); err != nil {
				return fmt.Errorf("store users: %w", err)
			}
			s.db.AfterCommit(ctx, func() { r.stored = len(r.UserIDs) })
		}
		if len(c)+len(ids) == 0 {
			return nil
		}
		text, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("write counts: %w", err)
		}
		return postgres.Wrap("count", s.q.ErasureCount(ctx, erasureq.ErasureCountParams{ID: r.id, Counts: text, TaskIds: append([]string{}, ids...)}), nil)
	})
}
