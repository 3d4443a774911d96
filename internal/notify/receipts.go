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
	"lksms/internal/postgres"
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
	receiptBatch   = 1000            // that are matched by one statement
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

// check finds what is wrong with the configuration of callbacks.
func (c *callback) check(key string) error {
	named := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.callback."+field, rule, limit)
	}
	ways := []string{"token", "hmac", "standard-webhooks"}
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

var errForbidden = fault.New(fault.Forbidden, fault.AuthForbidden)

// comesFrom checks who calls: where from, and with what proof.
func (c *callback) comesFrom(key, sourceIP string, query url.Values, header http.Header, body []byte) error {
	networks, err := outbound.Networks(c.Addresses)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(sourceIP)
	if len(networks) > 0 && (err != nil || !slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(address.Unmap()) })) {
		return errForbidden
	}
	proven := false
	switch c.Verify {
	case "token":
		proven = subtle.ConstantTimeCompare([]byte(query.Get("token")), []byte(key)) == 1
	case "hmac":
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write(body)
		sum, given := mac.Sum(nil), strings.TrimPrefix(header.Get(c.Header), "sha256=")
		proven = hmac.Equal([]byte(hex.EncodeToString(sum)), []byte(strings.ToLower(given))) ||
			hmac.Equal([]byte(base64.StdEncoding.EncodeToString(sum)), []byte(given))
	case "standard-webhooks":
		proven = c.isSigned(key, header, body)
	}
	if !proven {
		return errForbidden
	}
	return nil
}

// isSigned checks a signature of Standard Webhooks, which is good for a few minutes.
func (c *callback) isSigned(key string, header http.Header, body []byte) bool {
	raw := []byte(key)
	if encoded, ok := strings.CutPrefix(key, "whsec_"); ok {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return false
		}
	}
	at := header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || math.Abs(time.Since(time.Unix(seconds, 0)).Seconds()) > callbackSkew.Seconds() {
		return false
	}
	want := "v1," + driver.Sign(raw, header.Get("Webhook-Id"), at, body)
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

// read finds the receipts in a body.
func (c *callback) read(body []byte) ([]receipt, error) {
	var whole any
	if c.Format == "form" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fault.New(fault.Malformed, fault.RequestMalformed)
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
			return nil, fault.New(fault.Malformed, fault.RequestMalformed)
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
		return nil, fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	var all []receipt
	for i, item := range items {
		number, there := driver.Field(item, c.Number)
		state, said := driver.Field(item, c.State)
		number = postgres.Text(number)
		if !there || !said || number == "" || utf8.RuneCountInString(number) > 200 {
			return nil, fault.InvalidField(fmt.Sprintf("body.%d", i), fault.MissingParameters, []string{c.Number, c.State})
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
	return all, nil
}

func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// Called takes what a provider tells of messages (S3.11) and gives the answer that it expects. It is kept as it came; who is not
// known, or cannot prove to be the provider, is told so and nothing else. Faults: auth.forbidden, request.malformed,
// request.invalid.
func (p *Pusher) Called(ctx context.Context, senderNo, sourceIP string, query url.Values, header http.Header, body []byte) (answer, contentType string, err error) {
	row, err := p.q.SenderCallback(ctx, senderNo)
	if err != nil {
		return "", "", postgres.Wrap("find sender of callback", err, errForbidden)
	}
	opened, err := p.open(row.Kind, senderNo, row.Config)
	if err != nil {
		return "", "", err
	}
	c := opened.callback
	if c == nil {
		return "", "", errForbidden
	}
	if err := c.comesFrom(opened.key, sourceIP, query, header, body); err != nil {
		return "", "", err
	}
	receipts, err := c.read(body)
	if err != nil {
		return "", "", err
	}
	params := dbq.ReceiptPutParams{SenderNo: senderNo, SourceIp: sourceIP, Body: postgres.Text(string(body))}
	for _, r := range receipts {
		params.ProviderNos, params.Recipients = append(params.ProviderNos, r.number), append(params.Recipients, r.recipient)
		params.States, params.Codes = append(params.States, r.state), append(params.Codes, r.code)
	}
	if _, err := p.q.ReceiptPut(ctx, params); err != nil {
		return "", "", fmt.Errorf("keep callback: %w", err)
	}
	if _, err := p.match(ctx); err != nil { // the sweep does what could not be done now
		p.log.WarnContext(ctx, "receipts are matched later", "sender_no", senderNo, "error", err)
	}
	contentType = c.Answer.ContentType
	if contentType == "" {
		contentType = "text/plain; charset=utf-8"
	}
	return c.Answer.Body, contentType, nil
}

// Match joins receipts that came before the answer to their sending to their tasks, and returns how many.
func (p *Pusher) Match(ctx context.Context) (int, error) {
	total := 0
	for {
		n, err := p.match(ctx)
		if total += n; err != nil || n < receiptBatch {
			return total, err
		}
	}
}

func (p *Pusher) match(ctx context.Context) (int, error) {
	n, err := p.q.ReceiptMatch(ctx, receiptBatch)
	return int(n), postgres.Wrap("match receipts", err, nil)
}
