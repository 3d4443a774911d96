package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
)

// httpSMS sends short messages through a provider that its configuration describes (S3.7). Each message is one call.
type httpSMS struct {
	config struct {
		Method   string            `json:"method"` // empty: POST
		URL      string            `json:"url"`
		BatchURL string            `json:"batchUrl"` // URL for messages of uploaded lists; empty: url
		Headers  map[string]string `json:"headers"`
		Query    map[string]string `json:"query"`
		Format   string            `json:"format"` // format of the body: json (default), form or none
		Body     any               `json:"body"`   // placeholders in the texts of the body are replaced
		Answer   provider.Reply    `json:"answer"`
		Values   map[string]string `json:"values"`  // values of ${values.account}
		Secrets  map[string]string `json:"secrets"` // values of ${secrets.password}

		AtOnce         int     `json:"atOnce"` // number of concurrent calls; 0: 8
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	tools  provider.Tools
	client *http.Client
	limit  time.Duration
}

const maxHTTPAtOnce = 64

// maxAddress is the maximum length of a URL in bytes that servers reliably accept. If a server refused a longer URL, the refusal would count as an
// outage.
const maxAddress = 8000

func newHTTPSMS(config []byte, t provider.Tools) (Driver, error) {
	d := &httpSMS{tools: t}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	c := &d.config
	if err := required(field{"url", c.URL}); err != nil {
		return nil, err
	}
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	if !slices.Contains([]string{"GET", "POST", "PUT"}, c.Method) {
		return nil, fault.InvalidField("config.method", fault.NotAllowed, []string{"GET", "POST", "PUT"})
	}
	if c.Format == "" {
		c.Format = "json"
	}
	_, isObject := c.Body.(map[string]any)
	switch {
	case !slices.Contains([]string{"json", "form", "none"}, c.Format):
		return nil, fault.InvalidField("config.format", fault.NotAllowed, []string{"json", "form", "none"})
	case c.Format == "form" && !isObject:
		return nil, fault.InvalidField("config.body", fault.WrongType, "object")
	}
	if err := atOnce(&c.AtOnce); err != nil {
		return nil, err
	}
	if err := c.Answer.Check(); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	var err error
	d.limit, err = timeout(c.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

// check builds the requests for two sample messages that differ in every text. It rejects a configuration whose request cannot be sent, and a configuration in
// which a message could change the host.
func (d *httpSMS) check() error {
	one, other := d.sample("a"), d.sample("b")
	for name, parts := range map[string]any{
		"url": d.config.URL, "batchUrl": d.config.BatchURL, "headers": anyMap(d.config.Headers), "query": anyMap(d.config.Query), "body": d.config.Body,
	} {
		if _, err := one.fill(parts); err != nil {
			return fault.InvalidField("config."+name, fault.UnknownPlaceholder, err.Error())
		}
	}
	if _, err := d.headers(one); err != nil {
		return fault.InvalidField("config.headers", fault.BadCharacters, nil)
	}
	for name, configured := range d.urls() {
		to, err := addressOf(configured, one)
		elsewhere, errElsewhere := addressOf(configured, other)
		if err != nil || errElsewhere != nil || to.Scheme != elsewhere.Scheme || to.Host != elsewhere.Host ||
			to.User.String() != elsewhere.User.String() {
			return fault.InvalidField("config."+name, fault.WrongFormat, nil)
		}
		if err := address(name, to.String()); err != nil {
			return err
		}
	}
	return nil
}

// review rejects a configuration whose requests contain no recipient or no content. It also rejects a configuration that does not define success, an answer
// that can never be understood, and parts of a request that are never sent.
func (d *httpSMS) review(hasReceipts bool) error {
	for name, configured := range d.urls() {
		used := d.used(configured)
		for _, part := range []messagePart{partRecipient, partContent} {
			needed := placeholdersOf(part)
			if !slices.ContainsFunc(needed, func(placeholder string) bool { return used[placeholder] }) {
				if name == "url" {
					name = "body"
				}
				return fault.InvalidField("config."+name, fault.NeedsPlaceholder, "${"+strings.Join(needed, "} ${")+"}")
			}
		}
	}
	if !d.config.Answer.SaysSuccess() {
		return fault.InvalidField("config.answer.success", fault.Required, nil)
	}
	if err := d.reviewUnsent(); err != nil {
		return err
	}
	return d.config.Answer.Review(hasReceipts) //nolint:wrapcheck // the error is a fault
}

// unsentHeaders are the headers that net/http replaces, with the field that defines each of them.
var unsentHeaders = map[string]string{"Host": "url", "Content-Length": "body", "Transfer-Encoding": "body", "Trailer": "body"}

// reviewUnsent returns a fault for a part of a request that is never sent: the format leaves it out, or another part replaces it.
func (d *httpSMS) reviewUnsent() error {
	if fields, isObject := d.config.Body.(map[string]any); d.config.Format == "none" && d.config.Body != nil && (!isObject || len(fields) > 0) {
		return fault.InvalidField("config.body", fault.NotTogether, "format=none")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(d.config.Headers)) {
		sent := http.CanonicalHeaderKey(name)
		if field, isUnsent := unsentHeaders[sent]; isUnsent {
			return fault.InvalidField("config.headers."+name, fault.NotTogether, field)
		}
		if seen[sent] {
			return fault.InvalidField("config.headers."+name, fault.Duplicate, nil)
		}
		seen[sent] = true
	}
	for _, configured := range d.urls() {
		to, err := addressOf(configured, d.sample("a"))
		for _, name := range slices.Sorted(maps.Keys(d.config.Query)) {
			if err == nil && to.Query().Has(name) {
				return fault.InvalidField("config.query."+name, fault.Duplicate, nil)
			}
		}
	}
	return nil
}

// used returns the names of the placeholders in the request for a URL.
func (d *httpSMS) used(configured string) map[string]bool {
	parts := []any{configured, anyMap(d.config.Headers), anyMap(d.config.Query)}
	if d.config.Format != "none" {
		parts = append(parts, d.config.Body)
	}
	used := map[string]bool{}
	for _, text := range provider.Texts(parts) {
		for _, found := range provider.PlaceholderForm.FindAllStringSubmatch(text, -1) {
			used[found[1]] = true
		}
	}
	return used
}

// urls returns the configured URLs by field name.
func (d *httpSMS) urls() map[string]string {
	all := map[string]string{"url": d.config.URL}
	if d.config.BatchURL != "" {
		all["batchUrl"] = d.config.BatchURL
	}
	return all
}

// urlOf returns the configured URL for a message.
func (d *httpSMS) urlOf(m provider.Message) string {
	if m.IsOfBatch && d.config.BatchURL != "" {
		return d.config.BatchURL
	}
	return d.config.URL
}

// sample returns the values of a message whose texts all equal text.
func (d *httpSMS) sample(text string) filler {
	f := d.filler(provider.Message{})
	for name := range f.values {
		if !strings.HasPrefix(name, "values.") && !strings.HasPrefix(name, "secrets.") {
			f.values[name] = text
		}
	}
	return f
}

func anyMap(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// messagePart is a part of a message that each request must contain.
type messagePart int

const (
	partOther messagePart = iota
	partRecipient
	partContent
)

// placeholders are the placeholders of every configuration. A request needs one placeholder of each part except partOther.
var placeholders = []struct {
	name  string
	part  messagePart
	value func(m provider.Message, now time.Time) string
}{
	{"recipient", partRecipient, func(m provider.Message, _ time.Time) string { return m.Recipient }},
	{"digits", partRecipient, func(m provider.Message, _ time.Time) string { return strings.TrimPrefix(m.Recipient, "+") }},
	{"content", partContent, func(m provider.Message, _ time.Time) string { return m.Content }},
	{"text", partContent, func(m provider.Message, _ time.Time) string { return segment.Unsigned(m.Sign, m.Content) }},
	{"template_id", partContent, func(m provider.Message, _ time.Time) string { return m.TemplateID }},
	{"sign", partOther, func(m provider.Message, _ time.Time) string { return m.Sign }},
	{"title", partOther, func(m provider.Message, _ time.Time) string { return m.Title }},
	{"task_id", partOther, func(m provider.Message, _ time.Time) string { return m.TaskID }},
	{"attempt", partOther, func(m provider.Message, _ time.Time) string { return strconv.Itoa(int(m.Attempt)) }},
	{"lease_id", partOther, func(m provider.Message, _ time.Time) string { return strconv.FormatInt(m.LeaseID, 10) }},
	{"entered_unix_ms", partOther, func(m provider.Message, _ time.Time) string { return strconv.FormatInt(m.EnteredUnixMs(), 10) }},
	{"unix", partOther, func(_ provider.Message, now time.Time) string { return strconv.FormatInt(now.Unix(), 10) }},
	{"unix_ms", partOther, func(_ provider.Message, now time.Time) string { return strconv.FormatInt(now.UnixMilli(), 10) }},
}

// placeholdersOf returns the names of the placeholders that contain a part of the message.
func placeholdersOf(part messagePart) (names []string) {
	for _, p := range placeholders {
		if p.part == part {
			names = append(names, p.name)
		}
	}
	return names
}

// filler replaces placeholders with values.
type filler struct {
	values map[string]string
}

func (d *httpSMS) filler(m provider.Message) filler {
	now := time.Now()
	values := make(map[string]string, len(placeholders))
	for _, p := range placeholders {
		values[p.name] = p.value(m, now)
	}
	for name, value := range d.config.Values {
		values["values."+name] = value
	}
	for name, value := range d.config.Secrets {
		values["secrets."+name] = value
	}
	return filler{values}
}

// errPlaceholder is a placeholder that does not exist.
type errPlaceholder string

func (e errPlaceholder) Error() string { return string(e) }

// fill replaces the placeholders in every text of part, a JSON value. A value stays text, so it cannot add fields or end a string. The error is an errPlaceholder.
func (f filler) fill(part any) (any, error) {
	switch part := part.(type) {
	case string:
		var unknown error
		filled := provider.PlaceholderForm.ReplaceAllStringFunc(part, func(found string) string {
			name := found[2 : len(found)-1]
			value, ok := f.values[name]
			if !ok {
				unknown = errPlaceholder(found)
			}
			return value
		})
		return filled, unknown
	case []any:
		filled := make([]any, len(part))
		for i, one := range part {
			var err error
			if filled[i], err = f.fill(one); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case map[string]any:
		filled := make(map[string]any, len(part))
		for name, one := range part {
			var err error
			if filled[name], err = f.fill(one); err != nil {
				return nil, err
			}
		}
		return filled, nil
	default:
		return part, nil
	}
}

func (d *httpSMS) Target() string {
	var all []string
	for _, configured := range d.urls() {
		if to, err := addressOf(configured, d.sample("a")); err == nil {
			all = append(all, target(to.String()))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

func (d *httpSMS) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	provider.NewAttempts(ctx, d.limit, d.tools).Each(messages, d.config.AtOnce, report, d.call)
}

func (d *httpSMS) call(ctx context.Context, m provider.Message) provider.Outcome {
	req, err := d.request(ctx, m)
	if err != nil {
		return provider.Unwritable
	}
	status, answer, failure := provider.Call(d.client, req)
	if failure != nil {
		return *failure
	}
	return d.config.Answer.Outcome(status, answer)
}

var (
	errHeader = errors.New("the text is not allowed in a header")
	errFolder = errors.New("a text in the path changes the folder")
	errLong   = errors.New("the URL is longer than servers accept")
	errEmpty  = errors.New("the message has no value for the content of the request")
)

// addressOf builds a configured URL. It escapes values, so that a value cannot end a part of the URL or change the directory of the path.
func addressOf(configured string, f filler) (*url.URL, error) {
	text, err := filler{escaped(f.values)}.fill(configured)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(fmt.Sprint(text))
	if err != nil {
		return nil, err
	}
	if hasDots(to.Path) || hasDots(unescapedAgain.Replace(to.Path)) {
		return nil, errFolder
	}
	if len(text.(string)) > maxAddress {
		return nil, errLong
	}
	return to, nil
}

// unescapedAgain decodes sequences that could change the directory of a path. A server behind a proxy can decode the path a second time.
var unescapedAgain = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`, "%3b", ";", "%3B", ";")

// hasDots reports whether a path contains a segment "." or "..". It also finds segments with backslashes or parameters, because some servers treat them as "."
// or "..".
func hasDots(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

func (d *httpSMS) headers(f filler) (http.Header, error) {
	header := http.Header{}
	for name, value := range d.config.Headers {
		filled, err := f.fill(value)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprint(filled)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(text) { // for example a text with a line break
			return nil, errHeader
		}
		header.Set(name, text)
	}
	return header, nil
}

// lacksContent reports whether the request for a URL has placeholders of the content, and all of them are empty for a message. For example, only a message with a
// template has a template_id. A configuration of an earlier version possibly has no such placeholder: its requests contain the content in another form.
func (d *httpSMS) lacksContent(configured string, f filler) bool {
	used, isUsed := d.used(configured), false
	for _, name := range placeholdersOf(partContent) {
		if used[name] && f.values[name] != "" {
			return false
		}
		isUsed = isUsed || used[name]
	}
	return isUsed
}

func (d *httpSMS) request(ctx context.Context, m provider.Message) (*http.Request, error) {
	f := d.filler(m)
	if d.lacksContent(d.urlOf(m), f) {
		return nil, errEmpty
	}
	to, err := addressOf(d.urlOf(m), f)
	if err != nil {
		return nil, err
	}
	header, err := d.headers(f)
	if err != nil {
		return nil, err
	}
	body, err := f.fill(d.config.Body)
	if err != nil {
		return nil, err
	}
	var content []byte
	var media string
	switch d.config.Format {
	case "json":
		media = "application/json"
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	case "form":
		media = "application/x-www-form-urlencoded"
		form := url.Values{}
		for name, value := range body.(map[string]any) {
			form.Set(name, provider.Text(value))
		}
		content = []byte(form.Encode())
	}
	query := to.Query()
	for name, value := range d.config.Query {
		filled, err := f.fill(value)
		if err != nil {
			return nil, err
		}
		query.Set(name, fmt.Sprint(filled))
	}
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, d.config.Method, to.String(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if media != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", media)
	}
	req.Header = header
	return req, nil
}

// escaped escapes values for any part of a URL. A space becomes %20, because + is not a space in a path.
func escaped(values map[string]string) map[string]string {
	all := make(map[string]string, len(values))
	for name, value := range values {
		all[name] = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	}
	return all
}
