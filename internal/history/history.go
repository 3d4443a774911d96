// Package history counts what happened to tasks.
package history

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// Service counts tasks.
type Service struct {
	db *postgres.DB
	q  *dbq.Queries
}

// New returns a Service on db that reports the queue's depth to reg at each scrape.
func New(db *postgres.DB, reg prometheus.Registerer) *Service {
	s := &Service{db: db, q: dbq.New(db)}
	reg.MustRegister(depthCollector{s})
	return s
}

// Tasks counts the tasks of a company, or of all if company is nil, by state, exactly and however many there are (S0.13).
func (s *Service) Tasks(ctx context.Context, company *int64) (dbq.TaskStatisticsRow, error) {
	row, err := s.q.TaskStatistics(ctx, company)
	return row, postgres.Wrap("count tasks", err, nil)
}

// Fold makes the counting cheap again, and returns how many rows it folded into one.
func (s *Service) Fold(ctx context.Context) (int, error) {
	n, err := s.q.TaskCountFold(ctx)
	if err != nil || n == 0 {
		return 0, postgres.Wrap("fold task counts", err, nil)
	}
	// What was folded must not be read over again until autovacuum comes, a minute later.
	return int(n), postgres.Wrap("clear folded task counts", s.db.Vacuum(ctx, "task_count_changes"), nil)
}

var depthDesc = prometheus.NewDesc("lksms_queue_tasks", "Tasks that wait or are being sent.", []string{"state"}, nil)

// depthCollector asks the database at each scrape.
type depthCollector struct{ history *Service }

func (c depthCollector) Describe(out chan<- *prometheus.Desc) { out <- depthDesc }

func (c depthCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	row, err := c.history.Tasks(ctx, nil)
	if err != nil { // the scrape goes on without these; the pool's gauges show why
		return
	}
	for state, n := range map[string]int64{
		"pending_new": row.PendingNewTasks, "pending_retry": row.PendingRetryTasks, "processing": row.ProcessingTasks,
	} {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), state)
	}
}
