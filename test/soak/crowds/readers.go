package crowds

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// These constants are the limits of reads from replicas, and the names that the readers use.
const (
	replicaLag   = 5 * time.Second          // DATABASE_REPLICA_MAX_LAG, at its default
	StaleLimit   = replicaLag + time.Second // maximum age of the state in a response. The extra second covers commits that do not wait for the disk
	returnLimit  = 2 * time.Minute          // maximum time from the last fault until all standbys serve reads again: the nodes have a checkpoint_timeout of 30 s
	readersPhone = "15000000000"            // recipient of all messages of the readers, and of no other messages, because one page searches at most a thousand tasks of a number
	readersNo    = "readers"                // company_no of the readers, and name of the user that submits
	readLimit    = 10 * time.Second         // time limit of a list: a busy machine needs seconds, and a hanging replica delays a read by three seconds
	readersPage  = 50                       // more messages than the readers submit within StaleLimit
	readersSpan  = 40 * time.Second         // time span of a list: without a limit, a list that is not full would search all earlier days
)

// readers submit messages for a separate company, and read its task list and statistics. A server with replicas can answer these reads from a standby.
type readers struct {
	client       *api.ClientWithResponses
	load         *load.Load
	stack        *stack.Stack
	tenants      *load.Tenants
	server       *stack.Server // the server with the replicas
	submit, read api.RequestEditorFn
	truth        staleness
	reads        atomic.Int64
	texts        atomic.Int64
	before       map[string]float64 // number of reads at the last count, by the server that answered

	mu       sync.Mutex
	byServer map[string]float64 // number of reads in all rounds, by the server that answered
	returned time.Duration      // longest time until all replicas served reads again
}

// staleness stores the messages that the readers submitted, the times when the primary answered, and the found violations.
type staleness struct {
	mu       sync.Mutex
	accepted []acceptance
	goodAt   time.Time // start of the newest read that the primary answered
	badAt    time.Time // end of the newest read that the primary did not answer
	found    check.Verdict
}

// acceptance is an accepted message and the time of its response.
type acceptance struct {
	id string
	at time.Time
}

const staleInvariant = "reads from replicas are fresh enough, succeed while the primary answers, and continue after failovers"

// NewReaders returns clients that read from replicas.
func NewReaders(s *stack.Stack, l *load.Load, t *load.Tenants) (*readers, error) {
	endpoint := s.Endpoints[0]
	client, err := api.NewClientWithResponses(endpoint.URL,
		api.WithHTTPClient(&http.Client{Timeout: readLimit, Transport: load.Observer{History: l.History, Server: endpoint, Base: &http.Transport{}}}))
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &readers{
		client: client, load: l, stack: s, tenants: t, server: s.Servers[0], before: map[string]float64{}, byServer: map[string]float64{}, truth: staleness{found: check.Verdict{Name: staleInvariant}},
	}, nil
}

func (r *readers) SetUp(ctx context.Context) error {
	c, no := r.load.Clients[0], readersNo
	company, err := c.CreateCompanyWithResponse(ctx, nil, api.CompanyRequest{CompanyNo: no, Name: no})
	if err := load.CheckCreated("company", err, company); err != nil {
		return err
	}
	for _, u := range []struct {
		name      string
		role      api.Role
		authorize *api.RequestEditorFn
	}{{no, api.RoleSubmit, &r.submit}, {no + "-read", api.RoleRead, &r.read}} {
		user, err := c.CreateUserWithResponse(ctx, api.UserRequest{Username: u.name, Role: u.role, CompanyNo: &no})
		if err := load.CheckCreated("user", err, user); err != nil {
			return err
		}
		key, err := c.CreateKeyWithResponse(ctx, u.name, api.KeyRequest{Name: "soak"})
		if err := load.CheckCreated("key", err, key); err != nil {
			return err
		}
		bearer := "Bearer " + key.JSON200.Data.Key
		*u.authorize = func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", bearer)
			return nil
		}
	}
	route, since := api.RouteRequest{CompanyNo: no, MessageType: api.Notification, SenderNo: load.BoltAny}, time.Now()
	res, err := c.CreateRouteWithResponse(ctx, nil, route)
	if err := load.CheckCreated("route", err, res); err != nil {
		return err
	}
	r.tenants.AddRoute(route, since)
	return nil
}

// Run submits a message every half second, and reads lists and statistics. Meanwhile it probes the primary ten times per second.
func (r *readers) Run(ctx context.Context, _ int) {
	r.count()
	var all sync.WaitGroup
	all.Go(func() {
		for stack.Pause(ctx, 500*time.Millisecond) {
			text := fmt.Sprintf("soak-%d-readers-%d", r.load.Seed, r.texts.Add(1))
			if id := r.load.Submit(r.load.Clients[0], nil, api.SendRequest{PhoneNumber: readersPhone, Content: &text}, text, r.submit); id != "" {
				r.truth.accept(id, time.Now())
			}
		}
	})
	probing, enough := context.WithCancel(context.WithoutCancel(ctx)) // continues after ctx ends, because each read needs a later probe
	var probe sync.WaitGroup
	probe.Go(func() {
		for stack.Pause(probing, 100*time.Millisecond) {
			r.probe()
		}
	})
	all.Go(func() {
		for stack.Pause(ctx, time.Second) {
			r.count()
		}
	})
	for range 3 {
		all.Go(func() {
			for stack.Pause(ctx, 50*time.Millisecond) {
				r.readOnce()
			}
		})
	}
	all.Wait()
	enough()
	probe.Wait()
	r.count()
}

// probeLimit is the time limit of a probe, which reads one row from the primary.
const probeLimit = time.Second

// probe reads one message. Only the primary answers this request.
func (r *readers) probe() {
	id := r.truth.newest()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(load.CallContext(), probeLimit)
	defer cancel()
	began := time.Now()
	res, err := r.client.GetTaskWithResponse(ctx, id, r.read)
	r.truth.probed(began, time.Now(), err == nil && res.JSON200 != nil)
}

func (r *readers) readOnce() {
	client, began := r.client, time.Now()
	if r.reads.Add(1)%2 == 0 {
		res, err := client.TaskStatisticsWithResponse(load.CallContext(), r.read)
		if err != nil || res.JSON200 == nil {
			r.failed("statistics", began, err, res)
			return
		}
		d := res.JSON200.Data
		r.truth.counted(began, d.PendingNewTasks+d.PendingRetryTasks+d.ProcessingTasks+d.SuccessTasks+d.FailedTasks)
		return
	}
	phone, limit, from := readersPhone, readersPage, began.Add(-readersSpan)
	res, err := client.ListTasksWithResponse(load.CallContext(), &api.ListTasksParams{PhoneNumber: &phone, Limit: &limit, CreatedFrom: &from}, r.read)
	if err != nil || res.JSON200 == nil {
		r.failed("list", began, err, res)
		return
	}
	ids := map[string]bool{}
	for _, t := range res.JSON200.Data.Items {
		ids[t.TaskID] = true
	}
	r.truth.listed(began, ids)
}

// failed waits for a probe that started after the failed read, and then judges the read. The failure is a violation only if the primary answered before, during
// and after the read.
func (r *readers) failed(what string, began time.Time, err error, answer interface{ Status() string }) {
	text := fmt.Sprint(err)
	if err == nil {
		text = answer.Status()
	}
	ended := time.Now()
	for deadline := ended.Add(2 * load.CallLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if r.truth.isProbedSince(ended) {
			r.truth.unanswered(what, began, ended, text)
			return
		}
	}
}

func (s *staleness) accept(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = append(s.accepted, acceptance{id, at})
}

func (s *staleness) newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.accepted) == 0 {
		return ""
	}
	return s.accepted[len(s.accepted)-1].id
}

func (s *staleness) probed(began, ended time.Time, isGood bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isGood {
		s.goodAt = began
	} else {
		s.badAt = ended
	}
}

func (s *staleness) isProbedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.goodAt.After(t) || s.badAt.After(t)
}

// due returns the messages that the response to a read must contain, if the read started at began.
func (s *staleness) due(began time.Time) []acceptance {
	n := len(s.accepted)
	for n > 0 && s.accepted[n-1].at.After(began.Add(-StaleLimit)) {
		n--
	}
	return s.accepted[:n]
}

// listed checks that the first page of the list contains the messages that are due.
func (s *staleness) listed(began time.Time, ids map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due(began)
	for _, a := range due[max(0, len(due)-readersPage/5):] { // the page also has room for newer messages, and for messages with an unknown outcome
		if !ids[a.id] && began.Sub(a.at) < readersSpan-2*load.CallLimit { // a message is created before it is accepted
			s.found.Add(fmt.Sprintf("a list lacks %s, accepted %.1f s before", a.id, began.Sub(a.at).Seconds()))
		}
	}
}

// counted checks the number of messages in the statistics. No message of the readers is cancelled.
func (s *staleness) counted(began time.Time, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due := s.due(began); n < int64(len(due)) {
		s.found.Add(fmt.Sprintf("statistics count %d messages, and %d were accepted %s before", n, len(due), StaleLimit))
	}
}

// unanswered judges a read that began and failed at these times. The failure is a violation if the primary answered before, during and after the read.
func (s *staleness) unanswered(what string, began, ended time.Time, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goodAt.After(ended) && s.badAt.Before(began.Add(-probeLimit)) {
		s.found.Add(fmt.Sprintf("%s not answered in %.1f s while the primary answered: %s", what, ended.Sub(began).Seconds(), text))
	}
}

// count adds the reads that each server answered since the last count. After a kill of the server with the replicas, its counters restart at 0.
func (r *readers) count() {
	now := map[string]float64{}
	for _, name := range append([]string{"primary"}, r.replicas()...) {
		if n, err := r.server.Gauge(context.Background(), `lksms_stale_reads_total{server="`+name+`"}`); err == nil {
			now[name] = n
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range now {
		if before := r.before[name]; n >= before {
			n -= before
		}
		r.byServer[name] += n
		r.before[name] = now[name]
	}
}

func (r *readers) replicas() (names []string) {
	for _, n := range r.stack.Cluster.Nodes {
		names = append(names, net.JoinHostPort("127.0.0.1", n.Port))
	}
	return names
}

// Settle waits until every standby is fresh enough for reads.
func (r *readers) Settle(ctx context.Context) error {
	began := time.Now()
	fresh := 0
	err := stack.Await(ctx, returnLimit, "the replicas are not used again", func(ctx context.Context) bool {
		fresh = 0
		for _, name := range r.replicas() {
			if lag, err := r.server.Gauge(ctx, `lksms_replica_lag_seconds{replica="`+name+`"}`); err == nil && lag <= replicaLag.Seconds() {
				fresh++
			}
		}
		return fresh == stack.ClusterNodes-1
	})
	r.mu.Lock()
	r.returned = max(r.returned, time.Since(began))
	r.mu.Unlock()
	if err != nil {
		r.truth.mu.Lock()
		defer r.truth.mu.Unlock()
		r.truth.found.Add(fmt.Sprintf("%v: only %d of %d are", err, fresh, stack.ClusterNodes-1))
	}
	return nil
}

func (r *readers) Verdicts(context.Context, *pgx.Conn) ([]check.Verdict, error) {
	r.mu.Lock()
	served := 0.0
	for name, n := range r.byServer {
		if name != "primary" {
			served += n
		}
	}
	r.mu.Unlock()
	r.truth.mu.Lock()
	defer r.truth.mu.Unlock()
	found := r.truth.found
	if served == 0 {
		found.Add("no replica served any read")
	}
	return []check.Verdict{found}, nil
}

func (r *readers) Print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var parts []string
	for _, name := range append([]string{"primary"}, r.replicas()...) {
		of := "by the primary"
		if name != "primary" {
			of = "by " + stack.NodePrefix + strconv.Itoa(len(parts))
		}
		parts = append(parts, fmt.Sprintf("%.0f %s", r.byServer[name], of))
	}
	fmt.Printf("  %5d  lists and statistics read; reads that allow stale data: %s; all replicas in use at most %.1f s after the load\n", r.reads.Load(),
		strings.Join(parts, ", "), r.returned.Seconds())
}
