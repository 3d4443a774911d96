// Package tasks contains the handlers for submitters, senders and providers: messages, claims, reports, receipts, inbounds, and events of tasks with their
// webhooks.
package tasks

import (
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/sender"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/inbound"
)

// Services contains the services that the handlers call.
type Services struct {
	Submissions *submit.Service
	Tasks       *task.Service
	Queue       *queue.Service
	Jobs        *job.Service
	Receipts    *receipt.Service
	Received    *received.Service
	Senders     *sender.Service
	Directory   *directory.Service
	Inbounds    *inbound.Service
	Feed        *feed.Service
	Webhooks    *webhook.Service
	Gate        *gate.Gate
}

// Handlers implements operations of the contract.
type Handlers struct {
	services Services
	scope    *caller.Scope
}

// New returns Handlers that call services.
func New(services Services, scope *caller.Scope) *Handlers { return &Handlers{services, scope} }
