package capacity

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Costly requests share the processors by these rules:
//
//   - While another company is active, the costly requests of one company use at most an eighth of the processors: processors/slotPart requests run at
//     the same time. With fewer than eight processors, one request runs at a time. The next request starts after a pause of at most maxPause, so a
//     company with slower requests gets more than its share.
//   - Companies take turns by request, not by duration.
//   - The costly requests of all companies use at most half of the processors. Otherwise two requests could occupy both processors of a small machine.
//   - The only active company has no limit.
//
// A request occupies the server and PostgreSQL in turn, so the limits hold for both together.
const (
	slotPart   = 8
	maxPause   = 2 * time.Second        // maximum pause; it limits the effect of a request that was slow for a reason other than its own cost, such as a lock
	gonePause  = 250 * time.Millisecond // minimum pause after a request whose client disconnected: PostgreSQL is possibly still executing its query
	slotWait   = 10 * time.Second       // a request without a slot after this time is rejected
	maxWaiters = 32                     // maximum number of waiting requests of one company; further requests are rejected at once
	slotCheck  = 20 * time.Millisecond  // interval of checking whether a pause has ended or a company has become inactive
	idleAfter  = time.Second            // a company without requests for this long is inactive
)

// Slots limits the costly requests of each company. The next slot goes to the company that has waited longest since its latest slot, regardless of how many
// of its requests wait.
type Slots struct {
	maxRunning   int     // maximum number of running requests
	maxOfCompany int     // maximum number of running requests of one company
	pause        float64 // length of the pause after a request, as a multiple of its duration

	mu         sync.Mutex
	companies  map[string]*companySlots // companies with a running or waiting request, or in a pause
	last       string                   // the company of the latest request
	lastAt     time.Time                // time of the latest request
	othersAt   time.Time                // time of the latest request of a company other than last
	isChecking bool                     // a timer of checkLater is running
}

type companySlots struct {
	running    int
	waiting    []chan struct{} // a channel is closed when its request gets a slot; first in, first out
	since      time.Time       // the later of two times: when the first waiting request arrived, and when the company got its latest slot
	pauseUntil time.Time
}

// NewSlots returns Slots for a machine with this number of processors.
func NewSlots(processors int) *Slots {
	return &Slots{
		maxRunning: max(1, processors/2), maxOfCompany: max(1, processors/slotPart), pause: max(0, float64(slotPart)/float64(processors)-1),
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

// Take waits for a slot for a request of a company. leave frees the slot. Only the first call of leave has an effect. Faults: request.too_much, and
// service.unavailable if the requests of other companies caused the wait.
func (s *Slots) Take(ctx context.Context, company string) (leave func(), err error) {
	mine, err := s.join(company)
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(slotWait)
	defer timeout.Stop()
	select {
	case <-mine:
	case <-timeout.C:
		err = s.timeoutFault(company)
	case <-ctx.Done():
		err = fmt.Errorf("wait for a slot: %w", ctx.Err())
	}
	if err != nil {
		if !s.quit(company, mine) {
			s.end(company, 0, false) // the request got its slot at the same moment
		}
		return nil, err
	}
	began := time.Now()
	return sync.OnceFunc(func() { s.end(company, time.Since(began), ctx.Err() != nil) }), nil
}

// timeoutFault returns the fault of a request that got no slot in time.
func (s *Slots) timeoutFault(company string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.companies[company]; own.running > 0 || time.Since(own.since) < slotWait {
		return errTooMuch
	}
	return ErrUnavailable
}

// join adds a request to the queue of its company, and grants it a slot if one is free.
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

// quit removes a request from the queue, and reports whether it was still waiting.
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

// grant gives free slots to waiting requests.
func (s *Slots) grant(now time.Time) {
	for {
		var next *companySlots
		counted := 0
		for _, one := range s.companies {
			if one.running <= s.maxOfCompany { // a company above its limit was alone when its requests began; other companies do not wait for these requests
				counted += one.running
			}
		}
		for name, one := range s.companies {
			may := one.running < s.maxOfCompany && counted < s.maxRunning && !now.Before(one.pauseUntil) || s.isAlone(name, now)
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

// isAlone reports whether company is the only active company. A company is active while its requests run or wait, and for idleAfter after each request.
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

// checkLater calls grant every slotCheck while requests wait, because pauses end and companies become inactive.
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

// Active returns the number of companies with running or waiting requests or with a pause.
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

// dropIdle removes the companies without running or waiting requests whose pause has ended.
func (s *Slots) dropIdle(now time.Time) {
	for company, one := range s.companies {
		if one.running == 0 && len(one.waiting) == 0 && !now.Before(one.pauseUntil) {
			delete(s.companies, company)
		}
	}
}
