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
	// BeatEvery is how often a server writes down that it is alive.
	BeatEvery = 5 * time.Second
	// aliveWithin is how long ago a server that is alive was seen at most: it may miss some beats.
	aliveWithin = 4 * BeatEvery
	// maxList bounds the servers of one list.
	maxList = 1000
)

// Options describe this server.
type Options struct {
	Host  string
	Roles Roles
	// LateReceipts is for how long receipts may come for a sender that was retired.
	LateReceipts time.Duration
	Log          *slog.Logger
}

// Service knows the servers of a database, of which it is one.
type Service struct {
	q       *serversq.Queries
	id      string
	options Options
	count   *prometheus.GaugeVec // nil until Register
	lacks   *prometheus.GaugeVec // nil until Register

	beating sync.Mutex
	isGone  bool // after Leave; guarded by beating

	mu      sync.Mutex
	missing Roles // of those that the roles of this server need
}

// New returns a Service on db. This server is not listed before the first Beat.
func New(db *postgres.DB, o Options) *Service {
	return &Service{q: serversq.New(db), id: rand.Text(), options: o}
}

// Register registers the metrics of the servers that are alive, and of the roles that are missing.
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

// Missing returns the roles that those of this server need, and that no server had at the last Beat.
func (s *Service) Missing() Roles {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing
}

// Beat writes down that this server is alive, and looks who else is. It returns 0.
func (s *Service) Beat(ctx context.Context) (n int, err error) {
	defer func() {
		if err != nil && s.count != nil {
			s.count.Reset() // a server that cannot see the others must not say that they live
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
	s.note(s.options.Roles.Missing(alive, Demand(row)))
	return 0, nil
}

// write writes down that this server is alive, unless it has left.
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

// export sets the metrics: how many servers have each role, and which roles any of them misses.
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

// note keeps which roles are missing, and logs a change.
func (s *Service) note(missing Roles) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.missing.String(); {
	case len(missing) > 0 && missing.String() != before:
		s.options.Log.Warn("no server does a part of the work that this one leaves out", "missing_roles", missing.String())
	case len(missing) == 0 && before != "":
		s.options.Log.Info("servers have all roles again")
	}
	s.missing = missing
}

// DeleteExpired deletes servers that stopped without deleting their row, and returns how many.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	n, err := s.q.ServersDeleteStopped(ctx)
	return int(n), postgres.Wrap("delete servers", err, nil)
}

// Leave deletes this server, because it stops. A Beat that ends or begins later writes nothing.
func (s *Service) Leave(ctx context.Context) error {
	s.beating.Lock()
	defer s.beating.Unlock()
	s.isGone = true
	return postgres.Wrap("delete this server", s.q.ServerLeave(ctx, s.id), nil)
}

// List returns the servers that run, and those that stopped without a word within a day.
func (s *Service) List(ctx context.Context) ([]serversq.ServerListRow, error) {
	rows, err := s.q.ServerList(ctx, serversq.ServerListParams{AliveWithin: aliveWithin, Most: maxList})
	return rows, postgres.Wrap("list servers", err, nil)
}
