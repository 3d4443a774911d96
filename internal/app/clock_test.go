package app_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata" // time zones for the comparison with PostgreSQL

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/apptest"
)

// stopAt stops the clock of the database at a time.
func stopAt(b *apptest.Bundle, at time.Time) {
	b.T.Helper()
	b.Exec("UPDATE clock.hand SET stopped = $1", at)
}

var units = []string{"minute", "hour", "day", "month"}

// windows returns names of the minute, hour, day and month of a time in a time zone. If a change of the clock repeats an hour, the second hour gets another
// name, but belongs to the same day.
func windows(at time.Time, zone *time.Location) [4]string {
	local := at.In(zone)
	return [4]string{local.Format("2006-01-02 15:04 -07:00"), local.Format("2006-01-02 15 -07:00"), local.Format("2006-01-02"), local.Format("2006-01")}
}

// edges returns the times at which windows have an unusual length: the changes of a zone's clock, and the ends of a month and a year.
func edges(t *testing.T, name string) (zone *time.Location, at []time.Time) {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(at time.Time) int { _, o := at.In(zone).Zone(); return o }
	for hour := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC); hour.Year() < 2019; hour = hour.Add(time.Hour) {
		if offset(hour) != offset(hour.Add(time.Hour)) {
			second := sort.Search(3600, func(s int) bool { return offset(hour.Add(time.Duration(s)*time.Second)) != offset(hour) })
			at = append(at, hour.Add(time.Duration(second)*time.Second))
		}
	}
	return zone, append(at, time.Date(2018, 2, 28, 23, 59, 59, 0, zone), time.Date(2019, 1, 1, 0, 0, 0, 0, zone))
}

// zones contains time zones with many offsets. In some zones, summer time begins or ends at midnight or on the first of a month, or changes the clock by half
// an hour.
var zones = []string{"Asia/Shanghai", "Europe/Berlin", "America/New_York", "America/Havana", "America/Sao_Paulo", "Asia/Beirut",
	"Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns"}

// limited is a sender with random limits, and its expected state.
type limited struct {
	no              string
	zone            *time.Location
	limits          map[string]any
	max             [4]int // by unit
	interval, lease time.Duration
	used            map[string]int // by unit and window
	pausedUntil     time.Time      // end of the interval after the last claim
}

// addLimited adds a sender with a random interval, limits and lease.
func addLimited(b *apptest.Bundle, random *rand.Rand, no string, zone *time.Location) *limited {
	b.T.Helper()
	s := &limited{no: no, zone: zone, limits: map[string]any{}, used: map[string]int{}}
	for u, upTo := range []int{12, 40, 90, 150} {
		if s.max[u] = 1 + random.IntN(upTo); random.IntN(3) > 0 {
			s.limits["per_"+units[u]] = s.max[u]
		} else {
			s.max[u] = 1 << 30
		}
	}
	s.interval = []time.Duration{0, 0, 1500 * time.Millisecond, 40 * time.Second, 7 * time.Minute}[random.IntN(5)]
	s.lease = time.Duration(60+random.IntN(3600)) * time.Second
	b.AddSender(map[string]any{"sender_no": no, "time_zone": zone.String(), "interval_ms": s.interval.Milliseconds(),
		"limits": s.limits, "lease_seconds": int(s.lease.Seconds())})
	return s
}

// expectShown fails the test unless the API returns the expected use of the limits, and whether the sender is ready.
func (s *limited) expectShown(b *apptest.Bundle, now time.Time, ready bool, left int) {
	b.T.Helper()
	open := windows(now, s.zone)
	b.Exec("UPDATE sender_states SET seen_at = now() WHERE sender_id = (SELECT id FROM senders WHERE sender_no = $1)", s.no) // so that the sender is not silent
	shown := b.GetSender(s.no)
	for u, got := range []int64{shown.Used.Minute, shown.Used.Hour, shown.Used.Day, shown.Used.Month} {
		if want := s.used[units[u]+open[u]]; int(got) != want {
			b.T.Fatalf("%s at %s: used %d of its limit by %s, shown are %d", s.zone, now.In(s.zone), want, units[u], got)
		}
	}
	if shown.IsReady != (ready && left > 0) {
		b.T.Fatalf("%s at %s: interval over %v, %d left, shown as ready: %v", s.zone, now.In(s.zone), ready, left, shown.IsReady)
	}
}

// claim claims a random number of tasks. It fails the test unless the sender gets as many tasks as its interval, limits and lease allow. It returns the number
// of tasks that count for the limits, and the units whose limit the claim reached.
func (s *limited) claim(b *apptest.Bundle, random *rand.Rand, now time.Time) (granted int, usedUp []string) {
	b.T.Helper()
	stopAt(b, now)
	open := windows(now, s.zone)
	left, ready := 1<<30, !now.Before(s.pausedUntil)
	for u := range units {
		left = min(left, s.max[u]-s.used[units[u]+open[u]])
	}
	s.expectShown(b, now, ready, left)
	ask := 1 + random.IntN(20)
	want := min(ask, left)
	if s.interval > 0 {
		want = min(want, max(1, int(s.lease/s.interval)))
	}
	if !ready {
		want = 0
	}
	got := len(b.Take(s.no, ask))
	if got != want {
		b.T.Fatalf("%s at %s: claimed %d with limits %v, interval %s, lease %s, used %v: got %d, want %d",
			s.zone, now.In(s.zone), ask, s.limits, s.interval, s.lease, s.used, got, want)
	}
	if isLimited := s.interval > 0 || len(s.limits) > 0; got > 0 && isLimited {
		for u := range units {
			s.used[units[u]+open[u]] += got
		}
		s.pausedUntil = now.Add(time.Duration(got) * s.interval)
		granted = got
	}
	if ready && left < ask {
		for u := range units {
			if s.used[units[u]+open[u]] == s.max[u] {
				usedUp = append(usedUp, units[u])
			}
		}
	}
	return granted, usedUp
}

// A claim always returns exactly as many tasks as the interval, limits and lease of the sender allow, and the API shows the same numbers. The test computes
// the windows with Go's calendar instead of PostgreSQL's.
func TestS4_2_IntervalsAndLimitsHoldWheneverASenderClaims(t *testing.T) {
	b := apptest.NewWithClock(t)
	b.SubmitMany("x", 20_000, nil)
	random := rand.New(rand.NewPCG(4, 2))
	granted, usedUp := 0, map[string]int{}
	for n, name := range zones {
		zone, at := edges(t, name)
		for i, edge := range at {
			s := addLimited(b, random, fmt.Sprint("s", n, "-", i), zone)
			now := edge.Add(-time.Duration(random.Int64N(int64(3 * time.Hour)))).Truncate(time.Microsecond)
			for range 25 {
				got, reached := s.claim(b, random, now)
				granted += got
				for _, unit := range reached {
					usedUp[unit]++
				}
				now = later(random, now, zone, s.pausedUntil, edge)
			}
		}
	}
	for _, unit := range units {
		if usedUp[unit] < 20 {
			t.Errorf("the limit by %s was reached only %d times, so the test checks too little", unit, usedUp[unit])
		}
	}
	t.Logf("%d tasks, limits reached: %v", granted, usedUp)
}

// later draws a time after now: an edge, the start or end of a window, the end of the interval, or a short or long time.
func later(random *rand.Rand, now time.Time, zone *time.Location, pausedUntil, edge time.Time) time.Time {
	local := now.In(zone)
	next := []time.Time{
		edge, pausedUntil, edge.Add(-time.Microsecond), pausedUntil.Add(-time.Microsecond),
		time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute()+1, 0, 0, zone),
		time.Date(local.Year(), local.Month(), local.Day(), local.Hour()+1, 0, 0, 0, zone),
		time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, 0, zone),
		time.Date(local.Year(), local.Month()+1, 1, 0, 0, 0, 0, zone),
	}[random.IntN(8)]
	if random.IntN(3) == 0 {
		next = next.Add(-time.Microsecond)
	}
	if next.After(now) && random.IntN(2) == 0 {
		return next
	}
	whiles := []time.Duration{0, time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 5 * time.Hour}
	return now.Add(time.Duration(random.Int64N(int64(whiles[random.IntN(len(whiles))]) + 2))).Truncate(time.Microsecond)
}

// Many senders claim concurrently while the clock moves. The messages have one or two segments. No window exceeds its limit. Each claim is made after the
// intervals of all tasks of the previous claim. The senders use up their limits.
func TestS4_3_ConcurrentClaimsExceedNoWindow(t *testing.T) {
	b := apptest.NewWithClock(t)
	limits := map[string]int{"minute": 12, "hour": 30, "day": 75, "month": 160}
	const interval = 400 * time.Millisecond
	zoneOf := map[string]*time.Location{}
	var senders []string
	for _, name := range zones {
		no := strings.ReplaceAll(name, "/", "-")
		b.AddSender(map[string]any{"sender_no": no, "time_zone": name, "interval_ms": interval.Milliseconds(), "limits": map[string]any{
			"per_minute": limits["minute"], "per_hour": limits["hour"], "per_day": limits["day"], "per_month": limits["month"]}})
		zoneOf[no], _ = edges(t, name)
		senders = append(senders, no)
	}
	for range 6 {
		b.SubmitMany("short", 300, nil)
		b.SubmitMany(strings.Repeat("长", 100), 300, nil)
	}

	claimWhileTimePasses(b, senders)

	claims := claimsOf(b)
	used := map[string]int{}
	for i, c := range claims {
		for u, window := range windows(c.at, zoneOf[c.sender]) {
			used[units[u]+" "+window+" of "+c.sender] += c.segments
		}
		if i > 0 && claims[i-1].sender == c.sender {
			if pausedUntil := claims[i-1].at.Add(time.Duration(claims[i-1].tasks) * interval); c.at.Before(pausedUntil) {
				t.Errorf("%s claimed at %s, but its interval lasts until %s", c.sender, c.at, pausedUntil)
			}
		}
	}
	usedUp := map[string]int{}
	for window, n := range used {
		unit, _, _ := strings.Cut(window, " ")
		if n > limits[unit] {
			t.Errorf("%d segments in the %s: the limit is %d", n, window, limits[unit])
		}
		if n >= limits[unit]-1 { // one segment can remain if the next message has two
			usedUp[unit]++
		}
	}
	for _, unit := range units {
		if usedUp[unit] < 3 {
			t.Errorf("the limit by %s was reached only %d times, so the test checks too little", unit, usedUp[unit])
		}
	}
	t.Logf("%d claims, limits reached: %v", len(claims), usedUp)
}

// claimWhileTimePasses makes 64 concurrent claims for random senders, until the clock of the database has moved by almost six days.
func claimWhileTimePasses(b *apptest.Bundle, senders []string) {
	b.T.Helper()
	// The period contains the end of a month, and the ends of summer time in Havana, Sao Paulo, New York and St. John's.
	now, end := time.Date(2018, 10, 30, 22, 0, 0, 0, time.UTC), time.Date(2018, 11, 5, 12, 0, 0, 0, time.UTC)
	stopAt(b, now)
	var clock sync.Mutex
	whiles := []time.Duration{200 * time.Millisecond, 4 * time.Second, 4 * time.Second, 20 * time.Second, 10 * time.Minute, 2 * time.Hour}
	apptest.Together(64, func(i int) {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		for over := false; !over; {
			b.Take(senders[random.IntN(len(senders))], 1+random.IntN(9))
			clock.Lock()
			if random.IntN(4) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(whiles[random.IntN(len(whiles))])))).Truncate(time.Microsecond)
				stopAt(b, now)
			}
			over = !now.Before(end)
			clock.Unlock()
		}
	})
}

// claimed is a claim of a sender according to the logs.
type claimed struct {
	sender   string
	at       time.Time
	tasks    int
	segments int
}

// claimsOf returns all claims, by sender and time.
func claimsOf(b *apptest.Bundle) []claimed {
	b.T.Helper()
	rows, err := b.DB.Query(b.T.Context(), `SELECT l.app_id, max(l.created_at), count(*), sum(t.segments) FROM send_logs l JOIN tasks t USING (task_id)
		GROUP BY l.app_id, l.created_at ORDER BY l.app_id, max(l.created_at)`)
	if err != nil {
		b.T.Fatal(err)
	}
	claims, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c claimed, err error) {
		return c, row.Scan(&c.sender, &c.at, &c.tasks, &c.segments)
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return claims
}

// A change of a sender's time zone does not reset the use of its limits.
func TestAChangeOfTheTimeZoneResetsNoLimit(t *testing.T) {
	b := apptest.NewWithClock(t)
	b.SubmitMany("x", 100, nil)
	b.AddSender(map[string]any{"sender_no": "moved", "time_zone": "Asia/Shanghai", "limits": map[string]any{"per_day": 10, "per_month": 25}})
	took := func(at string, want int) {
		t.Helper()
		clock, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		stopAt(b, clock)
		if got := len(b.Take("moved", 20)); got != want {
			t.Errorf("at %s: claimed %d, want %d", at, got, want)
		}
	}
	move := func(zone string) {
		t.Helper()
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/moved", map[string]any{"time_zone": zone})
	}
	took("2022-06-15T12:00:00Z", 10)
	for _, zone := range []string{"Europe/London", "America/Los_Angeles", "Pacific/Kiritimati", "Asia/Shanghai", "UTC"} {
		move(zone)
		took("2022-06-15T12:01:00Z", 0)
	}
	took("2022-06-16T00:00:00Z", 10)
	move("America/Los_Angeles") // in Los Angeles the date is still the fifteenth, and 20 of the 25 segments of the month are used
	took("2022-06-16T00:01:00Z", 0)
	took("2022-06-16T07:00:00Z", 5)
}

// The leases of a claim that waited for a lock start when the claim gets its tasks, even on another day.
func TestS4_3_TheLeasesOfAClaimThatWaitedBeginAfterTheWait(t *testing.T) {
	b := apptest.NewWithClock(t)
	at := time.Date(2022, 6, 15, 23, 59, 50, 0, time.UTC)
	stopAt(b, at)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "slow", "time_zone": "UTC", "interval_ms": 1000, "lease_seconds": 60, "limits": map[string]any{"per_day": 10}})
	b.AddRoute("acme", "slow", 1)
	b.SubmitMany("x", 20, nil, b.AddUser("acme", "submit", map[string]any{"company_no": "acme"})...)
	took := func(want int) {
		t.Helper()
		if got := len(b.Take("slow", 20)); got != want {
			t.Errorf("claimed %d, want %d", got, want)
		}
	}
	if got := len(b.Take("slow", 4)); got != 4 {
		t.Fatalf("claimed %d, want 4", got)
	}

	stopAt(b, at.Add(9*time.Second))
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM routes FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var claim sync.WaitGroup
	claim.Go(func() { took(6) })
	b.AwaitLockWait()
	served := at.Add(30 * time.Second)
	stopAt(b, served)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim.Wait()

	if n := b.Count("SELECT count(*) FROM send_logs l JOIN tasks t USING (task_id, lease_until) WHERE l.created_at = $1 AND t.updated_at = $1 AND l.lease_until = $1::timestamptz + interval '60 s'", served); n != 6 {
		t.Errorf("%d of 6 leases begin after the wait", n)
	}
	if used := b.GetSender("slow").Used; used.Day != 6 || used.Month != 10 {
		t.Errorf("used %d in the new day and %d in the month, want 6 and 10", used.Day, used.Month)
	}
	stopAt(b, served.Add(6*time.Second-time.Microsecond))
	took(0)
	stopAt(b, served.Add(6*time.Second))
	took(4)
}
