package smsgate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/queue/claim"
)

// heldMost is how many messages a phone holds at a time. A phone sends one after the other, and refuses those whose lease ended meanwhile; each such
// refusal costs an attempt.
const heldMost = 10

const keepLimit = 5 * time.Second

// Message is a message that a phone holds.
type Message struct {
	ID          string // see messageID
	PhoneNumber string // in E.164: the phone may roam
	Text        string
	CreatedAt   time.Time
	ValidUntil  time.Time // the end of the lease
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
	return id[:at], leaseID, err == nil && leaseID > 0 && len(id) <= idMost
}

// idMost is the length of the longest id that is read.
const idMost = 100

// Pull returns the messages that a phone holds, after it claimed as many as it may hold more. What it was given before and has not reported is given
// again under the same id, because the answer may have been lost. Faults: those of queue.Claim.
func (s *Service) Pull(ctx context.Context, p Phone) ([]Message, error) {
	held, err := s.held(ctx, p)
	if err != nil {
		return nil, err
	}
	if room := heldMost - len(held); room > 0 {
		leases, err := s.Queue.Claim(ctx, claim.Request{SenderNo: p.SenderNo, Limit: room})
		if err != nil {
			return nil, err
		}
		if len(leases) > 0 {
			if err := s.keep(ctx, p, leases); err != nil {
				return nil, err
			}
			if held, err = s.held(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	messages := make([]Message, len(held))
	for i, row := range held {
		messages[i] = Message{
			ID: messageID(row.TaskID, row.LeaseID), PhoneNumber: row.Recipient, Text: row.Content, CreatedAt: row.CreatedAt, ValidUntil: row.LeaseUntil,
		}
	}
	return messages, nil
}

func (s *Service) held(ctx context.Context, p Phone) ([]dbq.PhoneHeldRow, error) {
	rows, err := s.q.PhoneHeld(ctx, dbq.PhoneHeldParams{SenderID: p.senderID, DeviceNo: p.DeviceNo})
	if err != nil {
		return nil, fmt.Errorf("read messages that a phone holds: %w", err)
	}
	return rows, nil
}

// keep notes leases, also for a phone that has gone meanwhile. If that fails, nobody sends these messages before their leases end, and then they wait
// again.
func (s *Service) keep(ctx context.Context, p Phone, leases []claim.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	params := dbq.PhoneLeasesKeepParams{SenderID: p.senderID, DeviceNo: p.DeviceNo}
	for _, l := range leases {
		params.LeaseIds, params.TaskIds = append(params.LeaseIds, l.LeaseID), append(params.TaskIds, l.TaskID)
	}
	if err := s.q.PhoneLeasesKeep(ctx, params); err != nil {
		return fmt.Errorf("note leases of phone: %w", err)
	}
	return nil
}

// AwaitMessages waits for up to wait until a phone should pull, and reports whether it should: messages may wait for it, and it may hold more. A phone
// that waits counts as one that polls.
func (s *Service) AwaitMessages(ctx context.Context, p Phone, wait time.Duration) (bool, error) {
	if err := s.Senders.Polled(ctx, p.SenderNo); err != nil {
		return false, err
	}
	if may, err := s.Queue.AwaitTasks(ctx, p.SenderNo, wait); err != nil || !may {
		return false, err
	}
	held, err := s.held(ctx, p)
	return len(held) < heldMost, err
}
