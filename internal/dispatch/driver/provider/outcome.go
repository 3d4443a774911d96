package provider

import (
	"strings"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/characters"
)

// Outcome is the result of an attempt. If OK is true, the message was sent. If Unknown is true, the result is unknown. If Trouble is true, the sender cannot
// send any message. If all three are false, the provider refused this message.
type Outcome struct {
	OK         bool
	Unknown    bool          // the provider possibly accepted the message: no answer was received, or the answer was not understood
	Trouble    bool          // wrong credentials, a wrong URL or no connection; the message was not sent
	Permanent  bool          // for a refusal: a retry is useless
	Outage     bool          // the provider failed: no answer was received, or the answer reports a fault or an overload
	InPart     bool          // the provider took a part of the message, and did not take the whole: it is not sent again
	Unasked    bool          // the message cannot be sent; the provider was not called
	SameCall   bool          // another message of the same call was reported with this outcome before
	ProviderNo string        // the provider's id of the message, with one line for each part of a long message; can be empty
	Code       string        // the provider's code of a failure; can be empty
	Error      string        // description of the failure
	IsQuoted   bool          // Error contains a text of the provider, not only words of LKSMS
	Answer     string        // the provider's answer without secrets, at most MaxAnswer characters; empty: no answer
	RetryAfter time.Duration // for a refusal: time until the retry; 0: the retry delay of the channel
	Pause      Pause         // for Trouble: the pause that the provider asked for
}

// ReadAsChinese returns the outcome for a recipient abroad whose digits a provider in China would read as a Chinese mobile number, such as +1 650 555 0123. It
// returns nil for all other recipients.
func ReadAsChinese(recipient string) *Outcome {
	if !phone.IsMobileOfChina("+86" + strings.TrimPrefix(recipient, "+")) {
		return nil
	}
	return &Outcome{Permanent: true, Unasked: true, Code: "read_as_chinese", Error: "the provider would read this number as a Chinese one, and a stranger would get the message"}
}

// Pause is the pause that a provider asked for.
type Pause struct {
	For   time.Duration // duration; 0: the circuit breaker decides
	DayOf string        // time zone: the pause lasts until the next day begins there; empty: no such pause
}

// These are the kinds of outcomes.
const (
	Sent    = "sent"
	Refused = "refused"
	Unclear = "unclear"
	Trouble = "trouble"
)

// IsUnread reports whether an answer was received but not understood.
func (o Outcome) IsUnread() bool { return o.Unknown && !o.Outage }

// IsCall reports whether the provider was called.
func (o Outcome) IsCall() bool { return o != Untried && !o.Unasked }

// Kind returns the kind of an outcome, for example Sent.
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

// Untried is the outcome of a message for which the provider was not called: the message had expired or was held, or the remaining time was too short.
var Untried = Outcome{}

// Unwritable is the outcome of a message whose request cannot be built.
var Unwritable = Outcome{Permanent: true, Unasked: true, Code: "unwritable", Error: "the request could not be written"}

// withoutTexts hides the provider's texts in the outcome of a sensitive message. The words of LKSMS, the HTTP status, the code and the number of the provider
// remain, unless they are a number of the text that was sent.
func (o Outcome) withoutTexts(sent string) Outcome {
	status, _, _ := strings.Cut(o.Answer, " ")
	if o.Answer = sensitive.Hide(o.Answer); len(status) == len("200") && characters.IsDigits(status) {
		o.Answer = status + " " + o.Answer
	}
	if o.IsQuoted {
		o.Error = sensitive.Hide(o.Error)
	}
	o.Code, o.ProviderNo = sensitive.HideTokenOf(sent, o.Code), sensitive.HideTokenOf(sent, o.ProviderNo)
	return o
}
