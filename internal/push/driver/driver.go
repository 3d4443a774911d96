// Package driver brings messages to providers. A driver knows how one kind of provider is spoken to, and nothing of queues:
// it is given messages that are rendered, and says of each what became of it (S1.8).
package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lksms/internal/fault"
	"lksms/internal/outbound"
)

// Message is one message to one recipient.
type Message struct {
	TaskID     string
	Attempt    int16
	Recipient  string // the address on the channel
	UserID     string // of a notification; may be empty
	Title      string // of a notification; may be empty
	Content    string
	TemplateID string          // the provider's name of the template; may be empty
	Params     json.RawMessage // an object: what the template is filled with; may be nil
	Page       string          // to open; may be empty
	Group      int64           // messages of one group differ in nothing but the recipient; 0: of none
}

// Outcome is what is known of a message that was tried: it went out (OK), nobody knows whether it did (Unknown), the sender
// cannot send at all (Trouble), or the provider refused this message.
type Outcome struct {
	OK         bool
	Unknown    bool          // the provider may have it: there was no answer, or none that can be understood
	Trouble    bool          // a wrong key, a wrong address, nobody there: no message is to blame, and none went out
	Permanent  bool          // of a refusal: trying again is of no use
	Outage     bool          // the provider is to blame, and no message: it did not answer, or said that it is broken or too busy
	Unasked    bool          // the message cannot be sent as it is; the provider was not asked
	ProviderNo string        // what the provider calls it; may be empty
	Code       string        // the provider's word for a failure; may be empty
	Error      string        // the failure in words
	RetryAfter time.Duration // of a refusal: when to try again; 0: as the channel does
	Rest       Rest          // of Trouble
}

// Rest is how long a sender in trouble must not send, where the provider said so.
type Rest struct {
	For   time.Duration // 0: as the circuit breaker decides
	DayOf string        // a time zone: until the next day begins there; empty: none
}

// untried is the outcome of a call that ended before it had reached anybody, because its time was up.
var untried = Outcome{}

// Driver sends. It is used by one goroutine at a time.
type Driver interface {
	// Send tells of each message what became of it, by its place in messages, as soon as that is known, and at most once. tell
	// may be called by several goroutines at once, and by none after Send has returned. A message that is not told of was not
	// tried: the time of ctx was nearly up, or the sender is in trouble. Once ctx ends, Send returns soon.
	Send(ctx context.Context, messages []Message, tell func(i int, o Outcome))

	// Target names the provider that is called: two that differ are two parties, or one of them is called without encryption. Empty:
	// nobody is called.
	Target() string
}

// Tools are what drivers are made with.
type Tools struct {
	Outbound outbound.Policy
	Log      *slog.Logger
	// Token gives what opens a provider's interface. One process fetches it for all. A stale one is not given again.
	Token func(ctx context.Context, stale string, fetch func(ctx context.Context) (token string, lasts time.Duration, err error)) (string, error)
}

// kind is how drivers of a name are made.
type kind struct {
	secrets []string // of the top level of the configuration
	address string   // the field with the address that is called, which may hold a token; empty: none
	batch   int      // most messages in a Send
	merges  bool     // it sends all messages of a group in one call
	make    func(config []byte, t Tools) (Driver, error)
}

var kinds = map[string]kind{
	"log":      {nil, "", 1000, false, newLog},
	"dingtalk": {nil, "baseUrl", 1000, true, newDingTalk},
	"oa":       {[]string{"secret"}, "url", 100, false, newOA},
	"wechat":   {[]string{"appSecret"}, "baseUrl", 100, false, newWeChat},
	"email":    {[]string{"password"}, "", 100, false, newEmail},
	"http-sms": {[]string{"secrets"}, "url", 100, false, newHTTPSMS},
}

// Kinds names the drivers there are.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Secrets names the fields of a driver's configuration that are kept sealed.
func Secrets(name string) []string { return kinds[name].secrets }

// Address names the field of a driver's configuration with the address that it calls; empty: it has none.
func Address(name string) string { return kinds[name].address }

// Batch is how many messages a driver takes at once.
func Batch(name string) int { return kinds[name].batch }

// Merges reports whether a driver sends all messages of a group in one call.
func Merges(name string) bool { return kinds[name].merges }

// New makes a driver. A fault names what is wrong with config, a JSON object.
func New(name string, config []byte, t Tools) (Driver, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, fault.InvalidField("kind", fault.NotAllowed, Kinds())
	}
	return k.make(config, t)
}

// read reads a configuration; a fault names the field that is not known or of the wrong type.
func read[Config any](text []byte, config *Config) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(config)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fault.InvalidField("config."+wrong.Field, fault.WrongType, nil)
	default:
		return unknown(err)
	}
}

// unknown names the field that the decoder did not know, for which it has no type.
func unknown(err error) error {
	var name string
	if n, _ := fmt.Sscanf(err.Error(), "json: unknown field %q", &name); n == 1 {
		return fault.InvalidField("config."+name, fault.UnknownField, nil)
	}
	return fault.InvalidField("config", fault.NothingElseIsKnown, nil)
}

// given is a field of a configuration.
type given struct{ name, value string }

// required names the first field that is empty.
func required(fields ...given) error {
	for _, f := range fields {
		if f.value == "" {
			return fault.InvalidField("config."+f.name, fault.Required, nil)
		}
	}
	return nil
}

// Timeouts of a call to a provider.
const (
	usualTimeout   = 10 * time.Second
	longestTimeout = 60
)

// timeout is a configured number of seconds.
func timeout(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > longestTimeout {
		return 0, fault.InvalidField("config.timeoutSeconds", fault.TooBig, longestTimeout)
	}
	if seconds == 0 {
		return usualTimeout, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// address checks an address that is to be called.
func address(field, text string) error {
	req, err := http.NewRequest(http.MethodGet, text, nil) //nolint:noctx // it is not sent
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "https" && req.URL.Scheme != "http" {
		return fault.InvalidField("config."+field, fault.WrongFormat, nil)
	}
	return nil
}

// target is the scheme, the host and the port of an address that was checked.
func target(text string) string {
	to, err := url.Parse(text)
	if err != nil {
		return ""
	}
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	return to.Scheme + "://" + net.JoinHostPort(strings.ToLower(to.Hostname()), port)
}

// failed is the outcome of a call that got no whole answer. Before there was a connection nobody can have got the message.
func failed(ctx context.Context, err error) Outcome {
	switch {
	case errors.Is(err, outbound.ErrUnclear):
		return Outcome{Unknown: true, Outage: true, Code: "no_answer", Error: plain(err)}
	case errors.Is(err, outbound.ErrRefused):
		return Outcome{Trouble: true, Code: "address_denied", Error: plain(err)}
	case ctx.Err() != nil:
		return untried
	default:
		return Outcome{Trouble: true, Code: "unreachable", Error: plain(err)}
	}
}

// plain says why a call got no answer without its address, which may hold a secret.
func plain(err error) string {
	var timeout interface{ Timeout() bool }
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, outbound.ErrRefused):
		return "the address of the provider is not allowed"
	case errors.Is(err, outbound.ErrTooLarge):
		return "the provider's answer is too large"
	case errors.As(err, &name):
		return "the name of the provider's host could not be resolved"
	case errors.As(err, &certificate):
		return "the provider's certificate is not trusted"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the provider did not answer in time"
	case errors.Is(err, outbound.ErrUnclear):
		return "the provider broke off its answer"
	default:
		return "the provider could not be reached"
	}
}

// call sends a request. An outcome says why there is no answer; the body of an answer that says no by its status may be cut.
func call(client *http.Client, req *http.Request) (status int, body []byte, o *Outcome) {
	status, body, err := outbound.Do(client, req)
	if err != nil && (status == 0 || status < 300) {
		o := failed(req.Context(), err)
		return status, nil, &o
	}
	return status, body, nil
}

// post calls an address with body as JSON. An outcome says why there is no answer.
func post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) (status int, answer []byte, o *Outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		o := failed(ctx, err)
		return 0, nil, &o
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	return call(client, req)
}

// unwritable is the outcome of a message of which no request can be made.
var unwritable = Outcome{Permanent: true, Unasked: true, Code: "unwritable", Error: "the request could not be written"}

// text writes what may be a number or a string in JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprint(v)
	}
}
