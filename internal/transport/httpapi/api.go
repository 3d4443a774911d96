// Package httpapi serves HTTP: the operations and the pages of the contract. Each domain has a package of handlers in a folder of this package. Package gate
// runs before and after each handler.
//
// If a handler returns both a response and an error, the caller receives only the error.
package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lksms/gen/api"
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
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/template"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/insight/alert"
	"lksms/internal/insight/audit"
	"lksms/internal/insight/history"
	"lksms/internal/insight/reconcile"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/access"
	"lksms/internal/platform/idempotency"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/transport/httpapi/admin"
	"lksms/internal/transport/httpapi/audience"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/console"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/insight"
	"lksms/internal/transport/httpapi/manual"
	"lksms/internal/transport/httpapi/stream"
	"lksms/internal/transport/httpapi/tasks"
	"lksms/internal/transport/inbound"
	"lksms/internal/transport/kannel"
	"lksms/internal/transport/smsgate/mobile"
	"lksms/internal/transport/smsgate/thirdparty"
)

// Options configures the handler that New returns.
type Options struct {
	EnableDocs bool
	Kannel     bool                        // also serve Kannel's sendsms
	Ready      func(context.Context) error // returns nil if the server can serve requests
	Streams    *stream.Streams
	Gate       gate.Options
}

// Server implements all operations of the contract.
type Server struct {
	*taskHandlers
	*audienceHandlers
	*adminHandlers
	*insightHandlers
}

// These aliases give the embedded Handlers of a Server different field names.
type (
	taskHandlers     = tasks.Handlers
	audienceHandlers = audience.Handlers
	adminHandlers    = admin.Handlers
	insightHandlers  = insight.Handlers
)

var _ api.StrictServerInterface = (*Server)(nil)

// Services contains the services that handlers call.
type Services struct {
	Submissions   *submit.Service
	Tasks         *task.Service
	Explain       *explain.Service
	Queue         *queue.Service
	Templates     *template.Service
	History       *history.Service
	Alerts        *alert.Service
	Audit         *audit.Service
	Access        *access.Service
	Idempotency   *idempotency.Service
	Directory     *directory.Service
	Senders       *sender.Service
	Configs       *sender.Configs
	Pusher        *push.Pusher
	Settings      *setting.Service
	Receipts      *receipt.Service
	Received      *received.Service
	Blocks        *block.Service
	Blocklists    *blocklist.Service
	Inbounds      *inbound.Service
	Phones        *mobile.Service
	Notifications *notification.Service
	Contacts      *contact.Service
	Conversations *conversation.Service
	Verifications *verification.Service
	ReplyRules    *replyrule.Service
	Erasures      *erasure.Service
	Feed          *feed.Service
	Webhooks      *webhook.Service
	Statistics    *statistics.Service
	Reconcile     *reconcile.Service
	Jobs          *job.Service
	Batches       *batch.Service
	Uploads       *upload.Service
	Overview      *statistics.Overview
	ThirdParty    *thirdparty.Service
	Servers       *servers.Service
}

// New returns the handler of all paths that the server serves.
func New(services Services, options Options) (http.Handler, error) {
	if options.EnableDocs {
		options.Gate.Manual = options.Gate.BasePath + manual.Prefix
	}
	guard, err := gate.New(gate.Services{
		Access: services.Access, Idempotency: services.Idempotency, Receipts: services.Receipts, Submissions: services.Submissions, Uploads: services.Uploads,
	}, options.Gate)
	if err != nil {
		return nil, err
	}
	scope := caller.NewScope(services.Directory, services.Senders)
	s := &Server{
		taskHandlers: tasks.New(tasks.Services{
			Submissions: services.Submissions, Tasks: services.Tasks, Queue: services.Queue, Jobs: services.Jobs, Receipts: services.Receipts, Received: services.Received, Senders: services.Senders, Directory: services.Directory, Inbounds: services.Inbounds, Feed: services.Feed,
			Webhooks: services.Webhooks, Gate: guard,
		}, scope),
		audienceHandlers: audience.New(audience.Services{
			Explain: services.Explain, Batches: services.Batches, Blocks: services.Blocks, Blocklists: services.Blocklists, Uploads: services.Uploads, Notifications: services.Notifications,
			Contacts: services.Contacts, Conversations: services.Conversations, ReplyRules: services.ReplyRules, Verifications: services.Verifications, Webhooks: services.Webhooks, Erasures: services.Erasures, Directory: services.Directory, Streams: options.Streams,
			Log: options.Gate.Log,
		}, scope),
		adminHandlers: admin.New(admin.Services{
			Access: services.Access, Directory: services.Directory, Senders: services.Senders, Configs: services.Configs,
			Pusher: services.Pusher, Phones: services.Phones, Templates: services.Templates, Submissions: services.Submissions,
			Settings: services.Settings, Gate: guard,
		}, scope),
		insightHandlers: insight.New(insight.Services{
			Queue: services.Queue, Directory: services.Directory, Alerts: services.Alerts, Audit: services.Audit, History: services.History,
			Statistics: services.Statistics, Overview: services.Overview, Reconcile: services.Reconcile, Settings: services.Settings,
			Servers: services.Servers, Streams: options.Streams, Log: options.Gate.Log, Ready: options.Ready,
		}, scope),
	}
	mux := http.NewServeMux()
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: guard.Undecodable, ResponseErrorHandlerFunc: guard.Fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: guard.Operations(mux), ErrorHandlerFunc: guard.Undecodable},
	)
	mobile.Mount(mux, guard, services.Phones, mobile.Options{Streams: options.Streams, Log: options.Gate.Log})
	mux.Handle("GET /metrics", guard.RequireReadAll(promhttp.HandlerFor(options.Gate.Metrics, promhttp.HandlerOpts{})))
	thirdparty.Mount(mux, guard, thirdparty.Services{
		Messages: services.ThirdParty, Webhooks: services.Webhooks, Phones: services.Phones, Received: services.Received,
		Ready: options.Ready,
	})
	if options.Kannel {
		kannel.Mount(mux, guard, services.Submissions)
	}
	root := guard.NotFound()
	if options.EnableDocs {
		mountDocs(mux, options.Gate.BasePath, guard)
		root = http.RedirectHandler(options.Gate.BasePath+"/docs/", http.StatusFound)
	}
	if !options.Gate.Roles.Has(servers.Console) {
		mux.Handle("GET /{$}", root)
	} else if err := mountConsole(mux, options.Gate.BasePath, root); err != nil {
		return nil, err
	}
	return guard.Everything(mux)
}

// mountConsole serves the console. A browser that opens the path "/" is redirected to the console; root answers "/" for other clients.
func mountConsole(mux *http.ServeMux, basePath string, root http.Handler) error {
	pages, err := console.Handler(basePath)
	if err != nil {
		return err
	}
	mux.Handle("GET "+console.Prefix, gate.Files(pages))
	toConsole := http.RedirectHandler(basePath+console.Prefix, http.StatusFound)
	mux.Handle("GET "+strings.TrimSuffix(console.Prefix, "/"), toConsole)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			toConsole.ServeHTTP(w, r)
			return
		}
		root.ServeHTTP(w, r)
	})
	return nil
}
