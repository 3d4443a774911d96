// Command bench compares the service with hand-written statements and with a good queue, in one run on one machine. The ratios count, not
// the numbers.
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
)

func main() {
	var o options
	kong.Parse(&o, kong.Name("bench"), kong.Description("Measures LKSMS against pgbench and River on the same PostgreSQL."))
	if o.Short {
		o.Time, o.Rounds, o.Rows, o.Steady = time.Second, 1, 20_000, 6*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := error(nil)
	if o.Bare != "" {
		err = serveBare(o.Bare)
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
	run  func(context.Context, *bench) error
}

var steps = []step{
	{"submit", singleSubmit}, {"processor", processorShare}, {"life", lifeOfTasks}, {"bytes", storedBytes}, {"waiting", waitingSenders}, {"pools", manyPools}, {"handover", handover},
	{"senders", manySenders}, {"notify", notifyPeople}, {"fair", fairShares}, {"claim", claimTimes}, {"statistics", statisticsTimes}, {"lists", listPages},
	{"partitions", partitionPages}, {"leave", leavingRows}, {"batches", batchUploads}, {"across", acrossServers}, {"crowd", bigCrowd}, {"callbacks", callbacks},
	{"events", eventFlow}, {"steady", steadyLoad},
}

// ofServers are the steps that start several servers.
var ofServers = []string{"across", "crowd", "callbacks"}

func run(ctx context.Context, o options) (err error) {
	if slices.Contains(o.Only, "servers") {
		o.Only = append(slices.DeleteFunc(o.Only, func(name string) bool { return name == "servers" }), ofServers...)
	}
	chosen := slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		return !slices.Contains(o.Only, s.name) && (len(o.Only) > 0 || s.name == "events" || slices.Contains(ofServers, s.name))
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no such figure: %s", strings.Join(o.Only, ", "))
	}
	stack, err := start(ctx, o.DatabaseURL)
	if err != nil {
		return errors.Join(err, stack.stop())
	}
	defer func() { err = errors.Join(err, stack.stop()) }()
	b := &bench{options: o, stack: stack, bar: progressbar.NewOptions(len(chosen),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetWidth(20), progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(),
	)}
	for _, s := range chosen {
		b.bar.Describe(s.name)
		_ = b.bar.RenderBlank() // the run goes on without its terminal
		if err := s.run(ctx, b); err != nil {
			b.print(os.Stderr, nil) // what was measured until then
			return fmt.Errorf("%s: %w", s.name, err)
		}
		_ = b.bar.Add(1)
	}
	_ = b.bar.Finish()
	settings, err := b.settings(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"cores": runtime.NumCPU(), "postgresql": settings, "figures": b.figures})
	}
	b.print(os.Stdout, settings)
	return nil
}
