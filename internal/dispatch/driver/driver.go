// Package driver owns the protocols of providers, one file for each kind. A driver knows nothing of queues: it gets
// rendered messages, and reports the outcome of each (S1.8).
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
	"reflect"
	"slices"
	"strings"
	"time"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/tracing"
)

// Message is one message to one recipient.
type Message struct {
	TaskID      string
	Attempt     int16
	LeaseID     int64      // of this attempt; no other attempt of any task has it
	EnteredAt   *time.Time // when the task began to wait: the same for each attempt until a requeue; nil: not known
	Recipient   string     // the address on the channel
	UserID      string     // user of a notification; can be empty
	Title       string     // title of a notification; can be empty
	Content     string
	Sign        string          // the signature with which Content begins, or that the provider adds, without its brackets; empty: none
	HTML        string          // Content as HTML, for channels that show it; empty: none
	TemplateID  string          // the provider's id of the template; can be empty
	Params      json.RawMessage // JSON object with the values for the template; can be nil
	Page        string          // page that the message opens; can be empty
	Traceparent string          // of the submission; empty: none
	Group       int64           // messages of one group differ only in the recipient; 0: no group
	IsOfBatch   bool            // the message is from an uploaded list
	ValidUntil  time.Time       // no attempt starts after it; zero: at any time
}

// enteredUnixMs returns EnteredAt in milliseconds; 0: not known.
func (m *Message) enteredUnixMs() int64 {
	if m.EnteredAt == nil {
		return 0
	}
	return m.EnteredAt.UnixMilli()
}

// isExpired reports whether the message must not be sent any more.
func (m *Message) isExpired() bool { return !m.ValidUntil.IsZero() && !time.Now().Before(m.ValidUntil) }

// Outcome is the result of trying a message: it was sent (OK), it is not known whether it was sent (Unknown), the
// sender cannot send at all (Trouble), or the provider refused this message (none of the three).
type Outcome struct {
	OK         bool
	Unknown    bool          // the provider may have the message: no answer came, or none that can be understood
	Trouble    bool          // wrong credentials, a wrong address, no connection: not the message's fault, and it was not sent
	Permanent  bool          // of a refusal: a retry is useless
	Outage     bool          // the provider's fault, not the message's: it gave no answer, or said that it is broken or too busy
	Unasked    bool          // the message itself cannot be sent; the provider was not called
	ProviderNo string        // the provider's id of the message; can be empty
	Code       string        // the provider's code of a failure; can be empty
	Error      string        // the failure as text
	Answer     string        // the provider's answer as it came, without secrets, at most AnswerMost characters; empty: none came
	RetryAfter time.Duration // of a refusal: time until the retry; 0: the delay of the channel
	Pause      Pause         // of Trouble: the pause that the provider asked for
}

// Pause is the pause that a provider asked for.
type Pause struct {
	For   time.Duration // 0: the circuit breaker decides
	DayOf string        // time zone: pause until the next day begins there; empty: none
}

// The kinds of outcomes.
const (
	Sent    = "sent"
	Refused = "refused"
	Unclear = "unclear"
	Trouble = "trouble"
)

// IsUnread reports whether an answer came that could not be understood.
func (o Outcome) IsUnread() bool { return o.Unknown && !o.Outage }

// IsCall reports whether the provider was called.
func (o Outcome) IsCall() bool { return o != untried && !o.Unasked }

// Kind returns the kind of an outcome.
func (o Outcome) Kind() string {
	switch {
	case o.OK:
		return Sent
	case o.Unknown:
		return Unclear
	case o.Trouble:
		return Trouble
	default:
		return Refused
	}
}

// untried is the outcome of a message that expired or was held, or of a call whose time ended, before it reached the provider.
var untried = Outcome{}

// Driver sends messages. One goroutine at a time uses it.
type Driver interface {
	// Send reports the outcome of each message by its index in messages, as soon as it is known, and at most once.
	// report must be safe for several goroutines at once, and is not called after Send has returned. A message
	// without a report was not tried: it had expired, MayBegin refused it, the time of ctx was nearly over, or the sender is in trouble. Send
	// returns soon after the end of ctx.
	Send(ctx context.Context, messages []Message, report func(i int, o Outcome))

	// Target identifies the provider that is called, or the providers. Two targets that differ are two providers, or one of them is
	// called without encryption. Empty: no provider is called.
	Target() string
}

// Tools are the dependencies of drivers.
type Tools struct {
	Outbound outbound.Policy
	Log      *slog.Logger
	// Began is called when an attempt begins to call the provider for a message, which may stand for others of its group. The attempt runs with
	// the returned context. ended is called with its outcome. Nil: nobody follows attempts.
	Began func(ctx context.Context, m Message) (_ context.Context, ended func(o Outcome))
	// MayBegin is called right before each call to the provider, with each message of the call. A message for which it returns false is not sent.
	// Nil: each message may be sent.
	MayBegin func(ctx context.Context, m Message) bool
	// Asked is called with each request for a message, without secrets. Nil: nobody asks for them.
	Asked func(r Request)
	// Secrets are secrets of the sender that its configuration does not hold. They are hidden in answers.
	Secrets []string
	// Token returns the access token for a provider. One process fetches it for all. The stale one is not returned
	// again.
	Token func(ctx context.Context, stale string, fetch func(ctx context.Context) (token string, lasts time.Duration, err error)) (string, error)

	mask mask // hides the secrets of the configuration
}

// kind describes the drivers of one name.
type kind struct {
	secrets   []string // top-level fields of the configuration that hold secrets
	addresses []string // fields with the URLs that are called, which may hold a token
	batch     int      // maximum number of messages in one Send
	merges    bool     // one call sends all messages of a group
	signs     bool     // the provider adds a signature to every message
	make      func(config []byte, t Tools) (Driver, error)
}

var kinds = map[string]kind{
	"log":         {batch: 1000, make: newLog},
	"dingtalk":    {addresses: []string{"baseUrl"}, batch: 1000, merges: true, make: newDingTalk},
	"oa":          {secrets: []string{"secret"}, addresses: []string{"url"}, batch: 100, make: newOA},
	"wechat":      {secrets: []string{"appSecret"}, addresses: []string{"baseUrl"}, batch: 100, make: newWeChat},
	"email":       {secrets: []string{"password"}, batch: 100, make: newEmail},
	"http-sms":    {secrets: []string{"secrets"}, addresses: []string{"url", "batchUrl"}, batch: 100, make: newHTTPSMS},
	"aliyun-sms":  {secrets: []string{"accessKeySecret"}, addresses: []string{"baseUrl"}, batch: 100, signs: true, make: newAliyun},
	"tencent-sms": {secrets: []string{"secretKey"}, addresses: []string{"baseUrl"}, batch: 100, signs: true, make: newTencent},
}

// Kinds returns the names of the drivers.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Secrets returns the fields of a driver's configuration that are stored sealed.
func Secrets(name string) []string { return kinds[name].secrets }

// Addresses returns the fields of a driver's configuration with the URLs that it calls.
func Addresses(name string) []string { return kinds[name].addresses }

// IsAddress reports whether a field of a driver's configuration has a URL that it calls.
func IsAddress(name, field string) bool { return slices.Contains(kinds[name].addresses, field) }

// Batch is the maximum number of messages in one Send of a driver.
func Batch(name string) int { return kinds[name].batch }

// Merges reports whether a driver sends all messages of a group in one call.
func Merges(name string) bool { return kinds[name].merges }

// Signs reports whether the provider of a driver adds a signature to every message, so that none goes out without.
func Signs(name string) bool { return kinds[name].signs }

// New returns a driver. A fault names what is wrong with config, a JSON object.
func New(name string, config []byte, t Tools) (Driver, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, fault.InvalidField("kind", fault.NotAllowed, Kinds())
	}
	if t.Began == nil {
		t.Began = func(ctx context.Context, _ Message) (context.Context, func(Outcome)) { return ctx, func(Outcome) {} }
	}
	if t.MayBegin == nil {
		t.MayBegin = func(context.Context, Message) bool { return true }
	}
	t.mask = maskOf(k, config, t.Secrets)
	return k.make(config, t)
}

// Review returns a fault for a configuration that a driver runs, but that no sender may be saved with: it would take messages that reach nobody,
// or take each answer for a success. Senders that were saved with it by an earlier version go on.
func Review(d Driver) error {
	if reviewed, is := d.(interface{ review() error }); is {
		return reviewed.review()
	}
	return nil
}

// read reads a configuration as Read does.
func read[Config any](text []byte, config *Config) error { return Read("config", text, config) }

// Read reads the object of a field, such as config. A fault names a field in it that is unknown, or has another type than it must have.
func Read(name string, text []byte, config any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(config)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fault.InvalidField(strings.TrimSuffix(name+"."+wrong.Field, "."), fault.WrongType, typeOf(wrong.Type))
	default:
		return unknownField(name, err)
	}
}

// typeOf returns the type of JSON that a Go type is read from.
func typeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "object"
	default:
		return "integer"
	}
}

// unknownField names the field that the decoder did not know. The decoder has no type for this error.
func unknownField(name string, err error) error {
	var unknown string
	if n, _ := fmt.Sscanf(err.Error(), "json: unknown field %q", &unknown); n == 1 {
		return fault.InvalidField(name+"."+unknown, fault.UnknownField, nil)
	}
	return fault.InvalidField(name, fault.NothingElseIsKnown, nil)
}

// field is a field of a configuration.
type field struct{ name, value string }

// required returns a fault that names the first empty field.
func required(fields ...field) error {
	for _, f := range fields {
		if f.value == "" {
			return fault.InvalidField("config."+f.name, fault.Required, nil)
		}
	}
	return nil
}

// Timeouts of a call to a provider. The longest one is in seconds.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 60
)

// timeout converts a configured number of seconds; 0 means the default.
func timeout(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > maxTimeout {
		return 0, fault.InvalidField("config.timeoutSeconds", fault.TooBig, maxTimeout)
	}
	if seconds == 0 {
		return defaultTimeout, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// atOnce bounds a configured number of concurrent calls; 0 means the default.
func atOnce(n *int) error {
	if *n < 0 || *n > httpAtOnceMost {
		return fault.InvalidField("config.atOnce", fault.TooBig, httpAtOnceMost)
	}
	if *n == 0 {
		*n = 8
	}
	return nil
}

// address checks that text is an HTTP URL.
func address(field, text string) error {
	req, err := http.NewRequest(http.MethodGet, text, nil) //nolint:noctx // the request is not sent
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "https" && req.URL.Scheme != "http" {
		return fault.InvalidField("config."+field, fault.WrongFormat, nil)
	}
	return nil
}

// target returns the scheme, the host and the port of a checked URL.
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

// failed returns the outcome of a call without a complete answer. Without a connection, nobody can have the message.
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

// plain describes why a call got no answer, without the URL, which may hold a secret.
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
		return "the provider's answer is incomplete"
	default:
		return "the provider could not be reached"
	}
}

// traceHeader is the header by which a provider can continue the trace of a submission. The configuration of a sender may set another value.
const traceHeader = "Traceparent"

// call sends a request. A non-nil outcome says why no answer came. The body of an error answer may be incomplete.
func call(client *http.Client, req *http.Request) (status int, body []byte, o *Outcome) {
	if traceparent := tracing.Header(req.Context()); traceparent != "" && req.Header.Get(traceHeader) == "" {
		req.Header.Set(traceHeader, traceparent)
	}
	status, body, err := outbound.Do(client, req)
	if err != nil && (status == 0 || status < 300) {
		o := failed(req.Context(), err)
		return status, nil, &o
	}
	return status, body, nil
}

// post sends body as JSON to a URL. A non-nil outcome says why no answer came.
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

// unwritable is the outcome of a message for which no request can be built.
var unwritable = Outcome{Permanent: true, Unasked: true, Code: "unwritable", Error: "the request could not be written"}

// text converts a JSON number or string to text.
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
