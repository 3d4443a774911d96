// Package insight contains the handlers for operators: statistics, the overview, reconciliation, alerts, history, the audit, and the state of servers.
package insight

import (
	"context"
	"log/slog"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/insight/alert"
	"lksms/internal/insight/audit"
	"lksms/internal/insight/history"
	"lksms/internal/insight/reconcile"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/stream"
)

// Services contains the services that the handlers call.
type Services struct {
	Queue      *queue.Service
	Directory  *directory.Service
	Alerts     *alert.Service
	Audit      *audit.Service
	History    *history.Service
	Statistics *statistics.Service
	Overview   *statistics.Overview
	Reconcile  *reconcile.Service
	Settings   *setting.Service
	Servers    *servers.Service
	Streams    *stream.Streams
	Log        *slog.Logger
	Ready      func(context.Context) error // returns nil if the server can serve requests
}

// Handlers implements operations of the contract.
type Handlers struct {
	services Services
	scope    *caller.Scope
}

// New returns Handlers that call services.
func New(services Services, scope *caller.Scope) *Handlers { return &Handlers{services, scope} }
