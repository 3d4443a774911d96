package callback

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
)

// Received describes the messages in the callbacks of a provider: what people sent to the number of the sender. The fields are paths, unless described otherwise.
type Received struct {
	List      string   `json:"list"`    // path of the list of messages; empty: the list of the receipts
	Type      string   `json:"type"`    // path of a field that tells messages from receipts; empty: an item that is not a receipt is a message
	Types     []string `json:"types"`   // values of Type for messages
	From      string   `json:"from"`    // path of the number of the person
	Country   string   `json:"country"` // path of the country code of national numbers
	To        string   `json:"to"`      // path of the number of the sender
	Content   string   `json:"content"`
	Time      string   `json:"time"`
	Offset    string   `json:"offset"` // difference from UTC of times without a zone, such as +08:00
	MessageNo string   `json:"messageNo"`

	International bool `json:"international"` // the numbers of people contain their country code, with or without +, so Country is ignored

	Answer Answer `json:"answer"` // answer to a callback that contains only messages; without a body: the answer to receipts
}

// Message is a message from a person, as a provider posted it. Empty fields are unknown.
type Message struct {
	From, To, Content, MessageNo string
	Region                       string // the region of a national From; empty: the provider did not state it
	ReceivedAt                   *time.Time
	Raw                          string // the item of the body
}

// check returns a fault if r is invalid. r can be nil.
func (r *Received) check() error {
	if r == nil {
		return nil
	}
	invalid := func(field string, rule fault.Rule) error {
		return fault.InvalidField("config.callback.received."+field, rule, nil)
	}
	switch {
	case r.From == "":
		return invalid("from", fault.Required)
	case r.Content == "":
		return invalid("content", fault.Required)
	case r.Time == "" && r.MessageNo == "": // a second message with the same text would be taken for a repeat of the first
		return invalid("time", fault.Required)
	case r.Type != "" && len(r.Types) == 0:
		return invalid("types", fault.Required)
	case r.Type == "" && len(r.Types) > 0:
		return invalid("type", fault.Required)
	}
	if _, isValid := zoneOf(r.Offset); !isValid {
		return invalid("offset", fault.WrongFormat)
	}
	return nil
}

// zoneOf returns the zone with an offset, such as +08:00. An empty offset is UTC.
func zoneOf(offset string) (zone *time.Location, isValid bool) {
	if offset == "" {
		return time.UTC, true
	}
	at, err := time.Parse("-07:00", offset)
	return at.Location(), err == nil
}

// isMessage reports whether the type of an item is the type of a message.
func (r *Received) isMessage(item any) bool {
	value, found := provider.TextAt(item, r.Type)
	return found && provider.IsOneOf(r.Types, value)
}

// read returns the message in an item. isMessage is false if the item has no sender or no text.
func (r *Received) read(item any) (m Message, isMessage bool) {
	from, hasFrom := provider.TextAt(item, r.From)
	content, hasContent := provider.TextAt(item, r.Content)
	if !hasFrom || !hasContent || from == "" {
		return m, false
	}
	m = Message{From: from, Content: content}
	if r.International {
		m.From = withPlus(from)
	} else if code, found := provider.TextAt(item, r.Country); found {
		m.From, m.Region = national(code, from)
	}
	m.To, _ = provider.TextAt(item, r.To)
	m.MessageNo, _ = provider.TextAt(item, r.MessageNo)
	if at, found := provider.TextAt(item, r.Time); found {
		m.ReceivedAt = timeOf(at, r.Offset)
	}
	if raw, err := json.Marshal(item); err == nil {
		m.Raw = string(raw)
	}
	return m, true
}

// withPlus adds a + to a number with a country code. It returns a short code or a name unchanged.
func withPlus(number string) string {
	if e164, err := phone.Normalise("", "+"+number, ""); err == nil {
		return e164
	}
	return number
}

// national returns a number and the region of its country, whose code is a country code or ISO 3166-1. If no region has the code, such as that of a satellite
// network, the code is added to the number, unless the number contains it already. If this yields no number either, the region is phone.UnknownRegion, so that
// the number is not read as the number of a stranger in another country.
func national(code, number string) (from, region string) {
	code = strings.TrimPrefix(strings.TrimPrefix(code, "+"), "00")
	switch n, err := strconv.ParseUint(code, 10, 16); {
	case code == "":
		return number, ""
	case err != nil && phone.IsRegion(code):
		return number, code
	case err != nil:
		return number, phone.UnknownRegion
	default:
		if region = phone.RegionWithCode(int(n)); region != "" {
			return number, region
		}
	}
	for _, digits := range []string{code + number, number} {
		if full := withPlus(digits); strings.HasPrefix(digits, code) && full != digits {
			return full, ""
		}
	}
	return number, phone.UnknownRegion
}

// timeLayouts contains the notations of times with text, apart from numbers.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006/01/02 15:04:05", "2006-01-02 15:04", time.RFC1123, time.RFC1123Z}

// timeOf parses a time: a text, or the seconds or milliseconds since 1970. A time without a zone has the given offset. timeOf returns nil if text is not a
// time.
func timeOf(text, offset string) *time.Time {
	zone, isValid := zoneOf(offset)
	if !isValid {
		return nil
	}
	text = strings.TrimSpace(text)
	if len(text) == len("20060102150405") {
		if at, err := time.ParseInLocation("20060102150405", text, zone); err == nil {
			return &at
		}
	}
	const firstMillis = 100_000_000_000 // as seconds, this number is in the year 5138
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case math.IsNaN(seconds) || seconds <= 0 || seconds >= 1000*firstMillis:
			return nil
		case seconds >= firstMillis:
			return new(time.UnixMilli(int64(seconds)))
		}
		return new(time.Unix(int64(seconds), 0))
	}
	for _, layout := range timeLayouts {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return &at
		}
	}
	return nil
}
