package feed

import (
	"context"
	"slices"
	"strconv"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Pull is a request for events.
type Pull struct {
	task.Viewer
	After    *int64           // the events after this id; nil: the events after this call
	IsFirst  bool             // the events since which no event is missing, instead of those after an id
	Types    []string         // nil: all types
	IsWanted func(Event) bool // decides about the events of these types; nil: all. Used only with Types
	Limit    int
	Wait     time.Duration
	StillMay func(context.Context) error // called before Pull returns events after a wait, because the caller can have lost its permission meanwhile; nil: no check
}

// maxRead is the minimum number of events that one statement reads if the caller filters by type.
const maxRead = 1000

// Pull returns events, oldest first, and the id for the next call. If no event exists, Pull waits for an event. Faults: events.cursor_gone, request.invalid,
// and the errors of StillMay.
func (s *Service) Pull(ctx context.Context, p Pull) (found []Rendered, next int64, err error) {
	if p.CompanyID != nil && slices.ContainsFunc(p.Types, IsOfService) {
		return nil, 0, fault.InvalidField("type", fault.OnlyOfAllCompanies, nil)
	}
	since, err := s.listen(ctx, p.CompanyID)
	if err != nil {
		return nil, 0, err
	}
	if p.After == nil && !p.IsFirst {
		ends, err := s.q.FeedEnds(ctx)
		return nil, ends.LastID, postgres.Wrap("read ends of the feed", err, nil)
	}
	if p.Wait <= 0 {
		return s.read(ctx, p, since, optional.Value(p.After))
	}
	enough := time.NewTimer(p.Wait)
	defer enough.Stop()
	for next = optional.Value(p.After); ; p.IsFirst = false {
		mine := s.watcher.join(p.Viewer) // join before the read, so that an event after the read wakes the waiter
		found, next, err = s.read(ctx, p, since, next)
		if err == nil && len(found) > 0 && p.StillMay != nil {
			err = p.StillMay(ctx)
		}
		if err != nil || len(found) > 0 {
			s.watcher.leave(mine)
			return found, next, err
		}
		if again := s.watcher.await(ctx, mine, enough.C); !again {
			return nil, next, ctx.Err()
		}
	}
}

// listenAgain is the time after which a pull stores its listener again. Not every pull stores it.
const listenAgain = 24 * time.Hour

// listen records the caller of a pull as a listener. It returns the id since which all its events are recorded.
func (s *Service) listen(ctx context.Context, company *int64) (since int64, err error) {
	kept, err := s.Retention(ctx)
	if err != nil {
		return 0, err
	}
	listeners, err := s.q.FeedListeners(ctx, feedq.FeedListenersParams{CompanyID: company, AtLeast: kept - listenAgain})
	if err != nil {
		return 0, postgres.Wrap("find listeners", err, nil)
	}
	if !slices.ContainsFunc(listeners, func(l feedq.FeedListenersRow) bool { return l.IsFresh }) {
		if since, _, err = s.Listen(ctx, company, false); err != nil {
			return 0, err
		}
		listeners = append(listeners, feedq.FeedListenersRow{SinceID: since})
	}
	since = listeners[0].SinceID
	for _, l := range listeners {
		since = min(since, l.SinceID)
	}
	return since, nil
}

// read returns the next events with ids greater than `after`, and the id for the next call. All events with ids greater than `since` were recorded. With
// IsFirst, read begins after the oldest cursor that can still be used.
func (s *Service) read(ctx context.Context, p Pull, since, after int64) (found []Rendered, next int64, err error) {
	limit := p.Limit
	if p.Types != nil {
		limit = max(limit, maxRead)
	}
	for next = after; ; {
		// This statement runs before the events are read: all events up to its last id are already visible, and the next statement reads them.
		ends, err := s.q.FeedEnds(ctx)
		if err != nil {
			return nil, after, postgres.Wrap("read ends of the feed", err, nil)
		}
		rows, err := s.Read(ctx, p.Viewer, next, limit)
		if err != nil {
			return nil, after, err
		}
		// This statement runs after the events were read: rows can lack events that were deleted meanwhile.
		now, err := s.q.FeedEnds(ctx)
		if err != nil {
			return nil, after, postgres.Wrap("read ends of the feed", err, nil)
		}
		switch oldest := max(since, now.PrunedID); {
		case next >= oldest:
		case p.IsFirst:
			next = oldest
			continue
		default:
			return nil, after, cursorGone(oldest)
		}
		if next > now.LastID {
			return nil, after, errNotACursor // the cursor belongs to another database
		}
		if len(rows) < limit {
			next = max(next, ends.LastID)
		}
		if len(rows) > 0 {
			next = max(rows[len(rows)-1].ID, next)
		}
		wanted := rows
		if p.Types != nil {
			wanted = slices.DeleteFunc(slices.Clone(rows), func(e Event) bool { return !slices.Contains(p.Types, e.Type) || p.IsWanted != nil && !p.IsWanted(e) })
			if len(wanted) > p.Limit {
				wanted = wanted[:p.Limit]
				next = wanted[p.Limit-1].ID
			}
		}
		if len(wanted) == 0 && len(rows) == limit {
			continue
		}
		found, err = s.Render(ctx, wanted)
		return found, next, err
	}
}

var errNotACursor = fault.InvalidField("after", fault.NotACursor, nil)

// cursorGone returns the fault of a cursor after which events were deleted or not recorded. oldest is the oldest cursor that can still be used.
func cursorGone(oldest int64) *fault.Error {
	err := fault.New(fault.Conflict, fault.EventsCursorGone)
	err.Oldest = strconv.FormatInt(oldest, 10)
	return err
}

// StopWaiting ends all current waits without events, and prevents further waits, because the server is stopping.
func (s *Service) StopWaiting() { s.watcher.close() }
