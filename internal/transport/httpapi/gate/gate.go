// Package gate handles every request before its handler and every answer after it. It decides who may call, which bodies are valid, when
// a costly request may run, and how fast rejections and unknown callers are answered. The contract holds its rules.
package gate

import (
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/idempotency"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/tracing"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/gate/contract"
)

// LongestAnswer is the longest time that the contract can allow for a request.
const LongestAnswer = contract.LongestAnswer

// Services are the services that the gate calls.
type Services struct {
	Access      *access.Service
	Idempotency *idempotency.Service
	Receipts    *receipt.Service
	Submissions *submit.Service // stores rejected submissions
	Uploads     *upload.Service
}

// Options are the settings of a Gate.
type Options struct {
	TrustedProxies []netip.Prefix // their X-Forwarded-For is trusted
	CORSOrigins    []string
	Roles          servers.Roles // of this server
	BasePath       string        // under which callers reach the server; empty, or a path that begins with / and does not end with it
	Manual         string        // the address below which the pages of the manual are; empty: this server has none
	TLS            bool          // answers tell browsers to use HTTPS only (HSTS)
	Log            *slog.Logger
	Metrics        *prometheus.Registry
	Tracer         *tracing.Tracer
}

// Gate guards a server.
type Gate struct {
	services  Services
	options   Options
	contract  *contract.Contract
	mux       *http.ServeMux // of the operations and the pages
	headers   http.Header    // of every answer
	rooms     capacity.Rooms
	uploads   *capacity.Room // in files
	slots     *capacity.Slots
	pace      capacity.Pace
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// New returns a Gate.
func New(services Services, options Options) (*Gate, error) {
	rules, err := contract.Read()
	if err != nil {
		return nil, err
	}
	options.CORSOrigins = slices.Clone(options.CORSOrigins)
	for i, origin := range options.CORSOrigins {
		options.CORSOrigins[i] = strings.ToLower(origin) // as browsers write origins
	}
	metrics := promauto.With(options.Metrics)
	return &Gate{
		services: services, options: options, contract: rules, headers: headersOf(options), rooms: capacity.NewRooms(), uploads: capacity.NewRoom(maxUploads, uploadsOfOne), slots: capacity.NewSlots(runtime.GOMAXPROCS(0)),
		requests: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_http_request_seconds", Help: "Time to answer by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}, nil
}

// Operations registers operations of the contract with a ServeMux, behind the gate.
type Operations struct {
	*http.ServeMux
	gate *Gate
}

// Operations returns the Operations for a ServeMux. Requests for no operation are rejected.
func (g *Gate) Operations(mux *http.ServeMux) Operations {
	g.mux = mux
	mux.Handle("/", g.refusing(g.NoRoute))
	return Operations{mux, g}
}

// NotFound answers that a path does not exist.
func (g *Gate) NotFound() http.Handler {
	return g.refusing(func(*http.Request) error { return fault.New(fault.NotFound, fault.RouteNotFound) })
}

func (g *Gate) refusing(why func(*http.Request) error) http.Handler {
	return noStore(g.guard("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Fail(w, r, why(r)) })))
}

// NoRoute returns the fault of a request that no operation answers.
func (g *Gate) NoRoute(r *http.Request) error {
	if methods := g.methods(r); len(methods) > 0 && !slices.Contains(methods, r.Method) {
		return fault.New(fault.MethodNotAllowed, fault.RouteMethodNotAllowed)
	}
	return fault.New(fault.NotFound, fault.RouteNotFound)
}

// methods returns the methods that the path of a request has, in the contract or else beside it.
func (g *Gate) methods(r *http.Request) []string {
	if all := g.contract.Methods(r); len(all) > 0 {
		return all
	}
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := g.mux.Handler(&other); strings.HasPrefix(pattern, method+" ") { // one of every method answers that there is no route
			all = append(all, method)
		}
	}
	return all
}

// Files marks requests for files that everybody may read.
func Files(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Of(r.Context()).isFile = true
		next.ServeHTTP(w, r)
	})
}

// HandleFunc registers the handler of an operation by its pattern.
func (o Operations) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	o.Handle(pattern, noStore(o.gate.guard(pattern, o.gate.Checked(o.gate.idempotent(http.HandlerFunc(handler))))))
}

// Checked checks requests for operations by the contract, reads their bodies and gives them their slot.
func (g *Gate) Checked(next http.Handler) http.Handler { return g.strict(g.validate(next)) }

// Everything guards every handler of the server: it logs and counts requests, answers panics, and rejects requests of other sites.
func (g *Gate) Everything(next http.Handler) (http.Handler, error) {
	guarded, err := g.refuseOtherSites(next)
	if err != nil {
		return nil, err
	}
	return g.fromBasePath(asGet(g.observe(g.recoverPanic(g.crossOrigin(guarded))))), nil
}

// fromBasePath takes the base path off the addresses that begin with it, and puts it before the paths to which answers refer. A proxy may have taken it
// off already: other addresses stay as they are.
func (g *Gate) fromBasePath(next http.Handler) http.Handler {
	base := g.options.BasePath
	if base == "" {
		return next
	}
	below := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = &belowBase{ResponseWriter: w, base: base}
		switch {
		case r.URL.Path == base:
			http.Redirect(w, r, base+"/", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, base+"/"):
			below.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// belowBase puts the base path before the path in Location, which handlers and net/http write as if there were none.
type belowBase struct {
	http.ResponseWriter
	base string
}

// WriteHeader completes the header and sends it.
func (w *belowBase) WriteHeader(status int) {
	if to := w.Header().Get("Location"); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, w.base+"/") {
		w.Header().Set("Location", w.base+to)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *belowBase) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// asGet answers HEAD where a GET only reads and a load balancer or a monitor may ask so: net/http leaves the body out. A HEAD of another operation is
// refused: some GETs claim tasks.
func asGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead && slices.Contains(contract.AlwaysServed, "GET "+r.URL.Path) {
			get := *r
			get.Method = http.MethodGet
			r = &get
		}
		next.ServeHTTP(w, r)
	})
}

// Reports returns the batch of reports.
func (g *Gate) Reports() contract.Batch {
	o, _ := g.contract.Operation(contract.ReportBatch)
	return *o.Batch
}

// CheckSettings checks a change of settings against the contract.
func (g *Gate) CheckSettings(body []byte) error { return g.contract.CheckSettings(body) }

// check checks a request against the contract.
func (g *Gate) check(r *http.Request) error {
	x := Of(r.Context())
	return g.contract.Check(r, x.Operation, x.Body.json())
}

// validate checks requests against the contract.
func (g *Gate) validate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.check(r); err != nil {
			g.Fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
