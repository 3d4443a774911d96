// Package quiet decides in which hours people get no messages of a company and type (R5). Hours are local times of the recipient.
package quiet

import (
	"context"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/nyaruka/phonenumbers"

	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/setting"
)

// Service finds the quiet hours of recipients.
type Service struct {
	directory *directory.Service
	settings  *setting.Service
	calendar  calendar
	zones     sync.Map // zones, by their names
}

// New returns a Service.
func New(directory *directory.Service, settings *setting.Service) *Service {
	return &Service{directory: directory, settings: settings}
}

// Message contains the data of a message that its quiet hours depend on.
type Message struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Priority    int16
	Recipient   string
	IsExempt    bool // the message is exempt from quiet hours, such as a reply in a conversation
}

// urgent is the priority of messages that are also sent in quiet hours. Verification codes of any priority are sent in quiet hours, too.
const urgent = 0

// Spread is the time after the end of quiet hours in which waiting messages are sent: all at once would ring all phones at 09:00:00.
const Spread = 30 * time.Minute

// margin is the time before quiet hours in which no claim returns a message (SQL function quiet_begins).
const margin = 30 * time.Second

// At returns the period that contains a time for the recipient of a message. In the last moments before quiet hours (margin), it returns the quiet hours. For a
// message without quiet hours, it returns a period without end outside of quiet hours.
func (s *Service) At(ctx context.Context, m Message, at time.Time) (Period, error) {
	if !strings.HasPrefix(m.Recipient, "+") {
		return Period{}, nil
	}
	hours, zone, err := s.hoursOf(ctx, m)
	if err != nil || hours == (setting.Hours{}) {
		return Period{}, err
	}
	z := s.zonesOf(m.Recipient, zone, at)
	p := s.calendar.at(hours, z, at)
	if !p.IsQuiet && !p.Until.IsZero() && p.Until.Sub(at) <= margin {
		p = s.calendar.at(hours, z, p.Until)
	}
	return p, nil
}

// HasHours reports whether messages like m have quiet hours at some time of the day. The recipient of m is not read.
func (s *Service) HasHours(ctx context.Context, m Message) (bool, error) {
	hours, _, err := s.hoursOf(ctx, m)
	return hours != (setting.Hours{}), err
}

// hoursOf returns the quiet hours of a message in the local time of its recipient, and the name of the company's time zone.
func (s *Service) hoursOf(ctx context.Context, m Message) (hours setting.Hours, zone string, err error) {
	if m.Channel != directory.SMS || m.Priority == urgent || m.IsExempt {
		return hours, "", nil
	}
	rules, err := s.directory.RecipientRules(ctx, m.CompanyID)
	if err != nil {
		return hours, "", err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return hours, "", err
	}
	return rules.Hours(m.MessageType, values.Recipient), rules.ZoneName(values.Monitoring), nil
}

// maxAhead is the maximum time by which the clock of a server is ahead of the clock of PostgreSQL.
const maxAhead = 10 * time.Minute

// Now works like At for the present.
func (s *Service) Now(ctx context.Context, m Message) (Period, error) {
	now := time.Now()
	p, err := s.At(ctx, m, now)
	if err != nil || p.IsQuiet || p.Until.IsZero() {
		return p, err
	}
	earlier, err := s.At(ctx, m, now.Add(-maxAhead))
	p.hasBegun = earlier.IsQuiet
	return p, err
}

// Plan returns when a task can be sent that would be due at the time `at`: this time, or a time after the quiet hours that contain it. `from` is the value of
// queue.quiet_from for the returned time.
func (s *Service) Plan(ctx context.Context, m Message, taskID string, expiresAt *time.Time, at time.Time) (due time.Time, from *time.Time, err error) {
	period, err := s.At(ctx, m, at)
	if err != nil || !period.IsQuiet {
		return at, period.From(), err
	}
	next, err := s.At(ctx, m, period.Until)
	return period.after(taskID, expiresAt, next), optional.NonZero(next.Until), err
}

// after returns when a message that is due in the quiet period p is sent. This is within Spread after the end of p, at a moment that depends on the task. next
// is the period that begins at the end of p. If the message expires earlier, or if it is quiet again earlier, only half of the time until then is used.
func (p Period) after(taskID string, expiresAt *time.Time, next Period) time.Time {
	spread := Spread
	if expiresAt != nil {
		spread = min(spread, max(0, expiresAt.Sub(p.Until)/2))
	}
	if !next.Until.IsZero() {
		spread = min(spread, next.Until.Sub(p.Until)/2)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(taskID)) // never fails
	return p.Until.Add(time.Duration(float64(spread) * float64(h.Sum32()) / (1 << 32)).Truncate(time.Millisecond))
}

// maxSpan is the largest difference between the time zones of a number. The person can be in any of these zones, so a message is sent only while none of them
// has quiet hours. With a greater difference, too few hours would be left.
const maxSpan = 6 * time.Hour

// zonesOf returns the time zones of a phone number in E.164: those of its area, else of its country. If they are unknown, or differ by more than maxSpan, it
// returns the zone of the company. If only PostgreSQL knows this zone, it returns UTC.
func (s *Service) zonesOf(number, ofCompany string, at time.Time) zones {
	names := "Asia/Shanghai"
	if !strings.HasPrefix(number, "+861") { // most numbers need no search
		found, _ := phonenumbers.GetTimezonesForPrefix(number) // after an error, the zones are unknown
		names = strings.Join(found, ",")
	}
	if z := s.named(names); len(z.all) > 0 && z.span(at) <= maxSpan {
		return z
	}
	if z := s.named(ofCompany); len(z.all) > 0 {
		return z
	}
	return zones{"UTC", []*time.Location{time.UTC}}
}

// named returns the time zones with these names, and omits names of unknown zones. It caches the zones, because time.LoadLocation reads a file at each call.
func (s *Service) named(names string) zones {
	found, is := s.zones.Load(names)
	if !is {
		z := zones{name: names}
		for name := range strings.SplitSeq(names, ",") {
			if zone, err := time.LoadLocation(name); err == nil && name != "" {
				z.all = append(z.all, zone)
			}
		}
		found, _ = s.zones.LoadOrStore(names, z)
	}
	z, _ := found.(zones)
	return z
}

// span returns the largest difference between the local times of the zones.
func (z zones) span(at time.Time) time.Duration {
	_, first := at.In(z.all[0]).Zone()
	earliest, latest := first, first
	for _, zone := range z.all[1:] {
		_, offset := at.In(zone).Zone()
		earliest, latest = min(earliest, offset), max(latest, offset)
	}
	return time.Duration(latest-earliest) * time.Second
}
