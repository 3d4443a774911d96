package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lksms/internal/access"
)

func mustTake(t *testing.T, all *turns, company string) (leave func()) {
	t.Helper()
	leave, err := all.take(t.Context(), company)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func TestCostlyRequestsOfACompanyAreDoneInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(4)
		leave := mustTake(t, all, "1")
		mustTake(t, all, "2")() // another company does not wait for it
		began := time.Now()
		if _, err := all.take(t.Context(), "1"); !errors.Is(err, errTooMuch) || time.Since(began) != turnWait {
			t.Errorf("while another is done: %v after %s", err, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all.take(gone, "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("by a caller that has gone: %v", err)
		}
		time.AfterFunc(time.Second, leave)
		began = time.Now()
		mustTake(t, all, "1")()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the next one begins after %s", waited)
		}
		leave()
		mustTake(t, all, "1")()
		if len(all.companies) != 0 {
			t.Errorf("%d companies are kept", len(all.companies))
		}
	})
}

func TestACompanyRestsOnFewProcessorsWhileAnotherIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(2)
		request := func(company string, took time.Duration) (waited time.Duration) {
			began := time.Now()
			all.see(company, began)
			leave := mustTake(t, all, company)
			waited = time.Since(began)
			time.Sleep(took)
			leave()
			return waited
		}
		request("1", 100*time.Millisecond)
		if waited := request("1", 100*time.Millisecond); waited != 0 {
			t.Errorf("alone it waits %s", waited)
		}
		all.see("2", time.Now())
		if waited := request("1", 30*time.Second); waited != 100*time.Millisecond {
			t.Errorf("beside another it waits %s", waited)
		}
		all.see("2", time.Now())
		if waited := request("1", 100*time.Millisecond); waited != turnRest {
			t.Errorf("after a long one it waits %s", waited)
		}
		time.Sleep(companyGone)
		if waited := request("1", 100*time.Millisecond); waited != 0 {
			t.Errorf("alone again it waits %s", waited)
		}
		many := newTurns(16)
		for range 16 / turnPart {
			mustTake(t, many, "1")
		}
		if _, err := many.take(t.Context(), "1"); !errors.Is(err, errTooMuch) {
			t.Errorf("one more than a quarter: %v", err)
		}
	})
}

func TestOnlyCostlyRequestsOfCompaniesTakeTurns(t *testing.T) {
	t.Parallel()
	submitter := access.Principal{Username: "acme", Role: access.RoleSubmit, CompanyID: 7}
	for name, c := range map[string]struct {
		who       access.Principal
		operation string
		body      int
		takes     bool
	}{
		"a message":          {submitter, "POST /api/v1/sms/send", 100, false},
		"a large message":    {submitter, "POST /api/v1/sms/send", smallBody + 1, true},
		"a batch":            {submitter, "POST " + sendBatchPath, 100, true},
		"a list":             {submitter, "GET /api/v1/sms/tasks", 0, true},
		"a task":             {submitter, "GET /api/v1/sms/tasks/{task_id}", 0, false},
		"a batch of nobody":  {access.Principal{}, "POST " + sendBatchPath, 100, false},
		"a batch of admin":   {access.Principal{Username: "admin", Role: access.RoleAdmin, SeesAll: true}, "POST " + sendBatchPath, 100, false},
		"a claim of senders": {access.Principal{Username: "phone", Role: access.RoleSend}, "POST /api/v1/sms/tasks/claim", 100, false},
	} {
		s := &Server{turns: newTurns(1)}
		leave, err := s.turn(t.Context(), &exchange{who: c.who, operation: c.operation, body: make([]byte, c.body)})
		if err != nil {
			t.Fatal(err)
		}
		if takes := len(s.turns.companies) > 0; takes != c.takes {
			t.Errorf("%s takes a turn: %v", name, takes)
		}
		leave()
	}
}
