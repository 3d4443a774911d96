package sender

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
)

// claimable is what a sender may take from: pools, and its sort there.
type claimable struct {
	pools     map[int64]float64
	countedOn bool // others count on it, by a route or its sort, so that every poll must be noted
}

// claimables remembers for a minute what the senders may take from that nothing holds back.
type claimables struct {
	kept *expirable.LRU[string, claimable]

	mu        sync.Mutex
	forgotten int   // how often; what was being read meanwhile is not kept
	version   int64 // of the directory, as it was noticed last
}

func newClaimables() *claimables {
	return &claimables{kept: expirable.NewLRU[string, claimable](100_000, nil, time.Minute)}
}

func (c *claimables) get(appID string) (claimable, bool) { return c.kept.Get(appID) }

// reading begins to read what a sender may take from, and returns how to keep it. It is not kept if a change was told of
// meanwhile: a sender that is remembered to have no pool would not even look for a minute.
func (c *claimables) reading(appID string) (keep func(claimable)) {
	c.mu.Lock()
	before := c.forgotten
	c.mu.Unlock()
	return func(found claimable) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.forgotten == before {
			c.kept.Add(appID, found)
		}
	}
}

// forget is told that this server changed the directory.
func (c *claimables) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *claimables) drop() {
	c.forgotten++
	c.kept.Purge()
}

// notice is told the version of the directory, and tells whether it is another than the one before; then all is forgotten.
func (c *claimables) notice(version int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		return false
	}
	c.version = version
	c.drop()
	return true
}
