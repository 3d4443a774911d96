package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// maxReceipts is the maximum number of receipts in a callback.
const maxReceipts = 1000

// These are the states of a message at a provider.
const (
	OnItsWay    = provider.OnItsWay
	Delivered   = provider.Delivered
	Undelivered = provider.Undelivered
)

// Receipt is the state of one message at the provider.
type Receipt = provider.Receipt

// Body contains what a body reports.
type Body struct {
	Receipts []Receipt
	Messages []Message
	LeftOut  int // number of list items that are neither receipts nor messages
}

// AnswerTo returns the answer to a callback with this body.
func (c *Config) AnswerTo(b Body) Answer {
	answer := c.Answer
	if c.Received != nil && len(b.Receipts) == 0 && len(b.Messages) > 0 && c.Received.Answer.Body != "" {
		answer = c.Received.Answer
	}
	if answer.ContentType == "" {
		answer.ContentType = "text/plain; charset=utf-8"
	}
	return answer
}

// Read parses the receipts and messages of a body. It returns a fault if the body has items and no item is a receipt or a message.
func (c *Config) Read(body []byte) (b Body, err error) {
	values, err := c.parse(body)
	if err != nil {
		return Body{}, err
	}
	var items []any
	for _, value := range values {
		items = append(items, c.items(value)...)
	}
	if len(items) > maxReceipts {
		return Body{}, fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	for _, item := range items {
		if c.Received != nil && c.Received.isMessage(item) {
			b.addMessage(c.Received, item)
			continue
		}
		if r, isReceipt := c.receipt(item); isReceipt {
			b.Receipts = append(b.Receipts, r)
		} else if c.Received != nil && c.Received.Type == "" {
			b.addMessage(c.Received, item)
		} else {
			b.LeftOut++
		}
	}
	if len(b.Receipts)+len(b.Messages) == 0 && b.LeftOut > 0 {
		return b, &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid, Fields: c.wrongFields(items[0])}
	}
	return b, nil
}

func (b *Body) addMessage(r *Received, item any) {
	if m, isMessage := r.read(item); isMessage {
		b.Messages = append(b.Messages, m)
	} else {
		b.LeftOut++
	}
}

// wrongFields returns the wrong fields of the first item, which is neither a receipt nor a message. If the configuration reads both kinds, these are the fields
// of the kind that has fewer wrong fields.
func (c *Config) wrongFields(item any) []fault.Field {
	r := c.Received
	switch {
	case r == nil || r.Type != "" && !r.isMessage(item) && c.HasReceipts():
		return unreadable(item, c.Number, c.State)
	case r.Type != "" && !r.isMessage(item):
		return []fault.Field{{Name: "body.0." + r.Type, Rule: fault.NotAllowed, Limit: r.Types}}
	}
	ofMessage := unreadable(item, r.From, r.Content)
	if c.HasReceipts() && !r.isMessage(item) {
		if ofReceipt := unreadable(item, c.Number, c.State); len(ofReceipt) <= len(ofMessage) {
			return ofReceipt
		}
	}
	return ofMessage
}

// unreadable returns faults of two fields of an item: each field must exist and contain a text or a number. The field number must also not be true, false or an
// empty text.
func unreadable(item any, number, other string) (wrong []fault.Field) {
	for _, path := range []string{number, other} {
		f, textAt := fault.Field{Name: "body.0." + path}, provider.TextAt
		if path == number {
			textAt = provider.NumberAt
		}
		switch value, isText := textAt(item, path); {
		case isText && (path == other || postgres.Text(value) != ""):
			continue
		case isText:
			f.Rule = fault.Empty
		case provider.ValueAt(item, path) == nil:
			f.Rule = fault.Required
		default:
			f.Rule, f.Limit = fault.WrongType, "string"
		}
		wrong = append(wrong, f)
	}
	return wrong
}

// parse returns the JSON values of a body: most bodies contain one, some contain several, for example one in each line. A form is one value. In it, a repeated
// field is a list. Fault: request.malformed, with the values before the malformed part.
func (c *Config) parse(body []byte) (values []any, err error) {
	body = bom.Decode(body)
	if c.Format == "form" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fault.New(fault.Malformed, fault.RequestMalformed)
		}
		return []any{fieldsOf(form)}, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		var value any
		if err := d.Decode(&value); errors.Is(err, io.EOF) && len(values) > 0 {
			return values, nil
		} else if err != nil {
			return values, fault.New(fault.Malformed, fault.RequestMalformed)
		}
		values = append(values, value)
	}
}

// fieldsOf returns the fields of a form. A repeated field is a list, as in JSON.
func fieldsOf(form url.Values) map[string]any {
	fields := map[string]any{}
	for name, texts := range form {
		list := make([]any, len(texts))
		for i, text := range texts {
			list[i] = string(bom.Decode([]byte(text)))
		}
		fields[name] = list
		if len(list) == 1 {
			fields[name] = list[0]
		}
	}
	return fields
}

// Values returns the texts and numbers of a JSON or form body, without the names of the fields.
func Values(body []byte) (all []string) {
	values, err := (&Config{}).parse(body)
	all = appendValues(nil, values)
	if err == nil {
		return all
	}
	form, _ := url.ParseQuery(string(body)) // contains the fields that can be read
	for _, values := range form {
		all = append(all, values...)
	}
	return all
}

func appendValues(all []string, value any) []string {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			all = appendValues(all, item)
		}
	case map[string]any:
		for _, item := range value {
			all = appendValues(all, item)
		}
	default:
		all = append(all, provider.Text(value))
	}
	return all
}

// items returns the items of the list of receipts, and of the list of messages if this is a different list. One of the two lists can be missing.
func (c *Config) items(whole any) []any {
	receipts := valueAt(whole, c.List)
	if c.Received == nil || c.Received.List == "" || c.Received.List == c.List {
		return listOf(receipts)
	}
	messages := valueAt(whole, c.Received.List)
	switch {
	case messages == nil:
		return listOf(receipts)
	case receipts == nil || c.List == "":
		return listOf(messages)
	}
	return slices.Concat(listOf(receipts), listOf(messages))
}

func valueAt(whole any, path string) any {
	if path == "" {
		return whole
	}
	return provider.ValueAt(whole, path)
}

// listOf returns the items of a list, or another value as the only item.
func listOf(value any) []any {
	if items, isList := value.([]any); isList {
		return items
	}
	return []any{value}
}

// receipt returns the receipt in an item. isReceipt is false if the item has no number or no state.
func (c *Config) receipt(item any) (r Receipt, isReceipt bool) {
	number, hasNumber := provider.NumberAt(item, c.Number)
	state, hasState := provider.TextAt(item, c.State)
	if !hasNumber || !hasState || FittingNumber(number) == "" {
		return r, false
	}
	r = Receipt{Number: number, State: Undelivered}
	switch {
	case provider.IsOneOf(c.Delivered, state):
		r.State = Delivered
	case provider.IsOneOf(c.Pending, state):
		r.State = OnItsWay
	}
	r.Recipient, _ = provider.TextAt(item, c.Recipient)
	var hasCode bool
	if r.Code, hasCode = provider.TextAt(item, c.Code); !hasCode {
		r.Code = state
	}
	return Fitting(r), true
}

// Fitting returns a receipt of a provider in a form that can be stored: texts that are too long are cut, and characters that PostgreSQL cannot store are removed.
// A provider that repeats a rejected receipt would otherwise repeat it until it gives up.
func Fitting(r Receipt) Receipt {
	r.Number = FittingNumber(r.Number)
	r.Recipient, r.Code = characters.First(postgres.Text(r.Recipient), 100), characters.First(postgres.Text(r.Code), 100)
	return r
}

// FittingNumber returns a provider's number in a form that can be stored, without surrounding white space and cut in the same way as the number of a sent
// message. It is empty if the number contains nothing else.
func FittingNumber(number string) string {
	return characters.First(strings.TrimSpace(postgres.Text(number)), 200)
}
