package provider

import "time"

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
	Answer     string        // the provider's answer as it came, without secrets, at most MaxAnswer characters; empty: none came
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
func (o Outcome) IsCall() bool { return o != Untried && !o.Unasked }

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

// Untried is the outcome of a message that expired or was held, or of a call whose time ended, before it reached the provider.
var Untried = Outcome{}

// Unwritable is the outcome of a message for which no request can be built.
var Unwritable = Outcome{Permanent: true, Unasked: true, Code: "unwritable", Error: "the request could not be written"}
