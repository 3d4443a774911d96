package progress

import (
	"context"
	"slices"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/postgres"
)

// opening is the time in which the remaining rows of a batch can be sent, as far as the rules about their recipients, and retries, allow it.
type opening struct {
	first, last time.Time // when the first row can be sent, and the last one
	reason      string    // why the first delayed row is delayed: WaitsForQuiet or WaitsForLimit; empty: no row is delayed
}

// opens is the time from which a row can be sent, and why not earlier.
type opens struct {
	at     time.Time
	reason string
}

// maxPlans is the maximum number of rows of each kind from which an opening is computed. A list of batches computes the opening of each running batch.
const maxPlans = 100

// openingOf computes the opening of a batch at a time: from the oldest and the newest waiting tasks, a due one, and the next rows that are not tasks yet. The other
// rows of a larger batch are assumed to be similar. Caps of rows that are not tasks yet are not known.
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
	rows, err := r.q.BatchPlans(ctx, batchq.BatchPlansParams{BatchID: st.ID, FedRow: st.FedRow, MaxRows: maxPlans})
	if err != nil || len(rows) == 0 {
		return none, postgres.Wrap("read plans of rows", err, nil)
	}
	all := make([]opens, len(rows))
	for i, row := range rows {
		m.Recipient = row.Recipient // empty for a task
		period, err := r.quiet.At(ctx, m, at)
		if err != nil {
			return none, err
		}
		one := opens{at: row.DueAt}
		switch {
		case period.IsQuiet:
			one = opens{period.Until, WaitsForQuiet}
		case row.IsQuiet:
			one.reason = WaitsForQuiet
		case row.IsLimited:
			one.reason = WaitsForLimit
		}
		if one.at.Before(at) {
			one.at = at
		}
		all[i] = one
	}
	slices.SortStableFunc(all, func(a, b opens) int { return a.at.Compare(b.at) })
	o := opening{first: all[0].at, last: all[len(all)-1].at}
	if i := slices.IndexFunc(all, func(one opens) bool { return one.reason != "" }); i >= 0 {
		o.reason = all[i].reason
	}
	return o, nil
}
