package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func mustTake(t *testing.T, all *Slots, company string) (leave func()) {
	t.Helper()
	leave, err := all.Take(t.Context(), company)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// mayBegin reports whether a request of a company gets a slot immediately. The request keeps the slot.
func mayBegin(t *testing.T, all *Slots, company string) bool {
	t.Helper()
	mine, err := all.join(company)
	if err != nil {
		t.Fatal(err)
	}
	return !all.quit(company, mine)
}

func TestCostlyRequestsOfCompanyWaitWhileAnotherCompanyIsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(slotPart)
		keepSeeing := func(companies ...string) (stop func()) {
			end := make(chan struct{})
			go func() {
				for {
					select {
					case <-end:
						return
					case <-time.After(idleAfter / 4):
					}
					for _, company := range companies {
						all.See(company)
					}
				}
			}()
			return func() { close(end); synctest.Wait() }
		}
		all.See("1")
		var held []func()
		for range 3 {
			held = append(held, mustTake(t, all, "1"))
		}
		stop := keepSeeing("1", "2")
		time.Sleep(idleAfter)
		leave := mustTake(t, all, "2") // the first request of a company does not wait
		began := time.Now()
		if _, err := all.Take(t.Context(), "2"); !errors.Is(err, errTooMuch) || time.Since(began) < slotWait {
			t.Errorf("while the company has its slot: %v after %s", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all.Take(gone, "2"); !errors.Is(err, context.Canceled) {
			t.Errorf("for a disconnected caller: %v", err)
		}
		time.AfterFunc(time.Second, leave)
		began = time.Now()
		mustTake(t, all, "2")()
		if waited := time.Since(began); waited < time.Second || waited > time.Second+slotCheck {
			t.Errorf("the next request begins after %s", waited)
		}
		leave() // a second call has no effect
		for _, leave := range held {
			leave()
		}
		stop()

		// A waiting request continues when the other company becomes inactive.
		leave = mustTake(t, all, "3")
		stop = keepSeeing("3", "2")
		time.AfterFunc(2*time.Second, stop)
		time.Sleep(idleAfter)
		stopOwn := keepSeeing("3")
		began = time.Now()
		mustTake(t, all, "3")()
		if waited := time.Since(began); waited < time.Second || waited > 3*time.Second {
			t.Errorf("alone again, a request waits %s", waited)
		}
		leave()
		stopOwn()
	})
}

func TestCompanyPausesOnAMachineWithFewProcessorsWhileAnotherCompanyIsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(2)
		request := func(company string, took time.Duration) (waited time.Duration) {
			began := time.Now()
			all.See(company)
			leave := mustTake(t, all, company)
			waited = time.Since(began)
			time.Sleep(took)
			leave()
			return waited
		}
		request("1", 100*time.Millisecond)
		if waited := request("1", 100*time.Millisecond); waited != 0 {
			t.Errorf("alone, a request waits %s", waited)
		}
		all.See("2")
		if waited := request("1", 200*time.Millisecond); waited != 300*time.Millisecond {
			t.Errorf("beside another company, a request waits %s", waited)
		}
		all.See("2")
		if waited := request("1", time.Minute); waited != 600*time.Millisecond {
			t.Errorf("after a longer request, the next waits %s", waited)
		}
		all.See("2")
		go func() {
			time.Sleep(idleAfter / 2)
			all.See("2")
			time.Sleep(idleAfter / 2)
			all.See("2")
			time.Sleep(idleAfter / 2)
			all.See("2")
		}()
		if waited := request("1", 0); waited != maxPause {
			t.Errorf("after a request of a minute, the next waits %s", waited)
		}
		time.Sleep(idleAfter)
		all.See("4")
		mustTake(t, all, "4")()
		if len(all.companies) != 0 {
			t.Errorf("%d companies are kept", len(all.companies))
		}
		many := NewSlots(2 * slotPart)
		many.See("1")
		many.See("2")
		for range 2 {
			mustTake(t, many, "1")
		}
		if mayBegin(t, many, "1") {
			t.Error("a company may use more than an eighth of the processors")
		}
	})
}

func TestCostlyRequestsUseAtMostHalfOfProcessors(t *testing.T) {
	t.Parallel()
	all := NewSlots(2 * slotPart)
	all.See("0")
	var leave func()
	for i := range slotPart {
		company := fmt.Sprint(i)
		all.See(company)
		leave = mustTake(t, all, company)
	}
	all.See("last")
	if mayBegin(t, all, "last") {
		t.Error("all companies may use more than half of the processors")
	}
	leave()
	if !mayBegin(t, all, "last") {
		t.Error("no request can begin although another request has ended")
	}
}

// A company with a waiting request is active, even if it rarely sends requests. The request does not wait for requests that another company started while
// that other company was alone.
func TestCompanyWithWaitingRequestIsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(2)
		all.See("many")
		for range 100 {
			mustTake(t, all, "many")
		}
		all.See("seldom")
		leave := mustTake(t, all, "seldom")
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.See("seldom")
			mustTake(t, all, "seldom")()
		}()
		synctest.Wait()
		time.Sleep(2 * idleAfter)
		all.See("many")
		if mayBegin(t, all, "many") {
			t.Error("the company many counts as alone")
		}
		leave()
		<-done
	})
}

// The next slot goes to the company that has waited longest, regardless of the number of waiting requests.
func TestSlotsRotateAmongCompanies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(2)
		for _, company := range []string{"a", "b", "c", "late"} {
			all.See(company)
		}
		first := mustTake(t, all, "late")
		served := make(chan string, 100)
		ask := func(company string) {
			go func() {
				leave, err := all.Take(t.Context(), company)
				if err != nil {
					return
				}
				served <- company
				time.Sleep(100 * time.Millisecond)
				leave()
			}()
			synctest.Wait()
		}
		for range 10 {
			ask("a")
			ask("b")
			ask("c")
		}
		ask("late")
		first()
		var order []string
		for range 4 {
			order = append(order, <-served)
		}
		if !slices.Contains(order, "late") {
			t.Errorf("served %v", order)
		}
		time.Sleep(2 * slotWait)
	})
}

// Only a company that had a slot during the wait is rejected with request.too_much. Any other company waited because of other companies.
func TestOnlyCompanyThatHadSlotIsRejectedForTooManyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(1)
		all.See("1")
		all.See("2")
		leave := mustTake(t, all, "1")
		defer leave()
		var waiting sync.WaitGroup
		for company, want := range map[string]error{"1": errTooMuch, "2": ErrUnavailable} {
			waiting.Go(func() {
				if _, err := all.Take(t.Context(), company); !errors.Is(err, want) {
					t.Errorf("company %s is refused with %v", company, err)
				}
			})
		}
		waiting.Wait()
	})
}

func TestLaterRequestDoesNotShortenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewSlots(1)
		all.See("1")
		long, short := mustTake(t, all, "1"), mustTake(t, all, "1")
		time.Sleep(time.Second)
		long()
		another := mustTake(t, all, "1")
		another()
		short()
		all.See("2")
		if mayBegin(t, all, "1") {
			t.Error("a request begins during the pause")
		}
	})
}

func TestWaitingRequestsOfCompanyAreLimited(t *testing.T) {
	t.Parallel()
	all := NewSlots(2)
	all.See("1")
	all.See("2")
	defer mustTake(t, all, "1")()
	for range maxWaiters {
		if _, err := all.join("1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.join("1"); !errors.Is(err, errTooMuch) {
		t.Errorf("one more request: %v", err)
	}
}
