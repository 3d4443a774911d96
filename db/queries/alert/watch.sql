-- Statements on the states of an alert:
--   pending   from the first evaluation that finds the condition of the rule true
--   firing    when the condition was true for for_seconds
--   cleared   when the condition of a firing alert is false
--   resolved  when the alert was cleared for resolve_seconds
-- Each statement checks the state of the alert before a change, and the caller has locked the rule (AlertRuleHold). Therefore several servers can evaluate a
-- rule at the same time.

-- AlertRuleHold locks a rule for its evaluation. It returns no row if the rule was changed, disabled or deleted since it was read.
-- name: AlertRuleHold :one
SELECT r.id FROM alert_rules r WHERE r.id = @id AND r.version = @version AND r.is_enabled FOR NO KEY UPDATE;

-- AlertRuleIsMoved returns whether another server has updated the alerts of a rule from a measurement that was taken after looked_at.
-- name: AlertRuleIsMoved :one
SELECT EXISTS (
    SELECT FROM alerts a
    WHERE a.rule_id = @rule_id AND (a.resolved_at IS NULL OR a.resolved_at > @looked_at::timestamptz)
        AND greatest(a.seen_at, a.cleared_at, a.resolved_at) > @looked_at::timestamptz
        AND greatest(a.seen_at, a.cleared_at, a.resolved_at) <= clock_timestamp() -- ignores future times, which were stored before the clock was set back
);

-- AlertsOpen returns the unresolved alerts of enabled rules, pending ones included.
-- name: AlertsOpen :many
SELECT a.rule_id, a.subject FROM alerts a WHERE a.resolved_at IS NULL ORDER BY a.rule_id, a.subject;

-- AlertsFound records the subjects for which the condition of a rule is true. A new alert is pending. A cleared alert fires again. A pending alert begins again
-- if it was not evaluated for a minute, because the condition was possibly false meanwhile. A pending alert also begins again if its start is in the future,
-- because the clock was set back.
-- name: AlertsFound :exec
INSERT INTO alerts AS a (rule_id, kind, level, subject, company_no, channel, sender_no, value, threshold)
SELECT @rule_id, @kind, @level, f.subject, nullif(f.company_no, ''), nullif(f.channel, ''), nullif(f.sender_no, ''), f.value, f.threshold
FROM (
    SELECT unnest(@subjects::text[]) AS subject, unnest(@company_nos::text[]) AS company_no, unnest(@channels::text[]) AS channel,
        unnest(@sender_nos::text[]) AS sender_no, unnest(@vals::double precision[]) AS value, unnest(@thresholds::float8[]) AS threshold
) f
ORDER BY f.subject
ON CONFLICT (rule_id, subject) WHERE resolved_at IS NULL DO UPDATE
SET value = excluded.value, threshold = excluded.threshold, company_no = excluded.company_no, channel = excluded.channel,
    sender_no = excluded.sender_no, seen_at = now(), cleared_at = NULL,
    started_at = CASE
        WHEN a.fired_at IS NOT NULL THEN a.started_at
        WHEN a.seen_at < now() - interval '1 minute' THEN now()
        ELSE least(a.started_at, now())
    END;

-- AlertsLost gets the `subjects` for which the condition of a rule is true. For all other subjects, the statement deletes the pending alerts and clears the
-- firing alerts. If the clear time of an alert is in the future because the clock was set back, the clear time becomes now.
-- name: AlertsLost :exec
WITH dropped AS (
    DELETE FROM alerts a
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NULL AND NOT a.subject = ANY (@subjects::text[])
)
UPDATE alerts a
SET cleared_at = now()
WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL AND coalesce(a.cleared_at > now(), true)
    AND NOT a.subject = ANY (@subjects::text[]);

-- AlertsFire sets the pending alerts of a rule to firing after their condition was true for for_seconds. It returns the number of these alerts.
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

-- AlertsResolve resolves the alerts of a rule that were cleared for resolve_seconds, and returns their number. resolved_at is never before fired_at, although
-- this transaction possibly began before the transaction that set fired_at.
-- name: AlertsResolve :execrows
WITH resolved AS (
    UPDATE alerts a
    SET resolved_at = greatest(now(), a.fired_at), ended_by = 'condition'
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL
        AND a.cleared_at <= now() - make_interval(secs => @resolve_seconds::double precision)
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.resolved', r.subject, jsonb_build_object('alert_id', r.id, 'rule_no', r.rule_id, 'kind', r.kind, 'level', r.level)
FROM resolved r
ORDER BY r.id;

-- AlertsEnd ends the alerts of a rule that was changed, disabled or deleted. It returns the number of ended alerts that were firing.
-- name: AlertsEnd :execrows
WITH dropped AS (
    DELETE FROM alerts a WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NULL
),
ended AS (
    UPDATE alerts a
    SET resolved_at = greatest(now(), a.fired_at), ended_by = @ended_by::text
    WHERE a.rule_id = @rule_id AND a.resolved_at IS NULL AND a.fired_at IS NOT NULL
    RETURNING a.*
)
INSERT INTO events (event, subject, detail)
SELECT 'alert.resolved', e.subject, jsonb_build_object(
    'alert_id', e.id, 'rule_no', e.rule_id, 'kind', e.kind, 'level', e.level, 'ended_by', e.ended_by
)
FROM ended e
ORDER BY e.id;

-- AlertRenderings returns the renderings of messages about alerts of `kinds`. It returns only renderings that still have a task in the queue. 49 hours: the
-- message about the end of an alert is created within a day, and its task ends within another day (keptFor).
-- name: AlertRenderings :many
SELECT DISTINCT r.id
FROM alerts a
JOIN alert_deliveries d ON d.alert_id = a.id
JOIN alert_receivers v ON v.id = d.receiver_id
JOIN notifications n ON n.company_id = v.company_id AND n.biz_type = @biz_type AND n.biz_id = a.id AND n.submitted_by = @submitted_by
JOIN renderings r ON r.notification_id = n.id
WHERE (a.resolved_at IS NULL OR a.resolved_at > now() - interval '49 hours') AND a.kind = ANY (@kinds::text[])
    AND EXISTS (SELECT FROM queue q WHERE q.rendering_id = r.id)
ORDER BY r.id;

-- PoolsUnserved returns the pools of `pool_ids` without an available sender, and the pools whose available senders are all silent. A sender is available if it
-- is on, in its hours, has quota and funds, and its circuit breaker is closed.
-- name: PoolsUnserved :many
SELECT p.id, h.channel, c.company_no, p.message_type, o.country_no
FROM pools p
JOIN channels h ON h.id = p.channel_id
LEFT JOIN companies c ON c.id = p.company_id
LEFT JOIN countries o ON o.id = p.country_id
WHERE p.id = ANY (@pool_ids::bigint[]) AND p.retired_at IS NULL
    AND NOT EXISTS (
        SELECT FROM routes r
        JOIN sender_standings x ON x.sender_id = r.sender_id
        JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = x.sender_id
        WHERE r.pool_id = p.id AND r.status = 'on' AND x.is_available AND NOT z.is_silent
    )
    AND NOT (
        p.company_id IS NULL AND EXISTS (
            SELECT FROM sender_standings x
            JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = x.sender_id
            WHERE x.channel_id = p.channel_id AND x.is_shared AND x.is_available AND NOT z.is_silent
        )
    )
ORDER BY p.id;

-- SendersSilent returns the apps that are on and have not polled for more than after_seconds plus the slack of sender_silences, the most recently silent first.
-- gone_seconds: an app that is silent for longer is not returned. An app that sent no message in the day before its last poll is not returned either. named:
-- these apps are returned regardless of gone_seconds and of their messages. If such an app never polled, the time counts from its creation. is_used is true if
-- the app sent a message in the day before its last poll.
-- name: SendersSilent :many
SELECT s.sender_no, h.channel, extract(epoch FROM now() - coalesce(st.seen_at, s.created_at))::double precision AS seconds,
    coalesce(st.sent_at > st.seen_at - interval '1 day', false)::boolean AS is_used, x.slack::double precision AS slack
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
JOIN channels h ON h.id = s.channel_id
JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = s.id
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM CASE z.slack WHEN interval '0' THEN z.slack ELSE z.slack + interval '1 minute' END) AS slack -- a sweep records polls with a delay
) x
WHERE s.status = 'on' AND s.kind = 'app'
    AND coalesce(st.seen_at, s.created_at) < now() - make_interval(secs => @after_seconds::double precision)
    AND coalesce(st.seen_at, s.created_at) < now() - make_interval(secs => sqlc.arg(after_seconds)::double precision + x.slack::double precision)
    AND (
        (
            st.sent_at > st.seen_at - interval '1 day'
            AND st.seen_at >= now() - make_interval(secs => sqlc.arg(gone_seconds)::double precision + x.slack::double precision)
        )
        OR s.sender_no = ANY (@named::text[])
    )
ORDER BY seconds, s.sender_no;

-- BalancesLow returns the senders that are on and whose balance is low. A balance is low if it is at most max_balance, or at most the low_warning of the sender.
-- name: BalancesLow :many
SELECT s.sender_no, h.channel, coalesce(st.balance, 0)::bigint AS balance, s.low_warning
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
JOIN channels h ON h.id = s.channel_id
WHERE s.status = 'on' AND s.has_balance AND coalesce(st.balance, 0) <= greatest(sqlc.arg(max_balance)::double precision, s.low_warning)
ORDER BY s.sender_no;

-- BreakersOpen returns the senders that are on and whose circuit breaker is open or half-open.
-- name: BreakersOpen :many
SELECT s.sender_no, h.channel, st.openings
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
JOIN channels h ON h.id = s.channel_id
WHERE s.status = 'on' AND st.openings > 0
ORDER BY s.sender_no;

-- OutcomeSums returns one row for each entry of the arrays: the numbers of tasks that became SUCCESS and FAILED, of leases that were reported FAILED, and of
-- leases that ended without a report. Entry n of each array belongs to the same row: a company (0: all companies), a dimension, a key (empty: the total of the dimension), and the length of a window
-- that ends now. place is the index of the entry, from 0. Tests do not count. A window begins with its first full minute.
-- name: OutcomeSums :many
WITH asked AS MATERIALIZED (
    SELECT unnest(@company_ids::bigint[]) AS company_id, unnest(@dimensions::text[]) AS dimension, unnest(@keys::text[]) AS key,
        now() - make_interval(secs => unnest(@window_seconds::bigint[])::double precision) AS begins,
        generate_series(0, cardinality(@keys::text[]) - 1) AS place
),
recent AS MATERIALIZED (
    SELECT r.at, r.company_id, r.channel, r.sender_no, sum(r.succeeded) AS succeeded, sum(r.failed) AS failed,
        sum(r.reported_failed) AS reported_failed, sum(r.unreported) AS unreported
    FROM recent_statistics r
    WHERE r.at >= (SELECT min(a.begins) FROM asked a) AND r.message_type <> 'test'
    GROUP BY r.at, r.company_id, r.channel, r.sender_no
)
SELECT a.place::integer AS place, coalesce(sum(e.succeeded), 0)::bigint AS succeeded, coalesce(sum(e.failed), 0)::bigint AS failed,
    coalesce(sum(e.reported_failed), 0)::bigint AS reported_failed, coalesce(sum(e.unreported), 0)::bigint AS unreported
FROM asked a
LEFT JOIN LATERAL (
    SELECT o.succeeded, o.failed, o.reported_failed, o.unreported
    FROM generate_series(date_trunc('minute', a.begins, 'UTC'), now(), interval '1 minute') AS m (at)
    CROSS JOIN LATERAL (
        SELECT s.succeeded, s.failed, s.reported_failed, s.unreported FROM statistics s
        WHERE s.step = 'minute' AND s.company_id = a.company_id AND s.dimension = a.dimension AND s.at = m.at AND s.key = a.key
        OFFSET 0 -- OFFSET 0 forces one probe of statistics_pkey for each minute. An index scan of the window would read all keys.
    ) o
    WHERE m.at >= a.begins
    UNION ALL
    SELECT r.succeeded, r.failed, r.reported_failed, r.unreported FROM recent r
    WHERE r.at >= a.begins AND (a.company_id = 0 OR r.company_id = a.company_id)
        AND CASE a.dimension WHEN 'total' THEN true WHEN 'channel' THEN r.channel = a.key WHEN 'sender' THEN r.sender_no = a.key END
) e ON true
GROUP BY a.place
ORDER BY a.place;

-- SenderOutcomes returns the numbers of leases of each sender that ended within window_seconds: tasks that became SUCCESS, leases that were reported FAILED, and
-- leases that ended without a report. Tests do not count. The senders are on. The window begins with its first full minute.
-- name: SenderOutcomes :many
WITH minutes AS (
    SELECT s.key AS sender_no, s.succeeded, s.reported_failed, s.unreported FROM statistics s -- reads a range of statistics_pkey
    WHERE s.step = 'minute' AND s.company_id = 0 AND s.dimension = 'sender'
        AND s.at >= now() - make_interval(secs => @window_seconds::double precision) AND s.at <= now()
    UNION ALL
    SELECT r.sender_no, r.succeeded, r.reported_failed, r.unreported FROM recent_statistics r
    WHERE r.at >= now() - make_interval(secs => @window_seconds::double precision) AND r.message_type <> 'test'
)
SELECT n.sender_no, h.channel, sum(m.succeeded)::bigint AS succeeded, sum(m.reported_failed)::bigint AS reported_failed,
    sum(m.unreported)::bigint AS unreported
FROM minutes m
JOIN senders n ON n.sender_no = m.sender_no
JOIN channels h ON h.id = n.channel_id
WHERE n.status = 'on'
GROUP BY n.sender_no, h.channel
ORDER BY n.sender_no;

-- ReceiptsMissing returns the senders for which no receipt arrived within window_seconds, although they sent a message within this time. The senders are on,
-- and their provider sends receipts of delivered messages: in callbacks, or through links.
-- name: ReceiptsMissing :many
SELECT n.sender_no, h.channel
FROM senders n
JOIN sender_states t ON t.sender_id = n.id
JOIN channels h ON h.id = n.channel_id
WHERE n.status = 'on'
    AND CASE n.kind
        WHEN 'cmpp' THEN coalesce((n.config ->> 'registered_delivery')::integer, 1) = 1
        WHEN 'smpp' THEN coalesce((n.config ->> 'registered_delivery')::integer, 1) & 3 IN (1, 3) -- 2: receipts of failures only
        ELSE n.config ->> 'callback' IS NOT NULL AND ( -- the same condition as Config.HasReceipts
            n.config #>> '{callback,received}' IS NULL OR n.config #>> '{callback,number}' <> '' OR n.config #>> '{callback,state}' <> ''
            OR n.config #> '{callback,delivered,0}' IS NOT NULL
        )
    END
    AND t.sent_at > now() - make_interval(secs => @window_seconds::double precision)
    AND coalesce((SELECT r.created_at FROM receipts r WHERE r.sender_no = n.sender_no ORDER BY r.id DESC LIMIT 1), '-infinity')
        <= now() - make_interval(secs => @window_seconds::double precision)
ORDER BY n.sender_no;

-- DiskSpacePut records the total and the free bytes of the file system that contains a folder.
-- name: DiskSpacePut :exec
INSERT INTO disk_spaces (host, folder, bytes, free_bytes) VALUES (@host, @folder, @bytes, @free_bytes)
ON CONFLICT (host, folder) DO UPDATE SET bytes = excluded.bytes, free_bytes = excluded.free_bytes, measured_at = now();

-- DiskSpaces returns the measurements of the last five minutes. Older measurements are of servers that have stopped.
-- name: DiskSpaces :many
SELECT d.host, d.folder, (d.free_bytes::double precision / d.bytes)::double precision AS free
FROM disk_spaces d
WHERE d.measured_at > now() - interval '5 minutes' AND d.bytes > 0
ORDER BY d.host, d.folder;

-- DiskSpacesDelete deletes measurements older than a day, which are of servers that have stopped.
-- name: DiskSpacesDelete :exec
DELETE FROM disk_spaces WHERE measured_at < now() - interval '1 day';

-- PartitionDays returns the number of consecutive days (UTC), beginning with today, for which a partition of tasks exists. It returns at most 400.
-- name: PartitionDays :one
WITH today AS MATERIALIZED (SELECT (now() AT TIME ZONE 'UTC')::date AS day)
SELECT coalesce(min(d.n), 400)::bigint
FROM today t
CROSS JOIN generate_series(0, 399) AS d (n)
WHERE NOT EXISTS (
    SELECT FROM task_partitions p WHERE p.dropped_at IS NULL AND p.first_day <= t.day + d.n AND p.last_day > t.day + d.n
);

-- ReceiversFailing returns the receivers whose calls have all failed for more than after_seconds.
-- name: ReceiversFailing :many
SELECT r.id, r.name, extract(epoch FROM now() - s.failing_since)::double precision AS seconds
FROM alert_receiver_states s
JOIN alert_receivers r ON r.id = s.receiver_id
WHERE s.failing_since < now() - make_interval(secs => @after_seconds::double precision)
ORDER BY r.id;

-- TasksPending returns how many tasks of each company are PENDING, including tasks that are due later.
-- name: TasksPending :many
SELECT c.company_no, (t.pending_new + t.pending_retry)::bigint AS pending
FROM task_totals t
JOIN companies c ON c.id = t.company_id
WHERE t.pending_new + t.pending_retry > 0
ORDER BY c.company_no;

-- TaskPartitionsOverdue returns the partitions that are at least one day late: they should have become history, or should have been dropped. days: the number
-- of days of the delay.
-- name: TaskPartitionsOverdue :many
SELECT p.first_day, x.days::bigint AS days
FROM task_partitions p
CROSS JOIN LATERAL (
    SELECT (now() AT TIME ZONE 'UTC')::date - least(
        CASE WHEN p.history_at IS NULL THEN p.last_day + @after_days::integer END,
        CASE WHEN @keep_days::integer > 0
            THEN greatest(p.last_day + @after_days::integer, greatest(p.last_day, (p.imported_at AT TIME ZONE 'UTC')::date + 1) + @keep_days::integer) END
    ) AS days
) x
WHERE p.dropped_at IS NULL AND x.days >= 1
ORDER BY p.first_day
LIMIT @max_rows::integer;

-- StatementsDiffer returns the reconciliations that found differences and ended within `keep`. Only the newest finished reconciliation of each sender and day
-- counts.
-- name: StatementsDiffer :many
SELECT r.sender_no, r.day, coalesce(h.channel, '')::text AS channel, r.differences
FROM (
    SELECT DISTINCT ON (o.sender_no, o.day) o.sender_no, o.day, o.differences
    FROM reconciliations o
    WHERE o.status = 'finished' AND o.finished_at > now() - @keep::interval
    ORDER BY o.sender_no, o.day, o.id DESC
) r
LEFT JOIN senders s ON s.sender_no = r.sender_no
LEFT JOIN channels h ON h.id = s.channel_id
WHERE r.differences > 0
ORDER BY r.day DESC, r.sender_no;

-- CodesSuspected returns the prefixes of numbers, and the networks of clients, that got at least suspected_from codes, and are neither proven nor safe. It leaves
-- out a prefix if most of its codes went to a longer suspected prefix, so that one attack causes one alert.
-- name: CodesSuspected :many
SELECT c.company_no, s.subject, s.started
FROM verification_suspects s
JOIN companies c ON c.id = s.company_id
WHERE s.started >= @suspected_from::bigint AND NOT EXISTS (
    SELECT FROM verification_suspects l
    WHERE l.company_id = s.company_id AND l.started >= @suspected_from::bigint AND l.subject <> s.subject AND starts_with(l.subject, s.subject)
        AND l.started * 2 > s.started
)
ORDER BY s.started DESC, c.company_no, s.subject
LIMIT @max_rows::integer;

-- Now returns the start time of the transaction. All statements of a transaction use this time for their decisions.
-- name: Now :one
SELECT now()::timestamptz AS at;
