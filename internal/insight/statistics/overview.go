package statistics

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/gen/statisticsq"
	"lksms/internal/audience/conversation"
	"lksms/internal/dispatch/queue/backlog"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/history"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/snapshot"
)

const (
	// NowEvery is the age at which cached figures are read again.
	NowEvery = 2 * time.Second
	// sendersEvery is the age at which cached senders are read again. It is longer than NowEvery, because the query is slower and senders change less often.
	sendersEvery = 5 * time.Second
	// rateOver is the period over which rates are computed.
	rateOver = 10 * time.Second
	// longestOf limits the search for the longest wait of a company: only this number of longest-waiting tasks of all companies is searched.
	longestOf = 2000
	// maxHeldTasks is the maximum number of held tasks that are counted for each pool. maxSwitches is the maximum number of switches that are named.
	maxHeldTasks, maxSwitches = 10_000, 20
	// maxCompanies is the maximum number of companies whose figures are cached.
	maxCompanies = 1000
)

// Now contains the current figures of one company or of all companies.
type Now struct {
	Tasks        history.TaskStatistics // includes the time of the figures
	LongestWait  *float64               // seconds; nil: no task is due, or none of the longestOf longest-waiting tasks belongs to the company
	Rates        *Rates                 // nil: not known yet
	FiringAlerts *int64                 // nil for one company
	Senders      sender.Readiness
	Unread       conversation.Unread
	Held         []backlog.Held // switches that hold tasks, with the numbers of these tasks; each pool counts at most maxHeldTasks tasks
}

// Rates contains submitted, sent and failed tasks per second.
type Rates struct{ In, Out, Failed float64 }

// Overview reads the current figures: the waiting tasks, the rates of submitted, sent and failed tasks, and the senders that can claim tasks. Each server reads
// them once for all requests, and only while requests arrive.
type Overview struct {
	backlog    backlog.Reader
	history    *history.Service
	statistics *Service
	senders    *sender.Service
	alerts     func(context.Context) (int64, error)
	unread     func(context.Context, *int64) (conversation.Unread, error)

	mu      sync.Mutex
	readers *lru.Cache[int64, *reader] // by id of the company; 0: all companies
}

// NewOverview returns an Overview on db. firingAlerts returns the number of firing alerts. unread returns the unread conversations of a company, or of all
// companies.
func NewOverview(
	db *postgres.DB, history *history.Service, statistics *Service, senders *sender.Service, firingAlerts func(context.Context) (int64, error),
	unread func(context.Context, *int64) (conversation.Unread, error),
) *Overview {
	readers, err := lru.New[int64, *reader](maxCompanies)
	if err != nil {
		panic(err) // lru.New only rejects a size below 1
	}
	return &Overview{backlog: backlog.NewReader(db), history: history, statistics: statistics, senders: senders, alerts: firingAlerts, unread: unread, readers: readers}
}

// Get returns the figures of one company. If company is nil, it returns the figures of all companies. The figures are at most 2 × NowEvery old.
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
		return s.backlog.Held(ctx, company, maxHeldTasks, maxSwitches)
	}}
	r.senders = snapshot.Cache[sender.Readiness]{Fresh: sendersEvery, Load: func(ctx context.Context) (sender.Readiness, error) {
		return s.senders.Readiness(ctx, company)
	}}
	s.readers.Add(key, r)
	return r
}

// reader reads and caches the figures of one company or of all companies.
type reader struct {
	service *Overview
	company *int64
	figures snapshot.Cache[Now]
	senders snapshot.Cache[sender.Readiness]
	held    snapshot.Cache[[]backlog.Held]

	mu    sync.Mutex
	since time.Time // time of the first reading, from which events are counted
	past  []reading // readings of the last rateOver, oldest first
}

// reading contains the numbers of one moment, from which rates are computed.
type reading struct {
	at     time.Time
	events statisticsq.StatisticsEventsRow // numbers of events, which never decrease; the number of tasks would decrease when tasks are cancelled, requeued or dropped
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
	if f.Unread, err = r.service.unread(ctx, r.company); err != nil {
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

// longestWait returns the wait of the longest-waiting due task in seconds. It returns nil in the cases that Now.LongestWait lists.
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

// rates compares the current numbers with the oldest reading of the last rateOver. It returns nil if no earlier reading exists.
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
