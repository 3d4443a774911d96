// Package callback defines the configuration of a provider's callbacks: how a callback proves its origin, and how its body is parsed (S3.11). The package
// does not use the database.
package callback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"lksms/internal/dispatch/driver"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/standardwebhooks"
)

// These are the fields of a sender's configuration that configure callbacks.
const (
	Field  = "callback"       // the value is a Config
	Secret = "callbackSecret" // the value is the key as text
)

// minSecret is the minimum length of a secret in bytes. A shorter secret can be guessed.
const minSecret = 16

// These are the values of Config.Verify.
const (
	Token            = "token" // the URL contains the secret as ?token=
	HMAC             = "hmac"
	StandardWebhooks = "standard-webhooks"
)

// Config describes the callbacks of a provider. List, Number, Recipient, State and Code are paths of fields in the JSON body. They describe the receipts. If
// Received is set, they can be missing: then the provider posts only messages.
type Config struct {
	Verify    string   `json:"verify"`
	Header    string   `json:"header"`    // for HMAC: the header with the signature of the body, in hex or base64
	Addresses []string `json:"addresses"` // networks from which callbacks are accepted; empty: all
	Format    string   `json:"format"`    // json (default) or form
	List      string   `json:"list"`      // path of the list of receipts; empty: the whole body is a receipt or a list of receipts
	Number    string   `json:"number"`    // path of the provider's id of the message
	Recipient string   `json:"recipient"` // path of the recipient; can be empty
	State     string   `json:"state"`     // path of the state
	Delivered []string `json:"delivered"` // values of State for delivered messages
	Pending   []string `json:"pending"`   // values of State for messages in transit; values in neither list mean undelivered
	Code      string   `json:"code"`
	Answer    Answer   `json:"answer"`

	Received *Received `json:"received"` // nil: the callbacks contain no messages
}

// Answer is the answer that a provider expects.
type Answer struct {
	Body        string `json:"body"`
	ContentType string `json:"contentType"`
}

// Split separates the callback fields from a sender's configuration with decrypted secrets. rest is the configuration without these fields. config is nil if
// the sender accepts no callbacks.
func Split(opened []byte) (rest []byte, config *Config, secret string, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(opened, &fields); err != nil {
		return nil, nil, "", fmt.Errorf("read config: %w", err)
	}
	if text, found := fields[Field]; found {
		config = &Config{}
		if err := driver.Read("config."+Field, text, config); err != nil {
			return nil, nil, "", err
		}
	}
	if text, found := fields[Secret]; found {
		if err := json.Unmarshal(text, &secret); err != nil {
			return nil, nil, "", fault.InvalidField("config."+Secret, fault.WrongType, "string")
		}
	}
	delete(fields, Field)
	delete(fields, Secret)
	rest, err = json.Marshal(fields)
	return rest, config, secret, err
}

// key returns the bytes of the key in a secret, or a fault if the secret is malformed.
func key(verify, secret string) ([]byte, error) {
	if verify != StandardWebhooks {
		return []byte(secret), nil
	}
	key, err := standardwebhooks.Key(secret)
	if err != nil {
		return nil, fault.InvalidField("config."+Secret, fault.WrongFormat, nil)
	}
	return key, nil
}

// CheckSecret rejects a malformed secret, and a secret that is too short. c can be nil.
func (c *Config) CheckSecret(secret string) error {
	key, err := key(c.Proof().Verify, secret)
	if err == nil && len(key) < minSecret {
		err = fault.InvalidField("config."+Secret, fault.TooShort, minSecret)
	}
	return err
}

// Check returns a fault if c is invalid or the secret is missing.
func (c *Config) Check(secret string) error {
	invalid := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.callback."+field, rule, limit)
	}
	allowed := []string{Token, HMAC, StandardWebhooks}
	switch {
	case !slices.Contains(allowed, c.Verify):
		return invalid("verify", fault.NotAllowed, allowed)
	case secret == "":
		return fault.InvalidField("config."+Secret, fault.Required, nil)
	case c.Verify == HMAC && c.Header == "":
		return invalid("header", fault.Required, nil)
	case c.Format != "" && c.Format != "json" && c.Format != "form":
		return invalid("format", fault.NotAllowed, []string{"json", "form"})
	case !c.HasReceipts():
	case c.Number == "":
		return invalid("number", fault.Required, nil)
	case c.State == "":
		return invalid("state", fault.Required, nil)
	case len(c.Delivered) == 0:
		return invalid("delivered", fault.Required, nil)
	}
	if _, err := outbound.Networks(c.Addresses); err != nil {
		return invalid("addresses", fault.WrongFormat, nil)
	}
	return c.Received.check()
}

// HasReceipts reports whether the callbacks contain receipts. c can be nil.
func (c *Config) HasReceipts() bool {
	return c != nil && (c.Received == nil || c.Number != "" || c.State != "" || len(c.Delivered) > 0)
}

// Review returns a fault for a configuration that Check accepts but that must not be saved, because one of its options can never have an effect. A sender that
// an earlier version saved with such a configuration continues to accept callbacks. c can be nil.
func (c *Config) Review() error {
	if c == nil {
		return nil
	}
	invalid := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.callback."+field, rule, limit)
	}
	switch {
	case c.Verify != HMAC && c.Header != "":
		return invalid("header", fault.OnlyTogether, "verify=hmac")
	case c.Header != "" && !httpguts.ValidHeaderFieldName(c.Header):
		return invalid("header", fault.BadCharacters, nil)
	case !c.HasReceipts() && (c.Recipient != "" || c.Code != "" || len(c.Pending) > 0):
		return invalid("number", fault.Required, nil)
	case slices.ContainsFunc(c.Pending, func(state string) bool { return slices.Contains(c.Delivered, state) }):
		return invalid("pending", fault.Duplicate, nil)
	case c.Format == "form":
		if err := c.reviewForm(); err != nil {
			return err
		}
	}
	return c.Received.review()
}

// reviewForm returns a fault for a path that no form contains. A form has no lists of items. A value of a form is a text, or a list of texts if its field is
// repeated.
func (c *Config) reviewForm() error {
	type path struct{ name, path string }
	paths := []path{{"number", c.Number}, {"recipient", c.Recipient}, {"state", c.State}, {"code", c.Code}}
	lists := []path{{"list", c.List}}
	if r := c.Received; r != nil {
		lists = append(lists, path{"received.list", r.List})
		paths = append(paths, path{"received.type", r.Type}, path{"received.from", r.From}, path{"received.country", r.Country}, path{"received.to", r.To},
			path{"received.content", r.Content}, path{"received.time", r.Time}, path{"received.messageNo", r.MessageNo})
	}
	for _, list := range lists {
		if list.path != "" {
			return fault.InvalidField("config.callback."+list.name, fault.NotTogether, "format=form")
		}
	}
	for _, field := range paths {
		if _, within, isNested := strings.Cut(field.path, "."); isNested {
			if _, err := strconv.ParseUint(within, 10, 16); err != nil {
				return fault.InvalidField("config.callback."+field.name, fault.NotTogether, "format=form")
			}
		}
	}
	return nil
}

// review returns a fault for an option that can never have an effect. r can be nil.
func (r *Received) review() error {
	switch {
	case r == nil:
	case r.International && r.Country != "":
		return fault.InvalidField("config.callback.received.country", fault.NotTogether, "international")
	case r.Offset != "" && r.Time == "":
		return fault.InvalidField("config.callback.received.offset", fault.OnlyTogether, "time")
	case r.Answer.ContentType != "" && r.Answer.Body == "":
		return fault.InvalidField("config.callback.received.answer.contentType", fault.OnlyTogether, "body")
	}
	return nil
}

// Proof is the method with which a provider proves its identity.
type Proof struct{ Verify, Header string }

// Proof returns the method with which callbacks prove their origin. If c is nil, Proof returns the zero Proof.
func (c *Config) Proof() (p Proof) {
	if c != nil {
		p.Verify = c.Verify
		if c.Verify == HMAC {
			p.Header = http.CanonicalHeaderKey(c.Header)
		}
	}
	return p
}
