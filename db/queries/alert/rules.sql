-- Statements on rules and receivers, which administrators change, and on the list of alerts.

-- AlertScopeFind returns the ids of the company, the channel and the sender that a rule or a receiver names. An id is 0 if the record is not named or does not
-- exist.
-- name: AlertScopeFind :one
SELECT coalesce((SELECT c.id FROM companies c WHERE c.company_no = sqlc.narg(company_no)::text), 0)::bigint AS company_id,
    coalesce((SELECT h.id FROM channels h WHERE h.channel = sqlc.narg(channel)::text), 0)::bigint AS channel_id,
    coalesce((SELECT s.id FROM senders s WHERE s.sender_no = sqlc.narg(sender_no)::text), 0)::bigint AS sender_id;

-- AlertChannelsMissing returns the channels of `channels` that do not exist.
-- name: AlertChannelsMissing :many
SELECT n.channel::text AS channel
FROM unnest(@channels::text[]) AS n (channel)
LEFT JOIN channels c ON c.channel = n.channel
WHERE c.id IS NULL
ORDER BY n.channel;

-- AlertReceiversHold returns the receivers of `ids` that exist. It protects these receivers from deletion until the end of the transaction.
-- name: AlertReceiversHold :many
SELECT r.id FROM alert_receivers r WHERE r.id = ANY (@ids::bigint[]) ORDER BY r.id FOR KEY SHARE;

-- name: AlertRuleCreate :one
INSERT INTO alert_rules (
    name, kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds, silenced_until, company_id, channel_id,
    sender_id, receivers, is_enabled
)
VALUES (
    sqlc.narg(name), @kind, @level, sqlc.narg(threshold)::double precision, sqlc.narg(window_seconds), @for_seconds, @resolve_seconds,
    @repeat_seconds, sqlc.narg(silenced_until), sqlc.narg(company_id), sqlc.narg(channel_id), sqlc.narg(sender_id),
    sqlc.narg(receivers)::bigint[], @is_enabled
)
RETURNING id;

-- name: AlertRuleList :many
SELECT r.*, c.company_no, h.channel, s.sender_no, sh.channel AS sender_channel
FROM alert_rules r
LEFT JOIN companies c ON c.id = r.company_id
LEFT JOIN channels h ON h.id = r.channel_id
LEFT JOIN senders s ON s.id = r.sender_id
LEFT JOIN channels sh ON sh.id = s.channel_id
WHERE r.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR r.id = sqlc.narg(id)::bigint)
    AND (NOT @only_enabled::boolean OR r.is_enabled)
ORDER BY r.id DESC
LIMIT @page_limit::integer;

-- name: AlertRuleUpdate :execrows
UPDATE alert_rules
SET name = sqlc.narg(name), level = @level, threshold = sqlc.narg(threshold)::double precision, window_seconds = sqlc.narg(window_seconds),
    for_seconds = @for_seconds, resolve_seconds = @resolve_seconds, repeat_seconds = @repeat_seconds, silenced_until = sqlc.narg(silenced_until),
    company_id = sqlc.narg(company_id), channel_id = sqlc.narg(channel_id), sender_id = sqlc.narg(sender_id),
    receivers = sqlc.narg(receivers)::bigint[], is_enabled = @is_enabled, version = version + 1, updated_at = now()
WHERE id = @id AND version = @version;

-- name: AlertRuleDelete :execrows
DELETE FROM alert_rules WHERE id = @id;

-- name: AlertReceiverCreate :one
WITH made AS (
    INSERT INTO alert_receivers (name, kind, language, company_id, channels, user_ids, url, escalate_seconds)
    VALUES (
        @name, @kind, @language, sqlc.narg(company_id), sqlc.narg(channels)::text[], sqlc.narg(user_ids)::text[], sqlc.narg(url), @escalate_seconds
    )
    RETURNING id, kind
),
state AS (
    INSERT INTO alert_receiver_states (receiver_id) SELECT m.id FROM made m WHERE m.kind = 'alertmanager'
)
SELECT m.id FROM made m;

-- AlertReceiverSetAuthorization stores the encrypted Authorization header of a receiver; null removes the header. The encryption is bound to the id of the receiver.
-- name: AlertReceiverSetAuthorization :exec
UPDATE alert_receivers SET sealed_authorization = sqlc.narg(sealed_authorization) WHERE id = @id;

-- name: AlertReceiverList :many
SELECT r.*, c.company_no, s.failing_since, s.error, s.next_call_at
FROM alert_receivers r
LEFT JOIN companies c ON c.id = r.company_id
LEFT JOIN alert_receiver_states s ON s.receiver_id = r.id
WHERE r.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR r.id = sqlc.narg(id)::bigint)
ORDER BY r.id DESC
LIMIT @page_limit::integer;

-- name: AlertReceiverUpdate :execrows
UPDATE alert_receivers
SET name = @name, language = @language, company_id = sqlc.narg(company_id), channels = sqlc.narg(channels)::text[],
    user_ids = sqlc.narg(user_ids)::text[], url = sqlc.narg(url), escalate_seconds = @escalate_seconds, version = version + 1, updated_at = now()
WHERE id = @id AND version = @version;

-- AlertReceiverReencrypt stores a header that was encrypted again with the current key. It changes nothing if the header was changed meanwhile.
-- name: AlertReceiverReencrypt :execrows
UPDATE alert_receivers SET sealed_authorization = @sealed_authorization WHERE id = @id AND sealed_authorization = @before;

-- AlertReceiverLock locks a receiver. It waits for transactions that assign the receiver to a rule, so that AlertReceiverDelete finds these rules.
-- name: AlertReceiverLock :many
SELECT r.id FROM alert_receivers r WHERE r.id = @id ORDER BY r.id FOR UPDATE;

-- AlertReceiverDelete deletes a receiver that no rule names.
-- name: AlertReceiverDelete :execrows
DELETE FROM alert_receivers r
WHERE r.id = @id AND NOT EXISTS (SELECT FROM alert_rules u WHERE r.id = ANY (u.receivers));

-- AlertReceiverRenewed allows the next call of a changed receiver at once.
-- name: AlertReceiverRenewed :exec
UPDATE alert_receiver_states SET next_call_at = now() WHERE receiver_id = @id;

-- AlertList returns alerts that fire now or fired before, newest first.
-- name: AlertList :many
SELECT a.* FROM alerts a
WHERE a.id < @before_id AND a.fired_at IS NOT NULL AND (sqlc.narg(id)::bigint IS NULL OR a.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(is_resolved)::boolean IS NULL OR (a.resolved_at IS NOT NULL) = sqlc.narg(is_resolved)::boolean)
    AND (sqlc.narg(rule_id)::bigint IS NULL OR a.rule_id = sqlc.narg(rule_id)::bigint)
    AND (sqlc.narg(level)::text IS NULL OR a.level = sqlc.narg(level)::text)
ORDER BY a.id DESC
LIMIT @page_limit::integer;

-- AlertListFiring returns firing alerts, newest first. AlertList would read all resolved alerts to find the few firing alerts.
-- name: AlertListFiring :many
SELECT a.* FROM alerts a
WHERE a.id < @before_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL
    AND (sqlc.narg(rule_id)::bigint IS NULL OR a.rule_id = sqlc.narg(rule_id)::bigint)
    AND (sqlc.narg(level)::text IS NULL OR a.level = sqlc.narg(level)::text)
ORDER BY a.id DESC
LIMIT @page_limit::integer;

-- AlertsFiring returns how many alerts fire.
-- name: AlertsFiring :one
SELECT count(*) FROM alerts a WHERE a.resolved_at IS NULL AND a.fired_at IS NOT NULL;

-- AlertDeliveriesOf returns the deliveries of alerts to receivers.
-- name: AlertDeliveriesOf :many
SELECT d.* FROM alert_deliveries d WHERE d.alert_id = ANY (@alert_ids::bigint[]) ORDER BY d.alert_id, d.receiver_id;

-- AlertAcknowledge records the user who acknowledged a firing alert. A later acknowledgement does not change this user. Its remark, if given, replaces the
-- earlier remark. The statement returns 0 if the alert does not fire.
-- name: AlertAcknowledge :execrows
UPDATE alerts
SET acknowledged_at = coalesce(acknowledged_at, now()), acknowledged_by = coalesce(acknowledged_by, @username::text),
    remark = coalesce(sqlc.narg(remark), remark)
WHERE id = @id AND fired_at IS NOT NULL AND resolved_at IS NULL;

-- AlertsDeleteExpired deletes up to batch_size alerts that were resolved longer than `keep` ago.
-- name: AlertsDeleteExpired :execrows
DELETE FROM alerts a
USING (
    SELECT o.id FROM alerts o WHERE o.resolved_at < now() - @keep::interval ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED
) old
WHERE a.id = old.id;
