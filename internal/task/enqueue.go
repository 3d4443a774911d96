package task

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
	"lksms/internal/segment"
)

// Telling is what the tasks of a rendering have in common: all but who is told.
type Telling struct {
	Channel     string
	RenderingID int64
	Content     string
	MessageType int16
	Origin
}

// Person is somebody to tell. An empty Address is none on the channel.
type Person struct {
	UserID  string
	Address string
}

// noAddress is the result of a task for somebody who has none.
const noAddress = "收件人在该渠道没有地址"

// contentMost is how much of a rendering stands in its tasks.
const contentMost = 200

// Enqueue stores a task for each person, due now, and gives their ids in the order of people. Who has no address, or one to
// which the company may not send, has failed for good, alone (S1.10). It takes part in the caller's transaction.
func (s *Service) Enqueue(ctx context.Context, t Telling, people []Person) ([]string, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	content := t.Content
	if runes := []rune(content); len(runes) > contentMost {
		content = string(runes[:contentMost])
	}
	p := dbq.TaskEnqueueParams{
		Content: content, SubmittedBy: t.User, CompanyID: t.CompanyID, MessageType: t.MessageType,
		Priority: values.SMS.Priority(t.MessageType), Segments: int16(segment.Count(content)), RenderingID: t.RenderingID,
		NoAddress: noAddress, RequestID: t.RequestID, SourceIp: t.SourceIP, UserAgent: logText(t.UserAgent),
	}
	news := map[int64]int{}
	for _, person := range people {
		place, err := s.senders.Place(ctx, t.Channel, t.CompanyID, t.MessageType, person.Address, true)
		if err != nil {
			if place, err = s.senders.Place(ctx, t.Channel, t.CompanyID, t.MessageType, "", true); err != nil {
				return nil, err
			}
			person.Address = ""
		}
		p.TaskIds, p.UserIds = append(p.TaskIds, NewID()), append(p.UserIds, person.UserID)
		p.Recipients, p.PoolIds = append(p.Recipients, person.Address), append(p.PoolIds, place.PoolID)
		p.CountryNos = append(p.CountryNos, place.CountryNo)
		if person.Address != "" {
			news[place.PoolID]++
		}
	}
	if err := s.q.TaskEnqueue(ctx, p); err != nil {
		return nil, fmt.Errorf("enqueue tasks: %w", err)
	}
	s.db.AfterCommit(ctx, func() {
		for pool, n := range news {
			s.line.wake(pool, min(n, wokenMost))
		}
	})
	return p.TaskIds, nil
}

// Withdraw ends what waits of notifications, keeps what is held from being tried again, and returns how much waited.
func (s *Service) Withdraw(ctx context.Context, notificationIDs []int64, by string) (int, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return 0, fmt.Errorf("withdraw tasks: %w", err)
	}
	n, err := s.q.TaskWithdraw(ctx, dbq.TaskWithdrawParams{NotificationIds: notificationIDs, RequestData: detail})
	return int(n), postgres.Wrap("withdraw tasks", err, nil)
}
