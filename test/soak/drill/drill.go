// Package drill makes a PostgreSQL cluster under Patroni fail over repeatedly, and measures how long the service is unavailable.
package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lksms/test/soak/check"
	"lksms/test/soak/crowds"
	"lksms/test/soak/faults"
	"lksms/test/soak/load"
	"lksms/test/soak/run"
	"lksms/test/soak/stack"
)

const (
	drillRound = 3 * time.Minute
	shortDrill = time.Minute // a drill up to this length has one round, in which each fault of shortFaults occurs once

	frozen       = 20 * time.Second // how long the primary is frozen
	storeAway    = 15 * time.Second // how long etcd is stopped
	replicaAway  = 12 * time.Second
	replaceLimit = time.Minute      // maximum time until another node is primary
	wholeLimit   = 90 * time.Second // maximum time until all nodes follow the primary again
)

// Options are the flags of a drill.
type Options struct {
	Async bool   // replicate asynchronously
	Etcd3 bool   // Patroni uses version 3 of the etcd API
	Fault string // name of the only fault; empty: all faults
}

// Run runs the load and the checks of the soak on a cluster that fails over.
func Run(ctx context.Context, soak *run.Run, o Options) (err error) {
	soak.RoundLength = min(drillRound, soak.Duration)
	isShort := soak.Duration <= shortDrill
	fmt.Printf("drill: seed %d, %s in rounds of %s\n", soak.Seed, soak.Duration, soak.RoundLength)
	soak.Began = time.Now()
	dir, err := stack.NewDir()
	if err != nil {
		return err
	}
	binary, err := stack.Build(ctx, dir, nil)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	stack, err := stack.StartCluster(ctx, dir, binary, stack.ClusterOptions{Seed: soak.Seed, IsAsync: o.Async, IsThird: o.Etcd3, IsShort: isShort})
	defer func() { err = soak.StopStack(stack, false, err) }()
	if err != nil {
		return err
	}
	if !stack.Mounted {
		fmt.Println("drill: no small file system could be mounted, because this needs root. The fault 'disk of the primary full' is skipped")
	}
	soak.Say("three nodes and three servers run")
	sc, err := run.NewScene(soak.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.Close()
	r, err := crowds.NewReaders(stack, sc.Load, sc.Tenants)
	if err != nil {
		return err
	}
	sc.Crowds = []crowds.Crowd{r}
	k := &keeper{}
	sc.History.OnAnswer = k.record
	if isShort {
		sc.Load.Submitters /= 2 // with half of the load, the remaining tasks are sent before the drill ends
	}
	if err := sc.SetUp(ctx); err != nil {
		return err
	}
	n := &driller{
		stack: stack, cluster: stack.Cluster, history: sc.History, keeper: k, seed: soak.Seed, rng: rand.New(rand.NewPCG(soak.Seed, 0)), say: soak.Say,
		isShort: isShort, struck: map[string][]recovery{}, only: o.Fault,
	}
	if o.Async {
		n.only = lagging
	}
	if n.deal(); len(n.deck) == 0 {
		return fmt.Errorf("fault %q does not exist", n.only)
	}
	soak.Began = time.Now()
	var verdicts []check.Verdict
	rounds := 0
	for rounds == 0 || !n.isShort && soak.Elapsed() < soak.Duration && ctx.Err() == nil && len(check.Broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = soak.Round(ctx, rounds, sc, n); err != nil {
			return err
		}
	}
	fmt.Printf("\ndrill: seed %d, %d rounds in %s\n\n", soak.Seed, rounds, soak.Elapsed().Round(time.Second))
	n.print()
	sc.Print()
	check.Print(verdicts)
	return drillVerdict(ctx, o.Async, verdicts)
}

// drillVerdict returns the result of a drill. A drill with asynchronous replication must lose a message: otherwise the drill proves nothing.
func drillVerdict(ctx context.Context, isAsync bool, verdicts []check.Verdict) error {
	found := check.Broken(verdicts)
	if !isAsync {
		if len(found) > 0 {
			return run.ErrBroken
		}
		return ctx.Err()
	}
	const loss = "every accepted message exists"
	if !slices.ContainsFunc(found, func(v check.Verdict) bool { return strings.HasPrefix(v.Name, loss) }) {
		return fmt.Errorf("replication was asynchronous, but %q found no lost message", loss)
	}
	fmt.Println("drill: as expected, asynchronous replication lost messages, and the checks found the loss")
	return nil
}

// drillFault is one kind of fault. strike injects the fault, undoes it, and returns a description of what it did.
type drillFault struct {
	name   string
	strike func(d *driller, ctx context.Context, primary *stack.Node) (string, error)
}

const (
	lagging      = "primary killed before its replicas"
	replicaStops = "replica stopped for 12 s"
)

var drillFaults = []drillFault{
	{"PostgreSQL of the primary killed", (*driller).killPostgres},
	{"primary killed with its Patroni", (*driller).killPrimary},
	{lagging, (*driller).killAhead},
	{"primary stopped for 20 s", (*driller).freeze},
	{"switchover", (*driller).switchover},
	{"primary cut from etcd", (*driller).cut},
	{"Patroni of the primary stopped", (*driller).stopPatroni},
	{"etcd stopped for 15 s", (*driller).stopEtcd},
	{"disk of the primary full", (*driller).fill},
	{"server killed", (*driller).killServer},
	{replicaStops, (*driller).stopReplica},
}

// shortFaults contains the faults of a short drill, in this order. After the last fault, the drill does not wait for the old primary, because rewinding this
// node takes a long time.
var shortFaults = []string{replicaStops, "switchover", "primary cut from etcd", "server killed", "primary killed with its Patroni"}

// driller injects the faults of a drill, one after another.
type driller struct {
	stack   *stack.Stack
	cluster *stack.Cluster
	history *load.History
	keeper  *keeper
	seed    uint64
	rng     *rand.Rand
	say     func(format string, args ...any)
	isShort bool
	only    string // name of the only fault; empty: all faults

	deck   []drillFault
	struck map[string][]recovery
}

// Run implements run.Injector.
func (d *driller) Run(ctx context.Context) error {
	defer d.keeper.watch(context.WithoutCancel(ctx), d.stack.Servers)() // the watch ends before the checks, which count connections
	if d.isShort && d.only == "" {                                      // a short drill injects every fault, even if this takes longer than its duration
		for i, f := range d.deck {
			isReady := d.cluster.IsWhole
			if i == len(d.deck)-1 {
				isReady = d.cluster.IsLed
			}
			if err := d.inject(ctx, f, isReady); err != nil {
				return err
			}
		}
		return nil
	}
	for stack.Pause(ctx, time.Duration(1000+d.rng.IntN(3000))*time.Millisecond) {
		if len(d.deck) == 0 {
			d.deal()
		}
		f := d.deck[0]
		d.deck = d.deck[1:]
		if err := d.inject(ctx, f, d.cluster.IsWhole); err != nil {
			return err
		}
	}
	return nil
}

// deal fills the deck with the faults of this drill: shuffled, or in their order for a short drill.
func (d *driller) deal() {
	d.deck = slices.DeleteFunc(slices.Clone(drillFaults), func(f drillFault) bool {
		return d.only != "" && f.name != d.only || d.only == "" && d.isShort && !slices.Contains(shortFaults, f.name) ||
			f.name == "disk of the primary full" && !d.stack.Mounted
	})
	if d.isShort {
		slices.SortFunc(d.deck, func(a, b drillFault) int {
			return cmp.Compare(slices.Index(shortFaults, a.name), slices.Index(shortFaults, b.name))
		})
		return
	}
	d.rng.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
}

// inject injects a fault. It waits until isReady, and until every kind of call gets a response again.
func (d *driller) inject(ctx context.Context, f drillFault, isReady func(context.Context) bool) error {
	ctx = context.WithoutCancel(ctx)
	primary := d.cluster.Primary(ctx)
	if primary == nil {
		return fmt.Errorf("%s: no node is primary before the fault", f.name)
	}
	failures, began := d.keeper.failures(), time.Now()
	what, err := f.strike(d, ctx, primary)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := stack.Await(ctx, wholeLimit, "the nodes are not ready again", isReady); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	over := time.Now()
	for d.keeper.missing(over) != "" {
		if time.Since(over) > faults.ServingLimit {
			d.history.Breach("no %s succeeded within %s after the fault: %s", d.keeper.missing(over), faults.ServingLimit, f.name)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r := d.keeper.since(began, failures)
	d.struck[f.name] = append(d.struck[f.name], r)
	submissions := r[submitWork]
	effect := fmt.Sprintf("submissions continued, longest gap %.1f s", submissions.away.Seconds())
	if submissions.after > 0 {
		effect = fmt.Sprintf("submissions accepted again %.1f s after the fault, longest gap %.1f s", submissions.after.Seconds(), submissions.away.Seconds())
	}
	for i, srv := range d.stack.Servers {
		effect += fmt.Sprintf("; %s not ready for %.1f s", srv.Name, r[ofServer(i)].away.Seconds())
	}
	d.say("%-36s%s; %s; %d 5xx responses", f.name, what, effect, r.failures())
	return nil
}

// awaitReplacement waits until another node is primary, and returns a description with the names of both nodes.
func (d *driller) awaitReplacement(ctx context.Context, old *stack.Node) (string, error) {
	name := ""
	err := stack.Await(ctx, replaceLimit, "no other node became primary", func(ctx context.Context) bool {
		now := d.cluster.Primary(ctx)
		if now != nil && now != old {
			name = now.Name
		}
		return name != ""
	})
	return old.Name + ", replaced by " + name, err
}

// killPostgres kills all processes of the primary at once, like a crash. Patroni restarts PostgreSQL or promotes another node.
func (*driller) killPostgres(_ context.Context, primary *stack.Node) (string, error) {
	return primary.Name, primary.Kill(syscall.SIGKILL, "")
}

func (d *driller) killPrimary(ctx context.Context, primary *stack.Node) (string, error) {
	primary.Patroni.Hold()
	defer primary.Patroni.Release()
	if err := primary.Kill(syscall.SIGKILL, ""); err != nil {
		return "", err
	}
	return d.awaitReplacement(ctx, primary)
}

// killAhead first stops replication from the primary for a moment, then kills the primary. Transactions that the primary confirmed meanwhile exist only on the
// primary.
func (d *driller) killAhead(ctx context.Context, primary *stack.Node) (string, error) {
	if err := primary.Kill(syscall.SIGSTOP, "walsender"); err != nil {
		return "", err
	}
	time.Sleep(time.Duration(300+d.rng.IntN(7000)) * time.Millisecond) // clients stop waiting after load.CallLimit, and repeat the calls that can safely be repeated
	return d.killPrimary(ctx, primary)
}

// freeze stops all processes of the primary for the time frozen. When the processes continue, the node still treats itself as the primary.
func (d *driller) freeze(ctx context.Context, primary *stack.Node) (string, error) {
	err := primary.Kill(syscall.SIGSTOP, "")
	time.Sleep(frozen)
	what := primary.Name
	if now := d.cluster.Primary(ctx); now != nil {
		what += ", replaced by " + now.Name
	}
	if err == nil {
		err = primary.Kill(syscall.SIGCONT, "")
	}
	return what, err
}

func (d *driller) switchover(ctx context.Context, primary *stack.Node) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, replaceLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "patronictl", "-c", primary.Config, "switchover", "--leader", primary.Name, "--force").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("patronictl: %w: %s", err, out)
	}
	return d.awaitReplacement(ctx, primary)
}

func (d *driller) cut(ctx context.Context, primary *stack.Node) (string, error) {
	primary.Etcd.Cut()
	defer primary.Etcd.Heal()
	return d.awaitReplacement(ctx, primary)
}

func (d *driller) stopPatroni(ctx context.Context, primary *stack.Node) (string, error) {
	primary.Patroni.Signal(syscall.SIGSTOP)
	defer primary.Patroni.Signal(syscall.SIGCONT)
	return d.awaitReplacement(ctx, primary)
}

// stopEtcd stops etcd. Without etcd no node can hold the key of the leader, so all nodes are read-only until etcd continues.
func (d *driller) stopEtcd(context.Context, *stack.Node) (string, error) {
	d.cluster.Etcd.Signal(syscall.SIGSTOP)
	defer d.cluster.Etcd.Signal(syscall.SIGCONT)
	time.Sleep(storeAway)
	return "no primary meanwhile", nil
}

// fill uses up the disk space of the primary until another node is primary, for at most replaceLimit.
func (d *driller) fill(ctx context.Context, primary *stack.Node) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- faults.Ballast(ctx, filepath.Join(primary.Dir, "ballast")) }()
	what, replaced := d.awaitReplacement(ctx, primary)
	cancel()
	if err := <-done; err != nil {
		return "", err
	}
	if replaced != nil {
		what = primary.Name + ", which stayed primary"
	}
	return what, nil
}

func (d *driller) killServer(context.Context, *stack.Node) (string, error) {
	s := d.stack.Servers[d.rng.IntN(len(d.stack.Servers))]
	s.Signal(syscall.SIGKILL)
	return s.Name, nil
}

// stopReplica stops all processes of a standby that serves reads. COMMITs do not wait for this node, because another node is the synchronous standby.
func (d *driller) stopReplica(ctx context.Context, primary *stack.Node) (string, error) {
	for _, n := range d.cluster.Nodes {
		if n == primary || stack.StatusOf(ctx, "http://127.0.0.1:"+n.APIPort+"/sync") == http.StatusOK {
			continue
		}
		err := n.Kill(syscall.SIGSTOP, "")
		time.Sleep(replicaAway)
		if err == nil {
			err = n.Kill(syscall.SIGCONT, "")
		}
		return n.Name, err
	}
	return "", errors.New("no standby that replicates asynchronously")
}

// print prints the measured effects of the faults.
func (d *driller) print() {
	printRow := func(name string, all []recovery, w work, failuresOf func(recovery) int) {
		away, after, failures := make([]time.Duration, len(all)), []time.Duration{}, 0
		for i, r := range all {
			away[i] = r[w].away
			failures += failuresOf(r)
			if r[w].after > 0 {
				after = append(after, r[w].after)
			}
		}
		fmt.Printf("  %5d  %-44s%8s%8s%10s%8s%8d\n", len(all), name, middle(away), longest(away), middle(after), longest(after), failures)
	}
	fmt.Printf("  %51s%16s%18s%8s\n", "", "longest gap", "success after", "5xx")
	fmt.Printf("  %51s%8s%8s%10s%8s\n", "", "p50", "worst", "p50", "worst")
	var ofDatabase []recovery
	for _, f := range drillFaults {
		all := d.struck[f.name]
		if len(all) == 0 {
			continue
		}
		printRow(f.name, all, submitWork, recovery.failures)
		if f.name != "server killed" && f.name != replicaStops {
			ofDatabase = append(ofDatabase, all...)
		}
	}
	fmt.Println("\n  all faults of PostgreSQL: submissions, and the readiness of each server with its way to the primary")
	printRow("submissions", ofDatabase, submitWork, recovery.failures)
	for i, srv := range d.stack.Servers {
		printRow(srv.Name+" "+stack.WayOf(i, d.seed).String(), ofDatabase, ofServer(i), func(r recovery) int { return r[ofServer(i)].failures })
	}
	fmt.Println()
}

func middle(all []time.Duration) string {
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", slices.Sorted(slices.Values(all))[(len(all)-1)/2].Seconds())
}

func longest(all []time.Duration) string {
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", slices.Max(all).Seconds())
}
