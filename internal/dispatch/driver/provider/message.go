// Package provider is how drivers call a provider: messages and their attempts, requests without secrets, answers and outcomes.
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
	LeaseID     int64      // of this attempt; no other attempt of any task has it
	EnteredAt   *time.Time // when the task began to wait: the same for each attempt until a requeue; nil: not known
	Recipient   string     // the address on the channel
	UserID      string     // user of a notification; can be empty
	Title       string     // title of a notification; can be empty
	Content     string
	Sign        string          // the signature with which Content begins, or that the provider adds, without its brackets; empty: none
	HTML        string          // Content as HTML, for channels that show it; empty: none
	TemplateID  string          // the provider's id of the template; can be empty
	Params      json.RawMessage // JSON object with the values for the template; can be nil
	Page        string          // page that the message opens; can be empty
	Traceparent string          // of the submission; empty: none
	Group       int64           // messages of one group differ only in the recipient; 0: no group
	IsOfBatch   bool            // the message is from an uploaded list
	ValidUntil  time.Time       // no attempt starts after it; zero: at any time
}

// EnteredUnixMs returns EnteredAt in milliseconds; 0: not known.
func (m *Message) EnteredUnixMs() int64 {
	if m.EnteredAt == nil {
		return 0
	}
	return m.EnteredAt.UnixMilli()
}

// IsExpired reports whether the message must not be sent any more.
func (m *Message) IsExpired() bool { return !m.ValidUntil.IsZero() && !time.Now().Before(m.ValidUntil) }

// Tools are the dependencies of drivers.
type Tools struct {
	Outbound outbound.Policy
	Log      *slog.Logger
	// Began is called when an attempt begins to call the provider for a message, which may stand for others of its group. The attempt runs with
	// the returned context. ended is called with its outcome. Nil: nobody follows attempts.
	Began func(ctx context.Context, m Message) (_ context.Context, ended func(o Outcome))
	// MayBegin is called right before each call to the provider, with each message of the call. A message for which it returns false is not sent.
	// Nil: each message may be sent.
	MayBegin func(ctx context.Context, m Message) bool
	// Asked is called with each request for a message, without secrets. Nil: nobody asks for them.
	Asked func(r Request)
	// Secrets are secrets of the sender that its configuration does not hold. They are hidden in answers.
	Secrets []string
	// Token returns the access token for a provider. One process fetches it for all. The stale one is not returned
	// again.
	Token func(ctx context.Context, stale string, fetch func(ctx context.Context) (token string, lasts time.Duration, err error)) (string, error)

	Mask Mask // hides the secrets of the configuration
}
