package smpp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smstext"
	"lksms/internal/testkit/stranger"
)

// corpus returns texts with every character of GSM 7-bit, with UCS-2 and surrogate pairs, in lengths around the limits of one to ten parts.
func corpus() (texts []string) {
	texts = []string{gsm7, "您的快递已到", "😀", "é€[]{}~^|\\", "a" + strings.Repeat("€", 79) + "a"}
	letters, characters := []rune(strings.Repeat(gsm7, 20)), []rune(strings.Repeat("短信通知😀😁é", 150))
	for _, n := range []int{1, 69, 70, 71, 131, 132, 133, 134, 135, 140, 152, 153, 154, 159, 160, 161, 303, 304, 305, 306, 307, 670, 1000, 1400} {
		start := n % len([]rune(gsm7))
		texts = append(texts, string(letters[start:start+n]), string(characters[n%7:n%7+min(n, 600)]))
	}
	return texts
}

// A reader answers and joins the messages of a stranger.
type reader struct {
	mu      sync.Mutex
	waiting parts
	texts   chan string
}

func newReader() *reader {
	return &reader{waiting: parts{}, texts: make(chan string, 10_000)}
}

func (r *reader) read(p *smpp.PDU) *smpp.PDU {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, style := p.Body.(*smpp.Message), smpp.TextStyle{}
	c, octets, err := style.Part(m)
	if err != nil {
		return p.Response(smpp.RInvEsmClass, nil)
	}
	if !c.IsPart() {
		c = smstext.Concat{Total: 1, Part: 1}
	}
	if all, isComplete := r.waiting.add(c, octets); isComplete {
		r.texts <- style.Alphabet(m.DataCoding).Decode(all)
	}
	return p.Response(smpp.OK, &smpp.MessageResp{MessageID: fmt.Sprintf("%08X", p.Sequence)})
}

// expect compares the texts of each form.
func expect(t *testing.T, texts []string, next func() string) {
	t.Helper()
	for _, form := range forms {
		for i, want := range texts {
			if got := next(); got != want {
				t.Fatalf("text %d in the form %s: %q, want %q", i, form, got, want)
			}
		}
	}
}

func (r *reader) expect(t *testing.T, texts []string) {
	t.Helper()
	expect(t, texts, func() string {
		select {
		case text := <-r.texts:
			return text
		case <-time.After(20 * time.Second):
			t.Fatal("a text is missing")
			return ""
		}
	})
}

// sendAll sends the texts in each form, and a receipt.
func sendAll(s *smpp.Session, command smpp.CommandID, texts []string) error {
	template, reference := smpp.Message{Source: smpp.Address{Number: "106900"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "8613800138000"}}, uint16(0)
	receipt := &smpp.Receipt{IDs: []string{"7F0A"}, State: smpp.Delivered, SubmitDate: time.Now(), DoneDate: time.Now()}
	var all []*smpp.Message
	for _, form := range forms {
		for _, text := range texts {
			reference++
			messages, err := (smpp.TextStyle{Long: form}).Messages(template, text, reference)
			if err != nil {
				return err
			}
			all = append(all, messages...)
		}
	}
	for _, m := range append(all, receipt.Message(template, time.UTC)) {
		if answer, err := s.Request(context.Background(), &smpp.PDU{Command: command, Body: m}); err != nil || answer.Status != smpp.OK {
			return fmt.Errorf("%+v: %w", answer, err)
		}
	}
	return nil
}

// expectSent compares the texts and the receipt that the stranger received.
func expectSent(t *testing.T, texts []string, next func() stranger.Line) {
	t.Helper()
	expect(t, texts, func() string {
		l := next()
		if l.Text == nil {
			t.Fatalf("%+v instead of a text", l)
		}
		return *l.Text
	})
	if l := next(); !strings.HasPrefix(l.Receipt, "id:7F0A sub:000 dlvrd:000 submit date:") || l.ID != "7F0A" || l.State != uint8(smpp.Delivered) {
		t.Errorf("the receipt: %+v", l)
	}
}

func TestStrangersSendToAServer(t *testing.T) {
	t.Parallel()
	for _, other := range stranger.All() {
		t.Run(other.Name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			texts := corpus()
			reader, bound := newReader(), make(chan *smpp.Session, 1)
			go serveStrangers(listener, reader, bound)
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			next := other.Client(t, texts, port)
			if rejected, accepted := next(), next(); rejected.Bind != int(smpp.RInvPaswd) || accepted.Bind != 0 {
				t.Fatalf("binds: %+v, %+v", rejected, accepted)
			}
			session := <-bound
			defer session.Close()
			reader.expect(t, texts)
			if l := next(); !l.Done {
				t.Fatalf("%+v", l)
			}
			sent := make(chan error, 1)
			go func() { sent <- sendAll(session, smpp.DeliverSM, texts) }() // the stranger waits until its lines are read
			expectSent(t, texts, next)
			if err := <-sent; err != nil {
				t.Error(err)
			}
			if err := session.End(t.Context()); err != nil {
				t.Errorf("unbind: %v", err)
			}
		})
	}
}

// serveStrangers accepts binds with the password "secret".
func serveStrangers(listener net.Listener, reader *reader, bound chan *smpp.Session) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		smpp.Start(conn, smpp.Config{Enquire: 50 * time.Millisecond, Handler: func(_ context.Context, s *smpp.Session, p *smpp.PDU) *smpp.PDU {
			switch body := p.Body.(type) {
			case *smpp.Bind:
				if body.Password != "secret" {
					_ = s.Send(p.Sequence, p.Response(smpp.RInvPaswd, nil))
					s.Finish(errors.New("wrong password"))
					return nil
				}
				resp := &smpp.BindResp{SystemID: "lksms"}
				resp.TLVs.AddUint8(smpp.TagSCInterfaceVersion, smpp.Version34)
				bound <- s
				return p.Response(smpp.OK, resp)
			case *smpp.Message:
				return reader.read(p)
			default:
				return p.Response(smpp.RInvCmdID, nil)
			}
		}})
	}
}

func TestStrangersServeAClient(t *testing.T) {
	t.Parallel()
	for _, other := range stranger.All() {
		t.Run(other.Name, func(t *testing.T) {
			t.Parallel()
			texts := corpus()
			next, port := other.Server(t, texts)
			address := fmt.Sprintf("127.0.0.1:%d", port)
			reader := newReader()
			handler := func(_ context.Context, _ *smpp.Session, p *smpp.PDU) *smpp.PDU { return reader.read(p) }
			bind := func(password string) (*smpp.Session, *smpp.PDU) {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				session := smpp.Start(conn, smpp.Config{Handler: handler})
				t.Cleanup(session.Close)
				body := &smpp.Bind{SystemID: "lksms", Password: password, InterfaceVersion: smpp.Version34}
				answer, err := session.Request(t.Context(), &smpp.PDU{Command: smpp.BindTransceiver, Body: body})
				if err != nil {
					t.Fatal(err)
				}
				return session, answer
			}
			if _, answer := bind("wrong"); answer.Status != smpp.RInvPaswd {
				t.Errorf("a wrong password is answered with %s", answer.Status)
			}
			session, answer := bind("secret")
			if answer.Status != smpp.OK {
				t.Fatalf("%+v", answer)
			}
			reader.expect(t, texts)
			if l := next(); !l.Done {
				t.Fatalf("%+v", l)
			}
			sent := make(chan error, 1)
			go func() { sent <- sendAll(session, smpp.SubmitSM, texts) }()
			expectSent(t, texts, next)
			if err := <-sent; err != nil {
				t.Error(err)
			}
			if _, err := session.Request(t.Context(), &smpp.PDU{Command: smpp.EnquireLink}); err != nil {
				t.Errorf("enquire_link: %v", err)
			}
			if err := session.End(t.Context()); err != nil {
				t.Errorf("unbind: %v", err)
			}
		})
	}
}
