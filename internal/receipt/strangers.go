package receipt

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/internal/outbound"
)

const (
	strangeMost     = 50          // callbacks of a network that prove nothing, in strangeFor, before it is told to wait
	strangeFor      = time.Minute // from the first of them
	strangeNetworks = 50_000      // that are remembered
)

// strangers counts the callbacks that proved nothing, by the network that they came from. The zero value is not ready.
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
		panic(err) // the size is positive
	}
	return &strangers{networks: networks}
}

// add counts a callback, and tells how long its network has to wait; 0: not at all.
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

// wait tells how long a network has to wait.
func (s *strangers) wait(address string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, _ := s.networks.Get(outbound.NetworkOf(address))
	return one.wait(time.Now())
}

func (s stranger) wait(now time.Time) time.Duration {
	if s.count <= strangeMost {
		return 0
	}
	return max(0, s.until.Sub(now))
}
