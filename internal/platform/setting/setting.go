// Package setting owns the settings that operators change while the service runs (S3.12, S4.7).
package setting

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nyaruka/phonenumbers"

	"lksms/gen/settingq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/snapshot"
)

// Values contains the current settings. The tags of a field declare its setting: declarations.go reads the tags, and tests compare the contract and the console
// with them.
type Values struct {
	Queue        Queue        `json:"queue"`
	SMS          SMS          `json:"sms"`
	Monitoring   Monitoring   `json:"monitoring"`
	History      History      `json:"history"`
	Access       Access       `json:"access"`
	Recipient    Recipient    `json:"recipient"`
	Verification Verification `json:"verification"`
}

// Queue contains the settings of dispatch. Times are in seconds. The environment sets the first values of the settings in Rules.
type Queue struct {
	PriorityMaxWait        int64   `json:"priority_max_wait_seconds" kind:"seconds" default:"3600" min:"0" max:"2592000" zero:"never"` // how long a task waits for all tasks of higher priorities
	SenderSilentAfter      int64   `json:"sender_silent_after_seconds" kind:"seconds" default:"60" min:"1" max:"86400"`                // time since the last poll of a sender after which the sender counts as silent
	RegisterUnknownSenders bool    `json:"register_unknown_senders" kind:"yes" default:"true"`                                         // an app that polls for the first time is stored as a sender
	MaxRetryCount          int64   `json:"max_retry_count" kind:"number" default:"3" min:"0" max:"20"`                                 // retries of a task after its first attempt
	RetryDelay             float64 `json:"retry_delay_seconds" kind:"seconds" default:"300" min:"0" max:"604800"`                      // time before a retry that a report requested
	RetryMaxWait           float64 `json:"retry_max_wait_seconds" kind:"seconds" default:"600" min:"0" max:"2592000" zero:"never"`     // a retry that has been due for this time is sent like a new task
	ProcessingTimeout      float64 `json:"processing_timeout_seconds" kind:"seconds" default:"1800" min:"0.001" max:"604800"`          // duration of a lease
}

// Rules limits the attempts of a task and their times (S0.11, S0.12).
type Rules struct {
	MaxRetryCount     int
	RetryDelay        time.Duration
	RetryMaxWait      time.Duration // 0: never
	ProcessingTimeout time.Duration
}

// Rules returns the current rules.
func (q Queue) Rules() Rules {
	return Rules{
		MaxRetryCount: int(q.MaxRetryCount), RetryDelay: duration(q.RetryDelay), RetryMaxWait: duration(q.RetryMaxWait),
		ProcessingTimeout: duration(q.ProcessingTimeout),
	}
}

// setRules sets r as the current rules.
func (q *Queue) setRules(r Rules) {
	q.MaxRetryCount, q.RetryDelay, q.RetryMaxWait = int64(r.MaxRetryCount), r.RetryDelay.Seconds(), r.RetryMaxWait.Seconds()
	q.ProcessingTimeout = r.ProcessingTimeout.Seconds()
}

func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// RetryWait returns how long a due retry waits before it is sent like a new task. nil means forever.
func (r Rules) RetryWait() *time.Duration {
	if r.RetryMaxWait == 0 {
		return nil
	}
	return &r.RetryMaxWait
}

// SMS contains the defaults and the limits of submissions.
type SMS struct {
	PriorityVerification int64 `json:"priority_verification" kind:"number" default:"1" min:"0" max:"9"`
	PriorityConversation int64 `json:"priority_conversation" kind:"number" default:"3" min:"0" max:"9"` // of replies in conversations
	PriorityNotification int64 `json:"priority_notification" kind:"number" default:"5" min:"0" max:"9"`
	PriorityMarketing    int64 `json:"priority_marketing" kind:"number" default:"8" min:"0" max:"9"`
	ScheduledEvery       int64 `json:"scheduled_every_seconds" kind:"seconds" default:"300" min:"1" max:"86400"` // scheduled templates are sent at multiples of this interval
	SendTests            bool  `json:"send_tests" kind:"yes" default:"true"`                                     // if false, test messages are set to SUCCESS without being sent

	// These are the maximum number of characters of a text, and the maximum number of segments of a text with its signature.
	MaxContentVerification  int64 `json:"max_content_verification" kind:"number" default:"200" min:"1" max:"1024"`
	MaxContentNotification  int64 `json:"max_content_notification" kind:"number" default:"200" min:"1" max:"1024"`
	MaxContentMarketing     int64 `json:"max_content_marketing" kind:"number" default:"200" min:"1" max:"1024"`
	MaxSegmentsVerification int64 `json:"max_segments_verification" kind:"number" default:"16" min:"1" max:"16"`
	MaxSegmentsNotification int64 `json:"max_segments_notification" kind:"number" default:"16" min:"1" max:"16"`
	MaxSegmentsMarketing    int64 `json:"max_segments_marketing" kind:"number" default:"16" min:"1" max:"16"`
}

// LongestContent returns the maximum number of characters of a text whose message type is not known yet.
func (s SMS) LongestContent() int64 {
	return max(s.MaxContentVerification, s.MaxContentNotification, s.MaxContentMarketing)
}

// PriorityOf returns the priority of messages of a type that request none.
func (s SMS) PriorityOf(messageType int16) int16 {
	return int16([...]int64{s.PriorityVerification, s.PriorityNotification, s.PriorityMarketing}[messageType])
}

// NextInterval returns when a message of a scheduled template is sent, if it was submitted at the time at.
func (s SMS) NextInterval(at time.Time) time.Time {
	return time.Unix((at.Unix()/s.ScheduledEvery+1)*s.ScheduledEvery, 0)
}

// Monitoring contains the default thresholds of alert rules: the seconds after which a task has waited too long. It also defines the days of statistics.
type Monitoring struct {
	WaitWarning   int64  `json:"wait_warning_seconds" kind:"seconds" default:"300" min:"0" max:"2592000" zero:"never"`
	WaitCritical  int64  `json:"wait_critical_seconds" kind:"seconds" default:"600" min:"0" max:"2592000" zero:"never"`
	WaitEmergency int64  `json:"wait_emergency_seconds" kind:"seconds" default:"1800" min:"0" max:"2592000" zero:"never"`
	TimeZone      string `json:"time_zone" kind:"text" default:"Asia/Shanghai" min:"1" max:"50"` // time zone of the days of statistics and of daily totals
	Currency      string `json:"currency" kind:"text" default:"CNY" min:"3" max:"3"`             // currency of the prices of senders, and of costs
}

// History contains the settings of the partitions of tasks, and of other rows that are deleted by age. Days are UTC days.
type History struct {
	PartitionWidth string `json:"partition_width" kind:"choice" default:"day" choices:"day,week,month"`
	AfterDays      int64  `json:"after_days" kind:"days" default:"1" min:"1" max:"36500"`                   // days after which a partition with settled tasks becomes history
	Tablespace     string `json:"tablespace" kind:"text" default:"" min:"0" max:"63"`                       // tablespace to which history is moved; empty: history is not moved
	KeepDays       int64  `json:"keep_days" kind:"days" default:"0" min:"0" max:"36500" zero:"never"`       // days after which history is dropped
	Export         bool   `json:"export" kind:"yes" default:"true"`                                         // a partition is exported before it is dropped
	LogDays        int64  `json:"log_days" kind:"days" default:"180" min:"0" max:"36500" zero:"never"`      // days after which rejected submissions and operator events are deleted
	LedgerDays     int64  `json:"ledger_days" kind:"days" default:"180" min:"0" max:"36500" zero:"never"`   // days after which the charges of senders are summed
	BatchDays      int64  `json:"batch_days" kind:"days" default:"180" min:"0" max:"36500" zero:"never"`    // days after the end of a batch after which the batch and its rows are deleted
	DedupKeepDays  int64  `json:"dedup_keep_days" kind:"days" default:"0" min:"0" max:"36500" zero:"never"` // days after which a dedup key can be used again
	FeedDays       int64  `json:"feed_days" kind:"days" default:"7" min:"6" max:"90"`                       // days after which events of the feed are deleted; the minimum is longer than the time after which a failing webhook is switched off
	ReceivedDays   int64  `json:"received_days" kind:"days" default:"180" min:"0" max:"36500" zero:"never"` // days after which received messages are deleted
}

// Recipient contains the rules about the people who receive messages.
type Recipient struct {
	ReplyDays         int64  `json:"reply_days" kind:"days" default:"30" min:"0" max:"365"`                    // a received message answers only tasks that were submitted within these days
	QuietNotification string `json:"quiet_hours_notification" kind:"text" default:"" min:"0" max:"11"`         // hours in which notifications are not sent, see ParseQuietHours
	QuietMarketing    string `json:"quiet_hours_marketing" kind:"text" default:"21:00-09:00" min:"0" max:"11"` // hours in which marketing messages are not sent

	// These are the maximum numbers of messages by SMS from one company to one number. 0 means no maximum.
	CapsVerificationMinute int64 `json:"caps_verification_per_minute" kind:"number" default:"0" min:"0" max:"1000"`
	CapsVerificationHour   int64 `json:"caps_verification_per_hour" kind:"number" default:"0" min:"0" max:"1000"`
	CapsVerificationDay    int64 `json:"caps_verification_per_day" kind:"number" default:"0" min:"0" max:"1000"`
	CapsNotificationMinute int64 `json:"caps_notification_per_minute" kind:"number" default:"0" min:"0" max:"1000"`
	CapsNotificationHour   int64 `json:"caps_notification_per_hour" kind:"number" default:"0" min:"0" max:"1000"`
	CapsNotificationDay    int64 `json:"caps_notification_per_day" kind:"number" default:"0" min:"0" max:"1000"`
	CapsMarketingMinute    int64 `json:"caps_marketing_per_minute" kind:"number" default:"0" min:"0" max:"1000"`
	CapsMarketingHour      int64 `json:"caps_marketing_per_hour" kind:"number" default:"0" min:"0" max:"1000"`
	CapsMarketingDay       int64 `json:"caps_marketing_per_day" kind:"number" default:"0" min:"0" max:"1000"`
	CapsTotalDay           int64 `json:"caps_total_per_day" kind:"number" default:"0" min:"0" max:"1000"` // maximum number of messages of all companies and types to one number
}

// Verification contains the rules of verification codes.
type Verification struct {
	Length    int64 `json:"length" kind:"number" default:"6" min:"4" max:"10"`            // digits of a code
	TTL       int64 `json:"ttl_seconds" kind:"seconds" default:"300" min:"30" max:"3600"` // seconds after which a code expires
	MaxChecks int64 `json:"max_checks" kind:"number" default:"5" min:"1" max:"20"`        // wrong codes after which a verification ends
	KeepDays  int64 `json:"keep_days" kind:"days" default:"30" min:"1" max:"36500"`       // days after which verifications are deleted

	ResendBy string `json:"resend_by" kind:"choice" default:"same" choices:"same,other_sender,email"` // the way of a resend if the message before was not delivered

	// These are the maximum numbers of codes that a company sends to a recipient for a purpose. 0 means no maximum.
	PerMinute int64 `json:"per_minute" kind:"number" default:"1" min:"0" max:"1000"`
	PerHour   int64 `json:"per_hour" kind:"number" default:"5" min:"0" max:"1000"`
	PerDay    int64 `json:"per_day" kind:"number" default:"10" min:"0" max:"1000"`

	// These are the maximum numbers of codes that a company sends for one client_ip, and for one device. 0 means no maximum.
	ClientPerHour int64 `json:"client_per_hour" kind:"number" default:"20" min:"0" max:"1000"`
	ClientPerDay  int64 `json:"client_per_day" kind:"number" default:"100" min:"0" max:"1000"`

	UnprovenPerDay int64 `json:"unproven_per_day" kind:"number" default:"20" min:"0" max:"100000"` // codes within 24 hours for a prefix of numbers, or a network of clients, that is not proven; 0: no maximum

	Countries string `json:"countries" kind:"text" default:"" min:"0" max:"1000"` // countries (ISO 3166-1, with commas) that get codes by SMS, besides the country of the company
}

// Opened returns the countries that get codes by SMS.
func (v Verification) Opened() []string { return strings.Split(v.Countries, ",") }

// checkCountries returns the fault request.invalid for an unknown country.
func (v Verification) checkCountries() error {
	for _, region := range v.Opened() {
		if v.Countries != "" && phonenumbers.GetCountryCodeForRegion(region) == 0 {
			return fault.InvalidField("verification.countries", fault.NotARegion, region)
		}
	}
	return nil
}

// These are values of ResendBy. ResendEmail applies to persons who were named by their contact.
const (
	ResendSame        = "same"
	ResendOtherSender = "other_sender"
	ResendEmail       = "email"
)

// Caps returns the caps of a recipient and a purpose.
func (v Verification) Caps() Caps { return Caps{v.PerMinute, v.PerHour, v.PerDay} }

// ClientCaps returns the caps of a client.
func (v Verification) ClientCaps() Caps {
	return Caps{PerHour: v.ClientPerHour, PerDay: v.ClientPerDay}
}

// ReplyTime returns how long after a task a received message answers it.
func (r Recipient) ReplyTime() time.Duration { return time.Duration(r.ReplyDays) * 24 * time.Hour }

// Access contains the lifetimes of sessions.
type Access struct {
	SessionIdleMinutes int64 `json:"session_idle_minutes" kind:"minutes" default:"480" min:"5" max:"525600"` // minutes without a request after which a session ends
	SessionMaxHours    int64 `json:"session_max_hours" kind:"hours" default:"168" min:"1" max:"8760"`        // hours after which every session ends
}

// PriorityWait returns how long a task waits for tasks of higher priorities that are not real-time. nil means forever.
func (q Queue) PriorityWait() *time.Duration {
	if q.PriorityMaxWait == 0 {
		return nil
	}
	wait := time.Duration(q.PriorityMaxWait) * time.Second
	return &wait
}

// maxRealTimePriority is the largest real-time priority. The priority of verifications is also real-time. Real-time messages wait for no other messages.
const maxRealTimePriority = 1

// AgedPriority returns the priority of a task that has waited too long: the first priority after the real-time priorities.
func (v Values) AgedPriority() int16 {
	return int16(max(maxRealTimePriority, v.SMS.PriorityVerification)) + 1
}

// SilentAfter returns how long after its last poll a sender counts as available.
func (q Queue) SilentAfter() time.Duration { return time.Duration(q.SenderSilentAfter) * time.Second }

// ReceivedKept returns how long received messages are kept. 0 means forever.
func (h History) ReceivedKept() time.Duration { return time.Duration(h.ReceivedDays) * 24 * time.Hour }

// logDays returns for how many days logs are kept. The next functions return the days of other rows. 0 means forever.
func (h History) logDays() int64    { return h.LogDays }
func (h History) ledgerDays() int64 { return h.LedgerDays }
func (h History) batchDays() int64  { return h.BatchDays }
func (h History) dedupDays() int64  { return h.DedupKeepDays }

// partsKept is the number of partitions that together cover the days of a setting. Only whole partitions are dropped, so that some rows are kept one thirtieth
// longer.
const partsKept = 30

// partWidth returns the width of a partition whose rows are kept for days. If days is 0, rows are kept forever, in partitions of a month.
func partWidth(days int64) time.Duration {
	if days == 0 {
		return 30 * 24 * time.Hour
	}
	return time.Duration(max(1, days/partsKept)) * 24 * time.Hour
}

// LedgerWidth returns the width of a partition of the charges of senders.
func (h History) LedgerWidth() time.Duration { return partWidth(h.LedgerDays) }

// BatchWidth returns the width of a partition of the rows of batches.
func (h History) BatchWidth() time.Duration { return partWidth(h.BatchDays) }

// FeedKept returns how long events of the feed are kept. It is also how long after the last pull of a company events are recorded.
func (h History) FeedKept() time.Duration { return time.Duration(h.FeedDays) * 24 * time.Hour }

// SessionIdle returns how long a session lasts without a request.
func (a Access) SessionIdle() time.Duration { return time.Duration(a.SessionIdleMinutes) * time.Minute }

// MaxSession returns how long a session lasts at most.
func (a Access) MaxSession() time.Duration { return time.Duration(a.SessionMaxHours) * time.Hour }

// byName contains settings by category and name.
type byName map[string]map[string]json.RawMessage

// namesOf returns v by category and name.
func namesOf(v Values) (byName, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	var k byName
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return k, nil
}

// Service reads and changes settings.
type Service struct {
	db    *postgres.DB
	q     *settingq.Queries
	first Values // used for settings that are not stored
	cache snapshot.Cache[Values]
}

// New returns a Service on db.
func New(db *postgres.DB) *Service {
	s := &Service{db: db, q: settingq.New(db), first: defaultValues()}
	s.cache.Load = s.load
	return s
}

// NewWithRules works like New with rules that apply until they are stored as settings.
func NewWithRules(db *postgres.DB, rules Rules) *Service {
	s := New(db)
	s.first.Queue.setRules(rules)
	return s
}

func (s *Service) load(ctx context.Context) (Values, error) {
	return s.read(ctx, settingq.New(s.db.Outside()))
}

// read returns the stored settings, and the first values of all other settings.
func (s *Service) read(ctx context.Context, q *settingq.Queries) (Values, error) {
	values := s.first
	rows, err := q.SettingList(ctx)
	if err != nil {
		return values, fmt.Errorf("read settings: %w", err)
	}
	k := byName{}
	for _, row := range rows {
		if k[row.Category] == nil {
			k[row.Category] = map[string]json.RawMessage{}
		}
		k[row.Category][row.Name] = row.Value
	}
	text, err := json.Marshal(k)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		return values, fmt.Errorf("read settings: %w", err)
	}
	return values, nil
}

// Rules returns the rules in force, as Get does.
func (s *Service) Rules(ctx context.Context) (Rules, error) {
	values, err := s.Get(ctx)
	return values.Queue.Rules(), err
}

// Get returns the current settings of this server. A change by another server takes effect within four seconds.
func (s *Service) Get(ctx context.Context) (Values, error) { return s.cache.Get(ctx) }

// DeleteExpiredLogs runs remove repeatedly, as postgres.InBatches does. keep is the time in the setting history.log_days. DeleteExpiredLogs does nothing if
// this setting is 0 (forever).
func (s *Service) DeleteExpiredLogs(ctx context.Context, batch int64, remove func(keep time.Duration) (int64, error)) (int, error) {
	return s.deleteExpired(ctx, History.logDays, batch, remove)
}

// DeleteExpiredCharges works like DeleteExpiredLogs with history.ledger_days.
func (s *Service) DeleteExpiredCharges(ctx context.Context, batch int64, remove func(keep time.Duration) (int64, error)) (int, error) {
	return s.deleteExpired(ctx, History.ledgerDays, batch, remove)
}

// DeleteExpiredBatches works like DeleteExpiredLogs with history.batch_days.
func (s *Service) DeleteExpiredBatches(ctx context.Context, batch int64, remove func(keep time.Duration) (int64, error)) (int, error) {
	return s.deleteExpired(ctx, History.batchDays, batch, remove)
}

// DeleteExpiredDedupKeys works like DeleteExpiredLogs with history.dedup_keep_days.
func (s *Service) DeleteExpiredDedupKeys(ctx context.Context, batch int64, remove func(keep time.Duration) (int64, error)) (int, error) {
	return s.deleteExpired(ctx, History.dedupDays, batch, remove)
}

func (s *Service) deleteExpired(ctx context.Context, days func(History) int64, batch int64, remove func(keep time.Duration) (int64, error)) (int, error) {
	values, err := s.Get(ctx)
	keep := time.Duration(days(values.History)) * 24 * time.Hour
	if err != nil || keep == 0 {
		return 0, err
	}
	return postgres.InBatches(batch, func() (int64, error) { return remove(keep) })
}

// Put changes all of the given settings or no setting, and records who changed them. changes contains settings by category and name. The changes take effect on
// this server when Put returns. The caller must have validated changes against the contract. Fault: request.invalid for an unknown setting, for a time zone or
// tablespace that the database does not know, and for a wait that is longer than the wait of a more urgent level.
func (s *Service) Put(ctx context.Context, changes map[string]map[string]json.RawMessage, by string) (Values, error) {
	defaults, err := namesOf(s.first)
	if err != nil {
		return Values{}, err
	}
	if err := s.checkNames(ctx, changes); err != nil {
		return Values{}, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.q.SettingsLock(ctx); err != nil {
			return fmt.Errorf("lock settings: %w", err)
		}
		for _, category := range slices.Sorted(maps.Keys(changes)) { // sorted, so that the order in the audit is fixed
			for _, name := range slices.Sorted(maps.Keys(changes[category])) {
				value := changes[category][name]
				standard, known := defaults[category][name]
				if !known {
					return fault.InvalidField(category+"."+name, fault.UnknownField, nil)
				}
				if err := s.q.SettingStoreDefault(ctx, settingq.SettingStoreDefaultParams{
					Category: category, Name: name, DefaultValue: standard, Value: value,
				}); err != nil {
					return fmt.Errorf("store default of setting: %w", err)
				}
				if err := s.q.SettingPut(ctx, settingq.SettingPutParams{Category: category, Name: name, Value: value, UpdatedBy: by}); err != nil {
					return fmt.Errorf("change setting: %w", err)
				}
			}
		}
		values, err := s.read(ctx, s.q)
		if err != nil {
			return err
		}
		if err := values.Recipient.checkHours(); err != nil {
			return err
		}
		if err := values.Verification.checkCountries(); err != nil {
			return err
		}
		return values.Monitoring.checkWaits(changes["monitoring"])
	})
	if err != nil {
		return Values{}, err
	}
	s.cache.Invalidate()
	return s.Get(ctx)
}

// TimeZoneExists reports whether the database knows the name of a time zone.
func (s *Service) TimeZoneExists(ctx context.Context, name string) (bool, error) {
	exists, err := s.q.TimeZoneExists(ctx, name)
	return exists, postgres.Wrap("check time zone", err, nil)
}

// checkNames returns the fault request.invalid for a changed setting that names a time zone or tablespace which the database does not know.
func (s *Service) checkNames(ctx context.Context, changes map[string]map[string]json.RawMessage) error {
	for _, c := range []struct {
		category, name string
		exists         func(context.Context, string) (bool, error)
	}{
		{"monitoring", "time_zone", s.q.TimeZoneExists},
		{"history", "tablespace", s.q.TablespaceExists},
	} {
		text, isChanged := changes[c.category][c.name]
		if !isChanged {
			continue
		}
		var value string
		if err := json.Unmarshal(text, &value); err != nil {
			return fmt.Errorf("read %s: %w", c.name, err)
		}
		if value == "" { // the contract decides whether an empty value is allowed
			continue
		}
		switch exists, err := c.exists(ctx, value); {
		case err != nil:
			return postgres.Wrap("check "+c.name, err, nil)
		case !exists:
			return fault.InvalidField(c.category+"."+c.name, fault.NotThere, nil)
		}
	}
	return nil
}

// checkHours returns the fault request.invalid for quiet hours that are not valid.
func (r Recipient) checkHours() error {
	if _, err := ParseQuietHours("recipient.quiet_hours_notification", r.QuietNotification); err != nil {
		return err
	}
	_, err := ParseQuietHours("recipient.quiet_hours_marketing", r.QuietMarketing)
	return err
}

// checkWaits returns the fault request.invalid for a changed wait that is longer than the wait of a more urgent level. 0 means never, and is not compared.
func (m Monitoring) checkWaits(changed map[string]json.RawMessage) error {
	waits := []struct {
		name    string
		seconds int64
	}{{"wait_warning_seconds", m.WaitWarning}, {"wait_critical_seconds", m.WaitCritical}, {"wait_emergency_seconds", m.WaitEmergency}}
	for i, shorter := range waits {
		for _, longer := range waits[i+1:] {
			if shorter.seconds == 0 || longer.seconds == 0 || shorter.seconds <= longer.seconds {
				continue
			}
			if _, isChanged := changed[shorter.name]; isChanged {
				return fault.InvalidField("monitoring."+shorter.name, fault.TooBig, longer.seconds)
			}
			if _, isChanged := changed[longer.name]; isChanged {
				return fault.InvalidField("monitoring."+longer.name, fault.TooSmall, shorter.seconds)
			}
		}
	}
	return nil
}
