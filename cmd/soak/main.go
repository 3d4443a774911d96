// Command soak proves the promise under fire: two servers on one PostgreSQL, submitters and senders that use the API, and a
// nemesis that kills, stalls, fills and restarts. Every client keeps what it was told; when all is quiet again, that history
// is held against the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Seed     uint64        `help:"What the faults and the clients are drawn from; 0 for a random one."`
	Duration time.Duration `default:"10m" help:"How long to go on; the round that has begun is finished."`
	Round    time.Duration `default:"30s" help:"How often to stop the faults, wait until all is quiet, and check."`
	Mutants  bool          `help:"Put known faults back into the code, one at a time, and see that each is found."`
	Mutant   string        `help:"Only this one: F1, F2, F4, F7, pace, doubt, share, fair, route, trouble, lockout or F10."`
	Hostile  bool          `help:"Have one tenant attack beside another instead, and compare what the other sees without and with it."`
	Attack   string        `hidden:"" help:"Attack the server at this address, a while for each byte of the standard input; for --hostile."`
	Keep     bool          `help:"Keep the folder with the database and the logs, also when nothing was found."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("soak"), kong.Description("Hurts two servers and their PostgreSQL, and checks that nothing is lost and nothing doubled."))
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 40 // short enough to type
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

var errBroken = errors.New("an invariant does not hold")

func run(ctx context.Context, o options) error {
	if o.Attack != "" {
		attackOn(ctx, o.Attack, os.Stdin)
		return nil
	}
	if o.Hostile {
		return (&soak{options: o}).hostile(ctx)
	}
	if !o.Mutants && o.Mutant == "" {
		s := &soak{options: o}
		return s.run(ctx, nil)
	}
	var found []string
	for _, m := range mutants {
		if o.Mutant != "" && o.Mutant != m.name {
			continue
		}
		fmt.Printf("\nmutant %s: %s\n", m.name, m.what)
		limited := o
		limited.Duration, limited.Round = min(o.Duration, 5*time.Minute), min(o.Round, 20*time.Second)
		s := &soak{options: limited}
		err := s.run(ctx, &m)
		switch {
		case errors.Is(err, errBroken):
			if by := finders[m.name]; !slices.ContainsFunc(s.findings, func(name string) bool { return strings.HasPrefix(name, by) }) {
				return fmt.Errorf("mutant %s was not found by %q", m.name, by)
			}
			found = append(found, fmt.Sprintf("  %-7s found after %3.0f s: %s", m.name, s.elapsed().Seconds(), strings.Join(s.findings, "; ")))
		case err == nil:
			return fmt.Errorf("mutant %s was not found in %s", m.name, limited.Duration)
		default:
			return err
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no mutant %q", o.Mutant)
	}
	fmt.Printf("\nmutants, each found:\n%s\n", strings.Join(found, "\n"))
	return nil
}

// soak is one run.
type soak struct {
	options  options
	began    time.Time // of the first round
	findings []string  // the invariants that are broken
}

func (s *soak) elapsed() time.Duration { return time.Since(s.began) }

func (s *soak) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", s.elapsed().Seconds(), fmt.Sprintf(format, args...))
}

func (s *soak) run(ctx context.Context, m *mutant) (err error) {
	s.began = time.Now()
	fmt.Printf("soak: seed %d, %s in rounds of %s\n", s.options.Seed, s.options.Duration, s.options.Round)
	dir, err := os.MkdirTemp("/tmp", "lksms-soak-") // not $TMPDIR: a socket's path has to be short
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // as root PostgreSQL runs as somebody else, who passes through
		return fmt.Errorf("open folder: %w", err)
	}
	binary, err := build(ctx, dir, m)
	if err != nil {
		return err
	}
	stack, err := startStack(ctx, dir, binary)
	defer func() {
		keep := s.options.Keep || err != nil && m == nil
		if keep {
			fmt.Println("kept:", dir)
		}
		err = errors.Join(err, stack.stop(keep))
	}()
	if err != nil {
		return err
	}
	if !stack.mounted {
		fmt.Println("soak: no small file system could be mounted (root may): the disk will not be full")
	}
	h := newHistory()
	p, err := startProvider()
	if err != nil {
		return err
	}
	defer p.server.Close() //nolint:errcheck // nobody calls it any more
	l, err := newLoad(s.options.Seed, h, p, stack.servers)
	if err != nil {
		return err
	}
	if err := l.limit(ctx); err != nil {
		return err
	}
	t := newTenants(l)
	if err := t.setUp(ctx); err != nil {
		return err
	}
	n := newNemesis(s.options.Seed, stack, h, s.say)
	s.began = time.Now()
	var verdicts []verdict
	rounds := 0
	for rounds == 0 || s.elapsed() < s.options.Duration && ctx.Err() == nil && len(broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = s.round(ctx, rounds, stack, l, t, n); err != nil {
			return err
		}
	}
	s.summary(rounds, h, l, t, n, verdicts)
	if found := broken(verdicts); len(found) > 0 {
		for _, v := range found {
			s.findings = append(s.findings, v.name)
		}
		return errBroken
	}
	return ctx.Err()
}

// quietLimit is how long the queue may take to empty when all is well.
const quietLimit = time.Minute

// round is load with faults, then quiet, then the check.
func (s *soak) round(ctx context.Context, number int, stack *stack, l *load, t *tenants, n *nemesis) ([]verdict, error) {
	fire, cease := context.WithTimeout(ctx, min(s.options.Round, max(s.options.Duration-s.elapsed(), time.Second)))
	defer cease()
	loading, unload := context.WithCancel(context.WithoutCancel(ctx))
	defer unload()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var both sync.WaitGroup
		both.Go(func() { l.run(loading, number) })
		both.Go(func() { t.run(loading, number) })
		both.Wait()
	}()
	err := n.run(fire) // under load to its end: what it waits for are answers
	unload()
	<-done
	if err != nil {
		return nil, err
	}
	quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietLimit)
	defer cancel()
	l.drain(quiet, func() bool {
		counts, err := stack.servers[0].statistics(quiet)
		return err == nil && counts["pending_new_tasks"]+counts["pending_retry_tasks"]+counts["processing_tasks"] == 0
	})
	if err := t.measure(context.WithoutCancel(ctx), number); err != nil {
		return nil, err
	}
	verdicts, err := check(context.WithoutCancel(ctx), stack, l.history, l.provider, t)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	s.say("round %d: %d messages accepted, %d invariants of %d hold", number, l.history.accepted(),
		len(verdicts)-len(broken(verdicts)), len(verdicts))
	return verdicts, nil
}

func (s *soak) summary(rounds int, h *history, l *load, t *tenants, n *nemesis, verdicts []verdict) {
	fmt.Printf("\nsoak: seed %d, %d rounds in %s\n\n", s.options.Seed, rounds, s.elapsed().Round(time.Second))
	total := 0
	for _, f := range faults {
		fmt.Printf("  %5d  %s\n", n.struck[f.name], f.name)
		total += n.struck[f.name]
	}
	fmt.Printf("  %5d  faults in all, each survived\n\n", total)
	for i, name := range misdeedNames {
		fmt.Printf("  %5d  reports %s\n", l.misdeed[i].Load(), name)
	}
	fmt.Printf("  %5d  times the route of a country went or came\n", t.flips.Load())
	fmt.Printf("  %5d  times a provider was in trouble\n", t.troubles.Load())
	fmt.Printf("  %5d  wrong passwords\n", t.guesses.Load())
	fmt.Printf("\n  %d calls answered, %d refused, %d without an answer that says\n", h.calls[answered].Load(),
		h.calls[refused].Load(), h.calls[unknown].Load())
	fmt.Printf("  %d messages accepted, %d leases given to apps, %d messages taken by the provider\n", h.accepted(), len(h.claims), l.provider.total())
	if len(n.returns) > 0 {
		slices.Sort(n.returns)
		fmt.Printf("  from PostgreSQL's return to answers of both servers: %d ms (median), %d ms (longest) of %d\n",
			n.returns[len(n.returns)/2].Milliseconds(), n.returns[len(n.returns)-1].Milliseconds(), len(n.returns))
	}
	fmt.Println()
	for _, v := range verdicts {
		mark := "holds "
		if v.broken > 0 {
			mark = "BROKEN"
		}
		fmt.Printf("  %s  %s\n", mark, v.name)
		if v.broken > 0 {
			fmt.Printf("          %d times: %s\n", v.broken, strings.Join(v.samples, "; "))
		}
	}
	held := len(verdicts) - len(broken(verdicts))
	fmt.Printf("\nsoak: %d invariants hold, %d are broken\n", held, len(verdicts)-held)
}

// build makes the server, with the mutant's changes if there is one.
func build(ctx context.Context, dir string, m *mutant) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the project: run it from there: %w", err)
	}
	root := strings.TrimSpace(string(out))
	binary := filepath.Join(dir, "lksms")
	args := []string{"build", "-o", binary}
	if m != nil {
		overlay, err := m.overlay(root, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/lksms")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}
