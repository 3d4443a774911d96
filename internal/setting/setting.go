// Package setting owns the settings that operators change while the service runs (S3.12, S4.7).
package setting

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/snapshot"
)

// Values holds the settings in force.
type Values struct {
	Queue      Queue      `json:"queue"`
	SMS        SMS        `json:"sms"`
	Monitoring Monitoring `json:"monitoring"`
	History    History    `json:"history"`
	Access     Access     `json:"access"`
}

// Queue holds the settings of dispatch. Times are in seconds.
type Queue struct {
	PriorityMaxWait        int64 `json:"priority_max_wait_seconds"`   // how long a low priority waits for all higher ones; 0: forever
	SenderSilentAfter      int64 `json:"sender_silent_after_seconds"` // time since its last poll after which a sender counts as silent
	RegisterUnknownSenders bool  `json:"register_unknown_senders"`
}

// SMS holds the defaults and the limits of submissions.
type SMS struct {
	PriorityVerification int64 `json:"priority_verification"`
	PriorityNotification int64 `json:"priority_notification"`
	PriorityMarketing    int64 `json:"priority_marketing"`
	ScheduledEvery       int64 `json:"scheduled_every_seconds"` // interval in seconds at whose multiples scheduled templates are sent

	SendTests bool `json:"send_tests"` // false: a test message is SUCCESS at once, and no sender gets it

	// The most characters of a text, and the most segments that it takes with its signature.
	ContentMostVerification  int64 `json:"content_most_verification"`
	ContentMostNotification  int64 `json:"content_most_notification"`
	ContentMostMarketing     int64 `json:"content_most_marketing"`
	SegmentsMostVerification int64 `json:"segments_most_verification"`
	SegmentsMostNotification int64 `json:"segments_most_notification"`
	SegmentsMostMarketing    int64 `json:"segments_most_marketing"`
}

// LongestContent is the most characters of a text whose message type is not known yet.
func (s SMS) LongestContent() int64 {
	return max(s.ContentMostVerification, s.ContentMostNotification, s.ContentMostMarketing)
}

// Monitoring holds the thresholds of the alert rules that name none: after how many seconds a task has waited too long; 0: never. And it says
// what a day of statistics is.
type Monitoring struct {
	WaitWarning   int64  `json:"wait_warning_seconds"`
	WaitCritical  int64  `json:"wait_critical_seconds"`
	WaitEmergency int64  `json:"wait_emergency_seconds"`
	TimeZone      string `json:"time_zone"` // of the days of statistics and of daily totals
	Currency      string `json:"currency"`  // of the prices of senders, and of costs
}

// History holds the settings of the partitions of tasks, and of what is kept beside them. A day is one of UTC.
type History struct {
	PartitionWidth string `json:"partition_width"` // day, week or month
	AfterDays      int64  `json:"after_days"`      // days after which a partition with settled tasks becomes history
	Tablespace     string `json:"tablespace"`      // where history is; empty: where it was
	KeepDays       int64  `json:"keep_days"`       // days after which history is dropped; 0: never
	Export         bool   `json:"export"`          // a partition is exported before it is dropped
	LogDays        int64  `json:"log_days"`        // days after which refused submissions and operator events are deleted, and the ledger is summed up
	FeedDays       int64  `json:"feed_days"`       // days after which events of the feed are deleted: more than webhooks may fail
}

// Access holds the lifetimes of sessions.
type Access struct {
	SessionIdleMinutes int64 `json:"session_idle_minutes"` // minutes without a request after which a session ends
	SessionMaxHours    int64 `json:"session_max_hours"`    // hours after which a session ends in any case
}

// defaultValues returns the default of every setting. It is in force until the setting is changed.
func defaultValues() Values {
	return Values{
		Queue: Queue{PriorityMaxWait: 3600, SenderSilentAfter: 60, RegisterUnknownSenders: true},
		SMS: SMS{
			PriorityVerification: 1, PriorityNotification: 5, PriorityMarketing: 8, ScheduledEvery: 300, SendTests: true,
			ContentMostVerification: 200, ContentMostNotification: 200, ContentMostMarketing: 200,
			SegmentsMostVerification: 16, SegmentsMostNotification: 16, SegmentsMostMarketing: 16,
		},
		Monitoring: Monitoring{WaitWarning: 300, WaitCritical: 600, WaitEmergency: 1800, TimeZone: "Asia/Shanghai", Currency: "CNY"},
		History:    History{PartitionWidth: "day", AfterDays: 1, Export: true, LogDays: 180, FeedDays: 7},
		Access:     Access{SessionIdleMinutes: 8 * 60, SessionMaxHours: 7 * 24},
	}
}

// PriorityWait is how long a low priority waits for higher ones that are not real-time; nil: forever.
func (q Queue) PriorityWait() *time.Duration {
	if q.PriorityMaxWait == 0 {
		return nil
	}
	wait := time.Duration(q.PriorityMaxWait) * time.Second
	return &wait
}

// realTimeMost is the last priority of real-time messages, beside that of verifications: they wait for nothing else.
const realTimeMost = 1

// AgedPriority is the priority with which a task is queued that has waited too long: the first one behind real-time messages.
func (v Values) AgedPriority() int16 { return int16(max(realTimeMost, v.SMS.PriorityVerification)) + 1 }

// SilentAfter is how long after its last poll a sender counts as available.
func (q Queue) SilentAfter() time.Duration { return time.Duration(q.SenderSilentAfter) * time.Second }

// logsKept is how long refused submissions, operator events and the single charges of the ledger are kept; nil: forever.
func (h History) logsKept() *time.Duration {
	if h.LogDays == 0 {
		return nil
	}
	kept := time.Duration(h.LogDays) * 24 * time.Hour
	return &kept
}

// FeedKept is how long events of the feed are kept, and for how long they are recorded after somebody pulled.
func (h History) FeedKept() time.Duration { return time.Duration(h.FeedDays) * 24 * time.Hour }

// SessionIdle is how long a session lasts without a request.
func (a Access) SessionIdle() time.Duration { return time.Duration(a.SessionIdleMinutes) * time.Minute }

// SessionMost is how long a session lasts in any case.
func (a Access) SessionMost() time.Duration { return time.Duration(a.SessionMaxHours) * time.Hour }

// byName holds settings by category and name.
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
	q     *dbq.Queries
	cache snapshot.Cache[Values]
}

// New returns a Service on db.
func New(db *postgres.DB) *Service {
	s := &Service{db: db, q: dbq.New(db)}
	s.cache.Load = s.load
	return s
}

func (s *Service) load(ctx context.Context) (Values, error) {
	values := defaultValues()
	rows, err := dbq.New(s.db.Outside()).SettingList(ctx)
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

// Get returns the settings in force on this server. A change made on another server is seen within four seconds.
func (s *Service) Get(ctx context.Context) (Values, error) { return s.cache.Get(ctx) }

// ForgetLogs runs forget as postgres.InBatches does, with the time that the setting history.log_days says, unless logs are kept forever.
func (s *Service) ForgetLogs(ctx context.Context, batch int64, forget func(keep time.Duration) (int64, error)) (int, error) {
	values, err := s.Get(ctx)
	keep := values.History.logsKept()
	if err != nil || keep == nil {
		return 0, err
	}
	return postgres.InBatches(batch, func() (int64, error) { return forget(*keep) })
}

// Put changes settings, given by category and name, all or none, and records who did it. They are in force on this
// server when Put returns. The caller must have validated changes against the contract. Fault: request.invalid for an
// unknown setting, and for a time zone that the database does not know.
func (s *Service) Put(ctx context.Context, changes map[string]map[string]json.RawMessage, by string) (Values, error) {
	defaults, err := namesOf(defaultValues())
	if err != nil {
		return Values{}, err
	}
	if zone, isNamed := changes["monitoring"]["time_zone"]; isNamed {
		if err := s.checkZone(ctx, zone); err != nil {
			return Values{}, err
		}
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		for _, category := range slices.Sorted(maps.Keys(changes)) { // two calls lock the settings in one order
			for _, name := range slices.Sorted(maps.Keys(changes[category])) {
				value := changes[category][name]
				standard, known := defaults[category][name]
				if !known {
					return fault.InvalidField(category+"."+name, fault.UnknownField, nil)
				}
				if err := s.q.SettingStoreDefault(ctx, dbq.SettingStoreDefaultParams{
					Category: category, Name: name, DefaultValue: standard, Value: value,
				}); err != nil {
					return fmt.Errorf("store default of setting: %w", err)
				}
				if err := s.q.SettingPut(ctx, dbq.SettingPutParams{Category: category, Name: name, Value: value, UpdatedBy: by}); err != nil {
					return fmt.Errorf("change setting: %w", err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return Values{}, err
	}
	s.cache.Forget()
	return s.Get(ctx)
}

// checkZone returns the fault request.invalid for a time zone that the database does not know.
func (s *Service) checkZone(ctx context.Context, text json.RawMessage) error {
	var zone string
	if err := json.Unmarshal(text, &zone); err != nil {
		return fmt.Errorf("read time zone: %w", err)
	}
	isKnown, err := s.q.TimeZoneExists(ctx, zone)
	if err == nil && !isKnown {
		return fault.InvalidField("monitoring.time_zone", fault.NotThere, nil)
	}
	return postgres.Wrap("check time zone", err, nil)
}
