package claim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// simulate runs claims of routes until n tasks are claimed. `next` decides which route claims, and `limit` is the maximum number of tasks per claim. The result
// contains the route of each task.
func simulate(weights []int64, limit int64, n int, next func(step int) int) []int {
	served := make([]float64, len(weights))
	var took []int
	for step := 0; len(took) < n; step++ {
		me := next(step)
		var rivals []RouteShare
		for i, w := range weights {
			if i != me {
				rivals = append(rivals, RouteShare{served[i], w})
			}
		}
		maxTasks, from, _ := Share(RouteShare{served[me], weights[me]}, served[me], rivals)
		maxTasks = min(maxTasks, limit)
		served[me] = from + float64(maxTasks)/float64(weights[me])
		for range maxTasks {
			took = append(took, me)
		}
	}
	return took
}

// worst returns the largest difference between a route's share and its weight over any 500 consecutive tasks, in percentage points.
func worst(took []int, weights []int64) float64 {
	const window = 500
	var sum int64
	for _, w := range weights {
		sum += w
	}
	counts, largest := make([]int, len(weights)), 0.0
	for i, who := range took {
		counts[who]++
		if i >= window {
			counts[took[i-window]]--
		}
		if i < window-1 {
			continue
		}
		for r, w := range weights {
			largest = max(largest, 100*math.Abs(float64(counts[r])/window-float64(w)/float64(sum)))
		}
	}
	return largest
}

func TestSharesMatchWeightsOverAny500Tasks(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]int64{{3, 1}, {1, 1}, {9, 1}, {1, 100}, {1, 2, 3}, {1, 1, 1, 1}, {5, 4, 3, 2}, {1, 1, 1, 1, 1}, {50, 20, 15, 10, 5}} {
		for _, limit := range []int64{1, 2, 3, 4, 7, 10, 50, 100, 1000} {
			random := rand.New(rand.NewPCG(uint64(limit), uint64(len(weights))))
			for name, next := range map[string]func(step int) int{
				"in turn":          func(step int) int { return step % len(weights) },
				"at random":        func(int) int { return random.IntN(len(weights)) },
				"the first mostly": func(int) int { return max(0, random.IntN(8*len(weights))-7*len(weights)) },
			} {
				if off := worst(simulate(weights, limit, 5000, next), weights); off > 2 {
					t.Errorf("weights %v, polls of %d, %s: off by %.1f points", weights, limit, name, off)
				}
			}
		}
	}
}

func TestShareLimitsTheLeadOfARoute(t *testing.T) {
	t.Parallel()
	type s = RouteShare
	for name, c := range map[string]struct {
		own      RouteShare
		rivals   []RouteShare
		maxTasks int64
		served   float64
	}{
		"even":                          {s{0, 1}, []s{{0, 1}}, 8, 0},
		"as far ahead as it may be":     {s{8, 1}, []s{{0, 1}}, 0, 8},
		"behind":                        {s{0, 1}, []s{{8, 1}}, 16, 0},
		"a weight too small for a part": {s{5, 1}, []s{{5, 10000}}, 1, 5},
		"the rival is too light to take its part": {s{5, 10000}, []s{{5, 1}}, 15, 5},
		"this route was idle":                     {s{10, 1}, []s{{500, 1}, {505, 1}}, 5, 500},
		"the rivals were idle":                    {s{500, 1}, []s{{10, 1}, {20, 1}}, 5, 500},
		"one rival was idle":                      {s{500, 1}, []s{{10, 1}, {498, 1}}, 3, 500},
		"this route and one rival were idle":      {s{10, 1}, []s{{500, 1}, {0, 1}}, 5, 500},
		"many rivals":                             {s{3, 1}, make([]s, 999), 0, 3},
		"many rivals, all even":                   {s{0, 1}, make([]s, 999), 3, 0},
	} {
		for i := range c.rivals {
			c.rivals[i].Weight = max(1, c.rivals[i].Weight)
		}
		if maxTasks, served, _ := Share(c.own, c.own.Served, c.rivals); maxTasks != c.maxTasks || served != c.served {
			t.Errorf("%s: %d from %v, want %d from %v", name, maxTasks, served, c.maxTasks, c.served)
		}
	}
}

// For any state of the routes, at least one route can claim a task. No route can claim more than twice its part of the lead.
func TestAtLeastOneRouteCanClaim(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		n := 2 + random.IntN(5)
		all := make([]RouteShare, n)
		for i := range all {
			all[i] = RouteShare{float64(random.IntN(40)) * math.Pow(10, float64(random.IntN(4))), 1 + random.Int64N(100)}
		}
		var total int64
		for i := range all {
			rivals := append(append([]RouteShare{}, all[:i]...), all[i+1:]...)
			maxTasks, _, _ := Share(all[i], all[i].Served, rivals)
			total += maxTasks
			if maxTasks > 2*max(sharedLead, leadEach*int64(n))+1 {
				t.Fatalf("%v of %v may take %d", all[i], rivals, maxTasks)
			}
		}
		if total == 0 {
			t.Fatal(fmt.Sprint("no route may take a task: ", all))
		}
	}
}
