// Package task implements the operations on existing tasks: it lists tasks, explains their states, and cancels and requeues tasks.
package task

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// Service reads, cancels and requeues tasks. Every method runs in at most one transaction, unless its comment says otherwise.
type Service struct {
	db        *postgres.DB
	q         *queueq.Queries
	inParts   *queueq.Queries // for statements that read tasks by id
	queue     *queue.Service
	admit     *admit.Service
	explain   *explain.Service
	directory *directory.Service
	settings  *setting.Service
	quiet     *quiet.Service

	requeued prometheus.Counter
}

// Services contains the services that a Service uses.
type Services struct {
	Queue     *queue.Service
	Admit     *admit.Service
	Explain   *explain.Service
	Directory *directory.Service
	Settings  *setting.Service
	Quiet     *quiet.Service
}

// New returns a Service whose counter is registered with reg.
func New(db *postgres.DB, uses Services, reg prometheus.Registerer) *Service {
	return &Service{
		db: db, q: queueq.New(db), inParts: queueq.New(db.InPartitions()),
		queue: uses.Queue, admit: uses.Admit, explain: uses.Explain, directory: uses.Directory, settings: uses.Settings, quiet: uses.Quiet,
		requeued: promauto.With(reg).NewCounter(prometheus.CounterOpts{
			Name: "lksms_tasks_requeued_total", Help: "Tasks that had ended and were requeued.",
		}),
	}
}
