package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lksms/internal/platform/fault"
)

// serve starts a server on which every request is a stream.
func serve(t *testing.T, s *Streams, from Source) (url string, ended <-chan error) {
	t.Helper()
	done := make(chan error, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done <- s.Serve(r.Context(), w, from)
	}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond // streams must outlive these timeouts
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, done
}

// numbers returns a source whose data changes with each event.
func numbers(every time.Duration) Source {
	var n atomic.Int64
	return Source{Event: "n", Every: every, MayRead: func() error { return nil }, Next: func(context.Context) (data, what []byte, err error) {
		data = fmt.Append(nil, n.Add(1))
		return data, data, nil
	}}
}

func open(t *testing.T, url string) *bufio.Reader {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the header %v", res.Header)
	}
	return bufio.NewReader(res.Body)
}

// event reads the next event of a stream.
func event(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var lines []string
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", lines, err)
		}
		if line == "\n" {
			return strings.Join(lines, " ")
		}
		lines = append(lines, strings.TrimSpace(line))
	}
}

func TestStreamOutlivesServerTimeouts(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, New(1), numbers(100*time.Millisecond))
	from := open(t, url)
	for n := 1; n <= 12; n++ {
		if got := event(t, from); got != fmt.Sprintf("event: n data: %d", n) {
			t.Fatal(got)
		}
	}
}

func TestStreamDoesNotRepeatUnchangedData(t *testing.T) {
	t.Parallel()
	source, reads := numbers(time.Millisecond), atomic.Int64{}
	source.Next = func(context.Context) (data, what []byte, err error) {
		n := reads.Add(1)
		if n%5 == 0 {
			return nil, nil, errors.New("out of reach")
		}
		return fmt.Append(nil, n), fmt.Append(nil, n/10), nil
	}
	url, _ := serve(t, New(1), source)
	from := open(t, url)
	for _, want := range []string{"1", "11", "21"} {
		if got := event(t, from); got != "event: n data: "+want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// Without heartbeats, a reader could not distinguish unchanged figures, unreadable figures and a broken connection.
func TestHeartbeatReportsWhetherLatestEventIsCurrent(t *testing.T) {
	t.Parallel()
	s, source, isOut := New(1), numbers(time.Millisecond), atomic.Bool{}
	s.heartbeat = 5 * time.Millisecond
	source.Next = func(context.Context) (data, what []byte, err error) {
		if isOut.Load() {
			return nil, nil, errors.New("out of reach")
		}
		return []byte("1"), []byte("1"), nil
	}
	var mayNot atomic.Pointer[error]
	source.MayRead = func() error {
		if err := mayNot.Load(); err != nil {
			return *err
		}
		return nil
	}
	url, _ := serve(t, s, source)
	from := open(t, url)
	await := func(want string) {
		t.Helper()
		for last := ""; last != want; {
			if last = event(t, from); !strings.HasPrefix(last, "event: ping") {
				t.Fatalf("%s, want %s", last, want)
			}
		}
	}
	if got := event(t, from); got != "event: n data: 1" {
		t.Fatal(got)
	}
	const current, stale = `event: ping data: {"current":true}`, `event: ping data: {"current":false}`
	await(current)
	isOut.Store(true)
	await(stale)
	isOut.Store(false)
	await(current)
	unknown := errors.New("nobody knows the rights of the reader")
	mayNot.Store(&unknown)
	await(stale)
}

func TestStreamEndsWhenReaderLosesPermission(t *testing.T) {
	t.Parallel()
	source, may := numbers(time.Millisecond), atomic.Pointer[error]{}
	asked := make(chan int64)
	read := atomic.Int64{}
	next := source.Next
	source.Next = func(ctx context.Context) (data, what []byte, err error) {
		read.Add(1)
		return next(ctx)
	}
	source.MayRead = func() error {
		select {
		case asked <- read.Load():
		default:
		}
		if err := may.Load(); err != nil {
			return *err
		}
		return nil
	}
	url, ended := serve(t, New(1), source)
	from := open(t, url)
	event(t, from)
	// Nothing is sent while the permission cannot be checked.
	for _, err := range []error{errors.New("out of reach"), fault.New(fault.Unavailable, fault.ServiceUnavailable)} {
		may.Store(&err)
	}
	<-asked // the first value can belong to an earlier check
	before := <-asked
	for range 10 {
		if after := <-asked; after != before {
			t.Fatalf("%d events were sent", after-before)
		}
	}
	over := error(fault.New(fault.Unauthorized, fault.AuthRequired))
	may.Store(&over)
	last := event(t, from)
	for strings.HasPrefix(last, "event: n") {
		last = event(t, from)
	}
	if last != `event: bye data: {"reason":"access"}` {
		t.Error(last)
	}
	if _, err := from.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestStreamEndsAfterTimeLimit(t *testing.T) {
	t.Parallel()
	source := numbers(time.Hour)
	source.Limit = new(time.Duration(0))
	url, _ := serve(t, New(1), source)
	rest, err := io.ReadAll(open(t, url))
	if want := "event: n\ndata: 1\n\nevent: bye\ndata: {\"reason\":\"over\"}\n\n"; err != nil || string(rest) != want {
		t.Errorf("%q %v", rest, err)
	}
}

func TestPlainStreamContainsOnlyOwnEventsAndComments(t *testing.T) {
	t.Parallel()
	s, source, n := New(1), numbers(time.Millisecond), atomic.Int64{}
	s.heartbeat = 5 * time.Millisecond
	source.IsPlain, source.Limit = true, new(50*time.Millisecond)
	source.Next = func(context.Context) (data, what []byte, err error) {
		if n.Add(1) != 2 {
			return nil, nil, errors.New("nothing")
		}
		return []byte("{}"), []byte("1"), nil
	}
	url, _ := serve(t, s, source)
	rest, err := io.ReadAll(open(t, url))
	if events := strings.ReplaceAll(string(rest), ":\n\n", ""); err != nil || events != "event: n\ndata: {}\n\n" || len(rest) == len(events) {
		t.Errorf("%q %v", rest, err)
	}
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	s := New(10)
	url, ended := serve(t, s, numbers(time.Hour))
	readers := make([]*bufio.Reader, 5)
	for n := range readers {
		readers[n] = open(t, url)
		event(t, readers[n])
	}
	s.Stop()
	s.Stop()
	for _, from := range readers {
		if got := event(t, from); got != `event: bye data: {"reason":"shutdown"}` {
			t.Error(got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	// A stream that begins after the stop ends immediately.
	if rest, err := io.ReadAll(open(t, url)); err != nil || !strings.HasSuffix(string(rest), "\"shutdown\"}\n\n") {
		t.Errorf("%q %v", rest, err)
	}
}

// A reader that does not read must block neither its stream nor the shutdown of the server.
func TestStreamOfSlowReaderIsClosed(t *testing.T) {
	t.Parallel()
	source := numbers(time.Millisecond)
	large := strings.Repeat("x", 1<<20)
	next := source.Next
	source.Next = func(ctx context.Context) (data, what []byte, err error) {
		data, _, err = next(ctx)
		return append(data, large...), data, err
	}
	url, ended := serve(t, New(1), source)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the stream ended without an error")
		}
	case <-time.After(writeLimit + 5*time.Second):
		t.Error("the stream continues")
	}
}

func TestStreamEndsWhenReaderDisconnects(t *testing.T) {
	t.Parallel()
	url, ended := serve(t, New(1), numbers(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Without deadlines, a reader could block a stream forever.
func TestStreamRequiresConnectionWithDeadlines(t *testing.T) {
	t.Parallel()
	if err := New(1).Serve(t.Context(), httptest.NewRecorder(), numbers(time.Hour)); !errors.Is(err, http.ErrNotSupported) {
		t.Error(err)
	}
}

func TestStreamsAreLimitedByUserCompanyAndServer(t *testing.T) {
	t.Parallel()
	expect := func(s *Streams, isOpen bool, username, company string) (leave func()) {
		t.Helper()
		leave, err := s.Open(username, company)
		if (err == nil) != isOpen {
			t.Errorf("a stream of %s of %s: %v", username, company, err)
		}
		return leave
	}
	s := New(100)
	first := expect(s, true, "a", "1")
	for range ofUser - 1 {
		expect(s, true, "a", "1")
	}
	expect(s, false, "a", "1") // limit of the user
	first()
	first() // a second call has no effect
	expect(s, true, "a", "1")
	expect(s, false, "a", "1")
	for n := range 50 - ofUser {
		expect(s, true, fmt.Sprint("b", n), "1")
	}
	expect(s, false, "c", "1") // limit of the company
	for n := range 50 {
		expect(s, true, fmt.Sprint("d", n), fmt.Sprint("of d", n))
	}
	expect(s, false, "e", "e") // limit of the server
	expect(New(1), true, "a", "")()
}
