// Package idempotency owns idempotency keys: a request that is repeated with the same key has an effect only once. The effect and its stored answer are
// committed together.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"lksms/gen/idempotencyq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// Service stores the answers of requests for one day.
type Service struct {
	db  *postgres.DB
	q   *idempotencyq.Queries
	box *secret.Box
}

// New returns a Service on db. It uses the keys of box for the hashes of sensitive requests.
func New(db *postgres.DB, box *secret.Box) *Service {
	return &Service{db: db, q: idempotencyq.New(db), box: box}
}

// Sweeps returns the periodic jobs of the service.
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

// inFlightWait is the Retry-After of requests whose key is in use by a request in progress.
const inFlightWait = time.Second

// Do runs work in a transaction, which the ctx of work carries, and stores the answer that work returns. Both are durable when Do returns. If the key already
// has an answer, Do returns this answer and replayed. If work fails, Do changes and stores nothing, and returns the error of work. Faults:
// idempotency.key_reused if the body differs, and idempotency.in_flight if a request with the key is in progress.
func (s *Service) Do(ctx context.Context, key Key, body []byte, work func(ctx context.Context) ([]byte, error)) (answer []byte, replayed bool, err error) {
	hashes := s.hashesOf(body)
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
		case err == nil && slices.ContainsFunc(hashes, func(hash []byte) bool { return bytes.Equal(first.RequestHash, hash) }):
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
			Username: key.Username, Operation: key.Operation, Key: key.Key, RequestHash: hashes[0], Response: answer,
		})
		if postgres.Violates(err, "idempotency_keys_pkey") { // by a server of a version whose lock has another number: see IdempotencyLock
			return &fault.Error{Kind: fault.Conflict, Reason: fault.IdempotencyInFlight, RetryAfter: inFlightWait}
		}
		return postgres.Wrap("store answer", err, nil)
	})
	return answer, replayed, err
}

// hashesOf returns the hashes under which the request with a body can be stored, the current one first. The hash of a request that can contain a sensitive message is
// keyed: otherwise, a copy of the database would be enough to find a short code by trying all codes.
func (s *Service) hashesOf(body []byte) [][]byte {
	plain := sha256.Sum256(body)
	if !logtext.CanHaveField(body, "sensitive") {
		return [][]byte{plain[:]}
	}
	digests, err := s.box.Digests(string(body), "idempotency key")
	if err != nil { // without a key, the server refuses sensitive messages
		return [][]byte{plain[:]}
	}
	hashes := make([][]byte, len(digests))
	for i, digest := range digests {
		hash := sha256.Sum256([]byte(digest))
		hashes[i] = hash[:]
	}
	return hashes
}

// sweepBatch is the maximum number of rows that one DELETE deletes.
const sweepBatch = 5000

// Sweep deletes the keys that are older than a day. It returns the number of deleted keys. Each batch is a separate transaction.
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
