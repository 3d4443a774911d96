package claim

import "math"

// RouteShare is the amount of tasks that a route received from a pool.
type RouteShare struct {
	Served float64 // tasks divided by the weight
	Weight int64
}

// In any 500 consecutive tasks of a pool, the share of each route differs from its weight by at most 2 percentage points. To ensure this, the lead of a route
// over the last route is at most the route's share of sharedLead tasks. A route with share q therefore differs from its share of consecutive tasks by at most 2
// * sharedLead * q * (1-q) tasks, never more than 8. If many routes share a pool, each route can lead by about leadEach tasks, so that the routes need not
// alternate.
const (
	sharedLead = 16
	leadEach   = 3
)

// Share returns the maximum number of tasks for a route (maxTasks), the new served value of the route, and the largest served value of its rivals (top). Rivals
// are the other routes that serve the pool now; at least one rival must exist. `own` is locked when it is read. `was` is the served value of the route at the
// time when the rivals were read: another claim of the same sender can have claimed tasks since then.
//
// The last route can always claim one task. A route that lags by more than the lead was absent or is new. Such a route continues at the level of the others,
// because a sender earns no credit while it is absent. For the same reason, the other routes do not wait for such a route. The lag is measured from `was`,
// which has the same age as the values of the rivals.
func Share(own RouteShare, was float64, rivals []RouteShare) (maxTasks int64, served, top float64) {
	const exact = 1e-6 // tolerance: sums of fractions are not exact
	weights, lightest := own.Weight, own.Weight
	top = rivals[0].Served
	for _, r := range rivals {
		weights, lightest, top = weights+r.Weight, min(lightest, r.Weight), max(top, r.Served)
	}
	lead := float64(max(sharedLead, leadEach*(len(rivals)+1))) / float64(weights)
	present := max(top, was) - max(lead, 1/float64(lightest)) - exact
	level := math.Inf(1) // level of the last route
	for _, r := range rivals {
		if r.Served >= present {
			level = min(level, r.Served)
		}
	}
	served = own.Served
	switch {
	case served < present:
		served = level // finite, because the rival with the largest value is present
	case math.IsInf(level, 1):
		level = served
	}
	maxTasks = int64(math.Floor((level+lead-served)*float64(own.Weight) + exact))
	if served <= level+exact {
		return max(1, maxTasks), served, top
	}
	return max(0, maxTasks), served, top
}
