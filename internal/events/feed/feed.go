// Package feed owns the feed: the events of messages and batches, in one order for all readers. Programs pull events from the feed, or receive them through
// webhooks.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// These are the types of events.
const (
	MessageSent        = "message.sent"
	MessageFailed      = "message.failed"
	MessageExpired     = "message.expired"
	MessageCancelled   = "message.cancelled"
	MessageDelivered   = "message.delivered"
	MessageUndelivered = "message.undelivered"
	MessageReceived    = "message.received"
	BatchFinished      = "batch.finished"

	NotificationFinished = "notification.finished"

	VerificationApproved = "verification.approved"
	VerificationFailed   = "verification.failed"

	// SenderSilent and the following types are events of the service itself. Only listeners of all companies receive them.
	SenderSilent     = "sender.silent"
	SenderRecovered  = "sender.recovered"
	SenderLowBalance = "sender.low_balance"
	AlertFiring      = "alert.firing"
	AlertResolved    = "alert.resolved"
	AlertNotSent     = "alert.not_sent"
)

// IsOfService reports whether a type is an event of the service itself.
func IsOfService(ofType string) bool {
	return strings.HasPrefix(ofType, "sender.") || strings.HasPrefix(ofType, "alert.")
}

// Service records the feed and reads it.
type Service struct {
	db       *postgres.DB
	settings *setting.Service
	q        *feedq.Queries
	inParts  *feedq.Queries // PostgreSQL plans each statement for its parameters, see DB.InPartitions
	watcher  *watcher
}

// New returns a Service on db. Call Close to stop the Service.
func New(db *postgres.DB, settings *setting.Service) *Service {
	s := &Service{db: db, settings: settings, q: feedq.New(db), inParts: feedq.New(db.InPartitions())}
	s.watcher = &watcher{poll: s.readNewEvents, waiters: map[*waiter]struct{}{}}
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Webhook}, Name: "sequence-feed", Interval: time.Second, Routine: true, Run: s.Sequence},
		{Roles: servers.Roles{servers.Webhook}, Name: "delete-expired-feed", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// portion is the maximum number of events that one transaction of Sequence moves. Such a transaction takes milliseconds.
const portion = 1000

// Sequence moves staged events to the feed and returns the number of moved events. Several servers can call Sequence: their transactions run one after another.
// While a partition is locked, the events of its tasks stay staged, keep their order, and do not delay other events.
func (s *Service) Sequence(ctx context.Context) (moved int, err error) {
	locked := []string{} // days whose partitions are locked
	for isMore := true; isMore; {
		var n int
		var found []string
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			n, found, err = s.sequencePortion(ctx, locked)
			return err
		})
		if errors.Is(err, errLocked) { // try again without the events of locked days
			locked = append(locked, found...)
			continue
		}
		if err != nil {
			return moved, postgres.Wrap("move events to the feed", err, nil)
		}
		moved, isMore = moved+n, n == portion
	}
	if moved == 0 {
		return 0, nil
	}
	// Without VACUUM, the next runs would read the dead rows until autovacuum removes them, about a minute later.
	return moved, postgres.Wrap("vacuum staged events", s.db.Vacuum(ctx, "feed_staged"), nil)
}

// errLocked means that a portion contains events of tasks in a locked partition. It rolls back the transaction of the portion.
var errLocked = errors.New("a partition is locked")

// sequencePortion moves up to portion events. It skips the events of tasks of skippedDays. If it returns errLocked, locked contains further days to
// skip.
func (s *Service) sequencePortion(ctx context.Context, skippedDays []string) (n int, locked []string, err error) {
	if err := s.q.FeedLock(ctx); err != nil {
		return 0, nil, fmt.Errorf("lock feed: %w", err)
	}
	staged, err := s.q.FeedTake(ctx, feedq.FeedTakeParams{LockedDays: skippedDays, Portion: portion})
	if err != nil || len(staged) == 0 {
		return 0, nil, err
	}
	tasks, locked, err := s.submitters(ctx, staged)
	if err != nil {
		return 0, locked, err
	}
	var p feedq.FeedAppendParams
	c := causes{latest: map[int64]time.Time{}}
	for _, e := range staged {
		if e.Type == NotificationFinished {
			if err := c.addStaged(e); err != nil {
				return 0, nil, err
			}
			continue
		}
		if _, isEnd := statuses[e.Type]; isEnd {
			c.add(tasks[e.TaskID].NotificationID, e.At)
		}
		by := tasks[e.TaskID].SubmittedBy
		if e.SubmittedBy != nil {
			by = *e.SubmittedBy
		}
		appendEvent(&p, e.CompanyID, by, e.Type, e.TaskID, e.LogID, e.At, e.Data)
	}
	if err := s.appendNotifications(ctx, &p, c); err != nil {
		return 0, nil, err
	}
	return len(staged), nil, s.q.FeedAppend(ctx, p)
}

// submitters returns the submitters of the tasks of events. If it returns errLocked, locked contains the days of locked partitions. A partition can be locked
// for minutes, while it is moved to another tablespace.
func (s *Service) submitters(ctx context.Context, staged []feedq.FeedTakeRow) (tasks map[string]feedq.FeedSubmittersRow, locked []string, err error) {
	tasks = map[string]feedq.FeedSubmittersRow{}
	read := func(ids []string) error {
		return s.db.Briefly(ctx, func(ctx context.Context) error {
			rows, err := s.inParts.FeedSubmitters(ctx, ids)
			for _, row := range rows {
				tasks[row.TaskID] = row
			}
			return err
		})
	}
	var all []string
	days := map[string][]string{}
	for _, e := range staged {
		if e.TaskID != "" {
			day := taskid.DayOf(e.TaskID)
			all, days[day] = append(all, e.TaskID), append(days[day], e.TaskID)
		}
	}
	if len(all) == 0 {
		return tasks, nil, nil
	}
	if err = read(all); !postgres.IsLockTimeout(err) {
		return tasks, nil, postgres.Wrap("find submitters", err, nil)
	}
	for day, ids := range days {
		switch err := read(ids); {
		case postgres.IsLockTimeout(err) && day != "": // tasks without a day are in a partition that never moves
			locked = append(locked, day)
		case err != nil:
			return nil, nil, postgres.Wrap("find submitters of a day", err, nil)
		}
	}
	if len(locked) > 0 {
		return nil, locked, errLocked
	}
	return tasks, nil, nil
}

func appendEvent(p *feedq.FeedAppendParams, company int64, by, ofType, task string, log int64, at time.Time, data []byte) {
	p.CompanyIds, p.Submitters, p.Types = append(p.CompanyIds, company), append(p.Submitters, by), append(p.Types, ofType)
	p.TaskIds, p.LogIds, p.Ats, p.Datas = append(p.TaskIds, task), append(p.LogIds, log), append(p.Ats, at), append(p.Datas, data)
}

// deleteBatch is the maximum number of events that one transaction of DeleteExpired deletes.
const deleteBatch = 10_000

// Retention returns the time for which events are stored. Events are also recorded for this time after the last pull. Retention is longer than the time after
// which a failing webhook is switched off, so that all unposted events of the webhook still exist then.
func (s *Service) Retention(ctx context.Context) (time.Duration, error) {
	values, err := s.settings.Get(ctx)
	return values.History.FeedKept(), err
}

// DeleteExpired deletes events older than Retention, and expired listeners. It returns the number of deleted events. If a webhook loses events because it is
// too slow or its user was disabled for too long, the same transaction stores an operator event.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	kept, err := s.Retention(ctx)
	if err != nil {
		return 0, err
	}
	n, err := postgres.InBatches(deleteBatch, func() (n int64, err error) {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			old, err := s.q.FeedOld(ctx, feedq.FeedOldParams{BatchSize: deleteBatch, Keep: kept})
			if n = 0; err != nil || len(old) == 0 {
				return err
			}
			behind, err := s.q.WebhooksBehind(ctx, slices.Max(old))
			if err != nil {
				return err
			}
			gone, err := s.q.FeedDeleteExpired(ctx, feedq.FeedDeleteExpiredParams{Ids: old, WebhookIds: append([]int64{}, behind...)})
			if n = gone.Events; err != nil || n == 0 {
				return err
			}
			return s.q.FeedPruned(ctx, gone.LastID)
		})
		return n, err
	})
	if err != nil {
		return n, postgres.Wrap("delete events", err, nil)
	}
	_, err = s.q.FeedListenersDeleteUnused(ctx)
	return n, postgres.Wrap("delete listeners", err, nil)
}

// Listen starts to record the events of a company; nil: of all companies. Recording ends after the Retention. If isPushed is true, it also continues as long as
// the company has enabled webhooks. All events with ids greater than `since` were recorded; `last` is the last id.
func (s *Service) Listen(ctx context.Context, company *int64, isPushed bool) (since, last int64, err error) {
	kept, err := s.Retention(ctx)
	if err != nil {
		return 0, 0, err
	}
	ends, err := s.q.FeedEnds(ctx)
	if err != nil {
		return 0, 0, postgres.Wrap("read ends of the feed", err, nil)
	}
	since, err = s.q.FeedListen(ctx, feedq.FeedListenParams{CompanyID: company, SinceID: ends.LastID, IsPushed: isPushed, Listens: kept})
	return since, ends.LastID, postgres.Wrap("listen", err, nil)
}

// Close ends all waiting pulls. It returns after all goroutines of the Service have ended.
func (s *Service) Close() {
	s.StopWaiting()
	s.watcher.running.Wait()
}
