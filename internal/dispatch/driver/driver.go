// Package driver owns the protocols of providers, with one file per kind of driver. A driver does not depend on the queue: its input is rendered
// messages, and its output is the outcome of each message (S1.8).
package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
)

// Driver sends messages. Only one goroutine at a time calls Send.
type Driver interface {
	// Send sends messages and calls report with the index and the outcome of each message, as soon as the outcome is known. It calls report at most
	// once per message, from several goroutines at once, and never after Send has returned. A message without a report was not tried: the message had
	// expired, MayBegin refused it, the time of ctx was nearly over, or the sender is in trouble. Send returns soon after ctx ends, or the contexts of Tools.Rest.
	Send(ctx context.Context, messages []provider.Message, report func(i int, o provider.Outcome))

	// Target identifies the called provider or providers. Different targets mean different providers, or the same provider with and without
	// encryption. An empty target means that the driver calls no provider.
	Target() string
}

// Linked is a Driver that sends through permanent connections to its provider, the links. Send uses the links that are open in this process.
type Linked interface {
	Driver
	// Batch returns the maximum number of messages in the next Send: as many as can be sent at once and soon.
	Batch() int
	// Finish makes Send begin no further message, and waits until those that were begun have ended, or the provider does not answer. The links stay open.
	Finish(ctx context.Context)
	// Links returns the number of links.
	Links() int
	// Run keeps the link nth (from 1) open until ctx ends. It then closes the link within two seconds, and returns.
	Run(ctx context.Context, nth int)
	// State returns the state of the link nth.
	State(nth int) provider.LinkState
	// Record records the PDUs of the link nth, or none if from is zero. It discards what was recorded with another from, which names the recording.
	Record(nth int, from time.Time)
	// Recorded returns the name of the recording of the link nth, and the last hundred PDUs since the call before.
	Recorded(nth int) (from time.Time, pdus []provider.PDU)
}

// kind describes a kind of driver.
type kind struct {
	secrets   []string // top-level fields of the configuration that contain secrets
	addresses []string // fields with the called URLs; a URL can contain a token
	batch     int      // maximum number of messages in one Send
	merges    bool     // one call sends all messages of a group
	signs     bool     // the provider adds a signature to every message
	make      func(config []byte, t provider.Tools) (Driver, error)
}

var kinds = map[string]kind{
	"log":         {batch: 1000, make: newLog},
	"dingtalk":    {addresses: []string{"baseUrl"}, batch: 1000, merges: true, make: newDingTalk},
	"oa":          {secrets: []string{"secret"}, addresses: []string{"url"}, batch: 100, make: newOA},
	"wechat":      {secrets: []string{"appSecret"}, addresses: []string{"baseUrl"}, batch: 100, make: newWeChat},
	"email":       {secrets: []string{"password"}, batch: 100, make: newEmail},
	"http-sms":    {secrets: []string{"secrets"}, addresses: []string{"url", "batchUrl"}, batch: 100, make: newHTTPSMS},
	"aliyun-sms":  {secrets: []string{"accessKeySecret"}, addresses: []string{"baseUrl"}, batch: 100, signs: true, make: newAliyun},
	"smpp":        {secrets: []string{"password"}, batch: 500, make: newSMPP},
	"cmpp":        {secrets: []string{"shared_secret"}, batch: 500, make: newCMPP},
	"tencent-sms": {secrets: []string{"secretKey"}, addresses: []string{"baseUrl"}, batch: 100, signs: true, make: newTencent},
}

// Kinds returns the names of all kinds of drivers, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Secrets returns the names of the configuration fields that are stored encrypted.
func Secrets(name string) []string { return kinds[name].secrets }

// Addresses returns the names of the configuration fields with the URLs that a driver calls.
func Addresses(name string) []string { return kinds[name].addresses }

// IsAddress reports whether a configuration field contains a URL that the driver calls.
func IsAddress(name, field string) bool { return slices.Contains(kinds[name].addresses, field) }

// MaxBatch returns the maximum number of messages in one Send of a driver.
func MaxBatch(name string) int { return kinds[name].batch }

// Merges reports whether a driver sends all messages of a group in one call.
func Merges(name string) bool { return kinds[name].merges }

// AlwaysSigns reports whether the provider of a driver adds a signature to every message. Such a provider cannot send a message without a signature.
func AlwaysSigns(name string) bool { return kinds[name].signs }

// New returns a driver. config is a JSON object. A fault names the error in config.
func New(name string, config []byte, t provider.Tools) (Driver, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, fault.InvalidField("kind", fault.NotAllowed, Kinds())
	}
	if t.Began == nil {
		t.Began = func(ctx context.Context, _ provider.Message) (context.Context, func(provider.Outcome)) {
			return ctx, func(provider.Outcome) {}
		}
	}
	if t.MayBegin == nil {
		t.MayBegin = func(context.Context, provider.Message) bool { return true }
	}
	t.Mask = provider.MaskOf(k.secrets, k.addresses, config, t.Secrets)
	return k.make(config, t)
}

// Review returns a fault for a configuration that New accepts but that must not be saved: its messages would reach nobody, every answer would count as
// success, no answer or receipt would be understood, or one of its options could have no effect. A sender that an earlier version saved with such a
// configuration continues to send. hasReceipts is true if the sender accepts receipts.
func Review(d Driver, hasReceipts bool) error {
	if reviewed, is := d.(interface{ review(hasReceipts bool) error }); is {
		return reviewed.review(hasReceipts)
	}
	return nil
}

// read calls Read for the field config.
func read[Config any](text []byte, config *Config) error { return Read("config", text, config) }

// Read decodes the JSON object of a configuration field, for example config. A fault names a member that is unknown or has the wrong type.
func Read(name string, text []byte, config any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber() // a number of the body can have more digits than a float64
	err := d.Decode(config)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fault.InvalidField(strings.TrimSuffix(name+"."+wrong.Field, "."), fault.WrongType, typeOf(wrong.Type))
	default:
		var value any
		if json.Unmarshal(text, &value) == nil {
			if unknown := unknownMember(value, reflect.TypeOf(config)); unknown != "" {
				return fault.InvalidField(name+unknown, fault.UnknownField, nil)
			}
		}
		return fault.InvalidField(name, fault.NothingElseIsKnown, nil)
	}
}

// typeOf returns the JSON type for a Go type.
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

// field is the name and the value of a configuration field.
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

// defaultTimeout and maxTimeout limit a call to a provider.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 60
)

// timeout converts a configured timeout from seconds. 0 means defaultTimeout.
func timeout(seconds float64) (time.Duration, error) {
	if seconds < 0 || seconds > maxTimeout {
		return 0, fault.InvalidField("config.timeoutSeconds", fault.TooBig, maxTimeout)
	}
	if seconds == 0 {
		return defaultTimeout, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// atOnce checks a configured number of concurrent calls. 0 means the default.
func atOnce(n *int) error {
	if *n < 0 || *n > maxHTTPAtOnce {
		return fault.InvalidField("config.atOnce", fault.TooBig, maxHTTPAtOnce)
	}
	if *n == 0 {
		*n = 8
	}
	return nil
}

// address checks that text is an HTTP or HTTPS URL.
func address(field, text string) error {
	req, err := http.NewRequest(http.MethodGet, text, nil) //nolint:noctx // the request is not sent
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "https" && req.URL.Scheme != "http" {
		return fault.InvalidField("config."+field, fault.WrongFormat, nil)
	}
	return nil
}

// target returns the scheme, host and port of a valid URL.
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
