// Package receipt processes the callbacks of providers. The receipts in a callback report whether accepted messages were delivered. The package finds the
// tasks of these messages, and settles them through package queue. Package `received` stores the messages from people in
// callbacks.
package receipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/snapshot"
	"lksms/internal/platform/sweep"
)

const (
	matchBatch  = 1000           // maximum number of receipts that one run of the sweep matches in a transaction
	parkedFor   = 72 * time.Hour // time for which unmatched receipts are tried again
	deleteBatch = 1000           // maximum number of rows that one statement deletes
)

// KeptFor is the time for which callbacks and receipts are stored, and for which receipts of a retired sender are accepted.
const KeptFor = 30 * 24 * time.Hour

// Service accepts callbacks.
type Service struct {
	db      *postgres.DB
	q       *receiptq.Queries
	queue   *queue.Service
	inbox   *received.Service
	configs *sender.Configs
	log     *slog.Logger

	calls     *merge.Merger[proven, struct{}]
	receivers snapshot.Cache[map[string]receiver] // by sender number
	strangers *strangers
}

// New returns a Service on db.
func New(db *postgres.DB, queue *queue.Service, inbox *received.Service, configs *sender.Configs, log *slog.Logger) *Service {
	s := &Service{db: db, q: receiptq.New(db), queue: queue, inbox: inbox, configs: configs, log: log, strangers: newStrangers()}
	s.receivers.Load = s.loadReceivers
	inbox.OnDelete(s.maskDeleted)
	s.calls = merge.New(merge.Options[proven, struct{}]{
		Run: s.keep, Hopeless: postgres.IsUnavailable, Key: func(p proven) string { return p.SenderNo + string(p.hash[:]) },
		Pace: callsPace, Most: callsMerged, Patience: 50 * time.Millisecond, AtOnce: 4, Limit: 10 * time.Second,
	})
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "match-receipts", Interval: 2 * time.Second, Routine: true, Run: s.Match},
		{Roles: servers.Roles{servers.Sweep}, Name: "take-received", Interval: 2 * time.Second, Routine: true, Run: s.TakeReceived},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-callbacks", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// InvalidateReceivers discards the cached receivers. Call InvalidateReceivers after this server has changed a sender.
func (s *Service) InvalidateReceivers() { s.receivers.Invalidate() }

// receiver verifies and parses the callbacks of a sender.
type receiver struct {
	verifier *callback.Verifier // nil: the sender accepts no callbacks
	err      error              // set if the configuration is unusable
	mask     provider.Mask      // hides the callbackSecret of the sender, because some providers send it in the body
}

// loadReceivers reads the receivers of all senders at once, so that callbacks for unknown senders cost no query.
func (s *Service) loadReceivers(ctx context.Context) (map[string]receiver, error) {
	rows, err := s.q.SendersCalled(ctx, KeptFor)
	if err != nil {
		return nil, fmt.Errorf("read senders with callbacks: %w", err)
	}
	all := make(map[string]receiver, len(rows))
	for _, row := range rows {
		opened, err := s.configs.Open("", row.SenderNo, row.Config)
		r := receiver{err: err}
		if err == nil && opened.Callback != nil {
			r.mask = provider.NewMask([]string{opened.Secret})
			r.verifier, r.err = callback.NewVerifier(*opened.Callback, opened.Secret)
		}
		all[row.SenderNo] = r
	}
	return all, nil
}

// verifierOf returns the verifier for a call that proves its origin. After more than maxStrange unproven calls, a network has to wait. A correct proof from
// this network is still accepted, because a stranger can share the address of the provider. During the wait, a secret that is short enough to be guessed is not
// compared.
func (s *Service) verifierOf(ctx context.Context, call callback.Call, isProven func(*callback.Verifier, callback.Call) bool) (*callback.Verifier, error) {
	all, err := s.receivers.Get(ctx)
	if err != nil {
		return nil, err
	}
	r, known := all[call.SenderNo]
	switch {
	case known && r.err != nil && s.strangers.add(call.SourceIP) == 0: // the error is returned only until the network has to wait, because anyone can send calls
		return nil, fmt.Errorf("read callback configuration of sender %s: %w", call.SenderNo, r.err)
	case known && r.err == nil && r.verifier != nil && (!r.verifier.IsGuessable() || s.strangers.wait(call.SourceIP) == 0) && isProven(r.verifier, call):
		return r.verifier, nil
	}
	if wait := s.strangers.add(call.SourceIP); wait > 0 {
		return nil, &fault.Error{Kind: fault.TooMany, Reason: fault.AuthTooManyFailures, RetryAfter: wait}
	}
	return nil, fault.New(fault.Forbidden, fault.AuthForbidden)
}

// Admit rejects a call before its body is read if no body could prove the origin of the call. isKnown reports whether the token or the address already proves
// the origin. Faults: auth.forbidden, auth.too_many_failures.
func (s *Service) Admit(ctx context.Context, call callback.Call) (isKnown bool, err error) {
	v, err := s.verifierOf(ctx, call, (*callback.Verifier).MayBeProven)
	return err == nil && v.IsKnownBeforeBody(), err
}

// IsUnproven reports whether err rejects a call without a proof that it comes from the provider.
func IsUnproven(err error) bool {
	f := new(fault.Error)
	return errors.As(err, &f) && (f.Reason == fault.AuthForbidden || f.Reason == fault.AuthTooManyFailures)
}

// Take processes a callback (S3.11), and returns the answer that the provider expects. A proven call is stored unchanged, even if it cannot be parsed; a
// repeated body is stored once. An unproven call is rejected and not stored, because anyone could fill the disk. Faults: auth.forbidden,
// auth.too_many_failures, request.malformed, request.invalid, request.too_large.
func (s *Service) Take(ctx context.Context, call callback.Call) (answer, contentType string, err error) {
	v, err := s.verifierOf(ctx, call, (*callback.Verifier).IsProven)
	if err != nil {
		return "", "", err
	}
	p := proven{Call: call, hash: sha256.Sum256(call.Body)}
	unread := call.Cut
	if unread == nil {
		p.body, unread = v.Config.Read(call.Body)
	}
	if refused := new(fault.Error); errors.As(unread, &refused) {
		p.refused, p.body.LeftOut = string(refused.Reason), 0
	}
	if len(p.body.Receipts)+len(p.body.Messages) > receiptsMerged || len(p.Body) > bytesMerged {
		_, err = s.keep(ctx, []proven{p})
	} else {
		_, err = s.calls.Do(ctx, p)
	}
	if err == nil {
		err = unread
	}
	if err != nil {
		return "", "", err
	}
	s.logLeftOut(ctx, p)
	expected := v.Config.AnswerTo(p.body)
	return expected.Body, expected.ContentType, nil
}

// logLeftOut logs that items of a call could not be read. It does not log the items, because they contain phone numbers.
func (s *Service) logLeftOut(ctx context.Context, p proven) {
	if n := p.body.LeftOut; n > 0 {
		s.log.WarnContext(ctx, "items of a callback could not be read", "sender_no", p.SenderNo, "body_hash", hex.EncodeToString(p.hash[:]), "items", n)
	}
}

// proven is a call that proves to come from the provider, with its receipts and messages.
type proven struct {
	callback.Call
	hash    [sha256.Size]byte
	body    callback.Body
	others  []string // other forms of the number of the only receipt
	refused string   // reason why the call cannot be parsed
}

// Concurrent calls are stored in one transaction, and their receipts are matched in another transaction. If one of the receipts needs a partition that is
// being moved, all calls of the run wait.
//
// Providers do not need an answer within milliseconds. A server therefore starts at most fifty such runs per second, for any number of calls. The commits of
// more runs would slow down submissions and claims on all servers of the database.
const (
	callsPace      = 20 * time.Millisecond
	callsMerged    = 100       // maximum number of calls of one run
	receiptsMerged = 10        // maximum number of receipts and messages of a merged call; a call with more runs alone
	bytesMerged    = 64 * 1024 // maximum size of the body of a merged call in bytes; a call with a longer body runs alone
)

// keep stores calls with distinct bodies, matches their receipts, and stores their messages. Sweeps match receipts and store messages for which this is not
// possible now.
func (s *Service) keep(ctx context.Context, calls []proven) ([]struct{}, error) {
	var p receiptq.CallbacksKeepParams
	hasMessages := false
	for i, c := range calls {
		p.SenderNos, p.SourceIps = append(p.SenderNos, c.SenderNo), append(p.SourceIps, c.SourceIP)
		p.Bodies, p.BodyHashes = append(p.Bodies, postgres.Text(string(bom.Decode(c.Body)))), append(p.BodyHashes, c.hash[:])
		p.Refusals, p.LeftOuts = append(p.Refusals, c.refused), append(p.LeftOuts, int64(c.body.LeftOut))
		p.HasMessages = append(p.HasMessages, len(c.body.Messages) > 0)
		hasMessages = hasMessages || len(c.body.Messages) > 0
		for _, r := range c.body.Receipts {
			p.ReceiptCalls = append(p.ReceiptCalls, int32(i+1))
			p.ProviderNos, p.OtherNos = append(p.ProviderNos, r.Number), append(p.OtherNos, strings.Join(c.others, "\n"))
			p.Recipients = append(p.Recipients, r.Recipient)
			p.States, p.Codes = append(p.States, r.State), append(p.Codes, r.Code)
		}
	}
	ids, err := postgres.Again(ctx, s.db, func() ([]int64, error) { return s.q.CallbacksKeep(ctx, p) }) // a concurrent erasure can cause a deadlock
	if err != nil {
		return nil, fmt.Errorf("store callbacks: %w", err)
	}
	if _, err := s.match(ctx, ids); err != nil { // the sweep matches the receipts later
		s.log.WarnContext(ctx, "receipts are matched later", "receipts", len(ids), "first_sender_no", calls[0].SenderNo, "error", err)
	}
	if hasMessages {
		if _, err := s.TakeReceived(ctx); err != nil {
			s.log.WarnContext(ctx, "messages of callbacks are stored later", "first_sender_no", calls[0].SenderNo, "error", err)
		}
	}
	return make([]struct{}, len(calls)), nil
}

// Close waits for the runs in progress.
func (s *Service) Close() { s.calls.Wait() }

// DeleteExpired deletes old callbacks and receipts in batches. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	callbacks, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.CallbacksDeleteExpired(ctx, receiptq.CallbacksDeleteExpiredParams{BatchSize: deleteBatch, Keep: KeptFor})
		return n, postgres.Wrap("delete callbacks", err, nil)
	})
	if err != nil {
		return callbacks, err
	}
	receipts, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.ReceiptsDeleteExpired(ctx, receiptq.ReceiptsDeleteExpiredParams{BatchSize: deleteBatch, Keep: KeptFor})
		return n, postgres.Wrap("delete receipts", err, nil)
	})
	return callbacks + receipts, err
}
