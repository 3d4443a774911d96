package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/outbound"
	"lksms/internal/postgres"
	"lksms/internal/snapshot"
)

const (
	// judgedFor is how long credentials are right or wrong without another look at the user, as long as the version of the
	// stored credentials stays the same.
	judgedFor = time.Minute
	// versionFresh is how old that version may be before it is read again; a server notices within twice as long what another
	// changed. All callers together cost one small query in this time.
	versionFresh = time.Second
	// provenFor is how long after their last use credentials need no guess to be recognised at the address where they were
	// proved.
	provenFor = 7 * 24 * time.Hour
	// notedFor is how long it is not kept again that a user lives at an address: longer than the day after which the database
	// takes it.
	notedFor = 25 * time.Hour
	// livingMost is how many users are known of one address, and about how many users wait to be noted.
	livingMost = 10_000
	// lineMost bounds how many callers wait for one address's guesses, and how many addresses for a comparison.
	lineMost = 256
)

// digested is a SHA-256 of something, or an HMAC with it.
type digested = [sha256.Size]byte

// verifier finds out whether credentials are right. It goes from the cheap to the dear, and a caller that proved its
// credentials never has to pay for the guesses of others:
//
//   - credentials that were judged within the last minute are as they were then, unless a user or an API key was changed since,
//     on this server or another;
//   - credentials that were compared before with what the database still holds are right or wrong as they were then, and a
//     wrong one is no new guess;
//   - an API key is one look at an index, and cannot be guessed;
//   - anything else is a guess: it waits for the guesses of its user and its address, and then costs an argon2id.
//
// Where guesses have to wait, one with the name of a user that proved its password there lately may be compared all the
// same, on allowances of their own: others at that address do not keep the user out, not even after a restart or a change
// of its password. A wrong one is told to wait as if it had not been compared, so that nobody learns who that is.
//
// While the database cannot be asked, nobody is let in for what was true before, because a user that was disabled since must not
// be: all are told that the service is unavailable. Only the configured user is known without it, for it stands in no table.
type verifier struct {
	q         *dbq.Queries
	now       func() time.Time
	bootstrap digested // of the configured user's credentials
	admin     Principal
	secret    []byte // of this process; what is remembered is of no use elsewhere
	nobody    string // a hash that an unknown user's password is compared with

	versions snapshot.Cache[int64] // of the stored credentials

	judged *lru.Cache[digested, judgement] // by credentials
	proven *lru.Cache[digested, proof]     // by credentials and address
	wrong  *lru.Cache[digested, mistake]   // by credentials
	living *lru.Cache[digested, household] // by address
	noted  *lru.Cache[digested, time.Time] // by user and address: when it was last kept that the user lives there

	visits  sync.Mutex
	unnoted map[visit]struct{} // of users that went on calling

	failures *failures
	gates    gates
	hashing  chan struct{} // a place for each comparison: bounds the memory and the cores that hashing takes
	reserved chan struct{} // one more, for users that are known at their addresses
	lookups  chan struct{} // a place for each look at an API key that is not known
}

// attempt is a caller's claim to be somebody.
type attempt struct {
	username, password, network string
	isConfigured                bool // these are the configured user's credentials
	isKey                       bool
	mark                        digested // of the credentials
	here                        digested // of the credentials at this address
}

// judgement is what credentials were found to be.
type judgement struct {
	who     Principal
	isGood  bool
	at      time.Time
	version int64 // of the stored credentials, read before those were looked at
}

// proof says that credentials were right.
type proof struct {
	of digested // what they were compared with
	at time.Time
}

// mistake says that credentials were wrong.
type mistake struct {
	of       digested // what they were compared with
	isSecret bool     // the caller was told to wait, and was not told that they were compared
}

// visit is a user at an address.
type visit struct{ username, network string }

// household is who proved a password at an address.
type household struct {
	names map[string]struct{}
	at    time.Time
}

// account is what credentials are compared with.
type account struct {
	of   digested  // changes when the credentials do; zero where there is nothing to compare with
	user *dbq.User // nil for the configured user and for nobody
	who  Principal
}

// isOpen tells whether its owner may come in.
func (a account) isOpen() bool { return a.user == nil || !a.user.IsDisabled }

func (v *verifier) attempt(username, password, address string) attempt {
	a := attempt{username: username, password: password, network: outbound.NetworkOf(address)}
	a.isConfigured = v.isBootstrap(a)
	a.isKey = isKey(password) && !a.isConfigured // the configured password may be anything
	a.mark = v.sign(digest(username, password), "")
	a.here = v.sign(digest(username, password), a.network)
	return a
}

func (v *verifier) sign(sum digested, network string) digested {
	mac := hmac.New(sha256.New, v.secret)
	mac.Write(sum[:])
	mac.Write([]byte(network))
	return digested(mac.Sum(nil))
}

// version is that of what the credentials are compared with. Whoever remembers what it finds there takes the version first, so
// that a change in between makes it look again. The configured user's credentials change with a restart alone.
func (v *verifier) version(ctx context.Context, a attempt) (int64, error) {
	if a.isConfigured {
		return 0, nil
	}
	version, err := v.versions.Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("read version of credentials: %w", err)
	}
	return version, nil
}

// verify says who comes. Faults: auth.required, auth.too_many_failures, unavailable.
func (v *verifier) verify(ctx context.Context, a attempt) (Principal, error) {
	if who, err, known := v.recall(ctx, a); known {
		return who, err
	}
	if a.isKey {
		return v.lookUp(ctx, a)
	}
	return v.guess(ctx, a)
}

// recall answers for credentials that were compared before.
func (v *verifier) recall(ctx context.Context, a attempt) (who Principal, err error, known bool) {
	j, isJudged := v.judged.Get(a.mark)
	isJudged = isJudged && v.now().Sub(j.at) < judgedFor
	right, isRight := v.proven.Get(a.here)
	isRight = isRight && v.now().Sub(right.at) < provenFor
	wrong, isWrong := v.wrong.Get(a.mark)
	if !isJudged && !isRight && !isWrong {
		return Principal{}, nil, false
	}
	version, err := v.version(ctx, a)
	if err != nil {
		return Principal{}, err, true
	}
	if isJudged && j.version == version {
		if !j.isGood {
			return Principal{}, ErrRequired, true
		}
		if !isRight { // in use at another address by now
			if p, ok := v.proven.Get(a.mark); ok {
				v.proven.Add(a.here, p)
			}
		}
		return j.who, nil, true
	}
	if !isRight && !isWrong {
		return Principal{}, nil, false
	}
	now, err := v.account(ctx, a)
	switch {
	case err != nil:
		return Principal{}, err, true
	case isRight && right.of == now.of:
		who, err = v.admit(a, now, version)
		return who, err, true
	case isWrong && wrong.of == now.of && wrong.isSecret:
		wait := v.failures.wait(a.username, a.network)
		return Principal{}, tooMany(wait), wait > 0
	case isWrong && wrong.of == now.of:
		v.judged.Add(a.mark, judgement{at: v.now(), version: version})
		return Principal{}, ErrRequired, true
	default: // they were changed since
		return Principal{}, nil, false
	}
}

// admit lets in who proved to be the owner of an account, unless that is disabled.
func (v *verifier) admit(a attempt, owned account, version int64) (Principal, error) {
	p := proof{of: owned.of, at: v.now()}
	v.proven.Add(a.here, p)
	v.proven.Add(a.mark, p)
	v.wrong.Remove(a.mark)
	v.judged.Add(a.mark, judgement{who: owned.who, isGood: owned.isOpen(), at: p.at, version: version})
	if !owned.isOpen() {
		return Principal{}, ErrRequired
	}
	v.visit(a)
	return owned.who, nil
}

// refuse remembers that credentials are wrong, and counts them.
func (v *verifier) refuse(a attempt, compared account, version int64) error {
	if a.isKey {
		v.failures.addKey(a.network)
	} else {
		v.failures.add(a.username, a.network)
	}
	v.wrong.Add(a.mark, mistake{of: compared.of})
	v.judged.Add(a.mark, judgement{at: v.now(), version: version})
	return ErrRequired
}

// lookUp answers for an API key that is not known. A right one is let in whatever others do; a wrong one makes other wrong ones
// from its address wait.
func (v *verifier) lookUp(ctx context.Context, a attempt) (Principal, error) {
	leave, err := v.gates.enter(ctx, "key "+a.network) // so that wrong keys from one address leave places to others
	if err != nil {
		return Principal{}, err
	}
	defer leave()
	if err := take(ctx, v.lookups); err != nil {
		return Principal{}, err
	}
	defer func() { <-v.lookups }()
	version, err := v.version(ctx, a)
	if err != nil {
		return Principal{}, err
	}
	owned, err := v.account(ctx, a)
	if err != nil {
		return Principal{}, err
	}
	if owned.user != nil {
		return v.admit(a, owned, version)
	}
	if wait := v.failures.waitWithKey(a.network); wait > 0 {
		return Principal{}, tooMany(wait)
	}
	return Principal{}, v.refuse(a, owned, version)
}

// guess answers for a password that is not known, one at a time for each address.
func (v *verifier) guess(ctx context.Context, a attempt) (Principal, error) {
	wait, err := v.mayGuess(ctx, a)
	if err != nil {
		return Principal{}, err
	}
	leave, err := v.gates.enter(ctx, a.network)
	if errors.Is(err, errBusy) && wait > 0 {
		err = tooMany(wait)
	}
	if err != nil {
		return Principal{}, err
	}
	defer leave()
	// Meanwhile another request may have proved the same credentials, or used up what the address may try.
	if who, err, known := v.recall(ctx, a); known {
		return who, err
	}
	if wait, err = v.mayGuess(ctx, a); err != nil {
		return Principal{}, err
	}
	version, err := v.version(ctx, a)
	if err != nil {
		return Principal{}, err
	}
	owned, isRight, err := v.compare(ctx, a)
	switch {
	case err != nil:
		return Principal{}, err
	case !isRight && wait > 0:
		v.failures.addAtHome(a.username, a.network)
		v.wrong.Add(a.mark, mistake{of: owned.of, isSecret: true})
		return Principal{}, tooMany(wait)
	case !isRight:
		return Principal{}, v.refuse(a, owned, version)
	}
	v.failures.clear(a.username, a.network)
	if v.note(ctx, visit{a.username, a.network}) == nil { // a failure is none of the request's
		v.noted.Add(userKey(a.username, a.network), v.now())
	}
	return v.admit(a, owned, version)
}

// mayGuess refuses a guess that has to wait. One with the name of a user that lives there may be compared although others
// would have to wait: then wait is what it is told if it is wrong.
func (v *verifier) mayGuess(ctx context.Context, a attempt) (wait time.Duration, err error) {
	wait = v.failures.wait(a.username, a.network)
	if wait > 0 && (v.failures.waitAtHome(a.username, a.network) > 0 || !v.lives(ctx, a)) {
		return 0, tooMany(wait)
	}
	return wait, nil
}

func tooMany(wait time.Duration) error {
	return &fault.Error{Kind: fault.TooMany, Reason: fault.AuthTooManyFailures, RetryAfter: wait}
}

// compare compares a password with the account that it claims. A wrong password and an unknown user take the same time.
func (v *verifier) compare(ctx context.Context, a attempt) (owned account, isRight bool, err error) {
	release, err := v.takeHashing(ctx, a)
	if err != nil {
		return owned, false, err
	}
	defer release()
	if a.isConfigured {
		return v.configured(), true, nil
	}
	owned, err = v.account(ctx, a)
	if err != nil {
		return owned, false, err
	}
	hash, known := v.nobody, owned.user != nil && owned.user.PasswordHash != nil
	if known {
		hash = *owned.user.PasswordHash
	}
	same, err := argon2id.ComparePasswordAndHash(a.password, hash)
	if err != nil {
		return owned, false, fmt.Errorf("verify password: %w", err)
	}
	return owned, same && known, nil
}

// account finds what credentials are compared with.
func (v *verifier) account(ctx context.Context, a attempt) (account, error) {
	if a.isConfigured {
		return v.configured(), nil
	}
	var user dbq.User
	var err error
	switch {
	case a.isKey:
		sum := sha256.Sum256([]byte(a.password))
		if user, err = v.q.UserByKey(ctx, sum[:]); err == nil && a.username != "" && a.username != user.Username {
			return account{}, nil
		}
	case postgres.IsText(a.username):
		user, err = v.q.UserGet(ctx, a.username)
	default: // which nobody is called
		return account{}, nil
	}
	if postgres.IsNoRows(err) {
		return account{}, nil
	}
	if err != nil {
		return account{}, fmt.Errorf("find user: %w", err)
	}
	owned := account{user: &user, who: principalOf(user)}
	switch {
	case a.isKey:
		owned.of = sha256.Sum256([]byte(a.password))
	case user.PasswordHash != nil:
		owned.of = sha256.Sum256([]byte(*user.PasswordHash))
	}
	return owned, nil
}

// isBootstrap tells whether these are the configured user's credentials, which no table holds.
func (v *verifier) isBootstrap(a attempt) bool {
	sent := digest(a.username, a.password)
	return subtle.ConstantTimeCompare(sent[:], v.bootstrap[:]) == 1
}

func (v *verifier) configured() account { return account{of: v.bootstrap, who: v.admin} }

// takeHashing takes a place to compare a password in. Strangers leave one to users that are known at their addresses.
func (v *verifier) takeHashing(ctx context.Context, a attempt) (release func(), err error) {
	select {
	case v.hashing <- struct{}{}:
		return func() { <-v.hashing }, nil
	default:
	}
	reserved := v.reserved
	if !v.lives(ctx, a) {
		reserved = nil
		leave, err := v.gates.join(anyNetwork)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	select {
	case v.hashing <- struct{}{}:
		return func() { <-v.hashing }, nil
	case reserved <- struct{}{}:
		return func() { <-v.reserved }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to verify password: %w", ctx.Err())
	}
}

func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to verify key: %w", ctx.Err())
	}
}

// lives tells whether the user proved its password at this address within a month. Without the database nobody did.
func (v *verifier) lives(ctx context.Context, a attempt) bool {
	key := networkKey(a.network)
	home, ok := v.living.Get(key)
	if !ok || v.now().Sub(home.at) >= judgedFor {
		home = household{names: map[string]struct{}{}, at: v.now()}
		names, err := v.q.UserAddressList(ctx, dbq.UserAddressListParams{Network: a.network, PageLimit: livingMost})
		if err != nil {
			return false
		}
		for _, name := range names {
			home.names[name] = struct{}{}
		}
		v.living.Add(key, home)
	}
	_, lives := home.names[a.username]
	return lives
}

// visit has it kept, once a day, that the user goes on calling from here.
func (v *verifier) visit(a attempt) {
	key := userKey(a.username, a.network)
	if at, ok := v.noted.Get(key); a.isKey || ok && v.now().Sub(at) < notedFor {
		return
	}
	v.visits.Lock()
	defer v.visits.Unlock()
	if len(v.unnoted) < livingMost {
		v.unnoted[visit{a.username, a.network}] = struct{}{}
		v.noted.Add(key, v.now())
	}
}

// noteVisits notes those that visit left, and tells how many. What it does not get to, the next one does.
func (v *verifier) noteVisits(ctx context.Context) (int, error) {
	v.visits.Lock()
	visits := v.unnoted
	v.unnoted = map[visit]struct{}{}
	v.visits.Unlock()
	n := 0
	for one := range visits {
		if err := v.note(ctx, one); err != nil {
			v.visits.Lock()
			maps.Copy(v.unnoted, visits)
			v.visits.Unlock()
			return n, err
		}
		delete(visits, one)
		n++
	}
	return n, nil
}

// note keeps that a user proved its password at an address.
func (v *verifier) note(ctx context.Context, one visit) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := v.q.UserAddressNote(ctx, dbq.UserAddressNoteParams{Username: one.username, Network: one.network}); err != nil {
		return fmt.Errorf("note where a user is: %w", err)
	}
	v.living.Remove(networkKey(one.network))
	return nil
}

// gates let one guess of each address through at a time.
type gates struct {
	mu   sync.Mutex
	open map[string]*gate
}

type gate struct {
	turn chan struct{}
	line int // who is inside or waits
}

// anyNetwork is the line of those that wait for a comparison; it is no address.
const anyNetwork = "any"

// errBusy is what callers are told that would have to wait behind too many others.
var errBusy = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: time.Second}

// join takes a place in a line that has an end.
func (g *gates) join(network string) (leave func(), err error) {
	_, leave, err = g.queue(network)
	return leave, err
}

func (g *gates) queue(network string) (one *gate, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one = g.open[network]
	if one == nil {
		one = &gate{turn: make(chan struct{}, 1)}
		g.open[network] = one
	}
	if one.line >= lineMost {
		return nil, nil, errBusy
	}
	one.line++
	return one, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.line--; one.line == 0 {
			delete(g.open, network)
		}
	}, nil
}

// enter waits for the address's turn.
func (g *gates) enter(ctx context.Context, network string) (leave func(), err error) {
	one, quit, err := g.queue(network)
	if err != nil {
		return nil, err
	}
	select {
	case one.turn <- struct{}{}:
		return func() {
			<-one.turn
			quit()
		}, nil
	case <-ctx.Done():
		quit()
		return nil, errors.Join(errors.New("wait to verify password"), ctx.Err())
	}
}
