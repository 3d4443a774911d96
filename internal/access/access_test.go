package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/internal/fault"
	"lksms/internal/pgtest"
	"lksms/internal/postgres"
)

const (
	adminPassword = "the password of the admin"
	userPassword  = "a password 密码 of its own"
	office        = "192.0.2.1"
)

// hand is a clock that tests move.
type hand struct {
	mu sync.Mutex
	at time.Time
}

func (h *hand) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hand) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// testBundle is servers that ask for credentials, on one database and with one clock.
type testBundle struct {
	t        *testing.T
	database string
	clock    *hand
	*door
}

// door is one server.
type door struct {
	users *Service
	db    *postgres.DB
	url   string
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	t.Parallel()
	b := &testBundle{t: t, database: pgtest.New(t), clock: &hand{at: time.Now()}}
	b.door = b.server()
	return b
}

// server starts another server.
func (b *testBundle) server() *door { return b.serverOf(adminPassword) }

func (b *testBundle) serverOf(password string) *door {
	b.t.Helper()
	db, err := postgres.Open(b.t.Context(), b.database)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(db.Close)
	users, err := New(db, Options{Username: "admin", Password: password, Now: b.clock.now})
	if err != nil {
		b.t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		username, password, _ := r.BasicAuth()
		who, err := users.Basic(r.Context(), username, password, r.Header.Get("X-Address"))
		var expected *fault.Error
		switch {
		case err == nil:
			w.Header().Set("X-Role", who.Role)
		case errors.As(err, &expected):
			w.WriteHeader(map[fault.Kind]int{fault.Unauthorized: 401, fault.TooMany: 429, fault.Unavailable: 503}[expected.Kind])
		case postgres.IsUnavailable(err):
			w.WriteHeader(503)
		default:
			w.WriteHeader(500)
		}
	}))
	b.t.Cleanup(server.Close)
	return &door{users, db, server.URL}
}

// user adds a user.
func (b *testBundle) user(name string) string {
	b.t.Helper()
	if _, err := b.users.Create(b.t.Context(), User{Username: name, Password: userPassword, Role: RoleSubmit}); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// call asks to be let in, and gives the status of the answer.
func (d *door) call(t *testing.T, address, username, password string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(username, password)
	req.Header.Set("X-Address", address)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func (d *door) expect(t *testing.T, status int, address, username, password string) {
	t.Helper()
	if got := d.call(t, address, username, password); got != status {
		t.Fatalf("%s at %s: %d, want %d", username, address, got, status)
	}
}

// spray guesses with many names until the address has to wait, and tells how many guesses were compared.
func (d *door) spray(t *testing.T, address string) int {
	t.Helper()
	for n := range 200 {
		switch got := d.call(t, address, fmt.Sprint("somebody ", n), fmt.Sprint("guess ", n)); got {
		case 401:
		case 429:
			return n
		default:
			t.Fatalf("guess %d: %d", n, got)
		}
	}
	t.Fatal("200 guesses from one address were all compared")
	return 0
}

func TestNeighboursThatGuessNeverRefuseAProvenCaller(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	_, key, err := b.users.CreateKey(t.Context(), user, "key")
	if err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	for range 3 { // whose verification is over each time
		b.spray(t, office)
		for n := range 10 { // also with the name of the user
			b.call(t, office, user, fmt.Sprint("guess ", n))
			b.call(t, office, "admin", fmt.Sprint("guess ", n))
		}
		for range 50 {
			b.expect(t, 200, office, user, userPassword)
			b.expect(t, 200, office, "admin", adminPassword)
			b.expect(t, 200, office, user, key) // its first use is in the midst of it
			b.expect(t, 200, office, "", key)
			b.clock.move(2 * time.Second)
			b.call(t, office, user, fmt.Sprint("another guess ", b.clock.now()))
		}
		b.clock.move(verdictTTL)
	}
	// Long after, too.
	b.clock.move(proofTTL - time.Hour)
	b.spray(t, office)
	b.expect(t, 200, office, user, userPassword)
}

func TestAnOldPasswordPolledForADayConcernsNobodyElse(t *testing.T) {
	b := setup(t)
	user, neighbour := b.user("user"), b.user("neighbour")
	for range 24 * 60 * 60 / 5 {
		if _, err := b.users.Basic(t.Context(), user, "its old password", office); !errors.Is(err, ErrRequired) {
			t.Fatalf("refused with %v", err)
		}
		b.clock.move(5 * time.Second)
	}
	b.expect(t, 401, office, user, "its old password")
	v := b.users.verifier
	if kept := v.failures.entries.Len() + v.mistakes.Len() + v.verdicts.Len() + v.proofs.Len() + len(v.gates.open); kept > 4 {
		t.Errorf("%d things are kept of it", kept)
	}
	b.expect(t, 200, office, neighbour, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	b.expect(t, 200, office, user, userPassword)
	// Made right, it is taken at once.
	if _, err := b.users.Update(t.Context(), Patch{Username: user, Password: new("its old password")}); err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, user, "its old password")
	b.expect(t, 401, office, user, userPassword)
}

// Of a user at an address five guesses are compared at once, of an address fifty; then one in a minute.
func TestGuessingIsSlowForAUserAndForAnAddress(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	guess := func(i int) int { return b.call(t, office, user, fmt.Sprint("guess ", i)) }
	compared := 0
	for i := range 20 * 60 { // each second
		if guess(i) == 401 {
			compared++
		}
		b.clock.move(time.Second)
	}
	if compared < 5 || compared > 5+7+20 {
		t.Errorf("%d guesses of one user were compared in 20 minutes", compared)
	}
	if got := b.call(t, office, user, userPassword); got != 429 { // nobody proved it here
		t.Errorf("the right guess is answered with %d", got)
	}
	b.expect(t, 200, "198.51.100.1", user, userPassword) // elsewhere it is not held up

	elsewhere := "203.0.113.9"
	if n := b.spray(t, elsewhere); n != freeFromAddress+1 {
		t.Errorf("%d guesses of one address were compared", n)
	}
	compared = 0
	for i := range 20 * 60 {
		if b.call(t, elsewhere, fmt.Sprint("name ", i), "guess") == 401 {
			compared++
		}
		b.clock.move(time.Second)
	}
	if compared > 7+20 {
		t.Errorf("%d guesses of one address were compared in 20 more minutes", compared)
	}
}

// Many connections compare no more guesses than one.
func TestGuessesAtOnceAreCountedOneByOne(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			got := b.call(t, office, user, fmt.Sprint("guess ", i))
			mu.Lock()
			defer mu.Unlock()
			statuses[got]++
		})
	}
	all.Wait()
	if statuses[401] != freeFailures+1 || statuses[429] != 60-freeFailures-1 {
		t.Errorf("answered with %v", statuses)
	}
}

// Nor do many names, and what is kept of them is bounded.
func TestGuessesWithManyNamesAtOnceAreCountedOneByOne(t *testing.T) {
	b := setup(t)
	const guesses = 200
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range guesses {
		all.Go(func() {
			got := b.call(t, office, fmt.Sprint("name ", i), "guess")
			mu.Lock()
			defer mu.Unlock()
			statuses[got]++
		})
	}
	all.Wait()
	if statuses[401] != freeFromAddress+1 || statuses[429] != guesses-freeFromAddress-1 {
		t.Errorf("answered with %v", statuses)
	}
	v := b.users.verifier
	if len(v.gates.open) != 0 {
		t.Errorf("%d lines are left", len(v.gates.open))
	}
	const most = 50_000
	for i := range most {
		v.failures.add(fmt.Sprint("name ", i), fmt.Sprint("network ", i))
	}
	if n := v.failures.entries.Len(); n != most {
		t.Errorf("%d failures are kept", n)
	}
}

// A phone whose key was revoked goes on polling with it.
func TestARevokedKeyThatIsPolledWithConcernsNobodyElse(t *testing.T) {
	b := setup(t)
	phones, users := make([]string, 60), b.user("phones")
	for n := range phones {
		made, key, err := b.users.CreateKey(t.Context(), users, fmt.Sprint("phone ", n))
		if err != nil {
			t.Fatal(err)
		}
		if phones[n] = key; n == 0 {
			if err := b.users.DeleteKey(t.Context(), users, made.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 60 * 60 / 5 {
		if _, err := b.users.Bearer(t.Context(), phones[0], office); !errors.Is(err, ErrRequired) {
			t.Fatalf("refused with %v", err)
		}
		b.clock.move(5 * time.Second)
	}
	if n := b.users.verifier.failures.entries.Len(); n > 2 {
		t.Errorf("%d failures are kept of it", n)
	}
	for _, key := range phones[1:] { // each for the first time
		if _, err := b.users.Bearer(t.Context(), key, office); err != nil {
			t.Fatalf("a neighbour is refused with %v", err)
		}
	}
	b.expect(t, 200, office, users, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
}

// A user that lives at an address is limited there on its own: it gets in after a restart, and with a new password, while a
// neighbour tries names. Nobody else does.
func TestWhoLivesAtAnAddressGetsInAfterARestart(t *testing.T) {
	b := setup(t)
	user, stranger := b.user("user"), b.user("stranger")
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	again := b.server()
	again.spray(t, office)
	again.expect(t, 200, office, user, userPassword)
	again.expect(t, 200, office, "admin", adminPassword)
	again.expect(t, 429, office, stranger, userPassword)
	if _, err := again.users.Update(t.Context(), Patch{Username: user, Password: new("another password")}); err != nil {
		t.Fatal(err)
	}
	again.expect(t, 200, office, user, "another password")
	again.expect(t, 429, office, user, userPassword) // like any wrong one there
	b.clock.move(2 * longestWait)
	again.expect(t, 401, office, user, userPassword)
}

// Comparing passwords is what costs: it takes no more than its places, and who is known needs none.
func TestComparisonsHoldUpNoProvenCaller(t *testing.T) {
	b := setup(t)
	user, resident := b.user("user"), b.user("resident")
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, "198.51.100.7", resident, userPassword)
	if _, err := b.users.Update(t.Context(), Patch{Username: resident, Password: new("another password")}); err != nil {
		t.Fatal(err)
	}
	v := b.users.verifier
	for range cap(v.hashing) {
		v.hashing <- struct{}{}
	}
	b.clock.move(2 * verdictTTL)
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, "198.51.100.7", resident, "another password") // has a place of its own
	// Strangers wait, as many as the line holds.
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for n := range maxQueue {
		waiting.Go(func() {
			_, err := v.verify(ctx, v.attempt("stranger", "guess", fmt.Sprint("203.0.113.", n)))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a stranger that waits is told %v", err)
			}
		})
	}
	for {
		v.gates.mu.Lock()
		one := v.gates.open[anyNetwork]
		full := one != nil && one.callers == maxQueue
		v.gates.mu.Unlock()
		if full {
			break
		}
		time.Sleep(time.Millisecond)
	}
	b.expect(t, 503, "203.0.114.1", "stranger", "guess")
	b.expect(t, 200, office, user, userPassword)
	cancel()
	waiting.Wait()
	if len(v.gates.open) != 0 {
		t.Errorf("%d lines are left", len(v.gates.open))
	}
}

// noticed is how long another server may take to notice a change.
const noticed = 2 * versionTTL

// expectAs expects to be let in with a role.
func (d *door) expectAs(t *testing.T, role, username, password string) {
	t.Helper()
	who, err := d.users.Basic(t.Context(), username, password, office)
	if err != nil || who.Role != role {
		t.Fatalf("%s is let in as %q, want %q: %v", username, who.Role, role, err)
	}
}

func (b *testBundle) update(p Patch) {
	b.t.Helper()
	if _, err := b.users.Update(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
}

func TestAChangeIsInForceAtOnceHereAndWithinTwoSecondsElsewhere(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	made, key, err := b.users.CreateKey(t.Context(), user, "key")
	if err != nil {
		t.Fatal(err)
	}
	other := b.server()
	both := func(check func(d *door)) {
		t.Helper()
		check(b.door)
		b.clock.move(noticed)
		check(other)
	}
	both(func(d *door) {
		d.expectAs(t, RoleSubmit, user, userPassword)
		d.expectAs(t, RoleSubmit, "", key)
		d.expect(t, 401, office, "new", userPassword)
	})
	b.update(Patch{Username: user, Role: new(RoleRead)})
	both(func(d *door) {
		d.expectAs(t, RoleRead, user, userPassword)
		d.expectAs(t, RoleRead, "", key)
	})
	b.update(Patch{Username: user, Password: new("another password")})
	both(func(d *door) {
		d.expect(t, 401, office, user, userPassword)
		d.expect(t, 200, office, user, "another password")
	})
	b.update(Patch{Username: user, IsDisabled: new(true)})
	both(func(d *door) {
		d.expect(t, 401, office, user, "another password")
		d.expect(t, 401, office, "", key)
	})
	b.update(Patch{Username: user, IsDisabled: new(false)})
	both(func(d *door) {
		d.expect(t, 200, office, user, "another password")
		d.expect(t, 200, office, "", key)
	})
	if err := b.users.DeleteKey(t.Context(), user, made.ID); err != nil {
		t.Fatal(err)
	}
	both(func(d *door) {
		d.expect(t, 401, office, "", key)
		d.expect(t, 200, office, user, "another password")
	})
	b.user("new") // with the password that was wrong before
	both(func(d *door) { d.expect(t, 200, office, "new", userPassword) })
}

// A login takes a while, and what it began with may be over when it ends.
func TestAChangeDuringALoginIsNotOutlivedByIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]Patch{
		"disabled": {IsDisabled: new(true)}, "another password": {Password: new("another password")}, "another role": {Role: new(RoleRead)},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			change.Username = b.user("user")
			other := b.server()
			// A login that found its password right waits here, to keep where the user is.
			tx, err := b.db.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), "LOCK TABLE user_addresses IN EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			var logins sync.WaitGroup
			for _, d := range []*door{b.door, other} {
				logins.Go(func() { d.call(t, office, change.Username, userPassword) })
			}
			for waiting := 0; waiting < 2; {
				const query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'user_addresses'::regclass"
				if err := b.db.Pool().QueryRow(t.Context(), query).Scan(&waiting); err != nil {
					t.Fatal(err)
				}
			}
			b.update(change)
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			logins.Wait()
			check := func(d *door) {
				t.Helper()
				if change.Role != nil {
					d.expectAs(t, *change.Role, change.Username, userPassword)
					return
				}
				d.expect(t, 401, office, change.Username, userPassword)
			}
			check(b.door)
			b.clock.move(noticed)
			check(other)
		})
	}
}

// Nobody sees what a transaction made before its end.
func TestAUserOfATransactionIsKnownWhenThatIsCommitted(t *testing.T) {
	b := setup(t)
	err := b.db.Tx(t.Context(), func(ctx context.Context) error {
		_, err := b.users.Create(ctx, User{Username: "user", Password: userPassword, Role: RoleSubmit})
		b.expect(t, 401, office, "user", userPassword)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, "user", userPassword)
}

// Callers that were verified cost the database one small query in a second, however many requests they send, and nothing else
// than a change makes more of it.
func TestAVerifiedCallerCostsNoQuery(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	_, key, err := b.users.CreateKey(t.Context(), user, "key")
	if err != nil {
		t.Fatal(err)
	}
	version := func() int64 {
		t.Helper()
		got, err := b.users.q.CredentialsVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := version()
	callers := func(status int) {
		t.Helper()
		for range 20 {
			b.expect(t, status, office, user, userPassword)
			b.expect(t, status, office, "", key)
			b.expect(t, 200, office, "admin", adminPassword)
		}
	}
	callers(200)
	b.expect(t, 401, office, user, "a wrong password")
	if _, err := b.users.NoteVisits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := version(); got != before {
		t.Errorf("logins moved the version from %d to %d", before, got)
	}
	// As long as the version is fresh, the database is not needed. After that only the configured user is known without it.
	b.expect(t, 200, office, user, userPassword)
	b.db.Close()
	callers(200)
	b.expect(t, 401, office, user, "a wrong password")
	b.clock.move(noticed)
	callers(503)
	b.expect(t, 503, office, user, "a wrong password")
	b.expect(t, 503, office, "stranger", "guess")
}

// A host has more IPv6 addresses than anybody can count; its network is what is counted.
func TestTheAddressesOfAnIPv6NetworkCountAsOne(t *testing.T) {
	b := setup(t)
	refused := false
	for n := range freeFromAddress + 2 {
		refused = b.call(t, fmt.Sprintf("2001:db8::%x", n+1), fmt.Sprint("name ", n), "guess") == 429
	}
	if !refused {
		t.Error("each address of a network is counted apart")
	}
	b.expect(t, 401, "2001:db8:0:1::1", "name", "guess")
}

// A wrong key is slowed down like a wrong password, though nobody can guess one; a right one is not.
func TestWrongKeysAreSlowedDown(t *testing.T) {
	b := setup(t)
	_, key, err := b.users.CreateKey(t.Context(), b.user("user"), "key")
	if err != nil {
		t.Fatal(err)
	}
	for n := range freeFailures + 1 {
		b.expect(t, 401, office, "", fmt.Sprint(keyPrefix, strings.Repeat("A", 42), n))
	}
	b.expect(t, 429, office, "", keyPrefix+strings.Repeat("B", 43))
	b.expect(t, 200, office, "", key)
}

// Sixty phones whose keys were revoked, and a system that sends its old key as its password.
func TestWrongKeysHoldUpNoPassword(t *testing.T) {
	b := setup(t)
	user, stranger := b.user("user"), b.user("stranger")
	wrong := func(n int) string { return fmt.Sprintf("%s%043d", keyPrefix, n) }
	for n := range freeFromAddress + 10 {
		b.expect(t, 401, office, "", wrong(n))
		b.clock.move(longestWait)
	}
	for n := range freeFailures + 1 {
		b.expect(t, 401, office, user, wrong(1000+n))
		b.clock.move(longestWait)
	}
	b.expect(t, 401, office, user, wrong(2000))
	b.expect(t, 429, office, user, wrong(2001))
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, office, stranger, userPassword)
}

// Only what is made like a key is one.
func TestAPasswordMayBeginLikeAKey(t *testing.T) {
	b := setup(t)
	shaped := keyPrefix + strings.Repeat("A", 43)
	for _, password := range []string{"lksms_prod_password", shaped} {
		d := b.serverOf(password)
		d.expect(t, 200, office, "admin", password)
		d.expect(t, 401, office, "admin", password+"!")
	}
	if _, err := b.users.Create(t.Context(), User{Username: "user", Password: "lksms_a password", Role: RoleSubmit}); err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, "user", "lksms_a password")
	b.expect(t, 401, office, "user", "lksms_no password")
	_, created := b.users.Create(t.Context(), User{Username: "other", Password: shaped, Role: RoleSubmit})
	_, updated := b.users.Update(t.Context(), Patch{Username: "user", Password: &shaped})
	for _, err := range []error{created, updated} {
		var refused *fault.Error
		if !errors.As(err, &refused) || len(refused.Fields) != 1 || refused.Fields[0].Name != "password" {
			t.Errorf("a password that would be taken for a key is answered with %v", err)
		}
	}
	b.expect(t, 200, office, "user", "lksms_a password")
}

// told is how a caller is refused.
func (d *door) told(t *testing.T, username, password string) fault.Error {
	t.Helper()
	_, err := d.users.Basic(t.Context(), username, password, office)
	var refused *fault.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%s is told %v", username, err)
	}
	return *refused
}

func TestAWrongGuessDoesNotTellWhichNamesAreKnown(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	b.expect(t, 200, office, user, userPassword)
	again := b.server()
	same := func(guess string, apart time.Duration) {
		t.Helper()
		b.clock.move(apart)
		known := again.told(t, user, guess)
		b.clock.move(apart)
		unknown := again.told(t, "nobody", guess)
		if known.Reason != unknown.Reason || known.RetryAfter != unknown.RetryAfter {
			t.Errorf("%s: a known name is told %+v, an unknown one %+v", guess, known, unknown)
		}
	}
	again.spray(t, office)
	for n := range 30 {
		if again.told(t, user, fmt.Sprint("guess ", n)).Kind != fault.TooMany {
			t.Errorf("guess %d is told that it was compared", n)
		}
		same(fmt.Sprint("guess ", n), 0)
	}
	for n := range 30 { // the address may guess again; what it guessed meanwhile is as if it had not
		same(fmt.Sprint("guess ", n), 2*longestWait)
	}
	b.clock.move(2 * longestWait)
	again.expect(t, 200, office, user, userPassword)
}

// However many names live at an address that has to wait.
func TestGuessesOfAllWhoLiveAtAnAddressAreSlow(t *testing.T) {
	b := setup(t)
	names := make([]string, 8)
	for n := range names {
		names[n] = b.user(fmt.Sprint("user ", n))
		b.expect(t, 200, office, names[n], userPassword)
	}
	again := b.server()
	again.spray(t, office)
	v := again.users.verifier
	before := v.mistakes.Len()
	const minutes = 5
	for n := range minutes * 60 {
		for _, name := range append(names, "nobody") {
			again.told(t, name, fmt.Sprint("guess ", n))
		}
		b.clock.move(time.Second)
	}
	if compared := v.mistakes.Len() - before; compared > freeOfResidents+12+(6+1)*minutes {
		t.Errorf("%d guesses were compared in %d minutes", compared, minutes)
	}
	// A caller that guesses one name leaves the other names their turns.
	again = b.server()
	again.spray(t, office)
	for n := range 10 * 60 {
		again.told(t, names[0], fmt.Sprint("guess ", n))
		b.clock.move(3 * time.Second)
	}
	again.spray(t, office)
	b.clock.move(longestOfResidents)
	again.expect(t, 200, office, names[1], userPassword)
}

// A neighbour that guesses with the user's own name, after a restart.
func TestWhoLivesAtAnAddressGetsInThoughItsNameIsGuessed(t *testing.T) {
	b := setup(t)
	user, stranger := b.user("user"), b.user("stranger")
	b.expect(t, 200, office, user, userPassword)
	again := b.server()
	for n := range 10 {
		again.call(t, office, user, fmt.Sprint("guess ", n))
		again.call(t, office, stranger, fmt.Sprint("guess ", n))
	}
	again.expect(t, 429, office, user, "guess")
	again.expect(t, 429, office, stranger, userPassword)
	again.expect(t, 200, office, user, userPassword)

	// It stays slow, and whoever comes first when the minute is over is heard.
	again = b.server()
	v := again.users.verifier
	for n := range 20 * 60 {
		again.told(t, user, fmt.Sprint("guess ", n))
		b.clock.move(time.Second)
	}
	if compared := v.mistakes.Len(); compared > 2*(freeFailures+7+20) {
		t.Errorf("%d guesses of one user were compared in 20 minutes", compared)
	}
	b.clock.move(longestWait)
	again.expect(t, 200, office, user, userPassword)
}
