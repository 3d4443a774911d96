package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// inject runs the load of the soak while the nemesis injects faults, in rounds. m is the fault that was put back into the code; nil: none.
func inject(ctx context.Context, soak *soak, m *mutant) (err error) {
	soak.Began = time.Now()
	fmt.Printf("soak: seed %d, %s in rounds of %s\n", soak.Seed, soak.Duration, soak.RoundLength)
	dir, err := newDir()
	if err != nil {
		return err
	}
	binary, err := build(ctx, dir, m.overlayOrNil())
	if err != nil {
		return err
	}
	stack, err := startStack(ctx, dir, binary)
	defer func() { err = soak.stopStack(stack, m != nil, err) }()
	if err != nil {
		return err
	}
	if !stack.mounted {
		fmt.Println("soak: no small file system could be mounted (this needs root): the fault 'disk full' is left out")
	}
	sc, err := newScene(soak.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.close()
	sc.hasAllClients = true
	if err := sc.setUp(ctx); err != nil {
		return err
	}
	n := newNemesis(soak.Seed, stack, sc.history, soak.say)
	soak.Began = time.Now()
	var verdicts []verdict
	rounds := 0
	for rounds == 0 || soak.elapsed() < soak.Duration && ctx.Err() == nil && len(broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = soak.round(ctx, rounds, sc, n); err != nil {
			return err
		}
	}
	summary(soak, rounds, sc, n, verdicts)
	if found := broken(verdicts); len(found) > 0 {
		for _, v := range found {
			soak.Findings = append(soak.Findings, v.name)
		}
		return errBroken
	}
	return ctx.Err()
}

func summary(soak *soak, rounds int, sc *scene, n *nemesis, verdicts []verdict) {
	fmt.Printf("\nsoak: seed %d, %d rounds in %s\n\n", soak.Seed, rounds, soak.elapsed().Round(time.Second))
	total := 0
	for _, f := range faults {
		fmt.Printf("  %5d  %s\n", n.struck[f.name], f.name)
		total += n.struck[f.name]
	}
	fmt.Printf("  %5d  faults in total, all survived\n\n", total)
	sc.print()
	if len(n.returns) > 0 {
		slices.Sort(n.returns)
		fmt.Printf("  from PostgreSQL's return until both servers answer: %d ms (median), %d ms (longest) of %d\n",
			n.returns[len(n.returns)/2].Milliseconds(), n.returns[len(n.returns)-1].Milliseconds(), len(n.returns))
	}
	printVerdicts(verdicts)
}
