package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/api"
	"lksms/internal/audience/upload"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/idempotency"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/testkit/pgtest"
	"lksms/internal/transport/httpapi/gate/contract"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// formBundle is a server with one operation that accepts a form and an idempotency key.
type formBundle struct {
	*testing.T
	db      *postgres.DB
	uploads *upload.Service
	gate    *Gate
	handler http.Handler
	url     string
	calls   atomic.Int32
}

const formOperation = "POST /api/v1/forms"

// formFields contains the fields of the form.
type formFields struct {
	Name  *string
	Count *int
	Yes   *bool
	Tags  *[]string
	More  *map[string]any
	What  string // the handler's action on the file
}

func setupForms(t *testing.T) *formBundle {
	t.Helper()
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	users, err := access.New(db, access.Options{Username: "admin", Password: "a long password"})
	if err != nil {
		t.Fatal(err)
	}
	b := &formBundle{T: t, db: db, uploads: upload.New(db)}
	b.gate, err = New(Services{Access: users, Idempotency: idempotency.New(db, &secret.Box{}), Uploads: b.uploads}, Options{Roles: servers.All(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	list, isFalse := openapi3.NewArraySchema().WithItems(openapi3.NewStringSchema().WithMaxLength(5)), false
	schema := openapi3.NewObjectSchema().WithRequired([]string{"what"}).
		WithProperty("file", openapi3.NewStringSchema().WithFormat("binary")).WithProperty("rows", openapi3.NewStringSchema().WithFormat("binary")).
		WithProperty("name", openapi3.NewStringSchema().WithMaxLength(5)).WithProperty("count", openapi3.NewIntegerSchema().WithMax(9)).
		WithProperty("yes", openapi3.NewBoolSchema()).WithProperty("tags", list).WithProperty("more", openapi3.NewObjectSchema()).
		WithProperty("what", openapi3.NewStringSchema())
	schema.AdditionalProperties.Has = &isFalse
	spec.Paths.Set("/api/v1/forms", &openapi3.PathItem{Post: &openapi3.Operation{
		OperationID: "takeForm", Extensions: map[string]any{contract.AccessKey: []any{access.RoleSubmit}}, Responses: openapi3.NewResponses(),
		Parameters:  openapi3.Parameters{{Value: openapi3.NewHeaderParameter(contract.IdempotencyHeader).WithSchema(openapi3.NewStringSchema())}},
		RequestBody: &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithSchema(schema, []string{contract.FormType})},
	}})
	if b.gate.contract, err = contract.Of(spec); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	b.gate.Operations(mux).HandleFunc(formOperation, b.take)
	if b.handler, err = b.gate.Everything(mux); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b.handler)
	t.Cleanup(server.Close)
	b.url = server.URL + "/api/v1/forms"
	return b
}

// take responds with the form that it read. The field What decides whether it uses the file.
func (b *formBundle) take(w http.ResponseWriter, r *http.Request) {
	b.calls.Add(1)
	fields, form, err := FormOf[formFields](r.Context())
	if err != nil {
		b.gate.Fail(w, r, err)
		return
	}
	err = b.db.Tx(r.Context(), func(ctx context.Context) error {
		if strings.Contains(fields.What, "use") {
			if err := b.uploads.Use(ctx, form.File.ID, "test"); err != nil {
				return err
			}
		}
		switch {
		case strings.Contains(fields.What, "panic"):
			panic("handler")
		case strings.Contains(fields.What, "fail"):
			return fault.New(fault.Conflict, fault.Exists)
		}
		return nil
	})
	if err != nil {
		b.gate.Fail(w, r, err)
		return
	}
	content := ""
	if form.File != nil {
		file, err := b.uploads.Open(r.Context(), form.File.ID)
		if err != nil {
			b.gate.Fail(w, r, err)
			return
		}
		text, _ := io.ReadAll(io.NewSectionReader(file, 0, min(file.Size(), 10)))
		content = form.FileField + " " + form.File.Name + " " + string(text)
	}
	for _, field := range []string{shown(fields.Name), shown(fields.Count), shown(fields.Yes), shown(fields.Tags), shown(fields.More)} {
		fmt.Fprint(w, field, " ")
	}
	fmt.Fprint(w, content)
}

func shown[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// form returns a form with a new boundary. It contains fields and, unless file is empty, a file.
func form(file string, fields ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	if file != "" {
		part, _ := w.CreateFormFile("file", "a.csv")
		_, _ = io.WriteString(part, file)
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

// post sends a form and returns the status, headers and body of the response.
func (b *formBundle) post(body, contentType string, headers ...string) (int, http.Header, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.SetBasicAuth("admin", "a long password")
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// expectUploads fails the test unless, after all requests have ended, exactly want uploads exist and all are in use.
func (b *formBundle) expectUploads(want int) {
	b.Helper()
	var n, unused int
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err := b.db.QueryRow(b.Context(), "SELECT count(*), count(*) FILTER (WHERE used_by IS NULL) FROM uploads").Scan(&n, &unused); err != nil {
			b.Fatal(err)
		}
		if n == want && unused == 0 {
			return
		}
	}
	b.Errorf("%d uploads, %d of them unused, want %d", n, unused, want)
}

func TestFormIsCheckedAgainstContract(t *testing.T) {
	b := setupForms(t)
	for what, c := range map[string]struct {
		fields []string
		file   string
		status int
		want   string
	}{
		"all fields":        {[]string{"what", "", "what", ""}, "", 422, "what"},
		"every type":        {[]string{"what", "x", "name", "名单", "count", "7", "yes", "true", "tags", "a", "tags", "b", "more", `{"a":[1]}`}, "a,b", 200, "名单 7 true [a b] map[a:[1]] file a.csv a,b"},
		"whole numbers":     {[]string{"what", "x", "count", "7.0"}, "", 200, "- 7 - - - "},
		"empty fields":      {[]string{"what", "x", "name", "", "count", "", "yes", "", "tags", "", "more", ""}, "", 200, "- - - - - "},
		"a missing field":   {nil, "a", 422, "what"},
		"a long text":       {[]string{"what", "x", "name", "123456"}, "a", 422, "name"},
		"no number":         {[]string{"what", "x", "count", "seven"}, "a", 422, "count"},
		"a large number":    {[]string{"what", "x", "count", "10"}, "a", 422, "count"},
		"no truth value":    {[]string{"what", "x", "yes", "1"}, "a", 422, "yes"},
		"a long item":       {[]string{"what", "x", "tags", "a", "tags", "123456"}, "a", 422, "tags.1"},
		"no object":         {[]string{"what", "x", "more", "{"}, "a", 422, "more"},
		"a list, no object": {[]string{"what", "x", "more", "[]"}, "a", 422, "more"},
		"a name twice":      {[]string{"what", "x", "more", `{"a":1,"a":2}`}, "a", 422, "more.a"},
		"a field twice":     {[]string{"what", "x", "name", "a", "name", "b"}, "a", 422, "name"},
		"an unknown field":  {[]string{"what", "x", "colour", "a"}, "a", 422, "colour"},
		"a key in a field":  {[]string{"what", "x", "file", ""}, "", 200, "- - - - - "},
	} {
		body, contentType := form(c.file, c.fields...)
		status, _, text := b.post(body, contentType)
		isRight := status == 200 && text == c.want || status != 200 && strings.Contains(text, `"field":"`+c.want+`"`)
		if status != c.status || !isRight {
			t.Errorf("%s: %d %q, want %d %q", what, status, text, c.status, c.want)
		}
	}
	b.expectUploads(0)
}

// A form that is repeated with another boundary is the same request.
func TestIdempotencyKeyCoversFieldsAndFileOfForm(t *testing.T) {
	b := setupForms(t)
	file := strings.Repeat("a,b\n", 200_000)
	send := func(file, what string) (int, string, string) {
		body, contentType := form(file, "what", what, "name", "n")
		status, header, text := b.post(body, contentType, contract.IdempotencyHeader, "k")
		return status, header.Get("Idempotency-Replayed"), text
	}
	if status, _, text := send(file, "use fail"); status != 409 {
		t.Fatalf("%d %s", status, text)
	}
	b.expectUploads(0)
	status, replayed, first := send(file, "use")
	if status != 200 || replayed != "" {
		t.Fatalf("%d %s", status, first)
	}
	for range 2 {
		if status, replayed, again := send(file, "use"); status != 200 || replayed != "true" || again != first {
			t.Errorf("again: %d %s", status, again)
		}
	}
	if n := b.calls.Load(); n != 2 {
		t.Errorf("the handler was called %d times, want 2", n)
	}
	for _, other := range [][2]string{{file + "x", "use"}, {file, "used"}, {"", "use"}} {
		if status, _, text := send(other[0], other[1]); status != 422 || !strings.Contains(text, "idempotency.key_reused") {
			t.Errorf("another form: %d %s", status, text)
		}
	}
	b.expectUploads(1)
}

func TestFileOfFailedRequestIsDeleted(t *testing.T) {
	b := setupForms(t)
	for what, want := range map[string]int{"": 422, "nothing": 200, "fail": 409, "use fail": 409, "use panic": 500} {
		body, contentType := form("a,b", "what", what)
		if status, _, text := b.post(body, contentType); status != want {
			t.Errorf("%s: %d, want %d: %s", what, status, want, text)
		}
	}
	body, contentType := form("a,b", "what", "use")
	for _, cut := range []int{1, 10, len(body) / 2, len(body) - 10, len(body) - 5} {
		if status, _, text := b.post(body[:cut], contentType); status != 400 || !strings.Contains(text, "request.malformed") {
			t.Errorf("%d bytes: %d %s", cut, status, text)
		}
	}
	b.expectUploads(0)
	if status, _, _ := b.post(body, contentType); status != 200 {
		t.Errorf("%d", status)
	}
	b.expectUploads(1)
}

// neverRead is a body whose reading fails the test.
type neverRead struct{ t *testing.T }

func (n neverRead) Read([]byte) (int, error) {
	n.t.Error("the body is read")
	return 0, io.EOF
}

func TestFormIsReadOnlyAfterCallerIsChecked(t *testing.T) {
	b := setupForms(t)
	for name, c := range map[string]struct {
		password, contentType string
		size                  int64
		status                int
	}{
		"no password":  {"", "multipart/form-data; boundary=x", 1000, 401},
		"no boundary":  {"a long password", "multipart/form-data", 1000, 400},
		"a large form": {"a long password", "multipart/form-data; boundary=x", maxForm + 1, 413},
		"no length":    {"a long password", "multipart/form-data; boundary=", -1, 400},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/forms", neverRead{t})
		r.ContentLength = c.size
		r.Header.Set("Content-Type", c.contentType)
		if c.password != "" {
			r.SetBasicAuth("admin", c.password)
		}
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, c.status, w.Body)
		}
	}
	give, err := b.gate.uploads.Take(t.Context(), "admin", uploadsOfOne)
	if err != nil {
		t.Fatal(err)
	}
	defer give(uploadsOfOne)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/forms", neverRead{t})
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.SetBasicAuth("admin", "a long password")
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "request.too_much") {
		t.Errorf("a third file: %d %s", w.Code, w.Body)
	}
}

// A client that stops sending receives a response, and its upload is deleted.
func TestStalledFormIsRejected(t *testing.T) {
	b := setupForms(t)
	body, contentType := form(strings.Repeat("a,b\n", 100_000), "what", "use")
	reader, writer := io.Pipe()
	defer writer.Close()
	go func() { _, _ = io.WriteString(writer, body[:len(body)-100]) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, reader)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("admin", "a long password")
	r.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 400 || !strings.Contains(string(text), "request.too_slow") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	b.expectUploads(0)
}

// deadlines is an http.ResponseWriter that records the deadlines of its connection.
type deadlines struct {
	http.ResponseWriter
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

var errLate = errors.New("late")

// slowBody returns one chunk after each interval, or an error if the deadline passes before.
type slowBody struct {
	connection *deadlines
	takes      time.Duration
	chunk      int
}

func (s *slowBody) Read(p []byte) (int, error) {
	if left := time.Until(s.connection.read); left < s.takes {
		time.Sleep(left)
		return 0, errLate
	}
	time.Sleep(s.takes)
	return min(len(p), s.chunk), nil
}

func TestDeadlineOfFormMovesWithReceivedBytes(t *testing.T) {
	for name, c := range map[string]struct {
		takes, storing time.Duration
		chunk          int
		want           time.Duration // time until the form is rejected; 0: the form is not rejected
	}{
		"nothing arrives":     {time.Minute, 0, 1, bodyGrace},
		"fast":                {time.Second, 0, bodyRate, 0},
		"fast, stored slowly": {time.Second, 5 * time.Second, bodyRate, 0},
		"half as fast":        {2 * time.Second, 0, bodyRate, 9 * time.Second}, // after the fourth chunk, 5+4-8 seconds remain
	} {
		synctest.Test(t, func(t *testing.T) {
			connection := &deadlines{}
			x := &Exchange{}
			ctx, cancel := x.In(t.Context())
			defer cancel()
			x.extendDeadline(formLongest)
			f := &formReader{body: &slowBody{connection, c.takes, c.chunk}, connection: http.NewResponseController(connection), x: x}
			began := time.Now()
			buffer := make([]byte, bodyRate)
			for range 200 {
				if _, err := f.Read(buffer); err != nil {
					if took := time.Since(began); took != c.want {
						t.Errorf("%s: refused after %s, want %s", name, took, c.want)
					}
					return
				}
				time.Sleep(c.storing)
				if ctx.Err() != nil {
					t.Fatalf("%s: the request has ended after %s", name, time.Since(began))
				}
			}
			if c.want > 0 {
				t.Errorf("%s: not refused", name)
			}
			time.Sleep(time.Hour) // no further read
			if !isLate(ctx) {
				t.Errorf("%s: the request never ends", name)
			}
		})
	}
}
