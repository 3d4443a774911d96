// Package history owns the statistics of tasks, and the partitions that hold them.
package history

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
	"lksms/internal/setting"
)

// Service counts tasks.
type Service struct {
	db       *postgres.DB
	q        *dbq.Queries
	settings *setting.Service
}

// New returns a Service on db, and registers with reg gauges of the queue depth that are read at each scrape.
func New(db *postgres.DB, settings *setting.Service, reg prometheus.Registerer) *Service {
	s := &Service{db: db, q: dbq.New(db), settings: settings}
	reg.MustRegister(depthCollector{s})
	return s
}

// Tasks counts the tasks of a company by state, or of all companies if company is nil. The counts are exact (S0.13).
// Their cost does not grow with the number of tasks.
func (s *Service) Tasks(ctx context.Context, company *int64) (dbq.TaskStatisticsRow, error) {
	row, err := s.q.TaskStatistics(ctx, company)
	return row, postgres.Wrap("count tasks", err, nil)
}

// Fold merges the changes of the counters into one row for each company, so that counting stays cheap, and returns
// how many rows it merged.
func (s *Service) Fold(ctx context.Context) (int, error) {
	n, err := s.q.TaskCountFold(ctx)
	if err != nil || n == 0 {
		return 0, postgres.Wrap("fold task counters", err, nil)
	}
	// Without this, counting would read the dead rows until autovacuum runs, a minute later.
	return int(n), postgres.Wrap("vacuum folded task counters", s.db.Vacuum(ctx, "task_count_changes"), nil)
}

var depthDesc = prometheus.NewDesc("lksms_queue_tasks", "Tasks that wait or are being sent.", []string{"state"}, nil)

// depthCollector asks the database at each scrape.
type depthCollector struct{ history *Service }

func (c depthCollector) Describe(out chan<- *prometheus.Desc) { out <- depthDesc }

func (c depthCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	row, err := c.history.Tasks(ctx, nil)
	if err != nil { // these gauges are left out of this scrape; the pool's gauges show why
		return
	}
	for state, n := range map[string]int64{
		"pending_new": row.PendingNewTasks, "pending_retry": row.PendingRetryTasks, "processing": row.ProcessingTasks,
	} {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), state)
	}
}
