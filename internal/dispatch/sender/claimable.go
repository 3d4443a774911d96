package sender

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
)

// claimable contains the pools of a sender.
type claimable struct {
	pools        map[int64]float64 // sort of the sender in each pool, by pool id
	isPaced      bool              // a successful claim possibly starts the interval of the sender
	isRested     bool              // when the data was read, no interval delayed the sender; since then, the sender has claimed no tasks at this server
	othersDepend bool              // other senders depend on the polls of this sender, because of a route or its sort, so its polls must be stored soon
}

// poolsKept is the time for which the pools of a sender are cached. While a sender waits, a change of the directory clears the cache earlier. The
// registration of an app does not clear the cache, although other senders possibly depend on this app afterwards.
const poolsKept = time.Minute

// claimables caches the pools of senders.
type claimables struct {
	cache *expirable.LRU[string, claimable]

	mu      sync.Mutex
	clears  int   // number of times that the cache was cleared; if the cache is cleared during a read, the result of the read is not cached
	version int64 // last known version of the directory
}

func newClaimables() *claimables {
	return &claimables{cache: expirable.NewLRU[string, claimable](100_000, nil, poolsKept)}
}

func (c *claimables) get(senderNo string) (claimable, bool) { return c.cache.Get(senderNo) }

// beginRead starts a read of a sender's pools, and returns the function that caches the result. The result is not cached if the cache was cleared meanwhile.
// Otherwise a sender could be cached without a new pool, and would not find tasks in this pool for a minute.
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

// recordClaim records that a sender claimed tasks at this server.
func (c *claimables) recordClaim(senderNo string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, isKnown := c.cache.Peek(senderNo); isKnown && known.isPaced && known.isRested {
		known.isRested = false
		c.cache.Add(senderNo, known)
	}
}

// clearNow clears the cache after a change of the directory by this server.
func (c *claimables) clearNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

func (c *claimables) clear() {
	c.clears++
	c.cache.Purge()
}

// setVersion stores the version of the directory, and reports whether it changed. If it changed, setVersion clears the cache.
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

// recheck is the time after which a hindered sender claims again: it is off, paused, outside its hours, or out of quota or balance. Not every end of these reasons
// changes the version of the directory.
const recheck = 2 * time.Second

// Waits returns the remaining interval of a sender that found no task, and the pools of the sender with its sort in each pool. A sender that cannot claim for
// another reason waits for tasks. If it was woken for tasks in vain, Waits returns the time after which it claims again.
func (s *Service) Waits(ctx context.Context, senderNo string, wasWoken bool) (wait time.Duration, pools map[int64]float64, err error) {
	if c, known := s.pools.get(senderNo); known && !c.isPaced && !wasWoken {
		return 0, c.pools, nil
	}
	row, c, err := s.readPools(ctx, senderNo)
	if wait = seconds(row.Seconds); wasWoken {
		wait = max(wait, seconds(row.HinderedSeconds))
	}
	return wait, c.pools, err
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// readPools reads and caches the pools of a sender.
func (s *Service) readPools(ctx context.Context, senderNo string) (row senderq.SenderWaitsRow, c claimable, err error) {
	keep := s.pools.beginRead(senderNo)
	row, err = s.q.SenderWaits(ctx, senderq.SenderWaitsParams{SenderNo: senderNo, RecheckSeconds: recheck.Seconds()})
	if err != nil {
		return row, c, postgres.Wrap("read pools of sender", err, errNoSender)
	}
	c = claimable{make(map[int64]float64, len(row.Pools)), row.IsPaced, row.Seconds == 0, row.OthersDepend}
	for i, pool := range row.Pools {
		c.pools[pool] = row.Sorts[i]
	}
	keep(c)
	return row, c, nil
}

// MayWait returns the pools of a sender with its sort in each pool. may reports whether the sender can wait for tasks without a claim while its pools are
// empty. It can wait if no interval delays it, and if its polls are stored soon enough without a claim. Call RecordPoll first.
func (s *Service) MayWait(ctx context.Context, senderNo string) (pools map[int64]float64, may bool, err error) {
	c, known := s.pools.get(senderNo)
	if !known {
		if _, c, err = s.readPools(ctx, senderNo); err != nil {
			return nil, false, err
		}
	}
	if c.othersDepend {
		values, err := s.settings.Get(ctx)
		if err != nil {
			return nil, false, err
		}
		if values.Queue.SilentAfter() < recordedSteps*RecordEvery {
			return c.pools, false, nil
		}
	}
	return c.pools, c.isRested, nil
}

// RecordClaim records that a sender claimed tasks at this server.
func (s *Service) RecordClaim(senderNo string) { s.pools.recordClaim(senderNo) }

// Notice receives the version of the directory in the database, and reports whether it changed since the last call. If it changed, Notice clears the caches,
// because the pools of senders can be different.
func (s *Service) Notice(version int64) (isNew bool) {
	isNew = s.pools.setVersion(version)
	if isNew {
		s.directory.Invalidate()
	}
	return isNew
}
