package mobile

import (
	"cmp"
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

// maxHeld is the maximum number of messages that a phone holds. A phone sends its messages one after the other, and rejects a message that is no longer valid.
// Each rejection delays the message.
const maxHeld = 10

const (
	// maxProbed is the maximum number of messages that a phone holds after a failure, until it has sent a message again.
	maxProbed = 1
	// validMargin is the time before the end of the lease at which a message becomes invalid for the phone. For short leases it is a third of the lease. This
	// time allows for a message that the radio is already sending, and for the clock error of the phone.
	validMargin = time.Minute
	// pullLimit is the timeout of a pull, which continues after its client has disconnected.
	pullLimit = 5 * time.Second
	// pullPoll is the poll interval of a pull that waits for another pull.
	pullPoll = 50 * time.Millisecond
)

// Message is a message that a phone holds.
type Message struct {
	ID          string // see messageID
	PhoneNumber string // number in E.164, because the phone can roam in another country
	Text        string
	Sim         *int16    // slot of the SIM that sends the message; nil: the phone chooses
	CreatedAt   time.Time // start of the lease
	ValidUntil  time.Time // the phone does not begin to send the message after this time, see PhoneHeld
}

// messageID returns the id of a lease's message for the phone. The app stores ids forever and does not send a known id again, so each lease has its own id.
// The lease id alone is not unique: another installation, or the database after a restore, uses the same numbers. With a repeated id, the phone would report
// the state of the older message.
func messageID(taskID string, leaseID int64) string {
	return taskID + "-" + strconv.FormatInt(leaseID, 10)
}

// leaseOf parses an id of messageID. ok is false for any other text.
func leaseOf(id string) (taskID string, leaseID int64, ok bool) {
	at := strings.LastIndexByte(id, '-')
	if at < 1 {
		return "", 0, false
	}
	leaseID, err := strconv.ParseInt(id[at+1:], 10, 64)
	return id[:at], leaseID, err == nil && leaseID > 0 && len(id) <= maxID
}

// maxID is the maximum length of an id that leaseOf accepts.
const maxID = 100

// Pull claims as many messages as the phone can still accept, and returns all messages that the phone has leased. An earlier response can have been lost, so
// Pull returns unreported messages again, under the same id, until they become invalid.
//
// The app aborts a pull when it starts another pull. An aborted pull still runs to its end, and the next pull of the phone waits for this end. Faults: the faults
// of queue.Claim.
func (s *Service) Pull(ctx context.Context, p Phone) ([]Message, error) {
	held, err := s.pull(ctx, p)
	if err != nil {
		return nil, err
	}
	messages := make([]Message, 0, len(held))
	for _, row := range held {
		if row.Sealed != nil {
			text, err := s.sensitive.Open(row.TaskID, *row.Sealed)
			if err != nil { // the server that claimed the message can decrypt it
				continue
			}
			row.Content = text.Handed(row.Sign, row.IsSignInText)
		}
		if row.IsValid {
			messages = append(messages, Message{
				ID: messageID(row.TaskID, row.LeaseID), PhoneNumber: row.Recipient, Text: row.Content, CreatedAt: row.LeasedAt, ValidUntil: row.ValidUntil,
				Sim: cmp.Or(row.LeaseSim, p.SimNumber),
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
	room, err := s.remainingMessages(ctx, p, len(held))
	if err != nil || room == 0 {
		return held, err
	}
	leases, err := s.Queue.Claim(ctx, claim.Request{SenderNo: p.SenderNo, Limit: room, OnLease: p.keep})
	switch {
	case errors.Is(err, errReplaced):
		return nil, nil
	case err != nil || len(leases) == 0:
		return held, err
	}
	return s.held(ctx, p)
}

// beginPull waits for other pulls of a phone. It reports whether this pull is allowed to claim.
func (s *Service) beginPull(ctx context.Context, p Phone) (bool, error) {
	known, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*pullLimit)
	defer cancel()
	enough := time.NewTimer(pullLimit)
	defer enough.Stop()
	poll := time.NewTicker(pullPoll)
	defer poll.Stop()
	for {
		// The right to pull is valid for longer than the pull, because the time limit of the pull starts later. The statement ignores a disconnect of the
		// client. Otherwise it could store a right that no pull ends.
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

// endPull allows the next pull of a phone. If endPull fails, the next pull waits until the right of the current pull expires.
func (s *Service) endPull(ctx context.Context, p Phone) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullLimit)
	defer cancel()
	_ = s.q.PhonePullEnd(ctx, mobileq.PhonePullEndParams{SenderID: p.senderID, DeviceNo: p.DeviceNo})
}

// remainingMessages returns how many more messages a phone can accept. A phone that could not send pauses, and then receives one message as a probe.
func (s *Service) remainingMessages(ctx context.Context, p Phone, held int) (int, error) {
	state, err := s.breaker(ctx, p)
	switch {
	case errors.Is(err, errReplaced):
		return 0, nil
	case err != nil:
		return 0, err
	case state.isOpen:
		return 0, nil
	case state.Openings > 0:
		return max(0, maxProbed-held), nil
	default:
		return max(0, maxHeld-held), nil
	}
}

// hasCapacity reports whether a phone can accept more messages.
func (s *Service) hasCapacity(ctx context.Context, p Phone) (bool, error) {
	held, err := s.held(ctx, p)
	if err != nil {
		return false, err
	}
	room, err := s.remainingMessages(ctx, p, len(held))
	return room > 0, err
}

// held returns the messages that a phone has leased, including messages that have become invalid.
func (s *Service) held(ctx context.Context, p Phone) ([]mobileq.PhoneHeldRow, error) {
	rows, err := s.q.PhoneHeld(ctx, mobileq.PhoneHeldParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, Margin: validMargin})
	if err != nil {
		return nil, fmt.Errorf("read messages that a phone holds: %w", err)
	}
	return rows, nil
}

// errReplaced rolls back a claim.
var errReplaced = errors.New("another phone has been registered")

// keep stores the leases of a claim for the phone, see claim.Request. Without keep, a lease whose response is lost would expire without a report, and its
// message would fail (on_unclear).
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

// AwaitMessages waits until the phone should pull, or until wait has passed. It reports whether messages wait and the phone can accept more. A waiting phone
// counts as polling. A full or paused phone does not count as polling, so that other senders receive its messages.
func (s *Service) AwaitMessages(ctx context.Context, p Phone, wait time.Duration) (bool, error) {
	if has, err := s.hasCapacity(ctx, p); err != nil || !has {
		return false, err
	}
	if err := s.Senders.RecordPoll(ctx, p.SenderNo); err != nil {
		return false, err
	}
	if may, err := s.Queue.AwaitTasks(ctx, p.SenderNo, wait); err != nil || !may {
		return false, err
	}
	return s.hasCapacity(ctx, p)
}
