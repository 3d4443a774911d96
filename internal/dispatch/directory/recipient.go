package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for machines without time zones
	"unicode"

	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/setting"
)

// RecipientRules are a company's own rules about the people who receive its messages. A nil field means the rule of the platform.
type RecipientRules struct {
	QuietHours QuietHours `json:"quiet_hours,omitzero"`
	TimeZone   *string    `json:"time_zone,omitempty"` // time zone of people whose own time zone is unknown

	// These are the texts by which people ask for no more marketing messages, and for messages again.
	OptOutWords *[]string `json:"opt_out_words,omitempty"`
	OptInWords  *[]string `json:"opt_in_words,omitempty"`
	OptOutReply *string   `json:"opt_out_reply,omitempty"` // text that confirms a block of marketing messages to the person; nil: no confirmation

	Caps CapsByType `json:"caps,omitzero"`

	VerificationCountries *[]string `json:"verification_countries,omitempty"` // countries (ISO 3166-1) that get codes by SMS, besides the country of the company
}

// CapsByType contains a company's own caps of each message type.
type CapsByType struct {
	Verification Caps `json:"verification,omitzero"`
	Notification Caps `json:"notification,omitzero"`
	Marketing    Caps `json:"marketing,omitzero"`
}

// Caps are the maximum numbers of messages to a person. 0 means no maximum.
type Caps struct {
	PerMinute *int64 `json:"per_minute,omitempty"`
	PerHour   *int64 `json:"per_hour,omitempty"`
	PerDay    *int64 `json:"per_day,omitempty"`
}

// QuietHours are hours in which people get no messages of a type, as setting.ParseQuietHours reads them. An empty text means no hours.
type QuietHours struct {
	Notification *string `json:"notification,omitempty"`
	Marketing    *string `json:"marketing,omitempty"`
}

// RecipientRules returns the rules of a company. A change by another server takes effect within four seconds.
func (s *Service) RecipientRules(ctx context.Context, companyID int64) (RecipientRules, error) {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return RecipientRules{}, err
	}
	return d.recipient[companyID], nil
}

// Hours returns the quiet hours of a message type. Verification codes have none.
func (r RecipientRules) Hours(messageType int16, platform setting.Recipient) setting.Hours {
	text := ""
	switch messageType {
	case 1: // notification
		text = optional.Or(r.QuietHours.Notification, platform.QuietNotification)
	case 2: // marketing
		text = optional.Or(r.QuietHours.Marketing, platform.QuietMarketing)
	}
	hours, _ := setting.ParseQuietHours("", text) // stored hours were checked
	return hours
}

// CapsOf returns the caps of a message type.
func (r RecipientRules) CapsOf(messageType int16, platform setting.Recipient) setting.Caps {
	own, caps := [...]Caps{r.Caps.Verification, r.Caps.Notification, r.Caps.Marketing}[messageType], platform.Caps(messageType)
	return setting.Caps{
		PerMinute: optional.Or(own.PerMinute, caps.PerMinute), PerHour: optional.Or(own.PerHour, caps.PerHour), PerDay: optional.Or(own.PerDay, caps.PerDay),
	}
}

// ZoneName returns the name of the time zone of people whose own time zone is unknown.
func (r RecipientRules) ZoneName(platform setting.Monitoring) string {
	return optional.Or(r.TimeZone, platform.TimeZone)
}

// check returns the fault request.invalid for a rule that is not valid.
func (r RecipientRules) check() error {
	var wrong fault.Fields
	_, notification := setting.ParseQuietHours("recipient.quiet_hours.notification", optional.Value(r.QuietHours.Notification))
	_, marketing := setting.ParseQuietHours("recipient.quiet_hours.marketing", optional.Value(r.QuietHours.Marketing))
	for _, err := range []error{
		notification, marketing, checkWords("recipient.opt_out_words", r.OptOutWords), checkWords("recipient.opt_in_words", r.OptInWords),
	} {
		if err := wrong.Add(err); err != nil {
			return err //nolint:wrapcheck // impossible: all these errors are faults
		}
	}
	if r.OptOutReply != nil && strings.TrimSpace(*r.OptOutReply) == "" {
		wrong.Invalid("recipient.opt_out_reply", fault.Blank, nil)
	}
	for i, region := range optional.Value(r.VerificationCountries) {
		if err := wrong.Add(phone.CheckRegion(fmt.Sprintf("recipient.verification_countries.%d", i), region)); err != nil {
			return err //nolint:wrapcheck // impossible: all these errors are faults
		}
	}
	if r.TimeZone != nil {
		if _, err := time.LoadLocation(*r.TimeZone); err != nil || slices.Contains(ofHost, *r.TimeZone) {
			wrong.Invalid("recipient.time_zone", fault.NotThere, nil)
		}
	}
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// ofHost contains the names that time.LoadLocation knows, but that mean another time zone on each host.
var ofHost = []string{"", "Local", "localtime", "posixrules"}

func checkWords(field string, words *[]string) error {
	var wrong fault.Fields
	for i, word := range optional.Value(words) {
		if !strings.ContainsFunc(word, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) {
			wrong.Invalid(fmt.Sprintf("%s.%d", field, i), fault.Blank, nil)
		}
	}
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// stored returns the rules as they are stored.
func (r RecipientRules) stored() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts can always be written
	}
	return text
}

// RulesOf returns the rules of a stored company.
func RulesOf(c CompanyRow) RecipientRules {
	r, _ := recipientRulesOf(c.CompanyNo, c.Recipient) // load reports rules that cannot be read
	return r
}

// recipientRulesOf reads stored rules.
func recipientRulesOf(companyNo string, stored []byte) (r RecipientRules, err error) {
	if err := json.Unmarshal(stored, &r); err != nil {
		return r, fmt.Errorf("read rules about recipients of company %s: %w", companyNo, err)
	}
	return r, nil
}
