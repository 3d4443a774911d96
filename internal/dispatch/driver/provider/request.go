package provider

import (
	"io"
	"lksms/internal/platform/secret"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
)

// Request is a request to a provider, without secrets.
type Request struct {
	Method  string
	URL     string // the URL, with *** instead of its path
	Headers map[string]string
	Body    string // at most MaxAnswer characters
}

// Client returns a client for calls to the provider.
func (t Tools) Client(limit time.Duration) *http.Client {
	client := t.Outbound.Client(limit)
	if t.Asked != nil {
		client.Transport = recorder{client.Transport, t}
	}
	return client
}

// recorder shows each request to Tools.Asked, and then sends the request.
type recorder struct {
	http.RoundTripper
	tools Tools
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.tools.Asked(r.tools.Mask.request(req))
	return r.RoundTripper.RoundTrip(req)
}

// AskedBy shows a mail to Tools.Asked before the mail is sent.
func (t Tools) AskedBy(target string, msg *mail.Msg) {
	if t.Asked == nil {
		return
	}
	var text strings.Builder
	_, _ = msg.WriteTo(&text) // sending the mail returns the same error
	t.Asked(Request{Method: "MAIL", URL: target, Headers: map[string]string{}, Body: t.Mask.hide(text.String())})
}

// credentialName matches names of headers and parameters that contain credentials.
var credentialName = regexp.MustCompile(`(?i)auth|cookie|token|key|secret|sign|pass|pwd`)

// request returns a request without secrets.
func (m Mask) request(req *http.Request) Request {
	shown := Request{Method: req.Method, Headers: map[string]string{}}
	to := *req.URL
	to.User = nil
	if to.Path != "" && to.Path != "/" {
		to.Path, to.RawPath = "/"+secret.Hidden, "/"+secret.Hidden // RawPath keeps the asterisks unencoded
	}
	query := to.Query()
	for name := range query {
		query.Set(name, m.value(name, query.Get(name)))
	}
	to.RawQuery = ""
	if shown.URL = to.String(); len(query) > 0 {
		shown.URL += "?" + strings.ReplaceAll(query.Encode(), url.QueryEscape(secret.Hidden), secret.Hidden)
	}
	for name := range req.Header {
		shown.Headers[name] = m.value(name, req.Header.Get(name))
	}
	if req.GetBody == nil {
		return shown
	}
	if body, err := req.GetBody(); err == nil {
		text, _ := io.ReadAll(io.LimitReader(body, maxAnswerBytes)) // the body is in memory, so reading cannot fail
		shown.Body = m.hide(string(text))
	}
	return shown
}

// value returns the value of a header or parameter, without secrets.
func (m Mask) value(name, value string) string {
	if value != "" && credentialName.MatchString(name) {
		return secret.Hidden
	}
	return m.hide(value)
}
