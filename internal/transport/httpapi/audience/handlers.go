// Package audience contains the handlers of messages to many recipients: batches and their lists, notifications, contacts with their tags, blocks,
// conversations, rules about received messages, verifications, and erasures.
package audience

import (
	"log/slog"

	"lksms/internal/audience/batch"
	"lksms/internal/audience/blocklist"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/audience/erasure"
	"lksms/internal/audience/notification"
	"lksms/internal/audience/replyrule"
	"lksms/internal/audience/upload"
	"lksms/internal/audience/verification"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/events/webhook"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/stream"
)

// Services contains the services that the handlers call.
type Services struct {
	Explain       *explain.Service
	Batches       *batch.Service
	Blocks        *block.Service
	Blocklists    *blocklist.Service
	Uploads       *upload.Service
	Notifications *notification.Service
	Contacts      *contact.Service
	Conversations *conversation.Service
	ReplyRules    *replyrule.Service
	Verifications *verification.Service
	Webhooks      *webhook.Service
	Erasures      *erasure.Service
	Directory     *directory.Service
	Streams       *stream.Streams
	Log           *slog.Logger
}

// Handlers implements operations of the contract.
type Handlers struct {
	services Services
	scope    *caller.Scope
}

// New returns Handlers that call services.
func New(services Services, scope *caller.Scope) *Handlers { return &Handlers{services, scope} }
