package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lksms/gen/dbq"
	"lksms/internal/driver"
	"lksms/internal/fault"
	"lksms/internal/outbound"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// callback says how a provider tells what became of messages (S3.11). Fields are named by their way through the JSON.
type callback struct {
	Verify    string   `json:"verify"`    // token: it stands in the address, as ?token=; hmac; standard-webhooks
	Header    string   `json:"header"`    // of hmac: where the signature of the body stands, in hex or base64
	Addresses []string `json:"addresses"` // networks it may come from; anywhere if none
	Format    string   `json:"format"`    // json (default) or form
	List      string   `json:"list"`      // the field with the list of receipts; without it the body is one, or a list
	Number    string   `json:"number"`    // the field with the provider's number of the message
	Recipient string   `json:"recipient"` // the field with the recipient; may be empty
	State     string   `json:"state"`
	Delivered []string `json:"delivered"` // values of state
	Pending   []string `json:"pending"`   // values that do not say yet; any other says undelivered
	Code      string   `json:"code"`
	Answer    struct {
		Body        string `json:"body"`
		ContentType string `json:"contentType"`
	} `json:"answer"`
}

const (
	callbackField  = "callback"
	callbackSecret = "callbackSecret"
	callbackSkew   = 5 * time.Minute // of the time that a signature names
	receiptsMost   = 1000            // in a callback
	receiptBatch   = 1000            // that are matched by one transaction
	parkedFor      = 72 * time.Hour  // the message of a receipt is looked for; then it is given up
	secretLeast    = 16              // bytes of a callbackSecret: less can be guessed
	callbacksKept  = 30 * 24 * time.Hour
	forgetBatch    = 1000
)

// splitCallback takes what is said of callbacks out of a configuration that is open.
func splitCallback(opened []byte) (parts config, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(opened, &fields); err != nil {
		return config{}, fmt.Errorf("read config: %w", err)
	}
	if text, said := fields[callbackField]; said {
		parts.callback = &callback{}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(parts.callback); err != nil {
			return config{}, fault.InvalidField("config."+callbackField, fault.NothingElseIsKnown, nil)
		}
	}
	if text, said := fields[callbackSecret]; said {
		if err := json.Unmarshal(text, &parts.key); err != nil {
			return config{}, fault.InvalidField("config."+callbackSecret, fault.WrongType, "string")
		}
	}
	delete(fields, callbackField)
	delete(fields, callbackSecret)
	parts.driver, err = json.Marshal(fields)
	return parts, err
}

const standardWebhooks = "standard-webhooks"

// keyOf is the key that a callbackSecret stands for. A fault says that it stands for none.
func keyOf(verify, text string) ([]byte, error) {
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok && verify == standardWebhooks {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fault.InvalidField("config."+callbackSecret, fault.WrongFormat, nil)
		}
		return key, nil
	}
	return []byte(text), nil
}

// checkSecret refuses a callbackSecret that can be guessed.
func (c *config) checkSecret() error {
	verify := ""
	if c.callback != nil {
		verify = c.callback.Verify
	}
	key, err := keyOf(verify, c.key)
	if err == nil && len(key) < secretLeast {
		err = fault.InvalidField("config."+callbackSecret, fault.TooShort, secretLeast)
	}
	return err
}

// check finds what is wrong with the configuration of callbacks.
func (c *callback) check(key string) error {
	named := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.callback."+field, rule, limit)
	}
	ways := []string{"token", "hmac", standardWebhooks}
	switch {
	case !slices.Contains(ways, c.Verify):
		return named("verify", fault.NotAllowed, ways)
	case key == "":
		return fault.InvalidField("config."+callbackSecret, fault.Required, nil)
	case c.Verify == "hmac" && c.Header == "":
		return named("header", fault.Required, nil)
	case c.Format != "" && c.Format != "json" && c.Format != "form":
		return named("format", fault.NotAllowed, []string{"json", "form"})
	case c.Number == "":
		return named("number", fault.Required, nil)
	case c.State == "":
		return named("state", fault.Required, nil)
	case len(c.Delivered) == 0:
		return named("delivered", fault.Required, nil)
	}
	if _, err := outbound.Networks(c.Addresses); err != nil {
		return named("addresses", fault.WrongFormat, nil)
	}
	return nil
}

// proof is how a provider proves who it is.
func (c *callback) proof() (proof struct{ verify, header string }) {
	if c != nil {
		proof.verify = c.Verify
		if c.Verify == "hmac" {
			proof.header = http.CanonicalHeaderKey(c.Header)
		}
	}
	return proof
}

// receiver is what the callbacks of a sender are checked against and read with.
type receiver struct {
	*callback
	key []byte // empty: nothing can be proven
	err error  // why the sender's configuration cannot be used
}

// loadReceivers reads the receivers of all senders at once, so that callbacks for senders that do not exist cost no query.
func (p *Pusher) loadReceivers(ctx context.Context) (map[string]receiver, error) {
	rows, err := p.q.SendersCalled(ctx)
	if err != nil {
		return nil, fmt.Errorf("read who takes callbacks: %w", err)
	}
	all := make(map[string]receiver, len(rows))
	for _, row := range rows {
		opened, err := p.open("", row.SenderNo, row.Config)
		r := receiver{callback: opened.callback, err: err}
		if err == nil && r.callback != nil {
			r.key, r.err = keyOf(r.Verify, opened.key)
		}
		all[row.SenderNo] = r
	}
	return all, nil
}

// mayBeProven checks what is known of a call before its body is read: the source address, the token, and that there is a signature.
func (r receiver) mayBeProven(call Callback) bool {
	networks, err := outbound.Networks(r.Addresses)
	if err != nil || len(r.key) == 0 {
		return false
	}
	address, err := netip.ParseAddr(call.SourceIP)
	if len(networks) > 0 && (err != nil || !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address.Unmap()) })) {
		return false
	}
	switch r.Verify {
	case "token":
		return subtle.ConstantTimeCompare([]byte(call.Query.Get("token")), r.key) == 1
	case "hmac":
		return call.Header.Get(r.Header) != ""
	case standardWebhooks:
		return isTimely(call.Header) && call.Header.Get("Webhook-Signature") != ""
	default:
		return false
	}
}

// isProven checks a call with its body. A body that is not whole has no signature that could be checked: such a call is accepted if
// only some addresses are allowed and it comes from one of them.
func (r receiver) isProven(call Callback) bool {
	switch {
	case !r.mayBeProven(call):
		return false
	case r.Verify == "token":
		return true
	case call.Cut != nil:
		return len(r.Addresses) > 0
	case r.Verify == "hmac":
		mac := hmac.New(sha256.New, r.key)
		mac.Write(call.Body)
		sum, given := mac.Sum(nil), strings.TrimPrefix(call.Header.Get(r.Header), "sha256=")
		return hmac.Equal([]byte(hex.EncodeToString(sum)), []byte(strings.ToLower(given))) ||
			hmac.Equal([]byte(base64.StdEncoding.EncodeToString(sum)), []byte(given))
	case r.Verify == standardWebhooks:
		return isSigned(r.key, call.Header, call.Body)
	default:
		return false
	}
}

// isTimely checks the time of a signature of Standard Webhooks, which is valid for a few minutes.
func isTimely(header http.Header) bool {
	seconds, err := strconv.ParseInt(header.Get("Webhook-Timestamp"), 10, 64)
	return err == nil && math.Abs(time.Since(time.Unix(seconds, 0)).Seconds()) <= callbackSkew.Seconds()
}

// isSigned checks a signature of Standard Webhooks.
func isSigned(key []byte, header http.Header, body []byte) bool {
	want := "v1," + driver.Sign(key, header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), body)
	for given := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return true
		}
	}
	return false
}

// What a provider says of a message.
const (
	OnItsWay int16 = iota
	Delivered
	Undelivered
)

// receipt is what a provider says of one message.
type receipt struct {
	number, recipient, code string
	state                   int16
}

// read finds the receipts in a body, and counts the items of a list that are none. A body without a single one is refused.
func (c *callback) read(body []byte) (all []receipt, leftOut int, err error) {
	var whole any
	if c.Format == "form" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, 0, fault.New(fault.Malformed, fault.RequestMalformed)
		}
		fields := map[string]any{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		whole = fields
	} else {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if d.Decode(&whole) != nil {
			return nil, 0, fault.New(fault.Malformed, fault.RequestMalformed)
		}
	}
	if c.List != "" {
		whole = driver.At(whole, c.List)
	}
	items, isList := whole.([]any)
	if !isList {
		items = []any{whole}
	}
	if len(items) > receiptsMost {
		return nil, 0, fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	for _, item := range items {
		number, there := driver.Field(item, c.Number)
		state, said := driver.Field(item, c.State)
		number = postgres.Text(number)
		if !there || !said || number == "" || utf8.RuneCountInString(number) > 200 {
			leftOut++
			continue
		}
		r := receipt{number: number, state: Undelivered}
		switch {
		case slices.Contains(c.Delivered, state):
			r.state = Delivered
		case slices.Contains(c.Pending, state):
			r.state = OnItsWay
		}
		r.recipient, _ = driver.Field(item, c.Recipient)
		if r.code, there = driver.Field(item, c.Code); !there {
			r.code = state
		}
		r.recipient, r.code = cut(postgres.Text(r.recipient), 100), cut(postgres.Text(r.code), 100)
		all = append(all, r)
	}
	if len(all) == 0 && leftOut > 0 {
		return nil, leftOut, fault.InvalidField("body.0", fault.MissingParameters, []string{c.Number, c.State})
	}
	return all, leftOut, nil
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// Callback is a call of a provider.
type Callback struct {
	SenderNo, SourceIP string
	Query              url.Values
	Header             http.Header
	Body               []byte // as much as was read
	Cut                error  // why no more was read; nil: it is whole
}

// receiverOf finds who takes a callback, if the caller proves to be the provider. A network from which many came that proved nothing is
// told to wait. A right proof is taken also from there, because a stranger may share the provider's address. Only a key that is short
// enough to be guessed, from before keys had a least length, is not compared meanwhile.
func (p *Pusher) receiverOf(ctx context.Context, call Callback, isProven func(receiver, Callback) bool) (receiver, error) {
	all, err := p.receivers.Get(ctx)
	if err != nil {
		return receiver{}, err
	}
	r, known := all[call.SenderNo]
	switch {
	case known && r.err != nil && p.strangers.add(call.SourceIP) == 0: // anybody may ask
		return receiver{}, fmt.Errorf("read how sender %s takes callbacks: %w", call.SenderNo, r.err)
	case known && r.err == nil && r.callback != nil && (len(r.key) >= secretLeast || p.strangers.wait(call.SourceIP) == 0) && isProven(r, call):
		return r, nil
	}
	if wait := p.strangers.add(call.SourceIP); wait > 0 {
		return receiver{}, &fault.Error{Kind: fault.TooMany, Reason: fault.AuthTooManyFailures, RetryAfter: wait}
	}
	return receiver{}, fault.New(fault.Forbidden, fault.AuthForbidden)
}

// AdmitCall rejects, before its body is read, a callback that no body could prove. isKnown tells that token or address prove already who
// calls. Faults: auth.forbidden, auth.too_many_failures.
func (p *Pusher) AdmitCall(ctx context.Context, call Callback) (isKnown bool, err error) {
	r, err := p.receiverOf(ctx, call, receiver.mayBeProven)
	return err == nil && (r.Verify == "token" || len(r.Addresses) > 0), err
}

// IsUnproven tells that err rejects a callback which did not prove to come from the provider.
func IsUnproven(err error) bool {
	f := new(fault.Error)
	return errors.As(err, &f) && (f.Reason == fault.AuthForbidden || f.Reason == fault.AuthTooManyFailures)
}

// Called takes what a provider tells of messages (S3.11) and gives the answer that it expects. It is kept as it came before it is read,
// also when it is refused then; once, however often it comes. Who is not known, or cannot prove to be the provider, is told so and
// nothing else, and nothing is kept: anybody could fill the disk. Faults: auth.forbidden, auth.too_many_failures, request.malformed,
// request.invalid, request.too_large.
func (p *Pusher) Called(ctx context.Context, call Callback) (answer, contentType string, err error) {
	c, err := p.receiverOf(ctx, call, receiver.isProven)
	if err != nil {
		return "", "", err
	}
	hash := sha256.Sum256(call.Body)
	id, err := p.q.CallbackKeep(ctx, dbq.CallbackKeepParams{
		SenderNo: call.SenderNo, SourceIp: call.SourceIP, Body: postgres.Text(string(call.Body)), BodyHash: hash[:],
	})
	if err != nil {
		return "", "", fmt.Errorf("keep callback: %w", err)
	}
	receipts, leftOut, err := []receipt(nil), 0, call.Cut
	if err == nil {
		receipts, leftOut, err = c.read(call.Body)
	}
	if err != nil {
		refused := new(fault.Error)
		if errors.As(err, &refused) {
			if err := p.q.CallbackRefused(ctx, dbq.CallbackRefusedParams{ID: id, Refused: string(refused.Reason)}); err != nil {
				return "", "", fmt.Errorf("keep why a callback is refused: %w", err)
			}
		}
		return "", "", err
	}
	if leftOut > 0 {
		p.log.WarnContext(ctx, "items of a callback could not be read", "sender_no", call.SenderNo, "callback_id", id, "items", leftOut)
	}
	params := dbq.ReceiptPutParams{CallbackID: id, LeftOut: int64(leftOut), SenderNo: call.SenderNo}
	for _, r := range receipts {
		params.ProviderNos, params.Recipients = append(params.ProviderNos, r.number), append(params.Recipients, r.recipient)
		params.States, params.Codes = append(params.States, r.state), append(params.Codes, r.code)
	}
	ids, err := p.q.ReceiptPut(ctx, params)
	if err != nil {
		return "", "", fmt.Errorf("keep receipts: %w", err)
	}
	if _, err := p.match(ctx, ids); err != nil { // the sweep does what could not be done now
		p.log.WarnContext(ctx, "receipts are matched later", "sender_no", call.SenderNo, "error", err)
	}
	contentType = c.Answer.ContentType
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	return c.Answer.Body, contentType, nil
}

// ForgetCallbacks forgets callbacks and receipts that are old, and returns how many.
func (p *Pusher) ForgetCallbacks(ctx context.Context) (int, error) {
	total := 0
	for {
		callbacks, err := p.q.CallbacksForget(ctx, dbq.CallbacksForgetParams{BatchSize: forgetBatch, Keep: callbacksKept})
		if err != nil {
			return total, fmt.Errorf("forget callbacks: %w", err)
		}
		receipts, err := p.q.ReceiptsForget(ctx, dbq.ReceiptsForgetParams{BatchSize: forgetBatch, Keep: callbacksKept})
		if err != nil {
			return total, fmt.Errorf("forget receipts: %w", err)
		}
		if total += int(callbacks + receipts); callbacks < forgetBatch && receipts < forgetBatch {
			return total, nil
		}
	}
}

// Match looks for the messages of receipts that came before the answers to their sending, and returns how many it found. Its cost is
// that of the receipts whose turn it is, however many are parked.
func (p *Pusher) Match(ctx context.Context) (int, error) {
	total := 0
	for {
		ids, err := p.q.ReceiptsDue(ctx, receiptBatch)
		if err != nil {
			return total, fmt.Errorf("look for receipts: %w", err)
		}
		n, err := p.match(ctx, ids)
		if total += n; err != nil || len(ids) < receiptBatch {
			return total, err
		}
	}
}

// matchSent matches the receipts that came before what was just reported. The sweep finds those that come at the same moment.
func (p *Pusher) matchSent(ctx context.Context, senderNo string, reports []queue.Report) {
	var numbers []string
	for _, r := range reports {
		if r.ProviderNo != "" {
			numbers = append(numbers, r.ProviderNo)
		}
	}
	if len(numbers) == 0 {
		return
	}
	ids, err := p.q.ReceiptsWaiting(ctx, dbq.ReceiptsWaitingParams{SenderNo: senderNo, ProviderNos: numbers})
	if err == nil {
		_, err = p.match(ctx, ids)
	}
	if err != nil {
		p.log.WarnContext(ctx, "receipts are matched later", "sender_no", senderNo, "error", err)
	}
}

// match joins receipts to the tasks of their messages and returns how many it has joined: by the provider's number and, where the
// receipt names one, by the recipient.
func (p *Pusher) match(ctx context.Context, ids []int64) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	looked := dbq.ReceiptLookedParams{ParkedFor: parkedFor, Found: []int64{}}
	err := p.db.Tx(ctx, func(ctx context.Context) error {
		rows, err := p.q.ReceiptCandidates(ctx, ids)
		if err != nil {
			return fmt.Errorf("look for the messages of receipts: %w", err)
		}
		var settle dbq.ReceiptSettleParams
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r dbq.ReceiptCandidatesRow) bool { return r.ID != rows[0].ID })
			if n < 0 {
				n = len(rows)
			}
			looked.Ids = append(looked.Ids, rows[0].ID)
			meant := meantBy(rows[:n])
			if len(meant) > 0 {
				looked.Found = append(looked.Found, rows[0].ID)
			}
			for _, r := range meant {
				if r.State == OnItsWay {
					continue
				}
				settle.TaskIds, settle.States = append(settle.TaskIds, r.TaskID), append(settle.States, r.State)
				settle.Codes, settle.SenderNos = append(settle.Codes, r.Code), append(settle.SenderNos, r.SenderNo)
			}
			rows = rows[n:]
		}
		if len(settle.TaskIds) > 0 {
			if err := p.q.ReceiptSettle(ctx, settle); err != nil {
				return fmt.Errorf("settle receipts: %w", err)
			}
		}
		return postgres.Wrap("note which receipts were matched", p.q.ReceiptLooked(ctx, looked), nil)
	})
	if err != nil {
		return 0, err
	}
	return len(looked.Found), nil
}

// meantBy are those of the candidates of one receipt that it means: those whose recipient it names in full, else those that it may name
// without the prefix of the country, unless that is the number of several.
func meantBy(candidates []dbq.ReceiptCandidatesRow) []dbq.ReceiptCandidatesRow {
	var inFull, atHome []dbq.ReceiptCandidatesRow
	for _, c := range candidates {
		if c.TaskID == "" {
			continue
		}
		switch {
		case c.Recipient == "" || phone.IsInFull(c.SentTo, c.Recipient):
			inFull = append(inFull, c)
		case phone.IsAtHome(c.SentTo, c.Recipient):
			atHome = append(atHome, c)
		}
	}
	if len(inFull) > 0 {
		return inFull
	}
	if slices.ContainsFunc(atHome, func(c dbq.ReceiptCandidatesRow) bool { return c.SentTo != atHome[0].SentTo }) {
		return nil
	}
	return atHome
}
