package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/test/soak/check"
	"lksms/test/soak/mutants"
	"lksms/test/soak/run"
	"lksms/test/soak/stack"
)

// Run runs the load of the soak in rounds while the nemesis injects faults. m is a known bug to put into the code; nil: no bug.
func Run(ctx context.Context, soak *run.Run, m *mutants.Mutant) (err error) {
	soak.Began = time.Now()
	fmt.Printf("soak: seed %d, %s in rounds of %s\n", soak.Seed, soak.Duration, soak.RoundLength)
	dir, err := stack.NewDir()
	if err != nil {
		return err
	}
	binary, err := stack.Build(ctx, dir, m.OverlayOrNil())
	if err != nil {
		return err
	}
	stack, err := stack.Start(ctx, dir, binary)
	defer func() { err = soak.StopStack(stack, m != nil, err) }()
	if err != nil {
		return err
	}
	if !stack.Mounted {
		fmt.Println("soak: no small file system could be mounted, because this needs root. The fault 'disk full' is skipped")
	}
	sc, err := run.NewScene(soak.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.Close()
	sc.HasAllClients = true
	if err := sc.SetUp(ctx); err != nil {
		return err
	}
	n := NewNemesis(soak.Seed, stack, sc.History, soak.Say)
	soak.Began = time.Now()
	var verdicts []check.Verdict
	rounds := 0
	for rounds == 0 || soak.Elapsed() < soak.Duration && ctx.Err() == nil && len(check.Broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = soak.Round(ctx, rounds, sc, n); err != nil {
			return err
		}
	}
	summary(soak, rounds, sc, n, verdicts)
	if found := check.Broken(verdicts); len(found) > 0 {
		for _, v := range found {
			soak.Findings = append(soak.Findings, v.Name)
		}
		return run.ErrBroken
	}
	return ctx.Err()
}

func summary(soak *run.Run, rounds int, sc *run.Scene, n *Nemesis, verdicts []check.Verdict) {
	fmt.Printf("\nsoak: seed %d, %d rounds in %s\n\n", soak.Seed, rounds, soak.Elapsed().Round(time.Second))
	total := 0
	for _, f := range kinds {
		fmt.Printf("  %5d  %s\n", n.struck[f.Name], f.Name)
		total += n.struck[f.Name]
	}
	fmt.Printf("  %5d  faults in total, all survived\n\n", total)
	sc.Print()
	if len(n.returns) > 0 {
		slices.Sort(n.returns)
		fmt.Printf("  from PostgreSQL's return until both servers answer: %d ms (median), %d ms (longest), %d times\n",
			n.returns[len(n.returns)/2].Milliseconds(), n.returns[len(n.returns)-1].Milliseconds(), len(n.returns))
	}
	check.Print(verdicts)
}
