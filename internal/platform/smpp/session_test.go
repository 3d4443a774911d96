package smpp_test

import (
	"bufio"
	"context"
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

	"lksms/internal/platform/pdulink"
	"lksms/internal/platform/smpp"
)

// accept answers each submit_sm with its text as the message id.
func accept(_ context.Context, _ *smpp.Session, p *smpp.PDU) *smpp.PDU {
	m, isMessage := p.Body.(*smpp.Message)
	if !isMessage {
		return p.Response(smpp.OK, nil)
	}
	return p.Response(smpp.OK, &smpp.MessageResp{MessageID: string(m.Short)})
}

// pipe starts two sessions on one connection.
func pipe(t *testing.T, client, server smpp.Config) (*smpp.Session, *smpp.Session) {
	t.Helper()
	a, b := net.Pipe()
	c, s := smpp.Start(a, client), smpp.Start(b, server)
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

// start starts a session whose other side is the test.
func start(t *testing.T, config smpp.Config) (*smpp.Session, net.Conn, *bufio.Reader) {
	t.Helper()
	a, b := net.Pipe()
	s := smpp.Start(a, config)
	t.Cleanup(func() { _ = b.Close(); s.Close() })
	return s, b, bufio.NewReader(b)
}

func readPDU(t *testing.T, r *bufio.Reader) *smpp.PDU {
	t.Helper()
	p, err := smpp.Read(r, smpp.MaxPDU)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func writePDU(t *testing.T, w io.Writer, p *smpp.PDU) {
	t.Helper()
	if _, err := w.Write(encode(t, p)); err != nil {
		t.Fatal(err)
	}
}

func message(text string) *smpp.Message { return &smpp.Message{Short: []byte(text)} }

// outcome is the result of a request that runs beside the test.
type outcome struct {
	answer *smpp.PDU
	err    error
}

func request(s *smpp.Session, body smpp.Body) chan outcome {
	done := make(chan outcome, 1)
	go func() {
		answer, err := s.Request(context.Background(), &smpp.PDU{Command: smpp.SubmitSM, Body: body})
		done <- outcome{answer, err}
	}()
	return done
}

func TestRequestsGetTheirAnswersWithinTheWindow(t *testing.T) {
	t.Parallel()
	const window, requests = 7, 500
	var running, most atomic.Int64
	client, _ := pipe(t, smpp.Config{Window: window}, smpp.Config{Incoming: 100, Handler: func(ctx context.Context, s *smpp.Session, p *smpp.PDU) *smpp.PDU {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return accept(ctx, s, p)
	}})
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			text := fmt.Sprint(i)
			answer, err := client.Request(t.Context(), &smpp.PDU{Command: smpp.SubmitSM, Body: message(text)})
			if err != nil || answer.Command != smpp.SubmitSMResp || answer.Body.(*smpp.MessageResp).MessageID != text {
				t.Errorf("%s: %+v, %v", text, answer, err)
			}
		})
	}
	group.Wait()
	if n := most.Load(); n > window {
		t.Errorf("%d requests at the same time, at most %d", n, window)
	}
}

func TestOneHandlerKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var order []string
	client, server := pipe(t, smpp.Config{Handler: func(_ context.Context, _ *smpp.Session, p *smpp.PDU) *smpp.PDU {
		order = append(order, string(p.Body.(*smpp.Message).Short))
		return nil
	}}, smpp.Config{})
	for _, text := range []string{"a", "b", "c"} {
		if err := server.Send(1, &smpp.PDU{Command: smpp.DeliverSM, Body: message(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.Request(t.Context(), &smpp.PDU{Command: smpp.EnquireLink}); err != nil { // it is read after the messages
		t.Fatal(err)
	}
	client.Close()
	if fmt.Sprint(order) != "[a b c]" {
		t.Errorf("handled in the order %v", order)
	}
}

func TestARequestThatWasNotWrittenIsClosed(t *testing.T) {
	t.Parallel()
	for name, octets := range map[string]int{"nothing was read": 0, "a part was read": 20} {
		synctest.Test(t, func(t *testing.T) {
			s, other, _ := start(t, smpp.Config{})
			done := request(s, message("a"))
			if _, err := io.ReadFull(other, make([]byte, octets)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_ = other.Close()
			if o := <-done; !errors.Is(o.err, pdulink.ErrNotSent) || errors.Is(o.err, pdulink.ErrUnclear) {
				t.Errorf("%s: %v", name, o.err)
			}
			if _, err := s.Request(t.Context(), &smpp.PDU{Command: smpp.SubmitSM, Body: message("a")}); !errors.Is(err, pdulink.ErrNotSent) {
				t.Errorf("%s: after the end: %v", name, err)
			}
		})
	}
}

func TestARequestThatWasWrittenIsUnclear(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*smpp.Session, net.Conn){
		"the other side closes": func(_ *smpp.Session, other net.Conn) { _ = other.Close() },
		"this side closes":      func(s *smpp.Session, _ net.Conn) { s.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, other, r := start(t, smpp.Config{})
			done := request(s, message("a"))
			p := readPDU(t, r)
			end(s, other)
			var unclear *pdulink.UnclearError
			if o := <-done; !errors.Is(o.err, pdulink.ErrUnclear) || !errors.As(o.err, &unclear) || unclear.Sequence != p.Sequence {
				t.Errorf("%s: %v", name, o.err)
			}
		})
	}
}

func TestARequestWithoutAnAnswerIsUnclear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late *smpp.PDU
		s, other, r := start(t, smpp.Config{Window: 1, Response: time.Minute, Observe: func(e pdulink.Event[*smpp.PDU]) {
			if errors.Is(e.Err, pdulink.ErrStray) {
				late = e.PDU
			}
		}})
		began := time.Now()
		done := request(s, message("a"))
		p := readPDU(t, r)
		o := <-done
		if waited := time.Since(began); !errors.Is(o.err, pdulink.ErrUnclear) || !errors.Is(o.err, pdulink.ErrTimeout) || waited != time.Minute {
			t.Errorf("%v after %s", o.err, waited)
		}
		writePDU(t, other, p.Response(smpp.OK, &smpp.MessageResp{MessageID: "late"}))
		synctest.Wait()
		if late == nil || late.Sequence != p.Sequence {
			t.Errorf("the late answer: %+v", late)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = smpp.Read(r, smpp.MaxPDU) }()
		if _, err := s.Request(ctx, &smpp.PDU{Command: smpp.SubmitSM, Body: message("b")}); !errors.Is(err, pdulink.ErrUnclear) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: %v", err)
		}
	})
}

func TestARequestThatWaitsForTheWindowIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, r := start(t, smpp.Config{Window: 1})
		first := request(s, message("a"))
		readPDU(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Request(ctx, &smpp.PDU{Command: smpp.SubmitSM, Body: message("b")}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pdulink.ErrUnclear) {
			t.Errorf("%v", err)
		}
		second := request(s, message("c"))
		synctest.Wait()
		s.Close()
		if o := <-second; !errors.Is(o.err, pdulink.ErrNotSent) {
			t.Errorf("%v", o.err)
		}
		<-first
	})
}

func TestAnswersAreMatchedWithTheirRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unmatched := 0
		s, other, r := start(t, smpp.Config{Observe: func(e pdulink.Event[*smpp.PDU]) {
			if errors.Is(e.Err, pdulink.ErrStray) {
				unmatched++
			}
		}})
		for _, want := range []*smpp.PDU{
			{Command: smpp.SubmitSMResp, Status: smpp.RThrottled, Body: &smpp.MessageResp{}},
			{Command: smpp.GenericNack, Status: smpp.RInvCmdID},
		} {
			done := request(s, message("a"))
			p := readPDU(t, r)
			writePDU(t, other, &smpp.PDU{Command: smpp.SubmitSMResp, Sequence: p.Sequence + 1})
			writePDU(t, other, &smpp.PDU{Command: smpp.DeliverSMResp, Sequence: p.Sequence})
			want.Sequence = p.Sequence
			writePDU(t, other, want)
			if o := <-done; o.err != nil || o.answer.Command != want.Command || o.answer.Status != want.Status {
				t.Errorf("%+v, %v", o.answer, o.err)
			}
		}
		if unmatched != 4 {
			t.Errorf("%d answers are unmatched, want 4", unmatched)
		}
		done := request(s, message("a"))
		p := readPDU(t, r)
		broken := encode(t, &smpp.PDU{Command: smpp.SubmitSMResp, Sequence: p.Sequence, Body: &smpp.MessageResp{MessageID: "a", TLVs: tlvs(smpp.Tag(1), "abc")}})
		broken[len(broken)-4] = 9
		if _, err := other.Write(broken); err != nil {
			t.Fatal(err)
		}
		var e *smpp.Error
		if o := <-done; !errors.Is(o.err, pdulink.ErrUnclear) || !errors.As(o.err, &e) {
			t.Errorf("a broken answer: %v", o.err)
		}
	})
}

func TestALinkWithoutAnAnswerIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, other, r := start(t, smpp.Config{Enquire: 10 * time.Second, Response: 4 * time.Second})
		began := time.Now()
		for range 3 {
			p := readPDU(t, r)
			if p.Command != smpp.EnquireLink {
				t.Fatalf("%s", p.Command)
			}
			writePDU(t, other, p.Response(smpp.OK, nil))
		}
		readPDU(t, r)
		time.Sleep(time.Second)
		writePDU(t, other, &smpp.PDU{Command: smpp.AlertNotification, Body: &smpp.Alert{}}) // a sign of life
		readPDU(t, r)
		<-s.Done()
		if !errors.Is(s.Err(), pdulink.ErrSilent) || time.Since(began) != 55*time.Second {
			t.Errorf("%v after %s", s.Err(), time.Since(began))
		}
	})
}

func TestAPeerThatReadsNothingIsDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, other, _ := start(t, smpp.Config{Write: 20 * time.Second})
		began, sent := time.Now(), 0
		enquire := encode(t, &smpp.PDU{Command: smpp.EnquireLink, Sequence: 1})
		for {
			if _, err := other.Write(enquire); err != nil {
				break
			}
			sent++
		}
		<-s.Done()
		if time.Since(began) != 20*time.Second || sent > 40_000 {
			t.Errorf("disconnected after %s and %d requests: %v", time.Since(began), sent, s.Err())
		}
	})
}

func TestUnbindWaitsForTheAnswersOfBothSides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, s *smpp.Session, p *smpp.PDU) *smpp.PDU {
			time.Sleep(time.Second)
			return accept(ctx, s, p)
		}
		client, server := pipe(t, smpp.Config{Handler: slow}, smpp.Config{Handler: slow})
		fromClient, fromServer := request(client, message("a")), request(server, message("b"))
		synctest.Wait()
		if err := client.End(t.Context()); err != nil {
			t.Errorf("unbind: %v", err)
		}
		for _, done := range []chan outcome{fromClient, fromServer} {
			if o := <-done; o.err != nil || o.answer.Status != smpp.OK {
				t.Errorf("%+v, %v", o.answer, o.err)
			}
		}
		<-server.Done()
		if !errors.Is(client.Err(), pdulink.ErrEnded) || !errors.Is(server.Err(), pdulink.ErrEnded) {
			t.Errorf("ended with %v and %v", client.Err(), server.Err())
		}
	})
}

func TestBothSidesCanUnbindAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := pipe(t, smpp.Config{}, smpp.Config{})
		began := time.Now()
		done := make(chan error)
		go func() { done <- server.End(context.Background()) }()
		if err := errors.Join(client.End(t.Context()), <-done); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestUnbindEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, r := start(t, smpp.Config{})
		done := request(s, message("a"))
		readPDU(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.End(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if o := <-done; !errors.Is(o.err, pdulink.ErrUnclear) {
			t.Errorf("%v", o.err)
		}
	})
}

func TestBrokenPDUsAreAnsweredAndTheSessionGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, other, r := start(t, smpp.Config{Handler: accept, MaxPDU: 100})
		for digits, want := range map[string]*smpp.PDU{
			"0000001000000110000000000a342ee7": {Command: smpp.GenericNack, Status: smpp.RInvCmdID, Sequence: 0x0a342ee7},
			"00000010000000040000000000000007": {Command: smpp.SubmitSMResp, Status: smpp.RInvSerTyp, Sequence: 7},
		} {
			if _, err := other.Write(octets(t, digits)); err != nil {
				t.Fatal(err)
			}
			if got := readPDU(t, r); got.Command != want.Command || got.Status != want.Status || got.Sequence != want.Sequence {
				t.Errorf("%s is answered with %+v", digits, got)
			}
		}
		if _, err := other.Write(octets(t, "00000065000000040000000000000008")); err != nil {
			t.Fatal(err)
		}
		if got := readPDU(t, r); got.Command != smpp.GenericNack || got.Status != smpp.RInvCmdLen || got.Sequence != 8 {
			t.Errorf("a PDU that is too long is answered with %+v", got)
		}
		<-s.Done()
		var e *smpp.Error
		if !errors.As(s.Err(), &e) || !e.IsFatal {
			t.Errorf("ended with %v", s.Err())
		}
	})
}

func TestMoreRequestsThanHandlersAreThrottled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, other, r := start(t, smpp.Config{Incoming: 2, Overload: smpp.RThrottled, Handler: func(ctx context.Context, _ *smpp.Session, _ *smpp.PDU) *smpp.PDU {
			<-ctx.Done()
			return nil
		}})
		for i := range 3 {
			writePDU(t, other, &smpp.PDU{Command: smpp.SubmitSM, Sequence: uint32(i + 1), Body: message("a")})
		}
		if got := readPDU(t, r); got.Status != smpp.RThrottled || got.Sequence != 3 {
			t.Errorf("%+v", got)
		}
	})
}

func TestAnAnswerThatCannotBeEncodedIsAnError(t *testing.T) {
	t.Parallel()
	client, _ := pipe(t, smpp.Config{}, smpp.Config{Handler: accept})
	if answer, err := client.Request(t.Context(), &smpp.PDU{Command: smpp.SubmitSM, Body: message("NUL \x00")}); err != nil || answer.Status != smpp.RSysErr {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestFinishClosesAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	rejected := errors.New("rejected")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			ended <- err
			return
		}
		s := smpp.Start(conn, smpp.Config{Handler: func(_ context.Context, s *smpp.Session, p *smpp.PDU) *smpp.PDU {
			_ = s.Send(p.Sequence, p.Response(smpp.RInvPaswd, nil))
			s.Finish(rejected)
			return nil
		}})
		<-s.Done()
		ended <- s.Err()
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := smpp.Start(conn, smpp.Config{})
	defer client.Close()
	answer, err := client.Request(t.Context(), &smpp.PDU{Command: smpp.BindTransceiver, Body: &smpp.Bind{SystemID: "a"}})
	if err != nil || answer.Status != smpp.RInvPaswd || answer.Command != smpp.BindTransceiverResp {
		t.Errorf("%+v, %v", answer, err)
	}
	<-client.Done()
	if err := <-ended; !errors.Is(err, rejected) {
		t.Errorf("ended with %v", err)
	}
}

func TestCloseWaitsForHandlers(t *testing.T) {
	t.Parallel()
	var isEnded atomic.Bool
	client, server := pipe(t, smpp.Config{}, smpp.Config{Handler: func(ctx context.Context, _ *smpp.Session, _ *smpp.PDU) *smpp.PDU {
		<-ctx.Done()
		isEnded.Store(true)
		return nil
	}})
	if err := client.Send(1, &smpp.PDU{Command: smpp.SubmitSM, Body: message("a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Request(t.Context(), &smpp.PDU{Command: smpp.EnquireLink}); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if !isEnded.Load() {
		t.Error("a handler runs after Close")
	}
}

// BenchmarkSubmit sends submit_sm through one bind with a window of 100 over TCP on this machine. Both sides run in this process.
func BenchmarkSubmit(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			s := smpp.Start(conn, smpp.Config{Incoming: 100, Handler: accept})
			<-s.Done()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	client := smpp.Start(conn, smpp.Config{Window: 100})
	defer client.Close()
	m := &smpp.Message{Source: smpp.Address{Number: "106900"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "8613800138000"}, RegisteredDelivery: 1, Short: []byte(strings.Repeat("a", 140))}
	b.ReportAllocs()
	var group sync.WaitGroup
	var next atomic.Int64
	for range 100 {
		group.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, err := client.Request(b.Context(), &smpp.PDU{Command: smpp.SubmitSM, Body: m}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submits/s")
}

// BenchmarkDecode decodes a submit_sm.
func BenchmarkDecode(b *testing.B) {
	octets := encode(b, &smpp.PDU{Command: smpp.SubmitSM, Body: &smpp.Message{Source: smpp.Address{Number: "106900"}, Dest: smpp.Address{Number: "8613800138000"}, Short: make([]byte, 140)}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := smpp.Decode(octets); err != nil {
			b.Fatal(err)
		}
	}
}
