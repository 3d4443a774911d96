// Package carrier contains the drivers that send through permanent connections to carriers. Package driver makes them.
package carrier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/pdulink"
)

const (
	openWait  = 5 * time.Second // time for which a message waits for an open link
	batchSpan = 5 * time.Second // a Send has at most the messages that the pace allows in this time, which is much less than a lease
)

// protocol contains the operations that differ between the protocols of carriers. P is the type of its PDUs.
type protocol[P any] interface {
	// scheme returns the prefix of Driver.Target.
	scheme() string
	// logins returns the login of each session of a link. The first session sends. For a test of the sender, it returns one session that only sends, if the protocol has such sessions.
	logins(isTest bool) []login[P]
	// parts returns the requests for a message. A non-nil outcome means that it cannot be sent.
	parts(m provider.Message, reference uint16) ([]P, *provider.Outcome)
	// describe describes the request for a part to people.
	describe(part P) (command, text string)
	// answer reads the carrier's answer to a part.
	answer(response P) answer
	// problem returns what is wrong with a part that cannot be written. It returns "" for other errors.
	problem(err error) string
	// incoming reads a request of the carrier. Of a receipt without a number, it returns only Raw. If the request is neither a receipt nor a message, it returns errUnknown.
	incoming(request P) (provider.Incoming, error)
	// respond returns the response to a request of the carrier.
	respond(request P, r reaction) P
	// record describes any PDU to people: see provider.PDU.
	record(pdu P) (command, status, text string)
}

// login makes a session on a connection. watcher answers the requests of the carrier, and sees all PDUs.
type login[P any] func(ctx context.Context, conn net.Conn, w watcher[P]) (*pdulink.Link[P], error)

// watcher is the side of the driver in a session.
type watcher[P any] struct {
	take    func(ctx context.Context, request P) P
	observe func(e pdulink.Event[P])
}

// answer is the carrier's answer to a part.
type answer struct {
	isOK      bool
	number    string // the carrier's number of the part; can be empty
	judgement judgement
	code      string // of an error
	text      string // of an error
	raw       string
}

// Driver sends short messages through a carrier.
type Driver[P any] struct {
	protocol   protocol[P]
	settings   settings
	tools      provider.Tools
	pace       *pace
	references atomic.Uint32 // of long messages

	mu          sync.Mutex
	links       []*link[P]    // by their numbers, from 1
	changed     chan struct{} // closed when a link was opened or has ended, or a Send has ended, and then replaced
	sends       int           // messages that are being sent
	isFinishing bool          // no message begins
	taken       atomic.Int64  // parts that the carrier took
}

func newDriver[P any](p protocol[P], s settings, t provider.Tools) *Driver[P] {
	d := &Driver[P]{protocol: p, settings: s, tools: t, pace: newPace(s.perSecond), changed: make(chan struct{})}
	d.references.Store(rand.Uint32()) //nolint:gosec // a random start: references do not repeat after a restart
	for range s.binds {
		d.links = append(d.links, &link[P]{d: d})
	}
	return d
}

// Target implements driver.Driver.
func (d *Driver[P]) Target() string { return d.protocol.scheme() + strings.Join(d.settings.hosts, ",") }

// Links implements driver.Linked.
func (d *Driver[P]) Links() int { return len(d.links) }

// State implements driver.Linked.
func (d *Driver[P]) State(nth int) provider.LinkState { return d.links[nth-1].current() }

// Record implements driver.Linked.
func (d *Driver[P]) Record(nth int, from time.Time) { d.links[nth-1].trace.record(from) }

// Recorded implements driver.Linked.
func (d *Driver[P]) Recorded(nth int) (from time.Time, pdus []provider.PDU) {
	return d.links[nth-1].trace.take()
}

// Run implements driver.Linked.
func (d *Driver[P]) Run(ctx context.Context, nth int) { d.links[nth-1].run(ctx) }

// Batch implements driver.Linked. It returns the smaller of two numbers: the messages that can be unanswered on the links of this process, and those that the pace
// allows in batchSpan.
func (d *Driver[P]) Batch() int {
	running := 0
	for _, l := range d.links {
		if l.isRunning.Load() {
			running++
		}
	}
	most := d.settings.window * max(running, 1)
	if rate := d.pace.current(time.Now()); rate > 0 {
		most = min(most, int(rate*batchSpan.Seconds()))
	}
	return max(most, 1)
}

// Finish implements driver.Linked. It returns when no message is being sent, or when the carrier has accepted no part for the time of a response.
func (d *Driver[P]) Finish(ctx context.Context) {
	for before := int64(-1); before != d.taken.Load(); {
		before = d.taken.Load()
		limited, cancel := context.WithTimeout(ctx, d.settings.response)
		for limited.Err() == nil {
			d.mu.Lock()
			d.isFinishing = true
			changed, isIdle := d.changed, d.sends == 0
			d.mu.Unlock()
			if isIdle {
				cancel()
				return
			}
			select {
			case <-changed:
			case <-limited.Done():
			}
		}
		cancel()
	}
}

// Send implements driver.Driver. If another process has taken over the links, it tries no message. In a test of the sender, it opens a link of its own, and closes
// it.
func (d *Driver[P]) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	if d.isTest() {
		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		d.links[0].isRunning.Store(true)
		go func() {
			defer close(ended)
			d.links[0].run(running)
		}()
		defer func() {
			stop()
			<-ended
		}()
	}
	attempts := provider.NewAttempts(ctx, d.settings.response, d.tools)
	attempts.Each(messages, d.settings.window*len(d.links), report, func(ctx context.Context, m provider.Message) provider.Outcome {
		return d.send(ctx, attempts, m)
	})
}

// isTest reports whether the driver was made to test the sender: then nobody calls Run.
func (d *Driver[P]) isTest() bool { return d.tools.Take == nil }

// isRunning reports whether this process keeps a link open.
func (d *Driver[P]) isRunning() bool {
	return slices.ContainsFunc(d.links, func(l *link[P]) bool { return l.isRunning.Load() })
}

// change counts a message that begins or has ended, and wakes those who wait for a change.
func (d *Driver[P]) change(sends int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sends += sends
	d.wake()
}

// wake wakes those who wait for a change. The caller holds mu.
func (d *Driver[P]) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *Driver[P]) mayBegin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.isFinishing
}

// send sends a message. Its outcome contains the carrier's numbers of all parts. After the first accepted part, the other parts are sent even if the message, its
// batch or its sender is stopped, until Tools.Rest ends.
func (d *Driver[P]) send(ctx context.Context, attempts *provider.Attempts, m provider.Message) provider.Outcome {
	parts, unsendable := d.protocol.parts(m, uint16(d.references.Add(1)))
	if unsendable != nil {
		return *unsendable
	}
	d.show(parts)
	d.change(1)
	defer d.change(-1)
	var numbers []string
	var last answer
	for i, part := range parts {
		a, o := d.submit(ctx, attempts, m, part, i == 0)
		if o != nil {
			return afterParts(*o, i, len(parts), last.raw, numbers)
		}
		d.taken.Add(1)
		if last = a; a.number != "" {
			numbers = append(numbers, a.number)
		}
		if i == 0 && len(parts) > 1 && d.tools.Rest != nil {
			rest, stop := d.tools.Rest(m)
			defer stop()
			ctx = rest
		}
	}
	return provider.Outcome{OK: true, ProviderNo: strings.Join(numbers, "\n"), Answer: answerOf(last.raw, numbers)}
}

// answerOf returns the carrier's answer to the parts that it took, with their numbers.
func answerOf(raw string, numbers []string) string {
	return strings.TrimSpace(raw + " " + strings.Join(numbers, " "))
}

// tooLong is the outcome of a message with more parts than the protocol allows.
var tooLong = provider.Outcome{Permanent: true, Unasked: true, Code: "too_long", Error: "the text is too long for one message"}

// afterParts returns the outcome of a message of which the carrier took the first parts only. The person gets these parts: another attempt would repeat them. numbers
// contains the numbers of these parts, because the carrier sends receipts of them. raw is the carrier's answer to the last of these parts.
func afterParts(o provider.Outcome, taken, all int, raw string, numbers []string) provider.Outcome {
	if taken == 0 {
		return o
	}
	text := fmt.Sprintf("the carrier took %d of %d parts", taken, all)
	if o.Error != "" {
		text += ", then: " + o.Error
	}
	stored := answerOf(raw, numbers)
	if o.Answer != "" {
		stored += ", then: " + o.Answer
	}
	return provider.Outcome{
		InPart: true, Permanent: true, Unknown: o.Unknown, Outage: o.Outage, ProviderNo: strings.Join(numbers, "\n"), Code: o.Code, Error: text, Answer: stored,
	}
}

// submit sends a part until the carrier accepts or refuses it. A non-nil outcome means that it did not accept the part. Only the first part
// checks whether the message can still begin.
func (d *Driver[P]) submit(ctx context.Context, attempts *provider.Attempts, m provider.Message, part P, isFirst bool) (answer, *provider.Outcome) {
	var throttled *provider.Outcome // of the last throttled answer
	may := func() bool { return !isFirst || d.mayBegin() && attempts.CanStart() && attempts.MayBegin(m) }
	for {
		l, s, failure := d.open(ctx, isFirst)
		if failure != nil {
			return answer{}, failure
		}
		response, err := s.RequestWhen(ctx, part, func() bool { return d.pace.wait(ctx, s.Ending(), may) }) // the last check comes after all waiting
		problem := d.protocol.problem(err)
		switch {
		case errors.Is(err, pdulink.ErrUnclear): // also if the answer could not be read
			return answer{}, &provider.Outcome{Unknown: true, Outage: true, Code: "no_answer", Error: "the carrier did not answer: " + plain(err)}
		case errors.Is(err, pdulink.ErrNotSent) && ctx.Err() == nil && isClosed(s.Ending()): // the part was certainly not sent: another link sends it
			continue
		case errors.Is(err, pdulink.ErrNotAllowed), errors.Is(err, pdulink.ErrNotSent) && ctx.Err() != nil:
			if throttled != nil && (!isFirst || !attempts.CanStart()) {
				return answer{}, throttled
			}
			return answer{}, new(provider.Untried)
		case problem != "":
			return answer{}, &provider.Outcome{Permanent: true, Unasked: true, Code: "unwritable", Error: "the message could not be written: " + problem}
		case err != nil:
			return answer{}, new(provider.Untried)
		}
		l.sent.Add(1)
		a := d.protocol.answer(response)
		switch {
		case a.isOK:
			l.carried.Add(1)
			return a, nil
		case a.judgement == slowDown && !d.isTest():
			d.pace.throttled(time.Now())
			throttled = new(a.outcome())
		default:
			return answer{}, new(a.outcome())
		}
	}
}

// open returns the open link with the fewest messages in its window, and its session. The first part of a message waits for an open link for at most openWait.
// If no link opens, the outcome is trouble. If this process holds no link, it is Untried. In a test, it is trouble when all hosts have failed.
func (d *Driver[P]) open(ctx context.Context, isFirst bool) (*link[P], *pdulink.Link[P], *provider.Outcome) {
	var timeout <-chan time.Time
	if isFirst {
		timeout = time.After(openWait)
	}
	for isOver := false; ; {
		best, session, changed, failure := d.best()
		switch isRunning := d.isRunning(); {
		case best != nil:
			return best, session, nil
		case isOver, d.isTest() && !isRunning:
			return nil, nil, new(provider.Unbound(failure))
		case !isRunning:
			return nil, nil, new(provider.Untried)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, new(provider.Untried)
		case <-timeout:
			isOver = true
		}
	}
}

// best returns the open link with the fewest messages in its window, and its session. Without one, best is nil, changed is closed when a link opens or ends, and failure
// is the last failure of a link.
func (d *Driver[P]) best() (best *link[P], session *pdulink.Link[P], changed <-chan struct{}, failure string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.links {
		if s := l.session; s != nil && !isClosed(s.Ending()) && (best == nil || openRequests(s) < openRequests(session)) {
			best, session = l, s
		}
		if l.state.Error != "" {
			failure = l.state.Error
		}
	}
	return best, session, d.changed, failure
}

// openRequests returns the number of messages that are sent or wait for the pace.
func openRequests[P any](s *pdulink.Link[P]) int {
	open, _ := s.Load()
	return open
}

// plain describes why no answer arrived.
func plain(err error) string {
	switch {
	case errors.Is(err, pdulink.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, pdulink.ErrSilent):
		return "the link is dead"
	default:
		return "the link was closed"
	}
}

// show shows the parts of a message to Tools.Asked.
func (d *Driver[P]) show(parts []P) {
	if d.tools.Asked == nil {
		return
	}
	var command string
	var all strings.Builder
	for _, part := range parts {
		var text string
		command, text = d.protocol.describe(part)
		all.WriteString(text + "\n")
	}
	d.tools.Asked(provider.Request{Method: command, URL: d.Target(), Headers: map[string]string{}, Body: d.tools.Mask.Replace(all.String())})
}
