package receipt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/postgres"
)

const (
	takeRun     = 100 // maximum number of callbacks whose messages one run stores
	takePortion = 100 // maximum number of messages that package received stores at once
)

// TakeReceived stores the messages of callbacks in the inbox. Each callback has its own transaction, which also records that its messages are stored. Therefore
// each message is stored once, even without an id and a time. If the transaction fails, another run tries again after at least two seconds, and at most an
// hour. TakeReceived returns the number of callbacks.
func (s *Service) TakeReceived(ctx context.Context) (int, error) {
	var failed error
	for taken := range takeRun {
		var due receiptq.CallbackDueRow
		var stored []received.Stored
		err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
			if due, err = s.q.CallbackDue(ctx); err != nil {
				return err
			}
			if stored, err = s.takeMessages(ctx, due); err != nil {
				return fmt.Errorf("store messages of callback %d: %w", due.ID, err)
			}
			return s.endTurn(ctx, due.ID, stored)
		})
		if err == nil {
			failed = errors.Join(failed, s.inbox.Enforce(ctx, stored)) // after the commit; if it fails, a sweep enforces the blocks
		}
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

// takeMessages stores the messages of a callback in the transaction of ctx.
func (s *Service) takeMessages(ctx context.Context, due receiptq.CallbackDueRow) (all []received.Stored, err error) {
	receivers, err := s.receivers.Get(ctx)
	if err != nil {
		return nil, err
	}
	r := receivers[due.SenderNo]
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
	for portion := range slices.Chunk(messages, takePortion) {
		stored, err := s.inbox.Store(ctx, due.SenderNo, portion)
		if err != nil {
			return nil, err
		}
		all = append(all, stored...)
	}
	return all, nil
}

// endTurn records the stored messages of a callback. If one of the messages was stored before and was erased, endTurn masks the body, because the body repeats
// the message.
func (s *Service) endTurn(ctx context.Context, id int64, stored []received.Stored) error {
	var ids, repeated []int64
	for _, one := range stored {
		ids = append(ids, one.ID)
		if one.Deduplicated {
			repeated = append(repeated, one.ID)
		}
	}
	isErased := false
	if len(repeated) > 0 {
		slices.Sort(repeated)
		areHeld, err := s.q.CallbackMessagesHold(ctx, slices.Compact(repeated))
		if err != nil {
			return fmt.Errorf("lock repeated messages: %w", err)
		}
		isErased = !areHeld
	}
	return postgres.Wrap("end callback", s.q.CallbackTaken(ctx, receiptq.CallbackTakenParams{ID: id, ReceivedIds: ids, IsErased: isErased}), nil)
}

func (r receiver) messageOf(m callback.Message) received.Message {
	return received.Fitting(received.Message{
		From: m.From, Region: m.Region, To: m.To, Content: m.Content, ReceivedAt: m.ReceivedAt, MessageNo: m.MessageNo, Raw: r.mask.Replace(m.Raw),
	})
}
