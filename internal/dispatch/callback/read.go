package callback

import (
	"bytes"
	"encoding/json"
	"net/url"

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
	OnItsWay int16 = iota
	Delivered
	Undelivered
)

// Receipt is the state of one message at the provider.
type Receipt struct {
	Number, Recipient, Code string
	State                   int16
}

// Read parses the receipts of a body. leftOut is the number of list items that are not receipts. Read returns a fault if the body has items and no item is a
// receipt.
func (c *Config) Read(body []byte) (all []Receipt, leftOut int, err error) {
	body = bom.Decode(body)
	var whole any
	if c.Format == "form" {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, 0, fault.New(fault.Malformed, fault.RequestMalformed)
		}
		fields := map[string]any{}
		for name := range form {
			fields[name] = string(bom.Decode([]byte(form.Get(name))))
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
		whole = provider.At(whole, c.List)
	}
	items, isList := whole.([]any)
	if !isList {
		items = []any{whole}
	}
	if len(items) > maxReceipts {
		return nil, 0, fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	for _, item := range items {
		number, hasNumber := provider.Field(item, c.Number)
		state, hasState := provider.Field(item, c.State)
		number = characters.First(postgres.Text(number), 200) // cut in the same way as the number of a sent message
		if !hasNumber || !hasState || number == "" {
			leftOut++
			continue
		}
		r := Receipt{Number: number, State: Undelivered}
		switch {
		case provider.IsOneOf(c.Delivered, state):
			r.State = Delivered
		case provider.IsOneOf(c.Pending, state):
			r.State = OnItsWay
		}
		r.Recipient, _ = provider.Field(item, c.Recipient)
		var hasCode bool
		if r.Code, hasCode = provider.Field(item, c.Code); !hasCode {
			r.Code = state
		}
		r.Recipient, r.Code = characters.First(postgres.Text(r.Recipient), 100), characters.First(postgres.Text(r.Code), 100)
		all = append(all, r)
	}
	if len(all) == 0 && leftOut > 0 {
		return nil, leftOut, fault.InvalidField("body.0", fault.MissingParameters, []string{c.Number, c.State})
	}
	return all, leftOut, nil
}
