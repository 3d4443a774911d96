// Package idempotency owns idempotency keys: a request that is sent again with its key does its work only once. The
// work and its stored answer are committed together.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"lksms/gen/idempotencyq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// Service stores the answers of requests for a day.
type Service struct {
	db *postgres.DB
	q  *idempotencyq.Queries
}

// New returns a Service on db.
func New(db *postgres.DB) *Service { return &Service{db: db, q: idempotencyq.New(db)} }

// Sweeps are what the service does again and again.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-idempotency-keys", Interval: 10 * time.Minute, Run: s.Sweep},
	}
}

// Key identifies one request of a caller. Callers and operations have separate keys.
type Key struct {
	Username  string
	Operation string
	Key       string
}

// inFlightWait is the Retry-After while the first request with a key is still in progress.
const inFlightWait = time.Second

// Do runs work in a transaction, which its ctx carries, and stores the answer that work returns. Both are durable
// when Do returns. If the key already has an answer, Do returns this answer and replayed. If work fails, nothing is
// changed or stored, and Do returns work's error. Faults: idempotency.key_reused for another body,
// idempotency.in_flight.
func (s *Service) Do(ctx context.Context, key Key, body []byte, work func(ctx context.Context) ([]byte, error)) (answer []byte, replayed bool, err error) {
	hash := sha256.Sum256(body)
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		free, err := s.q.IdempotencyLock(ctx, idempotencyq.IdempotencyLockParams(key))
		if err != nil {
			return fmt.Errorf("lock idempotency key: %w", err)
		}
		if !free {
			return &fault.Error{Kind: fault.Conflict, Reason: fault.IdempotencyInFlight, RetryAfter: inFlightWait}
		}
		first, err := s.q.IdempotencyGet(ctx, idempotencyq.IdempotencyGetParams(key))
		switch {
		case err == nil && bytes.Equal(first.RequestHash, hash[:]):
			answer, replayed = first.Response, true
			return nil
		case err == nil:
			return fault.New(fault.Invalid, fault.IdempotencyKeyReused)
		case !postgres.IsNoRows(err):
			return fmt.Errorf("read idempotency key: %w", err)
		}
		if answer, err = work(ctx); err != nil {
			return err
		}
		err = s.q.IdempotencyStore(ctx, idempotencyq.IdempotencyStoreParams{
			Username: key.Username, Operation: key.Operation, Key: key.Key, RequestHash: hash[:], Response: answer,
		})
		return postgres.Wrap("store answer", err, nil)
	})
	return answer, replayed, err
}

// sweepBatch bounds the rows of one DELETE.
const sweepBatch = 5000

// Sweep deletes the keys that are older than a day and returns how many it deleted. Each batch is a transaction of
// its own.
func (s *Service) Sweep(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := s.q.IdempotencySweep(ctx, sweepBatch)
		if err != nil {
			return total, fmt.Errorf("delete idempotency keys: %w", err)
		}
		if total += int(n); n < sweepBatch {
			return total, nil
		}
	}
}
