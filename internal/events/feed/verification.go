package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/platform/postgres"
)

// ended is the data of an event about a verification that has ended. If the verification was deleted, only the id and the reason remain.
type ended struct {
	ID     string `json:"verification_id"`
	Reason string `json:"reason,omitempty"` // why it failed; empty: it was approved
	*endedVerification
}

type endedVerification struct {
	CompanyNo   *string    `json:"company_no,omitempty"`
	Channel     string     `json:"channel"`
	PhoneNumber string     `json:"phone_number"`
	Purpose     string     `json:"purpose"`
	TaskIDs     []string   `json:"task_ids"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	EndedAt     *time.Time `json:"ended_at"`
}

// renderVerifications adds the data of the events about verifications to all, by the id of the event.
func (s *Service) renderVerifications(ctx context.Context, events []Event, all map[int64]json.RawMessage) error {
	stored := map[int64]ended{} // by the id of the event
	var ids []string
	for _, e := range events {
		if e.Type != VerificationApproved && e.Type != VerificationFailed {
			continue
		}
		var of ended
		if err := json.Unmarshal(e.Data, &of); err != nil {
			return fmt.Errorf("read event of a verification: %w", err)
		}
		stored[e.ID], ids = of, append(ids, of.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.q.FeedVerifications(ctx, ids)
	if err != nil {
		return postgres.Wrap("read verifications of events", err, nil)
	}
	kept := make(map[string]feedq.FeedVerificationsRow, len(rows))
	for _, row := range rows {
		kept[row.VerificationID] = row
	}
	for event, of := range stored {
		if v, isKept := kept[of.ID]; isKept {
			of.endedVerification = &endedVerification{
				CompanyNo: v.CompanyNo, Channel: v.Channel, PhoneNumber: v.Recipient, Purpose: v.Purpose, TaskIDs: v.TaskIds,
				CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, EndedAt: v.EndedAt,
			}
		}
		if all[event], err = json.Marshal(of); err != nil {
			return fmt.Errorf("write event of a verification: %w", err)
		}
	}
	return nil
}
