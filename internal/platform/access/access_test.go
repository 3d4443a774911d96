package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

const (
	adminPassword = "the password of the admin"
	userPassword  = "a password 密码 of its own"
	office        = "192.0.2.1"
)

// testClock is a clock that the test advances.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (h *testClock) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *testClock) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// testBundle is a set of servers that check credentials, on one database and with one clock.
type testBundle struct {
	t        *testing.T
	database string
	clock    *testClock
	*testServer
}

// testServer is one server.
type testServer struct {
	users *Service
	db    *postgres.DB
	url   string
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	t.Parallel()
	b := &testBundle{t: t, database: pgtest.New(t), clock: &testClock{at: time.Now()}}
	b.testServer = b.server()
	return b
}

// server starts a server with the password adminPassword.
func (b *testBundle) server() *testServer { return b.serverOf(adminPassword) }

func (b *testBundle) serverOf(password string) *testServer {
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
	return &testServer{users, db, server.URL}
}

// user adds a user.
func (b *testBundle) user(name string) string {
	b.t.Helper()
	if _, err := b.users.Create(b.t.Context(), User{Username: name, Password: userPassword, Role: RoleSubmit}); err != nil {
		b.t.Fatal(err)
	}
	return name
}

// call sends a request with credentials from an address, and returns the status of the answer.
func (d *testServer) call(t *testing.T, address, username, password string) int {
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

func (d *testServer) expect(t *testing.T, status int, address, username, password string) {
	t.Helper()
	if got := d.call(t, address, username, password); got != status {
		t.Fatalf("%s at %s: %d, want %d", username, address, got, status)
	}
}

// spray sends guesses with many user names from an address, until the address has to wait. It returns the number of guesses that the server compared.
func (d *testServer) spray(t *testing.T, address string) int {
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

func TestPasswordGuessesOfOthersNeverLockOutAUserWhoHasCalledBefore(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	_, key, err := b.users.CreateKey(t.Context(), user, "key")
	if err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	for range 3 { // before each repetition, the verdict expires
		b.spray(t, office)
		for n := range 10 { // others also guess with the names of existing users
			b.call(t, office, user, fmt.Sprint("guess ", n))
			b.call(t, office, "admin", fmt.Sprint("guess ", n))
		}
		for range 50 {
			b.expect(t, 200, office, user, userPassword)
			b.expect(t, 200, office, "admin", adminPassword)
			b.expect(t, 200, office, user, key) // the first use of the key, during the guesses of others
			b.expect(t, 200, office, "", key)
			b.clock.move(2 * time.Second)
			b.call(t, office, user, fmt.Sprint("another guess ", b.clock.now()))
		}
		b.clock.move(verdictTTL)
	}
	// The proof is valid for longer than the verdict.
	b.clock.move(proofTTL - time.Hour)
	b.spray(t, office)
	b.expect(t, 200, office, user, userPassword)
}

func TestPollingWithAnOldPasswordAffectsNoOtherCaller(t *testing.T) {
	b := setup(t)
	user, other := b.user("user"), b.user("other")
	for range 24 * 60 * 60 / 5 {
		if _, err := b.users.Basic(t.Context(), user, "its old password", office); !errors.Is(err, ErrRequired) {
			t.Fatalf("refused with %v", err)
		}
		b.clock.move(5 * time.Second)
	}
	b.expect(t, 401, office, user, "its old password")
	v := b.users.verifier
	if kept := v.failures.entries.Len() + v.mistakes.Len() + v.verdicts.Len() + v.proofs.Len() + len(v.gates.open); kept > 4 {
		t.Errorf("%d cache entries are kept of it, want at most 4", kept)
	}
	b.expect(t, 200, office, other, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	b.expect(t, 200, office, user, userPassword)
	// When an administrator sets the old password again, the password is accepted at once.
	if _, err := b.users.Update(t.Context(), Patch{Username: user, Password: new("its old password")}); err != nil {
		t.Fatal(err)
	}
	b.expect(t, 200, office, user, "its old password")
	b.expect(t, 401, office, user, userPassword)
}

// The server compares the first five guesses for a user, and the first fifty from an address. After that, it compares one guess per minute.
func TestGuessesAreLimitedByUserAndByAddress(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	guess := func(i int) int { return b.call(t, office, user, fmt.Sprint("guess ", i)) }
	compared := 0
	for i := range 20 * 60 { // one guess per second
		if guess(i) == 401 {
			compared++
		}
		b.clock.move(time.Second)
	}
	if compared < 5 || compared > 5+7+20 {
		t.Errorf("%d guesses of one user were compared in 20 minutes", compared)
	}
	if got := b.call(t, office, user, userPassword); got != 429 { // this password was never proved at this address
		t.Errorf("the right password is answered with %d", got)
	}
	b.expect(t, 200, "198.51.100.1", user, userPassword) // another address does not have to wait

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

// Many connections do not get more guesses compared than one connection.
func TestConcurrentGuessesForOneUserShareOneLimit(t *testing.T) {
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

// Many user names do not get more guesses compared than one name. The memory for failures is bounded.
func TestConcurrentGuessesFromOneNetworkShareOneLimit(t *testing.T) {
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
		t.Errorf("%d gates are left open", len(v.gates.open))
	}
	const maxEntries = 50_000
	for i := range maxEntries {
		v.failures.add(fmt.Sprint("name ", i), fmt.Sprint("network ", i))
	}
	if n := v.failures.entries.Len(); n != maxEntries {
		t.Errorf("%d failures are kept", n)
	}
}

// A phone continues to poll with a revoked key.
func TestPollingWithARevokedKeyAffectsNoOtherCaller(t *testing.T) {
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
		t.Errorf("%d failures are kept of the revoked key, want at most 2", n)
	}
	for _, key := range phones[1:] { // the first use of each key
		if _, err := b.users.Bearer(t.Context(), key, office); err != nil {
			t.Fatalf("another key is refused with %v", err)
		}
	}
	b.expect(t, 200, office, users, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
}

// Guesses with the name of a known user have their own counters. While another client guesses names, a known user can log in after a restart and with a new
// password. Other users at the address cannot log in meanwhile.
func TestAKnownUserOfANetworkCanLogInAfterARestart(t *testing.T) {
	b := setup(t)
	user, stranger := b.user("user"), b.user("stranger")
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, office, "admin", adminPassword)
	restarted := b.server()
	restarted.spray(t, office)
	restarted.expect(t, 200, office, user, userPassword)
	restarted.expect(t, 200, office, "admin", adminPassword)
	restarted.expect(t, 429, office, stranger, userPassword)
	if _, err := restarted.users.Update(t.Context(), Patch{Username: user, Password: new("another password")}); err != nil {
		t.Fatal(err)
	}
	restarted.expect(t, 200, office, user, "another password")
	restarted.expect(t, 429, office, user, userPassword) // the same answer as to any wrong password from this address
	b.clock.move(2 * longestWait)
	restarted.expect(t, 401, office, user, userPassword)
}

// Comparing passwords is expensive, so the number of concurrent comparisons is bounded. A caller with cached credentials needs no comparison.
func TestPasswordComparisonsDelayNoCallerWithCachedCredentials(t *testing.T) {
	b := setup(t)
	user, known := b.user("user"), b.user("known")
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, "198.51.100.7", known, userPassword)
	if _, err := b.users.Update(t.Context(), Patch{Username: known, Password: new("another password")}); err != nil {
		t.Fatal(err)
	}
	v := b.users.verifier
	for range cap(v.hashing) {
		v.hashing <- struct{}{}
	}
	b.clock.move(2 * verdictTTL)
	b.expect(t, 200, office, user, userPassword)
	b.expect(t, 200, "198.51.100.7", known, "another password") // the server compares this password, because one slot is reserved for known users
	// Strangers wait for a slot, until the queue is full.
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for n := range maxQueue {
		waiting.Go(func() {
			_, err := v.verify(ctx, v.attempt("stranger", "guess", fmt.Sprint("203.0.113.", n)))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a waiting stranger is refused with %v", err)
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
		t.Errorf("%d gates are left open", len(v.gates.open))
	}
}

// noticed is the maximum time until a server notices a change by another server.
const noticed = 2 * versionTTL

// expectAs fails the test unless the credentials are accepted and belong to a role.
func (d *testServer) expectAs(t *testing.T, role, username, password string) {
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

func TestAChangeOfAUserTakesEffectOnOtherServersWithinTwoSeconds(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	made, key, err := b.users.CreateKey(t.Context(), user, "key")
	if err != nil {
		t.Fatal(err)
	}
	other := b.server()
	both := func(check func(d *testServer)) {
		t.Helper()
		check(b.testServer)
		b.clock.move(noticed)
		check(other)
	}
	both(func(d *testServer) {
		d.expectAs(t, RoleSubmit, user, userPassword)
		d.expectAs(t, RoleSubmit, "", key)
		d.expect(t, 401, office, "new", userPassword)
	})
	b.update(Patch{Username: user, Role: new(RoleRead)})
	both(func(d *testServer) {
		d.expectAs(t, RoleRead, user, userPassword)
		d.expectAs(t, RoleRead, "", key)
	})
	b.update(Patch{Username: user, Password: new("another password")})
	both(func(d *testServer) {
		d.expect(t, 401, office, user, userPassword)
		d.expect(t, 200, office, user, "another password")
	})
	b.update(Patch{Username: user, IsDisabled: new(true)})
	both(func(d *testServer) {
		d.expect(t, 401, office, user, "another password")
		d.expect(t, 401, office, "", key)
	})
	b.update(Patch{Username: user, IsDisabled: new(false)})
	both(func(d *testServer) {
		d.expect(t, 200, office, user, "another password")
		d.expect(t, 200, office, "", key)
	})
	if err := b.users.DeleteKey(t.Context(), user, made.ID); err != nil {
		t.Fatal(err)
	}
	both(func(d *testServer) {
		d.expect(t, 401, office, "", key)
		d.expect(t, 200, office, user, "another password")
	})
	b.user("new") // the server refused the password of this user above, before the user existed
	both(func(d *testServer) { d.expect(t, 200, office, "new", userPassword) })
}

// An administrator can change a user while a login of this user is in progress.
func TestAChangeOfAUserDuringALoginTakesEffect(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]Patch{
		"disabled": {IsDisabled: new(true)}, "another password": {Password: new("another password")}, "another role": {Role: new(RoleRead)},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			change.Username = b.user("user")
			other := b.server()
			// This lock makes a login with the right password wait before it stores the address of the user.
			tx, err := b.db.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), "LOCK TABLE user_addresses IN EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			var logins sync.WaitGroup
			for _, d := range []*testServer{b.testServer, other} {
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
			check := func(d *testServer) {
				t.Helper()
				if change.Role != nil {
					d.expectAs(t, *change.Role, change.Username, userPassword)
					return
				}
				d.expect(t, 401, office, change.Username, userPassword)
			}
			check(b.testServer)
			b.clock.move(noticed)
			check(other)
		})
	}
}

// Other connections do not see the user before the transaction is committed.
func TestAUserCanLogInAfterTheCommitOfItsCreation(t *testing.T) {
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

// Any number of requests of verified callers cost the database one small query per second. A change of users or keys costs more queries.
func TestARequestWithCachedCredentialsRunsNoQuery(t *testing.T) {
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
	if _, err := b.users.RecordVisits(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := version(); got != before {
		t.Errorf("logins changed the version from %d to %d", before, got)
	}
	// While the cached version is fresh, verification does not need the database. After that, only the configured user can be verified without the database.
	b.expect(t, 200, office, user, userPassword)
	b.db.Close()
	callers(200)
	b.expect(t, 401, office, user, "a wrong password")
	b.clock.move(noticed)
	callers(503)
	b.expect(t, 503, office, user, "a wrong password")
	b.expect(t, 503, office, "stranger", "guess")
}

// A host can use countless IPv6 addresses. Failures therefore count for the network of the host.
func TestAllAddressesOfAnIPv6NetworkShareOneCounter(t *testing.T) {
	b := setup(t)
	refused := false
	for n := range freeFromAddress + 2 {
		refused = b.call(t, fmt.Sprintf("2001:db8::%x", n+1), fmt.Sprint("name ", n), "guess") == 429
	}
	if !refused {
		t.Error("the addresses of one network are counted separately")
	}
	b.expect(t, 401, "2001:db8:0:1::1", "name", "guess")
}

// Wrong keys are delayed like wrong passwords, although keys cannot be guessed. A right key is not delayed.
func TestWrongAPIKeysAreDelayed(t *testing.T) {
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

// Many phones send revoked keys, and one system sends its old key as its password.
func TestWrongAPIKeysDoNotDelayPasswords(t *testing.T) {
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

// A password counts as an API key only if it has the complete form of an API key.
func TestAPasswordCanStartWithThePrefixOfAKey(t *testing.T) {
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
			t.Errorf("a new password in the form of a key: %v", err)
		}
	}
	b.expect(t, 200, office, "user", "lksms_a password")
}

// The command line does not check a new user against the contract.
func TestTheFaultOfAnInvalidUserNamesTheField(t *testing.T) {
	b := setup(t)
	long := strings.Repeat("好", 51)
	const name = "phone"
	for want, users := range map[string][]User{
		"username": {{Username: "a:b"}, {Username: ""}, {Username: long}, {Username: "z\tx"}, {Username: "q\nsubmit"}, {Username: "."}, {Username: ".."}, {Username: "\xff"}},
		"app_id":   {{Username: name, AppID: &long}, {Username: name, AppID: new("")}, {Username: name, AppID: new("..")}, {Username: name, AppID: new("\xff")}},
		"password": {
			{Username: name, Password: "too short"}, {Username: name, Password: strings.Repeat("x", 201)}, {Username: name, Password: userPassword + "\x00"},
			{Username: name, Password: userPassword + "\xff"},
		},
	} {
		for _, u := range users {
			u.Password, u.Role = cmp.Or(u.Password, userPassword), RoleSend
			_, err := b.users.Create(t.Context(), u)
			var wrong *fault.Error
			if !errors.As(err, &wrong) || len(wrong.Fields) != 1 || wrong.Fields[0].Name != want {
				t.Errorf("%s: %+v: %v", want, u, err)
			}
		}
	}
	for _, u := range []User{{Username: "..a"}, {Username: ".b", AppID: new("a\tb")}, {Username: "c.", Password: userPassword + "\t"}} {
		u.Password, u.Role = cmp.Or(u.Password, userPassword), RoleSend
		if _, err := b.users.Create(t.Context(), u); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
	}
	var wrong *fault.Error
	if _, err := b.users.Update(t.Context(), Patch{Username: "..a", Password: new("\xff" + userPassword)}); !errors.As(err, &wrong) || wrong.Fields[0].Name != "password" {
		t.Errorf("a new password: %v", err)
	}
}

// refusal returns the fault that refuses a caller.
func (d *testServer) refusal(t *testing.T, username, password string) fault.Error {
	t.Helper()
	_, err := d.users.Basic(t.Context(), username, password, office)
	var refused *fault.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%s: %v, want a refusal", username, err)
	}
	return *refused
}

func TestRejectedLoginDoesNotShowWhichUsersExist(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	b.expect(t, 200, office, user, userPassword)
	restarted := b.server()
	same := func(guess string, apart time.Duration) {
		t.Helper()
		b.clock.move(apart)
		known := restarted.refusal(t, user, guess)
		b.clock.move(apart)
		unknown := restarted.refusal(t, "nobody", guess)
		if known.Reason != unknown.Reason || known.RetryAfter != unknown.RetryAfter {
			t.Errorf("%s: a known name is refused with %+v, an unknown name with %+v", guess, known, unknown)
		}
	}
	restarted.spray(t, office)
	for n := range 30 {
		if restarted.refusal(t, user, fmt.Sprint("guess ", n)).Kind != fault.TooMany {
			t.Errorf("the answer to guess %d shows that it was compared", n)
		}
		same(fmt.Sprint("guess ", n), 0)
	}
	for n := range 30 { // the wait of the address has ended, so that earlier guesses have no effect
		same(fmt.Sprint("guess ", n), 2*longestWait)
	}
	b.clock.move(2 * longestWait)
	restarted.expect(t, 200, office, user, userPassword)
}

// At an address that has to wait, guesses stay slow, however many known users it has.
func TestGuessesWithTheNamesOfAllKnownUsersAreLimited(t *testing.T) {
	b := setup(t)
	names := make([]string, 8)
	for n := range names {
		names[n] = b.user(fmt.Sprint("user ", n))
		b.expect(t, 200, office, names[n], userPassword)
	}
	restarted := b.server()
	restarted.spray(t, office)
	v := restarted.users.verifier
	before := v.mistakes.Len()
	const minutes = 5
	for n := range minutes * 60 {
		for _, name := range append(names, "nobody") {
			restarted.refusal(t, name, fmt.Sprint("guess ", n))
		}
		b.clock.move(time.Second)
	}
	if compared := v.mistakes.Len() - before; compared > freeOfKnownUsers+12+(6+1)*minutes {
		t.Errorf("%d guesses were compared in %d minutes", compared, minutes)
	}
	// Guesses with the name of one known user do not use up the comparisons for other names.
	restarted = b.server()
	restarted.spray(t, office)
	for n := range 10 * 60 {
		restarted.refusal(t, names[0], fmt.Sprint("guess ", n))
		b.clock.move(3 * time.Second)
	}
	restarted.spray(t, office)
	b.clock.move(longestOfKnownUsers)
	restarted.expect(t, 200, office, names[1], userPassword)
}

// After a restart, another client of the network guesses with the name of the user.
func TestAKnownUserOfANetworkCanLogInWhileOthersGuessItsPassword(t *testing.T) {
	b := setup(t)
	user, stranger := b.user("user"), b.user("stranger")
	b.expect(t, 200, office, user, userPassword)
	restarted := b.server()
	for n := range 10 {
		restarted.call(t, office, user, fmt.Sprint("guess ", n))
		restarted.call(t, office, stranger, fmt.Sprint("guess ", n))
	}
	restarted.expect(t, 429, office, user, "guess")
	restarted.expect(t, 429, office, stranger, userPassword)
	restarted.expect(t, 200, office, user, userPassword)

	// These guesses stay slow. The first request after the wait is compared.
	restarted = b.server()
	v := restarted.users.verifier
	for n := range 20 * 60 {
		restarted.refusal(t, user, fmt.Sprint("guess ", n))
		b.clock.move(time.Second)
	}
	if compared := v.mistakes.Len(); compared > 2*(freeFailures+7+20) {
		t.Errorf("%d guesses of one user were compared in 20 minutes", compared)
	}
	b.clock.move(longestWait)
	restarted.expect(t, 200, office, user, userPassword)
}
