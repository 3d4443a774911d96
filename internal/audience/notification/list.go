package notification

import (
	"context"
	"fmt"
	"math"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// By is the LKSMS user who makes a change. If the request names a person on whose behalf the user acts, Operator is this person.
type By struct {
	User     string
	Operator *string
}

// End sets notifications of a business object to another state, and returns their number (S1.6). It changes only notifications in one of the expected states,
// usually Waiting. It cancels their waiting tasks and stops the retries of their leased tasks. If the new state is Waiting, it cancels nothing, and recipients
// that were not reached get a new task later.
func (s *Service) End(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64, as int16, expected []int16, by By) (int, error) {
	ended := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		held, err := s.lock(ctx, companyID, owner, bizTypes, bizIDs)
		if err != nil {
			return err
		}
		ended, err = s.set(ctx, held, as, expected, by)
		return err
	})
	return ended, err
}

// set works like End for notifications that the caller has locked. It uses the transaction of the caller.
func (s *Service) set(ctx context.Context, held []int64, as int16, expected []int16, by By) (int, error) {
	ids, err := s.q.NotificationSet(ctx, notificationq.NotificationSetParams{Ids: held, Target: as, Expected: expected, Operator: by.Operator, ChangedBy: by.User})
	if err != nil {
		return 0, fmt.Errorf("set state of notifications: %w", err)
	}
	if as == Waiting {
		return len(ids), nil
	}
	_, err = s.tasks.Withdraw(ctx, ids, optional.Or(by.Operator, by.User))
	return len(ids), err
}

// lock locks the notifications of a business object, and returns their ids.
func (s *Service) lock(ctx context.Context, companyID int64, owner *string, bizTypes []int16, bizIDs []int64) ([]int64, error) {
	ids, err := s.q.NotificationLock(ctx, notificationq.NotificationLockParams{CompanyID: companyID, Owner: owner, BizTypes: bizTypes, BizIds: bizIDs})
	return ids, postgres.Wrap("lock notifications", err, nil)
}

// Delete marks the notifications of a business object as deleted, and returns their number (S1.6). It cancels their waiting tasks. Their dedup keys can be used
// again.
func (s *Service) Delete(ctx context.Context, companyID int64, owner *string, bizType int16, bizIDs []int64, by By) (int, error) {
	deleted := 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		ids, err := s.lock(ctx, companyID, owner, []int16{bizType}, bizIDs)
		if err != nil {
			return err
		}
		n, err := s.q.NotificationDelete(ctx, notificationq.NotificationDeleteParams{Ids: ids, Operator: by.Operator, ChangedBy: by.User})
		if err != nil {
			return fmt.Errorf("delete notifications: %w", err)
		}
		deleted = int(n)
		_, err = s.tasks.Withdraw(ctx, ids, optional.Or(by.Operator, by.User))
		return err
	})
	return deleted, err
}

var errNoNotification = fault.New(fault.NotFound, fault.NotificationNotFound)

// Filter selects notifications to list. A nil field matches all.
type Filter struct {
	Viewer  task.Viewer
	BizType *int16
	BizID   *int64
	Channel *string
	UserID  *string // user id of one of the recipients

	SubmittedBy *string
	Status      *int16
	Before      int64
	Limit       int
}

// maxScan is the maximum number of notifications that a page with a filter by state reads. The state is not stored: it is computed from the tasks.
const maxScan = 2000

// List returns notifications, newest first. With a filter by state, List reads at most maxScan notifications. If the page is not full then, `before` is the id
// at which the next page continues. Otherwise `before` is 0.
func (s *Service) List(ctx context.Context, f Filter) (rows []Row, before int64, err error) {
	p := notificationq.NotificationListParams{
		CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, SubmittedBy: f.SubmittedBy,
		BeforeID: f.Before, PageLimit: int32(f.Limit),
	}
	if f.Status != nil {
		scanned, err := s.q.NotificationStatuses(ctx, notificationq.NotificationStatusesParams{
			CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BizType: f.BizType, BizID: f.BizID, Channel: f.Channel, UserID: f.UserID, SubmittedBy: f.SubmittedBy,
			BeforeID: f.Before, ScanLimit: maxScan,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("read states: %w", err)
		}
		p.Ids = []int64{}
		for _, row := range scanned {
			if row.Status == *f.Status && len(p.Ids) < f.Limit {
				p.Ids = append(p.Ids, row.ID)
			}
		}
		if len(scanned) == maxScan && len(p.Ids) < f.Limit {
			before = scanned[maxScan-1].ID
		}
	}
	rows, err = s.q.NotificationList(ctx, p)
	return rows, before, postgres.Wrap("list notifications", err, nil)
}

// Whole is a notification with its announcement and recipients. Lists contain only Row, because an announcement can be long.
type Whole struct {
	Summary      Row
	Announcement notificationq.NotificationAnnouncementRow
	People       []PersonRow
	Receipts     notificationq.NotificationReceiptsRow
}

// maxPeople is the maximum number of recipients that Get returns for a notification to a tag.
const maxPeople = 1000

// Get returns one notification with the outcome of each recipient's task. Fault: notification.not_found.
func (s *Service) Get(ctx context.Context, viewer task.Viewer, id int64) (n Whole, err error) {
	rows, err := s.q.NotificationList(ctx, notificationq.NotificationListParams{CompanyID: viewer.CompanyID, Owner: viewer.Owner, ID: &id, BeforeID: math.MaxInt64, PageLimit: 1})
	if n.Summary, err = postgres.One(rows, err, "get notification", errNoNotification); err != nil {
		return n, err
	}
	if n.Announcement, err = s.q.NotificationAnnouncement(ctx, id); err != nil {
		return n, fmt.Errorf("get announcement: %w", err)
	}
	if n.Receipts, err = s.q.NotificationReceipts(ctx, id); err != nil {
		return n, fmt.Errorf("count receipts: %w", err)
	}
	n.People, err = s.q.NotificationPeople(ctx, notificationq.NotificationPeopleParams{ID: id, MaxPeople: maxPeople})
	return n, postgres.Wrap("get recipients", err, nil)
}

// Countries returns the countries of the waiting and leased tasks of a notification, as explain.Messages expects them.
func (s *Service) Countries(ctx context.Context, id int64) ([]string, error) {
	countries, err := s.q.NotificationCountries(ctx, &id)
	return countries, postgres.Wrap("get countries", err, nil)
}
