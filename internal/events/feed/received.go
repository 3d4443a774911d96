package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/platform/postgres"
)

// received is the data of an event about a received message. Its fields have the same names as the fields of the message in the contract. If the message was
// deleted, only the id remains.
type received struct {
	ID int64 `json:"received_id"`
	*receivedMessage
}

type receivedMessage struct {
	CompanyNo   *string    `json:"company_no"`
	SenderNo    string     `json:"sender_no"`
	SIM         *int16     `json:"sim"`
	PhoneNumber string     `json:"phone_number"`
	OwnNumber   *string    `json:"own_number"`
	Content     string     `json:"content"`
	Kind        string     `json:"kind"`
	ReceivedAt  *time.Time `json:"received_at"`
	CreatedAt   time.Time  `json:"created_at"`
	MessageNo   *string    `json:"message_no"`
	InReplyTo   *string    `json:"in_reply_to"`
}

// renderReceived returns the data of the events about received messages, by the id of the event. The result is never nil.
func (s *Service) renderReceived(ctx context.Context, events []Event) (map[int64]json.RawMessage, error) {
	stored := map[int64]received{} // by the id of the event
	var ids []int64
	for _, e := range events {
		if e.Type != MessageReceived {
			continue
		}
		var of received
		if err := json.Unmarshal(e.Data, &of); err != nil {
			return nil, fmt.Errorf("read event of a received message: %w", err)
		}
		stored[e.ID], ids = received{ID: of.ID}, append(ids, of.ID)
	}
	all := make(map[int64]json.RawMessage, len(stored))
	if len(ids) == 0 {
		return all, nil
	}
	rows, err := s.q.FeedReceived(ctx, ids)
	if err != nil {
		return nil, postgres.Wrap("read received messages of events", err, nil)
	}
	messages := make(map[int64]feedq.FeedReceivedRow, len(rows))
	for _, row := range rows {
		messages[row.ID] = row
	}
	for event, of := range stored {
		if m, isKept := messages[of.ID]; isKept {
			of.receivedMessage = &receivedMessage{
				CompanyNo: m.CompanyNo, SenderNo: m.SenderNo, SIM: m.Sim, PhoneNumber: m.PhoneNumber, OwnNumber: m.OwnNumber, Content: m.Content, Kind: m.Kind,
				ReceivedAt: m.ReceivedAt, CreatedAt: m.CreatedAt, MessageNo: m.MessageNo, InReplyTo: m.TaskID,
			}
		}
		if all[event], err = json.Marshal(of); err != nil {
			return nil, fmt.Errorf("write event of a received message: %w", err)
		}
	}
	return all, nil
}
