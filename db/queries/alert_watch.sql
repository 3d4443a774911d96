-- Alerts: the way of an alert. It is pending from the first evaluation that finds its condition, fires when the condition has held for long
-- enough, is cleared when the condition does not hold, and is resolved when it has been clear for long enough. Each statement is guarded by
-- the state that it expects, and the row of the rule is locked, so that several servers may evaluate a rule at the same time.

-- AlertRuleHold locks a rule that is to be evaluated. No row: it was changed, disabled or deleted since it was read.
-- name: AlertRuleHold :one
SELECT r.id FROM alert_rules r WHERE r.id = @id AND r.version = @version AND r.is_enabled FOR NO KEY UPDATE;

-- AlertsOpen returns the alerts of enabled rules that are not resolved, pending ones included.
-- name: AlertsOpen :many
SELECT a.rule_id, a.subject FROM alerts a WHERE a.resolved_at IS NULL ORDER BY a.rule_id, a.subject;

-- AlertsFound records that the condition of a rule holds for subjects. A new one is pending; a cleared one fires on. A pending one that was not
-- evaluated for a minute begins anew, because nobody knows whether its condition held meanwhile.
-- name: AlertsFound :exec
INSERT INTO alerts AS a (rule_id, kind, level, subject, company_no, channel, sender_no, value, threshold)
SELECT @rule_id, @kind, @level, f.subject, nullif(f.company_no, ''), nullif(f.channel, ''), nullif(f.sender_no, ''), f.value,
    sqlc.narg(threshold)::double precision
FROM (
    SELECT unnest(@subjects::text[]) AS subject, unnest(@company_nos::text[]) AS company_no, unnest(@channels::text[]) AS channel,
        unnest(@sender_nos::text[]) AS sender_no, unnest(@vals::double precision[]) AS value
) f
ORDER BY f.subject
ON CONFLICT (rule_id, subject) WHERE resolved_at IS NULL DO UPDATE
SET value = excluded.value, threshold = excluded.threshold, company_no = excluded.company_no, channel = excluded.channel,
    sender_no = excluded.sender_no, seen_at = now(), cleared_at = NULL,
    started_at = CASE WHEN a.fired_at IS NULL AND a.seen_at < now() - interval '1 minute' THEN now() ELSE a.started_at END;

-- AlertsLost records that the condition of a rule holds for no other subjects than these: pending alerts are deleted, firing ones cleared.
-- name: AlertsLost :exec
WITH dropped AS (
    DELETE FROM alerts a
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NULL AND NOT a.subject = ANY (@subjects::text[])
)
UPDATE alerts a
SET cleared_at = now()
WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL AND a.cleared_at IS NULL
    AND NOT a.subject = ANY (@subjects::text[]);

-- AlertsFire lets pending alerts of a rule fire whose condition has held for long enough, and returns how many.
-- name: AlertsFire :execrows
WITH fired AS (
    UPDATE alerts a
    SET fired_at = now()
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NULL
        AND a.started_at <= now() - make_interval(secs => @for_seconds::double precision)
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.firing', f.subject, jsonb_build_object(
    'alert_id', f.id, 'rule_no', f.rule_id, 'kind', f.kind, 'level', f.level, 'value', f.value, 'threshold', f.threshold
)
FROM fired f
ORDER BY f.id;

-- AlertsResolve resolves alerts of a rule that have been clear for long enough, and returns how many.
-- name: AlertsResolve :execrows
WITH resolved AS (
    UPDATE alerts a
    SET resolved_at = now(), ended_by = 'condition'
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL
        AND a.cleared_at <= now() - make_interval(secs => @resolve_seconds::double precision)
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.resolved', r.subject, jsonb_build_object('alert_id', r.id, 'rule_no', r.rule_id, 'kind', r.kind, 'level', r.level)
FROM resolved r
ORDER BY r.id;

-- AlertsEnd ends the alerts of a rule that was changed, disabled or deleted, and returns how many fired.
-- name: AlertsEnd :execrows
WITH dropped AS (
    DELETE FROM alerts a WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NULL
),
ended AS (
    UPDATE alerts a
    SET resolved_at = now(), ended_by = @ended_by::text
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.resolved', e.subject, jsonb_build_object(
    'alert_id', e.id, 'rule_no', e.rule_id, 'kind', e.kind, 'level', e.level, 'ended_by', e.ended_by
)
FROM ended e
ORDER BY e.id;
