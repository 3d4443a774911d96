package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oapi-codegen/nullable"

	api "lksms/gen/client"
)

// notices are clients that make the events that are not of a message or a batch: they create notifications and end some of them, and one app falls
// silent. Two alert rules watch that app and the depth of the queue; the first is switched off and on. The balance of one sender of the load runs
// low.
type notices struct {
	load            *load
	tenants         *tenants
	serial          atomic.Int64
	silence, filled int64 // the rules
	did             [noticeActs]atomic.Int64
}

type noticeAct int

const (
	createNotification noticeAct = iota
	endNotification
	switchRule
	noticeActs
)

var noticeActNames = [noticeActs]string{"notifications created", "notifications ended", "alert rules switched off and on"}

const (
	quiet      = "sender-quiet"  // polls seldom
	quietAfter = 1.0             // seconds after which it is silent
	bizType    = api.BizType(77) // of callers: the numbers to 5 have templates and rules
	people     = 3
)

func person(n int) string { return fmt.Sprint("soak-", n) }

// setUp creates the people of notifications, the app that falls silent, and the rules.
func (c *notices) setUp(ctx context.Context) error {
	client := c.load.clients[0]
	enabled := true
	template, err := client.PutNotificationTemplateWithResponse(ctx, bizType, "sms", api.NotificationTemplateRequest{
		Title: "soak", Content: "${text}", Enabled: &enabled,
	})
	if err := checkCreated("template", err, template); err != nil {
		return err
	}
	for _, company := range []string{"default", acme} {
		body := api.ContactsRequest{CompanyNo: &company}
		for n := range people {
			body.Contacts = append(body.Contacts, api.ContactChange{
				UserID: person(n), Phone: nullable.NewNullableWithValue(fmt.Sprintf("137%08d", n)),
			})
		}
		res, err := client.PutContactsWithResponse(ctx, body)
		if err := checkCreated("contacts", err, res); err != nil {
			return err
		}
	}
	if err := c.tenants.makeSender(ctx, api.SenderRequest{SenderNo: quiet, Name: quiet}); err != nil {
		return err
	}
	// With a route each of its polls is recorded at once.
	route, err := client.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: "default", MessageType: api.Marketing, SenderNo: quiet})
	if err := checkCreated("route", err, route); err != nil {
		return err
	}
	after, none, at, company, app := quietAfter, 0.0, int64(0), "default", quiet
	for _, rule := range []struct {
		id   *int64
		body api.AlertRuleRequest
	}{
		{&c.silence, api.AlertRuleRequest{Kind: api.AlertSenderSilent, Level: api.AlertWarning, Threshold: &after, SenderNo: &app}},
		{&c.filled, api.AlertRuleRequest{Kind: api.AlertQueueDepth, Level: api.AlertWarning, Threshold: &none, CompanyNo: &company}},
	} {
		rule.body.ForSeconds, rule.body.ResolveSeconds = &at, &at
		res, err := client.CreateAlertRuleWithResponse(ctx, nil, rule.body)
		if err := checkCreated("alert rule", err, res); err != nil {
			return err
		}
		*rule.id = res.JSON200.Data.RuleNo
	}
	return nil
}

// run makes notices until ctx ends.
func (c *notices) run(ctx context.Context, round int) {
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(c.load.seed, uint64(round)<<16|uint64(1<<14+1+n))) }
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			r := rng(i)
			for pause(ctx, time.Duration(r.IntN(500))*time.Millisecond) {
				c.notify(ctx, r)
			}
		})
	}
	all.Go(func() {
		r := rng(10)
		s := sender{load: c.load, rng: r, appID: quiet}
		for pause(ctx, time.Duration(3000+r.IntN(6000))*time.Millisecond) {
			if tasks := s.claim(); len(tasks) > 0 {
				s.sendAll(tasks)
			}
		}
	})
	all.Go(func() {
		r := rng(11)
		for pause(ctx, time.Duration(2000+r.IntN(5000))*time.Millisecond) {
			c.enable(c.load.any(r), false)
			if c.enable(c.load.any(r), true) {
				c.did[switchRule].Add(1)
			}
		}
	})
	all.Wait()
}

// notify creates a notification to some people, now and then for a moment later, and ends some before they are over.
func (c *notices) notify(ctx context.Context, rng *rand.Rand) {
	serial := c.serial.Add(1)
	text := fmt.Sprintf("soak-%d-notification-%d", c.load.seed, serial)
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
	var as []api.RequestEditorFn // the admin, for the default company
	if rng.IntN(3) == 0 {
		as = append(as, c.tenants.users[0].authorize)
	}
	c.load.history.submitted(text, unknown, "")
	res, err := c.load.any(rng).CreateNotificationsWithResponse(call(), nil, body, as...)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	o := outcomeOf(status, err)
	c.load.history.calls[o].Add(1)
	if o != answered {
		return
	}
	c.did[createNotification].Add(1)
	if rng.IntN(4) > 0 || !pause(ctx, time.Duration(rng.IntN(1000))*time.Millisecond) {
		return
	}
	// Only one that waits is ended: one that is over would be over in two ways, and be told twice.
	waits := []api.NotificationEndRequestExpectedStatuses{api.ExpectWaiting}
	end, err := c.load.any(rng).EndNotificationsWithResponse(call(), api.NotificationEndRequest{
		BizType: bizType, BizIds: []int64{serial}, Status: api.EndCancelled, ExpectedStatuses: &waits,
	}, as...)
	status = 0
	if err == nil {
		status = end.StatusCode()
	}
	o = outcomeOf(status, err)
	if c.load.history.calls[o].Add(1); o == answered {
		c.did[endNotification].Add(1)
	}
}

// enable switches the rule about the app that falls silent on or off, which ends its alerts.
func (c *notices) enable(client *api.ClientWithResponses, on bool) bool {
	res, err := client.UpdateAlertRuleWithResponse(call(), c.silence, api.AlertRulePatch{Enabled: &on})
	return err == nil && res.JSON200 != nil
}

// ran reports whether no notification waits for its time.
func (c *notices) ran(ctx context.Context, s *stack) bool {
	left := 1
	err := s.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM notifications WHERE next_run_at IS NOT NULL AND ended_as IS NULL").Scan(&left)
	})
	return err == nil && left == 0
}

// noticesLeft counts the rules whose next evaluation is awaited. With empty queue and no polls, the alert about the queue is over, and that about
// the app fires.
const noticesLeft = `
	(SELECT count(*) FROM alerts a WHERE a.rule_id = $1 AND a.resolved_at IS NULL)
	+ (1 - (SELECT count(*) FROM alerts a WHERE a.rule_id = $2 AND a.fired_at IS NOT NULL AND a.resolved_at IS NULL))`

// isRequeued reports whether a message of a notification n was requeued: then the notification may be over several times.
const isRequeued = `EXISTS (
		SELECT FROM renderings r JOIN messages m ON m.rendering_id = r.id JOIN requeues q ON q.task_id = m.task_id WHERE r.notification_id = n.id
	)`

// noticeInvariants hold when nothing runs and all events were moved to the feed. Alerts go on, so theirs read the events that are not moved yet, too.
// $3 is the time from which on somebody listened.
var noticeInvariants = []invariant{
	{"every notification that is over has exactly one event of its end, with its outcome", `
		SELECT 'notification ' || x.id || ' is ' || x.status || ' and has ' || x.told || ' events, ' || x.as_it_is || ' of them with its outcome'
		FROM (
			SELECT n.id, s.status, n.ended_as, count(f.id) AS told, count(f.id) FILTER (
				WHERE (f.company_id, f.submitted_by, (f.data ->> 'status')::int) = (n.company_id, n.submitted_by, s.status)
					AND (n.ended_as IS NOT NULL OR ((f.data #>> '{counts,people}')::int, (f.data #>> '{counts,success}')::int) = (s.people, s.succeeded))
			) AS as_it_is, ` + isRequeued + ` AS is_requeued
			FROM notifications n
				JOIN notification_standings s ON s.notification_id = n.id
				LEFT JOIN feed f ON f.type = 'notification.finished' AND (f.data ->> 'notification_id')::bigint = n.id
			GROUP BY n.id, n.ended_as, s.status, s.people, s.succeeded
		) x
		-- The last message of one that is being ended may end meanwhile: then it is over twice. So is one with a message that is requeued.
		WHERE CASE WHEN x.is_requeued THEN x.status <> 0 AND x.as_it_is = 0
			ELSE x.as_it_is <> (x.status <> 0)::int OR x.ended_as IS NULL AND x.told > 1 END
		UNION ALL
		SELECT 'event ' || f.id || ' of no notification' FROM feed f
			LEFT JOIN notifications n ON n.id = (f.data ->> 'notification_id')::bigint
		WHERE f.type = 'notification.finished' AND n.id IS NULL`},
	{"the end of a notification is in the feed behind the ends of its messages", `
		SELECT 'notification ' || n.id || ', event ' || f.id || ' before ' || max(e.id) FROM notifications n
			JOIN feed f ON f.type = 'notification.finished' AND (f.data ->> 'notification_id')::bigint = n.id
			JOIN renderings r ON r.notification_id = n.id
			JOIN messages m ON m.rendering_id = r.id
			JOIN feed e ON e.task_id = m.task_id AND e.type IN ('message.sent', 'message.failed', 'message.expired', 'message.cancelled')
		WHERE n.ended_as IS NULL AND NOT ` + isRequeued + `
		GROUP BY n.id, f.id HAVING max(e.id) > f.id`},
	{"every alert that fired has one event of its start, and one of its end if it is over, in this order", `
		SELECT 'alert ' || coalesce(a.id, t.id) || coalesce(' that was ended by ' || a.ended_by, '') || ' has ' || coalesce(t.types, 'no events')
		FROM (SELECT * FROM alerts WHERE fired_at > $3) a FULL JOIN (` + toldOfAlerts + `) t USING (id)
		WHERE a.id IS NULL OR t.types IS DISTINCT FROM 'alert.firing' || CASE WHEN a.resolved_at IS NULL THEN '' ELSE ', alert.resolved' END`},
	{"a sender is told to be silent once by each alert about it, and to be back only if a poll has ended it", `
		SELECT 'alert ' || coalesce(a.id, t.id) || coalesce(' that was ended by ' || a.ended_by, '') || ' has ' || coalesce(t.types, 'no events')
		FROM (SELECT * FROM alerts WHERE fired_at > $3 AND kind = 'sender_silent') a FULL JOIN (` + toldOfSenders + `) t USING (id)
		WHERE a.id IS NULL OR coalesce(t.types, '') NOT IN (
			'sender.silent', CASE WHEN a.ended_by = 'condition' THEN 'sender.silent, sender.recovered' ELSE '' END
		)`},
	{"each fall of a balance to a mark is told once", `
		SELECT sender_no || ' fell to its ' || mark || ' ' || coalesce(b.falls, 0) || ' times, and has ' || coalesce(t.told, 0) || ' events'
		FROM (
			SELECT s.sender_no, k.mark, count(*) AS falls
			FROM (SELECT *, lag(balance) OVER (PARTITION BY sender_id ORDER BY id) AS before FROM sender_ledger) l
				JOIN senders s ON s.id = l.sender_id
				CROSS JOIN LATERAL (VALUES ('low_warning', s.low_warning), ('low_switch', s.low_switch)) AS k (mark, level)
			WHERE l.before > k.level AND l.balance <= k.level
			GROUP BY s.sender_no, k.mark
		) b
			FULL JOIN (
				SELECT data ->> 'sender_no' AS sender_no, data ->> 'mark' AS mark, count(*) AS told FROM feed WHERE type = 'sender.low_balance' GROUP BY 1, 2
			) t USING (sender_no, mark)
		WHERE b.falls IS DISTINCT FROM t.told`},
}

// toldOfAlerts and toldOfSenders return the types of the events of each alert, in the order in which they are told.
const (
	toldOfAlerts  = toldOf + "x.type LIKE 'alert.%' GROUP BY 1"
	toldOfSenders = toldOf + "x.type IN ('sender.silent', 'sender.recovered') GROUP BY 1"
	toldOf        = `
		SELECT (x.data ->> 'alert_id')::bigint AS id, string_agg(x.type, ', ' ORDER BY x.is_staged, x.place) AS types
		FROM (
			SELECT type, data, false AS is_staged, id AS place FROM feed
			UNION ALL
			SELECT type, data, true, id FROM feed_staged
		) x
		WHERE `
)
