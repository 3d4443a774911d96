package main

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
)

const (
	drillRound = 3 * time.Minute
	shortDrill = time.Minute // a drill up to this length has one round with one fault of each of shortFaults

	frozen       = 20 * time.Second // of a primary that is stopped
	storeAway    = 15 * time.Second // of etcd
	replicaAway  = 12 * time.Second
	replaceLimit = time.Minute      // until another node is primary
	wholeLimit   = 90 * time.Second // until all nodes follow the primary again
)

// drillOptions are the flags of a drill.
type drillOptions struct {
	Async bool   // replicate asynchronously
	Etcd3 bool   // Patroni uses the third API of etcd
	Fault string // name of the only fault; empty: all
}

// drill runs the load of the soak on a cluster that fails over, and its checks.
func drill(ctx context.Context, soak *soak, o drillOptions) (err error) {
	soak.RoundLength = min(drillRound, soak.Duration)
	isShort := soak.Duration <= shortDrill
	fmt.Printf("drill: seed %d, %s in rounds of %s\n", soak.Seed, soak.Duration, soak.RoundLength)
	soak.Began = time.Now()
	dir, err := newDir()
	if err != nil {
		return err
	}
	binary, err := build(ctx, dir, nil)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	stack, err := startDrill(ctx, dir, binary, clusterOptions{seed: soak.Seed, isAsync: o.Async, isThird: o.Etcd3, isShort: isShort})
	defer func() { err = soak.stopStack(stack, false, err) }()
	if err != nil {
		return err
	}
	if !stack.mounted {
		fmt.Println("drill: no small file system could be mounted (this needs root): the fault 'disk of the primary full' is left out")
	}
	soak.say("three nodes and three servers run")
	sc, err := newScene(soak.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.close()
	r, err := newReaders(stack, sc.load, sc.tenants)
	if err != nil {
		return err
	}
	sc.crowds = []crowd{r}
	k := &keeper{}
	sc.history.note = k.note
	if isShort {
		sc.load.many /= 2 // what waits at the end is sent before the drill ends
	}
	if err := sc.setUp(ctx); err != nil {
		return err
	}
	n := &driller{
		stack: stack, cluster: stack.cluster, history: sc.history, keeper: k, seed: soak.Seed, rng: rand.New(rand.NewPCG(soak.Seed, 0)), say: soak.say,
		isShort: isShort, struck: map[string][]recovery{}, only: o.Fault,
	}
	if o.Async {
		n.only = lagging
	}
	if n.deal(); len(n.deck) == 0 {
		return fmt.Errorf("fault %q does not exist", n.only)
	}
	soak.Began = time.Now()
	var verdicts []verdict
	rounds := 0
	for rounds == 0 || !n.isShort && soak.elapsed() < soak.Duration && ctx.Err() == nil && len(broken(verdicts)) == 0 {
		rounds++
		if verdicts, err = soak.round(ctx, rounds, sc, n); err != nil {
			return err
		}
	}
	fmt.Printf("\ndrill: seed %d, %d rounds in %s\n\n", soak.Seed, rounds, soak.elapsed().Round(time.Second))
	n.print()
	sc.print()
	printVerdicts(verdicts)
	return drillVerdict(ctx, o.Async, verdicts)
}

// drillVerdict returns the result of a drill. An asynchronous one must have lost a message.
func drillVerdict(ctx context.Context, isAsync bool, verdicts []verdict) error {
	found := broken(verdicts)
	if !isAsync {
		if len(found) > 0 {
			return errBroken
		}
		return ctx.Err()
	}
	const loss = "every accepted message exists"
	if !slices.ContainsFunc(found, func(v verdict) bool { return strings.HasPrefix(v.name, loss) }) {
		return fmt.Errorf("replication was asynchronous, and no loss was found by %q", loss)
	}
	fmt.Println("drill: without synchronous replication messages were lost, and the checks found it, as they must")
	return nil
}

// drillFault is one kind of fault. strike returns after it has undone the fault, and describes it.
type drillFault struct {
	name   string
	strike func(d *driller, ctx context.Context, primary *node) (string, error)
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

// shortFaults are the faults of a short drill, in their order. After the last one, nobody waits for the old primary, which is rewound.
var shortFaults = []string{replicaStops, "switchover", "primary cut from etcd", "server killed", "primary killed with its Patroni"}

// driller injects the faults of a drill, one after another.
type driller struct {
	stack   *stack
	cluster *cluster
	history *history
	keeper  *keeper
	seed    uint64
	rng     *rand.Rand
	say     func(format string, args ...any)
	isShort bool
	only    string // name of the only fault; empty: all

	deck   []drillFault
	struck map[string][]recovery
}

// run implements injector.
func (d *driller) run(ctx context.Context) error {
	defer d.keeper.watch(context.WithoutCancel(ctx), d.stack.servers)() // not during the checks, which count connections
	if d.isShort && d.only == "" {                                      // a fault takes longer than such a drill has
		for i, f := range d.deck {
			isReady := d.cluster.isWhole
			if i == len(d.deck)-1 {
				isReady = d.cluster.isLed
			}
			if err := d.inject(ctx, f, isReady); err != nil {
				return err
			}
		}
		return nil
	}
	for pause(ctx, time.Duration(1000+d.rng.IntN(3000))*time.Millisecond) {
		if len(d.deck) == 0 {
			d.deal()
		}
		f := d.deck[0]
		d.deck = d.deck[1:]
		if err := d.inject(ctx, f, d.cluster.isWhole); err != nil {
			return err
		}
	}
	return nil
}

// deal fills the deck.
func (d *driller) deal() {
	d.deck = slices.DeleteFunc(slices.Clone(drillFaults), func(f drillFault) bool {
		return d.only != "" && f.name != d.only || d.only == "" && d.isShort && !slices.Contains(shortFaults, f.name) ||
			f.name == "disk of the primary full" && !d.stack.mounted
	})
	if d.isShort {
		slices.SortFunc(d.deck, func(a, b drillFault) int {
			return cmp.Compare(slices.Index(shortFaults, a.name), slices.Index(shortFaults, b.name))
		})
		return
	}
	d.rng.Shuffle(len(d.deck), func(i, j int) { d.deck[i], d.deck[j] = d.deck[j], d.deck[i] })
}

// inject injects a fault, and waits until the nodes are ready for the next one and every kind of calls is answered.
func (d *driller) inject(ctx context.Context, f drillFault, isReady func(context.Context) bool) error {
	ctx = context.WithoutCancel(ctx)
	primary := d.cluster.primary(ctx)
	if primary == nil {
		return fmt.Errorf("%s: no primary before it", f.name)
	}
	failures, began := d.keeper.failures(), time.Now()
	what, err := f.strike(d, ctx, primary)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := await(ctx, wholeLimit, "the nodes are not ready again", isReady); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	over := time.Now()
	for d.keeper.missing(over) != "" {
		if time.Since(over) > servingLimit {
			d.history.breach("no %s was answered within %s after: %s", d.keeper.missing(over), servingLimit, f.name)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r := d.keeper.since(began, failures)
	d.struck[f.name] = append(d.struck[f.name], r)
	submissions := r[submitWork]
	effect := fmt.Sprintf("submissions went on, at most %.1f s apart", submissions.away.Seconds())
	if submissions.after > 0 {
		effect = fmt.Sprintf("accepted again %.1f s after the fault, after %.1f s without", submissions.after.Seconds(), submissions.away.Seconds())
	}
	for i, srv := range d.stack.servers {
		effect += fmt.Sprintf("; %s away %.1f s", srv.name, r[ofServer(i)].away.Seconds())
	}
	d.say("%-36s%s; %s; %d answers of 5xx", f.name, what, effect, r.failures())
	return nil
}

// awaitReplacement waits until another node is primary, and returns its name.
func (d *driller) awaitReplacement(ctx context.Context, old *node) (string, error) {
	name := ""
	err := await(ctx, replaceLimit, "no other node became primary", func(ctx context.Context) bool {
		now := d.cluster.primary(ctx)
		if now != nil && now != old {
			name = now.name
		}
		return name != ""
	})
	return old.name + ", replaced by " + name, err
}

// killPostgres kills all processes of the primary at once, as a crash does. Patroni starts it again, or lets another one take over.
func (*driller) killPostgres(_ context.Context, primary *node) (string, error) {
	return primary.name, primary.kill(syscall.SIGKILL, "")
}

func (d *driller) killPrimary(ctx context.Context, primary *node) (string, error) {
	primary.patroni.hold()
	defer primary.patroni.release()
	if err := primary.kill(syscall.SIGKILL, ""); err != nil {
		return "", err
	}
	return d.awaitReplacement(ctx, primary)
}

// killAhead kills the primary when it has been unable to send to its replicas for a moment. What it confirmed then, only it has.
func (d *driller) killAhead(ctx context.Context, primary *node) (string, error) {
	if err := primary.kill(syscall.SIGSTOP, "walsender"); err != nil {
		return "", err
	}
	time.Sleep(time.Duration(300+d.rng.IntN(7000)) * time.Millisecond) // clients give up after callLimit, and repeat what they may
	return d.killPrimary(ctx, primary)
}

// freeze stops all processes of the primary, which believes to be one when it goes on.
func (d *driller) freeze(ctx context.Context, primary *node) (string, error) {
	err := primary.kill(syscall.SIGSTOP, "")
	time.Sleep(frozen)
	what := primary.name
	if now := d.cluster.primary(ctx); now != nil {
		what += ", replaced by " + now.name
	}
	if err == nil {
		err = primary.kill(syscall.SIGCONT, "")
	}
	return what, err
}

func (d *driller) switchover(ctx context.Context, primary *node) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, replaceLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "patronictl", "-c", primary.config, "switchover", "--leader", primary.name, "--force").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("patronictl: %w: %s", err, out)
	}
	return d.awaitReplacement(ctx, primary)
}

func (d *driller) cut(ctx context.Context, primary *node) (string, error) {
	primary.etcd.cut()
	defer primary.etcd.heal()
	return d.awaitReplacement(ctx, primary)
}

func (d *driller) stopPatroni(ctx context.Context, primary *node) (string, error) {
	primary.patroni.signal(syscall.SIGSTOP)
	defer primary.patroni.signal(syscall.SIGCONT)
	return d.awaitReplacement(ctx, primary)
}

// stopEtcd stops etcd: no primary can be sure to be the only one, and all nodes only read until it goes on.
func (d *driller) stopEtcd(context.Context, *node) (string, error) {
	d.cluster.etcd.signal(syscall.SIGSTOP)
	defer d.cluster.etcd.signal(syscall.SIGCONT)
	time.Sleep(storeAway)
	return "no primary meanwhile", nil
}

// fill leaves the primary no disk space until another node is primary, or for replaceLimit.
func (d *driller) fill(ctx context.Context, primary *node) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- ballast(ctx, filepath.Join(primary.dir, "ballast")) }()
	what, replaced := d.awaitReplacement(ctx, primary)
	cancel()
	if err := <-done; err != nil {
		return "", err
	}
	if replaced != nil {
		what = primary.name + ", which stayed primary"
	}
	return what, nil
}

func (d *driller) killServer(context.Context, *node) (string, error) {
	s := d.stack.servers[d.rng.IntN(len(d.stack.servers))]
	s.signal(syscall.SIGKILL)
	return s.name, nil
}

// stopReplica stops all processes of a standby that serves reads. COMMITs do not wait for it: another one is the synchronous standby.
func (d *driller) stopReplica(ctx context.Context, primary *node) (string, error) {
	for _, n := range d.cluster.nodes {
		if n == primary || statusOf(ctx, "http://127.0.0.1:"+n.rest+"/sync") == http.StatusOK {
			continue
		}
		err := n.kill(syscall.SIGSTOP, "")
		time.Sleep(replicaAway)
		if err == nil {
			err = n.kill(syscall.SIGCONT, "")
		}
		return n.name, err
	}
	return "", errors.New("no standby that replicates asynchronously")
}

// print prints what the faults did.
func (d *driller) print() {
	line := func(name string, all []recovery, w work, failuresOf func(recovery) int) {
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
	fmt.Printf("  %51s%16s%18s%8s\n", "", "not done", "done again", "5xx")
	fmt.Printf("  %51s%8s%8s%10s%8s\n", "", "p50", "worst", "p50", "worst")
	var ofDatabase []recovery
	for _, f := range drillFaults {
		all := d.struck[f.name]
		if len(all) == 0 {
			continue
		}
		line(f.name, all, submitWork, recovery.failures)
		if f.name != "server killed" && f.name != replicaStops {
			ofDatabase = append(ofDatabase, all...)
		}
	}
	fmt.Println("\n  all faults of PostgreSQL: submissions, and each server with its way to the primary")
	line("submissions", ofDatabase, submitWork, recovery.failures)
	for i, srv := range d.stack.servers {
		line(srv.name+" "+wayOf(i, d.seed).String(), ofDatabase, ofServer(i), func(r recovery) int { return r[ofServer(i)].failures })
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
