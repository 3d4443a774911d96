package progress

import (
	"context"
	"slices"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/postgres"
)

// opening is the time range in which the remaining rows of a batch can be sent. It depends on quiet hours, caps and the delays of retries.
type opening struct {
	first, last time.Time // when the first row can be sent, and the last one
	reason      string    // why the first delayed row is delayed: WaitsForQuiet or WaitsForLimit; empty: no row is delayed
	isHeld      bool      // the batch is full, and all its tasks are held
}

// opens is the time from which a row can be sent, and the reason why the row cannot be sent earlier.
type opens struct {
	at     time.Time
	reason string
}

// maxPlans is the maximum number of rows of each kind from which an opening is computed. A list of batches computes the opening of each running batch.
const maxPlans = 100

// MaxTasks is the number of waiting tasks at which a batch is full. A full batch gets no further tasks until some of these tasks are claimed or end. A pause or a
// cancellation changes all waiting tasks, so the limit also bounds its time: a pause of 30,000 tasks takes about half a second.
const MaxTasks = 30_000

// isFull reports whether a batch is full.
func (st Progress) isFull() bool { return st.Counts.Waiting-st.unfed() >= MaxTasks }

// unfed returns the number of rows that are not tasks yet.
func (st Progress) unfed() int64 { return max(0, min(st.Counts.Waiting, st.Counts.Valid-st.Fed)) }

// openingOf computes the opening of a batch at a time: from the oldest and the newest waiting tasks, a due one, and the next rows that are not tasks yet. The other
// rows of a larger batch are assumed to be similar. The opening ignores the caps of rows that are not tasks yet.
func (r *Reader) openingOf(ctx context.Context, st Progress, at time.Time) (opening, error) {
	none := opening{first: at, last: at}
	values, err := r.settings.Get(ctx)
	if err != nil {
		return none, err
	}
	m := quiet.Message{Channel: st.Channel, CompanyID: st.CompanyID, MessageType: st.MessageType, Priority: values.SMS.PriorityOf(st.MessageType)}
	if st.Priority != nil {
		m.Priority = *st.Priority
	}
	all, err := r.opensOf(ctx, st, m, at)
	if err != nil {
		return none, err
	}
	if len(all) == 0 {
		none.isHeld = st.isFull()
		return none, nil
	}
	slices.SortStableFunc(all, func(a, b opens) int { return a.at.Compare(b.at) })
	o := opening{first: all[0].at, last: all[len(all)-1].at}
	if i := slices.IndexFunc(all, func(one opens) bool { return one.reason != "" }); i >= 0 {
		o.reason = all[i].reason
	}
	return o, nil
}

// opensOf returns when some rows of a batch can be sent, no earlier than the time `at`. m is a message of the batch.
func (r *Reader) opensOf(ctx context.Context, st Progress, m quiet.Message, at time.Time) (all []opens, err error) {
	tasks, err := r.q.BatchPlans(ctx, batchq.BatchPlansParams{BatchID: st.ID, MaxRows: maxPlans})
	if err != nil {
		return nil, postgres.Wrap("read plans of tasks", err, nil)
	}
	later := func(due time.Time) time.Time {
		if due.Before(at) {
			return at
		}
		return due
	}
	for _, task := range tasks {
		one := opens{at: later(task.DueAt)}
		if !task.DueAt.Before(at) {
			m.Recipient = task.Recipient
			period, err := r.quiet.At(ctx, m, later(task.FormerDueAt))
			switch {
			case err != nil:
				return nil, err //nolint:wrapcheck // the error is already wrapped
			case period.Delays(task.DueAt):
				one.reason = WaitsForQuiet
				if one.at.Before(period.Until) { // the sweep moves the task soon
					one.at = period.Until
				}
			case task.IsNew && task.DueAt.After(at):
				one.reason = WaitsForLimit
			}
		}
		all = append(all, one)
	}
	if st.isFull() { // the rows that are not tasks yet wait for the tasks
		return all, nil
	}
	hasHours, err := r.quiet.HasHours(ctx, m)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is already wrapped
	}
	if !hasHours {
		if st.Valid > st.Fed { // rows that are not tasks yet can be sent at once
			all = append(all, opens{at: at})
		}
		return all, nil
	}
	recipients, err := r.q.BatchNextRecipients(ctx, batchq.BatchNextRecipientsParams{BatchID: st.ID, FedRow: st.FedRow, MaxRows: maxPlans})
	if err != nil {
		return nil, postgres.Wrap("read recipients of rows", err, nil)
	}
	for _, recipient := range recipients {
		m.Recipient = recipient
		period, err := r.quiet.At(ctx, m, at)
		if err != nil {
			return nil, err //nolint:wrapcheck // the error is already wrapped
		}
		one := opens{at: at}
		if period.IsQuiet {
			one = opens{later(period.Until), WaitsForQuiet}
		}
		all = append(all, one)
	}
	return all, nil
}
