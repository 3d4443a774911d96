package events

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// notices are clients that cause the events that do not belong to a message or batch. They create notifications and end some of them. One app polls so rarely
// that it counts as silent. Two alert rules watch that app and the queue depth. The first rule is switched off and on. The balance of one sender of the load
// falls below its thresholds.
type notices struct {
	load            *load.Load
	tenants         *load.Tenants
	serial          atomic.Int64
	silence, filled int64 // ids of the rules
	Did             [noticeActs]atomic.Int64
}

type noticeAct int

const (
	createNotification noticeAct = iota
	endNotification
	switchRule
	noticeActs
)

// NoticeActNames describe the acts of the clients of notifications and alerts.
var NoticeActNames = [noticeActs]string{"notifications created", "notifications ended", "alert rules switched off and on"}

const (
	quietAfter = 1.0             // seconds without a poll until the app is silent
	bizType    = api.BizType(77) // a business type that only this test uses: types up to 5 have templates and rules
	people     = 3
)

func person(n int) string { return fmt.Sprint("soak-", n) }

// setUp creates the recipients of the notifications, the app that becomes silent, and the alert rules.
func (c *notices) setUp(ctx context.Context) error {
	client := c.load.Clients[0]
	enabled := true
	template, err := client.PutNotificationTemplateWithResponse(ctx, bizType, "sms", nil, api.NotificationTemplateRequest{
		Title: "soak", Content: "${text}", Enabled: &enabled,
	})
	if err := load.CheckCreated("template", err, template); err != nil {
		return err
	}
	for _, company := range []string{"default", load.Acme} {
		body := api.ContactsRequest{CompanyNo: &company}
		for n := range people {
			body.Contacts = append(body.Contacts, api.ContactChange{
				UserID: person(n), Phone: nullable.NewNullableWithValue(fmt.Sprintf("137%08d", n)),
			})
		}
		res, err := client.PutContactsWithResponse(ctx, body)
		if err := load.CheckCreated("contacts", err, res); err != nil {
			return err
		}
	}
	if err := c.tenants.MakeSender(ctx, api.SenderRequest{SenderNo: load.Quiet, Name: load.Quiet}); err != nil {
		return err
	}
	// If the app has a route, the server stores each of its polls immediately.
	route, err := client.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: "default", MessageType: api.Marketing, SenderNo: load.Quiet})
	if err := load.CheckCreated("route", err, route); err != nil {
		return err
	}
	after, none, at, company, app := quietAfter, 0.0, int64(0), "default", load.Quiet
	for _, rule := range []struct {
		id   *int64
		body api.AlertRuleRequest
	}{
		{&c.silence, api.AlertRuleRequest{Kind: api.AlertSenderSilent, Level: api.AlertWarning, Threshold: &after, SenderNo: &app}},
		{&c.filled, api.AlertRuleRequest{Kind: api.AlertQueueDepth, Level: api.AlertWarning, Threshold: &none, CompanyNo: &company}},
	} {
		rule.body.ForSeconds, rule.body.ResolveSeconds = &at, &at
		res, err := client.CreateAlertRuleWithResponse(ctx, nil, rule.body)
		if err := load.CheckCreated("alert rule", err, res); err != nil {
			return err
		}
		*rule.id = res.JSON200.Data.RuleNo
	}
	return nil
}

// run causes notifications and alerts until ctx ends.
func (c *notices) run(ctx context.Context, round int) {
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(c.load.Seed, uint64(round)<<16|uint64(1<<14+1+n))) }
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			r := rng(i)
			for stack.Pause(ctx, time.Duration(r.IntN(500))*time.Millisecond) {
				c.notify(ctx, r)
			}
		})
	}
	all.Go(func() {
		r := rng(10)
		s := load.Sender{Load: c.load, Rng: r, AppID: load.Quiet}
		for stack.Pause(ctx, time.Duration(3000+r.IntN(6000))*time.Millisecond) {
			if tasks := s.Claim(); len(tasks) > 0 {
				s.SendAll(tasks)
			}
		}
	})
	all.Go(func() {
		r := rng(11)
		for stack.Pause(ctx, time.Duration(2000+r.IntN(5000))*time.Millisecond) {
			c.enable(c.load.Any(r), false)
			if c.enable(c.load.Any(r), true) {
				c.Did[switchRule].Add(1)
			}
		}
	})
	all.Wait()
}

// notify creates a notification to some people, sometimes with a later start, and ends some of the notifications early.
func (c *notices) notify(ctx context.Context, rng *rand.Rand) {
	serial := c.serial.Add(1)
	text := fmt.Sprintf("soak-%d-notification-%d", c.load.Seed, serial)
	body := api.NotificationRequest{BizType: bizType, BizID: serial, Channels: api.ChannelList{"sms"}, Payload: api.Payload{"text": text}}
	var users api.UserIDs
	for n := range 1 + rng.IntN(people) {
		users = append(users, person(n))
	}
	body.UserIds = &users
	if rng.IntN(3) == 0 {
		at := time.Now().Add(time.Duration(rng.IntN(1500)) * time.Millisecond)
		body.NextRunTime = &at
	}
	var as []api.RequestEditorFn // empty: the admin, for the default company
	if rng.IntN(3) == 0 {
		as = append(as, c.tenants.Users[0].Authorize)
	}
	c.load.History.Submitted(text, load.Unknown, "")
	res, err := c.load.Any(rng).CreateNotificationsWithResponse(load.CallContext(), nil, body, as...)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	o := load.OutcomeOf(status, err)
	c.load.History.Calls[o].Add(1)
	if o != load.Answered {
		return
	}
	c.Did[createNotification].Add(1)
	if rng.IntN(4) > 0 || !stack.Pause(ctx, time.Duration(rng.IntN(1000))*time.Millisecond) {
		return
	}
	// This request ends only notifications that still wait. Otherwise a notification that has already ended would end a second time, and have two events.
	waits := []api.NotificationEndRequestExpectedStatuses{api.ExpectWaiting}
	end, err := c.load.Any(rng).EndNotificationsWithResponse(load.CallContext(), api.NotificationEndRequest{
		BizType: bizType, BizIds: []int64{serial}, Status: api.EndCancelled, ExpectedStatuses: &waits,
	}, as...)
	status = 0
	if err == nil {
		status = end.StatusCode()
	}
	o = load.OutcomeOf(status, err)
	if c.load.History.Calls[o].Add(1); o == load.Answered {
		c.Did[endNotification].Add(1)
	}
}

// enable switches the rule about the silent app on or off. Switching the rule off ends its alerts.
func (c *notices) enable(client *api.ClientWithResponses, on bool) bool {
	res, err := client.UpdateAlertRuleWithResponse(load.CallContext(), c.silence, api.AlertRulePatch{Enabled: &on})
	return err == nil && res.JSON200 != nil
}

// noticesLeft counts the rules that must still be evaluated. With an empty queue and no polls, the alert about the queue ends, and the alert about the silent
// app fires.
const noticesLeft = `
	(SELECT count(*) FROM alerts a WHERE a.rule_id = $1 AND a.resolved_at IS NULL)
	+ (1 - (SELECT count(*) FROM alerts a WHERE a.rule_id = $2 AND a.fired_at IS NOT NULL AND a.resolved_at IS NULL))`

// eventsOfNotifications returns the events notification.finished, with facts from the other tables.
//
// is_own: the end of the last message, and not a person, ended the notification; NULL: the notification does not exist. is_again: since the previous event, a
// message ended again after a requeue, and the message had already ended before the previous event. is_behind: every message ended before this event. is_first
// and is_last: position among the events of the notification.
const eventsOfNotifications = `
	WITH message_ends AS MATERIALIZED (
		SELECT r.notification_id, f.id, f.task_id, x.life
		FROM feed f
			JOIN ends x ON x.task_id = f.task_id AND x.id = f.log_id
			JOIN messages m ON m.task_id = f.task_id
			JOIN renderings r ON r.id = m.rendering_id
		WHERE f.type IN ('message.sent', 'message.failed', 'message.expired', 'message.cancelled') AND r.notification_id IS NOT NULL
	),
	finished AS (
		SELECT f.*, lag(f.id) OVER w AS before_id, lead(f.id) OVER w IS NULL AS is_last
		FROM (SELECT *, (data ->> 'notification_id')::bigint AS notification_id FROM feed WHERE type = 'notification.finished') f
		WINDOW w AS (PARTITION BY f.notification_id ORDER BY f.id)
	)
	SELECT t.id, t.notification_id, t.is_last, t.before_id IS NULL AS is_first,
		CASE WHEN n.id IS NOT NULL THEN n.ended_as IS NULL OR NOT t.is_last END AS is_own,
		(t.company_id, t.submitted_by, (t.data ->> 'status')::int) = (n.company_id, n.submitted_by, s.status)
			AND (n.ended_as IS NOT NULL OR ((t.data #>> '{counts,people}')::int, (t.data #>> '{counts,success}')::int) = (s.people, s.succeeded)) AS is_as_it_is,
		(t.data #>> '{counts,people}')::int
			= (t.data #>> '{counts,success}')::int + (t.data #>> '{counts,failed}')::int + (t.data #>> '{counts,cancelled}')::int AS is_whole,
		EXISTS (
			SELECT FROM message_ends e JOIN message_ends o USING (notification_id, task_id)
			WHERE e.notification_id = t.notification_id AND e.id BETWEEN t.before_id AND t.id AND o.life < e.life AND o.id < t.before_id
		) AS is_again,
		NOT EXISTS (
			SELECT FROM renderings r JOIN messages m ON m.rendering_id = r.id
			WHERE r.notification_id = t.notification_id
				AND NOT EXISTS (SELECT FROM message_ends e WHERE e.task_id = m.task_id AND e.id < t.id)
		) AS is_behind,
		EXISTS (SELECT FROM message_ends e WHERE e.notification_id = t.notification_id AND e.id > t.id) AS is_before_another
	FROM finished t
		LEFT JOIN notifications n ON n.id = t.notification_id
		LEFT JOIN notification_standings s ON s.notification_id = n.id`

// noticeInvariants must hold when no client runs and all events were moved to the feed. Alerts still change, so the invariants of alerts also read staged
// events. $3 is the time of the first listener.
var noticeInvariants = []check.Invariant{
	{Name: "every ended notification has one event with its outcome, and one more each time a requeued message ended it again", SQL: `
		WITH t AS MATERIALIZED (` + eventsOfNotifications + `)
		SELECT 'notification ' || s.notification_id || ' is ' || s.status || ' and has ' || CASE WHEN t.id IS NULL THEN 'no event' ELSE 'last event ' || t.id END
		FROM notification_standings s LEFT JOIN t ON t.notification_id = s.notification_id AND t.is_last
		WHERE CASE WHEN s.status = 0 THEN t.id IS NOT NULL ELSE t.is_as_it_is IS NOT TRUE END
		UNION ALL
		SELECT 'event ' || t.id || ' of notification ' || t.notification_id || ' is one too many' FROM t WHERE t.is_own AND NOT t.is_first AND NOT t.is_again
		UNION ALL
		SELECT 'event ' || t.id || ' of notification ' || t.notification_id || ' counts too few people' FROM t WHERE t.is_own AND t.is_whole IS NOT TRUE
		UNION ALL
		SELECT 'event ' || t.id || ' of no notification' FROM t WHERE t.is_own IS NULL`},
	{Name: "in the feed, the end of a notification follows the ends of its messages", SQL: `
		SELECT 'notification ' || t.notification_id || ', event ' || t.id FROM (` + eventsOfNotifications + `) t
		WHERE t.is_own AND (NOT t.is_behind OR t.is_last AND t.is_before_another)`},
	{Name: "every fired alert has one event of its start and, once resolved, one of its end, in this order", SQL: `
		SELECT 'alert ' || coalesce(a.id, t.id) || coalesce(' that was ended by ' || a.ended_by, '') || ' has ' || coalesce(t.types, 'no events')
		FROM (SELECT * FROM alerts WHERE fired_at > $3) a FULL JOIN (` + eventsOfAlerts + `) t USING (id)
		WHERE a.id IS NULL OR t.types IS DISTINCT FROM 'alert.firing' || CASE WHEN a.resolved_at IS NULL THEN '' ELSE ', alert.resolved' END`},
	{Name: "each alert about a silent sender has one event sender.silent, and sender.recovered only if a poll ended the alert", SQL: `
		SELECT 'alert ' || coalesce(a.id, t.id) || coalesce(' that was ended by ' || a.ended_by, '') || ' has ' || coalesce(t.types, 'no events')
		FROM (SELECT * FROM alerts WHERE fired_at > $3 AND kind = 'sender_silent') a FULL JOIN (` + eventsOfSenders + `) t USING (id)
		WHERE a.id IS NULL OR coalesce(t.types, '') NOT IN (
			'sender.silent', CASE WHEN a.ended_by = 'condition' THEN 'sender.silent, sender.recovered' ELSE '' END
		)`},
	{Name: "each fall of a balance to a threshold has one event", SQL: `
		SELECT sender_no || ' fell to its ' || mark || ' ' || coalesce(b.falls, 0) || ' times, and has ' || coalesce(t.events, 0) || ' events'
		FROM (
			SELECT s.sender_no, k.mark, count(*) AS falls
			FROM (SELECT *, lag(balance) OVER (PARTITION BY sender_id ORDER BY id) AS before FROM sender_ledger) l
				JOIN senders s ON s.id = l.sender_id
				CROSS JOIN LATERAL (VALUES ('low_warning', s.low_warning), ('low_switch', s.low_switch)) AS k (mark, level)
			WHERE l.before > k.level AND l.balance <= k.level
			GROUP BY s.sender_no, k.mark
		) b
			FULL JOIN (
				SELECT data ->> 'sender_no' AS sender_no, data ->> 'mark' AS mark, count(*) AS events FROM feed WHERE type = 'sender.low_balance' GROUP BY 1, 2
			) t USING (sender_no, mark)
		WHERE b.falls IS DISTINCT FROM t.events`},
}

// eventsOfAlerts and eventsOfSenders return the event types of each alert, in the order of publication.
const (
	eventsOfAlerts  = eventsOf + "x.type LIKE 'alert.%' GROUP BY 1"
	eventsOfSenders = eventsOf + "x.type IN ('sender.silent', 'sender.recovered') GROUP BY 1"
	eventsOf        = `
		SELECT (x.data ->> 'alert_id')::bigint AS id, string_agg(x.type, ', ' ORDER BY x.is_staged, x.place) AS types
		FROM (
			SELECT type, data, false AS is_staged, id AS place FROM feed
			UNION ALL
			SELECT type, data, true, id FROM feed_staged
		) x
		WHERE `
)
