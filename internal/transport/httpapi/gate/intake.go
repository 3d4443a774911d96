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

// Limits of the time that bodies and answers take.
const (
	// A body must arrive whole within bodyGrace, or as fast as bodyRate after that.
	bodyGrace   = 5 * time.Second
	bodyRate    = 64 << 10 // bytes a second
	bodyLongest = 30 * time.Second
	bodySoon    = time.Second // after a body that took longer, the caller is authorised again

	// leftoverWait bounds the wait for an unread body: net/http reads some of it before the answer goes out.
	leftoverWait = 500 * time.Millisecond

	// A caller must read its answer within answerLongest, an unknown caller within strangersAnswer.
	answerLongest   = 30 * time.Second
	strangersAnswer = 15 * time.Second
)

// receive reads the body of a request, up to most bytes, into x. done must be called when the body is no longer needed.
func (g *Gate) receive(w http.ResponseWriter, r *http.Request, x *Exchange, most int64) (done func(), err error) {
	coding, err := codingOf(w, r)
	if err != nil {
		return nil, err
	}
	needed := most // for a body of unknown length
	if r.ContentLength >= 0 && coding == "" {
		needed = min(r.ContentLength, most)
	}
	needed = max(needed, 1)
	where, caller := g.rooms.Large, x.holder()
	switch {
	case caller == "":
		where, caller = g.rooms.Strangers, outbound.NetworkOf(x.Origin.SourceIP)
	case needed <= capacity.SmallBody:
		where = g.rooms.Small
	}
	give, err := where.Take(r.Context(), caller, needed)
	if err != nil {
		return nil, err
	}
	paced := &pacedReader{body: http.MaxBytesReader(w, r.Body, most), connection: http.NewResponseController(w), started: time.Now()}
	body := bytes.NewBuffer(make([]byte, 0, min(needed, capacity.SmallBody)+bytes.MinRead)) // grows with the bytes that arrive, not with Content-Length
	_, err = body.ReadFrom(&jsonbody.ShapeReader{Reader: decoded(w, paced, coding, most)})
	paced.clearDeadline()
	x.Body.Raw = body.Bytes()
	if x.Operation != contract.Callback { // a signature covers the body as it came
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

// codingOf returns how a body is coded: gzip, or empty for as it is. Fault: request.unsupported_coding.
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

// decoded returns the plain bytes of a body, of which most may come.
func decoded(w http.ResponseWriter, body io.Reader, coding string, most int64) io.Reader {
	if coding == "" {
		return body
	}
	return http.MaxBytesReader(w, &gunzip{coded: body}, most)
}

// gunzip reads a gzipped body. Unlike gzip.NewReader, it reads nothing before its first Read.
type gunzip struct {
	coded io.Reader
	plain *gzip.Reader
}

func (g *gunzip) Read(b []byte) (n int, err error) {
	if g.plain == nil {
		if g.plain, err = gzip.NewReader(g.coded); err != nil {
			return 0, err //nolint:wrapcheck // violation.OfReading judges it
		}
	}
	return g.plain.Read(b) //nolint:wrapcheck // a Reader returns io.EOF as it is
}

func (g *gunzip) Close() error { return nil }

// holder returns the name under which the bodies of a caller are counted: its company, so that many users have one share; else the
// provider or the user. Empty: an unknown caller.
func (x *Exchange) holder() string {
	if x.Caller.Provider != "" {
		return "provider " + x.Caller.Provider
	}
	if company, is := x.company(); is {
		return "company " + company // no user name contains a space
	}
	return x.Caller.User.Username
}

// company returns the company for which the caller acts, if any.
func (x *Exchange) company() (id string, is bool) {
	if x.Caller.User.Username == "" || x.Caller.User.SeesAll || x.Caller.User.Role == access.RoleSend {
		return "", false
	}
	return strconv.FormatInt(x.Caller.User.CompanyID, 10), true
}

// pacedReader reads a body and fails if the body arrives too slowly.
type pacedReader struct {
	body       io.Reader
	connection *http.ResponseController
	started    time.Time
	read       int64
	allowed    time.Duration // since started, as the deadline of the connection says
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if allowed := min(bodyGrace+time.Duration(p.read/bodyRate)*time.Second, bodyLongest); allowed != p.allowed {
		p.allowed = allowed
		_ = p.connection.SetReadDeadline(p.started.Add(allowed)) // the recorders of tests have no deadlines
	}
	n, err := p.body.Read(b)
	p.read += int64(n)
	return n, err
}

// clearDeadline removes the deadline: if it passed while the handler runs, it would cancel the context of the request.
func (p *pacedReader) clearDeadline() { _ = p.connection.SetReadDeadline(time.Time{}) }
