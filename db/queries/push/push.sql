-- Statements of the workers that send messages through driven senders. They read senders and messages, and change tokens.

-- SendersDriven returns the driven senders that are on, and the states of their circuit breakers. pause_seconds is greater than 0 while the circuit breaker is
-- open. is_unbound tells whether it opened because no link was open, with the given code.
-- name: SendersDriven :many
SELECT s.id, s.sender_no, s.kind, s.config, s.version, s.interval_ms, c.retry_minutes, st.openings,
    greatest(0, coalesce(extract(epoch FROM st.rest_until - clock_timestamp()), 0))::double precision AS pause_seconds,
    coalesce(starts_with(st.rest_reason, @not_bound::text || ': '), false)::boolean AS is_unbound
FROM senders s
JOIN channels c ON c.id = s.channel_id
JOIN sender_states st ON st.sender_id = s.id
WHERE s.kind <> 'app' AND s.status = 'on'
ORDER BY s.id;

-- SenderTested returns a sender and its channel, in the form that the workers use. The status of the sender is not checked.
-- name: SenderTested :one
SELECT s.id, s.sender_no, s.kind, s.config, s.version, c.channel, s.status
FROM senders s
JOIN channels c ON c.id = s.channel_id
WHERE s.sender_no = @sender_no;

-- TaskOutgoing returns the content of leased tasks for a driver. It also returns the seconds until the leases end, the seconds for which the messages can be sent
-- (send_before), and the version and the circuit breaker of the sender. The driver does not send if the version has changed, or if another server has opened the circuit breaker.
-- name: TaskOutgoing :many
SELECT t.task_id, t.recipient, coalesce(c.company_no, '')::text AS company_no, coalesce(t.user_id, '')::text AS user_id,
    coalesce(r.id, 0)::bigint AS rendering_id, -- 0 if the message has no rendering
    coalesce(r.title, '')::text AS title, coalesce(r.content, '')::text AS content, coalesce(r.html, '')::text AS html, t.contact_values,
    coalesce(r.template_id, '')::text AS template_id,
    r.params, coalesce(r.page, '')::text AS page, s.version, st.openings,
    greatest(0, coalesce(extract(epoch FROM st.rest_until - clock_timestamp()), 0))::double precision AS pause_seconds,
    coalesce(extract(epoch FROM t.lease_until - clock_timestamp()), 0)::double precision AS lease_seconds, t.entered_at,
    coalesce(extract(epoch FROM send_before(t) - clock_timestamp()), 'infinity')::double precision AS seconds_left,
    coalesce(t.on_unclear, s.on_unclear) = 'fail' AS fails_unclear
FROM queue t
JOIN senders s ON s.sender_no = @sender_no
JOIN sender_states st ON st.sender_id = s.id
LEFT JOIN companies c ON c.id = t.company_id
LEFT JOIN renderings r ON r.id = t.rendering_id
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- TaskMayBegin returns the leases of a driven sender that are still valid. stopped_by is empty if the message can be sent now. Otherwise it is the reason:
-- taken_back, sender_off, sender_hours, sender_paused, not_served, batch_paused, batch_cancelled or switched_off. not_served: the sender does not serve the pool
-- of the task any more. The statement locks nothing. A cancelled batch stops its tasks only until it is settled. Tasks that are in the queue after that time
-- were requeued after the cancellation.
-- name: TaskMayBegin :many
WITH leases AS MATERIALIZED (
    SELECT t.task_id, t.pool_id, t.company_id, t.country_no, t.batch_id, t.submitted_by, t.taken_back_by
    FROM (SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id) i
    JOIN queue t ON t.task_id = i.task_id AND t.lease_id = i.lease_id AND t.lease_until IS NOT NULL AND t.processing_app_id = @sender_no::text
),
served AS MATERIALIZED ( -- once for each pool, because a sender can hold a thousand tasks of one pool
    SELECT p.id
    FROM pools p
    JOIN senders s ON s.sender_no = @sender_no::text
    WHERE p.id IN (SELECT l.pool_id FROM leases l) AND p.retired_at IS NULL AND CASE
        WHEN p.sender_id IS NOT NULL THEN sender_serves(s.id, p.company_id)
        WHEN p.company_id IS NULL THEN s.is_shared
        ELSE EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.sender_id = s.id AND r.status = 'on')
    END
)
SELECT t.task_id, (CASE
        WHEN t.taken_back_by IS NOT NULL THEN 'taken_back'
        WHEN s.status <> 'on' THEN 'sender_off'
        WHEN NOT in_hours(s.hours, s.time_zone, clock_timestamp()) THEN 'sender_hours'
        WHEN st.rest_until > clock_timestamp() THEN 'sender_paused'
        WHEN NOT EXISTS (SELECT FROM served p WHERE p.id = t.pool_id) THEN 'not_served'
        WHEN b.status = 'paused' THEN 'batch_paused'
        WHEN b.status = 'cancelled' AND NOT b.is_settled THEN 'batch_cancelled'
        WHEN w.may_hold AND EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, '')) THEN 'switched_off'
        WHEN w.has_disabled_users AND EXISTS (
            SELECT FROM users u WHERE u.username = coalesce(t.submitted_by, task_submitter(t.task_id)) AND u.is_disabled
        ) THEN 'switched_off'
        ELSE ''
    END)::text AS stopped_by
FROM leases t
JOIN senders s ON s.sender_no = @sender_no::text
JOIN sender_states st ON st.sender_id = s.id
CROSS JOIN switches w
LEFT JOIN batches b ON b.id = t.batch_id
ORDER BY t.task_id;

-- SenderAnswersKeep stores the latest outcomes of calls of a sender, in the order of the arrays. It deletes older outcomes, so that ten outcomes remain. If
-- several servers run the statement at the same time, more than ten outcomes can remain until the next call.
-- name: SenderAnswersKeep :exec
WITH me AS (
    SELECT s.id FROM senders s WHERE s.sender_no = @sender_no::text
),
kept AS (
    INSERT INTO sender_answers (sender_id, task_id, outcome, code, error, answer, created_at)
    SELECT me.id, i.task_id, i.outcome, nullif(left(i.code, 100), ''), nullif(left(i.error, 500), ''), nullif(left(i.answer, 2000), ''), clock_timestamp()
    FROM me
    CROSS JOIN (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@outcomes::text[]) AS outcome, unnest(@codes::text[]) AS code,
            unnest(@errors::text[]) AS error, unnest(@answers::text[]) AS answer
    ) i
)
DELETE FROM sender_answers a
USING me
WHERE a.sender_id = me.id AND a.id <= coalesce((
    SELECT o.id FROM sender_answers o
    WHERE o.sender_id = me.id
    ORDER BY o.id DESC
    OFFSET greatest(0, 10 - cardinality(@task_ids::text[]))
    LIMIT 1
), 0);

-- TokenOpen creates the token row of a sender if the row does not exist.
-- name: TokenOpen :exec
INSERT INTO sender_tokens (sender_id) SELECT s.id FROM senders s WHERE s.sender_no = @sender_no ON CONFLICT DO NOTHING;

-- TokenGet returns the token of a sender, and the number of seconds until the token expires.
-- name: TokenGet :one
SELECT k.token, greatest(0, coalesce(extract(epoch FROM k.expires_at - clock_timestamp()), 0))::double precision AS seconds
FROM sender_tokens k
JOIN senders s ON s.id = k.sender_id
WHERE s.sender_no = @sender_no AND isfinite(k.expires_at); -- -infinity means that no token was fetched yet

-- TokenLease allows one caller to fetch the token of a sender for `seconds`. It returns no row if another caller is fetching the token.
-- name: TokenLease :one
UPDATE sender_tokens k
SET fetches = k.fetches + 1, fetch_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND (k.fetch_until IS NULL OR k.fetch_until <= clock_timestamp())
RETURNING k.fetches;

-- TokenRelease ends the permission of TokenLease without storing a token.
-- name: TokenRelease :exec
UPDATE sender_tokens k
SET fetch_until = NULL
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND k.fetches = @fetches;

-- TokenSet stores a token if its caller was the last caller that TokenLease allowed to fetch the token.
-- name: TokenSet :exec
UPDATE sender_tokens k
SET token = @token, expires_at = clock_timestamp() + make_interval(secs => @seconds::double precision), fetch_until = NULL
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND k.fetches = @fetches;

-- LinkHold takes over a link of a sender that no process holds, or renews a link that this process holds, and stores the state of the link. It returns whether the
-- PDUs of the link are recorded from now on, and the name of the recording. It returns no row if another process holds the link.
-- name: LinkHold :one
INSERT INTO sender_links AS l (sender_id, nth, held_by, host, held_until, bound_at, in_flight, sent, received, error, failed_at)
SELECT s.id, @nth, @held_by, @host, clock_timestamp() + @lease::interval, sqlc.narg(bound_at), @in_flight, @sent, @received, sqlc.narg(error), sqlc.narg(failed_at)
FROM senders s
WHERE s.id = @sender_id
ON CONFLICT (sender_id, nth) DO UPDATE
SET held_by = excluded.held_by, host = excluded.host, held_until = excluded.held_until, bound_at = excluded.bound_at, in_flight = excluded.in_flight,
    sent = excluded.sent, received = excluded.received, error = excluded.error, failed_at = excluded.failed_at
WHERE l.held_by = excluded.held_by OR l.held_until <= clock_timestamp()
RETURNING l.traced_from, coalesce(l.traced_until > clock_timestamp(), false)::boolean AS is_traced;

-- LinkTraceAdd adds PDUs to a recording, and keeps the last `most`, if this process holds the link, and no other recording began.
-- name: LinkTraceAdd :exec
UPDATE sender_links l SET trace = (
    SELECT jsonb_agg(p.pdu ORDER BY p.nth)
    FROM (SELECT * FROM jsonb_array_elements(l.trace || @pdus::jsonb) WITH ORDINALITY AS e(pdu, nth) ORDER BY e.nth DESC LIMIT @most::integer) p
)
WHERE l.sender_id = @sender_id AND l.nth = @nth AND l.held_by = @held_by AND l.traced_from = @traced_from;

-- LinkRelease lets another process take over a link of a sender at once.
-- name: LinkRelease :exec
UPDATE sender_links l SET held_until = clock_timestamp(), bound_at = NULL
WHERE l.sender_id = @sender_id AND l.nth = @nth AND l.held_by = @held_by;

-- LinksAreBound reports whether a link of a sender is open at any process.
-- name: LinksAreBound :one
SELECT links_are_bound(s.id, s.kind)::boolean AS is_bound FROM senders s WHERE s.id = @sender_id;
