// Package gate handles every request before its handler and every response after it. It decides which callers and bodies are accepted, when a costly request
// runs, and how fast rejections and unknown callers are answered. The contract contains the rules.
package gate

import (
	"cmp"
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

// LongestAnswer is the maximum time limit that the contract can define for a request.
const LongestAnswer = contract.LongestAnswer

// Services contains the services that the gate calls.
type Services struct {
	Access      *access.Service
	Idempotency *idempotency.Service
	Receipts    *receipt.Service
	Submissions *submit.Service // stores rejected submissions
	Uploads     *upload.Service
}

// Options configures a Gate.
type Options struct {
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For is trusted
	CORSOrigins    []string
	Roles          servers.Roles // roles of this server
	BasePath       string        // base path of the URLs that clients use: empty, or a path that begins with / and does not end with /
	Manual         string        // base URL of the manual; empty: this server does not serve the manual
	TLS            bool          // responses make browsers use only HTTPS (HSTS)
	Log            *slog.Logger
	Pace           *capacity.Pace // delays cheap responses; other protocols share it. nil: a new one
	Metrics        *prometheus.Registry
	Tracer         *tracing.Tracer
}

// Gate protects the handlers of a server.
type Gate struct {
	services    Services
	options     Options
	contract    *contract.Contract
	mux         *http.ServeMux  // multiplexer of the operations and the pages
	refusesHead map[string]bool // whether a foreign operation refuses HEAD, by its pattern
	headers     http.Header     // headers of every response
	memories    capacity.Memories
	uploads     *capacity.Memory // limits concurrent uploads of files
	slots       *capacity.Slots
	pace        *capacity.Pace
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
}

// New returns a Gate.
func New(services Services, options Options) (*Gate, error) {
	rules, err := contract.Read()
	if err != nil {
		return nil, err
	}
	options.CORSOrigins = slices.Clone(options.CORSOrigins)
	for i, origin := range options.CORSOrigins {
		options.CORSOrigins[i] = strings.ToLower(origin) // browsers send origins in lower case
	}
	metrics := promauto.With(options.Metrics)
	return &Gate{
		services: services, options: options, contract: rules, refusesHead: map[string]bool{}, headers: headersOf(options), memories: capacity.NewMemories(), uploads: capacity.NewMemory(maxUploads, uploadsOfOne), slots: capacity.NewSlots(runtime.GOMAXPROCS(0)), pace: cmp.Or(options.Pace, &capacity.Pace{}),
		requests: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_http_requests_total", Help: "Answers by route and status.",
		}, []string{"route", "status"}),
		durations: metrics.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lksms_http_request_seconds", Help: "Time to answer by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}, nil
}

// Operations registers operations of the contract with a ServeMux, protected by the gate.
type Operations struct {
	*http.ServeMux
	gate *Gate
}

// Operations returns the Operations of a ServeMux. The gate rejects requests that match no operation.
func (g *Gate) Operations(mux *http.ServeMux) Operations {
	g.mux = mux
	mux.Handle("/", g.refusing(g.NoRoute))
	return Operations{mux, g}
}

// NotFound returns a handler that answers with the fault of an unknown path.
func (g *Gate) NotFound() http.Handler {
	return g.refusing(func(*http.Request) error { return fault.New(fault.NotFound, fault.RouteNotFound) })
}

func (g *Gate) refusing(why func(*http.Request) error) http.Handler {
	return noStore(g.guard("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.Fail(w, r, why(r)) })))
}

// NoRoute returns the fault of a request that matches no operation.
func (g *Gate) NoRoute(r *http.Request) error {
	if methods := g.methods(r); len(methods) > 0 && !slices.Contains(methods, r.Method) {
		return fault.New(fault.MethodNotAllowed, fault.RouteMethodNotAllowed)
	}
	return fault.New(fault.NotFound, fault.RouteNotFound)
}

// methods returns the methods that the path of a request allows: the methods in the contract, or otherwise the methods of foreign operations.
func (g *Gate) methods(r *http.Request) []string {
	if all := g.contract.Methods(r); len(all) > 0 {
		return all
	}
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		// A pattern without a method belongs to a handler that rejects every request.
		if _, pattern := g.mux.Handler(&other); strings.HasPrefix(pattern, method+" ") {
			all = append(all, method)
			if method == http.MethodGet && !g.refusesHead[pattern] { // a ServeMux routes HEAD to the GET handler
				all = append(all, http.MethodHead)
			}
		}
	}
	return all
}

// Files marks requests for public files.
func Files(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Of(r.Context()).isFile = true
		next.ServeHTTP(w, r)
	})
}

// HandleFunc registers the handler of an operation by its ServeMux pattern.
func (o Operations) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	o.Handle(pattern, noStore(o.gate.guard(pattern, o.gate.Checked(o.gate.idempotent(http.HandlerFunc(handler))))))
}

// Checked reads the bodies of operations, checks the requests against the contract, and waits for their slots.
func (g *Gate) Checked(next http.Handler) http.Handler { return g.strict(g.validate(next)) }

// Everything wraps the handler of all paths. It logs and counts requests, answers panics, and rejects requests from pages of other sites.
func (g *Gate) Everything(next http.Handler) (http.Handler, error) {
	guarded, err := g.refuseOtherSites(next)
	if err != nil {
		return nil, err
	}
	return g.fromBasePath(asGet(g.observe(g.recoverPanic(g.crossOrigin(guarded))))), nil
}

// fromBasePath removes the base path from request paths that begin with it, and adds it to the paths in responses. It does not change other request paths,
// because a proxy possibly has removed the base path already.
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

// belowBase adds the base path to the header Location, which handlers and net/http write without it.
type belowBase struct {
	http.ResponseWriter
	base string
}

// WriteHeader adds the base path to the header Location, then sends the headers.
func (w *belowBase) WriteHeader(status int) {
	if to := w.Header().Get("Location"); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, w.base+"/") {
		w.Header().Set("Location", w.base+to)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the connection.
func (w *belowBase) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// asGet answers HEAD requests of load balancers and monitors like GET; net/http omits the body. Only contract.AlwaysServed is answered in this way, because
// other GET operations can claim tasks. The HEAD of another operation is rejected.
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

// Reports returns the Batch of the operation that reports many tasks.
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
