package statistics

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/gen/statisticsq"
	"lksms/internal/dispatch/queue/backlog"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/history"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/snapshot"
)

const (
	// NowEvery is the age at which figures are read again.
	NowEvery = 2 * time.Second
	// sendersEvery is the age at which senders are read again: that takes longer, and they change more slowly.
	sendersEvery = 5 * time.Second
	// rateOver is the time over which rates are taken.
	rateOver = 10 * time.Second
	// longestOf is how many of the tasks that have waited longest are searched for one of a company.
	longestOf = 2000
	// maxHoldTime is how many held tasks of a pool are counted, and heldNamed how many switches are named.
	maxHoldTime, heldNamed = 10_000, 20
	// maxCompanies bounds the companies whose latest figures are kept.
	maxCompanies = 1000
)

// Now are the figures of one company, or of all.
type Now struct {
	Tasks        history.TaskStatistics // with the time of the figures
	LongestWait  *float64               // seconds; nil: no task is due, or none of the company is among the longestOf
	Rates        *Rates                 // nil: not known yet
	FiringAlerts *int64                 // nil: of a company
	Senders      sender.Readiness
	Held         []backlog.Held // what holds tasks, and how many: up to maxHoldTime of each pool
}

// Rates are tasks per second.
type Rates struct{ In, Out, Failed float64 }

// Overview reads the figures of this moment: what waits, how fast tasks come and go, and which senders can take them. Each server reads them once for all
// who ask, and only while somebody asks.
type Overview struct {
	backlog    backlog.Reader
	history    *history.Service
	statistics *Service
	senders    *sender.Service
	alerts     func(context.Context) (int64, error)

	mu      sync.Mutex
	readers *lru.Cache[int64, *reader] // by company; 0: all
}

// NewOverview returns an Overview on db. firingAlerts counts the alerts that fire.
func NewOverview(
	db *postgres.DB, history *history.Service, statistics *Service, senders *sender.Service, firingAlerts func(context.Context) (int64, error),
) *Overview {
	readers, err := lru.New[int64, *reader](maxCompanies)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Overview{backlog: backlog.NewReader(db), history: history, statistics: statistics, senders: senders, alerts: firingAlerts, readers: readers}
}

// Get returns the figures of a company, or of all companies if company is nil. They are at most twice NowEvery old.
func (s *Overview) Get(ctx context.Context, company *int64) (Now, error) {
	return s.reader(company).figures.Get(ctx)
}

func (s *Overview) reader(company *int64) *reader {
	var key int64
	if company != nil {
		key = *company
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, is := s.readers.Get(key); is {
		return r
	}
	r := &reader{service: s, company: company}
	r.figures = snapshot.Cache[Now]{Load: r.read, Fresh: NowEvery}
	r.held = snapshot.Cache[[]backlog.Held]{Fresh: sendersEvery, Load: func(ctx context.Context) ([]backlog.Held, error) {
		return s.backlog.Held(ctx, company, maxHoldTime, heldNamed)
	}}
	r.senders = snapshot.Cache[sender.Readiness]{Fresh: sendersEvery, Load: func(ctx context.Context) (sender.Readiness, error) {
		return s.senders.Readiness(ctx, company)
	}}
	s.readers.Add(key, r)
	return r
}

// reader reads the figures of one company, or of all.
type reader struct {
	service *Overview
	company *int64
	figures snapshot.Cache[Now]
	senders snapshot.Cache[sender.Readiness]
	held    snapshot.Cache[[]backlog.Held]

	mu    sync.Mutex
	since time.Time // of the first reading
	past  []reading // those of the last rateOver, oldest first
}

// reading has what rates are made of.
type reading struct {
	at     time.Time
	events statisticsq.StatisticsEventsRow // counts of tasks do not do: a task that is cancelled, requeued or dropped makes them smaller
}

func (r *reader) read(ctx context.Context) (f Now, err error) {
	if f.Tasks, err = r.service.history.Tasks(ctx, r.company); err != nil {
		return f, err
	}
	if f.LongestWait, err = r.service.longestWait(ctx, r.company); err != nil {
		return f, err
	}
	if f.Senders, err = r.senders.Get(ctx); err != nil {
		return f, err
	}
	if f.Held, err = r.held.Get(ctx); err != nil {
		return f, err
	}
	if r.company == nil {
		firing, err := r.service.alerts(ctx)
		if err != nil {
			return f, err
		}
		f.FiringAlerts = &firing
	}
	f.Rates, err = r.rates(ctx, f.Tasks.CountedAt)
	return f, err
}

// longestWait returns for how many seconds the longest due task has waited.
func (s *Overview) longestWait(ctx context.Context, company *int64) (seconds *float64, err error) {
	if company != nil {
		return s.backlog.CompanyLongestWait(ctx, *company, longestOf)
	}
	longest, err := s.backlog.LongestWait(ctx)
	if err != nil || longest <= 0 {
		return nil, err
	}
	return &longest, nil
}

// rates compares a reading with the oldest one of the last rateOver. Nil: no reading to compare with.
func (r *reader) rates(ctx context.Context, at time.Time) (*Rates, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.since = at
	}
	events, err := r.service.statistics.Events(ctx, r.company, r.since)
	if err != nil {
		return nil, err
	}
	for len(r.past) > 0 && at.Sub(r.past[0].at) > rateOver+NowEvery {
		r.past = r.past[1:]
	}
	r.past = append(r.past, reading{at, events})
	before := r.past[0]
	seconds := at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return nil, nil
	}
	return &Rates{
		In:     float64(events.Submitted-before.events.Submitted) / seconds,
		Out:    float64(events.Succeeded-before.events.Succeeded) / seconds,
		Failed: float64(events.Failed-before.events.Failed) / seconds,
	}, nil
}
