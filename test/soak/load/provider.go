package load

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
	"lksms/test/soak/stack"
)

// These constants describe the driven senders and their provider.
const (
	Pushed           = 2 // number of driven senders of the default company
	providerPatience = 400 * time.Millisecond
)

// Provider is the provider of the driven senders. It records the messages that it accepts, even if its response is an error or is lost.
type Provider struct {
	url     string
	calm    atomic.Bool  // accepts every message, with a clear response
	ailment atomic.Int32 // the fault that is injected at the path /sick now
	Server  http.Server

	Mu       sync.Mutex
	Accepted map[string]int // how often the provider accepted each task, by task id
}

// StartProvider starts a provider on this machine.
func StartProvider() (*Provider, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for provider: %w", err)
	}
	p := &Provider{url: "http://" + listener.Addr().String(), Accepted: map[string]int{}}
	p.Server.Handler = p
	p.Server.ReadHeaderTimeout = time.Second
	go func() { _ = p.Server.Serve(listener) }() // the server runs until Close
	return p, nil
}

// sender returns a request that creates a driven sender. The sender calls the provider at the path.
func (p *Provider) sender(no, path string) api.SenderRequest {
	kind, shared, held := "http-sms", false, int64(stack.Lease.Seconds())
	return api.SenderRequest{
		SenderNo: no, Name: no, Kind: &kind, Status: new(api.SenderOn), IsShared: &shared, LeaseSeconds: &held,
		Config: &map[string]any{
			"url": p.url + path, "body": map[string]any{"task_id": "${task_id}", "to": "${recipient}", "text": "${content}"}, "timeoutSeconds": providerPatience.Seconds(),
			"answer": map[string]any{"success": "ok", "equals": []string{"true"}, "number": "id"},
		},
	}
}

// ServeHTTP accepts most messages and rejects some. For some accepted messages, its response cannot be parsed, is late, or is cut off. At the path /well it
// accepts all messages. At the path /sick it accepts all messages, except while a fault is injected.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var message struct {
		TaskID string `json:"task_id"`
	}
	if json.NewDecoder(r.Body).Decode(&message) != nil || message.TaskID == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	n := rand.IntN(100)
	switch {
	case r.URL.Path == "/sick" && p.ail(w, r):
		return
	case p.calm.Load() || r.URL.Path != "/":
		n = 100
	}
	if n < 10 { // rejects the message with a clear response
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	p.Mu.Lock()
	p.Accepted[message.TaskID]++
	p.Mu.Unlock()
	switch {
	case n < 13: // responds only after the timeout of the driver
		time.Sleep(2 * providerPatience)
	case n < 16:
		_, _ = w.Write([]byte("<html>"))
		return
	case n < 22: // closes the connection before or within the response
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		if n < 19 {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ok\":"))
		}
		_ = conn.Close()
		return
	}
	_, _ = fmt.Fprintf(w, `{"ok":true,"id":%q}`, message.TaskID)
}

// Total returns the number of acceptances of all tasks.
func (p *Provider) Total() int {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	total := 0
	for _, n := range p.Accepted {
		total += n
	}
	return total
}

// These are the troubles of the provider under /sick.
const (
	healthy int32 = iota
	unauthorized
	redirecting
	nonsense
	ailments
)

// ail answers a request at /sick while the provider has a trouble, and does not accept the message. It returns false if the provider has no trouble.
func (p *Provider) ail(w http.ResponseWriter, r *http.Request) bool {
	switch p.ailment.Load() {
	case unauthorized:
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "the key is wrong"})
	case redirecting:
		http.Redirect(w, r, "/login", http.StatusFound)
	case nonsense:
		_, _ = w.Write([]byte("<html><h1>Maintenance</h1></html>"))
	default:
		return false
	}
	return true
}
