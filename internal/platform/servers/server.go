package servers

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/serversq"
	"lksms/internal/platform/build"
	"lksms/internal/platform/postgres"
)

const (
	// BeatEvery is the interval at which a server records that it is alive.
	BeatEvery = 5 * time.Second
	// aliveWithin is the maximum age of the last beat of a server that counts as alive, so that a server can miss some beats.
	aliveWithin = 4 * BeatEvery
	// maxList is the maximum number of servers in one list.
	maxList = 1000
)

// Options configures this server.
type Options struct {
	Host  string
	Roles Roles
	// LateReceipts is how long after its retirement a sender still gets receipts.
	LateReceipts time.Duration
	Log          *slog.Logger
}

// Service records this server in the database, and reads the other servers.
type Service struct {
	q       *serversq.Queries
	id      string
	options Options
	count   *prometheus.GaugeVec // nil until Register
	lacks   *prometheus.GaugeVec // nil until Register

	beating sync.Mutex
	isGone  bool // true after Leave; guarded by beating

	mu      sync.Mutex
	missing Roles // roles that the roles of this server need and that no server has
}

// New returns a Service on db. Other servers do not see this server before its first Beat.
func New(db *postgres.DB, o Options) *Service {
	return &Service{q: serversq.New(db), id: rand.Text(), options: o}
}

// Register registers the metrics of the servers that are alive and of the missing roles.
func (s *Service) Register(registry prometheus.Registerer) {
	s.count = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lksms_servers", Help: "Servers of the database that are alive, by role. Every server knows all.",
	}, []string{"role"})
	s.lacks = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lksms_role_missing", Help: "1: a server that is alive needs this role, and no server has it. Every server knows all.",
	}, []string{"role"})
	registry.MustRegister(s.count, s.lacks)
}

// Roles returns the roles of this server.
func (s *Service) Roles() Roles { return s.options.Roles }

// Missing returns the roles that the roles of this server need and that no server had at the last Beat.
func (s *Service) Missing() Roles {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing
}

// Beat records that this server is alive, and reads which other servers are alive. It returns 0.
func (s *Service) Beat(ctx context.Context) (n int, err error) {
	defer func() {
		if err != nil && s.count != nil {
			s.count.Reset() // this server does not know which servers are alive, so it exports no servers
			s.lacks.Reset()
		}
	}()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	all, err := s.List(ctx)
	if err != nil {
		return 0, err
	}
	row, err := s.q.ServerDemand(ctx, s.options.LateReceipts)
	if err != nil {
		return 0, postgres.Wrap("read what the senders need", err, nil)
	}
	number := map[Role]int{}
	var alive Roles
	for _, one := range all {
		if !one.IsAlive {
			continue
		}
		for _, name := range one.Roles {
			number[Role(name)]++
			alive = append(alive, Role(name))
		}
	}
	s.export(number, alive.Missing(alive, Demand(row)))
	s.setMissing(s.options.Roles.Missing(alive, Demand(row)))
	return 0, nil
}

// write records that this server is alive, unless Leave was called.
func (s *Service) write(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	if s.isGone {
		return nil
	}
	return postgres.Wrap("write down that this server is alive", s.q.ServerBeat(ctx, serversq.ServerBeatParams{
		ServerID: s.id, Host: s.options.Host, Roles: s.options.Roles.Names(), Version: build.Read().Version,
	}), nil)
}

// export sets the metrics: the number of servers with each role, and the missing roles.
func (s *Service) export(number map[Role]int, missing Roles) {
	if s.count == nil {
		return
	}
	for _, role := range All() {
		s.count.WithLabelValues(string(role)).Set(float64(number[role]))
		isMissing := 0.0
		if missing.Has(role) {
			isMissing = 1
		}
		s.lacks.WithLabelValues(string(role)).Set(isMissing)
	}
}

// setMissing stores the missing roles, and logs a change.
func (s *Service) setMissing(missing Roles) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.missing.String(); {
	case len(missing) > 0 && missing.String() != before:
		s.options.Log.Warn("no live server has a role that this server needs", "missing_roles", missing.String())
	case len(missing) == 0 && before != "":
		s.options.Log.Info("live servers have all needed roles again")
	}
	s.missing = missing
}

// DeleteExpired deletes servers that stopped without deleting their row. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	n, err := s.q.ServersDeleteStopped(ctx)
	return int(n), postgres.Wrap("delete servers", err, nil)
}

// Leave deletes the row of this server, because the server stops. Later calls of Beat write nothing.
func (s *Service) Leave(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	s.isGone = true
	return postgres.Wrap("delete this server", s.q.ServerLeave(ctx, s.id), nil)
}

// List returns the servers that are alive, and the servers that stopped within the last day without a call of Leave.
func (s *Service) List(ctx context.Context) ([]serversq.ServerListRow, error) {
	rows, err := s.q.ServerList(ctx, serversq.ServerListParams{AliveWithin: aliveWithin, MaxRows: maxList})
	return rows, postgres.Wrap("list servers", err, nil)
}
