// Package admin contains the handlers for what administrators configure: users, companies, countries, channels, senders, routes, templates and settings. It
// also contains the handlers of sessions.
package admin

import (
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/access"
	"lksms/internal/platform/setting"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgate/mobile"
)

// Services contains the services that the handlers call.
type Services struct {
	Access      *access.Service
	Directory   *directory.Service
	Senders     *sender.Service
	Configs     *sender.Configs
	Pusher      *push.Pusher
	Phones      *mobile.Service
	Templates   *template.Service
	Submissions *submit.Service
	Settings    *setting.Service
	Gate        *gate.Gate
}

// Handlers implements operations of the contract.
type Handlers struct {
	services Services
	scope    *caller.Scope
}

// New returns Handlers that call services.
func New(services Services, scope *caller.Scope) *Handlers { return &Handlers{services, scope} }
