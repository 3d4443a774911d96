package gate

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lksms/internal/platform/access"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/gate/contract"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/violation"
)

// These are the time limits of bodies and responses.
const (
	// bodyGrace is the time in which a body must arrive. The time is longer if at least bodyRate bytes arrive per second.
	bodyGrace   = 5 * time.Second
	bodyRate    = 64 << 10 // bytes per second
	bodyLongest = 30 * time.Second
	bodySoon    = time.Second // if the body took longer, the caller is authorised again

	// leftoverWait is the maximum wait for an unread body. net/http reads part of it before the response.
	leftoverWait = 500 * time.Millisecond

	// answerLongest is the time in which a caller must read its response. strangersAnswer is this time for unknown callers.
	answerLongest   = 30 * time.Second
	strangersAnswer = 15 * time.Second
)

// receive reads the body of a request into x, up to maxBytes. If the body cannot be read completely, x.Body.Cut contains the reason. The caller must call
// done when it no longer needs the body.
func (g *Gate) receive(w http.ResponseWriter, r *http.Request, x *Exchange, maxBytes int64) (done func(), err error) {
	coding, err := codingOf(w, r)
	if err != nil {
		return nil, err
	}
	needed := maxBytes // used if the length of the body is unknown
	if r.ContentLength >= 0 && coding == "" {
		needed = min(r.ContentLength, maxBytes)
	}
	needed = max(needed, 1)
	where, caller := g.memories.Large, x.holder()
	switch {
	case caller == "":
		where, caller = g.memories.Strangers, outbound.NetworkOf(x.Origin.SourceIP)
	case needed <= capacity.SmallBody:
		where = g.memories.Small
	}
	give, err := where.Take(r.Context(), caller, needed)
	if err != nil {
		return nil, err
	}
	paced := &pacedReader{body: http.MaxBytesReader(w, r.Body, maxBytes), connection: http.NewResponseController(w), started: time.Now()}
	body := bytes.NewBuffer(make([]byte, 0, min(needed, capacity.SmallBody)+bytes.MinRead)) // the buffer grows with the bytes that arrive, and not with Content-Length
	_, err = body.ReadFrom(&jsonbody.ShapeReader{Reader: decoded(w, paced, coding, maxBytes)})
	paced.clearDeadline()
	x.Body.Raw = body.Bytes()
	if x.Operation != contract.Callback { // the signature of a callback covers the unchanged body
		x.Body.Raw = bom.Skip(x.Body.Raw)
	}
	if err != nil {
		x.Body.Cut = violation.OfReading(err, x.Body.Raw)
	}
	held := min(max(int64(len(x.Body.Raw)), 1), needed)
	if held < needed {
		give(needed - held)
	}
	return sync.OnceFunc(func() { give(held) }), nil
}

// codingOf returns the Content-Encoding of a body: gzip, or "" for an uncompressed body. Fault: request.unsupported_coding.
func codingOf(w http.ResponseWriter, r *http.Request) (string, error) {
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); coding {
	case "", "identity":
		return "", nil
	case "gzip", "x-gzip":
		return "gzip", nil
	}
	w.Header().Set("Accept-Encoding", "gzip")
	return "", fault.New(fault.UnsupportedMedia, fault.RequestCoding)
}

// decoded returns a reader of the uncompressed body, limited to maxBytes.
func decoded(w http.ResponseWriter, body io.Reader, coding string, maxBytes int64) io.Reader {
	if coding == "" {
		return body
	}
	return http.MaxBytesReader(w, &gunzip{coded: body}, maxBytes)
}

// gunzip reads a gzip-compressed body. Unlike gzip.NewReader, it reads nothing before its first Read.
type gunzip struct {
	coded io.Reader
	plain *gzip.Reader
}

func (g *gunzip) Read(b []byte) (n int, err error) {
	if g.plain == nil {
		if g.plain, err = gzip.NewReader(g.coded); err != nil {
			return 0, err //nolint:wrapcheck // violation.OfReading checks the type of the error
		}
	}
	return g.plain.Read(b) //nolint:wrapcheck // a Reader must return io.EOF unwrapped
}

func (g *gunzip) Close() error { return nil }

// holder returns the name under which the bodies of a caller are counted: the name of its company, so that all users of a company share one limit.
// Without a company, holder returns the name of the provider or the user. For an unknown caller, holder returns "".
func (x *Exchange) holder() string {
	if x.Caller.Provider != "" {
		return "provider " + x.Caller.Provider
	}
	if company, is := x.company(); is {
		return capacity.OfCompany(company)
	}
	return x.Caller.User.Username
}

// company returns the id of the company for which the caller acts. hasCompany is false if the caller acts for no company.
func (x *Exchange) company() (id string, hasCompany bool) {
	if x.Caller.User.Username == "" || x.Caller.User.SeesAll || x.Caller.User.Role == access.RoleSend {
		return "", false
	}
	return strconv.FormatInt(x.Caller.User.CompanyID, 10), true
}

// pacedReader reads a body and returns an error if the body arrives too slowly.
type pacedReader struct {
	body       io.Reader
	connection *http.ResponseController
	started    time.Time
	read       int64
	allowed    time.Duration // time since started that the current deadline allows
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if allowed := min(bodyGrace+time.Duration(p.read/bodyRate)*time.Second, bodyLongest); allowed != p.allowed {
		p.allowed = allowed
		_ = p.connection.SetReadDeadline(p.started.Add(allowed)) // fails on test recorders, which is ignored
	}
	n, err := p.body.Read(b)
	p.read += int64(n)
	return n, err
}

// clearDeadline removes the deadline, which could otherwise pass while the handler runs and cancel the context of the request.
func (p *pacedReader) clearDeadline() { _ = p.connection.SetReadDeadline(time.Time{}) }
