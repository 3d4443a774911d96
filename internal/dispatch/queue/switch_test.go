package queue_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

// switchWorld is a server on which the companies acme and beta send through the shared sender app. The number apptest.Phone belongs to the country CN.
type switchWorld struct {
	*apptest.Bundle
	acme, beta []string
}

func newSwitchWorld(t *testing.T) switchWorld {
	t.Helper()
	b := apptest.New(t)
	w := switchWorld{Bundle: b, acme: b.AddCompany("acme", 1), beta: b.AddCompany("beta", 1)}
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	b.Claim("app", 1) // registers the sender
	return w
}

func (w switchWorld) send(headers []string, more map[string]any) string {
	w.T.Helper()
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.Submitted](w.T, w.Expect(200, "", "POST", "/api/v1/sms/send", body, headers...)).TaskID
}

func (w switchWorld) patch(path string, body map[string]any) {
	w.T.Helper()
	w.Expect(200, "", "PATCH", "/api/v1/admin/"+path, body)
}

func (w switchWorld) expectHeld(id string, want ...string) {
	w.T.Helper()
	e := w.Explain(id)
	got := []string{}
	for _, s := range e.HeldBy {
		got = append(got, string(s.Switch)+" "+s.Name)
	}
	if e.Reason != api.BecauseHeld || !slices.Equal(got, want) || w.Task(id).Status != 0 {
		w.T.Errorf("%s: %s (%s), held by %q, want %q", id, e.Reason, e.Summary, got, want)
	}
}

func (w switchWorld) expectClaimed(want ...string) {
	w.T.Helper()
	got := w.ClaimIDs(100)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.T.Errorf("claimed %v, want %v", got, want)
	}
}

// Each switch holds waiting tasks and does not fail them. An explanation names the switch. When the switch is on again, the tasks can be claimed.
func TestSwitchHoldsWaitingTasks(t *testing.T) {
	for _, test := range []struct {
		name, path string
		off, on    map[string]any
		heldBy     string
		holdsBeta  bool
	}{
		{"company", "companies/acme", map[string]any{"status": "off"}, map[string]any{"status": "on"}, "company acme", false},
		{"channel", "channels/sms", map[string]any{"status": "off"}, map[string]any{"status": "on"}, "channel sms", true},
		{"country", "countries/CN", map[string]any{"status": "off"}, map[string]any{"status": "on"}, "country CN", true},
		{
			"country of a company", "companies/acme", map[string]any{"countries_off": []string{"CN"}}, map[string]any{"countries_off": []string{}},
			"company_country CN", false,
		},
		{
			"country of a channel", "channels/sms", map[string]any{"countries_off": []string{"CN"}}, map[string]any{"countries_off": []string{}},
			"channel_country CN", true,
		},
		{
			"narrowed company", "companies/acme", map[string]any{"countries": []string{"SG"}}, map[string]any{"countries": []string{"SG", "CN"}},
			"company_country CN", false,
		},
		{
			"narrowed channel", "channels/sms", map[string]any{"countries": []string{"SG"}}, map[string]any{"any_country": true},
			"channel_country CN", true,
		},
		{ // the test first limits the company to CN, see below
			"last country of a company", "companies/acme", map[string]any{"countries": []string{}}, map[string]any{"any_country": true},
			"company_country CN", false,
		},
		{
			"user", "users/user-of-acme", map[string]any{"is_disabled": true}, map[string]any{"is_disabled": false},
			"user user-of-acme", false,
		},
		{
			"shared senders", "companies/acme", map[string]any{"uses_shared_senders": false}, map[string]any{"uses_shared_senders": true},
			"shared_senders acme", false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSwitchWorld(t)
			if test.name == "last country of a company" {
				w.patch(test.path, map[string]any{"countries": []string{"CN"}})
			}
			waiting, other := w.send(w.acme, nil), w.send(w.beta, nil)
			leased := w.ClaimIDs(1)
			if !slices.Equal(leased, []string{waiting}) {
				t.Fatalf("leased %v", leased)
			}
			later := w.send(w.acme, map[string]any{"expect_send_time": time.Now().Add(time.Hour)})
			w.patch(test.path, test.off)
			w.Report(waiting, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0}) // the leased task returns
			w.Exec("UPDATE queue SET due_at = now(), due_when_resumed = CASE WHEN due_when_resumed IS NOT NULL THEN now() END WHERE task_id = $1 AND due_at < held_due_at()", later)
			for range 2 { // before and after the sweeps
				if test.holdsBeta {
					w.expectClaimed()
				} else {
					w.expectClaimed(other)
				}
				w.expectHeld(waiting, test.heldBy)
				w.expectHeld(later, test.heldBy)
				w.sweep()
				test.holdsBeta = true // beta's task is already claimed in the second round
			}
			w.Exec("UPDATE queue SET due_when_resumed = now() WHERE due_when_resumed > now()")
			w.patch(test.path, test.on)
			got := w.ClaimIDs(100)
			if !slices.Contains(got, waiting) || !slices.Contains(got, later) {
				t.Errorf("switched on, claimed %v, want %s and %s", got, waiting, later)
			}
		})
	}
}

// sweep runs the sweeps that change waiting tasks.
func (w switchWorld) sweep() {
	w.T.Helper()
	move(w.Bundle)
	for _, run := range []func() (int, error){
		func() (int, error) { return w.App.Queue.FollowSwitches(w.T.Context()) },
		func() (int, error) { return w.App.Queue.Age(w.T.Context()) },
		func() (int, error) { return w.App.Queue.Queue(w.T.Context()) },
	} {
		if _, err := run(); err != nil {
			w.T.Fatal(err)
		}
	}
}

// The last route of a company without shared senders is switched off or deleted. The tasks of the company are not sent through shared senders.
func TestSharedSendersReceiveNoTasksOfASwitchedOffRoute(t *testing.T) {
	w := newSwitchWorld(t)
	w.patch("companies/acme", map[string]any{"uses_shared_senders": false})
	w.AddSender(map[string]any{"sender_no": "own"})
	route := w.AddRoute("acme", "own", 1)
	first, second := w.send(w.acme, nil), w.send(w.acme, nil)
	path := fmt.Sprint("routes/", route.RouteNo)
	w.patch(path, map[string]any{"status": "off"})
	w.sweep()
	w.expectClaimed()
	w.expectHeld(first, "shared_senders acme")
	dry := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true",
		map[string]any{"phone_number": "13800138000", "content": "hello"}, w.acme...))
	if senders := w.Explain(first).Senders; len(senders) > 0 || len(*dry.Senders) > 0 {
		t.Errorf("shared senders can claim the task: %v and %v", senders, *dry.Senders)
	}
	w.patch(path, map[string]any{"status": "on"})
	if got := w.Take("own", 1); len(got) != 1 || got[0].TaskID != first {
		t.Errorf("own claimed %v", got)
	}
	w.Expect(200, "", "DELETE", "/api/v1/admin/"+path, nil)
	third := w.send(w.acme, nil)
	w.sweep()
	w.expectClaimed()
	w.expectHeld(second, "shared_senders acme")
	w.expectHeld(third, "shared_senders acme")
	w.patch("companies/acme", map[string]any{"uses_shared_senders": true})
	w.expectClaimed(second, third)
}

// A claim skips held tasks even before a sweep moves them. Here no sweep has run since the switch, and 3000 held tasks are before the other tasks.
func TestClaimSkipsThousandsOfHeldTasks(t *testing.T) {
	w := newSwitchWorld(t)
	for range 3 {
		w.SubmitMany("x", 1000, nil, w.acme...)
	}
	other := w.send(w.beta, nil)
	w.Exec("UPDATE companies SET status = 'off' WHERE company_no = 'acme'") // the change of another server that has not held the tasks yet
	w.expectClaimed(other)
	w.sweep()
	if held := w.Count("SELECT count(*) FROM queue WHERE due_at = held_due_at()"); held != 3000 {
		t.Errorf("%d are held, want 3000", held)
	}
	w.expectClaimed()
}

// After the API has answered the change of a switch, no claim returns a held task. This includes claims that began before the change.
func TestSwitchWaitsForClaimsInProgress(t *testing.T) {
	w := newSwitchWorld(t)
	w.SubmitMany("x", 1000, nil, w.acme...)
	w.SubmitMany("x", 1000, nil, w.acme...)
	stop := make(chan struct{})
	var claims sync.WaitGroup
	for range 4 {
		claims.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					w.Claim("app", 3)
				}
			}
		})
	}
	w.patch("companies/acme", map[string]any{"status": "off"})
	leases := w.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL")
	w.sweep()
	close(stop)
	claims.Wait()
	if after := w.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL"); after != leases {
		t.Errorf("%d leases when the switch was answered, %d later", leases, after)
	}
}

func TestCompanyThatIsOffCannotSubmit(t *testing.T) {
	w := newSwitchWorld(t)
	w.patch("companies/acme", map[string]any{"status": "off"})
	w.Expect(409, "company.off", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, w.acme...)
	w.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, w.acme...)
	w.send(w.beta, nil)
}

// Messages to a country that is off are accepted and held. A dry run of such a message returns would_be_held.
func TestMessagesToASwitchedOffCountryAreHeld(t *testing.T) {
	w := newSwitchWorld(t)
	w.patch("countries/CN", map[string]any{"status": "off"})
	dry := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true",
		map[string]any{"phone_number": apptest.Phone, "content": "x"}, w.acme...))
	if *dry.Verdict != "would_be_held" || len(*dry.HeldBy) != 1 || (*dry.HeldBy)[0].Name != "CN" {
		t.Errorf("dry run: %+v", dry)
	}
	id := w.send(w.acme, nil)
	w.expectClaimed()
	w.expectHeld(id, "country CN")
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, w.acme...)
}

// Switches also hold tasks that only one sender is allowed to send, and tasks that their batch holds as well.
func TestSwitchesHoldTasksOfOneSenderAndOfBatches(t *testing.T) {
	w := newSwitchWorld(t)
	bound := submitOn(w.Bundle, "acme", "app", "bound")
	setBatch(w.Bundle, "running")
	row := submitBatch(w.Bundle, 7, 1, nil)[0]
	w.patch("countries/CN", map[string]any{"status": "off"})
	w.expectClaimed()
	w.expectHeld(bound, "country CN")
	setBatch(w.Bundle, "paused")
	w.expectHeld(row, "batch 7", "country CN")
	w.patch("countries/CN", map[string]any{"status": "on"})
	w.expectClaimed(bound)
	w.expectHeld(row, "batch 7")
	w.patch("countries/CN", map[string]any{"status": "off"})
	release(w.Bundle, 0) // the country still holds the task
	w.expectClaimed()
	w.patch("countries/CN", map[string]any{"status": "on"})
	w.expectClaimed(row)
}

// A task that was stored by a server of the previous version has no submitter in the queue.
func TestSwitchOfAUserHoldsTasksOfOlderServers(t *testing.T) {
	w := newSwitchWorld(t)
	id := w.send(w.acme, nil)
	w.Exec("UPDATE queue SET submitted_by = NULL")
	w.patch("users/user-of-acme", map[string]any{"is_disabled": true})
	w.expectClaimed()
	w.expectHeld(id, "user user-of-acme")
}

// The wait of a held task does not count as a wait for a sender.
func TestHeldTasksDoNotCountAsLongWaits(t *testing.T) {
	w := newSwitchWorld(t)
	w.send(w.acme, nil)
	w.Exec("UPDATE queue SET due_at = now() - interval '1 hour'")
	if _, err := w.App.Submissions.Submit(t.Context(), submit.Submission{PhoneNumber: apptest.Phone, Content: "x", Raw: []byte("{}")}, originOf(w.Bundle, "beta")); err != nil {
		t.Fatal(err)
	}
	w.patch("companies/acme", map[string]any{"status": "off"})
	if n := w.Count("SELECT count(*) FROM queue WHERE due_at < now() - interval '1 minute'"); n != 0 {
		t.Errorf("%d tasks have waited long", n)
	}
}

// A country can be deleted only while it is on. Without the row of the country, the tasks to the country would no longer be held.
func TestSwitchedOffCountryCannotBeDeleted(t *testing.T) {
	w := newSwitchWorld(t)
	w.patch("countries/CN", map[string]any{"status": "off"})
	id := w.send(w.acme, nil)
	w.Expect(409, "in_use", "DELETE", "/api/v1/admin/countries/CN", nil)
	w.expectClaimed()
	w.expectHeld(id, "country CN")
}
