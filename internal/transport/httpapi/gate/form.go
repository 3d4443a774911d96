package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate/contract"
	"lksms/internal/transport/httpapi/violation"
)

// Limits of forms, whose files are stored as they arrive, and are never in memory as a whole.
const (
	maxUploads   = 8 // files that arrive at once; each needs less than two megabytes in memory
	uploadsOfOne = 2 // of these: those of one company, or one user without a company
	maxForm      = upload.Most + 1<<20

	// A form must arrive within bodyGrace, or as fast as bodyRate after that. The time in which the server stores it does not count.
	formLongest = bodyGrace + maxForm/bodyRate*time.Second
	maxStore    = 15 * time.Second // for storing what was read last
)

// isFormType reports whether a request says that its body is a form. receiveForm reads the parameters of the media type.
func isFormType(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media == contract.FormType && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// receiveForm reads the form of a request into x, and stores its file. done must be called when the request is answered: it deletes the file unless
// the handler uses it.
func (g *Gate) receiveForm(w http.ResponseWriter, r *http.Request, x *Exchange, of contract.Form) (done func(), err error) {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return nil, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	if coding, err := codingOf(w, r); err != nil || coding != "" {
		return nil, cmp.Or(err, error(fault.New(fault.UnsupportedMedia, fault.RequestCoding)))
	}
	if r.ContentLength > maxForm {
		return nil, fault.New(fault.TooLarge, fault.RequestTooLarge)
	}
	give, err := g.uploads.Take(r.Context(), x.holder(), 1)
	if err != nil {
		return nil, err
	}
	defer give(1)
	x.prolong(formLongest)
	paced := &formReader{body: http.MaxBytesReader(w, r.Body, maxForm), connection: http.NewResponseController(w), x: x}
	form, err := g.services.Uploads.Form(r.Context(), paced, upload.FormSpec{
		Boundary: parameters["boundary"], Files: of.Files, Fields: of.Fields,
		Meta: upload.Meta{CompanyID: x.Caller.User.CompanyID, SubmittedBy: x.Caller.User.Username},
	})
	if err == nil {
		if _, err = io.Copy(io.Discard, paced); err != nil { // what follows the form
			err = errors.Join(&upload.SourceError{Err: err}, g.drop(r.Context(), form))
		}
	}
	paced.clearDeadline()
	x.within(LongestAnswer)
	var source *upload.SourceError
	switch {
	case errors.As(err, &source):
		return nil, violation.OfReading(source.Err, nil)
	case err != nil:
		return nil, err
	}
	x.Body.Form, x.Body.Raw = &form, []byte{}
	return sync.OnceFunc(func() {
		if err := g.drop(r.Context(), form); err != nil {
			g.options.Log.Error("upload not deleted", "request_id", x.Origin.RequestID, "error", err)
		}
	}), nil
}

// drop deletes the file of a form, if it has one that nothing uses.
func (g *Gate) drop(ctx context.Context, form upload.Form) error {
	if form.File == nil {
		return nil
	}
	return g.services.Uploads.Drop(ctx, *form.File)
}

// formReader is pacedReader for a form. Between two reads, what was read is stored, which is not the caller's fault.
type formReader struct {
	body       io.Reader
	connection *http.ResponseController
	x          *Exchange
	read       int64
	waited     time.Duration // for the body
}

func (f *formReader) Read(b []byte) (int, error) {
	left := bodyGrace + time.Duration(f.read/bodyRate)*time.Second - f.waited
	began := time.Now()
	_ = f.connection.SetReadDeadline(began.Add(left)) // the recorders of tests have no deadlines
	f.x.within(left + maxStore)
	n, err := f.body.Read(b)
	f.read += int64(n)
	f.waited += time.Since(began)
	return n, err
}

func (f *formReader) clearDeadline() { _ = f.connection.SetReadDeadline(time.Time{}) }

// parseForm makes an object of the fields of a form, which the validator checks as it checks JSON, and which FormOf decodes.
func (g *Gate) parseForm(x *Exchange, of contract.Form) error {
	form := x.Body.Form
	values := map[string]json.RawMessage{}
	for name, texts := range form.Fields {
		value, err := valueOf(name, texts, of.Schema.Properties[name].Value)
		if err != nil {
			return err
		}
		if value != nil {
			values[name] = value
		}
	}
	if form.File != nil {
		values[form.FileField] = json.RawMessage(`""`) // it is there
	}
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("write form as JSON: %w", err)
	}
	x.Body.Raw = text
	if err := g.parse(x); err != nil {
		return err
	}
	// The boundary, and so the form as it was sent, differs when it is sent again.
	if file := form.File; file != nil {
		x.Body.Raw = fmt.Appendf(text, "\n%s %q %d %x", form.FileField, file.Name, file.Size, file.Hash)
	}
	return nil
}

// valueOf returns the JSON of a field that a form has as texts, one for each item of a list. An empty field is one that was left out: nil. A text that is no
// value of the type in the schema stays a text, which the validator rejects.
func valueOf(name string, texts []string, schema *openapi3.Schema) (json.RawMessage, error) {
	if schema.Type.Is(openapi3.TypeArray) {
		items := []json.RawMessage{}
		for _, text := range texts {
			item, err := valueOf(name, []string{text}, schema.Items.Value)
			if err != nil {
				return nil, err
			}
			if item != nil {
				items = append(items, item)
			}
		}
		if len(items) == 0 {
			return nil, nil
		}
		return json.Marshal(items) //nolint:wrapcheck // texts and JSON
	}
	text := texts[0]
	switch {
	case len(texts) > 1:
		return nil, fault.InvalidField(name, fault.Duplicate, nil)
	case text == "":
		return nil, nil
	case !schema.Type.Is(openapi3.TypeString) && json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	}
	return json.Marshal(text) //nolint:wrapcheck // a text
}

// FormOf returns the fields of the form of a request in their generated type, and the form, whose File is nil if it has none. The handler calls Use of
// upload.Service if it needs the file after its answer.
func FormOf[Fields any](ctx context.Context) (fields Fields, form upload.Form, err error) {
	x := Of(ctx)
	if x.Body.Form == nil {
		return fields, form, fault.New(fault.UnsupportedMedia, fault.RequestMediaType)
	}
	return fields, *x.Body.Form, violation.OfDecoding(json.Unmarshal(x.Body.Plain, &fields))
}
