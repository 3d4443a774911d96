// Package history owns the stream of facts, the task counts computed from facts, and the partitions of tasks. A fold consumes facts: it adds them to all
// figures and deletes them. The package also moves, exports and drops partitions whose tasks are settled.
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

// TaskStatistics contains the numbers of tasks by state.
type TaskStatistics = historyq.TaskStatisticsRow

// Consumer adds facts to its own figures in the transaction of ctx, which also deletes the facts. If a Consumer returns an error, the facts are kept.
type Consumer func(ctx context.Context, facts []fact.Sum) error

// Observer receives facts after the commit of their fold. Only the server of this fold calls it. If this server crashes between the commit and the call, the
// Observer never receives these facts.
type Observer func(facts []fact.Sum)

// Service counts tasks and maintains their partitions.
type Service struct {
	db        *postgres.DB
	q         *historyq.Queries
	inParts   *historyq.Queries // for statements that read tasks by id
	settings  *setting.Service
	options   Options
	consumers []Consumer
}

// Options configures a Service.
type Options struct {
	Consumers []Consumer // Fold passes the facts to the consumers, after it has counted the tasks
	Observers []Observer // called with the facts after the commit

	Dir string // folder for exports; empty: exports are disabled

	// BeforeDrop is called before a partition is dropped. It deletes data that refers to the dropped tasks, whose ids lie between firstID (included) and
	// beforeID (excluded). It keeps data that was created at the time before or later.
	BeforeDrop func(ctx context.Context, before time.Time, firstID, beforeID string) error

	// Held returns the tasks that unfinished work still needs. Their ids lie between firstID (included) and beforeID (excluded). Held returns up to limit ids,
	// in ascending order.
	Held func(ctx context.Context, firstID, beforeID string, limit int) ([]string, error)
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service, options Options) *Service {
	s := &Service{db: db, q: historyq.New(db), inParts: historyq.New(db.InPartitions()), settings: settings, options: options}
	s.consumers = append([]Consumer{s.countTasks}, options.Consumers...)
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "make-partitions", Interval: 10 * time.Minute, AtStart: true, Run: s.MakePartitions},
		{Roles: servers.Roles{servers.Sweep}, Name: "keep-history", Interval: 20 * time.Minute, Limit: 6 * time.Hour, Run: s.Keep},
		{Roles: servers.Roles{servers.Watch}, Name: "fold-facts", Interval: 2 * time.Second, Routine: true, Run: s.Fold},
	}
}

// Register registers gauges of the queue depth with reg. These gauges query the database at each scrape.
func (s *Service) Register(reg prometheus.Registerer) { reg.MustRegister(depthCollector{s}) }

// Tasks counts the tasks of one company by state. If company is nil, it counts the tasks of all companies. The counts are exact (S0.13). The cost does not
// depend on the number of tasks.
func (s *Service) Tasks(ctx context.Context, company *int64) (TaskStatistics, error) {
	row, err := s.q.TaskStatistics(ctx, company)
	return row, postgres.Wrap("count tasks", err, nil)
}

// portion is the number of facts that one transaction of Fold consumes. Such a transaction takes milliseconds.
const portion = 10_000

// Fold passes facts to the consumers and deletes the facts. It runs often, because figures are cheap to read only while few facts are stored. It returns the
// number of consumed facts.
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
	// Without this VACUUM, readers would scan the dead rows until autovacuum runs, about a minute later.
	return folded, postgres.Wrap("vacuum folded facts", s.db.Vacuum(ctx, "facts"), nil)
}

// foldPortion folds up to portion facts, and returns the number of folded facts.
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

// countTasks is the Consumer that counts tasks.
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

// depthCollector queries the database at each scrape.
type depthCollector struct{ history *Service }

func (c depthCollector) Describe(out chan<- *prometheus.Desc) { out <- depthDesc }

func (c depthCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	row, err := c.history.Tasks(ctx, nil)
	if err != nil { // if the query fails, this scrape has no such gauges; the gauges of the connection pool show the cause
		return
	}
	for state, n := range map[string]int64{
		"pending_new": row.PendingNewTasks, "pending_retry": row.PendingRetryTasks, "processing": row.ProcessingTasks,
	} {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), state)
	}
}
