package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"lksms/internal/platform/fault"
)

// signIn starts a session and returns its token.
func (d *testServer) signIn(t *testing.T, username, password string) string {
	t.Helper()
	token, begun, err := d.users.SignIn(t.Context(), username, password, office, "a browser")
	if err != nil || begun.Principal.Username != username {
		t.Fatalf("sign in as %s: %v %+v", username, err, begun)
	}
	return token
}

// session tries a token, and returns the HTTP status of the result.
func (d *testServer) session(t *testing.T, token string) int {
	t.Helper()
	_, err := d.users.Session(t.Context(), token, office, false)
	return statusOf(t, err)
}

func statusOf(t *testing.T, err error) int {
	t.Helper()
	var expected *fault.Error
	switch {
	case err == nil:
		return 200
	case errors.As(err, &expected):
		return map[fault.Kind]int{fault.Unauthorized: 401, fault.TooMany: 429, fault.Unavailable: 503}[expected.Kind]
	default:
		t.Error(err)
		return 500
	}
}

func (d *testServer) expectSession(t *testing.T, status int, token string) {
	t.Helper()
	if got := d.session(t, token); got != status {
		t.Fatalf("the session: %d, want %d", got, status)
	}
}

func TestASessionEndsWhenItsUserIsDisabledChangedOrDeleted(t *testing.T) {
	t.Parallel()
	isTrue, other := true, "another password of its own"
	for name, end := range map[string]func(t *testing.T, b *testBundle){
		"disabled": func(t *testing.T, b *testBundle) {
			isFalse := false
			for _, isDisabled := range []*bool{&isTrue, &isFalse} { // a user that is enabled again has to sign in again
				if _, err := b.users.Update(t.Context(), Patch{Username: "user", IsDisabled: isDisabled}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"another password": func(t *testing.T, b *testBundle) {
			if _, err := b.users.Update(t.Context(), Patch{Username: "user", Password: &other}); err != nil {
				t.Fatal(err)
			}
		},
		"deleted": func(t *testing.T, b *testBundle) {
			if _, err := b.db.Pool().Exec(t.Context(), "DELETE FROM users"); err != nil {
				t.Fatal(err)
			}
			b.clock.move(sessionTTL)
		},
		"signed out everywhere": func(t *testing.T, b *testBundle) {
			if err := b.users.SignOutEverywhere(t.Context(), "user"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			user := b.user("user")
			token, second, admin := b.signIn(t, user, userPassword), b.signIn(t, user, userPassword), b.signIn(t, "admin", adminPassword)
			other := b.server()
			for _, one := range []string{token, second, admin} {
				b.expectSession(t, 200, one)
				other.expectSession(t, 200, one)
			}
			end(t, b)
			b.expectSession(t, 401, token)
			b.clock.move(sessionTTL)
			other.expectSession(t, 401, second)
			b.expectSession(t, 200, admin)
			other.expectSession(t, 200, admin)
		})
	}
}

// A session also ends if the password was changed without the trigger that ends sessions, for example before this trigger existed.
func TestASessionEndsWhenThePasswordOfItsUserChanges(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	token, admin := b.signIn(t, user, userPassword), b.signIn(t, "admin", adminPassword)
	ctx := t.Context()
	if _, err := b.db.Pool().Exec(ctx, "ALTER TABLE users DISABLE TRIGGER users_end_sessions"); err != nil {
		t.Fatal(err)
	}
	b.serverOf("another password of the admin").expectSession(t, 401, admin)
	password := "another password of its own"
	if _, err := b.users.Update(ctx, Patch{Username: user, Password: &password}); err != nil {
		t.Fatal(err)
	}
	b.expectSession(t, 401, token)
	b.expectSession(t, 200, admin)
	// A stored user with the name of the configured user does not get the sessions of the configured user.
	if _, err := b.db.Pool().Exec(ctx, "UPDATE users SET username = 'admin'"); err != nil {
		t.Fatal(err)
	}
	b.clock.move(sessionTTL)
	who, err := b.users.Session(ctx, admin, office, false)
	if err != nil || who.Principal.Role != RoleAdmin {
		t.Errorf("the configured user: %v %+v", err, who)
	}
	b.expectSession(t, 401, token)
}

func TestSigningOutEndsOneSession(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	token, second := b.signIn(t, user, userPassword), b.signIn(t, user, userPassword)
	b.expectSession(t, 200, token)
	for _, none := range []string{"", "!", "AAAA", token} {
		if err := b.users.SignOut(t.Context(), none); err != nil {
			t.Fatal(err)
		}
	}
	b.expectSession(t, 401, token)
	b.expectSession(t, 200, second)
}

func TestWrongTokensDelayNoOtherCallers(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	token := b.signIn(t, user, userPassword)
	var stored string
	if err := b.db.Pool().QueryRow(t.Context(), "SELECT s::text FROM sessions s").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		sum := sha256.Sum256([]byte{byte(n)})
		b.expectSession(t, 401, tokens.EncodeToString(sum[:]))
	}
	for _, wrong := range []string{"", "x", token + "A", token[:40], "\xff", stored} {
		b.expectSession(t, 401, wrong)
	}
	b.expectSession(t, 200, token)
	b.expect(t, 200, office, user, userPassword)
	b.signIn(t, user, userPassword)
}

func TestASessionEndsWhenItIsIdleOrTooOld(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	pool, ctx := b.db.Pool(), t.Context()
	age := func(column string, by time.Duration) {
		t.Helper()
		if _, err := pool.Exec(ctx, "UPDATE sessions SET "+column+" = now() - $1::interval", by); err != nil {
			t.Fatal(err)
		}
		b.clock.move(sessionTTL)
	}
	seen := func() (at time.Time) {
		t.Helper()
		if err := pool.QueryRow(ctx, "SELECT max(last_seen_at) FROM sessions").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	token := b.signIn(t, user, userPassword)
	age("last_seen_at", 7*time.Hour)
	before := seen()
	if _, err := b.users.Session(ctx, token, office, true); err != nil || !seen().Equal(before) {
		t.Errorf("a background check counts as a use of the session: %v", err)
	}
	b.expectSession(t, 200, token) // this use must be stored, even if the check cached the session
	if !seen().After(before) {
		t.Error("a use was not stored")
	}
	age("last_seen_at", 30*time.Second)
	before = seen()
	b.expectSession(t, 200, token)
	if !seen().Equal(before) {
		t.Error("a use was stored twice within a minute")
	}
	age("last_seen_at", 8*time.Hour)
	b.expectSession(t, 401, token)

	token = b.signIn(t, user, userPassword)
	age("created_at", 7*24*time.Hour-time.Minute)
	b.expectSession(t, 200, token)
	age("created_at", 7*24*time.Hour)
	b.expectSession(t, 401, token)
	b.signIn(t, "admin", adminPassword)
	if n, err := b.users.DeleteExpiredSessions(ctx); err != nil || n != 2 {
		t.Errorf("deleted %d sessions: %v", n, err)
	}
	if n, err := b.users.DeleteExpiredSessions(ctx); err != nil || n != 0 {
		t.Errorf("then deleted %d sessions: %v", n, err)
	}
}

func TestASessionAboveTheMaximumEndsTheOldestSession(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	other := b.signIn(t, "admin", adminPassword)
	all := make([]string, maxSessions+1)
	for n := range all {
		all[n] = b.signIn(t, user, userPassword)
	}
	b.expectSession(t, 401, all[0])
	b.expectSession(t, 200, all[1])
	b.expectSession(t, 200, all[maxSessions])
	b.expectSession(t, 200, other)
}

// SignIn and Basic share one limit of guesses.
func TestGuessesBySignInAndByBasicAuthAreCountedTogether(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	guess := func(username, password string) int {
		_, _, err := b.users.SignIn(t.Context(), username, password, office, "")
		return statusOf(t, err)
	}
	for n := range freeFailures + 1 {
		password := fmt.Sprint("guess ", n)
		if n%2 == 0 {
			b.expect(t, 401, office, user, password)
		} else if got := guess(user, password); got != 401 {
			t.Fatalf("guess %d: %d", n, got)
		}
	}
	if got := guess(user, "one more guess"); got != 429 {
		t.Errorf("one more guess: %d", got)
	}
	if got := guess(user, userPassword); got != 429 { // the same answer as from Basic
		t.Errorf("the right password: %d", got)
	}
	b.expect(t, 429, office, user, userPassword)

	// A name with a colon can give the same digest as the name and password of a user. Such a guess must be neither compared nor counted, and must not replace cached data of the user.
	for n := range 20 {
		if got := guess("admin:the", fmt.Sprint(" password ", n)); got != 401 {
			t.Fatalf("a name with a colon: %d", got)
		}
	}
	before := b.users.verifier.mistakes.Len()
	if got := guess("a", "b:c"); got != 401 || b.users.verifier.mistakes.Len() != before+1 {
		t.Errorf("a password with a colon: %d", got)
	}
	if got := guess("a:b", "c"); got != 401 || b.users.verifier.mistakes.Len() != before+1 {
		t.Errorf("a name with a colon was compared: %d", got)
	}
}

// Guesses by others from the address of a user block neither the session nor the sign-in of the user.
func TestGuessesByOthersLockOutNoSignedInUser(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	token := b.signIn(t, user, userPassword)
	for n := range 100 {
		_, _, _ = b.users.SignIn(t.Context(), "nobody", fmt.Sprint("guess ", n), office, "")
		_, _, _ = b.users.SignIn(t.Context(), user, fmt.Sprint("guess ", n), office, "")
		b.expectSession(t, 200, token)
		b.clock.move(time.Second)
	}
	b.signIn(t, user, userPassword)
	b.expect(t, 200, office, user, userPassword)
}

func TestAnAPIKeyCannotStartASession(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	_, key, err := b.users.CreateKey(t.Context(), user, "a key")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{user, ""} {
		_, _, err := b.users.SignIn(t.Context(), name, key, office, "")
		if got := statusOf(t, err); got != 401 {
			t.Errorf("%q: %d", name, got)
		}
	}
	b.expect(t, 200, office, user, key)
}

// The user is disabled between the check of its password and the start of the session.
func TestNoSessionStartsWhileItsUserIsBeingDisabled(t *testing.T) {
	b := setup(t)
	user := b.user("user")
	b.expect(t, 200, office, user, userPassword)
	tx, err := b.db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "UPDATE users SET is_disabled = true"); err != nil {
		t.Fatal(err)
	}
	began := make(chan error, 1)
	go func() {
		_, _, err := b.users.SignIn(t.Context(), user, userPassword, office, "")
		began <- err
	}()
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
		if err := b.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := statusOf(t, <-began); got != 401 {
		t.Errorf("sign in: %d", got)
	}
	var sessions int
	if err := b.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&sessions); err != nil || sessions != 0 {
		t.Errorf("%d sessions: %v", sessions, err)
	}
}
