package access

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
)

const (
	freeFailures    = 5                // wrong passwords of one user from one address before the first wait
	freeFromAddress = 50               // wrong credentials of any users from one address
	longestWait     = time.Minute      // the wait doubles from a second up to this
	forgetAfter     = 15 * time.Minute // without another failure
)

// failures makes guessing slow. It counts for a user at an address, so that nobody can lock out a sender elsewhere, and
// for an address, so that nobody can try every user from one place. What was verified before is not asked for again
// within a minute, and so passes whatever its neighbours do.
type failures struct {
	mu      sync.Mutex
	entries *expirable.LRU[string, entry]
}

type entry struct {
	count int
	until time.Time
}

func newFailures() *failures {
	return &failures{entries: expirable.NewLRU[string, entry](50_000, nil, forgetAfter)}
}

// The keys cannot meet: an address holds no space.
func pair(username, address string) string { return address + " " + username }

// wait is how long the caller has to wait before its credentials are looked at, 0 when not.
func (f *failures) wait(username, address string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	longest := time.Duration(0)
	for _, key := range []string{address, pair(username, address)} {
		if e, ok := f.entries.Get(key); ok {
			longest = max(longest, time.Until(e.until))
		}
	}
	return longest
}

func (f *failures) add(username, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(address, freeFromAddress)
	f.count(pair(username, address), freeFailures)
}

func (f *failures) count(key string, free int) {
	e, _ := f.entries.Get(key)
	e.count++
	if over := e.count - free; over > 0 {
		e.until = time.Now().Add(min(time.Second<<min(over-1, 10), longestWait))
	}
	f.entries.Add(key, e)
}

// clear forgets the failures of a user that has got in. Those of the address stay: one good account must not let an
// attacker start over.
func (f *failures) clear(username, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries.Remove(pair(username, address))
}
