package carrier

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/pdulink"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smpp/smsc"
)

func TestWrongFieldsOfAConfigurationAreNamed(t *testing.T) {
	for field, change := range map[string]func(c *SMPPConfig){
		"host":            func(c *SMPPConfig) { c.Host = "" },
		"hosts":           func(c *SMPPConfig) { c.Hosts = []string{"a"} },
		"hosts.1":         func(c *SMPPConfig) { c.Host, c.Hosts = "", []string{"a", "b:x"} },
		"port":            func(c *SMPPConfig) { c.Port = 65536 },
		"tls_ca":          func(c *SMPPConfig) { c.TLS, c.TLSCA = true, "x" },
		"system_id":       func(c *SMPPConfig) { c.SystemID = "" },
		"bind":            func(c *SMPPConfig) { c.Bind = "receiver" },
		"binds":           func(c *SMPPConfig) { c.Binds = 33 },
		"window":          func(c *SMPPConfig) { c.Window = -1 },
		"per_second":      func(c *SMPPConfig) { c.PerSecond = 10001 },
		"source_addr":     func(c *SMPPConfig) { c.SourceAddr = "A name of twelve" },
		"data_coding":     func(c *SMPPConfig) { c.DataCoding = "utf8" },
		"long_messages":   func(c *SMPPConfig) { c.LongMessages = "udh" },
		"message_ids":     func(c *SMPPConfig) { c.MessageIDs = "hex" },
		"tlvs.x":          func(c *SMPPConfig) { c.TLVs = map[string]string{"x": ""} },
		"tlvs.0x1400":     func(c *SMPPConfig) { c.TLVs = map[string]string{"0x1400": "0xg"} },
		"statuses.ESME_X": func(c *SMPPConfig) { c.Statuses = map[string]string{"ESME_X": "retry"} },
		"statuses.0x58":   func(c *SMPPConfig) { c.Statuses = map[string]string{"0x58": "again"} },
	} {
		c := SMPPConfig{Host: "smpp.example", SystemID: "acme"}
		change(&c)
		_, err := NewSMPP(c, provider.Tools{})
		if f := new(fault.Error); !errors.As(err, &f) || f.Fields[0].Name != "config."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for text, want := range map[string]fault.Field{
		`{"port": -1}`:                                 {Name: "config.port", Rule: fault.TooSmall},
		`{"source_ton": 256}`:                          {Name: "config.source_ton", Rule: fault.TooBig},
		`{"source_addr": "名字"}`:                        {Name: "config.source_addr", Rule: fault.BadCharacters},
		`{"source_addr": "1234567890123456789012345"}`: {Name: "config.source_addr", Rule: fault.TooLong},
		`{"source_addr": "ACME of twelve characters"}`: {Name: "config.source_addr", Rule: fault.TooLong},
		`{"registered_delivery": -1}`:                  {Name: "config.registered_delivery", Rule: fault.TooSmall},
	} {
		c := SMPPConfig{Host: "smpp.example", SystemID: "acme"}
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, err := NewSMPP(c, provider.Tools{})
		if f := new(fault.Error); !errors.As(err, &f) || f.Fields[0].Name != want.Name || f.Fields[0].Rule != want.Rule {
			t.Errorf("%s: %v", text, err)
		}
	}
	d, err := NewSMPP(SMPPConfig{Hosts: []string{"A.example", "b.example:9000", "[2001:db8::1]"}, SystemID: "acme"}, provider.Tools{})
	if err != nil || d.Target() != "smpp://a.example:2775,b.example:9000,[2001:db8::1]:2775" || d.Links() != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

func TestWrongFieldsOfACMPPConfigurationAreNamed(t *testing.T) {
	for field, change := range map[string]func(c *CMPPConfig){
		"host":                func(c *CMPPConfig) { c.Host = "" },
		"port":                func(c *CMPPConfig) { c.Port = -1 },
		"version":             func(c *CMPPConfig) { c.Version = "2.1" },
		"source_addr":         func(c *CMPPConfig) { c.SourceAddr = "9000001" },
		"shared_secret":       func(c *CMPPConfig) { c.SharedSecret = "" },
		"active_test_seconds": func(c *CMPPConfig) { c.ActiveTestSeconds = 601 },
		"service_id":          func(c *CMPPConfig) { c.ServiceID = "eleven char" },
		"src_id":              func(c *CMPPConfig) { c.SrcID = "1234567890123456789012" },
		"extensions.acme":     func(c *CMPPConfig) { c.SrcID, c.Extensions = "12345678901234567890", map[string]string{"acme": "12"} },
		"extensions.beta":     func(c *CMPPConfig) { c.Extensions = map[string]string{"acme": "1", "beta": "1"} },
		"extensions.gamma":    func(c *CMPPConfig) { c.Extensions = map[string]string{"gamma": "x"} },
		"msg_fmt":             func(c *CMPPConfig) { c.MsgFmt = "utf8" },
		"long_messages":       func(c *CMPPConfig) { c.LongMessages = "sar" },
		"fee_code":            func(c *CMPPConfig) { c.FeeCode = "1234567" },
		"statuses.x":          func(c *CMPPConfig) { c.Statuses = map[string]string{"x": "retry"} },
		"statuses.0":          func(c *CMPPConfig) { c.Statuses = map[string]string{"0": "retry"} },
	} {
		c := CMPPConfig{Host: "cmpp.example", SourceAddr: "900001", SharedSecret: "secret"}
		change(&c)
		_, err := NewCMPP(c, provider.Tools{})
		if f := new(fault.Error); !errors.As(err, &f) || f.Fields[0].Name != "config."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	d, err := NewCMPP(CMPPConfig{Hosts: []string{"A.example", "b.example:9000"}, SourceAddr: "900001", SharedSecret: "secret"}, provider.Tools{})
	if err != nil || d.Target() != "cmpp://a.example:7890,b.example:9000" || d.Links() != 1 {
		t.Errorf("%v, %v", d, err)
	}
}

// C3: gateways write Chinese numbers with and without the country code.
func TestNumbersOfCMPPAreChinese(t *testing.T) {
	for written, want := range map[string]string{
		"13800138000": "+8613800138000", "8613800138000": "+8613800138000", "+8613800138000": "+8613800138000", "008613800138000": "+8613800138000",
		"+16505550123": "+16505550123", "0016505550123": "+16505550123", "0085291234567": "+85291234567", // abroad
		"10690001": "10690001", "85291234567": "85291234567", "1380013800a": "1380013800a",
	} {
		if got := fromChina(written); got != want {
			t.Errorf("%s: got %s, want %s", written, got, want)
		}
	}
	p := &cmppProtocol{}
	for recipient, want := range map[string]string{"+8613800138000": "13800138000", "+85291234567": "85291234567"} {
		if got := p.destination(recipient); got != want {
			t.Errorf("%s: got %s, want %s", recipient, got, want)
		}
	}
}

// C3: GBK that is marked as ASCII is read, other formats are read as Latin-1, and a report without the number of a message is recognised.
func TestRequestsOfCMPPGatewaysAreRead(t *testing.T) {
	p := &cmppProtocol{}
	for text, m := range map[string]*cmpp.Deliver{
		"中":  {Content: []byte("\xd6\xd0"), MessageID: 7},
		"é":  {Content: []byte("\xe9"), Format: cmpp.FormatBinary, MessageID: 7},
		"汉字": {Content: []byte("\x6c\x49\x5b\x57"), Format: cmpp.FormatUCS2, MessageID: 7},
	} {
		if in, err := p.incoming(m); err != nil || in.Received.Content != text || in.Received.MessageNo != "7" || in.Received.Part != nil {
			t.Errorf("%s: %+v, %v", text, in.Received, err)
		}
	}
	for state, stat := range map[int16]string{provider.OnItsWay: "UNKNOWN", provider.Delivered: "DELIVRD", provider.Undelivered: "MB:0010"} {
		content, _ := (&cmpp.Report{MessageID: 7, Stat: stat, Destination: "13800138000"}).Encode(cmpp.V30)
		in, err := p.incoming(&cmpp.Deliver{IsReport: 1, Content: content})
		if err != nil || *in.Receipt != (provider.Receipt{Number: "7", Recipient: "+8613800138000", Code: stat, State: state}) {
			t.Errorf("%s: %+v, %v", stat, in.Receipt, err)
		}
	}
	for _, content := range []string{"", strings.Repeat("\x00", 60)} {
		if in, err := p.incoming(&cmpp.Deliver{IsReport: 1, Content: []byte(content)}); err != nil || in.Receipt != nil || in.Received != nil {
			t.Errorf("%q: %+v, %v", content, in, err)
		}
	}
	if _, err := p.incoming(&cmpp.Query{}); !errors.Is(err, errUnknown) || p.respond(&cmpp.Query{}, unknown) != nil {
		t.Errorf("a query: %v", err)
	}
}

// A receipt that cannot be read is stored as the carrier wrote it, without the text of the message.
func TestAReceiptThatCannotBeReadIsStoredAsTheCarrierWroteIt(t *testing.T) {
	p := &smppProtocol{style: smpp.TextStyle{Default: smpp.Latin1}}
	for text, want := range map[string]string{
		"":                           `"text":""`,
		"garbage receipt without id": `"text":"garbage receipt without id"`,
		"sub:001 stat:DELIVRD err:000 Text:code 4711": `"text":"sub:001 stat:DELIVRD err:000"`,
		"sub:001 stat:DELIVRD err:000 code 4711":      `"text":"sub:001 stat:DELIVRD err:000"`,
		"id: text:code 4711":                          `"text":"id:"`,
	} {
		in, err := p.incoming(&smpp.PDU{Body: &smpp.Message{ESMClass: smpp.ESMReceipt, Short: []byte(text)}})
		if err != nil || in.Receipt != nil || !strings.Contains(in.Raw, want) {
			t.Errorf("%s is stored as %s, %v", text, in.Raw, err)
		}
	}
	in, err := p.incoming(&smpp.PDU{Body: &smpp.Message{ESMClass: smpp.ESMReceipt, Short: []byte("id:7 stat:DELIVRD err:000 text:code 4711")}})
	if err != nil || in.Receipt == nil || strings.Contains(in.Raw, "text") || strings.Contains(in.Raw, "4711") {
		t.Errorf("a receipt is stored as %s, %v", in.Raw, err)
	}
	in, err = (&cmppProtocol{}).incoming(&cmpp.Deliver{IsReport: 1, Content: []byte("short")})
	if err != nil || in.Receipt != nil || !strings.Contains(in.Raw, `"content":"73686f7274"`) {
		t.Errorf("a report is stored as %s, %v", in.Raw, err)
	}
}

// C1: the signature is the source address and not part of the text, if it can be one.
func TestSignatureIsTheSourceAddress(t *testing.T) {
	p, err := readSMPP(SMPPConfig{Host: "smpp.example", SystemID: "acme", SourceAddr: sign})
	if err != nil {
		t.Fatal(err)
	}
	parts, o := p.parts(provider.Message{Recipient: "+491511234567", Sign: "ACME", Content: "【ACME】hello"}, 1)
	if o != nil {
		t.Fatal(o)
	}
	if m := parts[0].Body.(*smpp.Message); string(m.Short) != "hello" || m.Source.Number != "ACME" || m.Source.TON != tonName || m.Source.NPI != npiNone {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"", "公司", "A name of twelve"} {
		if _, o := p.parts(provider.Message{Recipient: "+491511234567", Sign: name, Content: "hello"}, 1); o == nil || *o != noSource {
			t.Errorf("%q: %v", name, o)
		}
	}
}

func TestPaceIsHalvedByThrottlingAndRecovers(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPace(100)
	send := func(n int) {
		for range n {
			now = now.Add(max(p.left(now), 0))
			p.take(now)
		}
	}
	send(301)
	if took := now.Sub(time.Unix(0, 0)); took < 2990*time.Millisecond || took > 3010*time.Millisecond {
		t.Errorf("301 messages took %s", took)
	}
	p.throttled(now)
	p.throttled(now) // of a message that was sent with the first one
	if p.rate < 45 || p.rate > 55 {
		t.Errorf("the rate is %f", p.rate)
	}
	began := now
	send(1)
	if now.Sub(began) < throttlePause {
		t.Errorf("the next message was sent after %s", now.Sub(began))
	}
	send(2000)
	if p.rate != 100 {
		t.Errorf("the rate is %f again", p.rate)
	}
}

// C1: a server whose links were taken over sends nothing, and opens no link of its own.
func TestDriverWithoutLinksTriesNoMessage(t *testing.T) {
	c, err := smsc.Listen("127.0.0.1:0", simulated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	tools := provider.Tools{
		Outbound: outbound.Policy{}, Log: slog.New(slog.DiscardHandler), Take: func(context.Context, provider.Incoming) error { return nil },
		Began: func(ctx context.Context, _ provider.Message) (context.Context, func(provider.Outcome)) {
			return ctx, func(provider.Outcome) {}
		},
		MayBegin: func(context.Context, provider.Message) bool { return true },
	}
	d, err := NewSMPP(SMPPConfig{Host: c.Addr(), SystemID: "acme"}, tools)
	if err != nil {
		t.Fatal(err)
	}
	d.Send(t.Context(), []provider.Message{{Recipient: "+491511234567", Content: "x"}}, func(_ int, o provider.Outcome) { t.Errorf("outcome %+v", o) })
	if accepted, _ := c.Binds(); accepted != 0 || len(c.Seen()) != 0 {
		t.Errorf("%d binds, %d messages", accepted, len(c.Seen()))
	}
}

// runSMPP runs the first link of a driver until stop is called. It returns when the link is open.
func runSMPP(t *testing.T, config SMPPConfig) (d *Driver[*smpp.PDU], stop func()) {
	t.Helper()
	d, err := NewSMPP(config, provider.Tools{
		Outbound: outbound.Policy{}, Log: slog.New(slog.DiscardHandler), Take: func(context.Context, provider.Incoming) error { return nil },
		Began: func(ctx context.Context, _ provider.Message) (context.Context, func(provider.Outcome)) {
			return ctx, func(provider.Outcome) {}
		},
		MayBegin: func(context.Context, provider.Message) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(running, 1)
	}()
	awaitOpen(d, time.Time{})
	return d, func() {
		cancel()
		<-ended
	}
}

// awaitOpen waits until the first link opens after the given time, and returns when it opened.
func awaitOpen(d *Driver[*smpp.PDU], after time.Time) time.Time {
	for {
		if at := d.State(1).BoundAt; at.After(after) {
			return at
		}
		time.Sleep(time.Millisecond)
	}
}

// C1: a link that is being ended gets no further message, and counts only messages that were sent.
func TestLinkThatEndsGetsNoMessage(t *testing.T) {
	t.Parallel()
	c, err := smsc.Listen("127.0.0.1:0", simulated.Options{Answer: func(simulated.Message) simulated.Answer { return simulated.Answer{Silent: true} }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	d, stop := runSMPP(t, SMPPConfig{Host: c.Addr(), SystemID: "acme", Window: 10, PerSecond: 0.01})
	defer stop()
	sending, cancel := context.WithCancel(t.Context())
	all := make([]provider.Message, 5)
	for i := range all {
		all[i] = provider.Message{Recipient: "+491511234567", Content: "x"}
	}
	sent, outcomes := make(chan struct{}), atomic.Int64{}
	go func() {
		defer close(sent)
		d.Send(sending, all, func(int, provider.Outcome) { outcomes.Add(1) })
	}()
	_, session, _, _ := d.best()
	for len(c.Seen()) == 0 || openRequests(session) < 5 {
		time.Sleep(time.Millisecond)
	}
	if n := d.State(1).InFlight; n != 1 {
		t.Errorf("%d messages have no answer, want 1: the others wait for the pace", n)
	}
	ending, cut := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = session.End(ending) // it waits for the answer to the first message
	}()
	<-session.Ending()
	if best, _, _, _ := d.best(); best != nil {
		t.Error("a link that ends is used")
	}
	for outcomes.Load() < 4 { // after openWait: no link is open
		time.Sleep(time.Millisecond)
	}
	cut()
	<-ended
	cancel()
	<-sent
	d.pace.mu.Lock()
	defer d.pace.mu.Unlock()
	if d.pace.count != 1 {
		t.Errorf("%d messages count, want the one that was sent", d.pace.count)
	}
}

// listenRaw starts a carrier that accepts every bind, and answers each submit_sm with these octets in place of command_length, the command and the body.
func listenRaw(t *testing.T, length uint32, body string) (host string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					var header [16]byte
					if _, err := io.ReadFull(conn, header[:]); err != nil {
						return
					}
					if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(header[:]))-16); err != nil {
						return
					}
					command, answer := binary.BigEndian.Uint32(header[4:]), "carrier\x00"
					size := uint32(16 + len(answer))
					if smpp.CommandID(command) == smpp.SubmitSM {
						size, answer = length, body
					}
					response := binary.BigEndian.AppendUint32(nil, size)
					response = binary.BigEndian.AppendUint32(response, command|1<<31)
					response = binary.BigEndian.AppendUint32(response, 0)
					_, _ = conn.Write(append(append(response, header[12:]...), answer...))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// C1: a message whose answer cannot be read can have been sent.
func TestMessageWithAnUnreadableAnswerIsUnclear(t *testing.T) {
	for name, host := range map[string]string{
		"cut parameter": listenRaw(t, 16+6, "a\x00\x04\x24\x00\xff"), "wrong command_length": listenRaw(t, 1<<30, ""),
	} {
		d, stop := runSMPP(t, SMPPConfig{Host: host, SystemID: "acme"})
		d.Send(t.Context(), []provider.Message{{Recipient: "+491511234567", Content: "x"}}, func(_ int, o provider.Outcome) {
			if !o.Unknown || o.Permanent || o.Unasked {
				t.Errorf("%s: outcome %+v", name, o)
			}
		})
		stop()
	}
}

// C4: a trace contains only printable characters, and its texts are cut.
func TestTraceIsReadable(t *testing.T) {
	p, err := readSMPP(SMPPConfig{Host: "smpp.example", SystemID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	l := &link[*smpp.PDU]{d: newDriver[*smpp.PDU](p, p.settings, provider.Tools{})}
	m := &smpp.Message{ESMClass: 4, Source: smpp.Address{Number: "491511234567"}, Dest: smpp.Address{Number: "491517654321"}, Short: []byte("id:7 your code is 424242 stat:DELIVRD err:000")}
	for range 2000 {
		m.TLVs.Add(smpp.TagReceiptedMessageID, []byte("7\x00\x1b\xff8\x00"))
	}
	l.observe(pdulink.Event[*smpp.PDU]{PDU: &smpp.PDU{Command: smpp.DeliverSM, Body: m}})
	if _, pdus := l.trace.take(); pdus != nil {
		t.Errorf("recorded %v without a recording", pdus)
	}
	l.trace.record(time.Unix(1, 0))
	l.observe(pdulink.Event[*smpp.PDU]{PDU: &smpp.PDU{Command: smpp.DeliverSM, Body: m}})
	_, pdus := l.trace.take()
	if len(pdus) != 1 || utf8.RuneCountInString(pdus[0].Text) > maxText {
		t.Fatalf("%v", pdus)
	}
	text := pdus[0].Text
	if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
		t.Errorf("%q", text)
	}
	for _, secret := range []string{"424242", "491511234567", "491517654321"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q contains %s", text, secret)
		}
	}
	if !strings.Contains(text, "receipt of 7") || !strings.Contains(text, "stat DELIVRD, err 000") {
		t.Errorf("%q", text)
	}
}

// C1: a message that waits for a slot in the window, while the carrier does not answer, is not sent after its end.
func TestWaitForASlotInTheWindowEndsWithTheMessage(t *testing.T) {
	t.Parallel()
	var ends atomic.Pointer[time.Time]
	c, err := smsc.Listen("127.0.0.1:0", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{Delay: time.Until(*ends.Load()) + 100*time.Millisecond}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	d, stop := runSMPP(t, SMPPConfig{Host: c.Addr(), SystemID: "acme", Window: 1, Binds: 2}) // the second link is not open
	defer stop()
	at := time.Now().Add(500 * time.Millisecond)
	ends.Store(&at)
	all := []provider.Message{{Recipient: "+491511234567", Content: "a", ValidUntil: at}, {Recipient: "+491511234567", Content: "b", ValidUntil: at}}
	var sent atomic.Int32
	d.Send(t.Context(), all, func(_ int, o provider.Outcome) {
		if o.OK {
			sent.Add(1)
		}
	})
	if n := len(c.Seen()); n != 1 || sent.Load() != 1 {
		t.Errorf("the carrier got %d messages, and %d were sent; want 1", n, sent.Load())
	}
}

// C1: a message that waits for a slot in the window stops waiting when its time is over.
func TestWaitForASlotEndsWithTheTimeOfTheSend(t *testing.T) {
	t.Parallel()
	c, err := smsc.Listen("127.0.0.1:0", simulated.Options{Answer: func(simulated.Message) simulated.Answer { return simulated.Answer{Silent: true} }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	d, stop := runSMPP(t, SMPPConfig{Host: c.Addr(), SystemID: "acme", Window: 1, Binds: 2, ResponseSeconds: 60}) // the second link is not open
	defer stop()
	sending, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Send(sending, []provider.Message{{Recipient: "+491511234567", Content: "a"}, {Recipient: "+491511234567", Content: "b"}}, func(int, provider.Outcome) {})
	}()
	for len(c.Seen()) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second): // the slot is free after 60 s
		t.Error("the message still waits")
	}
}

// C1: a carrier that cuts its links often does not make the driver wait longer each time, as long as messages are sent between.
func TestLinkThatSentMessagesOpensAgainSoon(t *testing.T) {
	t.Parallel()
	c, err := smsc.Listen("127.0.0.1:0", simulated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	d, stop := runSMPP(t, SMPPConfig{Host: c.Addr(), SystemID: "acme"})
	defer stop()
	opened := awaitOpen(d, time.Time{})
	for cut := 1; cut <= 3; cut++ {
		d.Send(t.Context(), []provider.Message{{Recipient: "+491511234567", Content: "x"}}, func(_ int, o provider.Outcome) {
			if !o.OK {
				t.Errorf("outcome %+v", o)
			}
		})
		began := time.Now()
		c.Cut()
		opened = awaitOpen(d, opened)
		if wait := opened.Sub(began); cut == 3 && wait > 2*firstRetry {
			t.Errorf("after %d cuts, the link opened again after %s", cut, wait)
		}
	}
}

// C1: a configured status takes precedence, by its name and by its number, also if the signature is the source address.
func TestConfiguredStatusesTakePrecedence(t *testing.T) {
	for name, want := range map[string]judgement{"": refuse, "0x0000000A": retryLater, "ESME_RINVSRCADR": retryLater} {
		c := SMPPConfig{Host: "smpp.example", SystemID: "acme", SourceAddr: sign}
		if name != "" {
			c.Statuses = map[string]string{name: "retry"}
		}
		p, err := readSMPP(c)
		if err != nil {
			t.Fatal(err)
		}
		if a := p.answer(&smpp.PDU{Command: smpp.SubmitSMResp, Status: smpp.RInvSrcAdr}); a.isOK || a.judgement != want {
			t.Errorf("%q: %+v", name, a)
		}
	}
}

// C1: generic_nack is no success, even without a status.
func TestGenericNackIsNoSuccess(t *testing.T) {
	p, err := readSMPP(SMPPConfig{Host: "smpp.example", SystemID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if a := p.answer(&smpp.PDU{Command: smpp.GenericNack}); a.isOK || !a.outcome().Unknown {
		t.Errorf("%+v", a)
	}
}
