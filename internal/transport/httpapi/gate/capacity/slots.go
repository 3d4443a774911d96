package capacity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// While another company is active, the costly requests of one company use at most an eighth of the processors: processors/slotPart
// requests run at once. With fewer than eight processors one request runs at a time, and the next one starts after a pause, which is at
// most maxPause: a company whose requests are slower gets more. Companies get slots in turn, by request, not by duration.
// The costly requests of all companies use at most half of the processors, so that two do not take both of a small machine. A request
// occupies the server and PostgreSQL in turn, so the bound holds for both together. A company that is active alone has no bound.
const (
	slotPart   = 8
	maxPause   = 2 * time.Second        // a request may have been slow for another reason
	gonePause  = 250 * time.Millisecond // at least, after a request whose caller went: PostgreSQL may still be busy with it
	slotWait   = 10 * time.Second       // a request that gets no slot within this time is rejected
	maxWaiters = 32                     // of one company; more are rejected at once
	slotCheck  = 20 * time.Millisecond  // how often it is checked whether a pause is over or a company has become inactive
	idleAfter  = time.Second            // a company without requests for this long is not active
)

// Slots limit the costly requests of each company. Among companies whose requests wait, the one goes first that has waited longest since
// its latest slot, however many of its requests wait.
type Slots struct {
	most   int     // requests at once
	atOnce int     // of them, those of one company
	pause  float64 // after a request, as a multiple of its duration

	mu         sync.Mutex
	companies  map[string]*companySlots // those with requests that run or wait, or with a pause
	last       string                   // the company of the latest request
	lastAt     time.Time                // time of the latest request
	othersAt   time.Time                // time of the latest request of any company but last
	isChecking bool                     // whether checkLater has a timer running
}

type companySlots struct {
	running    int
	waiting    []chan struct{} // closed when the request gets its slot; the first one is next
	since      time.Time       // when the first one began to wait, or the latest one got its slot if that is later
	pauseUntil time.Time
}

// NewSlots returns Slots for a number of processors.
func NewSlots(processors int) *Slots {
	return &Slots{
		most: max(1, processors/2), atOnce: max(1, processors/slotPart), pause: max(0, float64(slotPart)/float64(processors)-1),
		companies: map[string]*companySlots{},
	}
}

// See records a request of a company.
func (s *Slots) See(company string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if company != s.last {
		s.last, s.othersAt = company, s.lastAt
	}
	s.lastAt = time.Now()
}

// Take waits for a slot of a company. leave frees the slot; further calls of it do nothing. Faults: request.too_much, and
// service.unavailable if the requests of others took the time.
func (s *Slots) Take(ctx context.Context, company string) (leave func(), err error) {
	mine, err := s.join(company)
	if err != nil {
		return nil, err
	}
	enough := time.NewTimer(slotWait)
	defer enough.Stop()
	select {
	case <-mine:
	case <-enough.C:
		err = s.late(company)
	case <-ctx.Done():
		err = fmt.Errorf("wait for a slot: %w", ctx.Err())
	}
	if err != nil {
		if !s.quit(company, mine) {
			s.end(company, 0, false) // the slot came at the same time
		}
		return nil, err
	}
	began := time.Now()
	return sync.OnceFunc(func() { s.end(company, time.Since(began), ctx.Err() != nil) }), nil
}

// late returns why a request of a company got no slot in time.
func (s *Slots) late(company string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.companies[company]; own.running > 0 || time.Since(own.since) < slotWait {
		return errTooMuch
	}
	return ErrUnavailable
}

// join puts a request in the queue of its company. It may get its slot at once.
func (s *Slots) join(company string) (mine chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.companies[company]
	if own == nil {
		own = &companySlots{}
		s.companies[company] = own
	}
	now := time.Now()
	if len(own.waiting) == 0 {
		own.since = now
	}
	mine = make(chan struct{})
	own.waiting = append(own.waiting, mine)
	s.grant(now)
	if len(own.waiting) > maxWaiters {
		own.waiting = own.waiting[:maxWaiters]
		return nil, errTooMuch
	}
	s.checkLater()
	return mine, nil
}

// quit takes a request out of the queue, and reports whether it was still waiting.
func (s *Slots) quit(company string, mine chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.companies[company]
	i := slices.Index(own.waiting, mine)
	if i < 0 {
		return false
	}
	own.waiting = slices.Delete(own.waiting, i, i+1)
	s.dropIdle(time.Now())
	return true
}

func (s *Slots) end(company string, took time.Duration, isGone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, now := s.companies[company], time.Now()
	own.running--
	pause := min(maxPause, time.Duration(s.pause*float64(took)))
	if isGone {
		pause = max(pause, gonePause)
	}
	if until := now.Add(pause); until.After(own.pauseUntil) {
		own.pauseUntil = until
	}
	s.grant(now)
	s.dropIdle(now)
}

// grant gives the slots that are free now to the requests that wait.
func (s *Slots) grant(now time.Time) {
	for {
		var next *companySlots
		counted := 0
		for _, one := range s.companies {
			if one.running <= s.atOnce { // a company with more was alone when they began: nobody waits until they are done
				counted += one.running
			}
		}
		for name, one := range s.companies {
			may := one.running < s.atOnce && counted < s.most && !now.Before(one.pauseUntil) || s.isAlone(name, now)
			if len(one.waiting) > 0 && may && (next == nil || one.since.Before(next.since)) {
				next = one
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0])
		next.waiting = next.waiting[1:]
		next.running++
		next.since = now
	}
}

// isAlone reports whether no other company is active. A company is active while its requests run or wait, and for idleAfter after a
// request.
func (s *Slots) isAlone(company string, now time.Time) bool {
	othersAt := s.lastAt
	if company == s.last {
		othersAt = s.othersAt
	}
	if now.Sub(othersAt) < idleAfter {
		return false
	}
	for name, one := range s.companies {
		if name != company && one.running+len(one.waiting) > 0 {
			return false
		}
	}
	return true
}

// checkLater calls grant every slotCheck while requests wait: pauses end, and companies become inactive.
func (s *Slots) checkLater() {
	if s.isChecking || !s.hasWaiting() {
		return
	}
	s.isChecking = true
	time.AfterFunc(slotCheck, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.isChecking = false
		s.grant(time.Now())
		s.checkLater()
	})
}

// Active returns the number of companies whose requests run, wait, or have ended so recently that the next one must wait.
func (s *Slots) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.companies)
}

func (s *Slots) hasWaiting() bool {
	for _, one := range s.companies {
		if len(one.waiting) > 0 {
			return true
		}
	}
	return false
}

// dropIdle drops the companies without running or waiting requests whose pause is over.
func (s *Slots) dropIdle(now time.Time) {
	for company, one := range s.companies {
		if one.running == 0 && len(one.waiting) == 0 && !now.Before(one.pauseUntil) {
			delete(s.companies, company)
		}
	}
}
