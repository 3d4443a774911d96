package received

import (
	"context"
	"time"

	"lksms/gen/receivedq"
	"lksms/internal/platform/postgres"
)

// maxSeen is the maximum number of messages that Inbox searches.
const maxSeen = 10_000

// InboxRow is a message of Inbox.
type InboxRow = receivedq.ReceivedInboxRow

// InboxFilter selects messages of a company. A nil field matches all.
type InboxFilter struct {
	CompanyID     int64
	Owner         *string // only answers to tasks of this submitter
	SenderNo      *string
	From, To      *time.Time
	Limit, Offset int
}

// Inbox returns a page of messages, newest first, and the number of matching messages. It searches only the maxSeen newest messages of the company. Beyond the last
// page, the number is 0.
func (s *Service) Inbox(ctx context.Context, f InboxFilter) (rows []InboxRow, total int64, err error) {
	rows, err = s.q.ReceivedInbox(ctx, receivedq.ReceivedInboxParams{
		CompanyID: f.CompanyID, Owner: f.Owner, SenderNo: f.SenderNo, FromAt: f.From, ToAt: f.To, MaxSeen: maxSeen,
		Skipped: int32(min(f.Offset, maxSeen)), PageLimit: int32(f.Limit),
	})
	if err != nil {
		return nil, 0, postgres.Wrap("list inbox", err, nil)
	}
	if len(rows) > 0 {
		total = rows[0].Matching
	}
	return rows, total, nil
}
