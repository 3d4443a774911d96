package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"

	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
)

// Reply describes how to read a provider's answer. A field is named by its path in the JSON, for example data.0.code.
type Reply struct {
	Pattern   string   `json:"pattern"`   // regular expression for an answer that is not JSON; its named groups are the fields
	Success   string   `json:"success"`   // the field that shows success; byStatus without Equals: the HTTP status shows success
	Equals    []string `json:"equals"`    // values of Success that mean success
	Number    string   `json:"number"`    // the field with the provider's id of the message
	Code      string   `json:"code"`      // the field with the code of a failure
	Error     string   `json:"error"`     // the field with the text of a failure
	Permanent []string `json:"permanent"` // codes after which a retry is useless
	Trouble   []string `json:"trouble"`   // codes about the sender: wrong credentials, an empty account

	Busy           []string `json:"-"` // codes of an overloaded provider
	Unclear        []string `json:"-"` // codes after which the provider possibly has the message
	pattern        *regexp.Regexp
	numberSuffices bool // an id shows success if the field Success is missing
	byStatus       bool // the HTTP status alone shows success
}

// byStatus is a value of Success. If Equals is empty, byStatus means that any 2xx status is a success. If Equals is not empty, byStatus is the name of a
// field.
const byStatus = "status"

// ErrCodes returns the Reply of DingTalk, WeChat and their gateways: errcode 0 or a msgid means success.
func ErrCodes(permanent, trouble, busy []string) Reply {
	return Reply{
		Success: "errcode", Equals: []string{"0"}, Number: "msgid", Code: "errcode", Error: "errmsg", Permanent: permanent, Trouble: trouble,
		Busy: busy, numberSuffices: true,
	}
}

// Check compiles the pattern. A fault names the error in the configuration.
func (r *Reply) Check() error {
	if r.Success == byStatus && len(r.Equals) == 0 {
		r.Success, r.byStatus = "", true
	}
	if r.Success != "" && len(r.Equals) == 0 {
		return fault.InvalidField("config.answer.equals", fault.Required, nil)
	}
	if r.Pattern == "" {
		return nil
	}
	var err error
	if r.pattern, err = regexp.Compile(r.Pattern); err != nil {
		return fault.InvalidField("config.answer.pattern", fault.WrongFormat, nil)
	}
	return nil
}

// Review returns a fault for an option that can never have an effect in this configuration. Receipts need the provider's id of the message.
func (r *Reply) Review(hasReceipts bool) error {
	invalid := func(field string, rule fault.Rule, limit any) error {
		return fault.InvalidField("config.answer."+field, rule, limit)
	}
	switch failures := slices.Concat(r.Permanent, r.Trouble); {
	case r.Success == "" && len(r.Equals) > 0:
		return invalid("success", fault.Required, nil)
	case r.Code == "" && len(failures) > 0:
		return invalid("code", fault.Required, nil)
	case intersect(r.Permanent, r.Trouble): // a permanent code never means trouble
		return invalid("trouble", fault.Duplicate, nil)
	case r.Code != "" && r.Code == r.Success && intersect(r.Equals, failures): // the code would mean success and failure
		return invalid("equals", fault.Duplicate, nil)
	case r.Number == "" && hasReceipts:
		return invalid("number", fault.Required, nil)
	}
	if r.pattern == nil {
		return nil
	}
	if r.Success+r.Number+r.Code+r.Error == "" {
		return invalid("pattern", fault.OnlyTogether, "success, number, code, error")
	}
	groups := r.pattern.SubexpNames()
	for _, field := range []struct{ name, group string }{
		{"success", r.Success}, {"number", r.Number}, {"code", r.Code}, {"error", r.Error},
	} {
		if field.group != "" && !slices.Contains(groups, field.group) {
			return invalid(field.name, fault.NotThere, nil)
		}
	}
	return nil
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(value string) bool { return slices.Contains(b, value) })
}

// isNamed reports whether a successful answer must contain a configured field.
func (r *Reply) isNamed() bool { return !r.byStatus && (r.Success != "" || r.Number != "") }

// SaysSuccess reports whether the configuration defines success.
func (r *Reply) SaysSuccess() bool { return r.byStatus || r.isNamed() }

// Unread returns the outcome of an answer that was not understood; why is the reason.
func Unread(code, why string) Outcome {
	return Outcome{Unknown: true, Code: code, Error: "answer not understood: " + why}
}

// unread returns the outcome of an answer that lacks the field that shows success.
func (r *Reply) unread(isReadable bool) Outcome {
	switch {
	case isReadable && r.Success != "":
		return Unread("unsaid", fmt.Sprintf("no field `%s`", r.Success))
	case isReadable:
		return Unread("unsaid", fmt.Sprintf("no number in `%s`", r.Number))
	case r.pattern != nil:
		return Unread("unreadable", "it does not match `pattern`")
	default:
		return Unread("unreadable", "it is not JSON")
	}
}

const maxReplyText = 300 // maximum stored characters of a provider's text

// Outcome returns the outcome of an answer. The first rule that applies decides:
//  1. A code that the configuration lists as a failure means a failure.
//  2. The field of success decides, with any HTTP status.
//  3. A status other than 2xx with a code means a failure.
//  4. An id of the message means a success, if the configuration lets ids show success.
//  5. Any other status than 2xx means a failure.
//  6. A 2xx answer is unclear, or a success if the configuration defines no field that shows success.
//
// The code of a failure concerns the message by default. It concerns the sender if the configuration lists it as trouble, and the provider if the status or the
// code means an outage or an overload.
func (r *Reply) Outcome(status int, answer []byte) Outcome {
	o := r.judge(status, answer)
	o.Answer = httpAnswer(status, answer)
	return o
}

func (r *Reply) judge(status int, answer []byte) Outcome {
	failure, refused := refusal(status)
	fields, readable := r.Read(answer)
	number := r.numberIn(fields)
	value, hasSign := TextAt(fields, r.Success)
	code, hasCode := TextAt(fields, r.Code)
	switch {
	case hasSign:
		refused = !IsOneOf(r.Equals, value) || r.isFailure(code)
	case hasCode && (refused || r.isFailure(code)):
		refused = true
	case number != "" && !r.byStatus && (r.Success == "" || r.numberSuffices):
		refused = false
	case refused || !r.isNamed():
	default:
		return r.unread(readable)
	}
	if !refused {
		return Outcome{OK: true, ProviderNo: number}
	}
	if hasCode { // the provider itself refused the message
		failure.Code, failure.Unknown, failure.Permanent = code, false, false
		failure.Outage = status >= 500 || IsOneOf(r.Busy, code)
		switch {
		case IsOneOf(r.Permanent, code):
			failure.Permanent, failure.Trouble, failure.Outage = true, false, false
		case IsOneOf(r.Trouble, code):
			failure.Trouble = true
		case IsOneOf(r.Unclear, code):
			failure.Unknown, failure.Outage = true, true
		}
	}
	if text, found := TextAt(fields, r.Error); found {
		failure.Error, failure.IsQuoted = characters.First(string([]rune(text)), maxReplyText), true // []rune replaces bytes that are not UTF-8
	}
	if failure.Error == "" {
		failure.Error, failure.IsQuoted = "the provider refused it", false
	}
	return failure
}

// numberIn returns the provider's id of the message. 0 and white space are no id: many providers write them beside an error.
func (r *Reply) numberIn(fields any) string {
	number, _ := NumberAt(fields, r.Number)
	if IsOneOf([]string{"0"}, number) {
		return ""
	}
	return number
}

// isFailure reports whether the configuration lists a code as a failure. Such a code means a failure with any HTTP status, and beside any sign of success.
func (r *Reply) isFailure(code string) bool {
	return IsOneOf(r.Permanent, code) || IsOneOf(r.Trouble, code)
}

// Read parses an answer into fields. It reports false if the answer cannot be parsed.
func (r *Reply) Read(answer []byte) (any, bool) {
	if r.pattern == nil {
		var fields any
		decoder := json.NewDecoder(bytes.NewReader(answer))
		decoder.UseNumber()
		if decoder.Decode(&fields) != nil {
			return nil, false
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) { // more than one value
			return nil, false
		}
		return fields, fields != nil
	}
	found := r.pattern.FindSubmatch(answer)
	if found == nil {
		return nil, false
	}
	fields := map[string]any{}
	for i, name := range r.pattern.SubexpNames() {
		if name != "" {
			fields[name] = string(found[i])
		}
	}
	return fields, true
}

// refusal returns the outcome of an HTTP status, and whether the status is a refusal. A gateway that refuses a request does not know whether the
// server behind it received the request.
func refusal(status int) (Outcome, bool) {
	if status >= 200 && status < 300 {
		return Outcome{}, false
	}
	o := Outcome{Code: fmt.Sprint("http_", status), Error: fmt.Sprintf("the provider answered %d", status)}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		o.Outage = true
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		o.Unknown, o.Outage = true, true
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusGone, http.StatusMisdirectedRequest, http.StatusUpgradeRequired,
		http.StatusNetworkAuthenticationRequired:
		o.Trouble = true // the status concerns a key, an account or an address, which belong to the sender
	default:
		o.Trouble = status < 400 // redirects are not followed
		o.Permanent = status >= 400 && status < 500
		o.Outage = status >= 500
	}
	return o, true
}
