// Package events contains the clients that pull events and receive webhooks, the clients that cause notifications and alerts, and the invariants of events.
package events

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// Events are the clients that consume events: receivers of webhooks, which sometimes fail, and systems that pull. Other clients of Events cancel and requeue
// their own messages, so that some tasks have several events.
type Events struct {
	load    *load.Load
	tenants *load.Tenants
	Notices *notices
	server  http.Server
	url     string
	hooks   []*hook
	pulls   []*pull
	sinceID int64     // id of the last row of report_logs that was written before the first listener existed
	since   time.Time // database time after which events are recorded
	lastID  int64     // events up to this id were posted and pulled

	mu      sync.Mutex
	calm    bool          // receivers accept every post
	release chan struct{} // closed to end the posts that hang
	serial  int64         // last serial number of a post

	unsigned, changed check.Verdict
	Did               [eventActs]atomic.Int64
}

type eventAct int

const (
	takeEvent eventAct = iota
	failEvent
	pauseEvents
	cutEvent
	hangEvent
	leaveWebhook
	returnWebhook
	pullEvents
	eventActs
)

// EventActNames describe the acts of the consumers of events.
var EventActNames = [eventActs]string{
	"posts taken", "posts answered with an error", "posts answered with Retry-After", "posts cut off", "posts that hung",
	"webhooks switched off by their receivers", "webhooks switched on again", "pulls answered",
}

// hook is a webhook of a company, or of all companies if company is empty.
type hook struct {
	company string
	id      int64
	key     []byte
	got     map[string]*reception // receptions by webhook-id
}

// reception records how a receiver got an event.
type reception struct {
	body        []byte
	taskID      string
	seen, taken int64 // serial numbers of the first post (seen) and of the first accepted post (taken); 0: no such post yet
}

// pull is a system that pulls events. If company is set, it pulls for this company, as a user with the role submit. If company is
// empty, it pulls for all companies, as the admin.
type pull struct {
	name      string
	company   string // company of its events; empty: all
	user      string // submitter of its events; empty: every user
	named     *string
	authorize []api.RequestEditorFn
	cursor    *string
	ids       []string // in the order of arrival
}

// eventTypes are the event types of every webhook. serviceTypes are events of the service itself, which only the webhook of all companies gets.
var (
	eventTypes = []api.EventType{
		"message.sent", "message.failed", "message.expired", "message.cancelled", "message.delivered", "message.undelivered", "batch.finished",
		"notification.finished", "message.received", "verification.approved", "verification.failed",
	}
	serviceTypes = []api.EventType{"alert.firing", "alert.resolved", "sender.silent", "sender.recovered", "sender.low_balance"}
)

const receiversPath = "/events/"

// New creates the webhooks, and gets the first cursor of each pull.
func New(ctx context.Context, s *stack.Stack, l *load.Load, t *load.Tenants) (*Events, error) {
	e := &Events{
		load: l, tenants: t, Notices: &notices{load: l, tenants: t}, release: make(chan struct{}),
		unsigned: check.Verdict{Name: "every post is signed with the secret of its webhook"},
		changed:  check.Verdict{Name: "each post of an event has the same webhook-id and the same body"},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for events: %w", err)
	}
	e.url = "http://" + listener.Addr().String() + receiversPath
	e.server.Handler, e.server.ReadHeaderTimeout = e, time.Second
	client := l.Clients[0]
	types := slices.DeleteFunc(slices.Clone(eventTypes), func(one api.EventType) bool { return !l.Knows(string(one)) })
	for i, company := range []string{"", "default", load.Acme, load.Bolt} {
		body := api.WebhookRequest{URL: fmt.Sprint(e.url, i), Events: types}
		if company != "" {
			body.CompanyNo = &company
		} else {
			body.Events = slices.Concat(types, serviceTypes)
		}
		res, err := client.CreateWebhookWithResponse(ctx, body)
		if err := load.CheckCreated("webhook", err, res); err != nil {
			return nil, err
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(res.JSON200.Data.Secret, "whsec_"))
		if err != nil {
			return nil, fmt.Errorf("read secret: %w", err)
		}
		e.hooks = append(e.hooks, &hook{company: company, id: res.JSON200.Data.WebhookID, key: key, got: map[string]*reception{}})
	}
	go func() { _ = e.server.Serve(listener) }() // the server runs until Close
	named := "default"
	e.pulls = []*pull{{name: "all"}, {name: named, company: named, named: &named}}
	for _, user := range t.Users {
		e.pulls = append(e.pulls, &pull{name: user.Company, company: user.Company, user: user.Company, authorize: []api.RequestEditorFn{user.Authorize}})
	}
	for _, p := range e.pulls {
		if more := e.pull(client, p, 0); p.cursor == nil || more {
			return nil, fmt.Errorf("begin to pull as %s: no cursor", p.name)
		}
	}
	err = s.Query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(max(id), 0), clock_timestamp() FROM report_logs").Scan(&e.sinceID, &e.since)
	})
	if err != nil {
		return nil, fmt.Errorf("query the last report: %w", err)
	}
	return e, e.Notices.setUp(ctx)
}

// Close stops the receivers.
func (e *Events) Close() {
	e.beCalm(true)
	_ = e.server.Close() // beCalm has ended the posts that hung
}

// beCalm switches between receivers that accept every post and receivers that sometimes fail.
func (e *Events) beCalm(calm bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if calm && !e.calm {
		close(e.release)
	}
	if !calm && e.calm {
		e.release = make(chan struct{})
	}
	e.calm = calm
}

// Run pulls events, cancels and requeues messages, causes notifications and alerts, and switches webhooks on again, until ctx ends.
func (e *Events) Run(ctx context.Context, round int) {
	e.beCalm(false)
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(e.load.Seed, uint64(round)<<16|uint64(1<<15+n))) }
	var all sync.WaitGroup
	for i, p := range e.pulls {
		all.Go(func() {
			r := rng(i)
			for stack.Pause(ctx, time.Duration(100+r.IntN(400))*time.Millisecond) {
				e.pull(e.load.Any(r), p, r.IntN(2))
			}
		})
	}
	for i := range 4 {
		all.Go(func() {
			r := rng(10 + i)
			for stack.Pause(ctx, time.Duration(r.IntN(300))*time.Millisecond) {
				e.waver(ctx, r)
			}
		})
	}
	all.Go(func() { e.Notices.run(ctx, round) })
	all.Go(func() {
		r := rng(20)
		for stack.Pause(ctx, time.Duration(500+r.IntN(1000))*time.Millisecond) {
			for _, h := range e.hooks {
				res, err := e.load.Any(r).GetWebhookWithResponse(load.CallContext(), h.id)
				if err == nil && res.JSON200 != nil && res.JSON200.Data.Status == "off" && e.switchOn(e.load.Any(r), h) {
					e.Did[returnWebhook].Add(1)
				}
			}
		}
	})
	all.Wait()
}

// waver submits a message, and cancels and requeues it up to three times.
func (e *Events) waver(ctx context.Context, rng *rand.Rand) {
	serial := e.load.Serial.Add(1)
	user := e.tenants.Users[rng.IntN(2)]
	text, kind := fmt.Sprintf("soak-%d-wavering-%d", e.load.Seed, serial), api.Marketing
	at := time.Now().Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
	body := api.SendRequest{PhoneNumber: fmt.Sprintf("138%08d", serial), Content: &text, MessageType: &kind, ExpectSendTime: &at}
	id := e.load.Submit(e.load.Any(rng), nil, body, text, user.Authorize)
	for n := rng.IntN(4); id != "" && n > 0; n-- {
		e.load.Cancel(e.load.Any(rng), id)
		stack.Pause(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
		e.load.Requeue(id)
	}
}

// switchOn switches a webhook on. The server then also retries the webhook immediately.
func (e *Events) switchOn(client *api.ClientWithResponses, h *hook) bool {
	on := api.WebhookStatus("on")
	res, err := client.UpdateWebhookWithResponse(load.CallContext(), h.id, api.WebhookPatch{Status: &on})
	return err == nil && res.JSON200 != nil
}

// pull pulls once, and reports whether it returned events. A lost response does not move the cursor, so the next pull returns the same events.
func (e *Events) pull(client *api.ClientWithResponses, p *pull, wait int) bool {
	limit := 1000
	res, err := client.PullEventsWithResponse(load.CallContext(), &api.PullEventsParams{After: p.cursor, Limit: &limit, Wait: &wait, CompanyNo: p.named}, p.authorize...)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	e.load.History.Calls[load.OutcomeOf(status, err)].Add(1)
	if err == nil && status == http.StatusConflict {
		e.load.History.Breach("the service rejected a cursor of the pull %s: %s", p.name, res.Body)
	}
	if err != nil || res.JSON200 == nil {
		return false
	}
	e.Did[pullEvents].Add(1)
	p.cursor = &res.JSON200.Data.NextCursor
	for _, one := range res.JSON200.Data.Items {
		p.ids = append(p.ids, one.ID)
	}
	return len(res.JSON200.Data.Items) > 0
}

// ServeHTTP is the receiver of a webhook. It records each post and its own response.
func (e *Events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	index, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, receiversPath))
	if err != nil || index < 0 || index >= len(e.hooks) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed
	}
	h := e.hooks[index]
	id := r.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, h.key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("webhook-timestamp"), body)
	isSigned := r.Header.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
	act, release := e.receive(h, id, body, isSigned)
	e.Did[act].Add(1)
	switch act {
	case takeEvent:
		w.WriteHeader(http.StatusNoContent)
	case failEvent:
		w.WriteHeader(http.StatusInternalServerError)
	case pauseEvents:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case leaveWebhook:
		w.WriteHeader(http.StatusGone)
	default:
		if act == hangEvent {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

// receive records a post, and decides how the receiver responds.
func (e *Events) receive(h *hook, id string, body []byte, isSigned bool) (eventAct, chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serial++
	if !isSigned {
		e.unsigned.Add(id + " of webhook " + strconv.FormatInt(h.id, 10))
	}
	got := h.got[id]
	if got == nil {
		var event struct {
			Data struct {
				TaskID string `json:"task_id"`
			}
		}
		if err := json.Unmarshal(body, &event); err != nil {
			e.changed.Add(fmt.Sprintf("%s has a body that cannot be read: %v", id, err))
		}
		got = &reception{body: body, taskID: event.Data.TaskID, seen: e.serial}
		h.got[id] = got
	}
	if _, isErased := e.load.History.Erased.Load(got.taskID); !isErased && !bytes.Equal(got.body, body) {
		e.changed.Add(fmt.Sprintf("%s was %s, then %s", id, got.body, body))
	}
	act := takeEvent
	if !e.calm {
		switch n := rand.IntN(2000); {
		case n < 20:
			act = failEvent
		case n < 25:
			act = pauseEvents
		case n < 35:
			act = cutEvent
		case n < 36:
			act = hangEvent
		case n < 38:
			act = leaveWebhook
		}
	}
	if act == takeEvent && got.taken == 0 {
		e.serial++
		got.taken = e.serial
	}
	return act, e.release
}

// AwaitIdle waits until all alert rules are evaluated and all events are posted. Then it pulls the remaining events.
func (e *Events) AwaitIdle(ctx context.Context, s *stack.Stack) error {
	e.beCalm(true)
	var still load.Standstill
	for !e.Notices.enable(e.load.Clients[0], true) {
		if still.See("", true) > load.StillLimit {
			return fmt.Errorf("an alert rule was not switched on within %s", load.StillLimit)
		}
		stack.Pause(ctx, 100*time.Millisecond)
	}
	for isFirst := true; ; isFirst = false {
		var left int64
		var resting []int64
		err := s.Query(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT `+noticesLeft+` + (SELECT count(*) FROM feed_staged) + (SELECT count(*) FROM webhook_retries)
					+ (SELECT count(*) FROM webhooks w, feed f WHERE f.id > w.after_id AND (w.company_id IS NULL OR f.company_id = w.company_id)),
				ARRAY(
					SELECT w.id FROM webhooks w WHERE w.status = 'off' OR w.rest_until > now()
						OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.due_at > now())
				), (SELECT coalesce(max(id), 0) FROM feed)`, e.Notices.filled, e.Notices.silence).Scan(&left, &resting, &e.lastID)
		})
		if err != nil {
			return fmt.Errorf("query the remaining events: %w", err)
		}
		if left == 0 && !isFirst {
			break
		}
		for _, h := range e.hooks {
			for _, id := range resting {
				if h.id == id {
					e.switchOn(e.load.Clients[0], h) // if this fails, the next iteration tries again
				}
			}
		}
		if still.See(fmt.Sprint(left), true) > load.StillLimit {
			return fmt.Errorf("no progress for %s: %d events are not posted or alert rules not evaluated", load.StillLimit, left)
		}
		stack.Pause(ctx, 100*time.Millisecond)
	}
	for _, p := range e.pulls {
		for e.pull(e.load.Clients[0], p, 0) {
		}
	}
	return nil
}

// eventEvidence creates the temporary tables. listeners contains the webhooks and the pulls. received contains the events that these listeners received. Its column
// seen is the serial number of the first post or, for a pull, the position of the event. Its column taken is the serial number of the first accepted post.
// nameless contains received ids that are not ids of events.
const eventEvidence = `
CREATE TEMP TABLE listeners (name text, is_pull boolean, company_no text, username text);
CREATE TEMP TABLE received (name text, event_id bigint, task_id text COLLATE "C", seen bigint, taken bigint);
CREATE TEMP TABLE nameless (name text, id text)`

// eventInvariants must hold when no client runs and all events up to $2 were posted and pulled. Later events can exist, because alerts still fire and resolve.
// $1 is the id of the last row of report_logs that was written before the first listener existed.
var eventInvariants = []check.Invariant{
	{Name: "every end of a task has exactly one event, and so has each result of its receipts; no other event of a task exists", SQL: `
		SELECT coalesce(f.type, 'no event') || ' of ' || coalesce(r.task_id, f.task_id) || ' after ' || coalesce(r.type, 'nothing')
		FROM (
			SELECT l.id, l.task_id, l.created_at, m.company_id, m.submitted_by, CASE l.effect
					WHEN 'success' THEN 'message.sent' WHEN 'cancelled' THEN 'message.cancelled' WHEN 'expired' THEN 'message.expired'
					WHEN 'delivered' THEN 'message.delivered' WHEN 'undelivered' THEN 'message.undelivered' ELSE 'message.failed'
				END AS type
			FROM report_logs l JOIN messages m USING (task_id)
			WHERE l.id > $1 AND (l.effect IN ('success', 'failed', 'exhausted', 'unclear', 'cancelled', 'expired') OR l.event = 'receipt')
		) r
			FULL JOIN (SELECT * FROM feed WHERE task_id IS NOT NULL) f ON f.log_id = r.id
		WHERE (r.task_id, r.company_id, r.submitted_by, r.type, r.created_at) IS DISTINCT FROM (f.task_id, f.company_id, f.submitted_by, f.type, f.at)`},
	{Name: "every batch that ended has exactly one event of its end", SQL: `
		SELECT 'batch ' || b.id || ' has ' || count(f.id) FROM batches b
			LEFT JOIN feed f ON f.type = 'batch.finished' AND (f.data ->> 'batch_id')::bigint = b.id AND f.data ->> 'status' = b.status
				AND (f.data ->> 'ended_at')::timestamptz = b.ended_at AND (f.company_id, f.submitted_by) = (b.company_id, b.submitted_by)
		WHERE b.is_settled AND b.status IN ('finished', 'cancelled') AND b.is_confirmed
		GROUP BY b.id HAVING count(f.id) <> 1`},
	{Name: "the events of a task are in the feed in the order in which they happened", SQL: `
		SELECT f.task_id || ', event ' || f.id FROM (SELECT *, lag(log_id) OVER (PARTITION BY task_id ORDER BY id) AS before FROM feed WHERE task_id IS NOT NULL) f
		WHERE f.before > f.log_id`},
	{Name: "each webhook accepted every event of its company", SQL: `
		SELECT l.name || ', event ' || f.id || CASE WHEN t.seen IS NULL THEN ', never posted' ELSE '' END
		FROM listeners l
			JOIN feed f ON l.company_no = '' OR f.company_id = (SELECT c.id FROM companies c WHERE c.company_no = l.company_no)
			LEFT JOIN received t ON t.name = l.name AND t.event_id = f.id
		WHERE NOT l.is_pull AND t.taken IS NULL AND f.id <= $2`},
	{Name: "an event of a task is posted only after its earlier events were accepted", SQL: `
		SELECT t.name || ', event ' || t.event_id || ' of ' || t.task_id FROM (
			SELECT o.*, max(coalesce(o.taken, 9e18::bigint)) OVER (
				PARTITION BY o.name, o.task_id ORDER BY o.event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
			) AS before
			FROM received o JOIN listeners l USING (name) WHERE NOT l.is_pull AND o.task_id <> ''
		) t
		WHERE t.before > t.seen`},
	{Name: "every published event is in the feed, with the same task", SQL: `
		SELECT n.name || ' got ' || n.id FROM nameless n
		UNION ALL
		SELECT t.name || ', event ' || t.event_id || ' of ' || t.task_id FROM received t JOIN listeners l USING (name) LEFT JOIN feed f ON f.id = t.event_id
		WHERE f.id IS NULL OR NOT l.is_pull AND coalesce(f.task_id, '') <> t.task_id`},
	{Name: "no webhook or pull gets an event of another company or user", SQL: `
		SELECT t.name || ', event ' || f.id || ' of ' || coalesce(f.task_id, f.type) FROM received t
			JOIN listeners l USING (name)
			JOIN feed f ON f.id = t.event_id
			LEFT JOIN messages m ON m.task_id = t.task_id AND t.task_id <> ''
			LEFT JOIN companies c ON c.id = coalesce(m.company_id, f.company_id) -- NULL: an event of the service itself
		WHERE l.company_no NOT IN ('', coalesce(c.company_no, '')) OR l.username NOT IN ('', coalesce(m.submitted_by, f.submitted_by))`},
	{Name: "a pull gets each of its events once, in the order of the feed", SQL: `
		SELECT x.name || ', event ' || x.event_id || ': ' || coalesce(x.place::text, 'missing') || ', want ' || coalesce(x.want::text, 'none')
		FROM (
			SELECT name, event_id, t.place, w.want
			FROM (SELECT name, event_id, seen AS place FROM received JOIN listeners l USING (name) WHERE l.is_pull AND event_id <= $2) t
				FULL JOIN (
					SELECT l.name, f.id AS event_id, row_number() OVER (PARTITION BY l.name ORDER BY f.id) AS want
					FROM listeners l
						JOIN feed f ON (l.company_no = '' OR f.company_id = (SELECT c.id FROM companies c WHERE c.company_no = l.company_no))
							AND l.username IN ('', f.submitted_by)
					WHERE l.is_pull AND f.id <= $2
				) w USING (name, event_id)
		) x
		WHERE x.place IS DISTINCT FROM x.want`},
}

// Verdicts compares two pairs: the events that webhooks and pulls delivered with the events of the feed, and the events of the feed with the logs.
func (e *Events) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	if err := e.copyReceived(ctx, conn); err != nil {
		return nil, fmt.Errorf("copy the published events: %w", err)
	}
	var all []check.Verdict
	bounds := strings.NewReplacer("$1", strconv.FormatInt(e.sinceID, 10), "$2", strconv.FormatInt(e.lastID, 10),
		"$3", "'"+e.since.Format(time.RFC3339Nano)+"'::timestamptz")
	for _, i := range slices.Concat(eventInvariants, noticeInvariants) {
		i.SQL = bounds.Replace(i.SQL)
		v, err := i.Check(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		all = append(all, v)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(all, e.unsigned, e.changed), nil
}

// copyReceived copies the events that webhooks and pulls received into temporary tables.
func (e *Events) copyReceived(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, eventEvidence); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var listeners, received, nameless [][]any
	for _, h := range e.hooks {
		name := "webhook of " + cmp.Or(h.company, "all companies")
		listeners = append(listeners, []any{name, false, h.company, ""})
		for id, got := range h.got {
			if number, isEvent := eventNumber(id); isEvent {
				received = append(received, []any{name, number, got.taskID, got.seen, optional.NonZero(got.taken)})
			} else {
				nameless = append(nameless, []any{name, id})
			}
		}
	}
	for _, p := range e.pulls {
		name := "pull of " + p.name
		listeners = append(listeners, []any{name, true, p.company, p.user})
		for i, id := range p.ids {
			if number, isEvent := eventNumber(id); isEvent {
				received = append(received, []any{name, number, "", int64(i + 1), nil})
			} else {
				nameless = append(nameless, []any{name, id})
			}
		}
	}
	for _, table := range []struct {
		name    string
		columns []string
		rows    [][]any
	}{
		{"listeners", []string{"name", "is_pull", "company_no", "username"}, listeners},
		{"received", []string{"name", "event_id", "task_id", "seen", "taken"}, received},
		{"nameless", []string{"name", "id"}, nameless},
	} {
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromRows(table.rows)); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, "ANALYZE listeners, received, feed, report_logs")
	return err
}

// eventNumber returns the id in the table feed for the id of an event in the API.
func eventNumber(id string) (number int64, isEvent bool) {
	digits, hasPrefix := strings.CutPrefix(id, "evt_")
	number, err := strconv.ParseInt(digits, 10, 64)
	return number, hasPrefix && err == nil
}
