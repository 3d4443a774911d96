package feed

import (
	"context"
	"sync"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/task"
)

// lookEvery is how often a server with waiters looks for new events, for all of them together.
const lookEvery = 500 * time.Millisecond

// maxNews is the number of events behind which nobody asks any more whose they are.
const maxNews = 10_000

// waiter is somebody who waits for events.
type waiter struct {
	viewer task.Viewer
	woken  chan struct{} // closed when there may be events
}

// watcher looks for new events while somebody waits, and wakes those to whom they belong.
type watcher struct {
	look    func(ctx context.Context, after int64) (of []feedq.FeedNewsRow, all bool, last int64, err error)
	running sync.WaitGroup

	mu       sync.Mutex
	waiters  map[*waiter]struct{}
	isOn     bool // a goroutine looks
	isClosed bool
	stop     context.CancelFunc // of the goroutine
}

// join returns a waiter, which is woken by what can be seen from now on.
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

// await waits until mine is woken, and reports whether it was: not if the time is over, the caller is gone, or the server stops.
func (w *watcher) await(ctx context.Context, mine *waiter, enough <-chan time.Time) bool {
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
	case <-enough:
	case <-ctx.Done():
	}
	return false
}

// run looks for events until nobody waits. Where it begins is not known to those who joined before, so it wakes all of them once.
func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	last, knows := int64(0), false
	for {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		of, all, now, err := w.look(limited, last)
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

// wake wakes those who see events of these companies and submitters.
func (w *watcher) wake(of []feedq.FeedNewsRow, all bool) {
	if !all && len(of) == 0 {
		return
	}
	companies, submitters := map[int64]bool{}, map[feedq.FeedNewsRow]bool{}
	for _, o := range of {
		companies[o.CompanyID], submitters[o] = true, true
	}
	concerns := func(v task.Viewer) bool {
		switch {
		case all || v.CompanyID == nil:
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

// news returns of whom there are events behind an id, or that there are too many to say, and the last id.
func (s *Service) news(ctx context.Context, after int64) (of []feedq.FeedNewsRow, all bool, last int64, err error) {
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

// Waiting is the number of requests that wait for events, or are about to.
func (s *Service) Waiting() int {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	return len(s.watcher.waiters)
}
