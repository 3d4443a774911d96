// Package provider contains the common parts of calls to providers: messages, attempts, requests without secrets, answers and outcomes.
package provider

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"lksms/internal/platform/outbound"
)

// Message is one message to one recipient.
type Message struct {
	TaskID      string
	Attempt     int16
	LeaseID     int64      // lease of this attempt; different for every attempt of every task
	EnteredAt   *time.Time // when the task entered the queue; the value is the same for each attempt until a requeue; nil: unknown
	Recipient   string     // address on the channel
	CompanyNo   string     // company of the task; can be empty
	UserID      string     // user of a notification; can be empty
	Title       string     // title of a notification; can be empty
	Content     string
	Sign        string          // signature without brackets; Content begins with it, or the provider adds it; empty: no signature
	HTML        string          // Content as HTML, for channels that show HTML; empty: no HTML
	TemplateID  string          // the provider's id of the template; can be empty
	Params      json.RawMessage // JSON object with the values for the template; can be nil
	Page        string          // page that the message opens; can be empty
	Traceparent string          // traceparent of the submission; empty: no trace
	Group       int64           // messages of one group differ only in the recipient; 0: no group
	IsOfBatch   bool            // the message belongs to an uploaded list
	ValidUntil  time.Time       // no attempt starts after this time; zero: no limit
	IsSensitive bool            // Title, Content, HTML and Params must not be logged, and the provider's texts about the message must not be stored
}

// EnteredUnixMs returns EnteredAt in milliseconds since 1970. 0 means unknown.
func (m *Message) EnteredUnixMs() int64 {
	if m.EnteredAt == nil {
		return 0
	}
	return m.EnteredAt.UnixMilli()
}

// IsExpired reports whether the message has expired and must not be sent.
func (m *Message) IsExpired() bool { return !m.ValidUntil.IsZero() && !time.Now().Before(m.ValidUntil) }

// Tools contains the dependencies of a driver.
type Tools struct {
	Outbound outbound.Policy
	Log      *slog.Logger
	// Began is called before an attempt calls the provider for a message. The message can represent the other messages of its group. The attempt uses
	// the returned context, and calls ended with its outcome. Nil: attempts are not observed.
	Began func(ctx context.Context, m Message) (_ context.Context, ended func(o Outcome))
	// MayBegin is called directly before each call to the provider, for every message of the call. If it returns false, the message is not sent. Nil:
	// every message is allowed.
	MayBegin func(ctx context.Context, m Message) bool
	// Asked is called with each request for a message, without secrets. Nil: requests are not observed.
	Asked func(r Request)
	// Secrets are secrets of the sender that are not in its configuration. They are hidden in answers.
	Secrets []string
	// Token returns the access token for a provider. If the stored token is missing or equals stale, one process calls fetch for all processes.
	Token func(ctx context.Context, stale string, fetch func(ctx context.Context) (token string, lasts time.Duration, err error)) (string, error)

	// Take stores what the provider sent through a link. The driver answers the provider only after Take has returned without an error. Nil: the driver was
	// made to test the sender.
	Take func(ctx context.Context, in Incoming) error
	// Rest returns the context for the rest of a message of which the provider took a part. It outlives the context of Send: the leases are renewed until Send
	// returns. Nil: the context of Send is also the one of the rest.
	Rest func(m Message) (context.Context, context.CancelFunc)

	Mask Mask // hides the secrets of the configuration
}
