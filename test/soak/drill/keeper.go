package drill

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// keeper records when something worked.
type keeper struct {
	mu     sync.Mutex
	done   [works][]time.Time
	errors [works]int // answers of 5xx
	latest [load.KindsOfCalls]time.Time
}

// work is what must work again after a fault.
type work int

const (
	submitWork work = iota // a submission of one message is accepted
	// Each server is ready, which is asked past HAProxy.
	readyWork
	works = readyWork + work(stack.ClusterServers)
)

// ofServer is the work of the server with an index in drillRoles.
func ofServer(i int) work { return readyWork + work(i) }

// readyEvery is how often each server is asked.
const readyEvery = 50 * time.Millisecond

// watch asks the servers whether they reach the primary, until the returned function is called.
func (k *keeper) watch(ctx context.Context, all []*stack.Server) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for i, srv := range all {
		done.Go(func() {
			for stack.Pause(ctx, readyEvery) {
				if status := stack.StatusOf(ctx, srv.URL+"/ready"); status == http.StatusOK {
					k.mu.Lock()
					k.done[ofServer(i)] = append(k.done[ofServer(i)], time.Now())
					k.mu.Unlock()
				}
			}
		})
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// record records an answer. Claims by POST may wait.
func (k *keeper) record(r *http.Request, began time.Time, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if status >= http.StatusInternalServerError {
		of := ofServer(0)
		if strings.HasPrefix(r.URL.Path, "/api/v1/sms/tasks/pending") || strings.HasPrefix(r.URL.Path, "/api/v1/sms/tasks/claim") ||
			strings.HasPrefix(r.URL.Path, "/api/v1/sms/report") {
			of = ofServer(1)
		}
		k.errors[of]++
	}
	if status != http.StatusOK {
		return
	}
	kind := load.SubmitCall
	switch r.URL.Path {
	case "/api/v1/sms/send":
		k.done[submitWork] = append(k.done[submitWork], time.Now())
	case "/api/v1/sms/tasks/pending":
		kind = load.ClaimCall
	case "/api/v1/sms/tasks/claim":
		kind = load.WaitCall
	case "/api/v1/sms/report":
		kind = load.ReportCall
	default:
		return
	}
	if began.After(k.latest[kind]) {
		k.latest[kind] = began
	}
}

// missing returns a kind of calls of which none that began after a moment was answered; empty: none.
func (k *keeper) missing(since time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for kind, at := range k.latest {
		if !at.After(since) {
			return load.KindNames[kind]
		}
	}
	return ""
}

func (k *keeper) failures() [works]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.errors
}

// recovery is what a fault did.
type recovery [works]outage

// failures is the number of answers of 5xx.
func (r recovery) failures() (n int) {
	for _, o := range r {
		n += o.failures
	}
	return n
}

// outage is what a fault did to one work.
type outage struct {
	away  time.Duration // longest time in which none was done
	after time.Duration // from the fault to the end of that time; 0: the work went on

	failures int // answers of 5xx of its server
}

// goesOn is a time without work that is no outage.
const goesOn = time.Second

// since returns how each kind of work recovered since a fault, before which there had been some answers of 5xx.
func (k *keeper) since(fault time.Time, failures [works]int) (r recovery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for w, all := range k.done {
		o := &r[w]
		o.failures = k.errors[w] - failures[w]
		last := fault
		for _, at := range append(slices.Clone(all), time.Now()) {
			if at.Before(fault) {
				continue
			}
			if gap := at.Sub(last); gap > o.away {
				o.away, o.after = gap, at.Sub(fault)
			}
			last = at
		}
		if o.away < goesOn {
			o.after = 0
		}
	}
	return r
}
