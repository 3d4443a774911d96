// Package callback knows how a provider's callbacks prove where they come from and how they are read (S3.11). It knows nothing of the
// database.
package callback

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"lksms/internal/fault"
	"lksms/internal/outbound"
)

// The fields of a sender's configuration that are about callbacks.
const (
	Field  = "callback"       // a Config
	Secret = "callbackSecret" // the text of a key
)

// SecretLeast is how many bytes a secret has: fewer can be guessed.
const SecretLeast = 16

// The ways of Config.Verify.
const (
	Token            = "token" // the address has the secret as ?token=
	HMAC             = "hmac"
	StandardWebhooks = "standard-webhooks"
)

// Config says how a provider reports what became of messages. Fields of the body are named by their way through the JSON.
type Config struct {
	Verify    string   `json:"verify"`
	Header    string   `json:"header"`    // of HMAC: has the signature of the body, in hex or base64
	Addresses []string `json:"addresses"` // networks it may come from; anywhere if none
	Format    string   `json:"format"`    // json (default) or form
	List      string   `json:"list"`      // the field with the list of receipts; without it the body is one, or a list
	Number    string   `json:"number"`    // the field with the provider's number of the message
	Recipient string   `json:"recipient"` // the field with the recipient; may be empty
	State     string   `json:"state"`
	Delivered []string `json:"delivered"` // values of state
	Pending   []string `json:"pending"`   // values of state that are not final; any other means undelivered
	Code      string   `json:"code"`
	Answer    struct {
		Body        string `json:"body"`
		ContentType string `json:"contentType"`
	} `json:"answer"`
}

// Split takes what is about callbacks out of a sender's configuration whose secrets are open. config is nil if callbacks are not taken.
func Split(opened []byte) (rest []byte, config *Config, secret string, err error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(opened, &fields); err != nil {
		return nil, nil, "", fmt.Errorf("read config: %w", err)
	}
	if text, said := fields[Field]; said {
		config = &Config{}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(config); err != nil {
			return nil, nil, "", fault.InvalidField("config."+Field, fault.NothingElseIsKnown, nil)
		}
	}
	if text, said := fields[Secret]; said {
		if err := json.Unmarshal(text, &secret); err != nil {
			return nil, nil, "", fault.InvalidField("config."+Secret, fault.WrongType, "string")
		}
	}
	delete(fields, Field)
	delete(fields, Secret)
	rest, err = json.Marshal(fields)
	return rest, config, secret, err
}

// key is the key that a secret stands for. A fault says that it stands for none.
func key(verify, secret string) ([]byte, error) {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok && verify == StandardWebhooks {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fault.InvalidField("config."+Secret, fault.WrongFormat, nil)
		}
		return key, nil
	}
	return []byte(secret), nil
}

// CheckSecret rejects a secret that can be guessed. c may be nil.
func (c *Config) CheckSecret(secret string) error {
	key, err := key(c.Proof().Verify, secret)
	if err == nil && len(key) < SecretLeast {
		err = fault.InvalidField("config."+Secret, fault.TooShort, SecretLeast)
	}
	return err
}

// Check finds what is wrong with c.
func (c *Config) Check(secret string) error {
	named := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.callback."+field, rule, limit)
	}
	ways := []string{Token, HMAC, StandardWebhooks}
	switch {
	case !slices.Contains(ways, c.Verify):
		return named("verify", fault.NotAllowed, ways)
	case secret == "":
		return fault.InvalidField("config."+Secret, fault.Required, nil)
	case c.Verify == HMAC && c.Header == "":
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

// Proof is how a provider proves who it is.
type Proof struct{ Verify, Header string }

// Proof returns how callbacks are proven; the zero Proof if c is nil.
func (c *Config) Proof() (p Proof) {
	if c != nil {
		p.Verify = c.Verify
		if c.Verify == HMAC {
			p.Header = http.CanonicalHeaderKey(c.Header)
		}
	}
	return p
}
