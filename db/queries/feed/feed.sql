-- Statements on the feed of events, in the order of their visibility. Triggers stage events. FeedTake and FeedAppend move staged events to the feed, in one
-- transaction at a time.

-- FeedLock allows only one transaction at a time to assign ids of the feed, until its end. An id is therefore visible before any larger id exists.
-- name: FeedLock :exec
SELECT lock_table('lock_feed');

-- FeedTake deletes up to portion staged events and returns them, in the order in which they were staged. Events of tasks of locked_days stay; a day is the
-- beginning of the ids of its tasks.
-- name: FeedTake :many
WITH taken AS (
    DELETE FROM feed_staged s
    WHERE s.id = ANY (ARRAY(
        SELECT o.id FROM feed_staged o
        WHERE o.task_id IS NULL OR left(o.task_id, 13) <> ALL (@locked_days::text[])
        ORDER BY o.id
        LIMIT @portion::integer
    ))
    RETURNING *
)
SELECT t.company_id, t.submitted_by, t.type, coalesce(t.task_id, '')::text AS task_id, coalesce(t.log_id, 0)::bigint AS log_id, t.at, t.data
FROM taken t
ORDER BY t.id;

-- FeedSubmitters returns the submitters of tasks, and the notification of each task, or 0. It returns no row for a task whose day was dropped.
-- name: FeedSubmitters :many
SELECT m.task_id, m.submitted_by, coalesce(r.notification_id, 0)::bigint AS notification_id
FROM messages m
LEFT JOIN renderings r ON r.id = m.rendering_id
WHERE m.task_id = ANY (@task_ids::text[])
ORDER BY m.task_id;

-- FeedNotifications returns those of some notifications that have probably ended: notifications of recorded_ids that were ended, and notifications without a
-- further run and without a task that waits or is leased. It does not read partitions.
-- name: FeedNotifications :many
SELECT n.id, n.created_at FROM notifications n
WHERE n.id = ANY (@ids::bigint[]) AND n.deleted_at IS NULL
    AND CASE WHEN n.ended_as IS NOT NULL THEN n.id = ANY (@recorded_ids::bigint[])
        ELSE n.next_run_at IS NULL AND NOT EXISTS (SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id) END
ORDER BY n.id;

-- FeedNotificationsRender returns the data of the events of ended notifications, from the view notification_standings. A notification that was not ended is
-- skipped while the end of one of its tasks, or another cause, is still staged: the later staged row then creates the event. Staged receipts do not count,
-- because they create no such event. A notification is also skipped if one of its tasks was requeued since FeedNotifications, because it has no longer ended.
-- Its tasks have ids from from_id on.
-- name: FeedNotificationsRender :many
SELECT n.id, n.company_id, n.submitted_by, jsonb_build_object(
    'notification_id', n.id, 'company_no', c.company_no, 'channel', h.channel, 'biz_type', n.biz_type, 'biz_id', n.biz_id,
    'status', coalesce(n.ended_as, CASE
        WHEN t.succeeded = t.people THEN 1 WHEN t.succeeded > 0 THEN 5 WHEN t.cancelled = t.people THEN 3 ELSE 2
    END),
    'created_at', n.created_at, 'counts', jsonb_build_object(
        'people', t.people, 'success', t.succeeded, 'failed', t.failed, 'cancelled', t.cancelled
    )
)::jsonb AS data
FROM notifications n
JOIN companies c ON c.id = n.company_id
JOIN channels h ON h.id = n.channel_id
CROSS JOIN LATERAL (
    SELECT count(*) AS people, count(*) FILTER (WHERE p.outcome = 2) AS succeeded, count(*) FILTER (WHERE p.outcome = 3) AS failed, -- SUCCESS, FAILED
        count(*) FILTER (WHERE p.outcome = 4) AS cancelled -- CANCELLED
    FROM (
        SELECT DISTINCT ON (m.user_id) l.outcome -- the last task of each person counts
        FROM renderings r
        JOIN messages m ON m.rendering_id = r.id AND m.task_id >= @from_id::text
        LEFT JOIN report_logs l ON l.task_id = m.task_id AND l.task_id >= @from_id::text AND l.outcome IS NOT NULL
        WHERE r.notification_id = n.id
        ORDER BY m.user_id, m.task_id DESC
    ) p
) t
WHERE n.id = ANY (@ids::bigint[]) AND (n.ended_as IS NOT NULL OR n.next_run_at IS NULL AND NOT EXISTS (
    SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id
) AND NOT EXISTS (
    SELECT FROM renderings r
    JOIN messages m ON m.rendering_id = r.id AND m.task_id >= @from_id::text
    JOIN feed_staged s ON s.task_id = m.task_id
    WHERE r.notification_id = n.id AND s.type IN ('message.sent', 'message.failed', 'message.expired', 'message.cancelled')
)) AND NOT EXISTS (
    SELECT FROM feed_staged s WHERE s.type = 'notification.finished' AND s.data ->> 'notification_id' = n.id::text
)
ORDER BY n.id;

-- FeedNotificationsAgain stages again, with the given times, that notifications have possibly ended.
-- name: FeedNotificationsAgain :exec
INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
SELECT n.company_id, n.submitted_by, 'notification.finished', x.at, jsonb_build_object('notification_id', n.id)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@ats::timestamptz[]) AS at) x
JOIN notifications n ON n.id = x.id
ORDER BY n.id;

-- FeedAppend adds events to the feed, in their order. An empty task_id and the log_id 0 mean no value.
-- name: FeedAppend :exec
INSERT INTO feed (company_id, submitted_by, type, task_id, log_id, at, data)
SELECT e.company_id, e.submitted_by, e.type, nullif(e.task_id, ''), nullif(e.log_id, 0), e.at, e.data
FROM (
    SELECT generate_series(1, cardinality(@company_ids::bigint[])) AS nth, unnest(@company_ids::bigint[]) AS company_id,
        unnest(@submitters::text[]) AS submitted_by, unnest(@types::text[]) AS type, unnest(@task_ids::text[]) AS task_id,
        unnest(@log_ids::bigint[]) AS log_id, unnest(@ats::timestamptz[]) AS at, unnest(@datas::jsonb[]) AS data
) e
ORDER BY e.nth;

-- FeedRead returns events after an id, oldest first: of one company or of all, and of one submitter or of all.
-- name: FeedRead :many
SELECT f.id, f.company_id, f.submitted_by, f.type, coalesce(f.task_id, '')::text AS task_id, coalesce(f.log_id, 0)::bigint AS log_id, f.at, f.data
FROM feed f
WHERE f.id > @after_id AND (sqlc.narg(company_id)::bigint IS NULL OR f.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(submitted_by)::text IS NULL OR f.submitted_by = sqlc.narg(submitted_by)::text)
ORDER BY f.id
LIMIT @page_limit::integer;

-- FeedEnds returns the largest deleted id, and the largest id that is or was visible.
-- name: FeedEnds :one
SELECT s.pruned_id, greatest(s.pruned_id, coalesce((SELECT max(f.id) FROM feed f), 0))::bigint AS last_id FROM feed_state s;

-- FeedNews returns the companies with events after an id.
-- name: FeedNews :many
SELECT DISTINCT f.company_id, f.submitted_by FROM feed f
WHERE f.id > @after_id AND f.id <= @last_id
ORDER BY f.company_id, f.submitted_by;

-- FeedTasks returns the data of the events of tasks: the message, and a row of report_logs. It returns no row for a task whose day was dropped.
-- name: FeedTasks :many
SELECT r.id AS log_id, m.task_id, c.company_no, m.phone_number, m.source, m.dedup_key, m.message_type, m.batch_id, d.notification_id, m.segments,
    m.is_test, m.created_at, r.outcome, r.event, r.effect, r.app_id, r.result, r.retry_count,
    coalesce(m.request_data ->> 'smsgate_id', '')::text AS smsgate_id -- the id of the SMSGate message of the task
FROM messages m
JOIN report_logs r ON r.task_id = m.task_id
LEFT JOIN renderings d ON d.id = m.rendering_id
LEFT JOIN companies c ON c.id = m.company_id
WHERE m.task_id = ANY (@task_ids::text[]) AND r.task_id = ANY (@task_ids::text[]) AND r.id = ANY (@log_ids::bigint[])
ORDER BY r.id;

-- FeedListeners returns the ids after which the events of a company, or of all companies, were recorded: for the company itself, and for listeners to all
-- companies. is_fresh is true if the company itself still listens for at least the given time.
-- name: FeedListeners :many
SELECT l.since_id, (
        coalesce(l.company_id, 0) = coalesce(sqlc.narg(company_id)::bigint, 0) AND l.listens_until > now() + @at_least::interval
    )::boolean AS is_fresh
FROM feed_listeners l
WHERE coalesce(l.company_id, 0) IN (0, coalesce(sqlc.narg(company_id)::bigint, 0)) AND (l.is_pushed OR l.listens_until > now())
ORDER BY l.since_id;

-- FeedListen records the events of a company, or of all companies, for the given time. It returns the id after which all of them were recorded: the id of its
-- first listener, or since_id if there was no listener until now.
-- name: FeedListen :one
INSERT INTO feed_listeners AS l (company_id, since_id, is_pushed, listens_until)
VALUES (sqlc.narg(company_id)::bigint, @since_id, @is_pushed, now() + @listens::interval)
ON CONFLICT (coalesce(company_id, 0)) DO UPDATE
SET since_id = CASE WHEN l.is_pushed OR l.listens_until > now() THEN l.since_id ELSE excluded.since_id END,
    is_pushed = l.is_pushed OR excluded.is_pushed, listens_until = greatest(l.listens_until, excluded.listens_until)
RETURNING l.since_id;

-- FeedOld returns up to batch_size events that are older than keep. It finds them by their time: if the clock was set back, events with smaller ids can have
-- later times.
-- name: FeedOld :many
SELECT f.id FROM feed f WHERE f.at < now() - @keep::interval ORDER BY f.at, f.id LIMIT @batch_size::integer;

-- WebhooksBehind returns and locks, until the end of the transaction, the webhooks that possibly still post an event up to last_id. A run of a webhook also
-- locks the webhook before it touches the feed.
-- name: WebhooksBehind :many
SELECT w.id FROM webhooks w
WHERE w.status = 'on'
    AND (w.after_id < @last_id OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id <= @last_id))
ORDER BY w.id
FOR NO KEY UPDATE;

-- FeedDeleteExpired deletes some events, and returns their number and the largest id. For each webhook of webhook_ids that still had to post one of them, it
-- adds an operator event.
-- name: FeedDeleteExpired :one
WITH gone AS (
    DELETE FROM feed f WHERE f.id = ANY (@ids::bigint[]) RETURNING f.id, f.company_id, f.submitted_by, f.type
),
lost AS (
    SELECT w.id, w.company_id, count(*) AS events, min(g.id) AS first_id, max(g.id) AS last_id
    FROM webhooks w
    LEFT JOIN users u ON u.id = w.user_id
    JOIN gone g ON (w.company_id IS NULL OR g.company_id = w.company_id) AND (w.user_id IS NULL OR g.submitted_by = u.username)
    WHERE w.id = ANY (@webhook_ids::bigint[]) AND (
        (g.id > w.after_id AND g.type = ANY (w.events)) OR EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.feed_id = g.id)
    )
    GROUP BY w.id
),
told AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'webhook.lost', l.id::text, jsonb_build_object(
        'events', l.events, 'first_event_id', 'evt_' || l.first_id, 'last_event_id', 'evt_' || l.last_id,
        'company_no', (SELECT c.company_no FROM companies c WHERE c.id = l.company_id)
    )
    FROM lost l
)
SELECT count(*) AS events, coalesce(max(g.id), 0)::bigint AS last_id FROM gone g;

-- FeedPruned records that events were deleted.
-- name: FeedPruned :exec
UPDATE feed_state s SET pruned_id = greatest(s.pruned_id, @pruned_id::bigint);

-- FeedListenersDeleteUnused deletes listeners whose time has passed.
-- name: FeedListenersDeleteUnused :execrows
DELETE FROM feed_listeners l WHERE NOT l.is_pushed AND l.listens_until < now();
