package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/check"
	"lksms/test/soak/crowds"
	"lksms/test/soak/events"
	"lksms/test/soak/invariants"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// Scene contains the clients of a run, their recorded history, and the stack that they use.
type Scene struct {
	stack   *stack.Stack
	History *load.History
	Load    *load.Load
	Tenants *load.Tenants
	lists   *load.Lists
	events  *events.Events
	archive *crowds.Archive // nil: old partitions remain unchanged
	Crowds  []crowds.Crowd

	HasAllClients bool // SetUp also creates the archive and the crowds of the soak; the drill and the upgrade do not use them
}

// NewScene creates a scene whose clients have not called the servers yet. The caller can change its fields before SetUp.
func NewScene(seed uint64, stack *stack.Stack) (*Scene, error) {
	p, err := load.StartProvider()
	if err != nil {
		return nil, err
	}
	h := load.NewHistory()
	l, err := load.New(seed, h, p, stack.Endpoints)
	if err != nil {
		return nil, errors.Join(err, p.Server.Close())
	}
	return &Scene{stack: stack, History: h, Load: l, Tenants: load.NewTenants(l), lists: &load.Lists{Load: l}}, nil
}

// SetUp creates the senders, companies and other objects that the clients need.
func (sc *Scene) SetUp(ctx context.Context) (err error) {
	if err := sc.Load.SetUp(ctx); err != nil {
		return err
	}
	if sc.HasAllClients {
		if sc.archive, err = crowds.NewArchive(ctx, sc.stack, sc.Load); err != nil {
			return err
		}
	}
	if err := sc.Tenants.SetUp(ctx); err != nil {
		return err
	}
	if sc.HasAllClients {
		if sc.Crowds, err = crowds.New(sc.stack, sc.Load, sc.Tenants); err != nil {
			return err
		}
	}
	for _, c := range sc.Crowds {
		if err := c.SetUp(ctx); err != nil {
			return err
		}
	}
	sc.events, err = events.New(ctx, sc.stack, sc.Load, sc.Tenants)
	return err
}

// Close closes the listeners that the servers call. It also works after a failed SetUp.
func (sc *Scene) Close() {
	if sc.events != nil {
		sc.events.Close()
	}
	for _, c := range sc.Crowds {
		if listener, isListener := c.(io.Closer); isListener {
			_ = listener.Close() // no messages to it remain
		}
	}
	_ = sc.Load.Provider.Server.Close() // no calls to the provider remain
}

// run runs all clients until ctx ends, and returns when every call has ended.
func (sc *Scene) run(ctx context.Context, round int) {
	var all sync.WaitGroup
	all.Go(func() { sc.Load.Run(ctx, round) })
	all.Go(func() { sc.Tenants.Run(ctx, round) })
	if sc.archive != nil {
		all.Go(func() { sc.archive.Run(ctx, round) })
	}
	all.Go(func() { sc.lists.Run(ctx, round) })
	all.Go(func() { sc.events.Run(ctx, round) })
	for _, c := range sc.Crowds {
		all.Go(func() { c.Run(ctx, round) })
	}
	all.Wait()
}

// Print prints what the clients did.
func (sc *Scene) Print() {
	for i, name := range load.MisdeedNames {
		fmt.Printf("  %5d  reports %s\n", sc.Load.Misdeed[i].Load(), name)
	}
	fmt.Printf("  %5d  tasks requeued\n", sc.Load.Requeues.Load())
	fmt.Printf("  %5d  lists accepted\n", len(sc.History.Batches()))
	for i, name := range load.ListActNames {
		fmt.Printf("  %5d  batches %s\n", sc.lists.Did[i].Load(), name)
	}
	for i, name := range events.EventActNames {
		fmt.Printf("  %5d  %s\n", sc.events.Did[i].Load(), name)
	}
	for i, name := range events.NoticeActNames {
		fmt.Printf("  %5d  %s\n", sc.events.Notices.Did[i].Load(), name)
	}
	fmt.Printf("  %5d  deletions and creations of the route of a country\n", sc.Tenants.Flips.Load())
	fmt.Printf("  %5d  troubles of a provider\n", sc.Tenants.Troubles.Load())
	fmt.Printf("  %5d  wrong passwords\n", sc.Tenants.Guesses.Load())
	if sc.archive != nil {
		for i, name := range crowds.ArchiveActNames {
			fmt.Printf("  %5d  partitions of earlier days %s\n", sc.archive.Did[i].Load(), name)
		}
		fmt.Printf("  %5d  commands on partitions killed\n", sc.archive.Killed.Load())
	}
	fmt.Printf("\n  %d calls answered, %d refused, %d with an unknown outcome\n", sc.History.Calls[load.Answered].Load(),
		sc.History.Calls[load.Refused].Load(), sc.History.Calls[load.Unknown].Load())
	fmt.Printf("  %d messages accepted, %d leases given to apps, %d messages accepted by the provider\n", sc.History.Accepted(),
		len(sc.History.Claims), sc.Load.Provider.Total())
	for _, c := range sc.Crowds {
		c.Print()
	}
}

// check compares the whole history with the whole database. No client is allowed to run meanwhile.
func (sc *Scene) check(ctx context.Context) ([]check.Verdict, error) {
	var verdicts []check.Verdict
	err := sc.stack.QueryWithin(ctx, invariants.CheckLimit, func(conn *pgx.Conn) (err error) {
		if verdicts, err = invariants.CheckSnapshots(ctx, conn, ""); err != nil {
			return err
		}
		if err := invariants.CopyHistory(ctx, conn, sc.History, sc.Load.Provider); err != nil {
			return fmt.Errorf("copy history: %w", err)
		}
		for _, i := range slices.Concat(invariants.WhenIdle, load.ListInvariants) {
			v, err := i.Check(ctx, conn)
			if err != nil {
				return fmt.Errorf("%s: %w", i.Name, err)
			}
			verdicts = append(verdicts, v)
		}
		ofTenants, err := sc.Tenants.Verdicts(ctx, conn)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, ofTenants...)
		ofEvents, err := sc.events.Verdicts(ctx, conn)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, ofEvents...)
		for _, c := range sc.Crowds {
			more, err := c.Verdicts(ctx, conn)
			if err != nil {
				return err
			}
			verdicts = append(verdicts, more...)
		}
		for _, more := range []func(context.Context, *pgx.Conn, *stack.Stack) (check.Verdict, error){invariants.CountersEqualRows, invariants.Baseline} {
			v, err := more(ctx, conn, sc.stack)
			if err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			verdicts = append(verdicts, v)
		}
		return nil
	})
	return append(verdicts, sc.History.Verdicts()...), err
}

// settleCrowds starts to settle the crowds, and returns a channel that is closed when all have settled.
func (sc *Scene) settleCrowds(ctx context.Context) <-chan struct{} {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		limited, cancel := context.WithTimeout(ctx, crowdLimit)
		defer cancel()
		for _, c := range sc.Crowds {
			if err := c.Settle(limited); err != nil {
				sc.History.Breach("%v", err)
			}
		}
	}()
	return settled
}

// crowdLimit is the time limit for the crowds to settle.
const crowdLimit = 4 * time.Minute
