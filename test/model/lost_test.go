package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// In this file, servers die. The response to a request is then lost, and the test does not know whether the request was executed. The test queries the service
// to learn this, and checks the resulting state.

var duration = flag.Duration("model.duration", 0, "how long to run the test in which two servers die; 0: not at all")

func TestServiceMatchesTheModelWhileServersDie(t *testing.T) {
	if *duration == 0 {
		t.Skip("set -model.duration to run this test")
	}
	s := newService(t, 2)
	seed := rand.Uint64() >> 40 // the seed has at most 24 bits, so that it is short enough to type
	if given := flag.Lookup("rapid.seed").Value.String(); given != "0" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	n, deaths := 0, 0
	for began := time.Now(); time.Since(began) < *duration; seed++ {
		for name, value := range map[string]string{"rapid.seed": fmt.Sprint(seed), "rapid.checks": "4"} {
			if err := flag.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			n++
			q := begin(t, s, fmt.Sprintf("i%d", n))
			actions := q.actions()
			actions["claim at once"] = q.step(q.claimAtOnce) // this step is only in this test, because a run with concurrent claims cannot be repeated exactly
			actions["a server dies"], actions["a server dies soon"] = q.die, q.die
			delete(actions, "flip a switch") // for up to four seconds, other servers still accept messages of a company that was switched off
			delete(actions, "change caps")   // and use former rules about recipients
			before := s.made
			t.Repeat(actions)
			q.end(t)
			deaths += s.made - before
		})
	}
	t.Logf("%d sequences, %d deaths of servers; the last seed was %d", n, deaths, seed-1)
}

// die makes a server die shortly after it has received one of the next requests.
func (q *sequence) die(t *rapid.T) {
	after := time.Duration(rapid.IntRange(0, 6000).Draw(t, "microseconds")) * time.Microsecond
	q.kill = &after
}

// ask works like call for a request that can be lost. If a server must die now, ask kills the server during the request, and lost is true.
func (q *sequence) ask(t *rapid.T, key, method, path string, body any, headers ...string) (a answer, lost bool) {
	t.Helper()
	if q.kill == nil {
		return q.service.call(t, key, method, path, body, headers...), false
	}
	after := *q.kill
	q.kill = nil
	server := q.service.any()
	q.recordSeen(t) // otherwise the dying server would lose polls that it has not stored yet
	t.Logf("%s dies", server.name)
	q.service.cut(t, server, after, q.service.request(t.Context(), t, key, method, path, body, headers...))
	return answer{}, true
}

// row returns a task from the API.
func (q *sequence) row(t *rapid.T, x *task) taskRow {
	t.Helper()
	return dataOf[taskRow](t, q.service.call(t, "", http.MethodGet, "/api/v1/sms/task/"+x.id, nil))
}

// submittedPerhaps queries which of several submissions created a task, and applies these submissions to the model.
func (q *sequence) submittedPerhaps(t *rapid.T, all []submission) {
	t.Helper()
	unknown := slices.DeleteFunc(q.rows(t), func(row taskRow) bool { return q.world.task(row.TaskID) != nil })
	for _, s := range all {
		o := q.world.outcomeOf(s)
		if x := o.repeats; x != nil && len(q.timeline(t, x.id)) > len(x.timeline) {
			x.happened(event{Event: "repeated", At: q.world.now})
		}
		if o.repeats != nil || len(o.wrong) > 0 {
			continue
		}
		i := slices.IndexFunc(unknown, func(row taskRow) bool {
			o.made.id = row.TaskID
			return text(row) == text(q.world.rowOf(o.made))
		})
		if i >= 0 {
			q.accept(o.made, unknown[i].TaskID, o.consumes)
			o.made.rank = 0
			unknown = slices.Delete(unknown, i, i+1)
			t.Logf("  %s was made", o.made.name)
		}
	}
	if len(unknown) > 0 {
		t.Fatalf("tasks were never submitted: %+v", unknown)
	}
}

// claimedPerhaps queries the result of a lost claim, and applies it to the model.
func (q *sequence) claimedPerhaps(t *rapid.T, s *sender, limit int) []*task {
	t.Helper()
	c := claim{sender: s, limit: limit, unordered: true}
	byLease := map[int64]claimedTask{}
	for _, row := range q.rows(t) {
		if x := q.world.task(row.TaskID); x == nil || x.status != pending || row.Status != processing {
			continue
		}
		for _, e := range q.timeline(t, row.TaskID) {
			if e.Event == "claimed" && !q.world.leases[e.LeaseID] {
				x := q.world.task(row.TaskID)
				if byLease[e.LeaseID] = (claimedTask{row.TaskID, row.PhoneNumber, s.text(x), e.LeaseID, e.Attempt, e.LeaseUntil, x.expires}); e.AppID != s.no {
					t.Fatalf("%s claimed, but %s got %s", s.no, e.AppID, x.name)
				}
			}
		}
	}
	var rows []claimedTask
	for _, row := range byLease {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b claimedTask) int { return int(a.LeaseID - b.LeaseID) })
	if len(rows) == 0 {
		t.Logf("%s claims %d and gets nothing", s.no, limit)
		s.heard = q.world.now // the server has possibly recorded the poll
		return nil
	}
	q.read(t, &c, rows)
	q.settle(t, c, q.world.offers(s))
	return c.claimed
}

// reportedPerhaps queries which of several reports were accepted, and applies these reports to the model. The service executes reports on the same task in
// their order.
func (q *sequence) reportedPerhaps(t *rapid.T, on []*task, reports []report) {
	t.Helper()
	through := map[*task]int{}
	for _, x := range on {
		through[x] = len(q.timeline(t, x.id)) - len(x.timeline)
	}
	for i, x := range on {
		if through[x] > 0 {
			through[x]--
			t.Logf("report on %s %+v: %s", x.name, reports[i], q.world.report(x, reports[i]))
		}
		q.touch(x)
	}
}

// changedPerhaps queries whether the balance was changed, and applies the change to the model.
func (q *sequence) changedPerhaps(t *rapid.T, s *sender, by int) {
	t.Helper()
	page := dataOf[struct{ Items []ledgerRow }](t, q.service.call(t, "", http.MethodGet, "/api/v1/admin/senders/"+s.no+"/ledger?limit=100", nil))
	if len(page.Items) > len(s.ledger) {
		s.change(by, 0)
	}
	q.touchSender(s)
}
