package sender

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/internal/postgres"
)

// claimable holds the pools of a sender.
type claimable struct {
	pools     map[int64]float64 // id of the pool to the sort of the sender there
	countedOn bool              // others depend on its presence, by a route or its sort, so that every poll must be stored
}

// claimables caches for a minute the pools of senders without an interval to wait for.
type claimables struct {
	cache *expirable.LRU[string, claimable]

	mu      sync.Mutex
	clears  int   // number of clears; a read that a clear interrupts is not cached
	version int64 // last seen version of the directory
}

func newClaimables() *claimables {
	return &claimables{cache: expirable.NewLRU[string, claimable](100_000, nil, time.Minute)}
}

func (c *claimables) get(senderNo string) (claimable, bool) { return c.cache.Get(senderNo) }

// beginRead starts a read of a sender's pools, and returns the function that caches the result. The result is not
// cached if the cache was cleared meanwhile: a sender that is cached without a pool would find no task for a minute.
func (c *claimables) beginRead(senderNo string) (keep func(claimable)) {
	c.mu.Lock()
	before := c.clears
	c.mu.Unlock()
	return func(found claimable) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.clears == before {
			c.cache.Add(senderNo, found)
		}
	}
}

// forget clears the cache after a change of the directory by this server.
func (c *claimables) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

func (c *claimables) clear() {
	c.clears++
	c.cache.Purge()
}

// setVersion stores the version of the directory, and reports whether it changed; then it clears the cache.
func (c *claimables) setVersion(version int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		return false
	}
	c.version = version
	c.clear()
	return true
}

// Waits returns, for a sender that found no task, how long its interval still holds it back, and the pools that it
// serves with its sort in each. A change made on another server is seen after Notice.
func (s *Service) Waits(ctx context.Context, senderNo string) (wait time.Duration, pools map[int64]float64, err error) {
	if c, known := s.pools.get(senderNo); known {
		return 0, c.pools, nil
	}
	keep := s.pools.beginRead(senderNo)
	row, err := s.q.SenderWaits(ctx, senderNo)
	if err != nil {
		return 0, nil, postgres.Wrap("read pools of sender", err, errNoSender)
	}
	pools = make(map[int64]float64, len(row.Pools))
	for i, pool := range row.Pools {
		pools[pool] = row.Sorts[i]
	}
	if !row.IsPaced {
		keep(claimable{pools, row.IsCountedOn})
	}
	return time.Duration(row.Seconds * float64(time.Second)), pools, nil
}

// Notice takes the version of the directory in the database, and reports whether it changed since the last call. Then
// the pools of senders may have changed, and the caches are cleared.
func (s *Service) Notice(version int64) (isNew bool) {
	isNew = s.pools.setVersion(version)
	if isNew {
		s.directory.Forget()
	}
	return isNew
}

// Unhindered returns the pools of a sender that can take every task in them: no interval holds it back, and no share
// depends on it. known is false if that is not cached.
func (s *Service) Unhindered(senderNo string) (pools map[int64]float64, known bool) {
	c, known := s.pools.get(senderNo)
	return c.pools, known && !c.countedOn
}
