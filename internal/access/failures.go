package access

import (
	"crypto/sha256"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	freeFailures    = 5                // wrong passwords of one user from one address before the first wait
	freeFromAddress = 50               // wrong credentials of any users from one address
	longestWait     = time.Minute      // the wait doubles from a second up to this
	forgetAfter     = 15 * time.Minute // without another failure

	freeOfResidents    = 20               // wrong passwords of all who live at an address, while others have to wait
	longestOfResidents = 10 * time.Second // so that who guesses with one name leaves turns to the others
)

// failures makes guessing slow. It counts for a user at an address, so that nobody can lock out a sender elsewhere, and
// for an address, so that nobody can try every user from one place. Only guesses that were compared count: the same wrong
// credentials again are no new guess. An API key cannot be guessed: wrong ones make each other wait, and no password.
//
// While guesses have to wait, those with the names of users that live at the address have allowances apart: one for each name,
// and one for all of them together. What is spent of these changes no answer.
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

// The keys have one length, whatever a caller sends as a user name, and cannot meet: a network holds no space, and what
// stands before it is no network.
func networkKey(network string) [sha256.Size]byte { return sha256.Sum256([]byte(network)) }

func userKey(username, network string) [sha256.Size]byte {
	return sha256.Sum256([]byte(network + " " + username))
}

// keysKey counts the wrong API keys from an address.
func keysKey(network string) [sha256.Size]byte { return networkKey("keys " + network) }

// residentsKey and residentKey count the guesses with any name, and with one, that lives at an address.
func residentsKey(network string) [sha256.Size]byte { return networkKey("home " + network) }

func residentKey(username, network string) [sha256.Size]byte {
	return userKey(username, "home "+network)
}

// wait is how long a guess has to wait, 0 when not.
func (f *failures) wait(username, network string) time.Duration {
	return max(f.left(networkKey(network)), f.left(userKey(username, network)))
}

// waitWithKey is how long another wrong API key has to wait.
func (f *failures) waitWithKey(network string) time.Duration { return f.left(keysKey(network)) }

// waitAtHome is how long it has to wait with the name of a user that lives there.
func (f *failures) waitAtHome(username, network string) time.Duration {
	return max(f.left(residentsKey(network)), f.left(residentKey(username, network)))
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
	f.count(keysKey(network), freeFailures, longestWait)
}

// addAtHome counts one that did not wait, because a user of that name lives there.
func (f *failures) addAtHome(username, network string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(residentsKey(network), freeOfResidents, longestOfResidents)
	f.count(residentKey(username, network), freeFailures, longestWait)
}

func (f *failures) count(key [sha256.Size]byte, free int, longest time.Duration) {
	now := f.now()
	e, _ := f.entries.Get(key)
	if now.Sub(e.last) > forgetAfter {
		e = entry{}
	}
	e.count++
	e.last = now
	if over := e.count - free; over > 0 {
		e.until = now.Add(min(time.Second<<min(over-1, 10), longest))
	}
	f.entries.Add(key, e)
}

// clear forgets the failures of a user that has got in. Those of the address stay: one good account must not let an
// attacker start over.
func (f *failures) clear(username, network string) {
	f.entries.Remove(userKey(username, network))
	f.entries.Remove(residentKey(username, network))
}

// newLRU makes a cache; it cannot fail for a positive size.
func newLRU[V any](size int) *lru.Cache[[sha256.Size]byte, V] {
	cache, err := lru.New[[sha256.Size]byte, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}
