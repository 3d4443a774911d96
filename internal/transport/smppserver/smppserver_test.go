package smppserver_test

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/smpp"
	"lksms/internal/testkit/apptest"
	"lksms/internal/transport/smppserver"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const person = "8613800138000"

// setup returns a server that accepts SMPP for the company acme.
func setup(t *testing.T, change func(*smppserver.Options)) *apptest.Bundle {
	t.Helper()
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.SMPP = smppserver.Options{Listen: "127.0.0.1:0", BindsPerUser: 4, Window: 20}
		if change != nil {
			change(&o.SMPP)
		}
	})
	b.AddCompany("acme", 1)
	start(t, b.App)
	return b
}

func start(t *testing.T, a *app.App) {
	t.Helper()
	if err := a.SMPP.Start(); err != nil {
		t.Fatal(err)
	}
}

// program is a bound program that keeps what it gets.
type program struct {
	*smpp.Session
	t      *testing.T
	answer func(m *smpp.Message) smpp.Status // nil: accepts all

	mu  sync.Mutex
	got []*smpp.Message
}

// dial connects a program that has not bound.
func dial(t *testing.T, a *app.App) *program {
	t.Helper()
	conn, err := net.Dial("tcp", a.SMPP.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, conn)
}

func begin(t *testing.T, conn net.Conn) *program {
	p := &program{t: t}
	p.Session = smpp.Start(conn, smpp.Config{Window: 50, Incoming: 50, Handler: func(_ context.Context, _ *smpp.Session, request *smpp.PDU) *smpp.PDU {
		m, isMessage := request.Body.(*smpp.Message)
		if !isMessage {
			return request.Response(smpp.RInvCmdID, nil)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.answer != nil {
			if status := p.answer(m); status != smpp.OK {
				return request.Response(status, nil)
			}
		}
		p.got = append(p.got, m)
		return request.Response(smpp.OK, &smpp.MessageResp{})
	}})
	t.Cleanup(p.Close)
	return p
}

// request sends a request and returns the answer.
func (p *program) request(command smpp.CommandID, body smpp.Body) *smpp.PDU {
	p.t.Helper()
	answer, err := p.Request(p.t.Context(), &smpp.PDU{Command: command, Body: body})
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

// bind binds and returns the status.
func (p *program) bind(command smpp.CommandID, username, password string) smpp.Status {
	p.t.Helper()
	return p.request(command, &smpp.Bind{SystemID: username, Password: password, InterfaceVersion: smpp.Version34}).Status
}

// bound returns a program that is bound as user-of-acme.
func bound(t *testing.T, a *app.App, command smpp.CommandID) *program {
	t.Helper()
	p := dial(t, a)
	if status := p.bind(command, "user-of-acme", apptest.UserPassword); status != smpp.OK {
		t.Fatalf("bind: %s", status)
	}
	return p
}

// messages returns the texts that the program got.
func (p *program) messages() []*smpp.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// receipts returns the receipts that the program got, as "id state".
func (p *program) receipts() (all []string) {
	for _, m := range p.messages() {
		if r, isReceipt := smpp.ParseReceipt(m, time.UTC); isReceipt && m.IsReceipt() {
			all = append(all, r.IDs[0]+" "+r.State.String())
		}
	}
	return all
}

// text returns a message with a text in the GSM alphabet.
func text(content string) *smpp.Message {
	return &smpp.Message{
		Source: smpp.Address{TON: 1, NPI: 1, Number: "10690001"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: person}, Short: []byte(content), RegisteredDelivery: 1,
	}
}

// textTo returns a message to a number.
func textTo(number string) *smpp.Message {
	m := text("")
	m.Dest.Number = number
	return m
}

// submit submits a message and returns its id.
func (p *program) submit(m *smpp.Message) string {
	p.t.Helper()
	answer := p.request(smpp.SubmitSM, m)
	if answer.Status != smpp.OK {
		p.t.Fatalf("submit_sm: %s", answer.Status)
	}
	return answer.Body.(*smpp.MessageResp).MessageID
}

// sequence moves the events to the feed until a condition is true.
func sequence(t *testing.T, b *apptest.Bundle, what string, condition func() bool) {
	t.Helper()
	apptest.Eventually(t, what, func() bool {
		if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
		return condition()
	})
}

// C2: a message is a task when the program has the answer.
func TestSubmittedMessageIsATask(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	m := text("hello")
	m.Validity, m.Priority = "000000010000000R", 3
	id := p.submit(m)
	task := b.Task(id)
	if task.Content != "hello" || task.PhoneNumber != "+"+person || *task.Source != "smpp" || task.ExpiresAt == nil {
		t.Errorf("the task is %+v", task)
	}
	if by := apptest.Scan[string](b, "SELECT submitted_by FROM messages WHERE task_id = $1", id); by != "user-of-acme" {
		t.Errorf("submitted by %s", by)
	}
}

// C2: a program binds with the name of a user, and its password, an API key or its SMPP password.
func TestProgramsBindAsUsers(t *testing.T) {
	b := setup(t, nil)
	b.AddUser("phone", "send", nil)
	created := apptest.Decode[api.NewSmppPassword](t, b.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/smpp-password", nil))
	key := apptest.Decode[api.NewKey](t, b.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/keys", map[string]any{"name": "n"}))
	for _, c := range []struct {
		name, username, password string
		want                     smpp.Status
	}{
		{"password", "user-of-acme", apptest.UserPassword, smpp.OK},
		{"SMPP password", "user-of-acme", created.Password, smpp.OK},
		{"API key", "user-of-acme", key.Key, smpp.OK},
		{"wrong password", "user-of-acme", "wrong", smpp.RInvPaswd},
		{"password of another user", "user-of-beta", created.Password, smpp.RInvPaswd},
		{"no name", "", apptest.UserPassword, smpp.RInvPaswd},
		{"role that does not submit", "phone", apptest.UserPassword, smpp.RBindFail},
	} {
		if status := dial(t, b.App).bind(smpp.BindTransceiver, c.username, c.password); status != c.want {
			t.Errorf("%s: %s, want %s", c.name, status, c.want)
		}
	}
	for username, password := range map[string]string{"user-of-acme": created.Password, "smpp": "user-of-acme:" + created.Password} {
		b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, apptest.Basic(username, password)...)
	}
	if status := dial(t, b.App).bind(smpp.BindTransceiver, "user-of-acme", created.Password); status != smpp.OK {
		t.Errorf("a bind after calls over HTTP: %s", status)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/users/user-of-acme/smpp-password", nil)
	if status := dial(t, b.App).bind(smpp.BindTransceiver, "user-of-acme", created.Password); status != smpp.RInvPaswd {
		t.Errorf("a deleted password: %s", status)
	}
}

// C2: the number of binds of a user is limited, and a bind ends when its user is disabled.
func TestBindsAreLimitedAndEndWithTheUser(t *testing.T) {
	b := setup(t, func(o *smppserver.Options) { o.BindsPerUser = 2 })
	first, second := bound(t, b.App, smpp.BindTransmitter), bound(t, b.App, smpp.BindTransceiver)
	if status := dial(t, b.App).bind(smpp.BindTransmitter, "user-of-acme", apptest.UserPassword); status != smpp.RBindFail {
		t.Errorf("a third bind: %s", status)
	}
	if status := first.bind(smpp.BindTransmitter, "user-of-acme", apptest.UserPassword); status != smpp.RAlyBnd {
		t.Errorf("a second bind of a connection: %s", status)
	}
	if err := first.End(t.Context()); err != nil {
		t.Error(err)
	}
	apptest.Eventually(t, "another program can bind", func() bool {
		return dial(t, b.App).bind(smpp.BindTransmitter, "user-of-acme", apptest.UserPassword) == smpp.OK
	})
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", map[string]any{"is_disabled": true})
	<-second.Done() // although it sent no request
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// C2: a request that is wrong or not supported has its own status, creates no task, and is stored with its reason.
func TestWrongMessagesAreRefused(t *testing.T) {
	b := setup(t, nil)
	if answer := dial(t, b.App).request(smpp.SubmitSM, text("x")); answer.Status != smpp.RInvBndSts {
		t.Errorf("without a bind: %s", answer.Status)
	}
	if answer := bound(t, b.App, smpp.BindReceiver).request(smpp.SubmitSM, text("x")); answer.Status != smpp.RInvBndSts {
		t.Errorf("of a receiver: %s", answer.Status)
	}
	p := bound(t, b.App, smpp.BindTransceiver)
	for _, c := range []struct {
		name   string
		change func(m *smpp.Message)
		want   smpp.Status
	}{
		{"recipient", func(m *smpp.Message) { m.Dest.Number = "12" }, smpp.RInvDstAdr},
		{"text too long", func(m *smpp.Message) {
			m.Short = nil
			m.TLVs.Add(smpp.TagMessagePayload, []byte(strings.Repeat("x", 2000)))
		}, smpp.RInvMsgLen},
		{"no text", func(m *smpp.Message) { m.Short = nil }, smpp.RInvMsgLen},
		{"schedule", func(m *smpp.Message) { m.Schedule = "tomorrow" }, smpp.RInvSched},
		{"schedule too late", func(m *smpp.Message) { m.Schedule = "990101000000000+" }, smpp.RInvSched},
		{"validity", func(m *smpp.Message) { m.Validity = "20010100" }, smpp.RInvExpiry},
		{"validity in the past", func(m *smpp.Message) { m.Validity = "200101000000000+" }, smpp.RInvExpiry},
		{"priority", func(m *smpp.Message) { m.Priority = 4 }, smpp.RInvPrtFlg},
		{"binary", func(m *smpp.Message) { m.DataCoding = 4 }, smpp.RInvDCS},
		{"flash", func(m *smpp.Message) { m.DataCoding = 0x10 }, smpp.RInvDCS},
		{"alphabet", func(m *smpp.Message) { m.DataCoding, m.Short = 1, []byte{0xFF} }, smpp.RSubmitFail},
		{"header for a port", func(m *smpp.Message) { m.ESMClass, m.Short = smpp.ESMUDHI, []byte("\x06\x05\x04\x0b\x84\x23\xf0x") }, smpp.RInvEsmClass},
		{"cut header", func(m *smpp.Message) { m.ESMClass, m.Short = smpp.ESMUDHI, []byte("\x50x") }, smpp.RInvEsmClass},
		{"acknowledgement", func(m *smpp.Message) { m.ESMClass = 0x08 }, smpp.RInvEsmClass},
		{"replacement", func(m *smpp.Message) { m.ReplaceIfPresent = 1 }, smpp.RInvRepFlag},
		{"default message", func(m *smpp.Message) { m.DefaultMessage = 1 }, smpp.RInvDftMsgID},
	} {
		m := text("x")
		c.change(m)
		if answer := p.request(smpp.SubmitSM, m); answer.Status != c.want {
			t.Errorf("%s: %s, want %s", c.name, answer.Status, c.want)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages", n)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions WHERE response_data ->> 'command_status' LIKE 'ESME_R%'"); n != 16 {
		t.Errorf("%d stored refusals, want 16", n)
	}
	if answer := p.request(smpp.ReplaceSM, &smpp.Replace{MessageID: "x"}); answer.Status != smpp.RReplaceFail {
		t.Errorf("replace_sm: %s", answer.Status)
	}
	if answer := p.request(smpp.DeliverSM, text("x")); answer.Status != smpp.RInvCmdID {
		t.Errorf("deliver_sm: %s", answer.Status)
	}
}

// C2: a long message in each form is one task, whatever the order of its parts and whichever server gets them.
func TestPartsOfALongMessageAreOneTask(t *testing.T) {
	b := setup(t, nil)
	second := apptest.Another(b)
	start(t, second)
	programs := []*program{bound(t, b.App, smpp.BindTransceiver), bound(t, second, smpp.BindTransceiver)}
	content := strings.Repeat("一二三四五😀七八九十", 16) // a surrogate pair is divided between two parts
	for _, form := range []smpp.LongForm{smpp.UDH8, smpp.UDH16, smpp.SAR, smpp.Payload} {
		m := text("")
		parts, err := smpp.TextStyle{Long: form}.Messages(*m, content, 7+uint16(form))
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(parts)
		var ids []string
		for i, part := range parts {
			ids = append(ids, programs[i%2].submit(part))
		}
		if len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Errorf("%s: the parts have the ids %v", form, ids)
		}
		if task := b.Task(ids[0]); task.Content != content {
			t.Errorf("%s: the text is %s", form, task.Content)
		}
	}
	if n := b.Count("SELECT count(*) FROM smpp_long_messages"); n != 0 {
		t.Errorf("%d messages are incomplete", n)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 4 {
		t.Errorf("%d tasks, want 4", n)
	}
}

// C2: a message whose parts do not all arrive becomes a FAILED task with a receipt. So does a message whose reference is used again.
func TestIncompleteMessagesFail(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	send := func(content string, nth int) string {
		parts, err := smpp.TextStyle{}.Messages(*text(""), content, 5)
		if err != nil {
			t.Fatal(err)
		}
		return p.submit(parts[nth])
	}
	overtaken := send(strings.Repeat("a", 200), 0)
	missing := send(strings.Repeat("b", 200), 0)
	if overtaken == missing {
		t.Error("two messages have one id")
	}
	if task := b.Task(overtaken); *task.Result != "长短信缺少分段" || !strings.HasSuffix(task.Content, "a[…]") {
		t.Errorf("the task is %+v", task)
	}
	if n, err := b.App.SMPP.EndIncomplete(t.Context()); n != 0 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	b.Exec("UPDATE smpp_long_messages SET created_at = created_at - interval '11 minutes'")
	if n, err := b.App.SMPP.EndIncomplete(t.Context()); n != 1 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	b.AwaitStatus(missing, 3)
	sequence(t, b, "two receipts", func() bool { return len(p.receipts()) == 2 })
	got := p.receipts()
	slices.Sort(got)
	if want := []string{overtaken + " UNDELIV", missing + " UNDELIV"}; !slices.Equal(got, want) {
		t.Errorf("receipts %v, want %v", got, want)
	}
}

// C2: parts in different alphabets, and parts that are too long, are refused. A receipt that only one part requests is sent.
func TestPartsOfALongMessageFitTogether(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	long := func(text string) []*smpp.Message {
		m := *textTo("8613800138001")
		m.RegisteredDelivery = 0
		parts, err := smpp.TextStyle{}.Messages(m, text, 7)
		if err != nil {
			t.Fatal(err)
		}
		return parts
	}
	latin, chinese := long(strings.Repeat("a", 200)), long(strings.Repeat("您", 100))
	id := p.submit(latin[0])
	if answer := p.request(smpp.SubmitSM, chinese[1]); answer.Status != smpp.RInvDCS {
		t.Errorf("another alphabet: %s", answer.Status)
	}
	huge := *latin[1]
	huge.TLVs.Add(smpp.TagMessagePayload, append(append([]byte(nil), latin[1].Short...), make([]byte, 300)...))
	huge.Short = nil
	if answer := p.request(smpp.SubmitSM, &huge); answer.Status != smpp.RInvMsgLen {
		t.Errorf("a part of 400 octets: %s", answer.Status)
	}
	latin[1].RegisteredDelivery = 1
	if last := p.submit(latin[1]); last != id {
		t.Errorf("the parts have the ids %s and %s", id, last)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	sequence(t, b, "the receipt", func() bool { return len(p.receipts()) == 1 })
}

// C2: a user cannot fill the table of incomplete messages.
func TestIncompleteMessagesAreLimited(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	parts, err := smpp.TextStyle{}.Messages(*text(""), strings.Repeat("a", 200), 5)
	if err != nil {
		t.Fatal(err)
	}
	first := p.submit(parts[0])
	b.Exec(`INSERT INTO smpp_long_messages (company_id, username, source, recipient, reference, total, task_id, parts, message)
		SELECT m.company_id, m.username, m.source, m.recipient, m.reference + n, m.total, m.task_id || n, m.parts, m.message
		FROM smpp_long_messages m CROSS JOIN generate_series(1, 9999) AS n`)
	other, err := smpp.TextStyle{}.Messages(*text(""), strings.Repeat("a", 200), 255)
	if err != nil {
		t.Fatal(err)
	}
	other[0].Source.Number = "10690002"
	if answer := p.request(smpp.SubmitSM, other[0]); answer.Status != smpp.RMsgQFul {
		t.Errorf("a further message: %s", answer.Status)
	}
	if id := p.submit(parts[1]); id != first {
		t.Errorf("the last part has the id %s", id)
	}
}

// C2: a long message that is refused as a whole refuses its last part, and leaves nothing.
func TestRefusedLongMessageRefusesItsLastPart(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	parts, err := smpp.TextStyle{}.Messages(*text(""), strings.Repeat("x", 2000), 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts[:len(parts)-1] {
		p.submit(part)
	}
	if answer := p.request(smpp.SubmitSM, parts[len(parts)-1]); answer.Status != smpp.RInvMsgLen {
		t.Errorf("the last part: %s", answer.Status)
	}
	if n := b.Count("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM smpp_long_messages)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions"); n != 1 {
		t.Errorf("%d refusals, want 1", n)
	}
	bad := *parts[0]
	bad.Dest.Number = "12"
	if answer := p.request(smpp.SubmitSM, &bad); answer.Status != smpp.RInvDstAdr {
		t.Errorf("a part to a wrong number: %s", answer.Status)
	}
}

// C2: each receipt arrives once, also if the program was away, and only what the program requested.
func TestReceiptsArriveOnce(t *testing.T) {
	b := setup(t, nil)
	second := apptest.Another(b)
	start(t, second)
	p := bound(t, b.App, smpp.BindTransmitter)
	ids := map[string]string{}
	for name, registered := range map[string]uint8{"none": 0, "all": 1, "failure": 2, "intermediate": 0x11} {
		m := text(name)
		m.RegisteredDelivery = registered
		ids[name] = p.submit(m)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "13800138000", "content": "x"}, apptest.Basic("user-of-acme", apptest.UserPassword)...)
	if err := p.End(t.Context()); err != nil {
		t.Error(err)
	}
	for _, task := range b.Claim("a", 10) {
		b.Report(task.TaskID, "a", 2, nil)
	}
	sequence(t, b, "events", func() bool { return b.Count("SELECT count(*) FROM feed") == 5 })
	first, other := bound(t, b.App, smpp.BindReceiver), bound(t, second, smpp.BindReceiver)
	got := func() []string { return slices.Concat(first.receipts(), other.receipts()) }
	apptest.Eventually(t, "the receipt of the message that was sent", func() bool { return len(got()) == 1 })
	cancelled := bound(t, b.App, smpp.BindTransmitter).submit(text("cancelled"))
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+cancelled+"/cancel", nil)
	sequence(t, b, "the receipt of the cancelled message", func() bool { return len(got()) == 2 })
	want := []string{ids["intermediate"] + " ACCEPTD", cancelled + " DELETED"}
	if all := got(); !slices.Equal(all, want) {
		t.Errorf("receipts %v, want %v", all, want)
	}
	m := slices.Concat(first.messages(), other.messages())[1]
	if m.Source.Number != person || m.Source.TON != 1 || m.Dest.Number != "10690001" {
		t.Errorf("the receipt is from %v to %v", m.Source, m.Dest)
	}
}

// C2: a program that is full gets its receipts later, and another user of the company does not wait for it.
func TestReceiptsThatAreNotTakenAreSentAgain(t *testing.T) {
	b := setup(t, nil)
	b.AddUser("other", "submit", map[string]any{"company_no": "acme"})
	p := dial(t, b.App)
	refusals := 2
	p.answer = func(*smpp.Message) smpp.Status {
		if refusals > 0 {
			refusals--
			return smpp.RMsgQFul
		}
		return smpp.OK
	}
	if status := p.bind(smpp.BindTransceiver, "user-of-acme", apptest.UserPassword); status != smpp.OK {
		t.Fatal(status)
	}
	other := dial(t, b.App)
	if status := other.bind(smpp.BindTransceiver, "other", apptest.UserPassword); status != smpp.OK {
		t.Fatal(status)
	}
	mine, theirs := []string{p.submit(text("1")), p.submit(text("2"))}, other.submit(text("3"))
	for _, id := range append(slices.Clone(mine), theirs) {
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	}
	sequence(t, b, "all receipts", func() bool { return len(p.receipts()) == 2 && len(other.receipts()) == 1 })
	want := []string{mine[0] + " DELETED", mine[1] + " DELETED"}
	got := p.receipts()
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("receipts %v, want %v", got, want)
	}
}

// C2: a receipt that a program never takes delays no other receipts, and waits for the next holder.
func TestReceiptThatIsNeverTakenDelaysNoOthers(t *testing.T) {
	b := setup(t, nil)
	p := dial(t, b.App)
	var refused, accepts atomic.Value
	refused.Store("")
	accepts.Store(false)
	p.answer = func(m *smpp.Message) smpp.Status {
		if r, _ := smpp.ParseReceipt(m, time.UTC); r.IDs[0] == refused.Load() && accepts.Load() == false {
			return smpp.RXTAppn
		}
		return smpp.OK
	}
	if status := p.bind(smpp.BindTransceiver, "user-of-acme", apptest.UserPassword); status != smpp.OK {
		t.Fatal(status)
	}
	var ids []string
	for i := range 210 { // more than are read at once
		ids = append(ids, p.submit(text(strconv.Itoa(i))))
	}
	refused.Store(ids[0])
	for _, id := range ids {
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	}
	sequence(t, b, "the other receipts", func() bool { return len(p.receipts()) == len(ids)-1 })
	apptest.Eventually(t, "the receipt is stored as waiting", func() bool { return b.Count("SELECT cardinality(waiting) FROM smpp_receivers") == 1 })
	if err := p.End(t.Context()); err != nil {
		t.Error(err)
	}
	next := bound(t, b.App, smpp.BindReceiver)
	apptest.Eventually(t, "the next bind gets the receipt", func() bool { return len(next.receipts()) == 1 })
	if got := next.receipts()[0]; got != ids[0]+" DELETED" {
		t.Errorf("the receipt is %s", got)
	}
}

// C2: messages of people arrive at a program that receives, long ones in parts.
func TestMessagesOfPeopleArrive(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindReceiver)
	b.AddSender(map[string]any{"sender_no": "a", "inbox_company_no": "acme"})
	content := strings.Repeat("您好", 60)
	b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "a", "messages": []any{
		map[string]any{"from": "13800138000", "to": "10690001", "content": content},
	}})
	sequence(t, b, "two parts", func() bool { return len(p.messages()) == 2 })
	var octets []byte
	for _, m := range p.messages() {
		part, text, err := smpp.TextStyle{}.Part(m)
		if err != nil || part.Total != 2 || m.Source.Number != person || m.IsReceipt() {
			t.Errorf("a part is %+v, %v", m, err)
		}
		octets = append(octets, text...)
	}
	if got := smpp.UCS2.Decode(octets); got != content {
		t.Errorf("the text is %s", got)
	}
}

// C2: a program asks for the state of a message, and cancels it. Messages of other users do not exist for it.
func TestMessagesAreQueriedAndCancelled(t *testing.T) {
	for name, short := range map[string]bool{"task": false, "short": true} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, func(o *smppserver.Options) { o.HasShortIDs = short })
			p := bound(t, b.App, smpp.BindTransceiver)
			id := p.submit(text("x"))
			if isShort := len(id) < 10; isShort != short {
				t.Errorf("the id is %s", id)
			}
			if q := p.request(smpp.QuerySM, &smpp.Query{MessageID: id}).Body.(*smpp.QueryResp); q.State != smpp.Enroute || q.FinalDate != "" || q.MessageID != id {
				t.Errorf("the state is %+v", q)
			}
			other := dial(t, b.App)
			b.AddUser("other", "submit", map[string]any{"company_no": "acme"})
			if status := other.bind(smpp.BindTransceiver, "other", apptest.UserPassword); status != smpp.OK {
				t.Fatal(status)
			}
			for _, answer := range []*smpp.PDU{
				other.request(smpp.QuerySM, &smpp.Query{MessageID: id}), other.request(smpp.CancelSM, &smpp.Cancel{MessageID: id}),
				p.request(smpp.QuerySM, &smpp.Query{MessageID: "4711"}),
			} {
				if answer.Status != smpp.RInvMsgID {
					t.Errorf("an unknown message: %s", answer.Status)
				}
			}
			if answer := p.request(smpp.CancelSM, &smpp.Cancel{}); answer.Status != smpp.RCancelFail {
				t.Errorf("cancel_sm without an id: %s", answer.Status)
			}
			if answer := p.request(smpp.CancelSM, &smpp.Cancel{MessageID: id}); answer.Status != smpp.OK {
				t.Errorf("cancel_sm: %s", answer.Status)
			}
			if answer := p.request(smpp.CancelSM, &smpp.Cancel{MessageID: id}); answer.Status != smpp.RCancelFail {
				t.Errorf("a second cancel_sm: %s", answer.Status)
			}
			if q := p.request(smpp.QuerySM, &smpp.Query{MessageID: id}).Body.(*smpp.QueryResp); q.State != smpp.Deleted || q.FinalDate == "" {
				t.Errorf("the state is %+v", q)
			}
			sequence(t, b, "the receipt", func() bool { return len(p.receipts()) == 1 })
			if got := p.receipts()[0]; got != id+" DELETED" {
				t.Errorf("the receipt is %s", got)
			}
			if err := p.End(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// C2: submit_multi tells which recipients were refused, and the receipts of all others have its id.
func TestMessageToManyRecipients(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransceiver)
	multi := &smpp.Multi{Message: *text("x")}
	for _, number := range []string{"8613800138001", "12", "8613800138002"} {
		multi.Dests = append(multi.Dests, smpp.Dest{Address: smpp.Address{TON: 1, NPI: 1, Number: number}})
	}
	multi.Dests = append(multi.Dests, smpp.Dest{List: "friends"})
	answer := p.request(smpp.SubmitMulti, multi)
	body, isMulti := answer.Body.(*smpp.MultiResp)
	if answer.Status != smpp.OK || !isMulti || len(body.Unsuccessful) != 2 {
		t.Fatalf("the answer is %s %+v", answer.Status, body)
	}
	if u := body.Unsuccessful; u[0].Status != smpp.RInvDLName || u[1].Status != smpp.RInvDstAdr || u[1].Address.Number != "12" {
		t.Errorf("not successful: %+v", u)
	}
	for _, id := range b.ListIDs("") {
		b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	}
	sequence(t, b, "two receipts", func() bool { return len(p.receipts()) == 2 })
	for i, got := range p.receipts() {
		if got != body.MessageID+" DELETED" {
			t.Errorf("receipt %d is %s", i, got)
		}
	}
}

// C2: service_type chooses the type of a message.
func TestServiceTypeChoosesTheMessageType(t *testing.T) {
	b := setup(t, nil)
	p := bound(t, b.App, smpp.BindTransmitter)
	for service, want := range map[string]api.MessageType{"": api.Notification, "CODE": api.Verification, "PROMO": api.Marketing} {
		m := text("x")
		m.ServiceType = service
		if got := b.Task(p.submit(m)).MessageType; got != want {
			t.Errorf("%q: %s, want %s", service, got, want)
		}
	}
}
