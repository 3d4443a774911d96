// Package delivery notifies the receivers of alerts: people by notifications, and programs through the API of Alertmanager.
package delivery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lksms/gen/alertq"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Notifier notifies the receivers of alerts.
type Notifier struct {
	db            *postgres.DB
	q             *alertq.Queries
	box           *secret.Box
	notifications *notification.Service
	contacts      *contact.Service
	settings      *setting.Service
	client        *managerClient
}

// NewNotifier returns a Notifier on db. Its calls to receivers obey policy.
func NewNotifier(
	db *postgres.DB, settings *setting.Service, box *secret.Box, notifications *notification.Service, contacts *contact.Service, policy outbound.Policy,
) *Notifier {
	return &Notifier{
		db: db, q: alertq.New(db), settings: settings, box: box, notifications: notifications, contacts: contacts, client: newManagerClient(policy),
	}
}

// Sweeps returns the periodic jobs of the service.
func (t *Notifier) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Watch}, Name: "notify-alerts", Interval: 5 * time.Second, Run: t.Notify},
	}
}

// notifyBatch is the maximum number of deliveries in one run.
const notifyBatch = 1000

// maxMessages is the maximum number of messages with warnings that people receive within five minutes.
const maxMessages = 3

// maxCalls is the maximum number of concurrent calls to receivers.
const maxCalls = 8

// Notify makes the due deliveries, including escalations. It returns the number of successful deliveries. No transaction is open while a receiver is called.
// Several servers can run Notify at the same time.
func (t *Notifier) Notify(ctx context.Context) (int, error) {
	if _, err := t.q.AlertDeliveriesOpen(ctx); err != nil {
		return 0, postgres.Wrap("open deliveries", err, nil)
	}
	err := t.escalate(ctx)
	if err != nil && (ctx.Err() != nil || postgres.IsUnavailable(err)) {
		return 0, err
	}
	sent, failed := t.notifyDue(ctx)
	return sent, errors.Join(err, failed)
}

// notifyDue makes the due deliveries and returns the number of successful deliveries.
func (t *Notifier) notifyDue(ctx context.Context) (int, error) {
	due, err := t.q.AlertDeliveriesDue(ctx, alertq.AlertDeliveriesDueParams{MaxMessages: maxMessages, BatchSize: notifyBatch})
	if err != nil {
		return 0, postgres.Wrap("find due deliveries", err, nil)
	}
	failing, err := t.q.AlertReceiversFailing(ctx)
	if err != nil {
		return 0, postgres.Wrap("find failing receivers", err, nil)
	}
	if len(due)+len(failing) == 0 {
		return 0, nil
	}
	run, err := t.newRun(ctx)
	if err != nil {
		return 0, err
	}
	calls := map[int64][]alertq.AlertDeliveriesDueRow{}
	for _, id := range failing {
		calls[id] = nil // if no delivery is due, an empty call checks whether the receiver accepts calls again
	}
	var people []alertq.AlertDeliveriesDueRow
	for _, d := range due {
		switch run.receivers[d.ReceiverID].Kind {
		case alert.ByAlertmanager:
			calls[d.ReceiverID] = append(calls[d.ReceiverID], d)
		case alert.ByNotification:
			people = append(people, d)
		}
	}
	// People are notified first, because this takes only milliseconds. A call to a program can hang.
	sent, failures := 0, run.guard(ctx, due)
	for _, together := range groupDeliveries(people) {
		n, err := run.notify(ctx, together)
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("alert %d: %w", together[0].Alert.ID, err))
		}
		sent += n
	}
	n, err := run.call(ctx, calls)
	return sent + n, errors.Join(failures, err)
}

// run contains the data that one run of Notify has read.
type run struct {
	*Notifier
	receivers map[int64]alertq.AlertReceiverListRow
	usable    []string           // channels that can send alerts
	reached   map[int64][]string // reachable channels by id of the receiver, see reach
}

func (t *Notifier) newRun(ctx context.Context) (*run, error) {
	r := &run{Notifier: t, receivers: map[int64]alertq.AlertReceiverListRow{}, reached: map[int64][]string{}}
	rows, err := t.q.AlertReceiverList(ctx, alertq.AlertReceiverListParams{BeforeID: math.MaxInt64, PageLimit: math.MaxInt32})
	if err != nil {
		return nil, postgres.Wrap("read receivers", err, nil)
	}
	for _, row := range rows {
		r.receivers[row.ID] = row
	}
	values, err := t.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	r.usable, err = t.q.AlertChannels(ctx, alertq.AlertChannelsParams{
		BizType: alert.BizType, SilentAfter: values.Queue.SilentAfter(), RecordedApart: sender.SeenApart,
	})
	return r, postgres.Wrap("read channels", err, nil)
}

// phaseOf returns the phase of the alert at the time of a delivery.
func phaseOf(d alertq.AlertDeliveriesDueRow) string {
	switch {
	case d.IsEnd:
		return resolved
	case d.WasNotified:
		return repeated
	default:
		return firing
	}
}

// maxSingles is the maximum number of due alerts that are sent in separate messages. If more alerts are due and groupDeliveries can group them, they share one
// message.
const maxSingles = 3

// groupDeliveries groups deliveries: each group becomes one message. Deliveries can share a message if they have the same receiver, phase and ownChannel,
// because they can then use the same channels. More than maxSingles such deliveries share one message. Alerts about waits are grouped separately, see
// renderingsOfWaits.
func groupDeliveries(due []alertq.AlertDeliveriesDueRow) (all [][]alertq.AlertDeliveriesDueRow) {
	type common struct {
		receiver     int64
		phase, own   string
		isAboutWaits bool
	}
	of := map[common][]alertq.AlertDeliveriesDueRow{}
	var order []common
	for _, d := range due {
		key := common{d.ReceiverID, phaseOf(d), ownChannel(d.Alert), slices.Contains(alert.WaitKinds, d.Alert.Kind)}
		if of[key] == nil {
			order = append(order, key)
		}
		of[key] = append(of[key], d)
	}
	for _, key := range order {
		if len(of[key]) > maxSingles {
			all = append(all, of[key])
		} else {
			all = slices.AppendSeq(all, slices.Chunk(of[key], 1))
		}
	}
	return all
}

// keptFor is the time for which a notification waits while its channel cannot send. After this time, the message would be useless.
const keptFor = 24 * time.Hour

// retrySeconds is the delay before the first retry of a failed notification. Each further failure doubles the delay.
const retrySeconds = 30

// notify notifies people of a bunch of alerts, and returns the number of delivered alerts. Each channel gets its own notification, so that a failed
// notification does not affect the others. The same transaction marks the deliveries.
//
// A firing alert counts as delivered when enough channels have accepted its notification: people must be reachable even if the alert concerns one of these
// channels. If not enough channels exist, one channel is enough. A retry does not use a channel that has already accepted the notification.
func (r *run) notify(ctx context.Context, due []alertq.AlertDeliveriesDueRow) (sent int, err error) {
	to, own := r.receivers[due[0].ReceiverID], ownChannel(due[0].Alert)
	channels, isSafe, err := r.channelsFor(ctx, own, to)
	if err != nil {
		return 0, err
	}
	err = r.db.Tx(ctx, func(ctx context.Context) error {
		due, err := r.hold(ctx, due)
		if err != nil || len(due) == 0 {
			return err
		}
		made, err := r.enqueue(ctx, to, due, channels, dedupKey(due))
		if err != nil {
			return err
		}
		isNotified := len(made.took) > 0
		if isSafe && !due[0].IsEnd {
			isNotified = areEnough(own, made.took)
		}
		if isNotified {
			sent = len(due)
		}
		return r.mark(ctx, to.ID, due, outcome{isNotified: isNotified, awaits: made.ids, failure: strings.Join(made.failures, "; "), retry: retrySeconds})
	})
	if err != nil {
		return 0, err
	}
	return sent, nil
}

// enqueued is the result of enqueue for one bunch of alerts.
type enqueued struct {
	ids            []int64  // ids of the created notifications; never nil
	took, failures []string // took: channels that accepted a notification; failures: errors of the other channels
}

// enqueue creates a notification of a bunch of alerts on each channel, in the caller's transaction.
func (r *run) enqueue(ctx context.Context, to alertq.AlertReceiverListRow, due []alertq.AlertDeliveriesDueRow, channels []string, key string) (enqueued, error) {
	all := enqueued{ids: []int64{}}
	at, err := r.q.Now(ctx)
	if err != nil {
		return all, postgres.Wrap("read time", err, nil)
	}
	for _, channel := range channels {
		err := r.db.Tx(ctx, func(ctx context.Context) error { // a savepoint: if a notification fails, it is rolled back and does not use up the dedup key
			o, err := r.notifications.Enqueue(ctx, &notification.Announcement{
				Payload: languageOf(to.Language).payload(due), UserIDs: to.UserIds,
			}, []notification.Notification{{
				BizType: alert.BizType, BizID: due[0].Alert.ID, Channel: channel, DedupKey: &key, ExpiresAt: new(at.Add(keptFor)),
			}}, submit.Origin{User: notification.Alerts, CompanyID: *to.CompanyID, RequestID: "alerts"})
			if err != nil {
				return err
			}
			made := o.Made[0]
			if !made.Deduplicated && made.Status == notification.Failed {
				return errors.New(reasonOf(made))
			}
			all.ids = append(all.ids, made.ID)
			return nil
		})
		switch {
		case err != nil && (ctx.Err() != nil || postgres.IsUnavailable(err)):
			return all, err
		case err != nil:
			all.failures = append(all.failures, channel+": "+err.Error())
		default:
			all.took = append(all.took, channel)
		}
	}
	return all, nil
}

// hold locks deliveries to one receiver until the end of the transaction. It returns those that no other server has made meanwhile.
func (t *Notifier) hold(ctx context.Context, due []alertq.AlertDeliveriesDueRow) ([]alertq.AlertDeliveriesDueRow, error) {
	p := alertq.AlertDeliveriesHoldParams{}
	for _, d := range due {
		p.ReceiverID = d.ReceiverID
		p.AlertIds = append(p.AlertIds, d.Alert.ID)
		p.Tries = append(p.Tries, d.Tries)
	}
	ids, err := t.q.AlertDeliveriesHold(ctx, p)
	if err != nil {
		return nil, postgres.Wrap("hold deliveries", err, nil)
	}
	return slices.DeleteFunc(slices.Clone(due), func(d alertq.AlertDeliveriesDueRow) bool { return !slices.Contains(ids, d.Alert.ID) }), nil
}

// dedupKey returns the dedup key of the message for a bunch of deliveries. A retry after a failure has the same key. A successful delivery changes the key.
func dedupKey(due []alertq.AlertDeliveriesDueRow) string {
	var sent strings.Builder
	for _, d := range due {
		fmt.Fprintf(&sent, "%d.%d ", d.Alert.ID, d.Tries-d.Failures)
	}
	return fmt.Sprintf("alerts:%s:%d:%x", phaseOf(due[0]), due[0].ReceiverID, sha256.Sum256([]byte(sent.String())))
}

// reasonOf returns the reason why a new notification has already failed.
func reasonOf(made notification.Made) string {
	if made.Remark != "" || len(made.Failed) == 0 {
		return made.Remark
	}
	return made.Failed[0].Reason
}

// outcome is the result of deliveries to one receiver.
type outcome struct {
	isNotified bool
	awaits     []int64 // ids of the notifications to people; nil: the receiver is a program
	failure    string
	retry      float64 // seconds until the retry after the first failure
}

// mark records the outcome of deliveries to a receiver.
func (t *Notifier) mark(ctx context.Context, receiver int64, all []alertq.AlertDeliveriesDueRow, o outcome) error {
	p := alertq.AlertDeliveriesMarkParams{
		ReceiverID: receiver, IsNotified: o.isNotified, Awaits: o.awaits, Error: optional.NonZero(alert.Shortened(o.failure, maxError)), RetrySeconds: o.retry,
	}
	for _, d := range all {
		p.AlertIds = append(p.AlertIds, d.Alert.ID)
		p.Tries = append(p.Tries, d.Tries)
		p.Ends = append(p.Ends, d.IsEnd)
	}
	return postgres.Wrap("mark deliveries", t.q.AlertDeliveriesMark(ctx, p), nil)
}

// maxError is the maximum length of a stored error, in characters.
const maxError = 500

// call calls receivers, up to maxCalls at the same time, and returns the number of successful deliveries.
func (r *run) call(ctx context.Context, calls map[int64][]alertq.AlertDeliveriesDueRow) (sent int, failures error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, maxCalls)
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			n, err := r.callOne(ctx, r.receivers[id], calls[id])
			mu.Lock()
			defer mu.Unlock()
			sent += n
			failures = errors.Join(failures, err)
		})
	}
	all.Wait()
	return sent, failures
}

// callOne calls one receiver, and returns the number of successful deliveries. It does nothing if another server is calling this receiver, or has already made
// all due deliveries. A rejected call is recorded, and is not returned as an error.
func (r *run) callOne(ctx context.Context, to alertq.AlertReceiverListRow, due []alertq.AlertDeliveriesDueRow) (int, error) {
	if to.Url == nil {
		return 0, nil // the receiver was deleted meanwhile
	}
	var claimed int64
	err := r.db.Tx(ctx, func(ctx context.Context) error {
		isProbe := len(due) == 0
		held, err := r.hold(ctx, due)
		if err != nil || len(held) == 0 && !isProbe {
			return err
		}
		due = held
		claimed, err = r.q.AlertReceiverClaim(ctx, to.ID)
		return postgres.Wrap("claim receiver", err, nil)
	})
	if err != nil || claimed == 0 {
		return 0, err
	}
	alerts := make([]managerAlert, len(due))
	for i, d := range due {
		alerts[i] = posted(d, languageOf(to.Language))
	}
	authorization := ""
	if to.SealedAuthorization != nil {
		authorization, err = r.box.Decrypt(*to.SealedAuthorization, alert.SecretOwner(to.ID))
	}
	if err == nil {
		err = r.client.post(ctx, *to.Url, authorization, alerts)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err() // the server is stopping, which is not a failure of the receiver
	}
	failure, n := "", len(due)
	if err != nil {
		failure, n = err.Error(), 0
	}
	if err := r.mark(ctx, to.ID, due, outcome{isNotified: err == nil, failure: failure}); err != nil {
		return 0, err
	}
	return n, postgres.Wrap("record call", r.q.AlertReceiverCalled(ctx, alertq.AlertReceiverCalledParams{
		ReceiverID: to.ID, Error: optional.NonZero(alert.Shortened(failure, maxError)),
	}), nil)
}

// posted returns an alert in the format of Alertmanager. The labels of an alert never change. A firing alert has no end: an Alertmanager with a slow clock
// would keep a future end, and ignore an earlier real end.
func posted(d alertq.AlertDeliveriesDueRow, language Language) managerAlert {
	a := d.Alert
	one := managerAlert{
		Labels: map[string]string{
			"alertname": "lksms_" + a.Kind, "severity": a.Level, "subject": a.Subject, "rule_no": strconv.FormatInt(a.RuleID, 10), "service": "lksms",
		},
		Annotations: map[string]string{"summary": language.Summary(a), "alert_id": strconv.FormatInt(a.ID, 10)},
		StartsAt:    a.StartedAt, EndsAt: optional.Value(a.ResolvedAt),
	}
	for name, value := range map[string]*string{alert.ByCompany: a.CompanyNo, alert.ByChannel: a.Channel, alert.BySender: a.SenderNo} {
		if value != nil {
			one.Labels[name] = *value
		}
	}
	if d.RuleName != "" {
		one.Annotations["rule"] = d.RuleName
	}
	return one
}
