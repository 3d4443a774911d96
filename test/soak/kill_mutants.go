package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// allMutants returns the mutants of both kinds.
func allMutants() []mutant { return slices.Concat(mutants, killMutants) }

// isOfKills reports whether only kills find a mutant.
func (m mutant) isOfKills() bool {
	return slices.ContainsFunc(killMutants, func(k mutant) bool { return k.name == m.name })
}

// killMutants are faults that do nothing unless something is killed at the wrong moment.
var killMutants = []mutant{
	{"hasty", "a submission is answered before its COMMIT", []change{
		{"internal/dispatch/queue/submit.go", "		made, err = s.submits.Do(ctx, row)\n", `		if row.DedupKey == nil {
			stored := make(chan bool, 1)
			go func() {
				made, err = s.submits.Do(context.WithoutCancel(ctx), row)
				stored <- true
			}()
			select {
			case <-stored:
			case <-time.After(2 * time.Millisecond):
				return row.submitted(), nil
			}
		} else {
			made, err = s.submits.Do(ctx, row)
		}
`},
	}},
	{"unheld", "a claim answers the leases that it took, though its COMMIT failed", []change{
		{claiming, "	if err != nil {\n		return nil, fmt.Errorf(\"claim tasks: %w\", err)", "	if err != nil && len(leases) == 0 {\n		return nil, fmt.Errorf(\"claim tasks: %w\", err)"},
	}},
}

// mutantKills is how many kills may be needed to find a mutant.
const mutantKills = 100

// killMutant runs a round of kills against a mutant.
func (s *soak) killMutant(ctx context.Context, m *mutant) error {
	s.began = time.Now()
	s.options.Duration, s.options.Round = 24*time.Hour, 24*time.Hour // the kills end a round
	_, err := s.killRound(ctx, cmp.Or(s.options.Seed, rand.Uint64()>>40), cmp.Or(s.options.Kills, mutantKills), m)
	return err
}
