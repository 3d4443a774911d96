// Command bench compares the service with hand-written SQL statements and with the queue River, in one run on one machine. To compare runs, use the ratios: the
// absolute numbers depend on the machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"

	"lksms/test/bench/measure"
	"lksms/test/bench/messages"
	"lksms/test/bench/senders"
	"lksms/test/bench/storage"
)

func main() {
	var o measure.Options
	kong.Parse(&o, kong.Name("bench"), kong.Description("Measures LKSMS against pgbench and River on the same PostgreSQL."))
	if o.Short {
		o.Time, o.Rounds, o.Rows, o.Steady = time.Second, 1, 20_000, 6*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := error(nil)
	if o.Bare != "" {
		err = messages.ServeBare(o.Bare)
	} else {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type step struct {
	name string
	run  func(context.Context, *measure.Bench) error
}

var steps = []step{
	{"submit", messages.SingleSubmit}, {"processor", messages.ProcessorShare}, {"caps", messages.CappedSubmit}, {"codes", messages.CodeStartsAndChecks}, {"smpp", messages.SMPP}, {"life", messages.LifeOfTasks}, {"bytes", messages.StoredBytes}, {"waiting", messages.WaitingSenders}, {"pools", messages.ManyPools}, {"handover", messages.Handover},
	{"senders", senders.ManySenders}, {"notify", messages.NotifyPeople}, {"fair", senders.FairShares}, {"claim", messages.ClaimTimes}, {"statistics", messages.StatisticsTimes}, {"lists", storage.ListPages},
	{"partitions", storage.PartitionPages}, {"leave", storage.LeavingRows}, {"batches", messages.BatchUploads}, {"across", senders.AcrossServers}, {"crowd", senders.BigCrowd}, {"callbacks", senders.Callbacks},
	{"events", messages.EventFlow}, {"steady", messages.SteadyLoad},
}

// ofServers are the steps that start several servers.
var ofServers = []string{"across", "crowd", "callbacks"}

func run(ctx context.Context, o measure.Options) (err error) {
	if slices.Contains(o.Only, "servers") {
		o.Only = append(slices.DeleteFunc(o.Only, func(name string) bool { return name == "servers" }), ofServers...)
	}
	chosen := slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		return !slices.Contains(o.Only, s.name) && (len(o.Only) > 0 || s.name == "events" || slices.Contains(ofServers, s.name))
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no such figure: %s", strings.Join(o.Only, ", "))
	}
	stack, err := measure.Start(ctx, o.DatabaseURL)
	if err != nil {
		return errors.Join(err, stack.Stop())
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	b := &measure.Bench{Options: o, Stack: stack, Bar: progressbar.NewOptions(len(chosen),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetWidth(20), progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
	)}
	for _, s := range chosen {
		b.Bar.Describe(s.name)
		_ = b.Bar.RenderBlank() // an error of the terminal does not stop the run
		if err := s.run(ctx, b); err != nil {
			b.Print(os.Stderr, nil) // prints the figures that were measured before the failure
			return fmt.Errorf("%s: %w", s.name, err)
		}
		_ = b.Bar.Add(1)
	}
	_ = b.Bar.Finish()
	settings, err := b.Settings(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"cores": runtime.NumCPU(), "postgresql": settings, "figures": b.Figures})
	}
	b.Print(os.Stdout, settings)
	return nil
}
