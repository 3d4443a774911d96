package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/postgres"
)

// causes contains the notifications that can have ended, because an event about them or their tasks was staged.
type causes struct {
	latest   map[int64]time.Time // time of the latest cause of each notification
	recorded []int64             // notifications that an operator ended, or that will not run again
}

// add records that a task of a notification ended. The id 0 means that the task has no notification.
func (c *causes) add(notification int64, at time.Time) {
	if notification != 0 && at.After(c.latest[notification]) {
		c.latest[notification] = at
	}
}

// addStaged records an event that the trigger of the table notifications staged.
func (c *causes) addStaged(e feedq.FeedTakeRow) error {
	var of struct {
		ID int64 `json:"notification_id"`
	}
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return fmt.Errorf("read staged notification: %w", err)
	}
	c.add(of.ID, e.At)
	c.recorded = append(c.recorded, of.ID)
	return nil
}

// appendNotifications appends the events of notifications that have ended, after the events of their tasks. All transactions that staged a cause have
// committed. If a notification has several causes, only the cause that is moved last publishes the end. Each end is therefore published once.
func (s *Service) appendNotifications(ctx context.Context, p *feedq.FeedAppendParams, c causes) error {
	if len(c.latest) == 0 {
		return nil
	}
	over := feedq.FeedNotificationsParams{RecordedIds: append([]int64{}, c.recorded...)}
	for id := range c.latest {
		over.Ids = append(over.Ids, id)
	}
	rows, err := s.q.FeedNotifications(ctx, over)
	if err != nil {
		return fmt.Errorf("find notifications that are over: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	render, oldest := feedq.FeedNotificationsRenderParams{}, rows[0].CreatedAt
	var again feedq.FeedNotificationsAgainParams
	for _, row := range rows {
		render.Ids = append(render.Ids, row.ID)
		again.Ids, again.Ats = append(again.Ids, row.ID), append(again.Ats, c.latest[row.ID])
		if row.CreatedAt.Before(oldest) {
			oldest = row.CreatedAt
		}
	}
	render.FromID = taskid.First(oldest)
	var rendered []feedq.FeedNotificationsRenderRow
	err = s.db.Briefly(ctx, func(ctx context.Context) error {
		rendered, err = s.inParts.FeedNotificationsRender(ctx, render)
		return err
	})
	if postgres.IsLockTimeout(err) { // an old partition of these notifications is being moved to another tablespace: their events wait, other events do not
		return s.q.FeedNotificationsAgain(ctx, again)
	}
	if err != nil {
		return fmt.Errorf("read notifications that are over: %w", err)
	}
	for _, n := range rendered {
		appendEvent(p, n.CompanyID, n.SubmittedBy, NotificationFinished, "", 0, c.latest[n.ID], n.Data)
	}
	return nil
}
