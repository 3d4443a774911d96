package feed

import (
	"context"
	"sync"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/task"
)

// pollInterval is the time between two polls for new events while callers wait. One poll serves all waiters of this server.
const pollInterval = 500 * time.Millisecond

// maxNews is the maximum number of new events that a poll reads. If more events are new, the poll wakes all waiters instead.
const maxNews = 10_000

// waiter is a caller that waits for events.
type waiter struct {
	viewer task.Viewer
	woken  chan struct{} // closed when new events can exist
}

// watcher polls for new events while callers wait, and wakes the callers that can see these events.
type watcher struct {
	poll    func(ctx context.Context, after int64) (of []feedq.FeedNewsRow, all bool, last int64, err error)
	running sync.WaitGroup

	mu       sync.Mutex
	waiters  map[*waiter]struct{}
	isOn     bool // the polling goroutine is running
	isClosed bool
	stop     context.CancelFunc // stops the polling goroutine
}

// join returns a new waiter, which is woken when an event becomes visible later.
func (w *watcher) join(viewer task.Viewer) *waiter {
	mine := &waiter{viewer: viewer, woken: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed {
		return mine
	}
	w.waiters[mine] = struct{}{}
	return mine
}

func (w *watcher) leave(mine *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, mine)
}

// await returns true after mine was woken. It returns false if the time is over, ctx ends, or the server stops.
func (w *watcher) await(ctx context.Context, mine *waiter, timeout <-chan time.Time) bool {
	defer w.leave(mine)
	w.mu.Lock()
	if w.isClosed {
		w.mu.Unlock()
		return false
	}
	if !w.isOn {
		w.isOn = true
		looking, stop := context.WithCancel(context.Background())
		w.stop = stop
		w.running.Go(func() { w.run(looking) })
	}
	w.mu.Unlock()
	select {
	case <-mine.woken:
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.isClosed
	case <-timeout:
	case <-ctx.Done():
	}
	return false
}

// run polls for events until no caller waits. The first poll wakes all callers, because a caller can have missed events between its own read and the first
// poll.
func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last, knows := int64(0), false
	for {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		of, all, now, err := w.poll(limited, last)
		cancel()
		w.mu.Lock()
		if err == nil {
			w.wake(of, all || !knows)
			last, knows = now, true
		}
		if len(w.waiters) == 0 || w.isClosed {
			w.isOn = false
			w.stop()
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// wake wakes the waiters that can see an event of these companies and submitters. If wakeAll is true, it wakes every waiter.
func (w *watcher) wake(of []feedq.FeedNewsRow, wakeAll bool) {
	if !wakeAll && len(of) == 0 {
		return
	}
	companies, submitters := map[int64]bool{}, map[feedq.FeedNewsRow]bool{}
	for _, o := range of {
		companies[o.CompanyID], submitters[o] = true, true
	}
	concerns := func(v task.Viewer) bool {
		switch {
		case wakeAll || v.CompanyID == nil:
			return true
		case v.Owner == nil:
			return companies[*v.CompanyID]
		default:
			return submitters[feedq.FeedNewsRow{CompanyID: *v.CompanyID, SubmittedBy: *v.Owner}]
		}
	}
	for mine := range w.waiters {
		if !concerns(mine.viewer) {
			continue
		}
		delete(w.waiters, mine)
		close(mine.woken)
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed {
		return
	}
	w.isClosed = true
	w.wake(nil, true)
	if w.stop != nil {
		w.stop()
	}
}

// readNewEvents returns the companies and submitters of the events after the given id, and the last id. If too many events are new, it sets wakeAll instead of
// reading them.
func (s *Service) readNewEvents(ctx context.Context, after int64) (of []feedq.FeedNewsRow, wakeAll bool, last int64, err error) {
	ends, err := s.q.FeedEnds(ctx)
	if err != nil || ends.LastID == after {
		return nil, false, ends.LastID, err
	}
	if ends.LastID-after > maxNews {
		return nil, true, ends.LastID, nil
	}
	of, err = s.q.FeedNews(ctx, feedq.FeedNewsParams{AfterID: after, LastID: ends.LastID})
	return of, false, ends.LastID, err
}

// Waiting returns the number of requests that wait for events or are about to do so.
func (s *Service) Waiting() int {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	return len(s.watcher.waiters)
}
