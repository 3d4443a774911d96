// Package model checks the service against a model of its promises. It runs random sequences of steps: actions of callers and operators, and the passing of
// time. After each step it compares the service with the model. The tests shorten a failed sequence as far as possible, and store it in testdata. The next run
// starts with the stored sequences.
//
// The model is in world_test.go and claim_test.go, the steps are in steps_test.go and directory_test.go, and the checks after each step are in checks_test.go.
// The flags -rapid.checks and -rapid.steps set the number and length of the sequences. The flag -rapid.seed repeats a run.
package model

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
	_ "time/tzdata" // contains the time zones, which the model needs to compute the same days as PostgreSQL

	"pgregory.net/rapid"

	"lksms/internal/testkit/pgtest"
)

// standard contains the default flags. A run with the default flags takes twenty seconds on two cores.
var standard = map[string]string{"rapid.checks": "12", "rapid.steps": "60"}

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range standard {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(pgtest.Run(m))
}

func TestServiceMatchesTheModel(t *testing.T) {
	s := newService(t, 1)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		q := begin(t, s, fmt.Sprintf("i%d", n))
		t.Repeat(q.actions())
		q.end(t)
	})
}

// actions contains all steps by name, and under the empty name the check after each step.
func (q *sequence) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                                    q.check,
		"submit":                              q.step(q.submit),
		"submit one more":                     q.step(q.submit),
		"submit a batch":                      q.step(q.submitBatch),
		"submit another batch":                q.step(q.submitBatch),
		"submit by template":                  q.step(q.submitByTemplate),
		"submit the default":                  q.step(q.submitDefault),
		"submit with a key":                   q.step(q.submitWithKey),
		"make a dry run":                      q.step(q.dryRun),
		"cancel":                              q.step(q.cancel),
		"requeue":                             q.step(q.requeue),
		"requeue again":                       q.step(q.requeue),
		"claim":                               q.step(q.claim),
		"claim again":                         q.step(q.claim),
		"claim one":                           q.step(q.claimOne),
		"claim in bulk":                       q.step(q.claimMany),
		"claim as the installed app":          q.step(q.claimAsApp),
		"claim, waiting":                      q.step(q.claimWaiting),
		"claim with all senders":              q.step(q.drain),
		"claim to start":                      q.step(q.claimToStart),
		"start":                               q.step(q.start),
		"leave unstarted":                     q.step(q.leaveUnstarted),
		"report":                              q.step(q.report),
		"report a batch":                      q.step(q.reportBatch),
		"report any task":                     q.step(q.reportAnything),
		"explain":                             q.step(q.explain),
		"let time pass":                       q.step(q.pass),
		"let time pass until the next change": q.step(q.passUntil),
		"sweep":                               q.step(q.sweep),
		"change a sender":                     q.step(q.changeSender),
		"change a balance":                    q.step(q.changeBalance),
		"create a route":                      q.step(q.createRoute),
		"change a route":                      q.step(q.changeRoute),
		"delete a route":                      q.step(q.deleteRoute),
		"change a company":                    q.step(q.changeCompany),
		"flip a switch":                       q.step(q.flip),
		"switch everything on":                q.step(q.flipOn),
		"create or delete a company":          q.step(q.createOrDeleteCompany),
		"change templates":                    q.step(q.changeTemplates),
		"change default contents":             q.step(q.changeDefaults),
		"add a block":                         q.step(q.addBlock),
		"delete blocks":                       q.step(q.deleteBlocks),
		"change caps":                         q.step(q.changeCaps),
		"compare two companies":               q.step(q.compareCompanies),
		"compare users of a company":          q.step(q.compareUsers),
	}
}

// sequence is one sequence of steps: the service, the model, and the objects that the current step has touched.
type sequence struct {
	service *service
	world   *world
	prefix  string // prefix of all names in this sequence, because the service caches some names for a while
	names   int
	kill    *time.Duration // the server of the next request that can be lost dies this long after the start of the request; nil: no server dies
	limited []limitation   // messages of the last request that caps refused
	tasks   []*task        // tasks that the step changed or used
	senders []*sender
}

// tick is the duration of a step.
const tick = time.Millisecond

// step returns a step that moves the time by a tick and then runs do.
func (q *sequence) step(do func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		q.tasks, q.senders = nil, nil
		q.moveTo(t, q.world.now.Add(tick))
		do(t)
	}
}

func (q *sequence) moveTo(t *rapid.T, at time.Time) {
	q.world.now = at
	q.service.set(t, at)
}

func (q *sequence) touch(t *task)         { q.tasks = append(q.tasks, t) }
func (q *sequence) touchSender(s *sender) { q.senders = append(q.senders, s) }

// name returns a name that was not used before.
func (q *sequence) name(kind string) string {
	q.names++
	return fmt.Sprintf("%s-%s%d", q.prefix, kind, q.names)
}

// admin calls as the admin and expects success.
func (q *sequence) admin(t *rapid.T, method, path string, body any) answer {
	t.Helper()
	a := q.service.call(t, "", method, path, body)
	if a.Status != http.StatusOK {
		t.Fatalf("%s %s %s: %d %s", method, path, encoded(t, body), a.Status, a.Raw)
	}
	return a
}

// begin creates three companies, five senders and some routes, in the model and in the service.
func begin(t *rapid.T, s *service, prefix string) *sequence {
	q := &sequence{service: s, prefix: prefix, world: &world{leases: map[int64]bool{}, counted: map[capped][]*counted{}}}
	s.empty(t)
	// The sequence starts shortly before the end of a minute, an hour and a day in China. The start is later than the clock of this process, because the server
	// compares requested times with that clock.
	q.moveTo(t, time.Now().UTC().Truncate(24*time.Hour).Add(39*time.Hour+58*time.Minute+20*time.Second))
	for _, c := range countries {
		a := s.call(t, "", http.MethodPost, "/api/v1/admin/countries", map[string]any{"country_no": c.no, "name": c.no, "dial_prefix": c.prefix})
		if a.Status != http.StatusOK && a.Body.Error.Reason != "exists" {
			t.Fatalf("create country: %s", a.Raw)
		}
	}
	q.flipOn(t) // the previous sequence possibly left a switch off
	for i := range 3 {
		c := q.createCompany(t, []float64{1, 1, 3}[i])
		for range 2 {
			q.createUser(t, c, []int{5, 0, 1}[i])
		}
	}
	q.createTemplate(t)
	for range 5 {
		q.createSender(t)
	}
	for range rapid.IntRange(0, 6).Draw(t, "routes") {
		q.createRoute(t)
	}
	return q
}

var countries = []struct{ no, prefix string }{{"CN", "86"}, {"DE", "49"}}
