// Package driver owns the protocols of providers, one file for each kind. A driver knows nothing of queues: it gets
// rendered messages, and reports the outcome of each (S1.8).
package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Driver sends messages. One goroutine at a time uses it.
type Driver interface {
	// Send reports the outcome of each message by its index in messages, as soon as it is known, and at most once.
	// report must be safe for several goroutines at once, and is not called after Send has returned. A message
	// without a report was not tried: it had expired, MayBegin refused it, the time of ctx was nearly over, or the sender is in trouble. Send
	// returns soon after the end of ctx.
	Send(ctx context.Context, messages []provider.Message, report func(i int, o provider.Outcome))

	// Target identifies the provider that is called, or the providers. Two targets that differ are two providers, or one of them is
	// called without encryption. Empty: no provider is called.
	Target() string
}

// kind describes the drivers of one name.
type kind struct {
	secrets   []string // top-level fields of the configuration that hold secrets
	addresses []string // fields with the URLs that are called, which may hold a token
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
	if *n < 0 || *n > maxHTTPAtOnce {
		return fault.InvalidField("config.atOnce", fault.TooBig, maxHTTPAtOnce)
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
