package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/api"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/testkit/contracttest"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/tasks"
	"lksms/internal/transport/httpapi/text"
)

// convertingHandler returns a handler for a caller with all permissions. It checks and converts requests but calls no services. It answers a valid request
// with 404.
func convertingHandler(t testing.TB) http.Handler {
	t.Helper()
	guard, err := gate.New(gate.Services{}, gate.Options{Roles: servers.All(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{}
	convertOnly := func(api.StrictHandlerFunc, string) api.StrictHandlerFunc {
		return func(ctx context.Context, _ http.ResponseWriter, _ *http.Request, request any) (any, error) {
			if err := convertRequest(ctx, guard, request); err != nil {
				return nil, err
			}
			return nil, fault.New(fault.NotFound, fault.RouteNotFound)
		}
	}
	operations := http.NewServeMux()
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, []api.StrictMiddlewareFunc{convertOnly}, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: guard.Undecodable, ResponseErrorHandlerFunc: guard.Fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: operations, ErrorHandlerFunc: guard.Undecodable},
	)
	checked := guard.Checked(operations)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &gate.Exchange{Text: text.For("en"), InTransaction: true} // prevents the logging of a rejected submission
		_, x.Operation = operations.Handler(r)
		ctx, cancel := x.In(r.Context())
		defer cancel()
		checked.ServeHTTP(w, r.WithContext(ctx))
	})
}

// convertRequest converts a request as its handler does, without calling a domain package.
func convertRequest(ctx context.Context, guard *gate.Gate, request any) error {
	x := gate.Of(ctx)
	var err error
	switch request := request.(type) {
	case api.SendSmsRequestObject:
		tasks.SubmissionOf(*request.Body, x.Body.Raw)
	case api.SendSmsBatchRequestObject:
		if len(x.Body.Items) != len(request.Body.Messages) {
			err = fmt.Errorf("%d items of %d messages", len(x.Body.Items), len(request.Body.Messages))
		}
	case api.ReportTaskRequestObject:
		tasks.ReportOf(*request.Body, x.Body.Raw)
	case api.ReportTasksRequestObject:
		if len(x.Body.Items) != len(request.Body.Reports) {
			err = fmt.Errorf("%d items of %d reports", len(x.Body.Items), len(request.Body.Reports))
		}
	case api.ReceiveMessagesRequestObject:
		if len(x.Body.Items) != len(request.Body.Messages) {
			err = fmt.Errorf("%d items of %d messages", len(x.Body.Items), len(request.Body.Messages))
		}
	case api.CreateSenderRequestObject, api.UpdateSenderRequestObject:
		_, err = convert.Fields(ctx, "config")
	case api.CreateNotificationsRequestObject, api.TakeEventRequestObject:
		_, err = convert.Fields(ctx, "payload")
	case api.SendOnceRequestObject:
		_, err = convert.Fields(ctx, "data")
	case api.PutSettingsCategoryRequestObject:
		var body []byte
		if body, err = json.Marshal(map[api.Category]json.RawMessage{request.Category: x.Body.Plain}); err == nil {
			err = guard.CheckSettings(body)
		}
	}
	return err
}

// FuzzOperation sends any path, query and body to every operation, without calling domain packages. The response is an envelope of limited size, and its
// status is never 5xx.
func FuzzOperation(f *testing.F) {
	handler := convertingHandler(f)
	all, err := contracttest.Operations()
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range all {
		f.Add(o.ID, "1", "", []byte{})
		f.Add(o.ID, "\xff", "limit=1&cursor=AA&company_no=c&status=0&app_id=a", []byte(`{"a":1,"b":{"c":[null]}}`))
		for _, body := range o.Bodies {
			f.Add(o.ID, "t/oa", "dry_run=true", body)
			f.Add(o.ID, "t", "", bytes.Replace(body, []byte(":"), []byte(`:1.0,"x":`), 1))
		}
	}
	f.Fuzz(func(t *testing.T, id, path, query string, body []byte) {
		o := contracttest.Pick(all, id)
		r, err := http.NewRequestWithContext(t.Context(), o.Method, "http://localhost"+o.Target(path, query), bytes.NewReader(body))
		if err != nil {
			return // not a valid request
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var envelope struct{ Code int }
		switch limit := contracttest.MaxAnswer(len(path) + len(query) + len(body)); {
		case w.Code >= http.StatusInternalServerError:
			t.Errorf("%s %s: %d: %s", r.Method, r.URL, w.Code, w.Body)
		case w.Body.Len() > limit:
			t.Errorf("%s %s: an answer of %d bytes, want at most %d", r.Method, r.URL, w.Body.Len(), limit)
		case w.Code >= http.StatusBadRequest && (json.Unmarshal(w.Body.Bytes(), &envelope) != nil || envelope.Code != w.Code):
			t.Errorf("%s %s: %d answers %s", r.Method, r.URL, w.Code, w.Body)
		}
	})
}
