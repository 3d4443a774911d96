package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/gen/accessq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/snapshot"
)

const (
	// verdictTTL is how long a verdict on credentials is used without reading the user again, provided that the version of the stored credentials does not
	// change.
	verdictTTL = time.Minute
	// versionTTL is the age at which the cached version is read again. A server notices a change by another server within twice this time. All callers together
	// cost one small query per versionTTL.
	versionTTL = time.Second
	// proofTTL is how long after their last use proved credentials are accepted without a comparison, at the network where they were proved.
	proofTTL = 7 * 24 * time.Hour
	// visitStoredFor is the time during which the visit of a user at a network is not stored again. It is longer than a day, because the database updates a row
	// only after a day.
	visitStoredFor = 25 * time.Hour
	// maxKnownUsers is the maximum number of known users that are read for one network, and of visits that wait to be stored.
	maxKnownUsers = 10_000
	// maxQueue is the maximum number of callers that wait behind a guess from one network, and of guesses that wait for a hashing slot.
	maxQueue = 256
)

// digested is a SHA-256 sum.
type digested = [sha256.Size]byte

// verifier verifies credentials. The guesses of others never delay a caller that has proved its credentials. verifier tries these ways, the cheapest first:
//
//   - A verdict of the last minute is reused, unless any server has changed a user or an API key since.
//   - If credentials were compared before, and the stored password or key is still the same, the result of that comparison is reused. Wrong credentials are not
//     counted again.
//   - An API key costs one index lookup, because it cannot be guessed.
//   - All other credentials are guesses. A guess waits for earlier guesses from its network, and then costs one argon2id computation.
//
// A guess with the name of a known user has a separate limit, so that it is compared even while other guesses have to wait. Other callers at the network
// therefore cannot lock the known user out, even after a restart or a change of its password. The answer to such a wrong guess is the same as to a guess that was
// not compared, so that callers cannot find out the names of known users.
//
// While the database is unreachable, the answer is 503. An old verdict is not used, because the user was possibly disabled since. Only the configured user,
// which is stored in no table, is verified without the database.
type verifier struct {
	q         *accessq.Queries
	now       func() time.Time
	bootstrap digested // digest of the configured user's credentials
	admin     Principal
	secret    []byte // random for each process, so that the cached sums are useless in any other process
	nobody    string // the hash that is compared with the password of an unknown user

	versions snapshot.Cache[int64] // version of the stored credentials

	verdicts    *lru.Cache[digested, verdict]    // keyed by credentials
	proofs      *lru.Cache[digested, proof]      // keyed by credentials and network
	mistakes    *lru.Cache[digested, mistake]    // keyed by credentials
	knownUsers  *lru.Cache[digested, knownUsers] // keyed by network
	visitStored *lru.Cache[digested, time.Time]  // keyed by user and network: the time when the visit was last stored or queued

	visits   sync.Mutex
	unstored map[visit]struct{} // visits that wait to be stored

	failures *failures
	gates    gates
	hashing  chan struct{} // slots for comparisons, which limit the memory and the cores used by hashing
	reserved chan struct{} // one additional slot for known users
	lookups  chan struct{} // slots for lookups of API keys without a verdict
}

// attempt is one set of credentials from one network.
type attempt struct {
	username, password, network string
	isConfigured                bool // these are the credentials of the configured user
	isKey                       bool
	isShort                     bool     // the password is compared with the SMPP password of the user
	credentialsKey              digested // keyed sum of the credentials
	addressKey                  digested // keyed sum of the credentials and the network
}

// verdict is the cached result for credentials.
type verdict struct {
	principal Principal
	isGood    bool
	at        time.Time
	version   int64 // version of the stored credentials, read before the credentials
}

// proof is the cached record that credentials were right.
type proof struct {
	storedDigest digested // account.storedDigest at the time of the comparison
	at           time.Time
}

// mistake is the cached record that credentials were wrong.
type mistake struct {
	storedDigest  digested // account.storedDigest at the time of the comparison
	isUndisclosed bool     // the answer was "too many failures", so that the caller does not know that the credentials were compared
}

// visit is the use of a proved password by a user at a network.
type visit struct{ username, network string }

// knownUsers is the cached list of the known users of a network.
type knownUsers struct {
	names map[string]struct{}
	at    time.Time
}

// account is the account that credentials belong to if they are right.
type account struct {
	storedDigest digested // digest of the stored hash or key, which changes together with the hash or key; zero: nothing is stored
	user         *UserRow // nil for the configured user, and for a user that does not exist
	hash         *string  // the hash of the password; nil: the user has no password
	principal    Principal
}

// isOpen reports whether the owner can log in, which is true unless the user is disabled.
func (a account) isOpen() bool { return a.user == nil || !a.user.IsDisabled }

func (v *verifier) attempt(username, password, address string) attempt {
	return v.complete(attempt{username: username, password: password, network: outbound.NetworkOf(address)})
}

// bindAttempt returns an attempt of an SMPP bind. Other passwords than SMPP passwords are longer.
func (v *verifier) bindAttempt(username, password, address string) attempt {
	if len(password) > smppPasswordLength {
		return v.attempt(username, password, address)
	}
	return v.complete(attempt{username: username, password: password, network: outbound.NetworkOf(address), isShort: true})
}

// complete sets the keys of an attempt. The results of binds have keys of their own, so that an SMPP password is valid for binds only.
func (v *verifier) complete(a attempt) attempt {
	sum, kind := digest(a.username, a.password), ""
	if a.isShort {
		kind = "smpp " // no network begins with it
	}
	a.isConfigured = subtle.ConstantTimeCompare(sum[:], v.bootstrap[:]) == 1
	a.isKey = isKey(a.password) && !a.isConfigured // the configured password can have the form of a key, but is not a key
	a.credentialsKey = v.sign(sum, kind)
	a.addressKey = v.sign(sum, kind+a.network)
	return a
}

// sign returns a keyed sum. It does not use HMAC, which takes five times as long: these sums never leave the process, so nobody can forge them.
func (v *verifier) sign(sum digested, network string) digested {
	keyed := make([]byte, 0, 128) // allocated on the stack
	keyed = append(append(append(keyed, v.secret...), sum[:]...), network...)
	return sha256.Sum256(keyed)
}

// version returns the version of the stored credentials. Call version before reading the credentials: any later change then outdates the result that is cached
// with the version. For the configured user, version returns 0, because its credentials change only with a restart.
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

// verify returns the caller. Faults: auth.required, auth.too_many_failures, unavailable.
func (v *verifier) verify(ctx context.Context, a attempt) (Principal, error) {
	if who, err, known := v.cachedResult(ctx, a); known {
		return who, err
	}
	if a.isKey {
		return v.lookUp(ctx, a)
	}
	return v.guess(ctx, a)
}

// cachedResult returns the result of earlier comparisons, if this result is still valid. Otherwise known is false.
func (v *verifier) cachedResult(ctx context.Context, a attempt) (principal Principal, err error, known bool) {
	j, isJudged := v.verdicts.Get(a.credentialsKey)
	isJudged = isJudged && v.now().Sub(j.at) < verdictTTL
	right, isRight := v.proofs.Get(a.addressKey)
	isRight = isRight && v.now().Sub(right.at) < proofTTL
	wrong, isWrong := v.mistakes.Get(a.credentialsKey)
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
		if !isRight { // the credentials were proved at another network
			if p, ok := v.proofs.Get(a.credentialsKey); ok {
				v.proofs.Add(a.addressKey, p)
			}
		}
		return j.principal, nil, true
	}
	if !isRight && !isWrong {
		return Principal{}, nil, false
	}
	current, err := v.account(ctx, a)
	switch {
	case err != nil:
		return Principal{}, err, true
	case isRight && right.storedDigest == current.storedDigest:
		principal, err = v.admit(a, current, version)
		return principal, err, true
	case isWrong && wrong.storedDigest == current.storedDigest && wrong.isUndisclosed:
		wait := v.failures.wait(a.username, a.network)
		return Principal{}, tooMany(wait), wait > 0
	case isWrong && wrong.storedDigest == current.storedDigest:
		v.verdicts.Add(a.credentialsKey, verdict{at: v.now(), version: version})
		return Principal{}, ErrRequired, true
	default: // the stored credentials were changed since
		return Principal{}, nil, false
	}
}

// admit caches that the credentials of an account are right, and returns the principal unless the user is disabled.
func (v *verifier) admit(a attempt, owned account, version int64) (Principal, error) {
	p := proof{storedDigest: owned.storedDigest, at: v.now()}
	v.proofs.Add(a.addressKey, p)
	v.proofs.Add(a.credentialsKey, p)
	v.mistakes.Remove(a.credentialsKey)
	v.verdicts.Add(a.credentialsKey, verdict{principal: owned.principal, isGood: owned.isOpen(), at: p.at, version: version})
	if !owned.isOpen() {
		return Principal{}, ErrRequired
	}
	v.recordVisit(a)
	return owned.principal, nil
}

// refuse caches that credentials are wrong, and counts the failure.
func (v *verifier) refuse(a attempt, compared account, version int64) error {
	if a.isKey {
		v.failures.addKey(a.network)
	} else {
		v.failures.add(a.username, a.network)
	}
	v.mistakes.Add(a.credentialsKey, mistake{storedDigest: compared.storedDigest})
	v.verdicts.Add(a.credentialsKey, verdict{at: v.now(), version: version})
	return ErrRequired
}

// lookUp verifies an API key without a verdict. The guesses of others never delay a right key. A wrong key delays other wrong keys from its network.
func (v *verifier) lookUp(ctx context.Context, a attempt) (Principal, error) {
	leave, err := v.enterLookup(ctx, "key", a.network)
	if err != nil {
		return Principal{}, err
	}
	defer leave()
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

// enterLookup takes a slot to look up credentials of a kind that are not cached. At most one caller per network and kind has a slot, so that one network cannot
// use all slots.
func (v *verifier) enterLookup(ctx context.Context, kind, network string) (leave func(), err error) {
	quit, err := v.gates.enter(ctx, kind+" "+network)
	if err != nil {
		return nil, err
	}
	if err := acquire(ctx, v.lookups); err != nil {
		quit()
		return nil, err
	}
	return func() {
		<-v.lookups
		quit()
	}, nil
}

// guess verifies a password without a verdict. It verifies one password per network at a time.
func (v *verifier) guess(ctx context.Context, a attempt) (Principal, error) {
	wait, err := v.checkGuessWait(ctx, a)
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
	// Meanwhile another request can have proved the same credentials, or used up the guesses of the network.
	if principal, err, known := v.cachedResult(ctx, a); known {
		return principal, err
	}
	if wait, err = v.checkGuessWait(ctx, a); err != nil {
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
		v.failures.addAsKnownUser(a.username, a.network)
		v.mistakes.Add(a.credentialsKey, mistake{storedDigest: owned.storedDigest, isUndisclosed: true})
		return Principal{}, tooMany(wait)
	case !isRight:
		return Principal{}, v.refuse(a, owned, version)
	}
	v.failures.clear(a.username, a.network)
	if v.storeVisit(ctx, visit{a.username, a.network}) == nil { // an error does not fail the request
		v.visitStored.Add(userKey(a.username, a.network), v.now())
	}
	return v.admit(a, owned, version)
}

// checkGuessWait returns auth.too_many_failures for a guess that has to wait. The guess of a known user can be compared while other guesses have to wait. If this
// guess is wrong, wait is the Retry-After of its answer.
func (v *verifier) checkGuessWait(ctx context.Context, a attempt) (wait time.Duration, err error) {
	wait = v.failures.wait(a.username, a.network)
	if wait > 0 && (v.failures.waitAsKnownUser(a.username, a.network) > 0 || !v.isKnownUser(ctx, a)) {
		return 0, tooMany(wait)
	}
	return wait, nil
}

func tooMany(wait time.Duration) error {
	return &fault.Error{Kind: fault.TooMany, Reason: fault.AuthTooManyFailures, RetryAfter: wait}
}

// compare compares a password with the password of its account. A wrong password and an unknown user take the same time.
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
	hash, known := v.nobody, owned.hash != nil
	if known {
		hash = *owned.hash
	}
	same, err := argon2id.ComparePasswordAndHash(a.password, hash)
	if err != nil {
		return owned, false, fmt.Errorf("verify password: %w", err)
	}
	return owned, same && known, nil
}

// account returns the account of the credentials. It returns a zero account if the account does not exist.
func (v *verifier) account(ctx context.Context, a attempt) (account, error) {
	if a.isConfigured {
		return v.configured(), nil
	}
	var user UserRow
	var err error
	switch {
	case a.isKey:
		sum := sha256.Sum256([]byte(a.password))
		if user, err = v.q.UserByKey(ctx, sum[:]); err == nil && a.username != "" && a.username != user.Username {
			return account{}, nil
		}
	case postgres.IsText(a.username):
		user, err = v.q.UserGet(ctx, a.username)
	default: // PostgreSQL cannot store such a name: no user has it
		return account{}, nil
	}
	if postgres.IsNoRows(err) {
		return account{}, nil
	}
	if err != nil {
		return account{}, fmt.Errorf("find user: %w", err)
	}
	owned := account{user: &user, principal: principalOf(user), hash: user.PasswordHash}
	if a.isShort {
		hash, err := v.q.SmppPasswordGet(ctx, user.ID)
		if err != nil && !postgres.IsNoRows(err) {
			return account{}, fmt.Errorf("find SMPP password: %w", err)
		}
		owned.hash = optional.NonZero(hash)
	}
	switch {
	case a.isKey:
		owned.storedDigest = sha256.Sum256([]byte(a.password))
	case owned.hash != nil:
		owned.storedDigest = sha256.Sum256([]byte(*owned.hash))
	}
	return owned, nil
}

func (v *verifier) configured() account {
	return account{storedDigest: v.bootstrap, principal: v.admin}
}

// takeHashing takes a slot to compare a password. The reserved slot is for known users only.
func (v *verifier) takeHashing(ctx context.Context, a attempt) (release func(), err error) {
	select {
	case v.hashing <- struct{}{}:
		return func() { <-v.hashing }, nil
	default:
	}
	reserved := v.reserved
	if !v.isKnownUser(ctx, a) {
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

func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to verify key: %w", ctx.Err())
	}
}

// isKnownUser reports whether the user proved its password at this network within a month. While the database is unreachable, isKnownUser reads only the cache.
func (v *verifier) isKnownUser(ctx context.Context, a attempt) bool {
	key := networkKey(a.network)
	known, ok := v.knownUsers.Get(key)
	if !ok || v.now().Sub(known.at) >= verdictTTL {
		known = knownUsers{names: map[string]struct{}{}, at: v.now()}
		names, err := v.q.UserAddressList(ctx, accessq.UserAddressListParams{Network: a.network, PageLimit: maxKnownUsers})
		if err != nil {
			return false
		}
		for _, name := range names {
			known.names[name] = struct{}{}
		}
		v.knownUsers.Add(key, known)
	}
	_, isKnownUser := known.names[a.username]
	return isKnownUser
}

// recordVisit queues the visit of a user to be stored, about once a day. Visits with API keys are not recorded.
func (v *verifier) recordVisit(a attempt) {
	key := userKey(a.username, a.network)
	if at, ok := v.visitStored.Get(key); a.isKey || ok && v.now().Sub(at) < visitStoredFor {
		return
	}
	v.visits.Lock()
	defer v.visits.Unlock()
	if len(v.unstored) < maxKnownUsers {
		v.unstored[visit{a.username, a.network}] = struct{}{}
		v.visitStored.Add(key, v.now())
	}
}

// storeVisits stores the queued visits, and returns the number of stored visits. After an error, the remaining visits stay queued.
func (v *verifier) storeVisits(ctx context.Context) (int, error) {
	v.visits.Lock()
	visits := v.unstored
	v.unstored = map[visit]struct{}{}
	v.visits.Unlock()
	n := 0
	for one := range visits {
		if err := v.storeVisit(ctx, one); err != nil {
			v.visits.Lock()
			maps.Copy(v.unstored, visits)
			v.visits.Unlock()
			return n, err
		}
		delete(visits, one)
		n++
	}
	return n, nil
}

// storeVisit stores that a user proved its password at a network.
func (v *verifier) storeVisit(ctx context.Context, one visit) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := v.q.UserAddressRecord(ctx, accessq.UserAddressRecordParams{Username: one.username, Network: one.network}); err != nil {
		return fmt.Errorf("store address of user: %w", err)
	}
	v.knownUsers.Remove(networkKey(one.network))
	return nil
}

// gates lets one caller per network at a time check credentials.
type gates struct {
	mu   sync.Mutex
	open map[string]*gate
}

type gate struct {
	turn    chan struct{}
	callers int // callers that hold the gate or wait for it
}

// anyNetwork is the key of the queue of guesses that wait for a hashing slot. It equals no network.
const anyNetwork = "any"

// errBusy is the fault for callers that would have to wait behind too many other callers.
var errBusy = &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: time.Second}

// join enters the bounded queue of a network, without waiting for the gate.
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
	if one.callers >= maxQueue {
		return nil, nil, errBusy
	}
	one.callers++
	return one, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.callers--; one.callers == 0 {
			delete(g.open, network)
		}
	}, nil
}

// enter enters the bounded queue of a network, and waits for the gate.
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
