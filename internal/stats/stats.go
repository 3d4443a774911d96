// Package stats reads aggregates. It writes nothing.
package stats

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// Service counts tasks.
type Service struct{ q *dbq.Queries }

// New returns a Service on db that reports the queue's depth to reg at each scrape.
func New(db *postgres.DB, reg prometheus.Registerer) *Service {
	s := &Service{q: dbq.New(db)}
	reg.MustRegister(depthCollector{s.q})
	return s
}

// Tasks counts the tasks by state in one statement (S0.13).
func (s *Service) Tasks(ctx context.Context) (dbq.TaskStatisticsRow, error) {
	row, err := s.q.TaskStatistics(ctx)
	return row, postgres.Wrap("count tasks", err, nil)
}

var (
	depthDesc = prometheus.NewDesc("lksms_queue_tasks", "Tasks that wait or are being sent.", []string{"state"}, nil)
	ageDesc   = prometheus.NewDesc("lksms_queue_oldest_pending_seconds",
		"Age of the oldest task that is due and waits.", nil, nil)
)

// depthCollector asks the database at each scrape.
type depthCollector struct{ q *dbq.Queries }

func (c depthCollector) Describe(out chan<- *prometheus.Desc) { out <- depthDesc; out <- ageDesc }

func (c depthCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	row, err := c.q.QueueDepth(ctx)
	if err != nil { // the scrape goes on without these; the pool's gauges show why
		return
	}
	for state, n := range map[string]int64{
		"pending_new": row.PendingNewTasks, "pending_retry": row.PendingRetryTasks, "processing": row.ProcessingTasks,
	} {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), state)
	}
	out <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, row.OldestPendingSeconds)
}
