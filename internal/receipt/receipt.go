// Package receipt owns the callbacks of providers and the receipts in them: what a provider says about messages that
// it accepted. It finds the tasks of these messages, and settles them through queue.
package receipt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
	"lksms/internal/receipt/callback"
	"lksms/internal/sender"
	"lksms/internal/snapshot"
)

const (
	matchBatch  = 1000                // receipts matched in one transaction
	parkedFor   = 72 * time.Hour      // how long a receipt is matched before it is given up
	keptFor     = 30 * 24 * time.Hour // how long callbacks and receipts are stored
	deleteBatch = 1000                // rows deleted by one statement
)

// Service accepts callbacks.
type Service struct {
	db      *postgres.DB
	q       *dbq.Queries
	tasks   *queue.Service
	configs *sender.Configs
	log     *slog.Logger

	receivers snapshot.Cache[map[string]receiver] // by sender number
	strangers *strangers
}

// New returns a Service on db.
func New(db *postgres.DB, tasks *queue.Service, configs *sender.Configs, log *slog.Logger) *Service {
	s := &Service{db: db, q: dbq.New(db), tasks: tasks, configs: configs, log: log, strangers: newStrangers()}
	s.receivers.Load = s.loadReceivers
	return s
}

// Changed discards the cached receivers, after this server changed a sender.
func (s *Service) Changed() { s.receivers.Forget() }

// receiver checks and reads the callbacks of a sender.
type receiver struct {
	verifier *callback.Verifier // nil: the sender accepts no callbacks
	err      error              // set if the configuration cannot be used
}

// loadReceivers reads the receivers of all senders at once, so that callbacks for senders that do not exist cost no query.
func (s *Service) loadReceivers(ctx context.Context) (map[string]receiver, error) {
	rows, err := s.q.SendersCalled(ctx)
	if err != nil {
		return nil, fmt.Errorf("read senders with callbacks: %w", err)
	}
	all := make(map[string]receiver, len(rows))
	for _, row := range rows {
		opened, err := s.configs.Open("", row.SenderNo, row.Config)
		r := receiver{err: err}
		if err == nil && opened.Callback != nil {
			r.verifier, r.err = callback.NewVerifier(*opened.Callback, opened.Secret)
		}
		all[row.SenderNo] = r
	}
	return all, nil
}

// verifierOf returns the verifier for a call, if the call proves to come from the provider. A network with many
// unproven calls has to wait, but a right proof is accepted from it, because a stranger may share the provider's
// address. Only a secret that is short enough to be guessed is not compared during the wait.
func (s *Service) verifierOf(ctx context.Context, call callback.Call, isProven func(*callback.Verifier, callback.Call) bool) (*callback.Verifier, error) {
	all, err := s.receivers.Get(ctx)
	if err != nil {
		return nil, err
	}
	r, known := all[call.SenderNo]
	switch {
	case known && r.err != nil && s.strangers.add(call.SourceIP) == 0: // the error is shown only until the network has to wait, because anybody can call
		return nil, fmt.Errorf("read callback configuration of sender %s: %w", call.SenderNo, r.err)
	case known && r.err == nil && r.verifier != nil && (!r.verifier.IsGuessable() || s.strangers.wait(call.SourceIP) == 0) && isProven(r.verifier, call):
		return r.verifier, nil
	}
	if wait := s.strangers.add(call.SourceIP); wait > 0 {
		return nil, &fault.Error{Kind: fault.TooMany, Reason: fault.AuthTooManyFailures, RetryAfter: wait}
	}
	return nil, fault.New(fault.Forbidden, fault.AuthForbidden)
}

// Admit rejects, before its body is read, a call that no body could prove. isKnown reports whether the token or the
// address already proves the caller. Faults: auth.forbidden, auth.too_many_failures.
func (s *Service) Admit(ctx context.Context, call callback.Call) (isKnown bool, err error) {
	v, err := s.verifierOf(ctx, call, (*callback.Verifier).MayBeProven)
	return err == nil && v.IsKnownBeforeBody(), err
}

// IsUnproven reports whether err rejects a call that did not prove to come from the provider.
func IsUnproven(err error) bool {
	f := new(fault.Error)
	return errors.As(err, &f) && (f.Reason == fault.AuthForbidden || f.Reason == fault.AuthTooManyFailures)
}

// Take processes a callback (S3.11), and returns the answer that the provider expects. A proven call is stored before
// it is parsed, also if parsing then fails; a repeated body is stored once. An unproven call is rejected and not
// stored, because anybody could fill the disk. Faults: auth.forbidden, auth.too_many_failures, request.malformed,
// request.invalid, request.too_large.
func (s *Service) Take(ctx context.Context, call callback.Call) (answer, contentType string, err error) {
	v, err := s.verifierOf(ctx, call, (*callback.Verifier).IsProven)
	if err != nil {
		return "", "", err
	}
	hash := sha256.Sum256(call.Body)
	id, err := s.q.CallbackKeep(ctx, dbq.CallbackKeepParams{
		SenderNo: call.SenderNo, SourceIp: call.SourceIP, Body: postgres.Text(string(call.Body)), BodyHash: hash[:],
	})
	if err != nil {
		return "", "", fmt.Errorf("store callback: %w", err)
	}
	receipts, leftOut, err := []callback.Receipt(nil), 0, call.Cut
	if err == nil {
		receipts, leftOut, err = v.Config.Read(call.Body)
	}
	if err != nil {
		refused := new(fault.Error)
		if errors.As(err, &refused) {
			if err := s.q.CallbackRefused(ctx, dbq.CallbackRefusedParams{ID: id, Refused: string(refused.Reason)}); err != nil {
				return "", "", fmt.Errorf("store why a callback is refused: %w", err)
			}
		}
		return "", "", err
	}
	if leftOut > 0 {
		s.log.WarnContext(ctx, "items of a callback could not be read", "sender_no", call.SenderNo, "callback_id", id, "items", leftOut)
	}
	params := dbq.ReceiptPutParams{CallbackID: id, LeftOut: int64(leftOut), SenderNo: call.SenderNo}
	for _, r := range receipts {
		params.ProviderNos, params.Recipients = append(params.ProviderNos, r.Number), append(params.Recipients, r.Recipient)
		params.States, params.Codes = append(params.States, r.State), append(params.Codes, r.Code)
	}
	ids, err := s.q.ReceiptPut(ctx, params)
	if err != nil {
		return "", "", fmt.Errorf("store receipts: %w", err)
	}
	if _, err := s.match(ctx, ids); err != nil { // the sweep will match them
		s.log.WarnContext(ctx, "receipts are matched later", "sender_no", call.SenderNo, "error", err)
	}
	contentType = v.Config.Answer.ContentType
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	return v.Config.Answer.Body, contentType, nil
}

// Forget deletes old callbacks and receipts in batches, and returns how many.
func (s *Service) Forget(ctx context.Context) (int, error) {
	callbacks, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.CallbacksForget(ctx, dbq.CallbacksForgetParams{BatchSize: deleteBatch, Keep: keptFor})
		return n, postgres.Wrap("delete callbacks", err, nil)
	})
	if err != nil {
		return callbacks, err
	}
	receipts, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.ReceiptsForget(ctx, dbq.ReceiptsForgetParams{BatchSize: deleteBatch, Keep: keptFor})
		return n, postgres.Wrap("delete receipts", err, nil)
	})
	return callbacks + receipts, err
}
