package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"lksms/gen/api"
	"lksms/internal/contracttest"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// door is everything between the wire and the slices, for callers who may do everything: requests are checked and converted, and then
// nothing is done.
func door(t testing.TB) http.Handler {
	t.Helper()
	contract, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{contract: contract, rooms: newRooms(), options: Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}}
	convertOnly := func(api.StrictHandlerFunc, string) api.StrictHandlerFunc {
		return func(ctx context.Context, _ http.ResponseWriter, _ *http.Request, request any) (any, error) {
			if err := convertRequest(ctx, s, request); err != nil {
				return nil, err
			}
			return nil, fault.New(fault.NotFound, fault.RouteNotFound)
		}
	}
	operations := http.NewServeMux()
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(s, []api.StrictMiddlewareFunc{convertOnly}, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: s.undecodable, ResponseErrorHandlerFunc: s.fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: operations, ErrorHandlerFunc: s.undecodable},
	)
	checked := s.strict(s.validate()(operations))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{text: english, inTransaction: true} // so that a refused submission is not stored
		_, x.operation = operations.Handler(r)
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		checked.ServeHTTP(w, r)
	})
}

// convertRequest does what the handlers do with a request before they call a slice.
func convertRequest(ctx context.Context, s *Server, request any) error {
	x := exchangeOf(ctx)
	var text json.RawMessage
	var err error
	switch request := request.(type) {
	case api.SendSmsRequestObject:
		submissionOf(*request.Body, x.body)
	case api.SendSmsBatchRequestObject:
		if len(x.items) != len(request.Body.Messages) {
			err = fmt.Errorf("%d items of %d messages", len(x.items), len(request.Body.Messages))
		}
	case api.ReportTaskRequestObject:
		reportOf(*request.Body, x.body)
	case api.ReportTasksRequestObject:
		if len(x.items) != len(request.Body.Reports) {
			err = fmt.Errorf("%d items of %d reports", len(x.items), len(request.Body.Reports))
		}
	case api.UpdateChannelRequestObject, api.CreateCountryRequestObject, api.UpdateCountryRequestObject, api.UpdateUserRequestObject:
		_, err = nulls(x.body)
	case api.CreateSenderRequestObject, api.UpdateSenderRequestObject:
		if text, err = member(ctx, "config"); err == nil {
			if _, err = nulls(x.body); err == nil {
				_, err = object(text)
			}
		}
	case api.CreateNotificationsRequestObject, api.TakeEventRequestObject:
		_, err = payload(ctx)
	case api.SendOnceRequestObject:
		if text, err = member(ctx, "data"); err == nil {
			_, err = object(text)
		}
	case api.PutSettingsCategoryRequestObject:
		var body []byte
		if body, err = json.Marshal(map[api.Category]json.RawMessage{request.Category: x.plain}); err == nil {
			err = s.contract.changes.check(body)
		}
	}
	return err
}

// FuzzOperation sends any path, query and body to every operation, as far as the slices. Whatever comes, the answer is an envelope of a
// bounded size, and never a 5xx.
func FuzzOperation(f *testing.F) {
	handler := door(f)
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
			return // no request
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var envelope struct{ Code int }
		switch most := contracttest.MostAnswer(len(path) + len(query) + len(body)); {
		case w.Code >= http.StatusInternalServerError:
			t.Errorf("%s %s: %d: %s", r.Method, r.URL, w.Code, w.Body)
		case w.Body.Len() > most:
			t.Errorf("%s %s: an answer of %d bytes, at most %d", r.Method, r.URL, w.Body.Len(), most)
		case w.Code >= http.StatusBadRequest && (json.Unmarshal(w.Body.Bytes(), &envelope) != nil || envelope.Code != w.Code):
			t.Errorf("%s %s: %d answers %s", r.Method, r.URL, w.Code, w.Body)
		}
	})
}

// FuzzBody holds how a body is read against how it was sent: numbers are written in another way, and nothing else changes.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"a":1.0,"b":[1e2,-0.0,12e-1,"1.0\"1e5"],"c":{"d":null}}`, `[1e999999`, `{"a":1,"a":2}`, `"\ud800"`, "{\"\xff\":1}", `1.50e1 `, `{"":{"a/b~":1E+2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		wrong := ambiguity(body)
		plain := wholeNumbers(body)
		if most := 50*len(body) + 100; len(plain) > most { // 1e99 has a hundred digits
			t.Fatalf("%d bytes became %d", len(body), len(plain))
		}
		sent, err := decodeNumbers(body)
		if err != nil || wrong != nil {
			return
		}
		read, err := decodeNumbers(plain)
		if err != nil || !isSame(sent, read) {
			t.Errorf("%q is read as %q, %v", body, plain, err)
		}
	})
}

func decodeNumbers(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

func isSame(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, isNumber := b.(json.Number)
		x, good := new(big.Rat).SetString(a.String())
		y, alsoGood := new(big.Rat).SetString(n.String())
		return isNumber && good && alsoGood && x.Cmp(y) == 0
	case []any:
		list, isList := b.([]any)
		if !isList || len(list) != len(a) {
			return false
		}
		for i := range a {
			if !isSame(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, isObject := b.(map[string]any)
		if !isObject || len(object) != len(a) {
			return false
		}
		for name := range a {
			if there, is := object[name]; !is || !isSame(a[name], there) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}

// FuzzCursor reads any cursor. What is taken for one can be given to PostgreSQL.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"task_x", "task_\xff", "12", "2026-01-01T00:00:00.5Z,3", "9999-12-31T23:59:59-23:59,1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, cursor := range []string{text, cursorOf(text)} {
			id, taskErr := taskCursor(&cursor)
			number, idErr := idCursor(&cursor)
			key, textErr := textCursor(&cursor)
			at, _, failureErr := failureCursor(&cursor)
			for _, err := range []error{taskErr, idErr, textErr, failureErr} {
				var expected *fault.Error
				if err != nil && (!errors.As(err, &expected) || expected.Fields[0].Rule != fault.NotACursor) {
					t.Errorf("%q: %v", cursor, err)
				}
			}
			if taskErr == nil && (!postgres.IsText(id) || !strings.HasPrefix(id, "task_")) || textErr == nil && !postgres.IsText(key) {
				t.Errorf("%q holds %q and %q", cursor, id, key)
			}
			if failureErr == nil && (at.Year() < 1 || at.Year() > 9999) {
				t.Errorf("%q holds %s", cursor, at)
			}
			again := cursorOf(idText(number))
			if read, err := idCursor(&again); idErr == nil && (err != nil || read != number) {
				t.Errorf("%q holds %d, and then %d, %v", cursor, number, read, err)
			}
		}
	})
}
