// Command soak tests the delivery promise under faults. Two servers run on one PostgreSQL. Submitters and senders use the API. A nemesis kills and stalls
// processes, fills disks and restarts servers. Every client records its responses. When all calls have ended, the recorded history is compared with the
// database.
//
// The packages depend on each other in this order: proxy and stack start the system under test. check, load, crowds and events contain the clients and their
// observations. invariants compares the history with the database. run runs the rounds. faults, kills, drill, upgrade, hostile and mutants inject the faults.
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

	"lksms/test/soak/drill"
	"lksms/test/soak/faults"
	"lksms/test/soak/hostile"
	"lksms/test/soak/kills"
	"lksms/test/soak/mutants"
	"lksms/test/soak/run"
	"lksms/test/soak/stack"
	"lksms/test/soak/upgrade"
)

type options struct {
	Seed     uint64        `help:"Seed of the faults and the clients. 0: random."`
	Duration time.Duration `default:"10m" help:"Minimum length of the run. The current round is completed."`
	Round    time.Duration `default:"30s" help:"Length of a round. Each ends without faults, with an empty queue and a check."`
	Mutants  bool          `help:"Put known bugs into the code, one at a time, and check that each is found."`
	Mutant   string        `help:"Only this mutant: ${mutants}."`
	Drill    bool          `help:"Fail over: three servers of different roles on three PostgreSQL nodes under Patroni."`
	Async    bool          `help:"With --drill: replicate asynchronously, so that a failover loses messages, and check that this is found."`
	Etcd3    bool          `help:"With --drill: let Patroni use version 3 of the etcd API, which is not safe with Patroni 3.0.2."`
	Fault    string        `help:"With --drill: inject only this fault, by the name that the drill prints."`
	Upgrade  bool          `help:"Replace servers of the version --from with this version under load, downgrade, and upgrade again."`
	From     string        `help:"With --upgrade: the git ref of the earlier version."`
	Guard    string        `hidden:"" help:"Clear this folder when standard input ends. Used by --drill."`
	Hostile  bool          `help:"Let two tenants attack, and compare the latency of another tenant without and with the attack."`
	Attack   string        `hidden:"" help:"Attack the server at this URL for one phase after each byte of standard input. Used by --hostile."`
	Kills    int           `help:"Number of kills, each in a transaction of a known path, in rounds on fresh databases. Continues the last run. With --seed: repeat one round."`
	KillsDir string        `default:"build/soak-kills" help:"With --kills: folder of the finished rounds."`
	Portion  int           `name:"kills-round" default:"100" help:"With --kills: kills per round."`
	Binary   string        `help:"With --kills: path of a built server."`
	Keep     bool          `help:"Keep the folder with the database and the logs, even if every invariant holds."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("soak"), kong.Description("Injects faults into two servers and their PostgreSQL, and checks that no message is lost or duplicated."),
		kong.Vars{"mutants": strings.Join(mutants.Names(), ", ")})
	if o.Seed == 0 && o.Kills == 0 {
		o.Seed = rand.Uint64() >> 40 // the seed has at most 24 bits, so that it is short enough to type
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runMode(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func runMode(ctx context.Context, o options) error {
	one := &run.Run{Seed: o.Seed, Duration: o.Duration, RoundLength: o.Round, Keep: o.Keep}
	ofKills := kills.Options{Kills: o.Kills, Dir: o.KillsDir, Portion: o.Portion, Binary: o.Binary}
	switch {
	case o.Attack != "":
		hostile.Attack(ctx, o.Attack, os.Stdin)
		return nil
	case o.Guard != "":
		return stack.Guard(o.Guard, os.Stdin)
	case o.Upgrade:
		return upgrade.Run(ctx, one, o.From)
	case o.Drill:
		return drill.Run(ctx, one, drill.Options{Async: o.Async, Etcd3: o.Etcd3, Fault: o.Fault})
	case o.Hostile:
		return hostile.Run(ctx, one)
	case o.Mutants || o.Mutant != "":
		return runMutants(ctx, o, ofKills)
	case o.Kills > 0:
		return kills.Run(ctx, one, ofKills)
	default:
		return faults.Run(ctx, one, nil)
	}
}

// runMutants runs the soak against each mutant, or only against the mutant of --mutant. It returns an error if a mutant was not found.
func runMutants(ctx context.Context, o options, ofKills kills.Options) error {
	var found []string
	for _, m := range mutants.All() {
		if o.Mutant != "" && o.Mutant != m.Name {
			continue
		}
		fmt.Printf("\nmutant %s: %s\n", m.Name, m.What)
		one := &run.Run{Seed: o.Seed, Duration: min(o.Duration, 5*time.Minute), RoundLength: min(o.Round, 20*time.Second), Keep: o.Keep}
		limit := one.Duration
		var err error
		if m.IsOfKills() {
			err = kills.RunMutant(ctx, one, ofKills, &m)
		} else {
			err = faults.Run(ctx, one, &m)
		}
		switch {
		case errors.Is(err, run.ErrBroken):
			if by := mutants.Finders[m.Name]; !slices.ContainsFunc(one.Findings, func(name string) bool { return strings.HasPrefix(name, by) }) {
				return fmt.Errorf("mutant %s was not found by %q", m.Name, by)
			}
			found = append(found, fmt.Sprintf("  %-7s found after %3.0f s: %s", m.Name, one.Elapsed().Seconds(), strings.Join(one.Findings, "; ")))
		case err == nil:
			return fmt.Errorf("mutant %s was not found in %s", m.Name, limit)
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
