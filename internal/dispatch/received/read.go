package received

import (
	"context"

	"lksms/gen/receivedq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/postgres"
)

// readBatch is the maximum number of messages that one statement marks as read.
const readBatch = 1000

// ReadUpTo marks the messages of a company and a number as read by a user, up to and including the id upTo. It returns the number of messages that were unread.
// viewer limits the messages to answers to tasks of its owner.
func (s *Service) ReadUpTo(ctx context.Context, viewer task.Viewer, companyID int64, number string, upTo int64, username string) (int, error) {
	return postgres.InBatches(readBatch, func() (int64, error) {
		n, err := s.q.ReceivedReadUpTo(ctx, receivedq.ReceivedReadUpToParams{
			CompanyID: companyID, PhoneNumber: number, Owner: viewer.Owner, UpTo: upTo, Username: username, MaxRows: readBatch,
		})
		return n, postgres.Wrap("mark received messages as read", err, nil)
	})
}
