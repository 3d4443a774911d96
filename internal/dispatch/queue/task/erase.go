package task

import (
	"context"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// FindByPerson returns up to erase.Portion tasks that were addressed to a person and have greater ids than `after`, in the order of their ids.
func (s *Service) FindByPerson(ctx context.Context, p *erase.Person, after string) ([]PersonRow, error) {
	rows, err := s.q.ErasureTasks(ctx, queueq.ErasureTasksParams{
		CompanyID: p.CompanyID, UserIds: p.UserIDs, Recipients: p.Recipients, AskedRecipients: p.AskedRecipients, AfterID: after, Portion: erase.Portion,
	})
	return rows, postgres.Wrap("find tasks", err, nil)
}

// FindUnfinished returns the ids in taskIDs whose tasks are PENDING or PROCESSING.
func (s *Service) FindUnfinished(ctx context.Context, taskIDs []string) ([]string, error) {
	open, err := s.q.ErasureOpen(ctx, taskIDs)
	return open, postgres.Wrap("find open tasks", err, nil)
}

// EraseTasks removes the person and the texts from tasks that have ended. A task that was requeued meanwhile keeps its recipient, so that the next pass finds
// this task again.
func (s *Service) EraseTasks(ctx context.Context, p *erase.Person, taskIDs []string) (erase.Counts, error) {
	reports, err := s.q.ErasureReports(ctx, queueq.ErasureReportsParams{TaskIds: taskIDs, Erased: result.Erased, Own: result.Own})
	if err != nil {
		return nil, postgres.Wrap("erase reports", err, nil)
	}
	attempts, err := s.q.ErasureDeliveries(ctx, queueq.ErasureDeliveriesParams{TaskIds: taskIDs, Erased: result.Erased})
	if err != nil {
		return nil, postgres.Wrap("erase deliveries", err, nil)
	}
	tasks, err := s.q.ErasureMessages(ctx, queueq.ErasureMessagesParams{
		TaskIds: taskIDs, Erased: result.Erased, Pseudonym: p.Pseudonym, UserIds: p.UserIDs,
	})
	return erase.Counts{erase.Reports: reports, erase.Attempts: attempts, erase.Tasks: tasks}, postgres.Wrap("erase messages", err, nil)
}

// simRecipientsKept is longer than the time after which a sweep deletes what a SIM knows about a recipient.
const simRecipientsKept = 33 * 24 * time.Hour

// Erase deletes what the SIMs of senders know about a person: who received messages through which SIM. The counts of recipients per SIM remain.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	err := s.q.ErasureSimRecipients(ctx, queueq.ErasureSimRecipientsParams{
		Recipients: p.Recipients, CompanyID: p.CompanyID, FromID: taskid.Day(time.Now().Add(-simRecipientsKept)),
	})
	return nil, postgres.Wrap("erase recipients of SIMs", err, nil)
}
