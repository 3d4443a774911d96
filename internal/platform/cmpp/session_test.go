package cmpp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lksms/internal/platform/pdulink"
)

var credentials = Credentials{Source: "900001", Secret: "888888", Version: V20, Time: time.Date(2015, time.October, 21, 8, 5, 10, 0, time.UTC)}

func known(secret string) func(*Connect) (string, bool) {
	return func(*Connect) (string, bool) { return secret, true }
}

// A gateway answers each Submit with a MessageID, and counts them.
type gateway struct {
	mu      sync.Mutex
	submits []*Submit
}

func (g *gateway) handle(_ context.Context, request PDU) (PDU, bool) {
	submit, isSubmit := request.(*Submit)
	if !isSubmit {
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.submits = append(g.submits, submit)
	return &SubmitResp{MessageID: MessageID(len(g.submits))}, true
}

func noRequests(context.Context, PDU) (PDU, bool) { return nil, false }

// connect returns both ends of a session.
func connect(t *testing.T, version Version, sp, ismg Options) (*Session, *Session) {
	t.Helper()
	here, there := net.Pipe()
	accepted := make(chan *Session, 1)
	go func() {
		s, request, err := Accept(t.Context(), there, known("888888"), ismg)
		if err != nil || request.SourceAddr != "900001" {
			t.Errorf("accepted %+v, %v", request, err)
		}
		accepted <- s
	}()
	c := credentials
	c.Version = version
	s, err := Login(t.Context(), here, c, sp)
	if err != nil {
		t.Fatal(err)
	}
	return s, <-accepted
}

func TestMessagesAndReportsPassInBothDirections(t *testing.T) {
	for _, version := range []Version{V20, V21, V30} {
		t.Run(version.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reports := make(chan *Report, 1)
				sp := Options{Handle: func(_ context.Context, request PDU) (PDU, bool) {
					deliver := request.(*Deliver)
					report, err := DecodeReport(deliver.Content)
					if err != nil {
						t.Error(err)
					}
					reports <- report
					return &DeliverResp{MessageID: deliver.MessageID}, true
				}}
				g := &gateway{}
				s, ismg := connect(t, version, sp, Options{Handle: g.handle})
				submit := vectorSubmit(t)
				response, err := s.Request(t.Context(), submit)
				if err != nil || response.(*SubmitResp).Result != ResultOK || !reflect.DeepEqual(g.submits, []*Submit{submit}) {
					t.Fatalf("got %+v, %v; the gateway has %+v", response, err, g.submits)
				}
				sent := &Report{MessageID: response.(*SubmitResp).MessageID, Stat: "DELIVRD", Destination: "13500002696"}
				content, _ := sent.Encode(version)
				answer, err := ismg.Request(t.Context(), &Deliver{MessageID: 9, IsReport: 1, Content: content})
				if err != nil || !reflect.DeepEqual(answer, &DeliverResp{MessageID: 9}) || *<-reports != *sent {
					t.Errorf("got %+v, %v", answer, err)
				}
				if err := s.End(t.Context()); err != nil {
					t.Error(err)
				}
				<-ismg.Done()
				if !errors.Is(ismg.Err(), pdulink.ErrEnded) {
					t.Error(ismg.Err())
				}
			})
		})
	}
}

func TestTheWindowIsSixteenByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var handled int
		var mu sync.Mutex
		s, ismg := connect(t, V20, Options{Handle: noRequests}, Options{Handle: func(context.Context, PDU) (PDU, bool) {
			mu.Lock()
			handled++
			mu.Unlock()
			<-release
			return &SubmitResp{}, true
		}})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := s.Request(t.Context(), vectorSubmit(t)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if open, _ := s.Load(); open != 16 || handled != 16 {
			t.Errorf("%d open, %d handled", open, handled)
		}
		close(release)
		all.Wait()
		_ = ismg.End(t.Context())
	})
}

func TestRequestsAboveTheLimitOfTheGatewayAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, _ := connect(t, V30, Options{Handle: noRequests, Window: 2}, Options{MaxHandled: 1, Handle: func(context.Context, PDU) (PDU, bool) {
			<-release
			return &SubmitResp{MessageID: 1}, true
		}})
		go func() { _, _ = s.Request(t.Context(), vectorSubmit(t)) }()
		synctest.Wait()
		response, err := s.Request(t.Context(), vectorSubmit(t))
		if err != nil || response.(*SubmitResp).Result != ResultThrottled {
			t.Errorf("got %+v, %v", response, err)
		}
		close(release)
		_ = s.End(t.Context())
	})
}

func TestActiveTestsAreSentAndAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tests := make(chan time.Time, 10)
		began := time.Now()
		observed := Options{Handle: noRequests, Observe: func(e pdulink.Event[PDU]) {
			if _, isTest := e.PDU.(*ActiveTest); isTest && e.Sent {
				tests <- time.Now()
			}
		}}
		s, _ := connect(t, V20, observed, Options{Handle: noRequests, Idle: time.Hour})
		for i := 1; i <= 3; i++ {
			if waited := (<-tests).Sub(began); waited != time.Duration(i)*180*time.Second {
				t.Errorf("test %d came after %s", i, waited)
			}
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
		_ = s.End(t.Context())
	})
}

func TestCutLinksLeaveSubmitsUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := make(chan struct{})
		s, ismg := connect(t, V20, Options{Handle: noRequests}, Options{Handle: func(ctx context.Context, _ PDU) (PDU, bool) {
			close(received)
			<-ctx.Done()
			return nil, false
		}})
		failed := make(chan error)
		go func() {
			_, err := s.Request(t.Context(), vectorSubmit(t))
			failed <- err
		}()
		<-received
		ismg.Close()
		if err := <-failed; !errors.Is(err, pdulink.ErrUnclear) || errors.Is(err, pdulink.ErrNotSent) {
			t.Error(err)
		}
		if _, err := s.Request(t.Context(), vectorSubmit(t)); !errors.Is(err, pdulink.ErrNotSent) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestMalformedRequestsAreAnsweredAndTheSessionContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := start(here, V20, Options{Handle: noRequests})
		for _, command := range []Command{CommandSubmit, CommandDeliver} {
			_, _ = there.Write(octets(t, "0000000e 0000000"+string('0'+rune(command))+" 00000007 0000"))
			frame, err := Read(there, V20)
			if err != nil || frame.Sequence != 7 || CommandOf(frame.PDU) != command.Response() {
				t.Errorf("%s: %+v, %v", command, frame, err)
			}
		}
		_, _ = there.Write(octets(t, "00000001 00000004 00000007"))
		<-s.Done()
		if wrong := (*LengthError)(nil); !errors.As(s.Err(), &wrong) {
			t.Errorf("the stream ended with %v", s.Err())
		}
	})
}

func TestAnUnreadableAnswerToALoginIsObserved(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_, _ = Read(there, V20)
		_, _ = there.Write(octets(t, "0000000e 80000001 00000001 0000"))
	}()
	var seen []pdulink.Event[PDU]
	_, err := Login(t.Context(), here, credentials, Options{Handle: noRequests, Observe: func(e pdulink.Event[PDU]) { seen = append(seen, e) }})
	var unreadable *pdulink.Malformed[PDU]
	if err == nil || len(seen) != 2 || !errors.As(seen[1].Err, &unreadable) || unreadable.Sequence != connectSequence {
		t.Errorf("%v; observed %+v", err, seen)
	}
}

func TestLoginsWithWrongCredentialsAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Credentials)
		secretOf func(*Connect) (string, bool)
		status   ConnectStatus
	}{
		"secret":  {func(c *Credentials) { c.Secret = "888889" }, known("888888"), ConnectBadSecret},
		"source":  {func(*Credentials) {}, func(*Connect) (string, bool) { return "", false }, ConnectBadSource},
		"version": {func(c *Credentials) { c.Version = 0x40 }, known("888888"), ConnectBadVersion},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := net.Pipe()
			rejected := make(chan error, 1)
			go func() {
				_, _, err := Accept(t.Context(), there, c.secretOf, Options{Handle: noRequests})
				rejected <- err
			}()
			wrong := credentials
			c.change(&wrong)
			_, err := Login(t.Context(), here, wrong, Options{Handle: noRequests})
			for _, err := range []error{err, <-rejected} {
				if rejection := (*ConnectError)(nil); !errors.As(err, &rejection) || rejection.Status != c.status || rejection.Version != V30 {
					t.Errorf("got %v", err)
				}
			}
			if _, err := here.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
}

// answer answers a Connect by hand.
func answer(t *testing.T, conn net.Conn, version Version, change func(*ConnectResp)) {
	frame, err := Read(conn, V20)
	if err != nil {
		t.Error(err)
		return
	}
	request := frame.PDU.(*Connect)
	response := NewConnectResp(request, ConnectOK, "888888", version)
	change(response)
	encoded, _ := Append(nil, version, Frame{Sequence: frame.Sequence, PDU: response})
	_, _ = conn.Write(encoded)
}

func TestGatewaysOfAnotherVersionAreNoticed(t *testing.T) {
	for _, version := range []Version{V20, V30} {
		here, there := net.Pipe()
		go answer(t, there, V20+V30-version, func(*ConnectResp) {})
		c := credentials
		c.Version = version
		_, err := Login(t.Context(), here, c, Options{Handle: noRequests})
		if other := (*VersionError)(nil); !errors.As(err, &other) || other.Asked != version {
			t.Errorf("CMPP %s: %v", version, err)
		}
	}
}

func TestGatewaysWithoutTheSecretAreNoticed(t *testing.T) {
	forge := func(r *ConnectResp) { r.Authenticator = [16]byte{} }
	for _, allowed := range []bool{false, true} {
		here, there := net.Pipe()
		go answer(t, there, V20, forge)
		c := credentials
		c.AllowUnproven = allowed
		s, err := Login(t.Context(), here, c, Options{Handle: noRequests})
		if allowed != (err == nil) || !allowed && !errors.Is(err, ErrNotAuthentic) {
			t.Errorf("allowed %v: %v", allowed, err)
		}
		if s != nil {
			_ = there.Close()
			<-s.Done()
		}
	}
}

func TestLoginsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		if _, err := Login(ctx, here, credentials, Options{Handle: noRequests}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("login: %v", err)
		}
		here, there = net.Pipe()
		if _, _, err := Accept(ctx, here, known(""), Options{Handle: noRequests}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("accept: %v", err)
		}
		_ = there.Close()
	})
}

func TestTheFirstPDUMustBeConnect(t *testing.T) {
	here, there := net.Pipe()
	encoded, _ := Append(nil, V20, Frame{Sequence: 1, PDU: vectorSubmit(t)})
	go func() { _, _ = here.Write(encoded) }()
	if _, _, err := Accept(t.Context(), there, known("888888"), Options{Handle: noRequests}); err == nil {
		t.Error("a Submit before the Connect was accepted")
	}
	if _, err := io.ReadAll(here); err != nil && !bytes.Contains([]byte(err.Error()), []byte("closed")) {
		t.Error(err)
	}
}

// BenchmarkSubmit measures submits through one session with a window of 100 over TCP. Both sides run in this process.
func BenchmarkSubmit(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _, _ = Accept(b.Context(), conn, known("888888"), Options{MaxHandled: 200, Handle: func(context.Context, PDU) (PDU, bool) {
				return &SubmitResp{MessageID: 1}, true
			}})
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	s, err := Login(b.Context(), conn, credentials, Options{Window: 100, Handle: noRequests})
	if err != nil {
		b.Fatal(err)
	}
	submit := &Submit{Total: 1, Number: 1, Destinations: []string{"13800138000"}, Format: FormatUCS2, Content: make([]byte, 140)}
	b.SetParallelism(100)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if response, err := s.Request(b.Context(), submit); err != nil || response.(*SubmitResp).Result != ResultOK {
				b.Errorf("%+v, %v", response, err)
				return
			}
		}
	})
	b.StopTimer()
	if err := s.End(b.Context()); err != nil {
		b.Error(err)
	}
}
