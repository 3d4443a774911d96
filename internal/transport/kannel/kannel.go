// Package kannel implements the sendsms interface of Kannel, so that programs written for Kannel can send through LKSMS. docs/integrations.md#kannel lists
// what is supported and what is rejected. URLs contain passwords, so the package never logs a query.
package kannel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate"
)

const (
	path    = "/cgi-bin/sendsms"
	maxBody = 64 << 10
	limit   = 10 * time.Second

	maxRecipients = 100
	maxText       = 1024 // characters; the maximum in the database, see queue.Limits
)

// source is the value of the field source in messages of Kannel clients.
const source = "kannel"

type server struct {
	submissions *submit.Service
	gate        *gate.Gate
}

// Mount registers sendsms with a ServeMux.
func Mount(mux *http.ServeMux, guard *gate.Gate, submissions *submit.Service) {
	s := &server{submissions, guard}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		o := gate.ForeignOperation{
			Pattern: method + " " + path, Roles: []string{access.RoleSubmit}, ServedBy: servers.API, IsCostlyFor: isToMany, Limit: limit,
			Credentials: credentials, Answer: answerFault, Handle: s.send,
		}
		if method == http.MethodPost {
			o.BodyBytes = maxBody
		}
		guard.MountForeign(mux, o)
	}
}

// request contains the parameters of a request, from the query and the form.
type request struct {
	values   url.Values
	isForm   bool // the body is a form or is missing
	isBroken bool // a value could not be decoded and was skipped
}

// requestOf reads the parameters of a request.
func requestOf(r *http.Request, body []byte) request {
	asked := request{values: url.Values{}, isForm: len(body) == 0 || gate.IsForm(r)}
	asked.add(r.URL.RawQuery)
	if asked.isForm {
		asked.add(string(body))
	}
	return asked
}

// add parses parameters as Kannel does: & separates pairs, the first = separates name and value, and a semicolon is part of the text.
func (q *request) add(text string) {
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err == nil && name == "to" {
			rawValue = withPluses(rawValue)
		}
		value, broken := url.QueryUnescape(rawValue)
		if err != nil || broken != nil {
			q.isBroken = true
			continue
		}
		q.values[name] = append(q.values[name], value)
	}
}

// withPluses escapes each + that begins a number in an escaped list of numbers. Many programs send +14155550123 without escaping the plus. A decoder would
// replace the plus by a space, and the number would be read as a Chinese number. Any other + means a space. A + after an escaped comma or space also means a
// space, because a program that escapes commas also escapes pluses.
func withPluses(list string) string {
	var b strings.Builder
	start := 0 // index of the first byte of the current number
	for i := range len(list) {
		c := list[i]
		isPlus := c == '+' && hasNoDigits(list[start:i]) && beginsWithDigit(list[i+1:])
		if isPlus {
			b.WriteString("%2B")
		} else {
			b.WriteByte(c)
		}
		if c == ',' || c == '+' && !isPlus {
			start = i + 1
		}
	}
	return b.String()
}

// hasNoDigits reports whether the escaped beginning of a number contains only characters that package phone ignores, such as invisible marks.
func hasNoDigits(escaped string) bool {
	text, err := url.QueryUnescape(escaped)
	digits, isNumber := phone.Digits(text)
	return err == nil && isNumber && digits == "" && !strings.Contains(text, " ")
}

// beginsWithDigit reports whether an escaped list of numbers begins with a number without +.
func beginsWithDigit(escaped string) bool {
	escaped, _, _ = strings.Cut(escaped, ",")
	escaped, _, _ = strings.Cut(escaped, "+")
	text, err := url.QueryUnescape(escaped)
	if err != nil {
		return false
	}
	if end := strings.IndexFunc(text, isSeparator); end >= 0 {
		text = text[:end]
	}
	digits, isNumber := phone.Digits(text)
	return isNumber && digits != "" && digits[0] != '+'
}

// isSeparator reports whether a character separates the numbers of a list.
func isSeparator(c rune) bool { return c == ' ' || c == ',' }

// isToMany reports whether a request has more than one recipient.
func isToMany(r *http.Request, body []byte) bool {
	return len(receivers(requestOf(r, body).values)) > 1
}

func receivers(all url.Values) []string {
	return strings.FieldsFunc(all.Get("to"), isSeparator)
}

// first returns the first non-empty value of the parameters with these names.
func first(all url.Values, names ...string) string {
	for _, name := range names {
		if value := all.Get(name); value != "" {
			return value
		}
	}
	return ""
}

func credentials(r *http.Request, body []byte) (username, password string) {
	all := requestOf(r, body).values
	return first(all, "username", "user"), first(all, "password", "pass")
}

// refusal is the error of a rejected request. Its text is the response.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// answer writes a response in the format of Kannel.
func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // an error means that the client disconnected
}

// answerFault answers a fault with the status that Kannel uses. If Kannel has a text for this fault, the response contains this text.
func answerFault(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	x := gate.Of(r.Context())
	switch {
	case f.Kind == fault.Unauthorized:
		w.Header().Del("WWW-Authenticate") // sendsms accepts credentials only as parameters
		answer(w, http.StatusForbidden, "Authorization failed for sendsms")
	case f.Kind == fault.TooMany:
		answer(w, status, "Temporal failure, try again later.")
	case gate.IsServerError(f.Kind):
		answer(w, http.StatusServiceUnavailable, "Temporal failure, try again later.")
	case isRejected(f):
		texts := make([]string, 0, len(f.Fields))
		for _, field := range f.Fields {
			if name, has := names[field.Name]; has { // Kannel has no parameter for the other fields, such as sign
				field.Name = name
			}
			texts = append(texts, x.Text.Remark(field))
		}
		answer(w, http.StatusBadRequest, strings.Join(texts, "; ")+", rejected")
	default:
		answer(w, status, x.Text.Reason(f))
	}
}

// names maps fields of a submission to the Kannel parameters that set them.
var names = map[string]string{
	"phone_number": "to", "content": "text", "sender_no": "smsc", "priority": "priority", "expect_send_time": "deferred", "expires_at": "validity",
}

// unsupported contains the parameters that would change the message on the phone. A request can contain such a parameter only with one of its listed
// values, which have no effect.
var unsupported = map[string][]string{
	"udh": nil, "mclass": nil, "mwi": nil, "alt-dcs": {"0"}, "compress": {"0"}, "pid": {"0"}, "rpi": {"0"},
}

// send submits a text to all recipients. If one recipient is rejected, it submits nothing.
func (s *server) send(w http.ResponseWriter, r *http.Request) error {
	x := gate.Of(r.Context())
	asked := requestOf(r, x.Body.Raw)
	if !asked.isForm {
		answer(w, http.StatusBadRequest, "Unsupported content-type, rejected")
		return nil
	}
	if asked.isBroken {
		answer(w, http.StatusBadRequest, "Parameter misformed, rejected")
		return nil
	}
	subs, err := s.read(r, asked.values)
	x.AddToLog("recipients", len(subs))
	if err == nil {
		_, err = s.submissions.SubmitAllOrNone(r.Context(), subs, x.Origin, nil)
	}
	if err == nil {
		answer(w, http.StatusAccepted, "0: Accepted for delivery")
		return nil
	}
	s.storeRefusal(r, subs, err)
	var own refusal
	if errors.As(err, &own) {
		answer(w, http.StatusBadRequest, string(own))
		return nil
	}
	return err
}

// read returns the submissions of a request. If it returns an error, it also returns the submissions of the recipients that were already read.
func (s *server) read(r *http.Request, all url.Values) ([]submit.Submission, error) {
	x := gate.Of(r.Context())
	to := receivers(all)
	text, err := textOf(all)
	text = strings.TrimPrefix(text, bom.Mark)
	if utf8.RuneCountInString(text) > maxText { // checked before each recipient gets a copy
		err, text = fault.InvalidField("content", fault.TooLong, maxText), logtext.Text(text)
	}
	shown := to[:min(len(to), maxRecipients)]
	subs := make([]submit.Submission, len(shown))
	for i, number := range shown {
		raw, broken := json.Marshal(map[string]string{
			"phone_number": postgres.Text(number), "content": postgres.Text(text), "from": logtext.Text(all.Get("from")),
		})
		if broken != nil {
			return nil, fmt.Errorf("write submission: %w", broken)
		}
		subs[i] = submit.Submission{
			PhoneNumber: number, Content: text, Source: new(source), Raw: raw, MessageType: submit.Notification, SenderNo: all.Get("smsc"),
		}
	}
	switch {
	case !all.Has("to"):
		return subs, refusal("Missing receiver number, rejected")
	case len(to) == 0:
		return subs, refusal("Empty receiver number not allowed, rejected")
	case len(to) > maxRecipients:
		return subs, refusal(fmt.Sprintf("Too many receivers: %d, at most %d, rejected", len(to), maxRecipients))
	case err != nil:
		return subs, err
	case strings.TrimSpace(text) == "": // for an empty text, queue would send the default content of the number
		return subs, refusal("Empty text not allowed, rejected")
	}
	if err := checkUnsupported(all); err != nil {
		return subs, err
	}
	for name, values := range all {
		for _, value := range values {
			if !postgres.IsText(value) && name != "text" {
				return subs, refusal("Parameter misformed, rejected")
			}
		}
	}
	minutes := map[string]*time.Time{"validity": nil, "deferred": nil}
	for name := range minutes {
		n, isSet, err := number(all, name, 0, maxMinutes)
		if err != nil {
			return subs, err
		}
		if isSet && n > 0 {
			minutes[name] = new(time.Now().Add(time.Duration(n) * time.Minute))
		}
	}
	urgency, _, err := number(all, "priority", 0, maxUrgency)
	if err != nil {
		return subs, err
	}
	priority, err := s.submissions.PriorityOf(r.Context(), submit.Notification, float64(urgency)/maxUrgency, x.Origin)
	if err != nil {
		return subs, err
	}
	for i := range subs {
		subs[i].Priority, subs[i].ExpiresAt, subs[i].ExpectSendTime = priority, minutes["validity"], minutes["deferred"]
	}
	return subs, nil
}

const (
	maxUrgency = 3
	maxMinutes = 2 * 366 * 24 * 60 // expires_at can be at most this far in the future
)

// number reads an integer parameter. isSet reports whether the request contains the parameter.
func number(all url.Values, name string, minimum, maximum int64) (n int64, isSet bool, err error) {
	text := all.Get(name)
	if text == "" {
		return 0, false, nil
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < minimum || n > maximum {
		return 0, false, refusal(strings.ToUpper(name[:1]) + name[1:] + " field misformed, rejected")
	}
	return n, true, nil
}

// checkUnsupported rejects requests for features that this server does not have, so that no message is sent differently from the request.
func checkUnsupported(all url.Values) error {
	mask, isSet, err := number(all, "dlr-mask", 0, 63)
	if err != nil {
		return refusal("DLR-Mask field misformed, rejected")
	}
	if isSet && mask > 0 || !isSet && all.Get("dlr-url") != "" { // with mask 0, Kannel sends no delivery reports
		return refusal("DLR-URL is not supported: register a webhook for delivery reports, and leave out dlr-url and dlr-mask, rejected")
	}
	for name, harmless := range unsupported {
		value := all.Get(name)
		isHarmless := value == "" || value == "-1"
		for _, other := range harmless {
			isHarmless = isHarmless || value == other
		}
		if !isHarmless {
			return refusal(name + " is not supported, rejected")
		}
	}
	return nil
}

// textOf returns the text of a message, converted to UTF-8. In other charsets than UTF-8, a byte order mark has precedence over the charset.
func textOf(all url.Values) (string, error) {
	charset := all.Get("charset")
	switch coding := all.Get("coding"); {
	case coding == "1":
		return "", refusal("Coding of 8-bit data is not supported, rejected")
	case coding != "" && coding != "0" && coding != "2" && coding != "-1":
		return "", refusal("Coding field misformed, rejected")
	case charset == "" && coding == "2":
		charset = "UTF-16BE" // Kannel assumes the same
	case charset == "":
		charset = "UTF-8"
	}
	if strings.EqualFold(charset, "UCS-2") || strings.EqualFold(charset, "UCS2") {
		charset = "UTF-16BE"
	}
	text := all.Get("text")
	if strings.EqualFold(charset, "UTF-8") || strings.EqualFold(charset, "UTF8") {
		if !postgres.IsText(text) {
			return "", refusal("Charset or body misformed, rejected")
		}
		return text, nil
	}
	known, err := htmlindex.Get(charset)
	if err != nil {
		return "", refusal("Charset or body misformed, rejected")
	}
	if isASCII(charset) && strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return "", refusal("Charset or body misformed, rejected")
	}
	decoded, _, err := transform.String(unicode.BOMOverride(known.NewDecoder()), text)
	if err != nil || !postgres.IsText(decoded) || strings.ContainsRune(decoded, '\uFFFD') { // text that is invalid in this charset
		return "", refusal("Charset or body misformed, rejected")
	}
	return decoded, nil
}

// isASCII reports whether a charset is ASCII, which htmlindex decodes as Windows-1252, like browsers.
func isASCII(charset string) bool {
	return slices.Contains([]string{"ascii", "us-ascii", "ansi_x3.4-1968"}, strings.ToLower(strings.TrimSpace(charset)))
}

// isRejected reports whether Kannel rejects a message with such a fault, with the status 400.
func isRejected(f *fault.Error) bool {
	return f.Kind == fault.Invalid || f.Reason == fault.RecipientBlocked
}

// storeRefusal stores a rejected message, in the same way as other interfaces.
func (s *server) storeRefusal(r *http.Request, subs []submit.Submission, err error) {
	status, reason := http.StatusBadRequest, err.Error()
	var f *fault.Error
	var own refusal
	switch {
	case errors.As(err, &own):
	case errors.As(err, &f) && gate.IsRefusal(f):
		reason = string(f.Reason)
		if status = gate.StatusOf(f.Kind); isRejected(f) {
			status = http.StatusBadRequest
		}
	default:
		return
	}
	answer, err := json.Marshal(map[string]string{"message": reason})
	if err != nil {
		return
	}
	refused := make([]submit.Refused, len(subs))
	for i, sub := range subs {
		refused[i] = submit.Refused{Raw: sub.Raw, Status: status, Answer: answer}
	}
	if len(refused) > 0 {
		s.gate.StoreRefusals(r.Context(), refused...)
	}
}
