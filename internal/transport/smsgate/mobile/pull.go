package mobile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lksms/gen/mobileq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// maxHeld is how many messages a phone holds at a time. A phone sends one after the other, and refuses those whose lease ended meanwhile; each such
// refusal costs an attempt.
const maxHeld = 10

const (
	// maxProbed is how many messages a phone holds that could not send and has not sent since.
	maxProbed = 1
	// validMargin is how long before the end of its lease a message is no longer valid, for the message that is with the radio already, and for the
	// clock of the phone.
	validMargin = time.Minute
	// pullLimit is how long a pull works, also after its caller has gone.
	pullLimit = 5 * time.Second
	// pullPoll is the time between polls of a pull that waits for another one.
	pullPoll = 50 * time.Millisecond
)

// Message is a message that a phone holds.
type Message struct {
	ID          string // see messageID
	PhoneNumber string // in E.164: the phone may roam
	Text        string
	CreatedAt   time.Time // of the lease
	ValidUntil  time.Time // when the message expires, or validMargin before the end of the lease if that is earlier
}

// messageID returns the id under which a phone knows the message of a lease. The app remembers ids for ever, and does not send again what it knows:
// each lease is another message to it. The number of a lease alone would repeat in another installation, or after a backup was restored, and the
// phone would answer with the state of the other message.
func messageID(taskID string, leaseID int64) string {
	return taskID + "-" + strconv.FormatInt(leaseID, 10)
}

// leaseOf reads an id of messageID.
func leaseOf(id string) (taskID string, leaseID int64, ok bool) {
	at := strings.LastIndexByte(id, '-')
	if at < 1 {
		return "", 0, false
	}
	leaseID, err := strconv.ParseInt(id[at+1:], 10, 64)
	return id[:at], leaseID, err == nil && leaseID > 0 && len(id) <= maxID
}

// maxID is the length of the longest id that is read.
const maxID = 100

// Pull returns the messages that a phone holds, after it claimed as many as it may hold more. What it was given before and has not reported is given
// again under the same id, because the answer may have been lost, until it is no longer valid. The app breaks off a pull when it begins another one:
// a pull goes on without its caller, and others of the phone wait for it. Faults: those of queue.Claim.
func (s *Service) Pull(ctx context.Context, p Phone) ([]Message, error) {
	held, err := s.pull(ctx, p)
	if err != nil {
		return nil, err
	}
	messages := make([]Message, 0, len(held))
	for _, row := range held {
		if row.IsValid {
			messages = append(messages, Message{
				ID: messageID(row.TaskID, row.LeaseID), PhoneNumber: row.Recipient, Text: row.Content, CreatedAt: row.LeasedAt, ValidUntil: row.ValidUntil,
			})
		}
	}
	return messages, nil
}

func (s *Service) pull(ctx context.Context, p Phone) ([]mobileq.PhoneHeldRow, error) {
	if isFirst, err := s.beginPull(ctx, p); err != nil {
		return nil, err
	} else if !isFirst {
		return s.held(ctx, p)
	}
	defer s.endPull(ctx, p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullLimit)
	defer cancel()
	held, err := s.held(ctx, p)
	if err != nil {
		return nil, err
	}
	room, err := s.room(ctx, p, len(held))
	if err != nil || room == 0 {
		return held, err
	}
	leases, err := s.Queue.Claim(ctx, claim.Request{SenderNo: p.SenderNo, Limit: room, Note: p.keep})
	switch {
	case errors.Is(err, errReplaced):
		return nil, nil
	case err != nil || len(leases) == 0:
		return held, err
	}
	return s.held(ctx, p)
}

// beginPull waits for other pulls of a phone, and reports whether this one may claim now.
func (s *Service) beginPull(ctx context.Context, p Phone) (bool, error) {
	known, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*pullLimit)
	defer cancel()
	enough := time.NewTimer(pullLimit)
	defer enough.Stop()
	poll := time.NewTicker(pullPoll)
	defer poll.Stop()
	for {
		// The right outlasts the pull: pullLimit begins later. A caller that goes away during the statement must not leave a right of which nobody knows.
		n, err := s.q.PhonePullBegin(known, mobileq.PhonePullBeginParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, ValidFor: 2 * pullLimit})
		if err != nil {
			return false, fmt.Errorf("begin pull of phone: %w", err)
		}
		if n > 0 {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("wait for pull of phone: %w", ctx.Err())
		case <-enough.C:
			return false, nil
		case <-poll.C:
		}
	}
}

// endPull lets the next pull of a phone begin. If that fails, the next one waits until the right of this one ends.
func (s *Service) endPull(ctx context.Context, p Phone) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullLimit)
	defer cancel()
	_ = s.q.PhonePullEnd(ctx, mobileq.PhonePullEndParams{SenderID: p.senderID, DeviceNo: p.DeviceNo})
}

// room returns how many messages a phone may hold more than held. A phone that could not send pauses, and then tries one message.
func (s *Service) room(ctx context.Context, p Phone, held int) (int, error) {
	state, err := s.q.PhoneTroubles(ctx, mobileq.PhoneTroublesParams{SenderID: p.senderID, DeviceNo: p.DeviceNo})
	switch {
	case postgres.IsNoRows(err): // another phone has been registered
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read troubles of phone: %w", err)
	case state.IsPaused:
		return 0, nil
	case state.Troubles > 0:
		return max(0, maxProbed-held), nil
	default:
		return max(0, maxHeld-held), nil
	}
}

// hasRoom reports whether a phone may hold more messages.
func (s *Service) hasRoom(ctx context.Context, p Phone) (bool, error) {
	held, err := s.held(ctx, p)
	if err != nil {
		return false, err
	}
	room, err := s.room(ctx, p, len(held))
	return room > 0, err
}

// held returns the messages that a phone holds, also those that are no longer valid.
func (s *Service) held(ctx context.Context, p Phone) ([]mobileq.PhoneHeldRow, error) {
	rows, err := s.q.PhoneHeld(ctx, mobileq.PhoneHeldParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, Margin: validMargin})
	if err != nil {
		return nil, fmt.Errorf("read messages that a phone holds: %w", err)
	}
	return rows, nil
}

// errReplaced undoes a claim.
var errReplaced = errors.New("another phone has been registered")

// keep stores the leases of a claim for the phone, see claim.Request. A lease that no phone knows would end unreported, and fail its message
// (on_unclear).
func (p Phone) keep(ctx context.Context, tx postgres.Runner, leases []claim.Lease) error {
	params := mobileq.PhoneLeasesKeepParams{SenderID: p.senderID, DeviceNo: p.DeviceNo}
	for _, l := range leases {
		params.LeaseIds, params.TaskIds = append(params.LeaseIds, l.LeaseID), append(params.TaskIds, l.TaskID)
	}
	n, err := mobileq.New(tx).PhoneLeasesKeep(ctx, params)
	if err != nil {
		return fmt.Errorf("store leases of phone: %w", err)
	}
	if n == 0 {
		return errReplaced
	}
	return nil
}

// AwaitMessages waits for up to wait until a phone should pull, and reports whether it should: messages may wait for it, and it may hold more. A phone
// that waits counts as one that polls. One that is full or paused does not: its messages are for other senders.
func (s *Service) AwaitMessages(ctx context.Context, p Phone, wait time.Duration) (bool, error) {
	if has, err := s.hasRoom(ctx, p); err != nil || !has {
		return false, err
	}
	if err := s.Senders.Polled(ctx, p.SenderNo); err != nil {
		return false, err
	}
	if may, err := s.Queue.AwaitTasks(ctx, p.SenderNo, wait); err != nil || !may {
		return false, err
	}
	return s.hasRoom(ctx, p)
}
