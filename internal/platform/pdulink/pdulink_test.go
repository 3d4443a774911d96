package pdulink

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A text is a PDU for tests: "test" and "end" are the requests of the Link. A response starts with ">". "bad" and "fatal" cannot be decoded, and "huge" not
// encoded.
type text string

type texts struct{}

var (
	errHuge = errors.New("too long")
	errBad  = errors.New("bad")
)

func (texts) Read(r *bufio.Reader) (uint32, text, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, "", err
	}
	body := make([]byte, header[0])
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, "", err
	}
	sequence, pdu := binary.BigEndian.Uint32(header[1:]), text(body)
	if isResponse, isFatal := (texts{}).IsResponse(pdu), pdu == "fatal"; isFatal || strings.Contains(string(pdu), "bad") {
		return 0, "", &Malformed[text]{Sequence: sequence, IsResponse: isResponse, Answer: ">malformed", HasAnswer: !isResponse, IsFatal: isFatal, Err: errBad}
	}
	return sequence, pdu, nil
}

func (texts) Append(dst []byte, sequence uint32, pdu text) ([]byte, error) {
	if strings.HasSuffix(string(pdu), "huge") {
		return dst, errHuge
	}
	return append(binary.BigEndian.AppendUint32(append(dst, byte(len(pdu))), sequence), pdu...), nil
}

func (texts) IsResponse(pdu text) bool      { return strings.HasPrefix(string(pdu), ">") }
func (texts) Answers(_, response text) bool { return response != ">other" }
func (texts) Test() text                    { return "test" }
func (texts) End() text                     { return "end" }
func (texts) Automatic(r text) (text, bool, bool) {
	return ">" + r, r == "end", r == "end" || r == "test"
}
func echo(_ context.Context, r text) (text, bool)   { return ">" + r, true }
func silent(_ context.Context, _ text) (text, bool) { return "", false }

// Refuse lets the request "wait" wait.
func (texts) Refuse(r text, reason Refusal) (text, bool) {
	return []text{">busy", ">ending", ">broken"}[reason], r != "wait" || reason != Overloaded
}

// options are small limits with Handle.
func options(handle func(context.Context, text) (text, bool)) Options[text] {
	return Options[text]{
		Window: 2, MaxHandled: 2, Response: time.Minute, Write: time.Minute, Idle: 3 * time.Minute, Tests: 3, MaxSequence: 1000, Handle: handle,
	}
}

// A peer is the other side of a link, which the test plays by hand.
type peer struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// run starts a link on one end of a pipe.
func run(t *testing.T, conn net.Conn, o Options[text]) *Link[text] {
	l := New(conn, Protocol[text](texts{}), o)
	l.Start()
	t.Cleanup(l.Close)
	return l
}

func start(t *testing.T, o Options[text]) (*Link[text], *peer) {
	here, there := net.Pipe()
	t.Cleanup(func() { _ = there.Close() })
	return run(t, here, o), &peer{t: t, conn: there, r: bufio.NewReader(there)}
}

// read reads the next PDU, which must be want.
func (p *peer) read(want text) (sequence uint32) {
	p.t.Helper()
	sequence, got, err := texts{}.Read(p.r)
	if err != nil || got != want {
		p.t.Fatalf("the link sent %q, %v; want %q", got, err, want)
	}
	return sequence
}

func (p *peer) write(sequence uint32, pdu text) {
	p.t.Helper()
	octets, _ := texts{}.Append(nil, sequence, pdu)
	if _, err := p.conn.Write(octets); err != nil {
		p.t.Fatal(err)
	}
}

// A reply is what Request returned.
type reply struct {
	pdu text
	err error
}

func request(ctx context.Context, l *Link[text], pdu text) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		pdu, err := l.Request(ctx, pdu)
		replies <- reply{pdu, err}
	}()
	return replies
}

func expect(t *testing.T, replies <-chan reply, want text, causes ...error) {
	t.Helper()
	got := <-replies
	for _, cause := range causes {
		if !errors.Is(got.err, cause) {
			t.Errorf("got the error %v; want %v", got.err, cause)
		}
	}
	if got.pdu != want || len(causes) == 0 && got.err != nil {
		t.Errorf("got %q, %v; want %q", got.pdu, got.err, want)
	}
}

func TestResponsesInAnyOrderMatchTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		first := request(t.Context(), l, "a")
		a := p.read("a")
		second := request(t.Context(), l, "b")
		b := p.read("b")
		p.write(b, ">b")
		p.write(a, ">a")
		expect(t, first, ">a")
		expect(t, second, ">b")
	})
}

func TestBothSidesSendRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		o := options(echo)
		o.MaxHandled = 100
		links := []*Link[text]{run(t, here, o), run(t, there, o)}
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				pdu := text(fmt.Sprintf("message %d", i))
				if got, err := links[i%2].Request(t.Context(), pdu); err != nil || got != ">"+pdu {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		all.Wait()
		if err := links[0].End(t.Context()); err != nil {
			t.Error(err)
		}
		<-links[1].Done()
		if !errors.Is(links[0].Err(), ErrEnded) || !errors.Is(links[1].Err(), ErrEnded) {
			t.Errorf("the sides ended with %v and %v", links[0].Err(), links[1].Err())
		}
	})
}

func TestRequestsWaitForSlotsOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		first, second := request(t.Context(), l, "a"), request(t.Context(), l, "a")
		sequences := []uint32{p.read("a"), p.read("a")}
		ctx, cancel := context.WithCancel(t.Context())
		third := request(ctx, l, "b")
		synctest.Wait()
		if open, _ := l.Load(); open != 2 {
			t.Errorf("%d requests are open", open)
		}
		cancel()
		expect(t, third, "", ErrNotSent, context.Canceled)
		fourth := request(t.Context(), l, "c")
		p.write(sequences[0], ">a")
		p.write(p.read("c"), ">c")
		expect(t, fourth, ">c")
		p.write(sequences[1], ">a")
		expect(t, first, ">a")
		expect(t, second, ">a")
	})
}

func TestCancelledRequestsKeepTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(echo)
		o.Window = 1
		var strays []Event[text]
		o.Observe = func(e Event[text]) {
			if errors.Is(e.Err, ErrStray) {
				strays = append(strays, e)
			}
		}
		l, p := start(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		first := request(ctx, l, "a")
		sequence := p.read("a")
		cancel()
		expect(t, first, "", ErrUnclear, context.Canceled)
		second := request(t.Context(), l, "b")
		synctest.Wait()
		p.write(sequence, ">a")
		p.write(p.read("b"), ">b")
		expect(t, second, ">b")
		if len(strays) != 1 || strays[0].PDU != ">a" || strays[0].Sequence != sequence {
			t.Errorf("the late response was observed as %+v", strays)
		}
	})
}

func TestRequestsWithoutResponseAreUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var strays []Event[text]
		o := options(echo)
		o.Observe = func(e Event[text]) {
			if errors.Is(e.Err, ErrStray) {
				strays = append(strays, e)
			}
		}
		l, p := start(t, o)
		began := time.Now()
		first := request(t.Context(), l, "a")
		sequence := p.read("a")
		expect(t, first, "", ErrUnclear, ErrTimeout)
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %s", waited)
		}
		p.write(sequence, ">a")
		second := request(t.Context(), l, "b")
		sequence = p.read("b")
		p.write(sequence, ">other")
		p.write(sequence, ">b")
		expect(t, second, ">b")
		if len(strays) != 2 || strays[0].PDU != ">a" || strays[1].PDU != ">other" {
			t.Errorf("strays: %+v", strays)
		}
	})
}

func TestMalformedResponsesAreUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		replies := request(t.Context(), l, "a")
		p.write(p.read("a"), ">bad")
		expect(t, replies, "", ErrUnclear)
		p.write(7, "bad")
		if sequence := p.read(">malformed"); sequence != 7 {
			t.Errorf("answered %d", sequence)
		}
	})
}

func TestRequestsThatCannotBeEncodedAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		for range 3 { // more than the window: the slots are free again
			expect(t, request(t.Context(), l, "huge"), "", ErrNotSent, errHuge)
		}
		replies := request(t.Context(), l, "a")
		p.write(p.read("a"), ">a")
		expect(t, replies, ">a")
	})
}

// The connection accepted the first request and a part of the second. The third and the fourth are not written.
func TestOnlyWholeWrittenRequestsAreUnclearAfterACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(echo)
		o.Window = 4
		l, p := start(t, o)
		var all []<-chan reply
		for _, pdu := range []text{"a", "b", "c", "d"} {
			all = append(all, request(t.Context(), l, pdu))
			synctest.Wait()
		}
		if _, err := io.ReadFull(p.conn, make([]byte, 6+3)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = p.conn.Close()
		first := <-all[0]
		if unclear := (*UnclearError)(nil); !errors.As(first.err, &unclear) || unclear.Sequence != 1 || !errors.Is(first.err, ErrUnclear) {
			t.Errorf("the written request: %v", first.err)
		}
		for _, replies := range append(all[1:], request(t.Context(), l, "e")) {
			expect(t, replies, "", ErrNotSent)
		}
	})
}

func TestOneWriteSendsAllQueuedPDUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(echo)
		o.Window = 100
		l, p := start(t, o)
		for range 50 {
			request(t.Context(), l, "a")
			synctest.Wait()
		}
		octets := make([]byte, 1000)
		if _, err := io.ReadFull(p.conn, octets[:6]); err != nil {
			t.Fatal(err)
		}
		n, err := p.conn.Read(octets)
		if want := 49 * 6; err != nil || n != want {
			t.Errorf("one write had %d octets, %v; want %d", n, err, want)
		}
	})
}

func TestSilentSidesAreTestedThenCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		began := time.Now()
		p.write(p.read("test"), ">test")
		if waited := time.Since(began); waited != 3*time.Minute {
			t.Errorf("the first test came after %s", waited)
		}
		for range 3 {
			p.read("test")
		}
		<-l.Done()
		// Two idle times, and three tests of a minute each.
		if waited := time.Since(began); waited != 9*time.Minute || !errors.Is(l.Err(), ErrSilent) {
			t.Errorf("the link ended after %s with %v", waited, l.Err())
		}
	})
}

// A half-open link accepts octets: the requests must not count as life.
func TestOwnRequestsDoNotHideSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		go func() { _, _ = io.Copy(io.Discard, p.conn) }()
		began := time.Now()
		for l.Err() == nil {
			_, _ = l.Request(t.Context(), "a")
		}
		if waited := time.Since(began); waited > 6*time.Minute || !errors.Is(l.Err(), ErrSilent) {
			t.Errorf("the link ended after %s with %v", waited, l.Err())
		}
	})
}

func TestBusyLinksAreNotTested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		for range 10 {
			time.Sleep(2 * time.Minute)
			p.write(1, "a")
			p.read(">a")
		}
		if l.Err() != nil {
			t.Error(l.Err())
		}
	})
}

func TestSidesThatReadNothingAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(silent))
		began := time.Now()
		replies := request(t.Context(), l, "a")
		time.Sleep(50 * time.Second)
		p.write(1, "b") // the other side is alive
		expect(t, replies, "", ErrUnclear)
		<-l.Done()
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("the link ended after %s with %v", waited, l.Err())
		}
	})
}

// A side that sends requests, and reads no responses, must not fill the memory.
func TestTheQueueOfResponsesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(silent))
		octets, _ := texts{}.Append(nil, 1, "test")
		sent := 0
		for _, err := p.conn.Write(octets); err == nil; _, err = p.conn.Write(octets) {
			sent += len(octets)
		}
		if sent > 2*maxQueue {
			t.Errorf("%d octets were accepted", sent)
		}
		<-l.Done()
	})
}

func TestRequestsAboveTheLimitAreAnsweredAsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l, p := start(t, options(func(_ context.Context, r text) (text, bool) {
			<-release
			return ">" + r, true
		}))
		for sequence := uint32(1); sequence <= 2; sequence++ {
			p.write(sequence, "a")
		}
		p.write(3, "b")
		if sequence := p.read(">busy"); sequence != 3 {
			t.Errorf("%d was busy", sequence)
		}
		if _, handled := l.Load(); handled != 2 {
			t.Errorf("%d requests are handled", handled)
		}
		p.write(4, "test") // the answer does not wait for Handle
		p.read(">test")
		close(release)
		p.read(">a")
		p.read(">a")
	})
}

func TestRequestsWithoutRefusalWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(func(_ context.Context, r text) (text, bool) {
			time.Sleep(time.Second)
			return ">" + r, true
		})
		o.MaxHandled = 1
		_, p := start(t, o)
		for sequence := uint32(1); sequence <= 2; sequence++ {
			p.write(sequence, "wait")
		}
		for sequence := uint32(1); sequence <= 2; sequence++ {
			if got := p.read(">wait"); got != sequence {
				t.Errorf("the response %d came as number %d", got, sequence)
			}
		}
	})
}

func TestWaitingRequestsAreRefusedWhenTheLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(func(_ context.Context, r text) (text, bool) {
			time.Sleep(time.Second)
			return ">" + r, true
		})
		o.MaxHandled = 1
		l, p := start(t, o)
		p.write(1, "wait")
		p.write(2, "wait")
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- l.End(t.Context()) }()
		p.read(">ending")
		p.read(">wait")
		p.write(p.read("end"), ">end")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestResponsesThatCannotBeEncodedAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := start(t, options(func(context.Context, text) (text, bool) { return ">huge", true }))
		p.write(1, "a")
		p.read(">broken")
	})
}

func TestLaterResponsesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(silent))
		p.write(4, "a")
		synctest.Wait()
		if err := l.Send(4, ">later"); err != nil {
			t.Error(err)
		}
		if sequence := p.read(">later"); sequence != 4 {
			t.Errorf("answered %d", sequence)
		}
	})
}

func TestFatalPDUsAreAnsweredBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		p.write(3, "fatal")
		p.read(">malformed")
		<-l.Done()
		if !errors.Is(l.Err(), errBad) {
			t.Errorf("ended with %v", l.Err())
		}
	})
}

// The other side still sends when this side closes: a connection that is closed at once would be reset, and the last response lost.
func TestFinishLosesNoResponse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	rejected := errors.New("rejected")
	links := make(chan *Link[text], 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
			close(links)
			return
		}
		var l *Link[text]
		l = New(conn, Protocol[text](texts{}), options(func(context.Context, text) (text, bool) {
			_ = l.Send(1, ">no")
			l.Finish(rejected)
			return "", false
		}))
		l.Start()
		links <- l
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: conn, r: bufio.NewReader(conn)}
	p.write(1, "a")
	l := <-links
	for range 1000 {
		p.write(2, "test")
	}
	for sequence := uint32(2); sequence == 2; {
		sequence, _, err = texts{}.Read(p.r)
		if err != nil {
			t.Fatalf("the response did not arrive: %v", err)
		}
	}
	_ = conn.Close()
	<-l.Done()
	if !errors.Is(l.Err(), rejected) {
		t.Errorf("ended with %v", l.Err())
	}
}

func TestCloseWaitsForHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isEnded atomic.Bool
		l, p := start(t, options(func(ctx context.Context, _ text) (text, bool) {
			<-ctx.Done()
			time.Sleep(time.Second)
			isEnded.Store(true)
			return "", false
		}))
		p.write(1, "a")
		synctest.Wait()
		l.Close()
		if !isEnded.Load() {
			t.Error("Handle runs after Close")
		}
	})
}

func TestBothSidesCanEndAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		first, second := run(t, here, options(echo)), run(t, there, options(echo))
		began, ended := time.Now(), make(chan error, 1)
		go func() { ended <- first.End(t.Context()) }()
		if err := errors.Join(second.End(t.Context()), <-ended); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// The response to the request to end the link comes after the responses to the requests before it.
func TestThePeerEndsTheLinkAfterOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := start(t, options(func(_ context.Context, r text) (text, bool) {
			time.Sleep(time.Second)
			return ">" + r, true
		}))
		p.write(1, "a")
		p.write(2, "end")
		p.read(">a")
		p.read(">end")
	})
}

func TestHandleEndsWithTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		_, p := start(t, options(func(ctx context.Context, _ text) (text, bool) {
			<-ctx.Done()
			ended <- ctx.Err()
			return "", false
		}))
		p.write(1, "a")
		_ = p.conn.Close()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestEndWaitsForOpenRequestsOfBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l, p := start(t, options(func(_ context.Context, r text) (text, bool) {
			<-release
			return ">" + r, true
		}))
		open := request(t.Context(), l, "a")
		sequence := p.read("a")
		p.write(9, "b")
		closed := make(chan error, 1)
		go func() { closed <- l.End(t.Context()) }()
		synctest.Wait()
		expect(t, request(t.Context(), l, "c"), "", ErrNotSent, ErrEnded)
		p.write(sequence, ">a")
		expect(t, open, ">a")
		synctest.Wait()
		close(release)
		p.read(">b")
		p.write(p.read("end"), ">end")
		if err := <-closed; err != nil {
			t.Error(err)
		}
		<-l.Done()
	})
}

func TestEndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		open := request(t.Context(), l, "a")
		p.read("a")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := l.End(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		expect(t, open, "", ErrUnclear, ErrClosed)
	})
}

func TestTheOtherSideEndsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		open := request(t.Context(), l, "a")
		p.read("a")
		p.write(5, "end")
		synctest.Wait()
		expect(t, request(t.Context(), l, "b"), "", ErrNotSent)
		if sequence := p.read(">end"); sequence != 5 {
			t.Errorf("answered %d", sequence)
		}
		<-l.Done()
		expect(t, open, "", ErrUnclear, ErrEnded)
	})
}

// The other side cuts the connection before the response: the cause is still its request.
func TestTheCauseOfAnEndThatASideAskedForStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := start(t, options(echo))
		p.write(5, "end")
		synctest.Wait()
		_ = p.conn.Close()
		<-l.Done()
		if !errors.Is(l.Err(), ErrEnded) {
			t.Errorf("the link ended with %v", l.Err())
		}
	})
}

func TestSequenceNumbersStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(echo)
		o.MaxSequence = 3
		l, p := start(t, o)
		request(t.Context(), l, "open") // keeps the number 1
		var got []uint32
		got = append(got, p.read("open"))
		for range 4 {
			replies := request(t.Context(), l, "a")
			sequence := p.read("a")
			got = append(got, sequence)
			p.write(sequence, ">a")
			expect(t, replies, ">a")
		}
		if fmt.Sprint(got) != "[1 2 3 2 3]" {
			t.Errorf("got %v", got)
		}
	})
}
