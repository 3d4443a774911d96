// Package run runs rounds of load, faults and checks.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lksms/test/soak/check"
	"lksms/test/soak/invariants"
	"lksms/test/soak/stack"
)

// Run contains the options and the findings of one run.
type Run struct {
	Seed        uint64
	Duration    time.Duration // minimum length; the current round is completed
	RoundLength time.Duration
	Keep        bool // keep the folder, even if every invariant holds

	Began    time.Time // start of the first round
	Findings []string  // names of the broken invariants
}

// Elapsed returns the time since the run began.
func (s *Run) Elapsed() time.Duration { return time.Since(s.Began) }

// Say prints a line with the time since the run began.
func (s *Run) Say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", s.Elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// Round runs load with faults, waits without faults until the queue is empty, and then checks.
func (s *Run) Round(ctx context.Context, number int, sc *Scene, n Injector) ([]check.Verdict, error) {
	fire, cease := context.WithTimeout(ctx, min(s.RoundLength, max(s.Duration-s.Elapsed(), time.Second)))
	defer cease()
	loading, unload := context.WithCancel(context.WithoutCancel(ctx))
	defer unload()
	var clients sync.WaitGroup
	clients.Go(func() { sc.run(loading, number) })
	err := n.Run(fire) // the load runs until the last fault has ended, because the injector waits for responses
	var underLoad []check.Verdict
	var waiting, held int
	if err == nil {
		underLoad, waiting, held, err = invariants.UnderLoad(context.WithoutCancel(ctx), sc.stack)
	}
	unload()
	clients.Wait()
	if err != nil {
		return nil, err
	}
	settled := sc.settleCrowds(context.WithoutCancel(ctx))
	emptied, err := sc.quieten(context.WithoutCancel(ctx))
	if err != nil {
		sc.History.Breach("%v", err)
	}
	if <-settled; len(sc.Crowds) > 0 { // meanwhile, messages of the crowds have become tasks
		if _, err := sc.quieten(context.WithoutCancel(ctx)); err != nil {
			sc.History.Breach("%v", err)
		}
	}
	s.Say("round %d: %s", number, emptied)
	if sc.archive != nil {
		if err := sc.archive.Restore(context.WithoutCancel(ctx)); err != nil {
			sc.History.Breach("%v", err) // the checks list the lost tasks
		}
	}
	if err := sc.Tenants.MeasureShares(context.WithoutCancel(ctx), number); err != nil {
		return nil, err
	}
	if err := sc.events.AwaitIdle(context.WithoutCancel(ctx), sc.stack); err != nil {
		sc.History.Breach("%v", err)
	}
	verdicts, err := sc.check(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	verdicts = append(underLoad, verdicts...)
	s.Say("round %d: %d messages accepted; under load %d waited and %d were leased; %d of %d invariants hold", number,
		sc.History.Accepted(), waiting, held, len(verdicts)-len(check.Broken(verdicts)), len(verdicts))
	return verdicts, nil
}

// StopStack stops the stack of a run, and joins the error of the stop with err. It keeps the folder with --keep. It also keeps the folder after an error,
// unless the run tests a mutant, which must cause an error.
func (s *Run) StopStack(stack *stack.Stack, isMutant bool, err error) error {
	keep := s.Keep || err != nil && !isMutant
	if keep {
		fmt.Println("kept:", stack.Dir)
	}
	return errors.Join(err, stack.Stop(keep))
}

// Injector injects faults until ctx ends. When Run returns, every fault is undone.
type Injector interface {
	Run(ctx context.Context) error
}

// ErrBroken is the result of a run in which an invariant did not hold.
var ErrBroken = errors.New("an invariant does not hold")
