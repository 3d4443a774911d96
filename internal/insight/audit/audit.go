// Package audit owns the record of administrative changes. A record contains the actor, the change, the time and the source address. The trigger function
// audit_change writes most records in the transaction of the change. postgres.As stores the actor for the trigger.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/gen/auditq"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Service lists, adds and deletes records of changes.
type Service struct {
	q        *auditq.Queries
	planned  *auditq.Queries // PostgreSQL plans each statement for its parameters
	settings *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	return &Service{q: auditq.New(db), planned: auditq.New(db.InPartitions()), settings: settings}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-audit", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Filter selects changes. A nil field matches all. The list begins with the newest change that precedes the position (BeforeAt, BeforeID).
type Filter struct {
	Actor, Action, Entity, EntityKey *string

	From, To *time.Time // From is included, To is excluded
	BeforeAt time.Time
	BeforeID int64
	Limit    int
}

// List returns up to Limit changes, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Row, error) {
	rows, err := s.planned.AuditList(ctx, auditq.AuditListParams{
		Actor: f.Actor, Action: f.Action, Entity: f.Entity, EntityKey: f.EntityKey, FromAt: f.From, ToAt: f.To,
		BeforeAt: f.BeforeAt, BeforeID: f.BeforeID, PageLimit: int32(f.Limit),
	})
	return rows, postgres.Wrap("list audit", err, nil)
}

// recovered is the entity name of a manual recovery.
const recovered = "recovery"

// recordedWithin is the timeout for recording a completed action.
const recordedWithin = 5 * time.Second

// RecordRecovery records that the actor of ctx has recovered tasks with expired leases. It writes the record even if the request has timed out or its caller
// has disconnected. The recovery itself consists of several transactions, and can be repeated safely.
func (s *Service) RecordRecovery(ctx context.Context, tasks int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordedWithin)
	defer cancel()
	after, err := json.Marshal(map[string]int{"recovered_count": tasks})
	if err != nil {
		return fmt.Errorf("write audit: %w", err)
	}
	return postgres.Wrap("write audit", s.q.AuditRecord(ctx, auditq.AuditRecordParams{Entity: recovered, EntityKey: "tasks", After: after}), nil)
}

// deleteBatch is the number of changes that one statement deletes.
const deleteBatch = 1000

// DeleteExpired deletes changes that are older than the setting history.log_days. It returns the number of deleted changes.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.AuditDeleteExpired(ctx, auditq.AuditDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete audit", err, nil)
	})
}
