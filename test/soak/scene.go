package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// scene is the clients of a run, what they recorded, and the stack that they use.
type scene struct {
	stack   *stack
	history *history
	load    *load
	tenants *tenants
	lists   *lists
	events  *events
	archive *archive // nil: nobody works on old partitions
	crowds  []crowd

	hasAllClients bool // setUp makes the archive and the crowds of the soak, too; the drill and the upgrade do without
}

// newScene makes a scene in which nobody has called the servers. The caller may change its fields before setUp.
func newScene(seed uint64, stack *stack) (*scene, error) {
	p, err := startProvider()
	if err != nil {
		return nil, err
	}
	h := newHistory()
	l, err := newLoad(seed, h, p, stack.doors)
	if err != nil {
		return nil, errors.Join(err, p.server.Close())
	}
	return &scene{stack: stack, history: h, load: l, tenants: newTenants(l), lists: &lists{load: l}}, nil
}

// setUp creates what the clients need.
func (sc *scene) setUp(ctx context.Context) (err error) {
	if err := sc.load.setUp(ctx); err != nil {
		return err
	}
	if sc.hasAllClients {
		if sc.archive, err = newArchive(ctx, sc.stack, sc.load); err != nil {
			return err
		}
	}
	if err := sc.tenants.setUp(ctx); err != nil {
		return err
	}
	if sc.hasAllClients {
		if sc.crowds, err = newCrowds(sc.stack, sc.load, sc.tenants); err != nil {
			return err
		}
	}
	for _, c := range sc.crowds {
		if err := c.setUp(ctx); err != nil {
			return err
		}
	}
	sc.events, err = newEvents(ctx, sc.stack, sc.load, sc.tenants)
	return err
}

// close ends what listens for the servers, also if setUp failed.
func (sc *scene) close() {
	if sc.events != nil {
		sc.events.close()
	}
	_ = sc.load.provider.server.Close() // no calls are left
}

// run runs all clients until ctx ends, and returns when every call has ended.
func (sc *scene) run(ctx context.Context, round int) {
	var all sync.WaitGroup
	all.Go(func() { sc.load.run(ctx, round) })
	all.Go(func() { sc.tenants.run(ctx, round) })
	if sc.archive != nil {
		all.Go(func() { sc.archive.run(ctx, round) })
	}
	all.Go(func() { sc.lists.run(ctx, round) })
	all.Go(func() { sc.events.run(ctx, round) })
	for _, c := range sc.crowds {
		all.Go(func() { c.run(ctx, round) })
	}
	all.Wait()
}

// print prints what the clients did.
func (sc *scene) print() {
	for i, name := range misdeedNames {
		fmt.Printf("  %5d  reports %s\n", sc.load.misdeed[i].Load(), name)
	}
	fmt.Printf("  %5d  tasks requeued\n", sc.load.requeues.Load())
	fmt.Printf("  %5d  lists accepted\n", len(sc.history.batches()))
	for i, name := range listActNames {
		fmt.Printf("  %5d  batches %s\n", sc.lists.did[i].Load(), name)
	}
	for i, name := range eventActNames {
		fmt.Printf("  %5d  %s\n", sc.events.did[i].Load(), name)
	}
	for i, name := range noticeActNames {
		fmt.Printf("  %5d  %s\n", sc.events.notices.did[i].Load(), name)
	}
	fmt.Printf("  %5d  deletions and creations of the route of a country\n", sc.tenants.flips.Load())
	fmt.Printf("  %5d  troubles of a provider\n", sc.tenants.troubles.Load())
	fmt.Printf("  %5d  wrong passwords\n", sc.tenants.guesses.Load())
	if sc.archive != nil {
		for i, name := range archiveActNames {
			fmt.Printf("  %5d  partitions of earlier days %s\n", sc.archive.did[i].Load(), name)
		}
		fmt.Printf("  %5d  commands on them killed\n", sc.archive.killed.Load())
	}
	fmt.Printf("\n  %d calls answered, %d refused, %d with an unknown outcome\n", sc.history.calls[answered].Load(),
		sc.history.calls[refused].Load(), sc.history.calls[unknown].Load())
	fmt.Printf("  %d messages accepted, %d leases given to apps, %d messages accepted by the provider\n", sc.history.accepted(),
		len(sc.history.claims), sc.load.provider.total())
	for _, c := range sc.crowds {
		c.print()
	}
}

// check compares the whole history with the whole database, while nothing runs.
func (sc *scene) check(ctx context.Context) ([]verdict, error) {
	var verdicts []verdict
	err := sc.stack.queryWithin(ctx, checkLimit, func(conn *pgx.Conn) (err error) {
		if verdicts, err = checkSnapshots(ctx, conn, ""); err != nil {
			return err
		}
		if err := copyHistory(ctx, conn, sc.history, sc.load.provider); err != nil {
			return fmt.Errorf("copy history: %w", err)
		}
		for _, i := range slices.Concat(invariants, listInvariants) {
			v, err := i.check(ctx, conn)
			if err != nil {
				return fmt.Errorf("%s: %w", i.name, err)
			}
			verdicts = append(verdicts, v)
		}
		ofTenants, err := sc.tenants.verdicts(ctx, conn)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, ofTenants...)
		ofEvents, err := sc.events.verdicts(ctx, conn)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, ofEvents...)
		for _, c := range sc.crowds {
			more, err := c.verdicts(ctx, conn)
			if err != nil {
				return err
			}
			verdicts = append(verdicts, more...)
		}
		for _, more := range []func(context.Context, *pgx.Conn, *stack) (verdict, error){countersEqualRows, baseline} {
			v, err := more(ctx, conn, sc.stack)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			verdicts = append(verdicts, v)
		}
		return nil
	})
	return append(verdicts, sc.history.verdicts()...), err
}

// settleCrowds lets the crowds settle, and returns a channel that is closed when they have.
func (sc *scene) settleCrowds(ctx context.Context) <-chan struct{} {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		limited, cancel := context.WithTimeout(ctx, crowdLimit)
		defer cancel()
		for _, c := range sc.crowds {
			if err := c.settle(limited); err != nil {
				sc.history.breach("%v", err)
			}
		}
	}()
	return settled
}

// crowdLimit is how long the crowds may need until nothing is left of what they asked for.
const crowdLimit = 4 * time.Minute
