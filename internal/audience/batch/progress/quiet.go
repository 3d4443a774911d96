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
	isQuiet     bool      // quiet hours delay at least one row
}

// maxPlans is the maximum number of rows of each kind from which an opening is computed. A list of batches computes the opening of each running batch.
const maxPlans = 100

// openingOf computes the opening of a batch of a message type with quiet hours at a time: from the oldest and the newest waiting tasks, a due one, and the next rows that
// are not tasks yet. The other rows of a larger batch are assumed to be similar.
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
	if isConcerned, err := r.quiet.Concern(ctx, m); err != nil || !isConcerned {
		return none, err
	}
	rows, err := r.q.BatchPlans(ctx, batchq.BatchPlansParams{BatchID: st.ID, FedRow: st.FedRow, MaxRows: maxPlans})
	if err != nil || len(rows) == 0 {
		return none, postgres.Wrap("read plans of rows", err, nil)
	}
	o, opens := opening{}, make([]time.Time, len(rows))
	for i, row := range rows {
		opens[i] = row.DueAt
		m.Recipient = row.Recipient // empty for a task
		period, err := r.quiet.At(ctx, m, at)
		if err != nil {
			return none, err
		}
		if period.IsQuiet {
			opens[i] = period.Until
		}
		if opens[i].Before(at) {
			opens[i] = at
		}
		o.isQuiet = o.isQuiet || row.IsQuiet || period.IsQuiet
	}
	o.first, o.last = slices.MinFunc(opens, time.Time.Compare), slices.MaxFunc(opens, time.Time.Compare)
	return o, nil
}
