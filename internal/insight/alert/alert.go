// Package alert owns alert rules, the alerts that they raise, the receivers of alerts, and the list of operator events. Package delivery notifies the
// receivers. Most operator events are written by the SQL statement that makes the change.
package alert

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/alertq"
	"lksms/internal/dispatch/queue/backlog"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Options configures a Service.
type Options struct {
	Host    string   // name of this server, unique among the servers of the database
	Folders []string // folders whose file systems this server measures
}

// Service evaluates alert rules and stores alerts. Every method uses at most one transaction, except the sweeps.
type Service struct {
	db       *postgres.DB
	q        *alertq.Queries
	backlog  backlog.Reader
	settings *setting.Service
	box      *secret.Box
	options  Options
}

// New returns a Service on db. It registers a gauge with reg: the longest wait of a due task. This gauge queries the database at each scrape.
func New(db *postgres.DB, settings *setting.Service, box *secret.Box, options Options, reg prometheus.Registerer) *Service {
	s := &Service{db: db, q: alertq.New(db), backlog: backlog.NewReader(db), settings: settings, box: box, options: options}
	reg.MustRegister(waitCollector{s})
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Watch}, Name: "delete-expired-events", Interval: 10 * time.Minute, Run: s.DeleteExpired},
		{Roles: servers.Roles{servers.Watch}, Name: "evaluate-alert-rules", Interval: 10 * time.Second, Run: s.Evaluate},
		{Name: "measure-disks", Interval: time.Minute, AtStart: true, Routine: true, Run: s.MeasureDisks},
	}
}

// Events lists up to limit operator events with ids smaller than `before`, newest first. A nil event or subject matches all.
func (s *Service) Events(ctx context.Context, event, subject *string, before int64, limit int) ([]EventRow, error) {
	rows, err := s.q.EventList(ctx, alertq.EventListParams{BeforeID: before, Event: event, Subject: subject, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list events", err, nil)
}

// deleteBatch is the number of rows that one statement deletes.
const deleteBatch = 1000

// DeleteExpired deletes events and ended alerts after the days of the setting history.log_days. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	alerts, err := s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.AlertsDeleteExpired(ctx, alertq.AlertsDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete alerts", err, nil)
	})
	if err != nil {
		return alerts, err
	}
	events, err := s.settings.DeleteExpiredLogs(ctx, deleteBatch, func(keep time.Duration) (int64, error) {
		n, err := s.q.EventsDeleteExpired(ctx, alertq.EventsDeleteExpiredParams{BatchSize: deleteBatch, Keep: keep})
		return n, postgres.Wrap("delete events", err, nil)
	})
	return alerts + events, err
}

var waitDesc = prometheus.NewDesc("lksms_queue_oldest_pending_seconds", "How long the task that has been due for longest has waited.", nil, nil)

// waitCollector queries the database at each scrape.
type waitCollector struct{ alerts *Service }

func (c waitCollector) Describe(out chan<- *prometheus.Desc) { out <- waitDesc }

func (c waitCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if seconds, err := c.alerts.backlog.LongestWait(ctx); err == nil { // if the query fails, this scrape has no such gauge; the gauges of the connection pool show the cause
		out <- prometheus.MustNewConstMetric(waitDesc, prometheus.GaugeValue, seconds)
	}
}
