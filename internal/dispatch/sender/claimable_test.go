package sender

import "testing"

func TestPoolsReadBeforeAChangeAreNotCached(t *testing.T) {
	t.Parallel()
	c := newClaimables()
	keep := c.beginRead("app")
	c.clearNow() // simulates a route that is added during the read
	keep(claimable{})
	if got, known := c.get("app"); known {
		t.Errorf("cached %v", got)
	}
	c.beginRead("app")(claimable{pools: map[int64]float64{1: 0}})
	if got, known := c.get("app"); !known || len(got.pools) != 1 {
		t.Errorf("got %v %v", got, known)
	}
}
