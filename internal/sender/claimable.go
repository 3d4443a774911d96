package sender

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/internal/postgres"
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

// Waits tells, of a sender that found nothing, how long its interval still holds it back, and from which pools it may take,
// with its sort there. What another server changed it knows once Notice was told of it.
func (s *Service) Waits(ctx context.Context, appID string) (rest time.Duration, pools map[int64]float64, err error) {
	if c, known := s.pools.get(appID); known {
		return 0, c.pools, nil
	}
	keep := s.pools.reading(appID)
	row, err := s.q.SenderWaits(ctx, appID)
	if err != nil {
		return 0, nil, postgres.Wrap("look what sender waits for", err, errNoSender)
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

// Notice is told the version of the directory in the database, and tells whether it is another than the one before: what senders may
// take from may be something else now.
func (s *Service) Notice(version int64) (isNew bool) {
	isNew = s.pools.notice(version)
	if isNew {
		s.directory.Forget()
	}
	return isNew
}

// Unhindered gives the pools of a sender that is known to get whatever waits in them: nothing paces it, and nobody counts on it.
func (s *Service) Unhindered(appID string) (pools map[int64]float64, known bool) {
	c, known := s.pools.get(appID)
	return c.pools, known && !c.countedOn
}
