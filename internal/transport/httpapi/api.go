// Package httpapi is the HTTP door: it answers the operations of the contract, one file of handlers for each domain. What comes before
// and after a handler is in gate.
//
// A handler may return an answer together with an error: the caller is told the error, and the answer is dropped.
package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lksms/gen/api"
	"lksms/internal/audience/batch"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/erasure"
	"lksms/internal/audience/notification"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/receipt"
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
	"lksms/internal/transport/httpapi/console"
	"lksms/internal/transport/httpapi/docs"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/kannel"
	smsgatedoor "lksms/internal/transport/httpapi/smsgateclient"
	"lksms/internal/transport/httpapi/smsgatephone"
	"lksms/internal/transport/httpapi/stream"
	"lksms/internal/transport/inbound"
	"lksms/internal/transport/smsgate"
	"lksms/internal/transport/smsgateclient"
)

// Options says what the door needs beside the services.
type Options struct {
	EnableDocs bool
	Kannel     bool                        // answer Kannel's sendsms too
	Ready      func(context.Context) error // nil when requests can be served
	Streams    *stream.Streams
	Gate       gate.Options
}

// Server answers the operations of the contract.
type Server struct {
	tasks     *queue.Service
	templates *template.Service
	history   *history.Service
	alerts    *alert.Service
	audit     *audit.Service
	access    *access.Service
	directory *directory.Service
	senders   *sender.Service
	configs   *sender.Configs
	pusher    *push.Pusher
	receipts  *receipt.Service
	inbounds  *inbound.Service
	phones    *smsgate.Service
	notify    *notification.Service
	contacts  *contact.Service
	erasures  *erasure.Service
	feed      *feed.Service
	webhooks  *webhook.Service
	servers   *servers.Service
	settings  *setting.Service
	figures   *statistics.Service
	reconcile *reconcile.Service
	jobs      *job.Service
	batches   *batch.Service
	uploads   *upload.Service
	now       *statistics.Overview
	streams   *stream.Streams
	options   Options

	gate *gate.Gate
}

var _ api.StrictServerInterface = (*Server)(nil)

// Services are what the door leads to.
type Services struct {
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
	Inbounds      *inbound.Service
	Phones        *smsgate.Service
	Notifications *notification.Service
	Contacts      *contact.Service
	Erasures      *erasure.Service
	Feed          *feed.Service
	Webhooks      *webhook.Service
	Statistics    *statistics.Service
	Reconcile     *reconcile.Service
	Jobs          *job.Service
	Batches       *batch.Service
	Uploads       *upload.Service
	Overview      *statistics.Overview
	SmsgateClient *smsgateclient.Service
	Servers       *servers.Service
}

// New returns the handler of everything that the server serves.
func New(services Services, options Options) (http.Handler, error) {
	guard, err := gate.New(gate.Services{
		Access: services.Access, Idempotency: services.Idempotency, Receipts: services.Receipts, Queue: services.Queue, Uploads: services.Uploads,
	}, options.Gate)
	if err != nil {
		return nil, err
	}
	s := &Server{
		tasks: services.Queue, templates: services.Templates, history: services.History, alerts: services.Alerts, audit: services.Audit, access: services.Access,
		directory: services.Directory, senders: services.Senders, configs: services.Configs, pusher: services.Pusher, settings: services.Settings,
		receipts: services.Receipts, inbounds: services.Inbounds, phones: services.Phones, notify: services.Notifications, contacts: services.Contacts, erasures: services.Erasures, feed: services.Feed, webhooks: services.Webhooks, servers: services.Servers, figures: services.Statistics, reconcile: services.Reconcile, jobs: services.Jobs, batches: services.Batches, uploads: services.Uploads,
		now: services.Overview, streams: options.Streams, options: options, gate: guard,
	}
	mux := http.NewServeMux()
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: guard.Undecodable, ResponseErrorHandlerFunc: guard.Fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: guard.Operations(mux), ErrorHandlerFunc: guard.Undecodable},
	)
	smsgatephone.Mount(mux, guard, services.Phones, smsgatephone.Options{Streams: options.Streams, Log: options.Gate.Log})
	mux.Handle("GET /metrics", guard.RequireReadAll(promhttp.HandlerFor(options.Gate.Metrics, promhttp.HandlerOpts{})))
	smsgatedoor.Mount(mux, guard, smsgatedoor.Services{Messages: services.SmsgateClient, Webhooks: services.Webhooks, Ready: options.Ready})
	if options.Kannel {
		kannel.Mount(mux, guard, services.Queue)
	}
	root := guard.NotFound()
	if options.EnableDocs {
		docs.Mount(mux, options.Gate.BasePath, guard.Fail)
		root = http.RedirectHandler(options.Gate.BasePath+"/docs/", http.StatusFound)
	}
	if !options.Gate.Roles.Has(servers.Console) {
		mux.Handle("GET /{$}", root)
	} else if err := mountConsole(mux, options.Gate.BasePath, root); err != nil {
		return nil, err
	}
	return guard.Everything(mux)
}

// mountConsole serves the console, and leads browsers that ask for / there. root answers / for other callers.
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
