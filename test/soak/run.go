package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// soak is one run.
type soak struct {
	Seed        uint64
	Duration    time.Duration // minimum length; the current round is completed
	RoundLength time.Duration
	Keep        bool // keep the folder, even if every invariant holds

	Began    time.Time // start of the first round
	Findings []string  // names of the broken invariants
}

func (s *soak) elapsed() time.Duration { return time.Since(s.Began) }

func (s *soak) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", s.elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// round runs load with faults, then lets the queue empty without faults, then checks.
func (s *soak) round(ctx context.Context, number int, sc *scene, n injector) ([]verdict, error) {
	fire, cease := context.WithTimeout(ctx, min(s.RoundLength, max(s.Duration-s.elapsed(), time.Second)))
	defer cease()
	loading, unload := context.WithCancel(context.WithoutCancel(ctx))
	defer unload()
	var clients sync.WaitGroup
	clients.Go(func() { sc.run(loading, number) })
	err := n.run(fire) // the load goes on until the last fault is over, because the nemesis waits for answers
	var underLoad []verdict
	var waiting, held int
	if err == nil {
		underLoad, waiting, held, err = checkUnderLoad(context.WithoutCancel(ctx), sc.stack)
	}
	unload()
	clients.Wait()
	if err != nil {
		return nil, err
	}
	settled := sc.settleCrowds(context.WithoutCancel(ctx))
	emptied, err := sc.quieten(context.WithoutCancel(ctx))
	if err != nil {
		sc.history.breach("%v", err)
	}
	if <-settled; len(sc.crowds) > 0 { // what they left became tasks meanwhile
		if _, err := sc.quieten(context.WithoutCancel(ctx)); err != nil {
			sc.history.breach("%v", err)
		}
	}
	s.say("round %d: %s", number, emptied)
	if sc.archive != nil {
		if err := sc.archive.restore(context.WithoutCancel(ctx)); err != nil {
			sc.history.breach("%v", err) // the check names the tasks that are lost
		}
	}
	if err := sc.tenants.measure(context.WithoutCancel(ctx), number); err != nil {
		return nil, err
	}
	if err := sc.events.settle(context.WithoutCancel(ctx), sc.stack); err != nil {
		sc.history.breach("%v", err)
	}
	verdicts, err := sc.check(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	verdicts = append(underLoad, verdicts...)
	s.say("round %d: %d messages accepted; under load %d waited and %d were held; %d invariants of %d hold", number,
		sc.history.accepted(), waiting, held, len(verdicts)-len(broken(verdicts)), len(verdicts))
	return verdicts, nil
}

// stopStack stops the stack of a run, and adds its error to err, that of the run. The folder is kept with --keep, and after an error unless a mutant was to
// cause it.
func (s *soak) stopStack(stack *stack, isMutant bool, err error) error {
	keep := s.Keep || err != nil && !isMutant
	if keep {
		fmt.Println("kept:", stack.dir)
	}
	return errors.Join(err, stack.stop(keep))
}

// injector injects faults until ctx ends. Every fault is undone when run returns.
type injector interface {
	run(ctx context.Context) error
}

var errBroken = errors.New("an invariant does not hold")
