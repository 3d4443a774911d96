// Package hostile runs an attack by two tenants, and compares the service of another tenant with and without the attack.
package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lksms/test/soak/run"
	"lksms/test/soak/stack"
)

// Two companies and anonymous callers attack while a normal tenant works. The attack comes from a separate address, with and without valid credentials. The
// limits below define how little it is allowed to affect the normal tenant.
const (
	attackerAddress = "127.0.0.2"
	maxRatio        = 1.5       // maximum ratio of the normal tenant's p99, and of its errors, with the attack to those without the attack
	maxMemory       = 300 << 20 // maximum resident memory of the server in bytes
	normalSenders   = 8
	normalEvery     = 40 * time.Millisecond // interval between two calls of each sender
	settling        = time.Second           // time for the last requests of the attack
	phase           = 8 * time.Second       // duration of a phase; short, so that other load on the machine equally affects phases with and without the attack
)

// evilNames are the attacking companies and their users.
var evilNames = []string{"evil", "worse"}

// attack is one way in which a caller tries to use more than its fair share.
type attack struct {
	what    string
	workers int
	do      func(a *attacker, ctx context.Context) error
}

var attacks = []attack{
	{"oversized bodies without credentials, and with a wrong method", 4, (*attacker).oversize},
	{"batches of millions of ones", 2, (*attacker).ones},
	{"batches of a thousand items of rubbish", 2, (*attacker).rubbish},
	{"batches of a thousand messages that are too long", 2, (*attacker).refusedBatches},
	{"batches of a thousand good messages", 2, (*attacker).batches},
	{"bodies that nest without end", 2, (*attacker).deep},
	{"bodies that never arrive", 30, (*attacker).slowBodies},
	{"headers that never end", 10, (*attacker).slowHeads},
	{"responses that are never read", 4, (*attacker).unread},
	{"connections, one after the other", 2, (*attacker).connections},
	{"callbacks of a megabyte for a sender that does not exist", 2, (*attacker).callbacks},
	{"wrong passwords", 4, (*attacker).guess},
	{"lists, one after the other", 4, (*attacker).lists},
	{"refused messages, one after the other", 4, (*attacker).refused},
}

// Run runs rounds without and with the attack, and compares their latencies and errors.
func Run(ctx context.Context, soak *run.Run) (err error) {
	soak.Began = time.Now()
	dir, err := stack.NewDir()
	if err != nil {
		return err
	}
	binary, err := stack.Build(ctx, dir, nil)
	if err != nil {
		return err
	}
	stack, err := stack.Start(ctx, dir, binary)
	defer func() { err = errors.Join(err, stack.Stop(soak.Keep || err != nil)) }()
	if err != nil {
		return err
	}
	target := stack.Servers[0]
	for _, name := range slices.Concat([]string{"victim"}, evilNames) {
		company := fmt.Sprintf(`{"company_no":%q,"name":%q}`, name, name)
		user := fmt.Sprintf(`{"username":%q,"password":"%s-password","role":"submit","company_no":%q}`, name, name, name)
		if err := errors.Join(target.Post(ctx, "admin", "/api/v1/admin/companies", company), target.Post(ctx, "admin", "/api/v1/admin/users", user)); err != nil {
			return err
		}
	}
	normal := &normalTenant{target: target}
	attacker, err := startAttacker(ctx, target.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, attacker.end()) }()
	var runs [2]tally // the first tally is without the attack, the second with the attack
	var ratios []float64
	for round := 0; (round == 0 || time.Since(soak.Began) < soak.Duration) && ctx.Err() == nil; round++ { // one round at least, although the build can take longer
		var p99s [2]time.Duration
		for with := range runs {
			if with == 1 {
				if err := attacker.begin(); err != nil {
					return err
				}
			}
			during, end := context.WithTimeout(ctx, phase)
			t := normal.run(during)
			end()
			if with == 1 {
				time.Sleep(settling)
			}
			runs[with].add(t)
			p99s[with] = t.p99()
			soak.Say("round %d, %s the attack: %s", round+1, []string{"without", "with"}[with], t)
		}
		ratios = append(ratios, p99s[1].Seconds()/p99s[0].Seconds())
	}
	slices.Sort(ratios)
	ratio := runs[1].p99().Seconds() / runs[0].p99().Seconds()
	memory, err := target.PeakMemory()
	if err != nil {
		return err
	}
	fmt.Printf("\nwithout the attack: %s\nwith the attack:    %s\nratio of the p99:   %.2f (at most %.1f), median of the rounds %.2f\nmemory of the server: %d MiB at most (of %d)\n",
		runs[0], runs[1], ratio, maxRatio, ratios[len(ratios)/2], memory>>20, maxMemory>>20)
	switch {
	case ratio > maxRatio:
		return fmt.Errorf("%w: the p99 of the normal tenant rises too much", run.ErrBroken)
	case runs[1].errorRate() > maxRatio*runs[0].errorRate():
		return fmt.Errorf("%w: the error rate of the normal tenant rises too much", run.ErrBroken)
	case memory > maxMemory:
		return fmt.Errorf("%w: the server uses too much memory", run.ErrBroken)
	}
	return nil
}

// attackerProcess attacks from a separate process. A real attacker uses another machine, so this process has the lowest priority. It runs as long as the soak,
// so that the measurements do not contain its start.
type attackerProcess struct {
	cmd    *exec.Cmd
	signal io.WriteCloser // each byte starts an attack of one phase
}

func startAttacker(ctx context.Context, url string) (*attackerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "--attack="+url)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	signal, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start attacker: %w", err)
	}
	return &attackerProcess{cmd, signal}, nil
}

func (a *attackerProcess) begin() error {
	if _, err := a.signal.Write([]byte{1}); err != nil {
		return fmt.Errorf("begin attack: %w", err)
	}
	return nil
}

// end stops the process after the current attack.
func (a *attackerProcess) end() error {
	_ = a.signal.Close()
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("end attacker: %w", err)
	}
	return nil
}

// Attack attacks a server in all ways for one phase after each byte of signal, until signal ends.
func Attack(ctx context.Context, url string, signal io.Reader) {
	evil := newAttacker(url)
	for {
		if _, err := io.ReadFull(signal, make([]byte, 1)); err != nil {
			return
		}
		during, end := context.WithTimeout(ctx, phase)
		var attacking sync.WaitGroup
		for _, one := range attacks {
			for range one.workers {
				attacking.Go(func() { evil.keepOn(during, one) })
			}
		}
		attacking.Wait()
		end()
		evil.client.CloseIdleConnections()
	}
}

// tally collects the latencies and errors of a tenant.
type tally struct {
	took   []time.Duration
	failed int
}

func (t *tally) add(more tally) {
	t.took, t.failed = append(t.took, more.took...), t.failed+more.failed
}

func (t tally) p99() time.Duration {
	if len(t.took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.took))
	return sorted[len(sorted)*99/100]
}

func (t tally) errorRate() float64 { return float64(t.failed) / float64(max(1, len(t.took))) }

func (t tally) String() string {
	return fmt.Sprintf("%d messages, p99 %.1f ms, %d failed", len(t.took), float64(t.p99().Microseconds())/1000, t.failed)
}

// normalTenant submits at a steady pace.
type normalTenant struct{ target *stack.Server }

func (n *normalTenant) run(ctx context.Context) tally {
	var mu sync.Mutex
	var all tally
	var senders sync.WaitGroup
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: normalSenders}}
	defer client.CloseIdleConnections()
	for range normalSenders {
		senders.Go(func() {
			next := time.NewTicker(normalEvery)
			defer next.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-next.C:
				}
				began := time.Now()
				status, err := stack.Ask(context.WithoutCancel(ctx), client, http.MethodPost, n.target.URL+"/api/v1/sms/send", "victim", "victim-password",
					strings.NewReader(`{"phone_number":"13800138000","content":"your code is 123456"}`))
				mu.Lock()
				all.took = append(all.took, time.Since(began))
				if err != nil || status != http.StatusOK {
					all.failed++
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return all
}

// uplink limits the bandwidth from the attacker to the server. Without this limit, this machine would mostly copy bytes between the attacker and the kernel. A
// real attacker does this work on another machine.
type uplink struct {
	mu   sync.Mutex
	free time.Time // time at which all bytes passed so far have been sent
}

const (
	uplinkRate  = 125 << 20 // bytes per second of a gigabit network
	uplinkChunk = 64 << 10
)

func (l *uplink) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerAddress)}, Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return uplinkConn{conn, l}, nil
}

// pass waits until n more bytes have been sent.
func (l *uplink) pass(n int) {
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * time.Second / uplinkRate)
	wait := l.free.Sub(now)
	l.mu.Unlock()
	time.Sleep(wait)
}

type uplinkConn struct {
	net.Conn
	link *uplink
}

func (c uplinkConn) Write(b []byte) (written int, err error) {
	for len(b) > written && err == nil {
		var n int
		c.link.pass(min(uplinkChunk, len(b)-written))
		n, err = c.Conn.Write(b[written:min(written+uplinkChunk, len(b))])
		written += n
	}
	return written, err
}

// attacker sends attacks with prepared bodies.
type attacker struct {
	link   uplink
	url    string
	client *http.Client
	calls  atomic.Uint64

	manyOnes, manyItems, tooLong, manyMessages, nested, megabyte []byte
}

func newAttacker(url string) *attacker {
	var rubbish strings.Builder
	for i := range 400 {
		fmt.Fprintf(&rubbish, `"f%d":1,`, i)
	}
	item := `{` + rubbish.String() + `"content":"x"}`
	message := func(length int) string {
		return `{"phone_number":"13800138000","content":"` + strings.Repeat("x", length) + `"}`
	}
	a := &attacker{
		url: url, client: &http.Client{Timeout: 20 * time.Second},
		manyOnes:     []byte(`{"messages":[` + strings.Repeat("1,", 4<<20-100) + `1]}`),
		manyItems:    []byte(`{"messages":[` + strings.Repeat(item+",", 999) + item + `]}`),
		tooLong:      []byte(`{"messages":[` + strings.Repeat(message(500)+",", 999) + message(500) + `]}`),
		manyMessages: []byte(`{"messages":[` + strings.Repeat(message(60)+",", 999) + message(60) + `]}`),
		nested:       []byte(strings.Repeat(`{"a":[`, 100_000)),
		megabyte:     []byte(`{"a":"` + strings.Repeat("x", 1<<20-100) + `"}`),
	}
	a.client.Transport = &http.Transport{DialContext: a.link.dial, MaxIdleConnsPerHost: 64}
	return a
}

// keepOn attacks in one way until ctx ends.
func (a *attacker) keepOn(ctx context.Context, one attack) {
	for ctx.Err() == nil {
		if one.do(a, ctx) != nil { // errors are expected
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func (a *attacker) send(ctx context.Context, method, path string, body []byte, username, password string) error {
	a.calls.Add(1)
	status, err := stack.Ask(ctx, a.client, method, a.url+path, username, password, bytes.NewReader(body))
	if err == nil && status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
		fmt.Printf("         %s %s: %d\n", method, path, status)
	}
	return err
}

func (a *attacker) evil(ctx context.Context, method, path string, body []byte) error {
	name := evilNames[rand.IntN(len(evilNames))]
	return a.send(ctx, method, path, body, name, name+"-password")
}

func (a *attacker) oversize(ctx context.Context) error {
	return errors.Join(
		a.send(ctx, http.MethodPut, "/api/v1/sms/send-batch", a.manyOnes, "", ""),
		a.send(ctx, http.MethodPost, "/api/v1/sms/send-batch", a.manyOnes, "", ""),
		a.evil(ctx, http.MethodDelete, "/api/v1/sms/send-batch", a.manyOnes),
		a.evil(ctx, http.MethodPost, "/api/v1/sms/send", a.manyOnes),
	)
}

func (a *attacker) ones(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send-batch", a.manyOnes)
}

func (a *attacker) rubbish(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send-batch", a.manyItems)
}

func (a *attacker) refusedBatches(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send-batch", a.tooLong)
}

func (a *attacker) batches(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send-batch", a.manyMessages)
}

func (a *attacker) deep(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send", a.nested)
}

// hold opens a connection and sends text. If read is true, hold then reads the response. Otherwise hold sends the text repeatedly and reads nothing. It returns
// when the server closes the connection.
func (a *attacker) hold(ctx context.Context, text string, read bool) error {
	conn, err := a.link.dial(ctx, "tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the connection is no longer needed
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err = io.WriteString(conn, text); err != nil || read {
		_, more := io.Copy(io.Discard, conn)
		return errors.Join(err, more)
	}
	for { // until the server closes the connection
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return err
		}
	}
}

func (a *attacker) authorization() string {
	req := &http.Request{Header: http.Header{}}
	req.SetBasicAuth(evilNames[0], evilNames[0]+"-password")
	return req.Header.Get("Authorization")
}

func (a *attacker) slowBodies(ctx context.Context) error {
	return a.hold(ctx, fmt.Sprintf("POST /api/v1/sms/send-batch HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{",
		a.authorization(), 8<<20), true)
}

func (a *attacker) slowHeads(ctx context.Context) error {
	return a.hold(ctx, "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ", true)
}

func (a *attacker) unread(ctx context.Context) error {
	return a.hold(ctx, strings.Repeat("GET /api/v1/sms/tasks?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: "+a.authorization()+"\r\n\r\n", 10), false)
}

func (a *attacker) connections(ctx context.Context) error {
	return a.hold(ctx, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", true)
}

func (a *attacker) callbacks(ctx context.Context) error {
	return a.send(ctx, http.MethodPost, "/api/v1/callbacks/nobody", a.megabyte, "", "")
}

func (a *attacker) guess(ctx context.Context) error {
	return a.send(ctx, http.MethodGet, "/api/v1/sms/tasks", nil, "victim", strconv.FormatUint(rand.Uint64(), 36))
}

func (a *attacker) lists(ctx context.Context) error {
	return a.evil(ctx, http.MethodGet, "/api/v1/sms/tasks?limit=100", nil)
}

func (a *attacker) refused(ctx context.Context) error {
	return a.evil(ctx, http.MethodPost, "/api/v1/sms/send", []byte(`{"phone_number":"no","content":""}`))
}
