package stack

import (
	"testing"
)

func TestThreeSeedsBreakEachConnectionOfAServerToPostgreSQL(t *testing.T) {
	t.Parallel()
	for server := range ClusterServers {
		seen := map[way]bool{}
		for seed := range uint64(3) {
			seen[WayOf(server, seed)] = true
		}
		if len(seen) != int(ways) {
			t.Errorf("server %d has %d entry points", server, len(seen))
		}
	}
}
