package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lksms/gen/reconcileq"
	"lksms/internal/platform/fault"
)

const (
	// neighbouring is the tolerance at both ends of a day. LKSMS can record the acceptance of a message up to this time before or after the day, although the
	// provider counts the message on the day. Clocks differ, and a response takes time.
	neighbouring = time.Hour

	// nearEnds is the maximum distance from midnight at which the provider can count an accepted message on the neighbouring day.
	nearEnds = 5 * time.Minute
)

// These are the states of an attempt.
const (
	accepted    = "accepted" // accepted by the provider, without a receipt
	delivered   = "delivered"
	undelivered = "undelivered"
	failed      = "failed" // the sender reported FAILED
)

// lease identifies an attempt.
type lease struct {
	taskID string
	id     int64
}

// numbered identifies an attempt and one of the provider's numbers of this attempt. A provider can give several numbers to one attempt.
type numbered struct {
	number string
	lease
}

// attempt contains the stored data of an attempt.
type attempt struct {
	lease
	at       time.Time
	state    string
	others   string // final state in a receipt of another sender, which can have prevented a receipt of this sender from being stored; empty: no such receipt
	segments int64  // number of segments; 0: unknown
}

// states sets the state of each attempt of a sender. An attempt without a report counts as accepted, because its provider gave it a number.
func (s *Service) states(ctx context.Context, senderNo string, all []*attempt) error {
	if len(all) == 0 {
		return nil
	}
	ids := make([]string, len(all))
	byLease := map[lease][]*attempt{}
	for i, a := range all {
		a.state, ids[i] = accepted, a.taskID
		byLease[a.lease] = append(byLease[a.lease], a)
	}
	rows, err := s.inParts.AttemptStates(ctx, ids)
	if err != nil {
		return fmt.Errorf("read reports: %w", err)
	}
	receipts, others := map[string]string{}, map[string]string{} // by id of the task
	for _, row := range rows {
		if row.Event != "reported" {
			of := receipts
			if row.SenderNo != senderNo {
				of = others
			}
			if of[row.TaskID] != delivered { // a later receipt does not replace delivered
				of[row.TaskID] = row.Effect
			}
			continue
		}
		for _, a := range byLease[lease{row.TaskID, row.LeaseID}] {
			if row.Segments > 0 {
				a.segments = row.Segments
			}
			if a.state = accepted; row.Status != statusSuccess {
				a.state = failed
			}
		}
	}
	for _, a := range all {
		if a.state != accepted {
			continue
		}
		a.others = others[a.taskID]
		if receipt, has := receipts[a.taskID]; has {
			a.state = receipt
		}
	}
	return nil
}

// statusSuccess is the status of a report SUCCESS.
const statusSuccess = 2

// match compares the next rows of a file with the attempts that have the same numbers.
func (s *Service) match(ctx context.Context, r Row) error {
	rows, err := s.q.StatementRows(ctx, reconcileq.StatementRowsParams{ID: r.ID, AfterNo: r.AfterNo, Portion: matchPortion})
	if err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	st := stepOf(r)
	compared, err := s.compare(ctx, r, st, rows)
	if err != nil {
		return err
	}
	if compared > 0 {
		st.move.AfterNo = rows[compared-1].ProviderNo
	}
	if compared == len(rows) && len(rows) < matchPortion {
		st.move.Phase = searching
	}
	return s.store(ctx, r, st, nil)
}

// attemptsOf returns the attempts whose numbers occur in rows. It reads at most maxAttempts attempts. It also returns the number of rows whose attempts were all
// read. If the first row's number alone has more attempts, this row is recorded as unreadable.
func (s *Service) attemptsOf(ctx context.Context, r Row, st *step, rows []reconcileq.StatementRowsRow) ([]reconcileq.AttemptsOfNumbersRow, int, error) {
	numbers := make([]string, len(rows))
	for i, row := range rows {
		numbers[i] = row.ProviderNo
	}
	found, err := s.q.AttemptsOfNumbers(ctx, reconcileq.AttemptsOfNumbersParams{SenderNo: r.SenderNo, ProviderNos: numbers, MaxRows: maxAttempts})
	if err != nil {
		return nil, 0, fmt.Errorf("find attempts: %w", err)
	}
	if len(found) <= maxAttempts {
		return found, len(rows), nil
	}
	last := found[maxAttempts].ProviderNo // the attempts of this number were possibly not all read
	complete := slices.Index(numbers, last)
	if complete == 0 {
		st.add(r, unreadable, difference{number: last, row: rows[0].RowNo, theirs: string(fault.SharedByMany)})
		return nil, 0, nil
	}
	return found[:slices.IndexFunc(found, func(f reconcileq.AttemptsOfNumbersRow) bool { return f.ProviderNo == last })], complete, nil
}

// compare compares rows of a file with attempts, and returns the number of processed rows.
func (s *Service) compare(ctx context.Context, r Row, st *step, rows []reconcileq.StatementRowsRow) (int, error) {
	found, complete, err := s.attemptsOf(ctx, r, st, rows)
	if err != nil {
		return 0, err
	}
	if complete == 0 {
		return min(1, len(rows)), nil // the first row is unreadable
	}
	byNumber, nearby, elsewhere := map[string][]*attempt{}, map[string][]*attempt{}, map[string]*attempt{}
	isKnown := map[numbered]bool{}
	for _, f := range found {
		one := &attempt{lease: lease{f.TaskID, f.LeaseID}, at: f.CreatedAt}
		if isKnown[numbered{f.ProviderNo, one.lease}] {
			continue // a second report of the same attempt
		}
		isKnown[numbered{f.ProviderNo, one.lease}] = true
		switch away := fromDay(r, f.CreatedAt); {
		case away == 0:
			byNumber[f.ProviderNo] = append(byNumber[f.ProviderNo], one)
		case away <= neighbouring:
			nearby[f.ProviderNo] = append(nearby[f.ProviderNo], one)
		default:
			elsewhere[f.ProviderNo] = one
		}
	}
	var taken []*attempt
	for _, row := range rows[:complete] {
		all := byNumber[row.ProviderNo]
		if missing := int(row.Copies) - len(all); missing > 0 { // add only as many attempts as are missing, because the other attempts can belong to other messages with a reused number
			near := nearby[row.ProviderNo]
			slices.SortStableFunc(near, func(a, b *attempt) int { return cmp.Compare(fromDay(r, a.at), fromDay(r, b.at)) })
			all = append(all, near[:min(missing, len(near))]...)
			byNumber[row.ProviderNo] = all
		}
		taken = append(taken, all...)
	}
	if err := s.states(ctx, r.SenderNo, taken); err != nil {
		return 0, err
	}
	for _, row := range rows[:complete] {
		all := byNumber[row.ProviderNo]
		if len(all) == 0 {
			d := difference{number: row.ProviderNo, row: row.RowNo, theirs: row.Status}
			if one := elsewhere[row.ProviderNo]; one != nil {
				d.taskID, d.acceptedAt = one.taskID, &one.at
			}
			st.add(r, missingHere, d)
			continue
		}
		st.move.Matched++
		st.move.Ours++
		compareRow(r, st, row, all)
	}
	return complete, nil
}

// fromDay returns the distance of a time from the day of a reconciliation. It returns 0 for a time within the day.
func fromDay(r Row, at time.Time) time.Duration {
	switch {
	case at.Before(r.FromAt):
		return r.FromAt.Sub(at)
	case !at.Before(r.ToAt):
		return at.Sub(r.ToAt) + 1 // ToAt itself is already outside the day
	}
	return 0
}

// compareRow compares a row with the attempts that have its number. It adds the differences to st.
func compareRow(r Row, st *step, row reconcileq.StatementRowsRow, all []*attempt) {
	of := func(a *attempt, ours, theirs string) difference {
		return difference{number: row.ProviderNo, row: row.RowNo, taskID: a.taskID, acceptedAt: &a.at, ours: ours, theirs: theirs}
	}
	if row.Copies > int64(len(all)) {
		st.add(r, repeated, of(all[0], strconv.Itoa(len(all)), strconv.FormatInt(row.Copies, 10)))
	}
	var segments int64
	areKnown := true
	for _, a := range all {
		segments += a.segments
		areKnown = areKnown && a.segments > 0
	}
	if row.Segments != nil && areKnown && *row.Segments != segments {
		st.add(r, segmentsDiffer, of(all[0], strconv.FormatInt(segments, 10), strconv.FormatInt(*row.Segments, 10)))
	}
	if row.Copies > 1 && row.Status == "" && r.StatusColumn != "" {
		return // the rows of this number have different states
	}
	for _, a := range all {
		if statusIsOther(r, a, row.Status) {
			st.add(r, statusDiffers, of(a, a.state, row.Status))
			return // at most one difference for each number
		}
	}
}

// statusIsOther reports whether the state of an attempt contradicts the state in the file. A state in the file that is not final contradicts no receipt. A task
// stores each final state at most once, and no state after delivered. If the receipt of another sender was stored first, a missing receipt of this sender is
// therefore no contradiction.
func statusIsOther(r Row, a *attempt, theirs string) bool {
	isUndelivered := theirs != "" && !isAny(r.DeliveredValues, theirs) && !isAny(r.PendingValues, theirs)
	switch {
	case a.state == failed:
		return !isUndelivered // a contradiction, unless the file reports the message as undelivered
	case theirs == "" || isAny(r.PendingValues, theirs) || a.others == delivered:
		return false
	case isUndelivered:
		return a.state != undelivered && a.others != undelivered
	default:
		return a.state != delivered
	}
}

// search finds accepted attempts that are missing in the file. It searches the next part of the day.
func (s *Service) search(ctx context.Context, r Row) error {
	from, afterID := r.FromAt, r.AfterID
	if r.AfterAt != nil {
		from = *r.AfterAt
	}
	to := from.Add(slice)
	if to.After(r.ToAt) {
		to = r.ToAt
	}
	if r.AfterAt == nil {
		afterID = -1 // the first search must include attempts at exactly this time
	}
	rows, err := s.q.AttemptsUnlisted(ctx, reconcileq.AttemptsUnlistedParams{
		FromAt: from, ToAt: to, AfterAt: from, AfterID: afterID, SenderNo: r.SenderNo, ReconciliationID: r.ID, Portion: slicePortion,
	})
	if err != nil {
		return fmt.Errorf("search for attempts: %w", err)
	}
	st := stepOf(r)
	if len(rows) == slicePortion {
		last := rows[len(rows)-1]
		st.move.AfterAt, st.move.AfterID = &last.CreatedAt, last.ID
	} else {
		st.move.AfterAt, st.move.AfterID = &to, -1
	}
	if len(rows) < slicePortion && !to.Before(r.ToAt) {
		st.move.Phase = clearing
	}
	if err := s.list(ctx, r, st, rows); err != nil {
		return err
	}
	return s.store(ctx, r, st, nil)
}

// list adds a difference for each accepted attempt that is missing in the file. rows contains the attempts without a row in the file.
func (s *Service) list(ctx context.Context, r Row, st *step, rows []reconcileq.AttemptsUnlistedRow) error {
	all := make([]*attempt, len(rows))
	for i, row := range rows {
		all[i] = &attempt{lease: lease{row.TaskID, row.LeaseID}, at: row.CreatedAt}
	}
	if err := s.states(ctx, r.SenderNo, all); err != nil {
		return err
	}
	for i, a := range all {
		if a.state == failed {
			continue
		}
		kind := missingThere
		if a.at.Before(r.FromAt.Add(nearEnds)) || !a.at.Before(r.ToAt.Add(-nearEnds)) {
			kind = nearMidnight
		} else {
			st.move.Ours++
		}
		st.add(r, kind, difference{number: rows[i].ProviderNo, taskID: a.taskID, acceptedAt: &a.at, ours: a.state})
	}
	return nil
}
