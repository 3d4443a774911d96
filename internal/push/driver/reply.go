package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"lksms/internal/fault"
)

// reply says how a provider's answer is read. Fields are named by their way through the JSON: data.0.code.
type reply struct {
	Pattern   string   `json:"pattern"`   // for an answer that is not JSON: its named groups are the fields
	Success   string   `json:"success"`   // the field that tells success
	Equals    []string `json:"equals"`    // its values that mean success
	Number    string   `json:"number"`    // the field with the provider's number of the message
	Code      string   `json:"code"`      // the field with the code of a failure
	Error     string   `json:"error"`     // the field with its text
	Permanent []string `json:"permanent"` // codes after which trying the message again is of no use
	Trouble   []string `json:"trouble"`   // codes about the sender: a wrong key, an empty account

	busy           []string // codes that say that there is too much to do, for anybody
	pattern        *regexp.Regexp
	numberSuffices bool // a number tells success where the field for it is missing
}

// errCodes is how DingTalk, WeChat and their gateways answer: errcode 0 or a msgid is success.
func errCodes(permanent, trouble, busy []string) reply {
	return reply{
		Success: "errcode", Equals: []string{"0"}, Number: "msgid", Code: "errcode", Error: "errmsg", Permanent: permanent, Trouble: trouble,
		busy: busy, numberSuffices: true,
	}
}

// check makes ready to read; a fault names what is wrong with the configuration.
func (r *reply) check() error {
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

// isNamed reports whether the configuration names any sign of success.
func (r *reply) isNamed() bool { return r.Success != "" || r.Number != "" }

var (
	// unreadable is the outcome of a call that was answered in a way that says nothing.
	unreadable = Outcome{Unknown: true, Code: "unreadable", Error: "the provider's answer could not be read"}
	// unsaid is the outcome of a call whose answer has neither the sign of success nor one of failure.
	unsaid = Outcome{Unknown: true, Code: "unsaid", Error: "the provider's answer does not say whether it took the message"}
)

const replyTextMost = 300 // characters of a provider's text that are kept

// outcome judges an answer. Where the configuration names a sign of success, an answer without it is unclear; where it names
// none, the HTTP status tells. A code of the provider's own is about the message, unless the configuration says that it is about the
// sender, or the status that the provider is broken.
func (r *reply) outcome(status int, answer []byte) Outcome {
	no, refused := refusal(status)
	fields, readable := r.read(answer)
	number, _ := Field(fields, r.Number)
	value, told := Field(fields, r.Success)
	switch {
	case told:
		refused = !slices.Contains(r.Equals, value)
	case refused || !r.isNamed():
	case number != "" && (r.Success == "" || r.numberSuffices):
	case readable:
		return unsaid
	default:
		return unreadable
	}
	if !refused {
		return Outcome{OK: true, ProviderNo: number}
	}
	if code, there := Field(fields, r.Code); there { // the provider itself says no
		no.Code, no.Unknown, no.Permanent = code, false, false
		no.Outage = status >= 500 || slices.Contains(r.busy, code)
		switch {
		case slices.Contains(r.Permanent, code):
			no.Permanent, no.Trouble, no.Outage = true, false, false
		case slices.Contains(r.Trouble, code):
			no.Trouble = true
		}
	}
	if said, there := Field(fields, r.Error); there {
		no.Error = string([]rune(said)[:min(replyTextMost, len([]rune(said)))])
	}
	if no.Error == "" {
		no.Error = "the provider refused it"
	}
	return no
}

// read makes fields of an answer, and tells whether that could be done.
func (r *reply) read(answer []byte) (any, bool) {
	if r.pattern == nil {
		var fields any
		decoder := json.NewDecoder(bytes.NewReader(answer))
		decoder.UseNumber()
		err := decoder.Decode(&fields)
		return fields, err == nil && fields != nil
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

// refusal is the outcome that an HTTP status tells by itself, and whether it is a no. A gateway that says so does not know
// what became of the request behind it.
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
		o.Trouble = true // of a key, an account or an address, which are the sender's
	default:
		o.Trouble = status < 400 // redirects are not followed
		o.Permanent = status >= 400 && status < 500
		o.Outage = status >= 500
	}
	return o, true
}
