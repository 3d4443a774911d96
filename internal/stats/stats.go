// Package stats reads aggregates.
package stats

import (
	"context"
	"fmt"
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

// Tasks counts the tasks by state, exactly and however many there are (S0.13).
func (s *Service) Tasks(ctx context.Context) (dbq.TaskStatisticsRow, error) {
	row, err := s.q.TaskStatistics(ctx)
	return row, postgres.Wrap("count tasks", err, nil)
}

// Fold makes the counting cheap again, and returns how many rows it folded into one.
func (s *Service) Fold(ctx context.Context) (int, error) {
	n, err := s.q.TaskCountFold(ctx)
	if err != nil || n == 0 {
		return 0, postgres.Wrap("fold task counts", err, nil)
	}
	// What was folded must not be read over again until autovacuum comes, a minute later.
	if _, err := s.db.Pool.Exec(ctx, "VACUUM (TRUNCATE false) task_count_changes"); err != nil {
		return int(n), fmt.Errorf("clear folded task counts: %w", err)
	}
	return int(n), nil
}

// longestWait is how long the task that has been due for longest has waited.
func (s *Service) longestWait(ctx context.Context) (seconds float64, err error) {
	err = s.db.Dispatch(ctx, func(q *dbq.Queries) (err error) {
		seconds, err = q.LongestWait(ctx)
		return err
	})
	return seconds, err
}

var (
	depthDesc = prometheus.NewDesc("lksms_queue_tasks", "Tasks that wait or are being sent.", []string{"state"}, nil)
	ageDesc   = prometheus.NewDesc("lksms_queue_oldest_pending_seconds",
		"How long the task that has been due for longest has waited.", nil, nil)
)

// depthCollector asks the database at each scrape.
type depthCollector struct{ stats *Service }

func (c depthCollector) Describe(out chan<- *prometheus.Desc) { out <- depthDesc; out <- ageDesc }

func (c depthCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	row, err := c.stats.Tasks(ctx)
	if err != nil { // the scrape goes on without these; the pool's gauges show why
		return
	}
	for state, n := range map[string]int64{
		"pending_new": row.PendingNewTasks, "pending_retry": row.PendingRetryTasks, "processing": row.ProcessingTasks,
	} {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), state)
	}
	if seconds, err := c.stats.longestWait(ctx); err == nil {
		out <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, seconds)
	}
}
