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

	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate/contract"
	"lksms/internal/transport/httpapi/violation"
)

// These are the limits of forms. Files are stored while they arrive and are never completely in memory.
const (
	maxUploads   = 8 // concurrent uploads; each needs less than 2 MB of memory
	uploadsOfOne = 2 // concurrent uploads of one company, or of one user without a company
	maxForm      = upload.Most + 1<<20

	// formLongest is the time in which a form must arrive. It is bodyGrace, or longer if at least bodyRate bytes arrive per second. The time that the server
	// needs to store the form does not count.
	formLongest = bodyGrace + maxForm/bodyRate*time.Second
	maxStore    = 15 * time.Second // maximum time for storing the bytes of one read
)

// isFormType reports whether the Content-Type of a request is a form. receiveForm reads the parameters of the media type.
func isFormType(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return media == contract.FormType && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// receiveForm reads the form of a request into x and stores its file. The caller must call done after the response: done deletes the file unless the handler
// uses it.
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
	x.extendDeadline(formLongest)
	paced := &formReader{body: http.MaxBytesReader(w, r.Body, maxForm), connection: http.NewResponseController(w), x: x}
	form, err := g.services.Uploads.Form(r.Context(), paced, upload.FormSpec{
		Boundary: parameters["boundary"], Files: of.Files, Fields: of.Fields,
		Meta: upload.Meta{CompanyID: x.Caller.User.CompanyID, SubmittedBy: x.Caller.User.Username},
	})
	if err == nil {
		if _, err = io.Copy(io.Discard, paced); err != nil { // reads the bytes after the form
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

// drop deletes the file of a form if the file exists and nothing uses it.
func (g *Gate) drop(ctx context.Context, form upload.Form) error {
	if form.File == nil {
		return nil
	}
	return g.services.Uploads.Drop(ctx, *form.File)
}

// formReader works like pacedReader for a form. The server stores bytes between two reads. The time of storing does not count against the deadline of the
// client.
type formReader struct {
	body       io.Reader
	connection *http.ResponseController
	x          *Exchange
	read       int64
	waited     time.Duration // time spent reading the body
}

func (f *formReader) Read(b []byte) (int, error) {
	left := bodyGrace + time.Duration(f.read/bodyRate)*time.Second - f.waited
	began := time.Now()
	_ = f.connection.SetReadDeadline(began.Add(left)) // fails on test recorders, which is ignored
	f.x.within(left + maxStore)
	n, err := f.body.Read(b)
	f.read += int64(n)
	f.waited += time.Since(began)
	return n, err
}

func (f *formReader) clearDeadline() { _ = f.connection.SetReadDeadline(time.Time{}) }

// parseForm converts the fields of a form to a JSON object. The validator checks the object like a JSON body, and FormOf decodes it.
func (g *Gate) parseForm(x *Exchange, of contract.Form) error {
	form := x.Body.Form
	values := map[string]json.RawMessage{}
	for name, texts := range form.Fields {
		value, err := contract.FormValue(name, texts, of.Schema.Properties[name].Value)
		if err != nil {
			return err
		}
		if value != nil {
			values[name] = value
		}
	}
	if form.File != nil {
		values[form.FileField] = json.RawMessage(`""`) // a placeholder that marks the file as present
	}
	text, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("write form as JSON: %w", err)
	}
	x.Body.Raw = text
	if err := g.parse(x); err != nil {
		return err
	}
	// Raw identifies the content of the form. The original bytes would differ in each repeat, because the boundary differs.
	if file := form.File; file != nil {
		x.Body.Raw = fmt.Appendf(text, "\n%s %q %d %x", form.FileField, file.Name, file.Size, file.Hash)
	}
	return nil
}

// FormOf returns the fields of a form in their generated type, and the form. form.File is nil if the form contains no file. If the handler needs the file
// after the response, it calls Use of upload.Service.
func FormOf[Fields any](ctx context.Context) (fields Fields, form upload.Form, err error) {
	x := Of(ctx)
	if x.Body.Form == nil {
		return fields, form, fault.New(fault.UnsupportedMedia, fault.RequestMediaType)
	}
	return fields, *x.Body.Form, violation.OfDecoding(json.Unmarshal(x.Body.Plain, &fields))
}
