package verification_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/audience/verification"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/secret"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

var (
	replaySeed    = flag.Uint64("replay.seed", 1, "seed of the replay of an attack")
	replayMinutes = flag.Int("replay.minutes", 10, "length of each part of the replay")
)

// replay runs traffic with a clock that it sets itself.
type replay struct {
	*apptest.Bundle

	random  *rand.Rand
	origin  submit.Origin
	elapsed time.Duration    // of the clock
	due     map[int][]string // verifications to approve, by second
}

// counts are the codes of one kind of traffic.
type counts struct{ asked, passed int }

func (c counts) String() string {
	return fmt.Sprintf("%d of %d codes passed (%.2f %%)", c.passed, c.asked, 100*float64(c.passed)/float64(max(1, c.asked)))
}

// TestReplayOfAnAttack replays honest traffic to a country, first after a start without history, and then during an attack on one prefix of the country. 80 % of
// the honest codes are approved, after a time with a log-normal distribution.
func TestReplayOfAnAttack(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.DatabaseURL, o.Secrets = pgtest.NewWithClock(t), apptest.Secrets(secret.NewKey())
	})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"countries": "DE"}})
	r := &replay{Bundle: b, random: rand.New(rand.NewPCG(*replaySeed, 1)), origin: submit.Origin{User: "admin", CompanyID: company(b)}, due: map[int][]string{}}

	closed := r.run(30, map[string]func() (string, string){"attack": func() (string, string) { return r.number("+3361234"), r.client() }})
	t.Logf("attack on a closed country: %s", closed["attack"])
	cold := r.run(*replayMinutes*60, map[string]func() (string, string){"honest": r.honest})
	t.Logf("honest codes after a start without history: %s", cold["honest"])
	attacked := r.run(*replayMinutes*60, map[string]func() (string, string){
		"honest": r.honest, "attack": func() (string, string) { return r.number("+4915179"), r.client() },
	})
	t.Logf("honest codes during the attack: %s", attacked["honest"])
	t.Logf("attack on a prefix of the country: %s", attacked["attack"])
	next := 0
	ascending := r.run(60, map[string]func() (string, string){"attack": func() (string, string) {
		next++
		return fmt.Sprintf("+49151800%05d", next), r.client()
	}})
	t.Logf("attack on numbers in a row: %s", ascending["attack"])

	honest := attacked["honest"]
	if closed["attack"].passed > 0 || attacked["attack"].passed > 20 || float64(honest.passed) < 0.999*float64(honest.asked) || ascending["attack"].passed > 20 {
		t.Error("the targets are: no code for a closed country, 20 for a prefix without conversions and for numbers in a row, and 99.9 % of the honest codes")
	}
}

// run runs traffic for a number of seconds of the clock. Each kind of traffic asks for one code per second on average.
func (r *replay) run(seconds int, traffic map[string]func() (number, client string)) map[string]counts {
	r.T.Helper()
	total := map[string]counts{}
	for range seconds {
		r.elapsed += time.Second
		r.Exec("UPDATE clock.hand SET ahead = $1", r.elapsed)
		now := int(r.elapsed / time.Second)
		storeApproved(r.Bundle, r.due[now])
		if now%5 == 0 { // the interval of the sweep
			count(r.Bundle)
		}
		for _, kind := range []string{"honest", "attack"} {
			next, isAsked := traffic[kind]
			for n := r.arrivals(); isAsked && n > 0; n-- {
				c := total[kind]
				c.asked++
				if id := r.start(next()); id != "" {
					c.passed++
					if kind == "honest" && r.random.Float64() < 0.8 {
						at := now + 1 + int(15*math.Exp(0.6*r.random.NormFloat64()))
						r.due[at] = append(r.due[at], id)
					}
				}
				total[kind] = c
			}
		}
	}
	return total
}

// arrivals returns a number with a Poisson distribution and the mean 1.
func (r *replay) arrivals() (n int) {
	for p := r.random.Float64(); p > math.Exp(-1); p *= r.random.Float64() {
		n++
	}
	return n
}

// start starts a verification. It returns an empty id if the number or the client is suspected, or the country is closed.
func (r *replay) start(number, client string) (id string) {
	r.T.Helper()
	started, err := r.App.Verifications.Start(context.Background(), verification.Request{
		Person: verification.Person{PhoneNumber: &number}, Client: verification.Client{IP: client}, Purpose: "login", Raw: []byte("{}"),
	}, r.origin)
	var refused *fault.Error
	if errors.As(err, &refused) && (refused.Reason == fault.RecipientSuspected || refused.Reason == fault.RecipientCountryClosed) {
		return ""
	}
	if err != nil {
		r.T.Fatalf("%s: %v", number, err)
	}
	return started.ID
}

// honest returns a number of a person, and an address of a client.
func (r *replay) honest() (number, client string) {
	operators := []string{"1511", "1512", "1520", "1522", "1525", "1573", "1575", "1577", "1590", "1601", "1605", "1621", "1701", "1705", "1721", "1725", "1761", "1791"}
	return r.number("+49" + operators[r.random.IntN(len(operators))]), r.client()
}

// number returns a number with a beginning.
func (r *replay) number(beginning string) string {
	length := len("+491511234567")
	if beginning[4] == '5' {
		length++ // numbers that begin with 15 have one more digit
	}
	if beginning[1] == '3' {
		length = len("+33612345678")
	}
	for len(beginning) < length {
		beginning += string(rune('0' + r.random.IntN(10)))
	}
	return beginning
}

func (r *replay) client() string {
	return fmt.Sprintf("%d.%d.%d.%d", 11+r.random.IntN(80), r.random.IntN(256), r.random.IntN(256), 1+r.random.IntN(254))
}
