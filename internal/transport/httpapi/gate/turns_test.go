package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lksms/internal/platform/access"
)

func mustTake(t *testing.T, all *turns, company string) (leave func()) {
	t.Helper()
	leave, err := all.take(t.Context(), company)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

// mayBegin reports whether a request of a company gets a turn at once. It keeps the turn.
func mayBegin(t *testing.T, all *turns, company string) bool {
	t.Helper()
	mine, err := all.join(company)
	if err != nil {
		t.Fatal(err)
	}
	return !all.quit(company, mine)
}

func TestCostlyRequestsOfACompanyWaitForEachOtherBesideAnotherCompany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(turnPart)
		keepSeeing := func(companies ...string) (stop func()) {
			end := make(chan struct{})
			go func() {
				for {
					select {
					case <-end:
						return
					case <-time.After(companyGone / 4):
					}
					for _, company := range companies {
						all.see(company)
					}
				}
			}()
			return func() { close(end); synctest.Wait() }
		}
		all.see("1")
		var held []func()
		for range 3 {
			held = append(held, mustTake(t, all, "1"))
		}
		stop := keepSeeing("1", "2")
		time.Sleep(companyGone)
		leave := mustTake(t, all, "2") // the company's first request does not wait
		began := time.Now()
		if _, err := all.take(t.Context(), "2"); !errors.Is(err, errTooMuch) || time.Since(began) < turnWait {
			t.Errorf("while the company has its turn: %v after %s", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all.take(gone, "2"); !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that has left: %v", err)
		}
		time.AfterFunc(time.Second, leave)
		began = time.Now()
		mustTake(t, all, "2")()
		if waited := time.Since(began); waited < time.Second || waited > time.Second+turnCheck {
			t.Errorf("the next request begins after %s", waited)
		}
		leave() // leaving twice does no harm
		for _, leave := range held {
			leave()
		}
		stop()

		// A waiting request continues when the other company stops.
		leave = mustTake(t, all, "3")
		stop = keepSeeing("3", "2")
		time.AfterFunc(2*time.Second, stop)
		time.Sleep(companyGone)
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

func TestACompanyPausesOnFewProcessorsWhileAnotherIsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(2)
		request := func(company string, took time.Duration) (waited time.Duration) {
			began := time.Now()
			all.see(company)
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
		all.see("2")
		if waited := request("1", 200*time.Millisecond); waited != 300*time.Millisecond {
			t.Errorf("beside another company, a request waits %s", waited)
		}
		all.see("2")
		if waited := request("1", time.Minute); waited != 600*time.Millisecond {
			t.Errorf("after a longer request, the next waits %s", waited)
		}
		all.see("2")
		go func() {
			time.Sleep(companyGone / 2)
			all.see("2")
			time.Sleep(companyGone / 2)
			all.see("2")
			time.Sleep(companyGone / 2)
			all.see("2")
		}()
		if waited := request("1", 0); waited != turnPauseMost {
			t.Errorf("after a request of a minute, the next waits %s", waited)
		}
		time.Sleep(companyGone)
		all.see("4")
		mustTake(t, all, "4")()
		if len(all.companies) != 0 {
			t.Errorf("%d companies are kept", len(all.companies))
		}
		many := newTurns(2 * turnPart)
		many.see("1")
		many.see("2")
		for range 2 {
			mustTake(t, many, "1")
		}
		if mayBegin(t, many, "1") {
			t.Error("a company may use more than an eighth of the processors")
		}
	})
}

func TestCostlyRequestsOfAllCompaniesLeaveHalfOfTheProcessors(t *testing.T) {
	t.Parallel()
	all := newTurns(2 * turnPart)
	all.see("0")
	var leave func()
	for i := range turnPart {
		company := fmt.Sprint(i)
		all.see(company)
		leave = mustTake(t, all, company)
	}
	all.see("last")
	if mayBegin(t, all, "last") {
		t.Error("all companies may use more than half of the processors")
	}
	leave()
	if !mayBegin(t, all, "last") {
		t.Error("a request may not begin although another has ended")
	}
}

// A company with a waiting request counts as active, even if it sends requests seldom. Requests that others began while they were alone
// do not delay it.
func TestACompanyWithAWaitingRequestCountsAsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(2)
		all.see("many")
		for range 100 {
			mustTake(t, all, "many")
		}
		all.see("seldom")
		leave := mustTake(t, all, "seldom")
		done := make(chan struct{})
		go func() {
			defer close(done)
			all.see("seldom")
			mustTake(t, all, "seldom")()
		}()
		synctest.Wait()
		time.Sleep(2 * companyGone)
		all.see("many")
		if mayBegin(t, all, "many") {
			t.Error("the company many counts as alone")
		}
		leave()
		<-done
	})
}

// A turn goes to the company that has waited longest, however many requests of another company wait.
func TestTurnsRotateAmongCompanies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(2)
		for _, company := range []string{"a", "b", "c", "late"} {
			all.see(company)
		}
		first := mustTake(t, all, "late")
		served := make(chan string, 100)
		ask := func(company string) {
			go func() {
				leave, err := all.take(t.Context(), company)
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
		time.Sleep(2 * turnWait)
	})
}

// A company that had a turn during the wait asks for too much. A company that had none did nothing wrong.
func TestOnlyACompanyThatHadATurnIsRefusedForAskingTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		all.see("1")
		all.see("2")
		leave := mustTake(t, all, "1")
		defer leave()
		var waiting sync.WaitGroup
		for company, want := range map[string]error{"1": errTooMuch, "2": ErrUnavailable} {
			waiting.Go(func() {
				if _, err := all.take(t.Context(), company); !errors.Is(err, want) {
					t.Errorf("company %s is refused with %v", company, err)
				}
			})
		}
		waiting.Wait()
	})
}

func TestALaterRequestDoesNotShortenAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		all.see("1")
		long, short := mustTake(t, all, "1"), mustTake(t, all, "1")
		time.Sleep(time.Second)
		long()
		another := mustTake(t, all, "1")
		another()
		short()
		all.see("2")
		if mayBegin(t, all, "1") {
			t.Error("a request begins during the pause")
		}
	})
}

func TestTheWaitingRequestsOfACompanyAreBounded(t *testing.T) {
	t.Parallel()
	all := newTurns(2)
	all.see("1")
	all.see("2")
	defer mustTake(t, all, "1")()
	for range turnWaiters {
		if _, err := all.join("1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.join("1"); !errors.Is(err, errTooMuch) {
		t.Errorf("one more request: %v", err)
	}
}

func TestOnlyCostlyRequestsOfCompaniesTakeTurns(t *testing.T) {
	t.Parallel()
	contract, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	for pattern := range contract.costly {
		if contract.roles[pattern] == nil {
			t.Errorf("%s is no operation", pattern)
		}
	}
	submitter := access.Principal{Username: "acme", Role: access.RoleSubmit, CompanyID: 7}
	for name, c := range map[string]struct {
		who       access.Principal
		operation string
		body      int
		takes     bool
	}{
		"a message":              {submitter, "POST /api/v1/sms/send", 100, false},
		"an explanation":         {submitter, "GET /api/v1/sms/task/{task_id}/explain", 0, true},
		"a cancellation":         {submitter, "POST /api/v1/sms/task/{task_id}/cancel", 0, false},
		"an event":               {submitter, "POST /api/v1/notifications/events", 100, false},
		"a large message":        {submitter, "POST /api/v1/sms/send", smallBody + 1, true},
		"a batch":                {submitter, "POST " + sendBatchPath, 100, true},
		"a list":                 {submitter, "GET /api/v1/sms/tasks", 0, true},
		"statistics":             {access.Principal{Username: "reads", Role: access.RoleRead, CompanyID: 7}, "GET /api/v1/admin/statistics", 0, true},
		"a task":                 {submitter, "GET /api/v1/sms/task/{task_id}", 0, false},
		"a batch without a user": {access.Principal{}, "POST " + sendBatchPath, 100, false},
		"a batch of an admin":    {access.Principal{Username: "admin", Role: access.RoleAdmin, SeesAll: true}, "POST " + sendBatchPath, 100, false},
		"a claim of a sender":    {access.Principal{Username: "phone", Role: access.RoleSend}, "POST /api/v1/sms/tasks/claim", 100, false},
	} {
		s := &Gate{turns: newTurns(1), contract: contract}
		leave, err := s.turn(t.Context(), &Exchange{Caller: Caller{User: c.who}, Operation: c.operation, Body: Body{Raw: make([]byte, c.body)}})
		if err != nil {
			t.Fatal(err)
		}
		if takes := len(s.turns.companies) > 0; takes != c.takes {
			t.Errorf("%s takes a turn: %v", name, takes)
		}
		leave()
	}
	s := &Gate{turns: newTurns(1), contract: contract}
	leave, err := s.turn(t.Context(), &Exchange{Caller: Caller{User: submitter}, Operation: "POST /api/v1/sms/send", DryRun: true})
	if err != nil || len(s.turns.companies) != 1 {
		t.Errorf("a dry run takes no turn: %v", err)
	}
	leave()
}
