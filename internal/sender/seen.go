package sender

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// Polled notes that an app polls, and registers it if it is not known yet and settings allow it. Faults: sender.not_found,
// limit.reached where too many have registered themselves.
func (s *Service) Polled(ctx context.Context, appID string) error {
	if _, known := s.known.Get(appID); !known {
		if err := s.register(ctx, appID); err != nil {
			return err
		}
		s.known.Add(appID, struct{}{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[appID] = struct{}{}
	return nil
}

func (s *Service) register(ctx context.Context, appID string) error {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	_, err = s.q.SenderFind(ctx, appID)
	if !postgres.IsNoRows(err) {
		return postgres.Wrap("find sender", err, nil)
	}
	if !values.Queue.RegisterUnknownSenders {
		return errNoSender
	}
	if full := s.full.Load(); full != nil && time.Since(full.at) < fullFor {
		return full.fault
	}
	err = postgres.Wrap("register sender", s.q.SenderRegister(ctx, appID), nil)
	var limit *fault.Error
	if errors.As(err, &limit) && limit.Reason == fault.LimitReached {
		s.full.Store(&refusal{limit, time.Now()})
	}
	return err
}

// refusal is when an app was not registered, because too many are.
type refusal struct {
	fault *fault.Error
	at    time.Time
}

// fullFor is how long no further app is registered after such a refusal. Each attempt leaves a dead row in tables that every claim reads.
const fullFor = time.Second

// seenApart is how far apart the polls of a sender are noted that no route names: a thousand that wait for nothing should
// write next to nothing.
const seenApart = 10 * time.Minute

// SweepSeen notes who polled lately, and tells how many that were.
func (s *Service) SweepSeen(ctx context.Context) (int, error) {
	s.mu.Lock()
	seen := s.seen
	s.seen = map[string]struct{}{}
	s.mu.Unlock()
	if len(seen) == 0 {
		return 0, nil
	}
	n, err := s.q.SendersSeen(ctx, dbq.SendersSeenParams{
		SenderNos: slices.Sorted(maps.Keys(seen)), ApartSeconds: seenApart.Seconds(),
	})
	if err != nil { // the next sweep notes them
		s.mu.Lock()
		maps.Copy(s.seen, seen)
		s.mu.Unlock()
	}
	return int(n), postgres.Wrap("note who polled", err, nil)
}

// polledLately tells whether a sender polled this server since the last sweep noted who did.
func (s *Service) polledLately(no string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, polled := s.seen[no]
	return polled
}

// CheckApp refuses the number of a sender that the server drives to an app: it would take the tasks that the server is about to
// send, or settle them. Another server's change of a sender is noticed after at most four seconds. Fault: sender.is_driven.
func (s *Service) CheckApp(ctx context.Context, appID string) error {
	isDriven, err := s.directory.IsDriven(ctx, appID)
	if err == nil && isDriven {
		err = fault.New(fault.Conflict, fault.SenderIsDriven)
	}
	return err
}
