-- Alerts: what receivers are told, and what is due to be told.

-- AlertDeliveriesOpen makes the deliveries of alerts that fire: one for each receiver of the rule. While a rule is silenced it makes none.
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

-- AlertDeliveriesDue returns up to batch_size deliveries of which something is to be told now, the worst first. is_end: that the alert is resolved,
-- which is told for a day to those who know that it fires. Otherwise that it fires: once; again after repeat_seconds, unless the alert is
-- acknowledged or the rule silenced; and to an alertmanager once a minute, whatever people did, because it forgets an alert that it is not told.
-- People are not told of an alert while they are told of a worse one of the same kind and subject, nor of warnings while they have had messages_most
-- messages within five minutes: all of one message have the same time.
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
    HAVING count(DISTINCT m.at) >= @messages_most::bigint
)
SELECT sqlc.embed(a), d.receiver_id, d.tries, d.failures, (a.resolved_at IS NOT NULL)::boolean AS is_end, (d.told_at IS NOT NULL)::boolean AS was_told,
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
        WHEN u.receivers IS NOT NULL AND NOT r.id = ANY (u.receivers) THEN false
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

-- AlertDeliveriesHold locks deliveries of a receiver, and returns their alerts. One that is missing has been told by another server meanwhile.
-- name: AlertDeliveriesHold :many
SELECT d.alert_id
FROM (SELECT unnest(@alert_ids::bigint[]) AS alert_id, unnest(@tries::bigint[]) AS tries) x
JOIN alert_deliveries d ON d.alert_id = x.alert_id AND d.receiver_id = @receiver_id AND d.tries = x.tries
ORDER BY d.alert_id
FOR UPDATE OF d;

-- AlertDeliveriesMark records how a receiver was told of alerts. After a failure a delivery is tried again after retry_seconds, doubled with
-- each failure up to an hour.
-- name: AlertDeliveriesMark :exec
UPDATE alert_deliveries d
SET told_at = CASE WHEN @is_told::boolean AND NOT x.is_end THEN now() ELSE d.told_at END,
    end_told_at = CASE WHEN @is_told::boolean AND x.is_end THEN now() END,
    tries = d.tries + 1, failures = CASE WHEN @is_told::boolean THEN 0 ELSE d.failures + 1 END, error = sqlc.narg(error),
    next_at = CASE WHEN @is_told::boolean THEN now()
        ELSE now() + make_interval(secs => least(3600, sqlc.arg(retry_seconds)::double precision * power(2, least(d.failures, 20)))) END
FROM (
    SELECT unnest(@alert_ids::bigint[]) AS alert_id, unnest(@tries::bigint[]) AS tries, unnest(@ends::boolean[]) AS is_end
) x
WHERE d.alert_id = x.alert_id AND d.receiver_id = @receiver_id AND d.tries = x.tries;

-- AlertReceiversOf returns the receivers to which alerts are told.
-- name: AlertReceiversOf :many
SELECT d.alert_id, r.id AS receiver_id
FROM alert_deliveries d
JOIN alert_receivers r ON r.id = d.receiver_id
WHERE d.alert_id = ANY (@alert_ids::bigint[])
ORDER BY d.alert_id, r.id;

-- AlertReceiversFailing returns the receivers that failed and may be called again.
-- name: AlertReceiversFailing :many
SELECT s.receiver_id FROM alert_receiver_states s
WHERE s.failing_since IS NOT NULL AND is_due(s.next_call_at, interval '2 minutes')
ORDER BY s.receiver_id;

-- AlertReceiverClaim keeps other servers from calling a receiver, for longer than a call takes: of two calls at a time, the one that tells that an
-- alert fires could arrive after the one that tells its end. No row: another server calls it.
-- name: AlertReceiverClaim :execrows
UPDATE alert_receiver_states s SET next_call_at = now() + interval '30 seconds'
WHERE s.receiver_id = @receiver_id AND is_due(s.next_call_at, interval '2 minutes');

-- AlertReceiverCalled records how a call of a receiver went. After a failure it is not called for ten seconds, doubled with each failure up to
-- two minutes.
-- name: AlertReceiverCalled :exec
UPDATE alert_receiver_states s
SET failing_since = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN least(s.failing_since, now()) END,
    failures = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN s.failures + 1 ELSE 0 END, error = sqlc.narg(error)::text,
    next_call_at = CASE WHEN sqlc.narg(error)::text IS NOT NULL THEN now() + make_interval(secs => least(120, 10 * power(2, least(s.failures, 10))))
        ELSE now() END
WHERE s.receiver_id = @receiver_id;

-- AlertChannels returns the channels through which alerts can be told: those with a template for alerts and an available sender: one that is on,
-- has quota and funds, whose circuit breaker is closed, and that is not silent.
-- name: AlertChannels :many
SELECT c.channel FROM channels c
WHERE EXISTS (SELECT FROM notification_templates t WHERE t.channel_id = c.id AND t.biz_type = @biz_type AND t.is_enabled)
    AND EXISTS (
        SELECT FROM sender_standings x
        JOIN sender_silences(@silent_after::interval, @noted_apart::interval) z ON z.sender_id = x.sender_id
        WHERE x.channel_id = c.id AND x.is_available AND NOT z.is_silent
    )
ORDER BY c.channel;

-- AlertGuard records whether people can be told of an alert in no other way than the channel that it is about, or of one about all channels, through
-- one channel only. When that becomes so, it is an event.
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
