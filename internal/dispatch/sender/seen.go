package sender

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"lksms/gen/senderq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// RecordPoll records a poll of an app in memory, and registers the app like EnsureApp.
func (s *Service) RecordPoll(ctx context.Context, senderNo string) error {
	if err := s.EnsureApp(ctx, senderNo); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(senderNo, false)
	return nil
}

// EnsureApp registers an unknown app if the settings allow this. Faults: sender.not_found, limit.reached if too many apps have registered themselves.
func (s *Service) EnsureApp(ctx context.Context, senderNo string) error {
	_, known := s.known.Get(senderNo)
	if !known {
		_, known = s.pools.get(senderNo)
	}
	if !known {
		if err := s.register(ctx, senderNo); err != nil {
			return err
		}
		s.known.Add(senderNo, struct{}{})
	}
	return nil
}

// record stores in memory a poll of a sender. The caller holds mu.
func (s *Service) record(senderNo string, isWaiting bool) {
	s.seen[senderNo] = isWaiting || s.seen[senderNo]
}

func (s *Service) register(ctx context.Context, senderNo string) error {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	_, err = s.q.SenderFind(ctx, senderNo)
	if !postgres.IsNoRows(err) {
		return postgres.Wrap("find sender", err, nil)
	}
	if !values.Queue.RegisterUnknownSenders {
		return errNoSender
	}
	if full := s.full.Load(); full != nil && time.Since(full.at) < fullFor {
		return full.fault
	}
	err = postgres.Wrap("register sender", s.q.SenderRegister(ctx, senderNo), nil)
	var limit *fault.Error
	if errors.As(err, &limit) && limit.Reason == fault.LimitReached {
		s.full.Store(&refusal{limit, time.Now()})
	}
	return err
}

// refusal is a registration that failed because of too many apps.
type refusal struct {
	fault *fault.Error
	at    time.Time
}

// fullFor is the time after a refusal during which no app is registered. Each attempt would leave a dead row in tables that every claim reads.
const fullFor = time.Second

const (
	// SeenApart is the minimum time between stored polls of a sender. It applies if no other sender depends on the sender and its shared pool has no waiting
	// tasks. A thousand idle senders therefore write almost nothing.
	SeenApart = 10 * time.Minute
	// RecordEvery is the interval of the sweep that stores polls.
	RecordEvery = 5 * time.Second
	// recordedSteps is the number of times per silent_after that the polls of a sender are stored if other senders depend on the sender.
	recordedSteps = 4
)

// RecordWaiting records that senders wait at this server for tasks, or for the end of their interval. The wait counts as a poll.
func (s *Service) RecordWaiting(forTasks, forInterval []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, senderNo := range forInterval {
		s.record(senderNo, false)
	}
	for _, senderNo := range forTasks {
		s.record(senderNo, true)
	}
}

// SweepSeen stores the polls since the last sweep, and returns the number of changed rows.
func (s *Service) SweepSeen(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	seen := s.seen
	s.seen = map[string]bool{}
	s.mu.Unlock()
	if len(seen) == 0 {
		return 0, nil
	}
	params := senderq.SendersSeenParams{
		ApartSeconds: SeenApart.Seconds(), DependentsApartSeconds: min(values.Queue.SilentAfter()/recordedSteps, SeenApart).Seconds(),
		WaitingSeconds: values.Queue.SilentAfter().Seconds() / 2,
	}
	for _, senderNo := range slices.Sorted(maps.Keys(seen)) {
		c, _ := s.pools.get(senderNo)
		params.SenderNos, params.DoOthersDepend = append(params.SenderNos, senderNo), append(params.DoOthersDepend, c.othersDepend)
		params.AreWaiting = append(params.AreWaiting, seen[senderNo])
	}
	n, err := s.q.SendersSeen(ctx, params)
	if err != nil { // the next sweep stores the polls
		s.mu.Lock()
		for senderNo := range seen {
			s.record(senderNo, false)
		}
		s.mu.Unlock()
	}
	return int(n), postgres.Wrap("store polls", err, nil)
}

// CheckApp returns the fault sender.is_driven if the server drives the sender. Otherwise an app with this number could claim or settle tasks that the server is
// about to send. A change by another server takes effect within four seconds.
func (s *Service) CheckApp(ctx context.Context, senderNo string) error {
	isDriven, err := s.directory.IsDriven(ctx, senderNo)
	if err == nil && isDriven {
		err = fault.New(fault.Conflict, fault.SenderIsDriven)
	}
	return err
}
