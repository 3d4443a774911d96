// Command bench compares the service with hand-written statements and with a good queue, in one run on one machine. The ratios count, not
// the numbers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

type options struct {
	DatabaseURL string        `env:"DATABASE_URL" help:"PostgreSQL to measure on; without it a private one is started, as lksms serve starts it. Its tables are emptied."`
	Only        []string      `help:"Figures to measure: submit, processor, life, bytes, waiting, pools, handover, senders, notify, fair, claim, statistics, lists, partitions, batches, events, steady, and several servers: across, crowd, callbacks, or servers for these three; all by default but events and those of several servers."`
	Time        time.Duration `default:"10s" help:"How long one measurement takes."`
	Rounds      int           `default:"3" help:"How often what is compared takes turns."`
	Rows        int           `default:"10000000" help:"Finished tasks in the full table; a tenth as many are pending and a tenth wait for a retry."`
	Steady      time.Duration `default:"20m" help:"How long the steady load lasts."`
	Short       bool          `help:"A run of a minute or two that shows that everything works, and nothing else."`
	JSON        bool          `help:"Print the figures as JSON."`
	Bare        string        `hidden:"" help:"Serve a handler that does nothing at this address, and nothing else."`
}

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

// figure is one line of the table.
type figure struct {
	Name     string  `json:"figure"`
	Value    string  `json:"value"`
	Compared string  `json:"compared_with"`
	Ratio    float64 `json:"ratio"` // 0: the target holds for the value itself
	Target   string  `json:"target"`
	Met      bool    `json:"met"`
}

// bench is one run.
type bench struct {
	options
	*stack
	bar     *progressbar.ProgressBar
	figures []figure
}

func (b *bench) add(f figure) { b.figures = append(b.figures, f) }

// atLeast and atMost add a figure with a target for its ratio.
func (b *bench) atLeast(target float64, name string, value, base float64, unit, compared string) {
	b.ratio(name, value, base, unit, compared, fmt.Sprintf(">= %g x", target), value/base >= target)
}

func (b *bench) atMost(target float64, name string, value, base float64, unit, compared string) {
	b.ratio(name, value, base, unit, compared, fmt.Sprintf("<= %g x", target), value/base <= target)
}

func (b *bench) ratio(name string, value, base float64, unit, compared, target string, met bool) {
	b.add(figure{
		Name: name, Value: show(value, unit), Compared: show(base, unit) + ", " + compared,
		Ratio: value / base, Target: target, Met: met,
	})
}

func show(value float64, unit string) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.3g %s", value, unit)
}

type step struct {
	name string
	run  func(*bench, context.Context) error
}

var steps = []step{
	{"submit", (*bench).submit}, {"processor", (*bench).processor}, {"life", (*bench).life}, {"bytes", (*bench).bytes}, {"waiting", (*bench).waiting}, {"pools", (*bench).pools}, {"handover", (*bench).handover},
	{"senders", (*bench).senders}, {"notify", (*bench).notify}, {"fair", (*bench).fair}, {"claim", (*bench).claim}, {"statistics", (*bench).statistics}, {"lists", (*bench).lists},
	{"partitions", (*bench).partitions}, {"leave", (*bench).leave}, {"batches", (*bench).batches}, {"across", (*bench).across}, {"crowd", (*bench).crowd}, {"callbacks", (*bench).callbacks},
	{"events", (*bench).events}, {"steady", (*bench).steady},
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
		if err := s.run(b, ctx); err != nil {
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

func (b *bench) print(out io.Writer, settings map[string]string) {
	fmt.Fprintf(out, "%d cores, PostgreSQL %s, ", runtime.NumCPU(), settings["server_version"])
	names := []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "autovacuum"}
	for i, name := range names {
		names[i] = name + " " + settings[name]
	}
	fmt.Fprintf(out, "%s\n\n| figure | measured | compared with | ratio | target | |\n|---|---|---|---|---|---|\n", strings.Join(names, ", "))
	for _, f := range b.figures {
		ratio, met := "", "met"
		if f.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		if !f.Met {
			met = "not met"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", f.Name, f.Value, f.Compared, ratio, f.Target, met)
	}
}
