package receipt

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/internal/platform/outbound"
)

const (
	maxStrange      = 50          // number of unproven callbacks of a network within strangeFor after which the network has to wait
	strangeFor      = time.Minute // counted from the first unproven callback
	strangeNetworks = 50_000      // maximum number of networks in memory
)

// strangers counts unproven callbacks by network. Use newStrangers.
type strangers struct {
	mu       sync.Mutex
	networks *lru.Cache[string, stranger]
}

type stranger struct {
	count int
	until time.Time
}

func newStrangers() *strangers {
	networks, err := lru.New[string, stranger](strangeNetworks)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &strangers{networks: networks}
}

// add counts an unproven callback, and returns how long its network has to wait. 0 means that it does not have to wait.
func (s *strangers) add(address string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, network := time.Now(), outbound.NetworkOf(address)
	one, _ := s.networks.Get(network)
	if !now.Before(one.until) {
		one = stranger{until: now.Add(strangeFor)}
	}
	one.count++
	s.networks.Add(network, one)
	return one.wait(now)
}

// wait returns how long a network has to wait. 0 means that it does not have to wait.
func (s *strangers) wait(address string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, _ := s.networks.Get(outbound.NetworkOf(address))
	return one.wait(time.Now())
}

func (s stranger) wait(now time.Time) time.Duration {
	if s.count <= maxStrange {
		return 0
	}
	return max(0, s.until.Sub(now))
}
