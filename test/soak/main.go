// Command soak tests the delivery promise under faults: two servers on one PostgreSQL, submitters and senders that
// use the API, and a nemesis that kills, stalls, fills and restarts. Every client records its answers. When all calls
// have ended, the recorded history is compared with the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Seed     uint64        `help:"Seed of the faults and the clients. 0: random."`
	Duration time.Duration `default:"10m" help:"Minimum length of the run. The current round is completed."`
	Round    time.Duration `default:"30s" help:"Length of a round. Each ends without faults, with an empty queue and a check."`
	Mutants  bool          `help:"Put known faults back into the code, one at a time, and check that each is found."`
	Mutant   string        `help:"Only this mutant: F1, F2, F4, F7, requeue, pace, doubt, share, fair, route, chosen, trouble, lockout, list, pause, F10, staged, order, cursor, behind, again, body, sign, scope, early, ahead, refire, back, low, hasty, unheld, aged or expiry."`
	Drill    bool          `help:"Fail over: three servers of different roles on three PostgreSQL nodes under Patroni."`
	Async    bool          `help:"With --drill: replicate asynchronously, so that a failover loses messages, and check that this is found."`
	Etcd3    bool          `help:"With --drill: let Patroni use the third API of etcd, which is not safe with Patroni 3.0.2."`
	Fault    string        `help:"With --drill: inject only this fault, as the drill names it."`
	Upgrade  bool          `help:"Replace servers of the version --from by this one under load, go back, and forward again."`
	From     string        `help:"With --upgrade: the git ref of the version before."`
	Guard    string        `hidden:"" help:"Clear this folder when standard input ends. Used by --drill."`
	Hostile  bool          `help:"Let two tenants attack, and compare the latency of another tenant without and with the attack."`
	Attack   string        `hidden:"" help:"Attack the server at this URL for one phase after each byte of standard input. Used by --hostile."`
	Kills    int           `help:"Kill so many times, each on a known path, in rounds on fresh databases. Goes on where the last run ended; with --seed, one round again."`
	KillsDir string        `default:"build/soak-kills" help:"With --kills: folder of the rounds so far."`
	Portion  int           `name:"kills-round" default:"100" help:"With --kills: kills of a round."`
	Binary   string        `help:"With --kills: this server, already built."`
	Keep     bool          `help:"Keep the folder with the database and the logs, even if every invariant holds."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("soak"), kong.Description("Injects faults into two servers and their PostgreSQL, and checks that no message is lost or duplicated."))
	if o.Seed == 0 && o.Kills == 0 {
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

func run(ctx context.Context, o options) error {
	if o.Attack != "" {
		attackOn(ctx, o.Attack, os.Stdin)
		return nil
	}
	if o.Guard != "" {
		return guard(o.Guard, os.Stdin)
	}
	if o.Upgrade {
		return (&soak{options: o}).upgrade(ctx)
	}
	if o.Drill {
		return (&soak{options: o}).drill(ctx)
	}
	if o.Hostile {
		return (&soak{options: o}).hostile(ctx)
	}
	if o.Kills > 0 && o.Mutant == "" && !o.Mutants {
		return (&soak{options: o}).kills(ctx)
	}
	if !o.Mutants && o.Mutant == "" {
		s := &soak{options: o}
		return s.run(ctx, nil)
	}
	var found []string
	for _, m := range allMutants() {
		if o.Mutant != "" && o.Mutant != m.name {
			continue
		}
		fmt.Printf("\nmutant %s: %s\n", m.name, m.what)
		limited := o
		limited.Duration, limited.Round = min(o.Duration, 5*time.Minute), min(o.Round, 20*time.Second)
		s := &soak{options: limited}
		var err error
		if m.isOfKills() {
			err = s.killMutant(ctx, &m)
		} else {
			err = s.run(ctx, &m)
		}
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
		return fmt.Errorf("mutant %q does not exist", o.Mutant)
	}
	fmt.Printf("\nmutants, all found:\n%s\n", strings.Join(found, "\n"))
	return nil
}

func (s *soak) run(ctx context.Context, m *mutant) (err error) {
	s.began = time.Now()
	fmt.Printf("soak: seed %d, %s in rounds of %s\n", s.options.Seed, s.options.Duration, s.options.Round)
	dir, err := newDir()
	if err != nil {
		return err
	}
	binary, err := build(ctx, dir, m)
	if err != nil {
		return err
	}
	stack, err := startStack(ctx, dir, binary)
	defer func() { err = s.stopStack(stack, m, err) }()
	if err != nil {
		return err
	}
	if !stack.mounted {
		fmt.Println("soak: no small file system could be mounted (this needs root): the fault 'disk full' is left out")
	}
	sc, err := newScene(s.options.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.close()
	sc.hasAllClients = true
	if err := sc.setUp(ctx); err != nil {
		return err
	}
	n := newNemesis(s.options.Seed, stack, sc.history, s.say)
	s.began = time.Now()
	var verdicts []verdict
	rounds := 0
	for rounds == 0 || s.elapsed() < s.options.Duration && ctx.Err() == nil && len(broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = s.round(ctx, rounds, sc, n); err != nil {
			return err
		}
	}
	s.summary(rounds, sc, n, verdicts)
	if found := broken(verdicts); len(found) > 0 {
		for _, v := range found {
			s.findings = append(s.findings, v.name)
		}
		return errBroken
	}
	return ctx.Err()
}

func (s *soak) summary(rounds int, sc *scene, n *nemesis, verdicts []verdict) {
	fmt.Printf("\nsoak: seed %d, %d rounds in %s\n\n", s.options.Seed, rounds, s.elapsed().Round(time.Second))
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
