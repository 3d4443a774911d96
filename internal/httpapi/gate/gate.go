// Package gate is what every request passes before its handler and every answer after it: who may call, what a body may be, whose turn it
// is, and how fast strangers and rejections are answered. It goes by the contract.
package gate

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

	"lksms/internal/access"
	"lksms/internal/fault"
	"lksms/internal/idempotency"
	"lksms/internal/queue"
	"lksms/internal/receipt"
)

// The operations whose items have their own outcomes.
const (
	SendBatch       = "POST " + sendBatchPath
	ReportBatch     = "POST " + reportBatchPath
	sendBatchPath   = "/api/v1/sms/send-batch"
	reportBatchPath = "/api/v1/sms/report-batch"
)

// LongestAnswer is the most that the contract lets a request take.
const LongestAnswer = 45 * time.Second

// Services are what the gate asks.
type Services struct {
	Access      *access.Service
	Idempotency *idempotency.Service
	Receipts    *receipt.Service
	Queue       *queue.Service // keeps refused submissions
}

// Options says what the gate goes by beside the contract.
type Options struct {
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	CORSOrigins    []string
	TLS            bool // whether browsers may be told to insist on it
	Log            *slog.Logger
	Metrics        *prometheus.Registry
}

// Gate guards a server.
type Gate struct {
	services  Services
	options   Options
	contract  *contract
	rooms     rooms
	turns     *turns
	pace      pace
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New returns a Gate.
func New(services Services, options Options) (*Gate, error) {
	contract, err := readContract()
	if err != nil {
		return nil, err
	}
	metrics := promauto.With(options.Metrics)
	return &Gate{
		services: services, options: options, contract: contract, rooms: newRooms(), turns: newTurns(runtime.GOMAXPROCS(0)),
		requests: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_http_request_seconds", Help: "Time to answer by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}, nil
}

// Operations guards the operations of the contract.
func (g *Gate) Operations(operations *http.ServeMux) http.Handler {
	return noStore(g.guard(operations, g.Checked(g.once(operations))))
}

// Checked checks requests for operations by the contract, reads their bodies and gives them their turn.
func (g *Gate) Checked(next http.Handler) http.Handler { return g.strict(g.validate()(next)) }

// Everything guards all that the server serves: it observes requests, survives panics and refuses other sites.
func (g *Gate) Everything(next http.Handler) (http.Handler, error) {
	guarded, err := g.refuseOtherSites(next)
	if err != nil {
		return nil, err
	}
	return g.observe(g.recoverPanic(g.crossOrigin(guarded))), nil
}

// Reports is the batch of reports as the contract has it.
func (g *Gate) Reports() Batch { return g.contract.batches[ReportBatch] }

// CheckSettings checks a change of settings by the contract.
func (g *Gate) CheckSettings(body []byte) error { return g.contract.changes.Check(body) }

// validate checks requests against the contract. It reads some addresses otherwise than the router does (/users/%2F): what has no
// operation ends here.
func (g *Gate) validate() func(http.Handler) http.Handler {
	spec := *g.contract.spec // the validator takes the servers out of the one that it is given
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
			g.Fail(w, r, faultOf(err))
		},
	})
	return func(next http.Handler) http.Handler {
		return check(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if Of(r.Context()).Operation == "" {
				g.Fail(w, r, fault.New(fault.NotFound, fault.RouteNotFound))
				return
			}
			next.ServeHTTP(w, r)
		}))
	}
}
