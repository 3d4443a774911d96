// Package measure starts the server and its rivals, loads them, and collects figures with their targets.
package measure

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Options are the flags of the command.
type Options struct {
	DatabaseURL string        `env:"DATABASE_URL" help:"PostgreSQL to measure on. Its tables are emptied. Default: start a private PostgreSQL, as lksms serve does."`
	Only        []string      `help:"Figures to measure: submit, processor, caps, codes, life, bytes, waiting, pools, handover, senders, notify, fair, claim, statistics, lists, partitions, batches, events, steady, and several servers: across, crowd, callbacks, or servers for these three. Default: all except events and those of several servers."`
	Time        time.Duration `default:"10s" help:"How long one measurement takes."`
	Rounds      int           `default:"3" help:"How many rounds each comparison has."`
	Rows        int           `default:"10000000" help:"Finished tasks in the full table; a tenth as many are pending and a tenth wait for a retry."`
	Steady      time.Duration `default:"20m" help:"How long the steady load lasts."`
	Short       bool          `help:"Only test that every measurement works, in a minute or two."`
	JSON        bool          `help:"Print the figures as JSON."`
	Bare        string        `hidden:"" help:"Only serve a handler that does nothing, at this address."`
}

// Figure is one row of the printed table.
type Figure struct {
	Name     string  `json:"figure"`
	Value    string  `json:"value"`
	Compared string  `json:"compared_with"`
	Ratio    float64 `json:"ratio"` // 0: the figure has no ratio, and the target applies to Value
	Target   string  `json:"target"`
	Met      bool    `json:"met"`
}

// Bench is the state of one run: its options, the servers, and the figures so far.
type Bench struct {
	Options
	*Stack
	Bar     *progressbar.ProgressBar
	Figures []Figure
}

// Add adds a figure to the table.
func (b *Bench) Add(f Figure) { b.Figures = append(b.Figures, f) }

// AtLeast adds the figure value / base. Its target is met if the ratio is at least target.
func (b *Bench) AtLeast(target float64, name string, value, base float64, unit, compared string) {
	b.Ratio(name, value, base, unit, compared, fmt.Sprintf(">= %g x", target), value/base >= target)
}

// AtMost adds the figure value / base. Its target is met if the ratio is at most target.
func (b *Bench) AtMost(target float64, name string, value, base float64, unit, compared string) {
	b.Ratio(name, value, base, unit, compared, fmt.Sprintf("<= %g x", target), value/base <= target)
}

// Ratio adds the figure value / base. met is true if the ratio meets the target.
func (b *Bench) Ratio(name string, value, base float64, unit, compared, target string, met bool) {
	b.Add(Figure{
		Name: name, Value: Show(value, unit), Compared: Show(base, unit) + ", " + compared,
		Ratio: value / base, Target: target, Met: met,
	})
}

// Show formats a value with its unit. Larger values get fewer decimals.
func Show(value float64, unit string) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.3g %s", value, unit)
}

// Print prints the figures as a table, or as JSON with --json.
func (b *Bench) Print(out io.Writer, settings map[string]string) {
	fmt.Fprintf(out, "%d cores, PostgreSQL %s, ", runtime.NumCPU(), settings["server_version"])
	names := []string{"fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size", "autovacuum"}
	for i, name := range names {
		names[i] = name + " " + settings[name]
	}
	fmt.Fprintf(out, "%s\n\n| figure | measured | compared with | ratio | target | |\n|---|---|---|---|---|---|\n", strings.Join(names, ", "))
	for _, f := range b.Figures {
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
