// Package setting owns what operators change while the service runs (S3.12, S4.7).
package setting

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/snapshot"
)

// Values is every setting, as it is in force.
type Values struct {
	Queue      Queue      `json:"queue"`
	SMS        SMS        `json:"sms"`
	Monitoring Monitoring `json:"monitoring"`
}

// Queue says who is served, and when waiting has an end. Seconds.
type Queue struct {
	PriorityMaxWait        int64 `json:"priority_max_wait_seconds"` // 0: never
	SenderSilentAfter      int64 `json:"sender_silent_after_seconds"`
	RegisterUnknownSenders bool  `json:"register_unknown_senders"`
}

// SMS says what a submission means that does not say so itself.
type SMS struct {
	PriorityVerification int64 `json:"priority_verification"`
	PriorityNotification int64 `json:"priority_notification"`
	PriorityMarketing    int64 `json:"priority_marketing"`
	ScheduledEvery       int64 `json:"scheduled_every_seconds"` // at whose multiples scheduled templates go out
}

// Monitoring says when operators are told.
type Monitoring struct {
	WaitWarning int64 `json:"wait_warning_seconds"` // 0: never
}

// Defaults is what holds until somebody changes it.
func Defaults() Values {
	return Values{
		Queue:      Queue{PriorityMaxWait: 3600, SenderSilentAfter: 60, RegisterUnknownSenders: true},
		SMS:        SMS{PriorityVerification: 1, PriorityNotification: 5, PriorityMarketing: 8, ScheduledEvery: 300},
		Monitoring: Monitoring{WaitWarning: 300},
	}
}

// PriorityWait is how long a low priority waits for the higher ones; nil: for ever.
func (q Queue) PriorityWait() *time.Duration {
	if q.PriorityMaxWait == 0 {
		return nil
	}
	wait := time.Duration(q.PriorityMaxWait) * time.Second
	return &wait
}

// SilentAfter is how long after its last poll a sender still counts as there.
func (q Queue) SilentAfter() time.Duration { return time.Duration(q.SenderSilentAfter) * time.Second }

type kept map[string]map[string]json.RawMessage // by category and name

// keptAs is v by category and name.
func keptAs(v Values) (kept, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	var k kept
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
	values := Defaults()
	rows, err := dbq.New(s.db.Beside).SettingList(ctx)
	if err != nil {
		return values, fmt.Errorf("read settings: %w", err)
	}
	k := kept{}
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

// Get returns what is in force here; another server's change is, after at most four seconds.
func (s *Service) Get(ctx context.Context) (Values, error) { return s.cache.Get(ctx) }

// Put changes the settings that changes holds, by category and name, all or none, and keeps who did it. In force on this
// server when it returns. changes has been checked against the contract. Fault: request.invalid for what there is not.
func (s *Service) Put(ctx context.Context, changes map[string]map[string]json.RawMessage, by string) (Values, error) {
	defaults, err := keptAs(Defaults())
	if err != nil {
		return Values{}, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		for category, names := range changes {
			for name, value := range names {
				standard, known := defaults[category][name]
				if !known {
					return fault.InvalidField(category+"."+name, fault.UnknownField, nil)
				}
				if err := s.q.SettingPut(ctx, dbq.SettingPutParams{
					Category: category, Name: name, Value: value, UpdatedBy: by, DefaultValue: standard,
				}); err != nil {
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
