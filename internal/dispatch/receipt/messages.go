package receipt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

const (
	takeRun     = 100 // maximum number of callbacks whose messages one run stores
	takePortion = 100 // maximum number of messages that package received stores at once
)

// TakeReceived stores the messages of callbacks in the inbox. Each callback has a transaction of its own, which also ends its turn: so each message is stored
// once, even without an id and a time. If this fails, another run tries again after at least two seconds, and at most an hour. It returns the number of callbacks.
func (s *Service) TakeReceived(ctx context.Context) (int, error) {
	var failed error
	for taken := range takeRun {
		var due receiptq.CallbackDueRow
		err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
			if due, err = s.q.CallbackDue(ctx); err != nil {
				return err
			}
			ids, err := s.takeMessages(ctx, due)
			if err != nil {
				return fmt.Errorf("store messages of callback %d: %w", due.ID, err)
			}
			return s.q.CallbackTaken(ctx, receiptq.CallbackTakenParams{ID: due.ID, ReceivedIds: ids})
		})
		switch {
		case postgres.IsNoRows(err):
			return taken, failed
		case err != nil && due.ID == 0:
			return taken, fmt.Errorf("find callback with messages: %w", err)
		case err != nil:
			failed = errors.Join(failed, err)
			if err := s.q.CallbackPostpone(ctx, due.ID); err != nil {
				return taken, fmt.Errorf("postpone callback: %w", errors.Join(failed, err))
			}
		}
	}
	return takeRun, failed
}

// errUnreadable is the error of a callback with messages that the current configuration of its sender cannot read.
var errUnreadable = errors.New("the sender was deleted, or its callback configuration no longer reads the body")

// takeMessages stores the messages of a callback in the transaction of ctx, and returns their ids.
func (s *Service) takeMessages(ctx context.Context, due receiptq.CallbackDueRow) ([]int64, error) {
	all, err := s.receivers.Get(ctx)
	if err != nil {
		return nil, err
	}
	r := all[due.SenderNo]
	if r.verifier == nil {
		return nil, errUnreadable
	}
	body, err := r.verifier.Config.Read([]byte(due.Body))
	if err != nil || len(body.Messages) == 0 {
		return nil, errUnreadable
	}
	messages := make([]received.Message, len(body.Messages))
	for i, m := range body.Messages {
		messages[i] = r.messageOf(m)
	}
	var ids []int64
	for portion := range slices.Chunk(messages, takePortion) {
		stored, err := s.inbox.Take(ctx, due.SenderNo, portion)
		if err != nil {
			return nil, err
		}
		for _, one := range stored {
			ids = append(ids, one.ID)
		}
	}
	return ids, nil
}

func (r receiver) messageOf(m callback.Message) received.Message {
	return received.Fitting(received.Message{
		From: m.From, To: m.To, Content: m.Content, ReceivedAt: m.ReceivedAt, MessageNo: m.MessageNo, Raw: r.masked(m.Raw),
	})
}

// Erase masks the bodies of callbacks that contain messages from a person, in portions. The messages themselves are erased by package received, after this call.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for isMore := true; isMore; {
		err := run(ctx, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.q.ErasureMessageCallbacks(ctx, receiptq.ErasureMessageCallbacksParams{
				CompanyID: p.CompanyID, PhoneNumbers: slices.Concat(p.Recipients, p.AtHome), Most: erase.Portion,
			})
			isMore = n == erase.Portion
			return erase.Counts{erase.Callbacks: n}, postgres.Wrap("mask callbacks with messages", err, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
