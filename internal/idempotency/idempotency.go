// Package idempotency makes a request that is sent again do its work once: the work and the memory of its answer commit
// together.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// Service remembers answers for a day.
type Service struct {
	db *postgres.DB
	q  *dbq.Queries
}

// New returns a Service on db.
func New(db *postgres.DB) *Service { return &Service{db: db, q: dbq.New(db)} }

// Key is what a caller chose for one request; two callers, or two operations, may choose the same.
type Key struct {
	Username  string
	Operation string
	Key       string
}

// inFlightWait is what a caller is told to wait whose first request is still at work.
const inFlightWait = time.Second

// Do runs work in a transaction, which its ctx carries, and remembers the answer that work returns; both are durable when
// Do returns. If the key has an answer already, Do returns that instead, and replayed. When work fails nothing is done and
// nothing remembered: the error is work's. Faults: idempotency.key_reused for another body, idempotency.in_flight.
func (s *Service) Do(ctx context.Context, key Key, body []byte, work func(ctx context.Context) ([]byte, error)) (answer []byte, replayed bool, err error) {
	hash := sha256.Sum256(body)
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		free, err := s.q.IdempotencyLock(ctx, dbq.IdempotencyLockParams(key))
		if err != nil {
			return fmt.Errorf("lock idempotency key: %w", err)
		}
		if !free {
			return &fault.Error{Kind: fault.Conflict, Reason: fault.IdempotencyInFlight, RetryAfter: inFlightWait}
		}
		first, err := s.q.IdempotencyGet(ctx, dbq.IdempotencyGetParams(key))
		switch {
		case err == nil && bytes.Equal(first.RequestHash, hash[:]):
			answer, replayed = first.Response, true
			return nil
		case err == nil:
			return fault.New(fault.Invalid, fault.IdempotencyKeyReused)
		case !postgres.IsNoRows(err):
			return fmt.Errorf("look for idempotency key: %w", err)
		}
		if answer, err = work(ctx); err != nil {
			return err
		}
		err = s.q.IdempotencyStore(ctx, dbq.IdempotencyStoreParams{
			Username: key.Username, Operation: key.Operation, Key: key.Key, RequestHash: hash[:], Response: answer,
		})
		return postgres.Wrap("remember answer", err, nil)
	})
	return answer, replayed, err
}

// sweepBatch bounds one statement of a sweep.
const sweepBatch = 5000

// Sweep forgets what is older than a day and returns how many keys that were.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := s.q.IdempotencySweep(ctx, sweepBatch)
		if err != nil {
			return total, fmt.Errorf("forget idempotency keys: %w", err)
		}
		if total += int(n); n < sweepBatch {
			return total, nil
		}
	}
}
