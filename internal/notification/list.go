package notification

import (
	"context"
	"fmt"
	"math"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// End gives the notifications of a business that are in one of the states expected, of which Waiting is the usual one, another state,
// and returns how many (S1.6). What waits of them is cancelled, and what a sender holds is not tried again; set to Waiting, those who
// were not reached are told.
func (s *Service) End(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64, bizTask *int64, as int16, expected []int16, operator *string) (int, error) {
	ended := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		held, err := s.lock(ctx, companyID, owner, bizTypes, bizIDs, bizTask)
		if err != nil {
			return err
		}
		ids, err := s.q.NotificationSet(ctx, dbq.NotificationSetParams{Ids: held, Target: as, Expected: expected, Operator: operator})
		if err != nil {
			return fmt.Errorf("set notifications: %w", err)
		}
		if ended = len(ids); as == Waiting {
			return nil
		}
		_, err = s.tasks.Withdraw(ctx, ids, orEmpty(operator))
		return err
	})
	return ended, err
}

func (s *Service) lock(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64, bizTask *int64) ([]int64, error) {
	ids, err := s.q.NotificationLock(ctx, dbq.NotificationLockParams{CompanyID: companyID, Owner: owner, BizTypes: bizTypes, BizIds: bizIDs, BizTaskID: bizTask})
	return ids, postgres.Wrap("hold notifications", err, nil)
}

// Delete hides the notifications of a business and returns how many (S1.6). What waits of them is cancelled; their dedup keys
// are free again.
func (s *Service) Delete(ctx context.Context, companyID int64, owner *string, bizType int16, bizIDs []int64, operator *string) (int, error) {
	deleted := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		ids, err := s.lock(ctx, companyID, owner, []int16{bizType}, bizIDs, nil)
		if err != nil {
			return err
		}
		n, err := s.q.NotificationDelete(ctx, dbq.NotificationDeleteParams{Ids: ids, Operator: operator})
		if err != nil {
			return fmt.Errorf("delete notifications: %w", err)
		}
		deleted = int(n)
		_, err = s.tasks.Withdraw(ctx, ids, orEmpty(operator))
		return err
	})
	return deleted, err
}

var errNoNotification = fault.New(fault.NotFound, fault.NotificationNotFound)

// Filter says which notifications to list; nil means any.
type Filter struct {
	Viewer  queue.Viewer
	BizType *int16
	BizID   *int64
	Channel *string
	UserID  *string // who is told
	Status  *int16
	Before  int64
	Limit   int
}

// scanMost is at how many notifications a page looks that is narrowed by their states, which are those of their tasks.
const scanMost = 2000

// List gives notifications, newest first. Narrowed by state, it gives up when it has looked at scanMost: then before tells where to go on.
func (s *Service) List(ctx context.Context, f Filter) (rows []dbq.NotificationListRow, before int64, err error) {
	p := dbq.NotificationListParams{
		CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, BeforeID: f.Before, PageLimit: int32(f.Limit),
	}
	if f.Status != nil {
		looked, err := s.q.NotificationStatuses(ctx, dbq.NotificationStatusesParams{
			CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, BeforeID: f.Before, ScanLimit: scanMost,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("look at states: %w", err)
		}
		p.Ids = []int64{}
		for _, row := range looked {
			if row.Status == *f.Status && len(p.Ids) < f.Limit {
				p.Ids = append(p.Ids, row.ID)
			}
		}
		if len(looked) == scanMost && len(p.Ids) < f.Limit {
			before = looked[scanMost-1].ID
		}
	}
	rows, err = s.q.NotificationList(ctx, p)
	return rows, before, postgres.Wrap("list notifications", err, nil)
}

// Whole is all of a notification. Lists have only the summaries: an announcement may be long.
type Whole struct {
	Summary      dbq.NotificationListRow
	Announcement dbq.NotificationAnnouncementRow
	People       []dbq.NotificationPeopleRow
}

// Get gives one notification and what became of each person's message. Fault: notification.not_found.
func (s *Service) Get(ctx context.Context, viewer queue.Viewer, id int64) (n Whole, err error) {
	rows, err := s.q.NotificationList(ctx, dbq.NotificationListParams{CompanyID: viewer.CompanyID, Owner: viewer.Owner, ID: &id, BeforeID: math.MaxInt64, PageLimit: 1})
	if err != nil {
		return n, fmt.Errorf("get notification: %w", err)
	}
	if len(rows) == 0 {
		return n, errNoNotification
	}
	n.Summary = rows[0]
	if n.Announcement, err = s.q.NotificationAnnouncement(ctx, id); err != nil {
		return n, fmt.Errorf("get announcement: %w", err)
	}
	n.People, err = s.q.NotificationPeople(ctx, id)
	return n, postgres.Wrap("get recipients", err, nil)
}
