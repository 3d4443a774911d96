// Package audit owns the record of administrative changes: who changed what, when and from where. The trigger function audit_change writes
// most of it, in the transaction of the change, for the actor that postgres.As names.
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

// Service lists the record, adds to it and deletes what is old.
type Service struct {
	q        *auditq.Queries
	planned  *auditq.Queries // its statements are planned for their parameters
	settings *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	return &Service{q: auditq.New(db), planned: auditq.New(db.InPartitions()), settings: settings}
}

// Sweeps are what the service does again and again.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-audit", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Filter selects changes; nil matches all. The list begins before a time and, of the changes at this time, before an id.
type Filter struct {
	Actor, Action, Entity, EntityKey *string

	From, To *time.Time // from the first, and before the second
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

// recovered is the entity of a recovery by hand.
const recovered = "recovery"

// recordedWithin is the time for the record of something that has happened already.
const recordedWithin = 5 * time.Second

// Recovered records that the actor of ctx recovered tasks whose leases ran out. The recovery itself is several transactions, and safe to repeat.
// The record is written also if the time of the request is over, or its caller has gone.
func (s *Service) Recovered(ctx context.Context, tasks int) error {
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

// DeleteExpired deletes the changes that are older than the setting history.log_days says, and returns how many.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.AuditDeleteExpired(ctx, auditq.AuditDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete audit", err, nil)
	})
}
