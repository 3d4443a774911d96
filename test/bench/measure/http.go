package measure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Connections is the number of connections of a usual load.
const Connections = 64

// SendBody returns the body of a submission of one message to a random number.
func SendBody() string {
	return fmt.Sprintf(`{"phone_number":"138%08d","content":"您的验证码是123456，请勿泄露","source":"bench"}`, rand.IntN(100_000_000))
}

// Client calls a server over persistent connections.
type Client struct {
	HTTP    fasthttp.HostClient
	Address string
	auth    string
}

// Client returns a client that calls as the user admin over at most the given number of connections.
func (s *Stack) Client(connections int) *Client { return s.ClientOf("admin", connections) }

// ClientOf returns a client that calls as username over at most the given number of connections. The user has the same password as admin.
func (s *Stack) ClientOf(username string, connections int) *Client {
	return &Client{
		HTTP: fasthttp.HostClient{Addr: s.address, MaxConns: connections, MaxIdleConnDuration: time.Minute}, Address: s.address,
		auth: "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+Password)),
	}
}

// Call sends the body as JSON unless it is empty. Call decodes the data of the response into data unless data is nil.
func (c *Client) Call(method, path, body string, data any) error {
	return c.CallWith("application/json", method, path, body, data)
}

// CallWith works like Call, with another content type.
func (c *Client) CallWith(contentType, method, path, body string, data any) error {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.SetRequestURI("http://" + c.Address + path)
	req.Header.SetMethod(method)
	req.Header.Set("Authorization", c.auth)
	if body != "" {
		req.Header.SetContentType(contentType)
		req.SetBodyString(body)
	}
	if err := c.HTTP.Do(req, res); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode() != fasthttp.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode(), res.Body())
	}
	if data == nil {
		return nil
	}
	return json.Unmarshal(res.Body(), &struct{ Data any }{data})
}

// ClosedLoop runs n callers for d. Each caller starts its next call when its previous call has ended. ClosedLoop returns the number of calls per second.
func ClosedLoop(ctx context.Context, n int, d time.Duration, call func(i int) error) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, nil)
	defer cancel()
	var done atomic.Int64
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := call(i); err != nil {
					failure.Store(&err)
					cancel()
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	rate := float64(done.Load()) / time.Since(began).Seconds()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return rate, nil
}

// OpenLoop starts rate calls per second for d, whether or not earlier calls have ended. At most n calls run at the same time. OpenLoop returns the duration of
// each call, measured from its planned start to its end.
func OpenLoop(ctx context.Context, n int, rate float64, d time.Duration, call func() error) ([]time.Duration, error) {
	due := make(chan time.Time, int(rate*d.Seconds())+n)
	var mu sync.Mutex
	var took []time.Duration
	var failure error
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for at := range due {
				err := call()
				t := time.Since(at)
				mu.Lock()
				took = append(took, t)
				if err != nil {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	next, end := time.Now(), time.Now().Add(d)
	for next.Before(end) && ctx.Err() == nil {
		if wait := time.Until(next); wait > 0 {
			time.Sleep(wait)
		}
		due <- next
		next = next.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
	}
	close(due)
	all.Wait()
	return took, failure
}

// Quantile sorts took and returns its quantile q, or 0 if took is empty.
func Quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(q*float64(len(took))))]
}

// Median sorts the values and returns the middle value.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
