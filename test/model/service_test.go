package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/pgtest"
)

const (
	username = "admin"
	password = "a-password-of-this-test"
)

// service is a set of servers on a database with a stopped clock. The test moves the clock and runs the sweeps.
type service struct {
	url     string
	db      *pgxpool.Pool // used only by the test
	router  routers.Router
	servers []*server
	secrets *secret.Box // keys of the servers that are started; nil: none
	made    int         // number of servers started so far
	turn    int         // servers[turn % len(servers)] gets the next request
}

// server is a server of the service. The first server gets all changes and submissions, because the other servers notice a change of routes up to four seconds
// later.
type server struct {
	*app.App
	name string // application_name of its connections
}

func newService(t *testing.T, servers int) *service {
	t.Helper()
	s := &service{url: pgtest.NewWithClock(t), router: contract(t)}
	var err error
	if s.db, err = pgxpool.New(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	for range servers {
		server, err := s.start()
		if err != nil {
			t.Fatal(err)
		}
		s.servers = append(s.servers, server)
	}
	t.Cleanup(func() {
		for _, server := range s.servers {
			server.Close()
		}
	})
	return s
}

// start starts another server.
func (s *service) start() (*server, error) {
	s.made++
	name := fmt.Sprint("server", s.made)
	a, err := app.New(context.Background(), app.Options{
		DatabaseURL: s.url + "&application_name=" + name, Username: username, Password: password,
		Rules:   setting.Rules{MaxRetryCount: maxRetries, RetryDelay: retryDelay, RetryMaxWait: retryMaxWait, ProcessingTimeout: usualLease},
		Secrets: s.secrets, Log: slog.New(slog.DiscardHandler),
	})
	return &server{a, name}, err
}

func (s *service) any() *server {
	s.turn++
	return s.servers[s.turn%len(s.servers)]
}

// cut makes a server die during a request: it terminates the database connections of the server after a delay. The response is lost, and a new
// server replaces the dead server. When cut returns, no server processes the request any more.
func (s *service) cut(t *rapid.T, dying *server, delay time.Duration, r *http.Request) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		dying.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}()
	select {
	case <-answered:
	case <-time.After(delay):
	}
	_, err := s.db.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", dying.name)
	if err != nil {
		t.Fatal(err)
	}
	<-answered
	dying.Close()
	next, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	s.servers[slices.Index(s.servers, dying)] = next
}

// contract returns a router that finds the operation of a request. The test checks responses against the schemas of the operation.
func contract(t *testing.T) routers.Router {
	t.Helper()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	spec.Servers = openapi3.Servers{{URL: "/"}}
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// empty deletes everything except the countries, the settings and the data that the migrations create.
func (s *service) empty(t *rapid.T) {
	_, err := s.db.Exec(t.Context(), `DO $$
		DECLARE names text;
		BEGIN
			SELECT string_agg(quote_ident(c.relname), ', ') INTO names FROM pg_class c
			WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'tasks'::regclass) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
				AND c.relname NOT IN ('hand', 'schema_migrations', 'channels', 'channel_countries', 'companies', 'countries', 'pools', 'senders', 'company_countries', 'settings'); -- pools refer to senders; settings has no quiet hours
			EXECUTE 'TRUNCATE ' || names;
			DELETE FROM pools WHERE company_id IS NOT NULL;
			DELETE FROM senders;
			DELETE FROM company_countries;
			DELETE FROM companies WHERE company_no <> 'default';
		END $$`)
	if err != nil {
		t.Fatal(err)
	}
}

// set stops the clock of the database at a time.
func (s *service) set(t *rapid.T, at time.Time) {
	if _, err := s.db.Exec(t.Context(), "UPDATE clock.hand SET stopped = $1", at); err != nil {
		t.Fatal(err)
	}
}

// answer is a response of the service.
type answer struct {
	Status     int
	Raw        string
	RetryAfter string // header
	Body       struct {
		Data  json.RawMessage
		Error struct{ Reason string }
	}
}

// call sends a request, and checks the response against the contract. It calls as the admin if key is empty.
func (s *service) call(t *rapid.T, key, method, path string, body any, headers ...string) answer {
	t.Helper()
	r := s.request(t.Context(), t, key, method, path, body, headers...)
	return s.checked(t, r, serve(s.any(), r))
}

// list works like call without the check against the contract, which is slow for long lists. The form of these lists was checked while they were short.
func (s *service) list(t *rapid.T, path string) answer {
	t.Helper()
	answer := serve(s.any(), s.request(t.Context(), t, "", http.MethodGet, path, nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	return decoded(t, answer)
}

func (s *service) request(ctx context.Context, t *rapid.T, key, method, path string, body any, headers ...string) *http.Request {
	t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		reader = strings.NewReader(encoded(t, body))
	}
	r := httptest.NewRequestWithContext(ctx, method, path, reader)
	r.Header.Set("Content-Type", "application/json")
	if key == "" {
		r.SetBasicAuth(username, password)
	} else {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func serve(server *server, r *http.Request) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	server.Handler.ServeHTTP(answer, r)
	return answer
}

// checked checks a response against the contract and decodes it.
func (s *service) checked(t *rapid.T, r *http.Request, answer *httptest.ResponseRecorder) answer {
	t.Helper()
	if answer.Code >= http.StatusInternalServerError {
		t.Fatalf("%s %s: %d %s", r.Method, r.URL, answer.Code, answer.Body)
	}
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 answer.Code, Header: answer.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input.SetBodyBytes(answer.Body.Bytes())); err != nil {
		t.Fatalf("%s %s: the answer disagrees with the contract: %v\n%s", r.Method, r.URL, err, answer.Body)
	}
	return decoded(t, answer)
}

func encoded(t *rapid.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded(t *rapid.T, recorded *httptest.ResponseRecorder) answer {
	t.Helper()
	a := answer{Status: recorded.Code, Raw: recorded.Body.String(), RetryAfter: recorded.Header().Get("Retry-After")}
	if err := json.NewDecoder(bytes.NewReader(recorded.Body.Bytes())).Decode(&a.Body); err != nil {
		t.Fatalf("%s: %v", a.Raw, err)
	}
	return a
}

func dataOf[T any](t *rapid.T, a answer) (v T) {
	t.Helper()
	if a.Status != http.StatusOK {
		t.Fatalf("answer %d: %s", a.Status, a.Raw)
	}
	if err := json.Unmarshal(a.Body.Data, &v); err != nil {
		t.Fatalf("%s: %v", a.Raw, err)
	}
	return v
}
