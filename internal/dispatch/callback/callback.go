// Package callback defines the configuration of a provider's callbacks: how a callback proves its origin, and how its body is parsed (S3.11). The package
// does not use the database.
package callback

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"lksms/internal/dispatch/driver"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/standardwebhooks"
)

// These are the fields of a sender's configuration that configure callbacks.
const (
	Field  = "callback"       // contains a Config
	Secret = "callbackSecret" // the key as text
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
	case c.Format == "form" && c.List != "":
		return invalid("list", fault.NotTogether, "format=form")
	case c.Format == "form" && c.Received != nil && c.Received.List != "":
		return invalid("received.list", fault.NotTogether, "format=form")
	case !c.hasReceipts():
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

// hasReceipts reports whether the callbacks contain receipts.
func (c *Config) hasReceipts() bool {
	return c.Received == nil || c.Number != "" || c.State != "" || len(c.Delivered) > 0
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
