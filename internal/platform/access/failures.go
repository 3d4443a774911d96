package access

import (
	"crypto/sha256"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	freeFailures    = 5                // wrong passwords of one user from one network before the first wait
	freeFromAddress = 50               // wrong passwords of all users from one network before the first wait
	longestWait     = time.Minute      // the wait starts at one second, and doubles up to this maximum
	expireAfter     = 15 * time.Minute // after this time without a failure, a counter starts at zero again

	freeOfKnownUsers    = 20               // wrong passwords for all known users of a network while other callers have to wait
	longestOfKnownUsers = 10 * time.Second // maximum wait for known users; short, so that guesses with one name do not block the other known users for long
)

// failures slows down guessing. Wrong passwords count for a user at a network (outbound.NetworkOf), so that nobody can lock out a sender at another network.
// They also count for the network, so that one caller cannot try every user. The same wrong password of a user is counted only once. Wrong API keys have a
// separate counter: they delay other wrong keys and no password, because an API key cannot be guessed.
//
// A known user is a user that recently proved its password at the network (see verifier.isKnownUser). While other guesses from a network have to wait, guesses
// with the names of known users have separate limits: one limit for each name, and one limit for all names together. No response reveals the state of these
// limits.
type failures struct {
	now     func() time.Time
	mu      sync.Mutex
	entries *lru.Cache[[sha256.Size]byte, entry]
}

type entry struct {
	count       int
	last, until time.Time
}

func newFailures(now func() time.Time) *failures {
	return &failures{now: now, entries: newLRU[entry](50_000)}
}

// networkKey returns the cache key of a network. Cache keys are hashes, so that all keys have one length. Keys of different kinds cannot collide: a network
// contains no space, and the prefixes of the other keys are not networks.
func networkKey(network string) [sha256.Size]byte { return sha256.Sum256([]byte(network)) }

func userKey(username, network string) [sha256.Size]byte {
	return sha256.Sum256([]byte(network + " " + username))
}

// apiKeysKey returns the key of the counter of wrong API keys from a network.
func apiKeysKey(network string) [sha256.Size]byte { return networkKey("keys " + network) }

// codesKey returns the key of the counter of wrong codes from a network; see TryCode.
func codesKey(network string) [sha256.Size]byte { return networkKey("codes " + network) }

// knownUsersKey returns the key of the counter of guesses with the names of all known users of a network.
func knownUsersKey(network string) [sha256.Size]byte { return networkKey("home " + network) }

// knownUserKey returns the key of the counter of guesses with the name of one known user.
func knownUserKey(username, network string) [sha256.Size]byte {
	return userKey(username, "home "+network)
}

// wait returns how long a guess has to wait. 0 means that the guess can be compared now.
func (f *failures) wait(username, network string) time.Duration {
	return max(f.left(networkKey(network)), f.left(userKey(username, network)))
}

// waitWithKey returns how long the next wrong API key has to wait.
func (f *failures) waitWithKey(network string) time.Duration { return f.left(apiKeysKey(network)) }

// waitWithCode returns how long the next code has to wait.
func (f *failures) waitWithCode(network string) time.Duration { return f.left(codesKey(network)) }

// waitAsKnownUser returns how long a guess with the name of a known user has to wait. 0 means that the guess can be compared now.
func (f *failures) waitAsKnownUser(username, network string) time.Duration {
	return max(f.left(knownUsersKey(network)), f.left(knownUserKey(username, network)))
}

func (f *failures) left(key [sha256.Size]byte) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, _ := f.entries.Get(key)
	return max(0, e.until.Sub(f.now()))
}

// add counts a wrong guess.
func (f *failures) add(username, network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(networkKey(network), freeFromAddress, longestWait)
	f.count(userKey(username, network), freeFailures, longestWait)
}

// addKey counts a wrong API key.
func (f *failures) addKey(network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(apiKeysKey(network), freeFailures, longestWait)
}

// addCode counts a wrong code.
func (f *failures) addCode(network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(codesKey(network), freeFailures, longestWait)
}

// addAsKnownUser counts a wrong guess that was compared only because its user is a known user.
func (f *failures) addAsKnownUser(username, network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(knownUsersKey(network), freeOfKnownUsers, longestOfKnownUsers)
	f.count(knownUserKey(username, network), freeFailures, longestWait)
}

func (f *failures) count(key [sha256.Size]byte, free int, longest time.Duration) {
	now := f.now()
	e, _ := f.entries.Get(key)
	if now.Sub(e.last) > expireAfter {
		e = entry{}
	}
	e.count++
	e.last = now
	if over := e.count - free; over > 0 {
		e.until = now.Add(min(time.Second<<min(over-1, 10), longest))
	}
	f.entries.Add(key, e)
}

// clear deletes the failures of a user whose password was right. It keeps the counter of the network: an attacker with one account of its own must not be able to
// reset this counter.
func (f *failures) clear(username, network string) {
	f.entries.Remove(userKey(username, network))
	f.entries.Remove(knownUserKey(username, network))
}

// newLRU returns a cache. It panics if size is below 1.
func newLRU[V any](size int) *lru.Cache[[sha256.Size]byte, V] {
	cache, err := lru.New[[sha256.Size]byte, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}
