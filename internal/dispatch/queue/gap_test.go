package queue_test

import (
	"strings"
	"testing"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

// twoCompanies adds the companies blue and red. It returns the authorization headers of a user of each company.
func twoCompanies(b *apptest.Bundle) (blue, red []string) {
	b.AddCompany("blue", 1)
	b.AddCompany("red", 1)
	return b.AddUser("bea", "submit", map[string]any{"company_no": "blue"}), b.AddUser("rob", "submit", map[string]any{"company_no": "red"})
}

// expectHalf closes the gaps. It fails the test unless about half of the next tasks have contents that begin with word.
func expectHalf(b *apptest.Bundle, word string) {
	b.T.Helper()
	if _, err := b.App.Queue.CloseGaps(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	took := map[string]int{}
	for range 20 {
		for _, task := range b.Take("app", 2) {
			name, _, _ := strings.Cut(task.Content, " ")
			took[name]++
		}
	}
	if n := took[word]; n < 17 || n > 23 {
		b.T.Errorf("%s got %d of 40 tasks: %v", word, n, took)
	}
}

// leave contains the ways in which tasks leave the queue unsent: cancellation, a paused batch, and expiry. Each function removes the tasks whose contents
// begin with word.
var leave = map[string]func(b *apptest.Bundle, word string){
	"cancelled": func(b *apptest.Bundle, word string) {
		if _, err := b.App.Tasks.CancelAll(b.T.Context(), idsOf(b, word), "admin"); err != nil {
			b.T.Fatal(err)
		}
	},
	"held": func(b *apptest.Bundle, word string) {
		b.Exec("UPDATE queue SET batch_id = 7 WHERE content LIKE $1 || ' %'", word)
		hold(b, len(idsOf(b, word)))
	},
	"expired": func(b *apptest.Bundle, word string) {
		b.Exec("UPDATE queue SET expires_at = now() WHERE content LIKE $1 || ' %'", word)
		if _, err := b.App.Queue.Expire(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	},
}

func idsOf(b *apptest.Bundle, word string) []string {
	b.T.Helper()
	return apptest.Scan[[]string](b, "SELECT array_agg(task_id) FROM queue WHERE content LIKE $1 || ' %' AND lease_until IS NULL", word)
}

// S4.1: a company whose waiting tasks leave the queue unsent keeps its share. Its remaining and later tasks do not wait until other companies have reached
// the ranks of the removed tasks.
func TestS4_1_CompanyKeepsItsShareWhenItsBacklogIsRemoved(t *testing.T) {
	for how, leave := range leave {
		t.Run(how+", more waits behind it", func(t *testing.T) {
			b := apptest.New(t)
			blue, red := twoCompanies(b)
			b.SubmitMany("old", 1500, nil, blue...)
			b.SubmitMany("blue", 100, nil, blue...)
			b.SubmitMany("red", 300, nil, red...)
			b.Take("app", 20)
			leave(b, "old")
			expectHalf(b, "blue")
		})
		t.Run(how+", more comes later", func(t *testing.T) {
			b := apptest.New(t)
			blue, red := twoCompanies(b)
			b.SubmitMany("old", 1500, nil, blue...)
			b.SubmitMany("red", 300, nil, red...)
			b.Take("app", 20)
			leave(b, "old")
			if _, err := b.App.Queue.CloseGaps(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.SubmitMany("blue", 100, nil, blue...)
			expectHalf(b, "blue")
		})
	}
}

// CloseGaps moves the tasks behind a gap in portions. Moved tasks, remaining tasks and later tasks keep their order, and the users of the company take turns.
func TestTasksBehindAGapKeepTheirOrder(t *testing.T) {
	b := apptest.New(t)
	_, red := twoCompanies(b)
	ben := b.AddUser("ben", "submit", map[string]any{"company_no": "blue"})
	bob := b.AddUser("bob", "submit", map[string]any{"company_no": "blue"})
	b.SubmitMany("old", 700, nil, ben...)
	b.SubmitMany("ben", 1300, nil, ben...)
	b.SubmitMany("bob", 30, nil, bob...)
	b.SubmitMany("red", 3000, nil, red...)
	b.Take("app", 20)
	leave["cancelled"](b, "old")
	var all []string
	for range 25 {
		if _, err := b.App.Queue.CloseGaps(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, task := range b.Take("app", 100) {
			all = append(all, task.Content)
		}
	}
	n := len(of(all, "ben"))
	expectOrder(t, all, "ben", n)
	bobs := len(of(all, "bob")) + 5 // 5: bob's tasks that were claimed before the cancellation
	if n < 1200 || bobs < 25 {
		t.Errorf("of 2500 tasks, ben got %d and bob %d", n, bobs)
	}
	expectTurns(t, all[:40], "ben", "bob") // the tasks of ben have no flow ranks
}

// The sweep moves no task while companies are served in the order of their ranks, for any weights.
func TestCloseGapsMovesNoTaskWhileCompaniesTakeTurns(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("light", 0.01)
	b.AddCompany("heavy", 100)
	for _, company := range []string{"light", "heavy"} {
		headers := b.AddUser(company+"user", "submit", map[string]any{"company_no": company})
		b.SubmitMany(company, 300, nil, headers...)
	}
	submitBatch(b, 9, 200, func(s *submit.Submission) { s.MessageType = submit.Notification })
	for i := range 12 {
		b.Take("app", 1+i*i%7)
		if n, err := b.App.Queue.CloseGaps(t.Context()); err != nil || n != 0 {
			t.Fatalf("after %d claims, %d tasks were moved, %v", i+1, n, err)
		}
	}
}
