package smppserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lksms/gen/smppserverq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/events/feed"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/lease"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smpp"
)

const (
	maxEvents  = 100             // events that are sent before the progress is stored
	maxAgain   = 500             // with this many events to send again, no new events are read
	giveUp     = time.Hour       // after the first attempt, an event that the program does not take is skipped
	pullWait   = 5 * time.Second // for new events
	firstPause = time.Second     // after a program did not take an event; each further pause is twice as long
	maxPause   = time.Minute
	listenAt   = time.Hour // interval at which the events of the company are requested again, if no bind receives
)

// user is a user with binds. If one bind receives, and no other process holds the user, the user gets the receipts of its messages, and messages of people.
type user struct {
	s    *Server
	key  userKey
	stop context.CancelFunc // ends the sending; nil: nothing is sent

	// guarded by Server.mu
	binds []*bind

	rate sync.Mutex
	free float64   // messages that can be submitted now
	at   time.Time // of free
}

func (s *Server) newUser(key userKey) *user {
	return &user{s: s, key: key, free: float64(s.options.PerSecond), at: time.Now()}
}

// mayBegin takes n messages from the rate of the user, and reports whether there were enough.
func (u *user) mayBegin(n int) bool {
	perSecond := float64(u.s.options.PerSecond)
	if perSecond == 0 {
		return true
	}
	u.rate.Lock()
	defer u.rate.Unlock()
	now := time.Now()
	u.free = min(perSecond, u.free+now.Sub(u.at).Seconds()*perSecond)
	u.at = now
	if u.free < min(float64(n), perSecond) { // a request with more messages than a second allows is accepted when the rate of a full second is free
		return false
	}
	u.free -= float64(n)
	return true
}

// changed starts or ends the sending after the binds have changed. The caller holds Server.mu.
func (u *user) changed() {
	receives := slices.ContainsFunc(u.binds, (*bind).isReceiver)
	switch {
	case receives && u.stop == nil && !u.s.isEnding.Load():
		ctx, stop := context.WithCancel(u.s.ctx)
		u.stop = stop
		u.s.running.Go(func() { u.run(ctx) })
	case !receives && u.stop != nil:
		u.stop()
		u.stop = nil
	}
}

// receiver returns the receiving bind with the fewest open requests, or nil.
func (u *user) receiver() *smpp.Session {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	var best *smpp.Session
	fewest := 0
	for _, b := range u.binds {
		if open, _ := b.session.Load(); b.isReceiver() && (best == nil || open < fewest) {
			best, fewest = b.session, open
		}
	}
	return best
}

// receivers returns the number of binds that receive.
func (u *user) receivers() (n int) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	for _, b := range u.binds {
		if b.isReceiver() {
			n++
		}
	}
	return n
}

// run sends to the user whenever no other holder does, until ctx ends.
func (u *user) run(ctx context.Context) {
	holder := rand.Text() // not the id of the process, because an earlier call of run is possibly still ending
	lease.Work{
		Hold: func(ctx context.Context) (bool, error) {
			_, err := u.hold(ctx, holder)
			if postgres.IsNoRows(err) {
				return false, nil
			}
			return err == nil, postgres.Wrap("hold user", err, nil)
		},
		Do:      func(ctx context.Context) { u.sendSafely(ctx, holder) },
		Release: func() { u.release(ctx, holder) },
		Failed: func(ctx context.Context, _ bool, err error) {
			u.s.options.Log.WarnContext(ctx, "the receipts of an SMPP user cannot be sent", "user", u.key.username, "error", err)
		},
	}.Keep(ctx)
}

// sendSafely works like send. A panic does not end the server.
func (u *user) sendSafely(ctx context.Context, holder string) {
	defer func() {
		if p := recover(); p != nil {
			u.s.options.Log.Error("panic", "user", u.key.username, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	u.send(ctx, holder)
}

// hold takes over the user, or renews the lease, and returns the progress: all events up to AfterID were sent, except those in Waiting. Without a row, another
// holder has the lease.
func (u *user) hold(ctx context.Context, holder string) (smppserverq.SmppReceiverHoldRow, error) {
	return u.s.q.SmppReceiverHold(ctx, smppserverq.SmppReceiverHoldParams{ //nolint:wrapcheck // the callers decide about the absence of a row
		CompanyID: u.key.companyID, Username: u.key.username, HeldBy: holder, Lease: lease.Length,
	})
}

func (u *user) release(ctx context.Context, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Renewal)
	defer cancel()
	err := u.s.q.SmppReceiverRelease(ctx, smppserverq.SmppReceiverReleaseParams{CompanyID: u.key.companyID, Username: u.key.username, HeldBy: holder})
	if err != nil { // another process takes over at the end of the lease
		u.s.options.Log.WarnContext(ctx, "the lease of an SMPP user could not be released", "user", u.key.username, "error", err)
	}
}

// send sends events until ctx ends. Events that the program does not take are sent again with the next events, so that they delay no others.
func (u *user) send(ctx context.Context, holder string) {
	progress, err := u.hold(ctx, holder)
	if err != nil {
		u.warn(ctx, "the progress of an SMPP user cannot be read", err)
		return
	}
	after := progress.AfterID
	again, err := u.reread(ctx, progress.Waiting)
	if err != nil {
		u.warn(ctx, "events for an SMPP user cannot be read", err)
		return
	}
	begun := map[int64]time.Time{} // the times of the first attempts of the events in again
	for pause := firstPause; ctx.Err() == nil; {
		batch, next := again, after
		if len(again) < maxAgain {
			events, last, err := u.pull(ctx, after, len(again) == 0)
			if err != nil {
				u.warn(ctx, "events for an SMPP user cannot be read", err)
				return
			}
			batch, next = slices.Concat(again, events), last
		}
		failed := u.sendAll(ctx, batch)
		again = u.keep(failed, begun)
		if err := u.advance(ctx, holder, next, again); err != nil {
			u.warn(ctx, "the progress of an SMPP user cannot be stored", err)
			return
		}
		after = next
		if len(failed) < len(batch) || len(failed) == 0 {
			pause = firstPause
		}
		if len(again) == 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + mathrand.N(pause)): //nolint:gosec // spreads the users
		}
		pause = min(2*pause, maxPause)
	}
}

// warn logs an error, unless ctx has ended.
func (u *user) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		u.s.options.Log.WarnContext(ctx, what, "user", u.key.username, "error", err)
	}
}

// keep returns the events that are sent again. An event that the program did not take for a long time is skipped. begun contains the times of
// the first attempts; keep updates it.
func (u *user) keep(failed []feed.Rendered, begun map[int64]time.Time) (again []feed.Rendered) {
	before := maps.Clone(begun)
	clear(begun)
	for _, e := range failed {
		first, wasTried := before[e.ID]
		if !wasTried {
			first = time.Now()
		}
		if time.Since(first) > giveUp {
			kind, _ := u.messages(e)
			u.s.metrics.deliveries.WithLabelValues(kind, wasRefused).Inc()
			u.s.options.Log.Warn("an SMPP program did not take a delivery for too long", "user", u.key.username, "kind", kind, "event", e.ID)
			continue
		}
		begun[e.ID] = first
		again = append(again, e)
	}
	return again
}

// reread returns events by their ids. Events that were deleted meanwhile are missing.
func (u *user) reread(ctx context.Context, ids []int64) (all []feed.Rendered, err error) {
	for _, id := range ids {
		events, err := u.s.services.Feed.Read(ctx, task.Viewer{CompanyID: &u.key.companyID}, id-1, 1)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 || events[0].ID != id {
			continue
		}
		rendered, err := u.s.services.Feed.Render(ctx, events)
		if err != nil {
			return nil, err
		}
		all = append(all, rendered...)
	}
	return all, nil
}

// eventTypes are the events that become receipts and messages.
var eventTypes = []string{
	feed.MessageSent, feed.MessageFailed, feed.MessageExpired, feed.MessageCancelled, feed.MessageDelivered, feed.MessageUndelivered, feed.MessageReceived,
}

// concerns reports whether an event is about a message of the user, or about a received message that answers no message.
func (u *user) concerns(e feed.Event) bool {
	return e.SubmittedBy == u.key.username || e.Type == feed.MessageReceived && e.SubmittedBy == ""
}

// pull returns the next events of the company. If waits is true, it waits for them.
func (u *user) pull(ctx context.Context, after int64, waits bool) ([]feed.Rendered, int64, error) {
	p := feed.Pull{Viewer: task.Viewer{CompanyID: &u.key.companyID}, After: &after, Types: eventTypes, IsWanted: u.concerns, Limit: maxEvents}
	if waits {
		p.Wait = pullWait
	}
	events, next, err := u.s.services.Feed.Pull(ctx, p)
	if f := (*fault.Error)(nil); errors.As(err, &f) && f.Reason == fault.EventsCursorGone {
		u.s.options.Log.WarnContext(ctx, "receipts of an SMPP user are lost, because it was not bound for too long", "user", u.key.username)
		p.After, p.IsFirst = nil, true
		events, next, err = u.s.services.Feed.Pull(ctx, p)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("pull events: %w", err)
	}
	return events, next, nil
}

// advance stores the progress, even if ctx has ended. Otherwise the events would be sent again.
func (u *user) advance(ctx context.Context, holder string, after int64, again []feed.Rendered) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Length-lease.Spare)
	defer cancel()
	waiting := make([]int64, len(again))
	for i, e := range again {
		waiting[i] = e.ID
	}
	n, err := u.s.q.SmppReceiverAdvance(ctx, smppserverq.SmppReceiverAdvanceParams{
		CompanyID: u.key.companyID, Username: u.key.username, HeldBy: holder, AfterID: after, Waiting: waiting,
	})
	if err == nil && n == 0 {
		err = errLost
	}
	return postgres.Wrap("record sent events", err, nil)
}

var errLost = errors.New("another holder sends")

// sendAll sends events, several at once. It returns those that must be sent again, in their order.
func (u *user) sendAll(ctx context.Context, events []feed.Rendered) (failed []feed.Rendered) {
	isDone := make([]bool, len(events)) // each goroutine sets another element
	var sending sync.WaitGroup
	slots := make(chan struct{}, u.s.options.Window*max(1, u.receivers()))
	for i, e := range events {
		kind, parts := u.messages(e)
		if len(parts) == 0 {
			isDone[i] = true
			continue
		}
		slots <- struct{}{}
		if ctx.Err() != nil { // the next holder sends the rest
			break
		}
		sending.Go(func() {
			defer func() { <-slots }()
			isDone[i] = u.deliver(ctx, kind, parts)
		})
	}
	sending.Wait()
	for i, e := range events {
		if !isDone[i] {
			failed = append(failed, e)
		}
	}
	return failed
}

// deliver sends the parts of a message through one bind, because different programs cannot join their parts. It reports whether the message needs no further attempt.
func (u *user) deliver(ctx context.Context, kind string, parts []*smpp.Message) bool {
	session := u.receiver()
	if session == nil {
		return false
	}
	for _, part := range parts {
		outcome := deliverPart(ctx, session, part)
		u.s.metrics.deliveries.WithLabelValues(kind, outcome).Inc()
		switch outcome {
		case isRepeated:
			return false
		case wasRefused:
			u.s.options.Log.WarnContext(ctx, "an SMPP program refused a delivery", "user", u.key.username, "kind", kind)
			return true
		}
	}
	return true
}

func deliverPart(ctx context.Context, session *smpp.Session, part *smpp.Message) (outcome string) {
	// The end of ctx does not interrupt the request: the answer decides whether the next holder sends the event again. The session limits the time.
	answer, err := session.Request(context.WithoutCancel(ctx), &smpp.PDU{Command: smpp.DeliverSM, Body: part})
	if err != nil {
		return isRepeated
	}
	switch answer.Status {
	case smpp.OK:
		return wasAccepted
	case smpp.RMsgQFul, smpp.RThrottled, smpp.RXTAppn, smpp.RSysErr:
		return isRepeated
	default:
		return wasRefused
	}
}

// eventData contains the fields of the data of events that receipts and messages need.
type eventData struct {
	TaskID       string    `json:"task_id"`
	CreatedAt    time.Time `json:"created_at"`
	DeliveryCode string    `json:"delivery_code"`
	PhoneNumber  string    `json:"phone_number"`
	OwnNumber    string    `json:"own_number"`
	Content      string    `json:"content"`
}

// messages returns what an event sends to the user: the parts of a deliver_sm, or nothing.
func (u *user) messages(e feed.Rendered) (kind string, parts []*smpp.Message) {
	if e.Type != feed.MessageReceived && len(e.SMPP) == 0 { // the message did not arrive over SMPP
		return "", nil
	}
	var data eventData
	if err := json.Unmarshal(e.Data, &data); err != nil {
		u.s.options.Log.Error("an event cannot be read", "event", e.ID, "error", err)
		return "", nil
	}
	if e.Type == feed.MessageReceived {
		return messageKind, u.message(e.ID, data)
	}
	return receiptKind, u.receipt(e, data)
}

// message returns the parts of a message of a person.
func (u *user) message(event int64, data eventData) []*smpp.Message {
	if data.PhoneNumber == "" || data.Content == "" { // erased, or without text
		return nil
	}
	m := smpp.Message{Source: address(data.PhoneNumber), Dest: address(data.OwnNumber)}
	parts, err := u.s.style.Messages(m, data.Content, uint16(event)) // the low bits are enough
	if err != nil {
		u.s.options.Log.Warn("a received message is too long for SMPP", "event", event)
		return nil
	}
	return parts
}

// address returns the SMPP address of a number.
func address(number string) smpp.Address {
	const isdn = 1 // numbering plan (section 5.2.6)
	if digits, isE164 := strings.CutPrefix(number, "+"); isE164 {
		return smpp.Address{TON: smpp.International, NPI: isdn, Number: digits}
	}
	number = strings.ToValidUTF8(number[:min(len(number), 20)], "") // a name could be cut within a character
	switch {
	case number == "":
		return smpp.Address{}
	case characters.IsDigits(number):
		return smpp.Address{NPI: isdn, Number: number}
	default:
		return smpp.Address{TON: smpp.Name, Number: number}
	}
}

// These are the bits of registered_delivery (section 5.2.17).
const (
	registeredOutcome      = 0x03
	registeredAll          = 0x01
	registeredFailure      = 0x02
	registeredSuccess      = 0x03 // of SMPP 5.0
	registeredIntermediate = 0x10
)

// states contains the state that a receipt reports, for each type of event.
var states = map[string]smpp.State{
	feed.MessageSent: smpp.Accepted, feed.MessageFailed: smpp.Undeliverable, feed.MessageExpired: smpp.Expired, feed.MessageCancelled: smpp.Deleted,
	feed.MessageDelivered: smpp.Delivered, feed.MessageUndelivered: smpp.Undeliverable,
}

// receipt returns the receipt of an event, or nothing if the program did not request it. A message that was sent has no final receipt before its delivery is known.
func (u *user) receipt(e feed.Rendered, data eventData) []*smpp.Message {
	var of asked
	if err := json.Unmarshal(e.SMPP, &of); err != nil || of.Dest.Number == "" {
		return nil
	}
	var isWanted bool
	switch outcome := of.Registered & registeredOutcome; e.Type {
	case feed.MessageSent:
		isWanted = of.Registered&registeredIntermediate != 0
	case feed.MessageDelivered:
		isWanted = outcome == registeredAll || outcome == registeredSuccess
	default:
		isWanted = outcome == registeredAll || outcome == registeredFailure
	}
	if !isWanted {
		return nil
	}
	id := of.ID
	if id == "" {
		id = data.TaskID
	}
	r := smpp.Receipt{
		IDs: []string{id}, State: states[e.Type], HasState: true, Submitted: 1, SubmitDate: data.CreatedAt, DoneDate: e.Timestamp,
		IsIntermediate: e.Type == feed.MessageSent, Err: errorCode(data.DeliveryCode),
	}
	if r.State == smpp.Delivered {
		r.Delivered = 1
	}
	return []*smpp.Message{r.Message(smpp.Message{Source: of.Dest, Dest: of.Source}, time.UTC)}
}

// errorCode returns a code of a provider if it has the form of the field err: three digits at most.
func errorCode(code string) string {
	n, err := strconv.Atoi(code)
	if err != nil || n < 0 || n > 999 {
		return ""
	}
	return fmt.Sprintf("%03d", n)
}
