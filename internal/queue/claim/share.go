package claim

import "math"

// RouteShare is what a route was served, in tasks over its weight, and the weight.
type RouteShare struct {
	Served float64
	Weight int64
}

// Shares hold within 2 points over any 500 tasks of a pool: no route is ahead of the one furthest behind by more than its part of
// sharedLead tasks, so that what it takes in a row is at most 2 * sharedLead * q * (1-q) tasks more or fewer than its share q,
// which is never more than 8. Where many routes share a pool, each may be leadEach tasks ahead, so that they need not take turns.
const (
	sharedLead = 16
	leadEach   = 3
)

// Share says how many tasks a route may take, what it counts as served, and what the rival furthest ahead was served. Rivals are
// the other routes that serve the pool now; there is at least one.
//
// The route furthest behind may always take one task. A route that lags by more than the others may be ahead was away or is new:
// it begins where the others are, and nobody waits for it before. So a sender earns nothing while it is away. That is judged by
// was, what the route was served when the rivals were looked at: by now a claim of the same sender beside this one may have
// taken more, and the rivals, too.
func Share(own RouteShare, was float64, rivals []RouteShare) (most int64, served, top float64) {
	const exact = 1e-6 // sums of fractions are not
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
		served = level // the one at the top is present
	case math.IsInf(level, 1):
		level = served
	}
	most = int64(math.Floor((level+lead-served)*float64(own.Weight) + exact))
	if served <= level+exact {
		return max(1, most), served, top
	}
	return max(0, most), served, top
}
