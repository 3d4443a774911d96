package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/gen/dispatchq"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Switch is something that holds tasks: a company that is off, a user who is disabled, and so on (function task_switches), or a batch that is paused.
type Switch struct {
	Kind string
	Name string
}

// noSharedSenders is the switch that holds what no route of a company serves, and shared senders may not.
const noSharedSenders = "shared_senders"

// The portions in which tasks are held and released. A run that found something to hold looks farther.
const (
	minSwitched = 100
	maxSwitched = 5000
)

// FollowSwitches holds the tasks that a switch holds, so that claims need not pass over them. After a change of the directory it releases those that
// none holds any more. It returns how many it changed. A claim gets no task that a switch holds, whether or not this has run.
func (s *Service) FollowSwitches(ctx context.Context) (int, error) {
	version, err := s.q.DirectoryVersion(ctx) // before the tasks are read: a later change is followed by the next run
	if err != nil {
		return 0, fmt.Errorf("read version of directory: %w", err)
	}
	held, err := s.holdSwitched(ctx)
	if err != nil || s.followed.Load() == version {
		return held, err
	}
	released, err := s.releaseSwitched(ctx)
	if err == nil {
		s.followed.Store(version)
	}
	return held + released, err
}

// holdSwitched holds tasks until it finds none that a switch holds and claims would meet.
func (s *Service) holdSwitched(ctx context.Context) (held int, err error) {
	for portion := int32(minSwitched); ; portion = maxSwitched {
		n := 0
		err := s.db.Dispatch(ctx, func(q *dispatchq.Queries) error {
			mayHold, err := q.DirectoryHold(ctx)
			if postgres.IsNoRows(err) || err == nil && !mayHold { // no row: the directory was never changed
				return nil
			}
			if err != nil {
				return err
			}
			found, err := q.TaskHoldSwitched(ctx, portion)
			n = int(found)
			return err
		})
		if held += n; err != nil || n == 0 {
			return held, postgres.Wrap("hold tasks of switches", err, nil)
		}
	}
}

// releaseSwitched releases the tasks that no switch holds any more.
func (s *Service) releaseSwitched(ctx context.Context) (released int, err error) {
	for {
		var row dispatchq.TaskReleaseSwitchedRow
		err := s.db.Dispatch(ctx, func(q *dispatchq.Queries) (err error) {
			row, err = q.TaskReleaseSwitched(ctx, maxSwitched)
			return err
		})
		if err != nil || row.Released == 0 {
			return released, postgres.Wrap("release tasks of switches", err, nil)
		}
		released += int(row.Released)
		news := map[int64]int{}
		for _, pool := range row.PoolIds {
			news[pool]++
		}
		for pool, n := range news {
			s.line.Wake(pool, n)
		}
	}
}

// Switched follows a change of a switch before the change is answered: it waits for the claims that began before, and holds and releases tasks as long
// as moveLimit allows. The sweep does the others and logs its errors.
func (s *Service) Switched() {
	ctx, cancel := context.WithTimeout(context.Background(), moveLimit)
	defer cancel()
	if err := s.awaitClaims(ctx); err != nil {
		return
	}
	_, _ = s.FollowSwitches(ctx)
}

// awaitClaims waits until the claims that are open now have ended: they began before a switch may have been off.
func (s *Service) awaitClaims(ctx context.Context) error {
	var before []string
	for isFirst := true; ; isFirst = false {
		var open []string
		err := s.db.Dispatch(ctx, func(q *dispatchq.Queries) (err error) {
			open, err = q.ClaimsOpen(ctx)
			return err
		})
		if err != nil {
			return postgres.Wrap("wait for claims", err, nil)
		}
		if isFirst {
			before = open
		}
		before = slices.DeleteFunc(before, func(tx string) bool { return !slices.Contains(open, tx) })
		if len(before) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for claims: %w", ctx.Err())
		case <-time.After(claimsPause):
		}
	}
}

// claimsPause is how long awaitClaims waits before it looks again. A claim takes some milliseconds.
const claimsPause = 2 * time.Millisecond

// switches returns what holds tasks of a pool, company, country, submitter and batch. Nil: the number is of no known country; no batch.
func (s *Service) switches(ctx context.Context, pool, company int64, countryNo *string, submitter string, batchID *int64) ([]Switch, error) {
	rows, err := s.q.TaskSwitches(ctx, dbq.TaskSwitchesParams{
		PoolID: pool, CompanyID: company, CountryNo: countryNo, SubmittedBy: submitter, BatchID: batchID,
	})
	all := make([]Switch, len(rows))
	for i, row := range rows {
		all[i] = Switch{Kind: row.Switch, Name: row.Name}
	}
	return all, postgres.Wrap("read switches", err, nil)
}

// CheckOpen returns the fault company.off for a company for which nobody submits messages now.
func (s *Service) CheckOpen(ctx context.Context, companyID int64) error {
	return s.directory.CheckOpen(ctx, companyID) //nolint:wrapcheck // a fault
}

// Messages are those of a batch or a notification.
type Messages struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Submitter   string
	SenderNo    *string  // the only sender that may send them; nil: any
	BatchID     *int64   // nil: of no batch
	Countries   []string // all to which they go, empty for numbers of no known country; nil: not known
}

// HeldBy returns what holds all of some messages: what does so whatever their countries, or else the switches of the countries, if each has one.
func (s *Service) HeldBy(ctx context.Context, m Messages) ([]Switch, error) {
	isRouted, err := s.directory.IsRouted(ctx, m.Channel, m.CompanyID, m.MessageType)
	if err != nil {
		return nil, fmt.Errorf("find routes: %w", err)
	}
	heldIn := func(country string) ([]Switch, error) {
		pool, err := s.directory.PoolOf(ctx, m.Channel, m.CompanyID, m.MessageType, country)
		if err != nil {
			return nil, fmt.Errorf("find pool: %w", err)
		}
		all, err := s.switches(ctx, pool, m.CompanyID, optional.NonZero(country), m.Submitter, m.BatchID)
		return slices.DeleteFunc(all, func(w Switch) bool {
			return w.Name == "" || w.Kind == noSharedSenders && (m.SenderNo != nil || isRouted) // the country of no number; those that a route may serve
		}), err
	}
	all, err := heldIn("")
	if err != nil || len(all) > 0 {
		return all, err
	}
	for _, country := range m.Countries {
		held, err := heldIn(country)
		if err != nil || len(held) == 0 {
			return nil, err
		}
		for _, one := range held {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all, nil
}
