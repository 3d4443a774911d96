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

// keeper records when each kind of work succeeded.
type keeper struct {
	mu     sync.Mutex
	done   [works][]time.Time
	errors [works]int // number of 5xx responses
	latest [load.KindsOfCalls]time.Time
}

// work is a kind of work that must succeed again after a fault.
type work int

const (
	submitWork work = iota // a submission of one message is accepted
	// readyWork + i is the readiness of the server with index i: /ready returns 200, without HAProxy in between.
	readyWork
	works = readyWork + work(stack.ClusterServers)
)

// ofServer returns the readiness of the server with an index in drillRoles.
func ofServer(i int) work { return readyWork + work(i) }

// readyEvery is the interval of the readiness probes of each server.
const readyEvery = 50 * time.Millisecond

// watch probes the readiness of all servers until the returned function is called. A server is ready if it reaches the primary.
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

// record records a response. POST claims (load.WaitCall) are a separate kind of work, because they can wait for tasks.
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

// missing returns the name of a kind of calls that has had no successful call since a time. It returns "" if every kind has had a successful call.
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

// recovery is the effect of a fault on every kind of work.
type recovery [works]outage

// failures returns the number of 5xx responses.
func (r recovery) failures() (n int) {
	for _, o := range r {
		n += o.failures
	}
	return n
}

// outage is the effect of a fault on one kind of work.
type outage struct {
	away  time.Duration // longest time without success
	after time.Duration // time from the fault to the end of the time away; 0: no outage

	failures int // number of 5xx responses of the server
}

// goesOn is the longest time without success that does not count as an outage.
const goesOn = time.Second

// since returns how each kind of work recovered from a fault. failures contains the numbers of 5xx responses before the fault.
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
