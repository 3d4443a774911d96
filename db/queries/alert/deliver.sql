-- Statements on deliveries of alerts to receivers.

-- AlertDeliveriesOpen creates one delivery of each firing alert for each receiver of its rule. It creates no deliveries while the rule is silenced.
-- name: AlertDeliveriesOpen :execrows
INSERT INTO alert_deliveries (alert_id, receiver_id)
SELECT a.id, r.id
FROM alerts a
JOIN alert_rules u ON u.id = a.rule_id
JOIN alert_receivers r ON u.receivers IS NULL OR r.id = ANY (u.receivers)
WHERE a.resolved_at IS NULL AND a.fired_at IS NOT NULL AND coalesce(u.silenced_until <= now(), true)
    AND NOT EXISTS (SELECT FROM alert_deliveries d WHERE d.alert_id = a.id AND d.receiver_id = r.id)
ORDER BY a.id, r.id
ON CONFLICT DO NOTHING;

-- AlertDeliveriesDue returns up to batch_size deliveries that are due now, the most severe alerts first.
--
-- If is_end is false, the message says that the alert fires. The message is sent once, and then repeated every repeat_seconds. It is not repeated while the
-- alert is acknowledged or the rule is silenced. An alertmanager receives the message every minute in any case, because an alertmanager resolves an alert that
-- is not sent again.
--
-- If is_end is true, the message says that the alert is resolved. The message is due for one day, for each receiver that was notified of the firing alert.
--
-- Receivers of the kind notification are people. People are not notified of an alert while they are notified of a more severe alert of the same kind and
-- subject. People are not notified of warnings if they received max_messages messages within the last five minutes. Deliveries with the same time belong to one
-- message.
-- name: AlertDeliveriesDue :many
WITH outranked AS MATERIALIZED (
    SELECT a.id AS alert_id, e.receiver_id
    FROM alerts a
    JOIN alerts h ON h.kind = a.kind AND h.subject = a.subject AND alert_rank(h.level) > alert_rank(a.level) AND h.resolved_at IS NULL
    JOIN alert_deliveries e ON e.alert_id = h.id
    JOIN alert_rules w ON w.id = h.rule_id
    WHERE a.resolved_at IS NULL
        AND (e.told_at IS NOT NULL OR (coalesce(w.silenced_until <= now(), true) AND coalesce(e.receiver_id = ANY (w.receivers), true)))
),
crowded AS MATERIALIZED (
    SELECT e.receiver_id
    FROM alerts o
    JOIN alert_deliveries e ON e.alert_id = o.id
    CROSS JOIN LATERAL (VALUES (e.told_at), (e.end_told_at)) AS m (at)
    WHERE (o.resolved_at IS NULL OR o.resolved_at > now() - interval '1 day')
        AND m.at > now() - interval '5 minutes' AND m.at < now() + interval '1 minute'
    GROUP BY e.receiver_id
    HAVING count(DISTINCT m.at) >= @max_messages::bigint
)
SELECT sqlc.embed(a), d.receiver_id, d.tries, d.failures, (a.resolved_at IS NOT NULL)::boolean AS is_end, (d.told_at IS NOT NULL)::boolean AS was_notified,
    coalesce(u.name, '')::text AS rule_name
FROM alert_deliveries d
JOIN alerts a ON a.id = d.alert_id
JOIN alert_receivers r ON r.id = d.receiver_id
LEFT JOIN alert_receiver_states t ON t.receiver_id = r.id
LEFT JOIN alert_rules u ON u.id = a.rule_id
CROSS JOIN alert_rank(a.level) AS l (rank)
WHERE (a.resolved_at IS NULL OR a.resolved_at > now() - interval '1 day')
    AND is_due(d.next_at, interval '1 hour') AND d.end_told_at IS NULL AND coalesce(is_due(t.next_call_at, interval '2 minutes'), true)
    AND CASE
        WHEN r.kind = 'notification' AND a.level = 'warning' AND EXISTS (SELECT FROM crowded c WHERE c.receiver_id = r.id) THEN false
        WHEN a.resolved_at IS NOT NULL THEN d.told_at IS NOT NULL
        WHEN u.receivers IS NOT NULL AND NOT r.id = ANY (u.receivers) AND d.escalated_from IS NULL THEN false
        WHEN r.kind = 'alertmanager' AND d.told_at IS NOT NULL THEN is_due(d.told_at + interval '55 seconds', interval '55 seconds')
        WHEN u.silenced_until > now() THEN false
        WHEN r.kind = 'notification' AND EXISTS (SELECT FROM outranked k WHERE k.alert_id = a.id AND k.receiver_id = r.id) THEN false
        WHEN d.told_at IS NULL THEN r.kind = 'alertmanager' OR a.acknowledged_at IS NULL
        ELSE a.acknowledged_at IS NULL AND u.repeat_seconds > 0 AND is_due(
            d.told_at + make_interval(secs => u.repeat_seconds::double precision), make_interval(secs => u.repeat_seconds::double precision)
        )
    END
ORDER BY l.rank DESC, a.id, d.receiver_id
LIMIT @batch_size::integer;

-- AlertDeliveriesHold locks deliveries of a receiver, and returns their alerts. If another server has delivered an alert meanwhile, the alert is not returned.
-- name: AlertDeliveriesHold :many
SELECT d.alert_id
FROM (SELECT unnest(@alert_ids::bigint[]) AS alert_id, unnest(@tries::bigint[]) AS tries) x
JOIN alert_deliveries d ON d.alert_id = x.alert_id AND d.receiver_id = @receiver_id AND d.tries = x.tries
ORDER BY d.alert_id
FOR UPDATE OF d;

-- AlertDeliveriesMark records the result of an attempt to notify a receiver of alerts. After a failure, a delivery is tried again after retry_seconds. Each
-- further failure doubles this time, up to an hour. awaits: the notifications that were created for the delivery. awaits null: the receiver is a program, and
-- has accepted the alerts. The first attempt sets the time at which the delivery escalates. A delivery that was created by an escalation does not escalate.
-- name: AlertDeliveriesMark :exec
UPDATE alert_deliveries d
SET awaits = CASE WHEN x.is_end THEN d.awaits ELSE sqlc.narg(awaits)::bigint[] END,
    end_awaits = CASE WHEN x.is_end THEN sqlc.narg(awaits)::bigint[] ELSE d.end_awaits END,
    escalate_at = CASE
        WHEN x.is_end OR (sqlc.narg(awaits)::bigint[] IS NULL AND @is_notified::boolean) THEN NULL
        WHEN d.tries = 0 AND d.escalated_from IS NULL AND r.escalate_seconds > 0 THEN now() + make_interval(secs => r.escalate_seconds::double precision)
        ELSE d.escalate_at
    END,
    told_at = CASE WHEN @is_notified::boolean AND NOT x.is_end THEN now() ELSE d.told_at END,
    end_told_at = CASE WHEN @is_notified::boolean AND x.is_end THEN now() END,
    tries = d.tries + 1, failures = CASE WHEN @is_notified::boolean THEN 0 ELSE d.failures + 1 END, error = sqlc.narg(error),
    next_at = CASE WHEN @is_notified::boolean THEN now()
        ELSE now() + make_interval(secs => least(3600, sqlc.arg(retry_seconds)::double precision * power(2, least(d.failures, 20)))) END
FROM (
    SELECT unnest(@alert_ids::bigint[]) AS alert_id, unnest(@tries::bigint[]) AS tries, unnest(@ends::boolean[]) AS is_end
) x
CROSS JOIN alert_receivers r
WHERE d.alert_id = x.alert_id AND d.receiver_id = @receiver_id AND d.tries = x.tries AND r.id = d.receiver_id;

-- AlertsAwaited returns the alerts with a delivery whose message can still be sent. 49 hours: the message about the end of an alert is created within a day,
-- and expires within another day (keptFor).
-- name: AlertsAwaited :many
SELECT DISTINCT a.id
FROM alerts a
JOIN alert_deliveries d ON d.alert_id = a.id
WHERE (a.resolved_at IS NULL OR a.resolved_at > now() - interval '49 hours') AND (d.awaits <> '{}' OR d.end_awaits <> '{}')
ORDER BY a.id;

-- AlertDeliveriesSent records when the first message of the deliveries of alerts was sent. A delivery no longer waits for its messages if a message was sent,
-- or if no message can be sent any more.
-- name: AlertDeliveriesSent :exec
WITH outcomes AS MATERIALIZED (
    SELECT w.id, o.sent_at, o.is_open
    FROM (
        SELECT DISTINCT unnest(d.awaits || d.end_awaits) AS id FROM alert_deliveries d WHERE d.alert_id = ANY (@alert_ids::bigint[])
    ) w
    CROSS JOIN LATERAL (
        SELECT min(t.reported_at) FILTER (WHERE t.status = 2) AS sent_at, coalesce(bool_or(t.status IN (0, 1)), false) AS is_open -- 2 SUCCESS; 0 PENDING, 1 PROCESSING
        FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = w.id
    ) o
)
UPDATE alert_deliveries d
SET sent_at = coalesce(begins.sent_at, d.sent_at),
    awaits = CASE WHEN begins.sent_at IS NULL AND begins.is_open THEN d.awaits ELSE d.awaits[:0] END,
    escalate_at = CASE WHEN begins.sent_at IS NULL THEN d.escalate_at END,
    end_sent_at = coalesce(ends.sent_at, d.end_sent_at),
    end_awaits = CASE WHEN ends.sent_at IS NULL AND ends.is_open THEN d.end_awaits ELSE d.end_awaits[:0] END
FROM alert_deliveries w
CROSS JOIN LATERAL (
    SELECT min(o.sent_at) AS sent_at, coalesce(bool_or(o.is_open), false) AS is_open FROM outcomes o WHERE o.id = ANY (w.awaits)
) begins
CROSS JOIN LATERAL (
    SELECT min(o.sent_at) AS sent_at, coalesce(bool_or(o.is_open), false) AS is_open FROM outcomes o WHERE o.id = ANY (w.end_awaits)
) ends
WHERE w.alert_id = ANY (@alert_ids::bigint[]) AND d.alert_id = w.alert_id AND d.receiver_id = w.receiver_id
    AND d.awaits IS NOT DISTINCT FROM w.awaits AND d.end_awaits IS NOT DISTINCT FROM w.end_awaits -- false if another server has notified the receiver meanwhile
    AND (d.awaits <> '{}' OR d.end_awaits <> '{}');

-- AlertDeliveriesUnsent returns up to batch_size deliveries that escalate now, the most severe alerts first. A delivery escalates if no message was sent in
-- time, or if no message can be sent any more. An alert does not escalate if the alert is acknowledged or its rule is silenced.
-- name: AlertDeliveriesUnsent :many
SELECT sqlc.embed(a), d.receiver_id, d.tries, d.failures, d.escalate_at::timestamptz AS escalate_at, (d.escalated_at IS NOT NULL)::boolean AS was_escalated,
    coalesce(u.name, '')::text AS rule_name
FROM alerts a
JOIN alert_rules u ON u.id = a.rule_id
JOIN alert_deliveries d ON d.alert_id = a.id
JOIN alert_receivers r ON r.id = d.receiver_id
CROSS JOIN alert_rank(a.level) AS l (rank)
WHERE a.resolved_at IS NULL AND a.fired_at IS NOT NULL AND a.acknowledged_at IS NULL AND coalesce(u.silenced_until <= now(), true)
    AND coalesce(r.id = ANY (u.receivers), true)
    AND (is_due(d.escalate_at, make_interval(secs => r.escalate_seconds::double precision)) OR (d.escalate_at IS NOT NULL AND d.awaits = '{}'))
ORDER BY l.rank DESC, a.id, d.receiver_id
LIMIT @batch_size::integer;

-- AlertDeliveriesHoldUnsent locks the escalating deliveries of a receiver, and returns their alerts. An alert is not returned if its delivery was sent
-- meanwhile, or has escalated on another server.
-- name: AlertDeliveriesHoldUnsent :many
SELECT d.alert_id
FROM (SELECT unnest(@alert_ids::bigint[]) AS alert_id, unnest(@escalate_ats::timestamptz[]) AS escalate_at) x
JOIN alert_deliveries d ON d.alert_id = x.alert_id AND d.receiver_id = @receiver_id AND d.escalate_at = x.escalate_at
ORDER BY d.alert_id
FOR UPDATE OF d;

-- AlertDeliveriesEscalate records that deliveries of a receiver escalated to further channels. awaits: the notifications on these channels. The next escalation
-- follows after the escalate_seconds of the receiver. If is_last is true, no further escalation follows, and the statement creates deliveries for all receivers
-- that have no delivery of the alerts. The created deliveries do not escalate.
-- name: AlertDeliveriesEscalate :exec
WITH escalated AS (
    UPDATE alert_deliveries d
    SET awaits = d.awaits || @awaits::bigint[], escalated_at = coalesce(d.escalated_at, now()),
        escalate_at = CASE WHEN NOT @is_last::boolean THEN now() + make_interval(secs => r.escalate_seconds::double precision) END
    FROM alert_receivers r
    WHERE d.alert_id = ANY (@alert_ids::bigint[]) AND d.receiver_id = @receiver_id AND r.id = d.receiver_id
    RETURNING d.alert_id, d.receiver_id
),
added AS (
    INSERT INTO alert_deliveries (alert_id, receiver_id, escalated_from)
    SELECT e.alert_id, r.id, e.receiver_id
    FROM escalated e
    CROSS JOIN alert_receivers r
    WHERE @is_last::boolean AND NOT EXISTS (SELECT FROM alert_deliveries k WHERE k.alert_id = e.alert_id AND k.receiver_id = r.id)
    ORDER BY e.alert_id, r.id
    ON CONFLICT DO NOTHING
    RETURNING alert_id, receiver_id
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.not_sent', a.subject, jsonb_build_object(
    'alert_id', a.id, 'rule_no', a.rule_id, 'kind', a.kind, 'level', a.level, 'receiver_no', e.receiver_id, 'escalated_channels', coalesce(@channels::text[], '{}'),
    'escalated_receivers', ARRAY(SELECT n.receiver_id FROM added n WHERE n.alert_id = e.alert_id ORDER BY n.receiver_id)
)
FROM escalated e
JOIN alerts a ON a.id = e.alert_id
ORDER BY a.id;

-- AlertReceiversOf returns the receivers of the given alerts.
-- name: AlertReceiversOf :many
SELECT d.alert_id, r.id AS receiver_id
FROM alert_deliveries d
JOIN alert_receivers r ON r.id = d.receiver_id
WHERE d.alert_id = ANY (@alert_ids::bigint[])
ORDER BY d.alert_id, r.id;

-- AlertReceiversFailing returns the receivers whose last call failed and that can be called again now.
-- name: AlertReceiversFailing :many
SELECT s.receiver_id FROM alert_receiver_states s
WHERE s.failing_since IS NOT NULL AND is_due(s.next_call_at, interval '2 minutes')
ORDER BY s.receiver_id;

-- AlertReceiverClaim prevents other servers from calling a receiver for 30 seconds, which is longer than a call takes. It returns 0 if another server is
-- calling the receiver. Without the claim, two calls could run concurrently, and the receiver could learn of the end of an alert before its start.
-- name: AlertReceiverClaim :execrows
UPDATE alert_receiver_states s SET next_call_at = now() + interval '30 seconds'
WHERE s.receiver_id = @receiver_id AND is_due(s.next_call_at, interval '2 minutes');

-- AlertReceiverCalled records the outcome of a call of a receiver. After a failure, the receiver is not called for ten seconds. Each further failure doubles
-- this time, up to two minutes.
-- name: AlertReceiverCalled :exec
UPDATE alert_receiver_states s
SET failing_since = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN least(s.failing_since, now()) END,
    failures = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN s.failures + 1 ELSE 0 END, error = sqlc.narg(error)::text,
    next_call_at = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN now() + make_interval(secs => least(120, 10 * power(2, least(s.failures, 10))))
        ELSE now() END
WHERE s.receiver_id = @receiver_id;

-- AlertChannels returns the channels through which alerts can be sent. Such a channel has a template for alerts and an available sender that is not silent. A
-- sender is available if it is on, in its hours, has quota and funds, and its circuit breaker is closed.
-- name: AlertChannels :many
SELECT c.channel FROM channels c
WHERE EXISTS (SELECT FROM notification_templates t WHERE t.channel_id = c.id AND t.biz_type = @biz_type AND t.is_enabled)
    AND EXISTS (
        SELECT FROM sender_standings x
        JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = x.sender_id
        WHERE x.channel_id = c.id AND x.is_available AND NOT z.is_silent
    )
ORDER BY c.channel;

-- AlertGuard stores only_own_channel of an alert, and adds an event when the value becomes true. only_own_channel: people can be notified of the alert only
-- through the channel that the alert is about. If the alert is about all channels, only one channel is left to notify people.
-- name: AlertGuard :exec
WITH changed AS (
    UPDATE alerts a SET only_own_channel = @only_own_channel::boolean
    WHERE a.id = @id AND a.only_own_channel <> @only_own_channel::boolean
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.only_channel', coalesce(c.channel, c.subject), jsonb_build_object(
    'alert_id', c.id, 'rule_no', c.rule_id, 'kind', c.kind, 'subject', c.subject
)
FROM changed c
WHERE c.only_own_channel;
