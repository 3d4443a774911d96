// Package httpapi is the HTTP door: it checks a request against the contract, converts it, calls a slice, and converts the
// outcome. What must hold whichever door is used stands in the slices.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	validator "github.com/oapi-codegen/nethttp-middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lksms/gen/api"
	"lksms/internal/access"
	"lksms/internal/alert"
	"lksms/internal/contact"
	"lksms/internal/directory"
	"lksms/internal/fault"
	"lksms/internal/history"
	"lksms/internal/idempotency"
	"lksms/internal/notification"
	"lksms/internal/queue"
	"lksms/internal/receipt"
	"lksms/internal/sender"
	"lksms/internal/setting"
	"lksms/internal/template"
)

// How long a request may take.
const (
	requestDeadline = 15 * time.Second
	longestWait     = 30 * time.Second // as the contract says of wait
)

// The operations whose items have their own outcomes.
const (
	sendBatchPath   = "/api/v1/sms/send-batch"
	reportBatchPath = "/api/v1/sms/report-batch"
)

// LongestAnswer is how long a request may take that asked to wait.
const LongestAnswer = requestDeadline + longestWait

// deadlineOf is how long a request may take by its path, before anything else of it is known.
func deadlineOf(path string) time.Duration {
	switch path {
	case "/api/v1/sms/tasks/pending", "/api/v1/sms/tasks/claim":
		return LongestAnswer
	default:
		return requestDeadline
	}
}

// Options says what the door needs beside the services.
type Options struct {
	EnableDocs bool

	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	CORSOrigins    []string
	TLS            bool // whether browsers may be told to insist on it

	Ready   func(context.Context) error // nil when requests can be served
	Log     *slog.Logger
	Metrics *prometheus.Registry
}

// Server answers the operations of the contract.
type Server struct {
	tasks       *queue.Service
	templates   *template.Service
	history     *history.Service
	alerts      *alert.Service
	access      *access.Service
	idempotency *idempotency.Service
	directory   *directory.Service
	senders     *sender.Service
	configs     *sender.Configs
	receipts    *receipt.Service
	notify      *notification.Service
	contacts    *contact.Service
	settings    *setting.Service
	options     Options

	contract  *contract
	rooms     rooms
	turns     *turns
	pace      pace
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

var _ api.StrictServerInterface = (*Server)(nil)

// Services are what the door leads to.
type Services struct {
	Queue         *queue.Service
	Templates     *template.Service
	History       *history.Service
	Alerts        *alert.Service
	Access        *access.Service
	Idempotency   *idempotency.Service
	Directory     *directory.Service
	Senders       *sender.Service
	Configs       *sender.Configs
	Settings      *setting.Service
	Receipts      *receipt.Service
	Notifications *notification.Service
	Contacts      *contact.Service
}

// New returns the handler of everything that the server serves.
func New(services Services, options Options) (http.Handler, error) {
	contract, err := readContract()
	if err != nil {
		return nil, err
	}
	metrics := promauto.With(options.Metrics)
	s := &Server{
		tasks: services.Queue, templates: services.Templates, history: services.History, alerts: services.Alerts, access: services.Access,
		idempotency: services.Idempotency, directory: services.Directory, senders: services.Senders, configs: services.Configs,
		settings: services.Settings, receipts: services.Receipts, notify: services.Notifications, contacts: services.Contacts,
		options: options, contract: contract, rooms: newRooms(), turns: newTurns(runtime.GOMAXPROCS(0)),
		requests: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_http_request_seconds", Help: "Time to answer by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
	operations := http.NewServeMux()
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, nil, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: s.undecodable, ResponseErrorHandlerFunc: s.fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: operations, ErrorHandlerFunc: s.undecodable},
	)
	mux := http.NewServeMux()
	mux.Handle("/", noStore(s.guard(operations, s.strict(s.validate()(s.once(operations))))))
	mux.Handle("GET /metrics", s.only([]string{readAll}, promhttp.HandlerFor(options.Metrics, promhttp.HandlerOpts{})))
	if options.EnableDocs {
		s.mountDocs(mux)
	}
	guarded, err := s.refuseOtherSites(mux)
	if err != nil {
		return nil, err
	}
	return s.observe(s.recoverPanic(s.crossOrigin(guarded))), nil
}

// validate checks requests against the contract. It reads some addresses otherwise than the router does (/users/%2F): what has no
// operation ends here.
func (s *Server) validate() func(http.Handler) http.Handler {
	spec := *s.contract.spec // the validator takes the servers out of the one that it is given
	check := validator.OapiRequestValidatorWithOptions(&spec, &validator.Options{
		DoNotValidateServers:  true,
		DiscardValidatedValue: true,
		Options: openapi3filter.Options{
			MultiError: true,
			// The handlers apply the defaults; a body is not written anew for them.
			SkipSettingDefaults: true,
			AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
		},
		ErrorHandlerWithOpts: func(_ context.Context, err error, w http.ResponseWriter, r *http.Request, _ validator.ErrorHandlerOpts) {
			s.fail(w, r, faultOf(err))
		},
	})
	return func(next http.Handler) http.Handler {
		return check(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if exchangeOf(r.Context()).operation == "" {
				s.fail(w, r, fault.New(fault.NotFound, fault.RouteNotFound))
				return
			}
			next.ServeHTTP(w, r)
		}))
	}
}
