package sender

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
)

// Breaker is the state of a sender's circuit breaker, with the version of the sender.
type Breaker struct {
	SenderNo string
	Version  int64
	Openings int64 // openings since the sender last worked; 0: closed
}

// Opening contains why and for how long a circuit breaker opens.
type Opening struct {
	Reason  string
	DayOf   string        // the pause ends at the next midnight of this time zone; empty: see For
	For     time.Duration // the pause that the provider asked for; 0: see First
	First   time.Duration // the pause of the first opening. Each further opening doubles it, up to Longest
	Longest time.Duration
}

// OpenBreaker opens a circuit breaker, or opens it again after a failed probe. Only the first of several concurrent failures opens the breaker: b contains the
// version and the openings that the caller read. isOpened is false if another failure opened the breaker, or if the sender was changed.
func (s *Service) OpenBreaker(ctx context.Context, b Breaker, o Opening) (openings int64, pause time.Duration, isOpened bool, err error) {
	rows, err := s.q.BreakerOpen(ctx, senderq.BreakerOpenParams{
		SenderNo: b.SenderNo, Version: b.Version, Openings: b.Openings, Reason: o.Reason,
		DayOf: o.DayOf, ForSeconds: o.For.Seconds(), Pause: o.First, MaxPause: o.Longest,
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("open circuit breaker: %w", err)
	}
	for _, row := range rows {
		return row.Openings, time.Duration(row.PauseSeconds * float64(time.Second)), true, nil
	}
	return 0, 0, false, nil
}

// ProbeBreaker reserves the right to send one message after the pause, for d. It reports whether the caller has the right.
func (s *Service) ProbeBreaker(ctx context.Context, b Breaker, d time.Duration) (bool, error) {
	n, err := s.q.BreakerProbe(ctx, senderq.BreakerProbeParams{SenderNo: b.SenderNo, Openings: b.Openings, Seconds: d.Seconds()})
	return n > 0, postgres.Wrap("reserve probe of circuit breaker", err, nil)
}

// EndBreakerProbe ends a probe without a result.
func (s *Service) EndBreakerProbe(ctx context.Context, b Breaker) error {
	return postgres.Wrap("end probe of circuit breaker", s.q.BreakerProbeEnd(ctx, senderq.BreakerProbeEndParams{SenderNo: b.SenderNo, Openings: b.Openings}), nil)
}

// CloseBreaker closes the circuit breaker of a sender that works again. It does nothing if the breaker was opened again meanwhile, is closed, or has another reason
// than code. An empty code closes it whatever the reason.
func (s *Service) CloseBreaker(ctx context.Context, b Breaker, code string) (isClosed bool, err error) {
	return closeBreaker(ctx, s.q, senderq.BreakerCloseParams{SenderNo: b.SenderNo, Openings: &b.Openings, Code: code})
}

// CloseBreakerOf closes the circuit breaker of a sender in tx, even if the breaker was opened again meanwhile.
func CloseBreakerOf(ctx context.Context, tx postgres.Runner, senderNo string) error {
	_, err := closeBreaker(ctx, senderq.New(tx), senderq.BreakerCloseParams{SenderNo: senderNo})
	return err
}

func closeBreaker(ctx context.Context, q *senderq.Queries, p senderq.BreakerCloseParams) (isClosed bool, err error) {
	n, err := q.BreakerClose(ctx, p)
	return n > 0, postgres.Wrap("close circuit breaker", err, nil)
}
