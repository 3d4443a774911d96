package simulate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/smpp"
)

// connectLimit is the maximum time to connect and bind.
const connectLimit = 10 * time.Second

// A dialer binds to a carrier. got is called with a description of each message that arrives.
type dialer interface {
	dial(ctx context.Context, conn net.Conn, got func(what string)) (connection, error)
}

// A connection is bound to a carrier.
type connection interface {
	// submit submits a message and returns its number at the carrier.
	submit(ctx context.Context, from, to, text string, reference uint16) (id string, err error)
	end(ctx context.Context) error
	done() <-chan struct{}
}

// run binds, submits messages, and prints the answers and what arrives. It returns an error unless the carrier accepts all messages and keeps the connection open.
func (p program) run(ctx context.Context, d dialer) error {
	var mu sync.Mutex // of the standard output
	show := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(time.Now().Format("15:04:05.000 ")+format+"\n", args...)
	}
	connecting, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(connecting, "tcp", p.Connect)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c, err := d.dial(connecting, conn, func(what string) { show("got %s", what) })
	if err != nil {
		return err
	}
	show("bound to %s", p.Connect)
	refused := 0
	for i := range p.Count {
		id, err := c.submit(ctx, p.From, p.To, p.Text, uint16(i))
		if err != nil {
			show("message %d: %v", i+1, err)
			refused++
			continue
		}
		show("message %d: accepted as %s", i+1, id)
	}
	select {
	case <-ctx.Done():
	case <-time.After(p.Wait):
	case <-c.done():
		return errors.New("the carrier has closed the connection")
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	defer stop()
	if err := c.end(ending); err != nil {
		return err
	}
	if refused > 0 {
		return fmt.Errorf("the carrier did not accept %d of %d messages", refused, p.Count)
	}
	return nil
}

type smppDialer struct{ systemID, password string }

type smppConnection struct{ *smpp.Session }

func (d smppDialer) dial(ctx context.Context, conn net.Conn, got func(string)) (connection, error) {
	s := smpp.Start(conn, smpp.Config{Enquire: time.Minute, Handler: func(_ context.Context, _ *smpp.Session, request *smpp.PDU) *smpp.PDU {
		m, isMessage := request.Body.(*smpp.Message)
		if !isMessage {
			return request.Response(smpp.RInvCmdID, nil)
		}
		if r, isReceipt := smpp.ParseReceipt(m, time.UTC); isReceipt && m.IsReceipt() {
			got(fmt.Sprintf("a receipt of %s: %s, err %s", r.IDs[0], r.State, r.Err))
		} else {
			text, _ := smpp.TextStyle{}.Text(m)
			got(fmt.Sprintf("a message from %s to %s: %q", m.Source.Number, m.Dest.Number, text))
		}
		return request.Response(smpp.OK, &smpp.MessageResp{})
	}})
	answer, err := s.Request(ctx, &smpp.PDU{Command: smpp.BindTransceiver, Body: &smpp.Bind{SystemID: d.systemID, Password: d.password, InterfaceVersion: smpp.Version34}})
	if err == nil && answer.Status != smpp.OK {
		err = fmt.Errorf("the carrier refused the bind: %s", answer.Status)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("bind: %w", err)
	}
	return smppConnection{s}, nil
}

func (c smppConnection) submit(ctx context.Context, from, to, text string, reference uint16) (id string, err error) {
	m := smpp.Message{Source: smpp.Address{Number: from}, Dest: smpp.Address{TON: 1, NPI: 1, Number: to}, RegisteredDelivery: 1}
	parts, err := smpp.TextStyle{}.Messages(m, text, reference)
	if err != nil {
		return "", fmt.Errorf("encode text: %w", err)
	}
	for _, part := range parts {
		answer, err := c.Request(ctx, &smpp.PDU{Command: smpp.SubmitSM, Body: part})
		if err != nil {
			return "", fmt.Errorf("submit_sm: %w", err)
		}
		if answer.Status != smpp.OK {
			return "", fmt.Errorf("submit_sm was refused: %s", answer.Status)
		}
		if r, hasID := answer.Body.(*smpp.MessageResp); hasID {
			id = r.MessageID
		}
	}
	return id, nil
}

func (c smppConnection) end(ctx context.Context) error { return c.End(ctx) }

func (c smppConnection) done() <-chan struct{} { return c.Done() }

type cmppDialer struct {
	source, secret string
	version        cmpp.Version
}

type cmppConnection struct {
	*cmpp.Session
	source string
}

func (d cmppDialer) dial(ctx context.Context, conn net.Conn, got func(string)) (connection, error) {
	handle := func(_ context.Context, request cmpp.PDU) (cmpp.PDU, bool) {
		m, isMessage := request.(*cmpp.Deliver)
		if !isMessage {
			return nil, false
		}
		if m.IsReport == 1 {
			report, err := cmpp.DecodeReport(m.Content)
			if err != nil {
				got("a receipt that cannot be read: " + err.Error())
				return &cmpp.DeliverResp{MessageID: m.MessageID}, true
			}
			got(fmt.Sprintf("a receipt of %s: %s", report.MessageID, report.Stat))
		} else {
			_, octets, _ := cmpp.SplitContent(m.UDHI, m.Content)
			text, _ := cmpp.DecodeText(m.Format, octets)
			got(fmt.Sprintf("a message from %s to %s: %q", m.Source, m.Destination, text))
		}
		return &cmpp.DeliverResp{MessageID: m.MessageID}, true
	}
	s, err := cmpp.Login(ctx, conn, cmpp.Credentials{Source: d.source, Secret: d.secret, Version: d.version, Time: time.Now().In(cmpp.Zone)}, cmpp.Options{Handle: handle})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return cmppConnection{s, d.source}, nil
}

func (c cmppConnection) submit(ctx context.Context, from, to, text string, reference uint16) (id string, err error) {
	parts, fits := cmpp.SplitText(text, []cmpp.Format{cmpp.FormatASCII, cmpp.FormatGBK, cmpp.FormatUCS2}, cmpp.Header8, reference)
	if !fits {
		return "", errors.New("the text is too long")
	}
	for _, part := range parts {
		request := &cmpp.Submit{RegisteredDelivery: 1, Source: c.source, SourceNumber: from, Destinations: []string{to}, FeeType: "01"}
		part.Apply(request)
		answer, err := c.Request(ctx, request)
		if err != nil {
			return "", fmt.Errorf("CMPP_SUBMIT: %w", err)
		}
		r, isResponse := answer.(*cmpp.SubmitResp)
		if !isResponse || r.Result != cmpp.ResultOK {
			return "", fmt.Errorf("CMPP_SUBMIT was refused: %+v", answer)
		}
		id = r.MessageID.String()
	}
	return id, nil
}

func (c cmppConnection) end(ctx context.Context) error { return c.End(ctx) }

func (c cmppConnection) done() <-chan struct{} { return c.Done() }
