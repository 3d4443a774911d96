// Package history owns the stream of facts and the counts of tasks that are made of it, the partitions of tasks, and the
// move, export and removal of those whose tasks are settled.
package history

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/historyq"
	"lksms/internal/dispatch/fact"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// TaskStatistics are the numbers of tasks by state.
type TaskStatistics = historyq.TaskStatisticsRow

// Consumer adds facts to figures of its own. The transaction of ctx deletes the facts: if Consumer fails, they stay.
type Consumer func(ctx context.Context, facts []fact.Sum) error

// Observer sees facts after they were folded: on one server only, and never if it dies between the commit and the call.
type Observer func(facts []fact.Sum)

// Service counts tasks.
type Service struct {
	db        *postgres.DB
	q         *historyq.Queries
	inParts   *historyq.Queries // statements that read tasks by their ids
	settings  *setting.Service
	options   Options
	consumers []Consumer
}

// Options configures a Service.
type Options struct {
	Consumers []Consumer // Fold gives the facts to them, after it has counted the tasks
	Observers []Observer // see the facts after the commit

	Dir string // the folder for exports; empty: none

	// BeforeDrop is called before a partition is dropped: what refers to the tasks with ids from firstID on and before beforeID, which were made before
	// a time, ends.
	BeforeDrop func(ctx context.Context, before time.Time, firstID, beforeID string) error

	// Held returns up to most of these tasks that something needs which has not ended, in the order of their ids.
	Held func(ctx context.Context, firstID, beforeID string, most int) ([]string, error)
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service, options Options) *Service {
	s := &Service{db: db, q: historyq.New(db), inParts: historyq.New(db.InPartitions()), settings: settings, options: options}
	s.consumers = append([]Consumer{s.countTasks}, options.Consumers...)
	return s
}

// Sweeps are what the service does again and again.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "make-partitions", Interval: 10 * time.Minute, AtStart: true, Run: s.MakePartitions},
		{Roles: servers.Roles{servers.Sweep}, Name: "keep-history", Interval: 20 * time.Minute, Limit: 6 * time.Hour, Run: s.Keep},
		{Roles: servers.Roles{servers.Watch}, Name: "fold-facts", Interval: 2 * time.Second, Routine: true, Run: s.Fold},
	}
}

// Register registers with reg gauges of the queue depth that are read at each scrape.
func (s *Service) Register(reg prometheus.Registerer) { reg.MustRegister(depthCollector{s}) }

// Tasks counts the tasks of a company by state, or of all companies if company is nil. The counts are exact (S0.13).
// Their cost does not grow with the number of tasks.
func (s *Service) Tasks(ctx context.Context, company *int64) (TaskStatistics, error) {
	row, err := s.q.TaskStatistics(ctx, company)
	return row, postgres.Wrap("count tasks", err, nil)
}

// portion is how many facts one transaction of Fold consumes: milliseconds of work.
const portion = 10_000

// Fold gives the facts to the consumers and deletes them, so that reading figures stays cheap. It returns how many facts there were.
func (s *Service) Fold(ctx context.Context) (int, error) {
	folded := 0
	for {
		n, err := s.foldPortion(ctx)
		folded += n
		if err != nil {
			return folded, postgres.Wrap("fold facts", err, nil)
		}
		if n < portion {
			break
		}
	}
	if folded == 0 {
		return 0, nil
	}
	// Without this, readers would read the dead rows until autovacuum runs, a minute later.
	return folded, postgres.Wrap("vacuum folded facts", s.db.Vacuum(ctx, "facts"), nil)
}

// foldPortion folds up to portion facts, and returns how many.
func (s *Service) foldPortion(ctx context.Context) (n int, err error) {
	var facts []fact.Sum
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if err := s.q.FactsKnow(ctx); err != nil {
			return err
		}
		taken, err := s.q.FactsTake(ctx, portion)
		if err != nil || len(taken) == 0 {
			return err
		}
		facts = make([]fact.Sum, len(taken))
		for i, f := range taken {
			facts[i] = fact.Sum(f)
		}
		for _, consume := range s.consumers {
			if err := consume(ctx, facts); err != nil {
				return err
			}
		}
		for _, f := range facts {
			n += int(f.Facts)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, observe := range s.options.Observers {
		observe(facts)
	}
	return n, nil
}

// countTasks is the Consumer of the counts of tasks.
func (s *Service) countTasks(ctx context.Context, facts []fact.Sum) error {
	var sums historyq.TaskCountsAddParams
	for _, f := range facts {
		sums.CompanyIds = append(sums.CompanyIds, f.CompanyID)
		sums.PendingNew = append(sums.PendingNew, f.PendingNew)
		sums.PendingRetry = append(sums.PendingRetry, f.PendingRetry)
		sums.Processing = append(sums.Processing, f.Processing)
		sums.Success = append(sums.Success, f.Success)
		sums.Failed = append(sums.Failed, f.Failed)
	}
	return postgres.Wrap("count tasks", s.q.TaskCountsAdd(ctx, sums), nil)
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
