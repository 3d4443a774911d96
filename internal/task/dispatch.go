package task

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// Claim leases up to limit tasks to appID: new ones first, then due retries (S0.3, S0.10). Leases and their log rows are
// one statement.
func (s *Service) Claim(ctx context.Context, appID string, limit int) ([]dbq.TaskClaimRow, error) {
	var maxWait *time.Duration
	if s.rules.RetryMaxWait > 0 {
		maxWait = &s.rules.RetryMaxWait
	}
	var rows []dbq.TaskClaimRow
	err := s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
		rows, err = q.TaskClaim(ctx, dbq.TaskClaimParams{
			AppID: appID, ClaimLimit: int32(limit), Lease: s.rules.ProcessingTimeout, RetryMaxWait: maxWait,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim tasks: %w", err)
	}
	s.claimed.Add(float64(len(rows)))
	return rows, nil
}

// Report is what a sender says of a task (S0.4).
type Report struct {
	TaskID       string
	AppID        string
	Status       int16 // Success or Failed
	ErrorMessage *string
	ShouldRetry  bool
	RetryAfter   *time.Duration // nil: Rules.RetryDelay
	LeaseID      *int64         // nil: whichever lease AppID holds
	Raw          []byte         // the request as JSON, for the log
}

// Report ends a lease. A repeat, or a report that comes too late to matter, is logged and changes nothing; so is one by an
// app that never held the task, which gets the fault task.not_held. Unknown tasks get task.not_found.
func (s *Service) Report(ctx context.Context, r Report) error {
	delay := s.rules.RetryDelay
	if r.RetryAfter != nil {
		delay = *r.RetryAfter
	}
	var effect string
	err := s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
		effect, err = q.TaskReport(ctx, dbq.TaskReportParams{
			TaskID: r.TaskID, AppID: r.AppID, Status: r.Status, ErrorMessage: r.ErrorMessage, LeaseID: r.LeaseID,
			WantsRetry: r.Status == Failed && r.ShouldRetry, RetryDelay: delay,
			MaxRetryCount: int16(s.rules.MaxRetryCount), RequestData: r.Raw,
		})
		return err
	})
	if err != nil {
		return postgres.Wrap("report task", err, fault.New(fault.NotFound, fault.TaskNotFound))
	}
	s.reported.WithLabelValues(effect).Inc()
	if effect == "refused" {
		return fault.New(fault.Conflict, fault.TaskNotHeld)
	}
	return nil
}

// recoverBatch bounds what one statement of a sweep takes back, and so how long it holds its locks.
const recoverBatch = 1000

// Recover takes back every lease that ran out, in batches of their own transactions, and returns how many (S0.12). After
// an error, what it counted stays recovered.
func (s *Service) Recover(ctx context.Context) (int, error) {
	total := 0
	for {
		var row dbq.TaskRecoverRow
		err := s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
			row, err = q.TaskRecover(ctx, dbq.TaskRecoverParams{
				BatchSize: recoverBatch, MaxRetryCount: int16(s.rules.MaxRetryCount),
			})
			return err
		})
		if err != nil {
			return total, fmt.Errorf("recover tasks: %w", err)
		}
		s.recovered.WithLabelValues("retry").Add(float64(row.Retried))
		s.recovered.WithLabelValues("exhausted").Add(float64(row.Exhausted))
		n := int(row.Retried + row.Exhausted)
		if total += n; n < recoverBatch {
			return total, nil
		}
	}
}
