package claim

import "math"

// RouteShare is how much a route was served of a pool.
type RouteShare struct {
	Served float64 // tasks divided by the weight
	Weight int64
}

// Over any 500 tasks of a pool, each share is within 2 points of its weight. For this, no route may be ahead of the route furthest behind
// by more than its part of sharedLead tasks. So a route of share q takes at most 2 * sharedLead * q * (1-q) tasks more or fewer than its
// share of any tasks in a row, which is never more than 8. Where many routes share a pool, each may be about leadEach tasks ahead, so that
// they need not alternate.
const (
	sharedLead = 16
	leadEach   = 3
)

// Share returns how many tasks a route may take, its new served, and top, the served of the rival that is furthest ahead. Rivals are the
// other routes that serve the pool now; there is at least one. was is the served of the route when the rivals were read: own is locked and
// may be newer, because another claim of the same sender may have taken tasks since.
//
// The route furthest behind may always take one task. A route that lags by more than the lead was away or is new: it begins at the level of
// the others, and they do not wait for it. So a sender earns no credit while it is away. A rival that lags so far is not waited for either.
// The lag is measured from was, which is as old as the rivals.
func Share(own RouteShare, was float64, rivals []RouteShare) (most int64, served, top float64) {
	const exact = 1e-6 // tolerance: sums of fractions are not exact
	weights, lightest := own.Weight, own.Weight
	top = rivals[0].Served
	for _, r := range rivals {
		weights, lightest, top = weights+r.Weight, min(lightest, r.Weight), max(top, r.Served)
	}
	lead := float64(max(sharedLead, leadEach*(len(rivals)+1))) / float64(weights)
	present := max(top, was) - max(lead, 1/float64(lightest)) - exact
	level := math.Inf(1) // of the route furthest behind
	for _, r := range rivals {
		if r.Served >= present {
			level = min(level, r.Served)
		}
	}
	served = own.Served
	switch {
	case served < present:
		served = level // finite: the rival at the top is present
	case math.IsInf(level, 1):
		level = served
	}
	most = int64(math.Floor((level+lead-served)*float64(own.Weight) + exact))
	if served <= level+exact {
		return max(1, most), served, top
	}
	return max(0, most), served, top
}
