-- Statements on notifications. A notification announces a business event to people on one channel.
--   states of notifications  0 waiting, 1 success, 2 failed, 3 cancelled, 4 ended abnormally, 5 partly failed
--   states of tasks          0 PENDING, 1 PROCESSING, 2 SUCCESS, 3 FAILED, 4 CANCELLED
-- The view notification_standings computes the state of a notification. If notifications.ended_as is set, ended_as is the state. biz_type 5 is the reminder
-- that a node has not ended in time.

-- Now returns the start time of the transaction. All statements of a transaction use this time for their decisions.
-- name: Now :one
SELECT now()::timestamptz AS at;

-- BusinessLock lets only one transaction at a time process the business events of a task. Later statements of the transaction see the changes of earlier
-- events.
-- name: BusinessLock :one
SELECT l.slot FROM business_locks l
WHERE l.slot = hashtextextended(@company_id::bigint || ' ' || @task_id::bigint, 0) & 255
FOR UPDATE;

-- BusinessEnds returns when a business task and one of its nodes ended. A task or node that has not ended is not returned.
-- name: BusinessEnds :many
SELECT e.subject, e.ended_at, e.awaits_start
FROM business_ends e
WHERE e.company_id = @company_id AND (
    (e.subject = 'task' AND e.subject_id = @task_id) OR (e.subject = 'node' AND e.subject_id = sqlc.narg(node_id)::bigint)
)
ORDER BY e.subject;

-- BusinessEndPut records that a task or a node has ended.
-- name: BusinessEndPut :exec
INSERT INTO business_ends AS e (company_id, subject, subject_id, ended_at, awaits_start)
VALUES (@company_id, @subject, @subject_id, @ended_at, @awaits_start)
ON CONFLICT (company_id, subject, subject_id) DO UPDATE
SET ended_at = greatest(e.ended_at, excluded.ended_at), awaits_start = excluded.awaits_start, recorded_at = excluded.recorded_at;

-- BusinessEndNodes records that nodes of a business task have ended with the task.
-- name: BusinessEndNodes :exec
INSERT INTO business_ends AS e (company_id, subject, subject_id, ended_at)
SELECT @company_id, 'node', unnest(@node_ids::bigint[]), @ended_at::timestamptz
ON CONFLICT (company_id, subject, subject_id) DO UPDATE
SET ended_at = greatest(e.ended_at, excluded.ended_at), recorded_at = excluded.recorded_at;

-- name: BusinessEndDelete :exec
DELETE FROM business_ends e WHERE e.company_id = @company_id AND e.subject = @subject AND e.subject_id = @subject_id;

-- BusinessStarts returns the known starts of each node of a business task, and of the node node_id. Each start has a reminder, even a start that arrived too late.
-- reported_at: the latest start that was posted with a time. reported_until: the latest of these starts up to `until`. A start that was posted without a time
-- has the time of the clock of the database at which its first reminder was created (assumed). It cannot be compared with an end that the clock of the caller
-- measured. runs_since: the latest start that still holds the dedup key of the node. All these times are epoch if no such start exists. has_any is true if the
-- node has reminders, including reminders without an event.
-- name: BusinessStarts :many
SELECT n.biz_id AS node_id,
    bool_or(n.biz_task_id IS NOT DISTINCT FROM @task_id::bigint)::boolean AS is_of_task,
    bool_or(n.deleted_at IS NULL AND n.replaced_at IS NULL)::boolean AS has_any,
    coalesce(max(n.started_at) FILTER (WHERE assumed.id IS NULL), 'epoch')::timestamptz AS reported_at,
    coalesce(max(n.started_at) FILTER (WHERE assumed.id IS NULL AND n.started_at <= @until::timestamptz), 'epoch')::timestamptz AS reported_until,
    coalesce(max(n.started_at) FILTER (WHERE n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.biz_task_id IS NOT NULL), 'epoch')::timestamptz AS runs_since
FROM notifications n
LEFT JOIN notifications assumed ON assumed.company_id = n.company_id AND assumed.biz_type = 5 AND assumed.biz_id = n.biz_id
    AND assumed.created_at = n.started_at
WHERE n.company_id = @company_id AND n.biz_type = 5 -- node timeout
    AND (n.biz_task_id = @task_id::bigint OR n.biz_id = sqlc.narg(node_id)::bigint)
GROUP BY n.biz_id
ORDER BY n.biz_id;

-- NodeRemindersMoved locks and returns the reminders of a node whose start, maximum duration or interval differs from the given values. It returns the reminders
-- on all channels, because the deadline of the node is the same on all channels. Cancelled reminders on channels that are not in `channels` are not returned.
-- is_waiting is true if the reminder has not ended.
-- name: NodeRemindersMoved :many
WITH reminders AS MATERIALIZED (
    SELECT n.*
    FROM notifications n
    WHERE n.company_id = @company_id AND n.biz_type = 5 AND n.biz_id = @node_id AND n.biz_task_id IS NOT NULL -- node timeout, of an event
        AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        AND (
            n.started_at <> @started_at::timestamptz
            OR (n.own_payload ->> 'maxDuration')::bigint IS DISTINCT FROM @max_minutes::bigint
            OR n.repeat_minutes IS DISTINCT FROM sqlc.narg(repeat_minutes)
        )
    ORDER BY n.id
    FOR UPDATE OF n
)
SELECT r.id, c.channel, (x.status = 0)::boolean AS is_waiting
FROM reminders r
JOIN channels c ON c.id = r.channel_id
CROSS JOIN LATERAL (SELECT v.status FROM notification_standings v WHERE v.notification_id = r.id OFFSET 0) x -- see NotificationStatuses
WHERE x.status <> 3 OR c.channel = ANY (@channels::text[]) -- 3 cancelled
ORDER BY r.id;

-- BusinessKeysReplace releases the dedup keys of a business task that begins again, so that its events can use the same keys: those of done nodes, reminders of
-- orbits, and ends of the task. node_id: only this node begins again, and only its key of a done node is released.
-- name: BusinessKeysReplace :exec
UPDATE notifications n SET replaced_at = now()
WHERE n.company_id = @company_id AND n.biz_task_id = @task_id AND n.deleted_at IS NULL AND n.replaced_at IS NULL
    AND CASE WHEN sqlc.narg(node_id)::bigint IS NULL THEN n.biz_type IN (1, 2, 3, 4) -- node done, orbit reminder, task finished, task abnormal
        ELSE n.biz_type = 1 AND n.biz_id = sqlc.narg(node_id)::bigint END;

-- BusinessReminders locks the reminders of nodes of a business task and, if of_orbits is true, its reminders of orbits. It returns their ids. Like NotificationLock, it
-- waits for a run of a notification.
-- name: BusinessReminders :many
SELECT n.id FROM notifications n
WHERE n.company_id = @company_id AND n.biz_task_id = @task_id AND n.deleted_at IS NULL AND n.forgotten_at IS NULL
    AND (n.biz_type = 5 AND n.biz_id = ANY (@node_ids::bigint[]) OR n.biz_type = 2 AND @of_orbits::boolean) -- node timeout, orbit reminder
ORDER BY n.id
FOR UPDATE;

-- NodeRemindersReplace releases the dedup keys of a node's reminders, so that the reminders of the next start can use the same keys.
-- name: NodeRemindersReplace :exec
UPDATE notifications n SET replaced_at = now()
WHERE n.company_id = @company_id AND n.biz_type = 5 AND n.biz_id = @node_id -- node timeout
    AND n.deleted_at IS NULL AND n.replaced_at IS NULL;

-- NotificationCreate adds a notification. If a notification with the same dedup_key exists (S1.3), the statement returns no row. It waits until the transaction
-- that created the other notification has committed. Keys of business events, keys of callers and keys of the service itself are separate (dedup_key_owner), so
-- that a caller cannot use the key of a business event in advance. ON CONFLICT names no index, because the unique index of the previous version also counts.
-- announcement_id null: the statement also creates the announcement, from payload and user_ids or tag. The foreign key is checked at the end of the statement.
-- is_replaced: the dedup_key is released immediately.
-- name: NotificationCreate :one
WITH made AS (
    INSERT INTO notifications (
        company_id, channel_id, biz_type, biz_id, biz_task_id, dedup_key, announcement_id, own_payload, next_run_at, repeat_minutes,
        started_at, ended_as, operator, submitted_by, sign, expires_at, replaced_at, is_companys
    )
    SELECT @company_id, c.id, @biz_type, @biz_id, sqlc.narg(biz_task_id), sqlc.narg(dedup_key),
        coalesce(sqlc.narg(announcement_id)::bigint, nextval('announcements_id_seq')), @own_payload,
        CASE WHEN sqlc.narg(ended_as)::smallint IS NULL THEN coalesce(sqlc.narg(next_run_at)::timestamptz, now()) END,
        sqlc.narg(repeat_minutes), sqlc.narg(started_at), sqlc.narg(ended_as)::smallint, sqlc.narg(operator), @submitted_by,
        sqlc.narg(sign), sqlc.narg(expires_at), CASE WHEN @is_replaced::boolean THEN now() END, true
    FROM channels c
    WHERE c.channel = @channel
    ON CONFLICT DO NOTHING
    RETURNING id, announcement_id
),
announced AS (
    INSERT INTO announcements (id, payload, user_ids, tag)
    SELECT m.announcement_id, @payload::jsonb, @user_ids::text[], sqlc.narg(tag)::text FROM made m WHERE sqlc.narg(announcement_id)::bigint IS NULL
)
SELECT m.id, m.announcement_id FROM made m;

-- NotificationsWaiting counts the notifications of a company that are scheduled for a later run. It counts at most max_rows notifications.
-- name: NotificationsWaiting :one
SELECT count(*) FROM (
    SELECT FROM notifications n WHERE n.company_id = @company_id AND n.next_run_at IS NOT NULL LIMIT @max_rows::bigint
) w;

-- NotificationFind returns the notification with a dedup_key, and its state. If biz_task_id is given, the statement searches the keys of business events.
-- Otherwise it searches the keys of callers, or of the service itself, see dedup_key_owner. In the previous version, several submitters could use the same key.
-- The oldest notification is then returned.
-- name: NotificationFind :one
SELECT n.id, o.status
FROM notifications n
JOIN channels c ON c.id = n.channel_id
CROSS JOIN LATERAL (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0) o -- see NotificationStatuses
WHERE n.company_id = @company_id AND c.channel = @channel AND n.dedup_key = @dedup_key::text
    AND dedup_key_owner(n.biz_task_id, n.submitted_by) = dedup_key_owner(sqlc.narg(biz_task_id)::bigint, @submitted_by::text)
    AND n.deleted_at IS NULL AND n.replaced_at IS NULL
ORDER BY n.id
LIMIT 1;

-- NotificationHold locks a notification.
-- name: NotificationHold :exec
SELECT FROM notifications n WHERE n.id = @id FOR UPDATE;

-- NotificationFree releases the dedup_key of a notification that failed, or that blocks cancelled, and that reached nobody. It returns the reason. The caller has
-- locked the notification. It returns no row if the notification has another state, if the key is already released, or if the notification possibly reached a
-- person. A person was possibly reached if a provider accepted a message, the outcome of a message is unclear, or a lease expired. blocked: the result of a task
-- that a block cancelled.
-- name: NotificationFree :one
UPDATE notifications n SET replaced_at = now()
WHERE n.id = @id::bigint AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
    AND CASE (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id)
        WHEN 2 THEN true -- failed
        WHEN 3 THEN n.ended_as IS NULL AND NOT EXISTS ( -- cancelled, but no user cancelled the notification or a task
            SELECT FROM renderings r
            JOIN tasks t ON t.rendering_id = r.id
            WHERE r.notification_id = n.id AND t.status = 4 AND t.result IS DISTINCT FROM @blocked::text -- CANCELLED
        )
        ELSE false
    END
    AND NOT EXISTS (
        SELECT FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = n.id AND (
            t.status IN (0, 1, 2) -- PENDING, PROCESSING, SUCCESS
            OR EXISTS (
                SELECT FROM report_logs l
                WHERE l.task_id = t.task_id AND (l.event = 'recovered' OR l.effect IN ('success', 'unclear', 'delivered', 'undelivered'))
            )
            OR EXISTS (SELECT FROM deliveries d WHERE d.task_id = t.task_id)
        )
    )
RETURNING coalesce(n.remark, (
    SELECT t.result FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = n.id
    ORDER BY t.task_id DESC
    LIMIT 1
), '')::text AS remark;

-- OrbitReminders locks and returns the reminders of a business task that a new plan of orbits changes. in_times: the new time of each orbit of orbit_nos.
-- is_waiting is true if a person has not been reminded yet. A reminder is returned if the time of its orbit in the new plan differs. A cancelled reminder is
-- also returned, because the plan is new. A sent reminder is returned only if its new due time is at or after its expiry, so that people are reminded of the
-- new time. life: the time from the due time of a reminder to its expiry. The old time of the orbit is therefore expires_at - life + remainMin. The statement
-- returns reminders on all channels, because the time of the orbit is the same on all channels. A cancelled reminder is returned only if its channel is in `channels`.
-- name: OrbitReminders :many
WITH stale AS MATERIALIZED (
    SELECT n.id, n.channel_id, n.expires_at, o.orbit_no, o.in_time - make_interval(mins => (n.own_payload ->> 'remainMin')::integer) AS due_at
    FROM notifications n
    JOIN (SELECT unnest(@orbit_nos::bigint[]) AS orbit_no, unnest(@in_times::timestamptz[]) AS in_time) o
        ON n.own_payload ->> 'orbitNo' = o.orbit_no::text
    WHERE n.company_id = @company_id AND n.biz_type = 2 AND n.biz_id = @task_id AND n.biz_task_id = @task_id -- orbit reminder
        AND coalesce(n.ended_as, 3) = 3 AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL -- null: not ended, 3: cancelled
        AND n.expires_at - sqlc.arg(life)::interval <> o.in_time - make_interval(mins => (n.own_payload ->> 'remainMin')::integer)
    ORDER BY n.id
    FOR UPDATE OF n
)
SELECT s.id, s.orbit_no::bigint AS orbit_no, c.channel, (x.status = 0)::boolean AS is_waiting
FROM stale s
JOIN channels c ON c.id = s.channel_id
CROSS JOIN LATERAL (SELECT v.status FROM notification_standings v WHERE v.notification_id = s.id OFFSET 0) x -- see NotificationStatuses
WHERE (x.status IN (0, 3) OR s.due_at >= s.expires_at) AND (x.status <> 3 OR c.channel = ANY (@channels::text[])) -- 0 waiting, 3 cancelled
ORDER BY s.id;

-- RemindersReplace releases the dedup keys of reminders, so that the reminders of the new times can use the same keys. It cancels the reminders of waiting_ids.
-- name: RemindersReplace :exec
UPDATE notifications n
SET replaced_at = now(), ended_as = CASE WHEN n.id = ANY (@waiting_ids::bigint[]) THEN 3 ELSE n.ended_as END, next_run_at = NULL, run_rendering_id = NULL, -- 3 cancelled
    run_after = NULL, operator = coalesce(sqlc.narg(operator), n.operator), changed_by = @changed_by::text, updated_at = now()
WHERE n.id = ANY (@ids::bigint[]);

-- NotificationsDue returns up to batch_size due notifications, and how many people each of them reaches now; a notification to a tag reaches a portion of them.
-- The companies take turns: first the oldest notification of each company, then the second of each. It moves through notifications_company_due_idx from each
-- company to the next, so its cost does not depend on the number of notifications. It reads no company if no notification is due.
-- name: NotificationsDue :many
WITH RECURSIVE waiting AS (
    (
        SELECT n.company_id FROM notifications n
        WHERE n.next_run_at IS NOT NULL AND now() >= (
            SELECT d.next_run_at FROM notifications d WHERE d.next_run_at IS NOT NULL ORDER BY d.next_run_at LIMIT 1 -- by notifications_due_idx
        )
        ORDER BY n.company_id
        LIMIT 1
    )
    UNION ALL
    SELECT o.company_id
    FROM waiting w
    CROSS JOIN LATERAL (
        SELECT n.company_id FROM notifications n WHERE n.next_run_at IS NOT NULL AND n.company_id > w.company_id ORDER BY n.company_id LIMIT 1
    ) o
),
turns AS MATERIALIZED (
    SELECT d.*
    FROM waiting w
    CROSS JOIN LATERAL (
        SELECT n.id, n.company_id, n.announcement_id, n.next_run_at, row_number() OVER (ORDER BY n.next_run_at) AS turn
        FROM notifications n
        WHERE n.company_id = w.company_id AND n.next_run_at <= now() AND n.deleted_at IS NULL AND n.ended_as IS NULL
        ORDER BY n.next_run_at
        LIMIT @batch_size::integer
    ) d
    ORDER BY d.turn, d.next_run_at, d.id
    LIMIT @batch_size::integer
)
SELECT t.id, t.company_id, (CASE WHEN a.tag IS NULL THEN cardinality(a.user_ids) ELSE @portion::integer END)::integer AS people
FROM turns t
JOIN announcements a ON a.id = t.announcement_id
ORDER BY t.turn, t.next_run_at, t.id;

-- NotificationDue locks and returns those notifications of `ids` that are due. The statement reads no task, because the first run of a notification must not wait
-- while a partition is locked.
-- name: NotificationDue :many
WITH due AS MATERIALIZED (
    SELECT n.*
    FROM notifications n
    WHERE n.id = ANY (@ids::bigint[]) AND n.next_run_at <= now() AND n.deleted_at IS NULL AND n.ended_as IS NULL
    ORDER BY n.next_run_at
    FOR UPDATE SKIP LOCKED
)
SELECT d.id, d.company_id, c.channel, d.biz_type, (a.payload || d.own_payload)::jsonb AS payload, a.user_ids, a.tag, d.repeat_minutes,
    d.run_rendering_id, coalesce(d.run_after, '')::text AS run_after,
    d.submitted_by, m.title, m.content, m.html, m.external_id, coalesce(d.sign, m.sign, '')::text AS sign,
    coalesce(floor(extract(epoch FROM now() - d.started_at) / 60), 0)::bigint AS elapsed_minutes,
    (d.started_at IS NOT NULL)::boolean AS is_timed, (greatest(c.updated_at, o.updated_at) > d.created_at)::boolean AS is_older, d.expires_at, coalesce(d.expires_at <= now(), false)::boolean AS is_expired,
    EXISTS (SELECT FROM renderings r WHERE r.notification_id = d.id AND r.id IS DISTINCT FROM d.run_rendering_id) AS has_run
FROM due d
JOIN channels c ON c.id = d.channel_id
JOIN companies o ON o.id = d.company_id
JOIN announcements a ON a.id = d.announcement_id
LEFT JOIN effective_notification_templates m ON m.company_id = d.company_id AND m.biz_type = d.biz_type AND m.channel_id = d.channel_id
ORDER BY d.next_run_at;

-- NotificationWaits returns how many seconds remain until a repeating notification can run again. The notification runs again repeat_minutes after its last
-- message succeeded or failed (S1.5). A message that was not tried yet and is not due, for example because a cap delays it, does not delay the others.
-- name: NotificationWaits :many
SELECT n.id,
    CASE
        WHEN last.is_open THEN 60 -- a message is still in progress: check again in a minute
        WHEN last.ended_at IS NULL THEN 0
        ELSE greatest(0, extract(epoch FROM last.ended_at + make_interval(mins => n.repeat_minutes::integer) - now()))
    END::double precision AS wait
FROM notifications n
CROSS JOIN LATERAL (
    -- 0 PENDING, 1 PROCESSING
    SELECT max(t.reported_at) AS ended_at,
        bool_or(t.status = 1 OR t.status = 0 AND (t.retry_count > 0 OR t.due_at <= now()))
            OR bool_or(t.status = 0) AND NOT bool_or(t.status > 1) AS is_open
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = n.id
) last
WHERE n.id = ANY (@ids::bigint[])
ORDER BY n.id;

-- NotificationNext schedules the next run of a notification in `seconds` from now. seconds null: the notification does not run again. A run after the expiry of
-- the notification is not scheduled. The remark of the last run is cleared.
-- name: NotificationNext :exec
UPDATE notifications n
SET next_run_at = CASE WHEN r.at >= n.expires_at THEN NULL ELSE r.at END, remark = NULL, run_rendering_id = NULL, run_after = NULL, updated_at = now()
FROM (SELECT now() + make_interval(secs => sqlc.narg(seconds)::double precision) AS at) r
WHERE n.id = @id;

-- NotificationAdvance records that a run has created the tasks of the contacts of a tag up to run_after. The notification remains due for the following
-- contacts, but other due notifications run first.
-- name: NotificationAdvance :exec
UPDATE notifications n
SET run_rendering_id = @rendering_id::bigint, run_after = @run_after::text, next_run_at = now(), remark = NULL, updated_at = now()
WHERE n.id = @id;

-- RenderingText returns the text of a rendering.
-- name: RenderingText :one
SELECT r.title, r.content, r.html, r.template_id, r.params, r.is_template FROM renderings r WHERE r.id = @id;

-- NotificationFail records why a notification cannot be sent. If a repeating notification was sent before, its state does not change. It runs again after its
-- interval, unless it expires first. Any other notification becomes failed (is_failed). The statement returns no row if the notification ended or was deleted
-- meanwhile.
-- name: NotificationFail :one
UPDATE notifications n
SET ended_as = CASE WHEN NOT r.goes_on THEN 2 END, -- 2 failed
    next_run_at = CASE WHEN r.goes_on AND r.at < coalesce(n.expires_at, 'infinity') THEN r.at END, -- without expires_at, there is no limit
    run_rendering_id = NULL, run_after = NULL, remark = left(@remark::text, 255), updated_at = now()
FROM (
    SELECT f.id, now() + make_interval(mins => f.repeat_minutes::integer) AS at,
        f.repeat_minutes IS NOT NULL AND EXISTS (SELECT FROM renderings r WHERE r.notification_id = f.id) AS goes_on
    FROM notifications f
    WHERE f.id = @id
) r
WHERE n.id = r.id AND n.ended_as IS NULL AND n.deleted_at IS NULL
RETURNING (n.ended_as IS NOT NULL)::boolean AS is_failed;

-- NotificationStatuses returns the states of up to scan_limit notifications, for lists that are filtered by state.
-- name: NotificationStatuses :many
SELECT n.id, o.status
FROM notifications n
JOIN channels c ON c.id = n.channel_id
-- OFFSET 0 forces one lookup in the view for each notification. A join would compute the view for all notifications.
CROSS JOIN LATERAL (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0) o
WHERE n.company_id = coalesce(sqlc.narg(company_id)::bigint, n.company_id) AND n.deleted_at IS NULL AND n.forgotten_at IS NULL AND n.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(submitted_by)::text IS NULL OR n.submitted_by = sqlc.narg(submitted_by)::text)
    AND (sqlc.narg(biz_type)::smallint IS NULL OR n.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(biz_id)::bigint IS NULL OR n.biz_id = sqlc.narg(biz_id)::bigint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
    AND (sqlc.narg(user_id)::text IS NULL OR n.announcement_id IN (
        SELECT a.id FROM announcements a WHERE a.user_ids @> ARRAY[sqlc.narg(user_id)::text]
    ))
ORDER BY n.id DESC
LIMIT @scan_limit::integer;

-- NotificationOutcomes returns the states of notifications, in the order of their ids. The remark is empty if submitted_by is not the submitter of the
-- notification.
-- name: NotificationOutcomes :many
SELECT n.id, o.status, CASE WHEN n.submitted_by = @submitted_by::text THEN coalesce(n.remark, '') ELSE '' END::text AS remark
FROM notifications n
CROSS JOIN LATERAL (SELECT s.status FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0) o -- see NotificationStatuses
WHERE n.id = ANY (@ids::bigint[])
ORDER BY n.id;

-- NotificationFailures returns the people that the notifications of a submitter did not reach, and the reasons. Only the last task of each person counts.
-- name: NotificationFailures :many
SELECT l.notification_id::bigint AS notification_id, coalesce(l.user_id, '')::text AS user_id, coalesce(l.result, '')::text AS reason
FROM (
    SELECT DISTINCT ON (r.notification_id, t.user_id) r.notification_id, t.user_id, t.status, t.result
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = ANY (@ids::bigint[]) AND t.submitted_by = @submitted_by::text
    ORDER BY r.notification_id, t.user_id, t.task_id DESC
) l
WHERE l.status = 3 -- FAILED
ORDER BY l.notification_id, l.user_id
LIMIT @max_rows::integer;

-- NotificationAnnouncement returns the payload of a notification, and the users or the tag to which it is sent.
-- name: NotificationAnnouncement :one
SELECT (a.payload || n.own_payload)::jsonb AS payload, a.user_ids, a.tag
FROM notifications n
JOIN announcements a ON a.id = n.announcement_id
WHERE n.id = @id;

-- NotificationList returns notifications, newest first. Their states are computed from their tasks.
-- name: NotificationList :many
SELECT n.id, n.company_id, w.company_no, c.channel, n.biz_type, n.biz_id, n.dedup_key, n.repeat_minutes, n.started_at, n.expires_at, n.sign,
    n.remark, n.operator, n.submitted_by, n.changed_by, n.created_at, n.updated_at, o.status, o.next_run_time, o.people, o.succeeded, o.retries
FROM notifications n
JOIN companies w ON w.id = n.company_id
JOIN channels c ON c.id = n.channel_id
CROSS JOIN LATERAL (
    SELECT s.status, s.next_run_time, s.people, s.succeeded, s.retries FROM notification_standings s WHERE s.notification_id = n.id OFFSET 0
) o -- see NotificationStatuses
WHERE n.company_id = coalesce(sqlc.narg(company_id)::bigint, n.company_id) AND n.deleted_at IS NULL AND n.forgotten_at IS NULL AND n.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(id)::bigint IS NULL OR n.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(submitted_by)::text IS NULL OR n.submitted_by = sqlc.narg(submitted_by)::text)
    AND (sqlc.narg(biz_type)::smallint IS NULL OR n.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(biz_id)::bigint IS NULL OR n.biz_id = sqlc.narg(biz_id)::bigint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
    AND (sqlc.narg(user_id)::text IS NULL OR n.announcement_id IN (
        SELECT a.id FROM announcements a WHERE a.user_ids @> ARRAY[sqlc.narg(user_id)::text]
    ))
    AND (sqlc.narg(ids)::bigint[] IS NULL OR n.id = ANY (sqlc.narg(ids)::bigint[]))
ORDER BY n.id DESC
LIMIT @page_limit::integer;

-- NotificationPeople returns the state of the last message to each person, in the codes of notifications: 0 waiting, 1 success, 2 failed, 3 cancelled, 4 ended
-- abnormally. A person without a task has the state and the remark of the notification. If the notification has a tag, the statement returns the first
-- max_people people who have a task.
-- name: NotificationPeople :many
WITH latest AS MATERIALIZED (
    SELECT DISTINCT ON (t.user_id) t.user_id, t.task_id, count(*) OVER (PARTITION BY t.user_id) AS times
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = @id::bigint
    ORDER BY t.user_id, t.task_id DESC
)
SELECT u.user_id::text AS user_id, coalesce(l.task_id, '')::text AS task_id, coalesce(l.recipient, '')::text AS recipient,
    CASE l.status -- the state of the task; null if no task exists
        WHEN 2 THEN 1
        WHEN 3 THEN 2
        WHEN 4 THEN CASE n.ended_as WHEN 4 THEN 4 ELSE 3 END
        ELSE CASE WHEN l.task_id IS NULL THEN coalesce(n.ended_as, 0) ELSE 0 END
    END::smallint AS status,
    l.delivery, l.delivery_code,
    coalesce(l.retry_count, 0)::smallint AS retry_count, coalesce(l.due_at, n.next_run_at, n.created_at)::timestamptz AS due_at, l.sent_at,
    CASE WHEN l.status = 2 THEN '' WHEN l.task_id IS NULL THEN coalesce(n.remark, '') ELSE coalesce(l.result, '') END::text AS last_error,
    (
        SELECT d.provider_no FROM deliveries d WHERE d.task_id = l.task_id AND d.provider_no IS NOT NULL ORDER BY d.id DESC LIMIT 1
    ) AS provider_no,
    coalesce(x.times, 0)::bigint AS times
FROM notifications n
JOIN announcements a ON a.id = n.announcement_id
CROSS JOIN LATERAL (
    SELECT p.user_id FROM unnest(a.user_ids) AS p (user_id)
    UNION ALL
    (SELECT t.user_id FROM latest t WHERE a.tag IS NOT NULL ORDER BY t.user_id LIMIT @max_people::integer)
) u
LEFT JOIN latest x ON x.user_id = u.user_id
LEFT JOIN tasks l ON l.task_id = x.task_id
WHERE n.id = @id::bigint
ORDER BY u.user_id;

-- NotificationReceipts returns two numbers of people, according to the receipts of their last messages: people whose message was delivered, and people whose
-- message was not delivered.
-- name: NotificationReceipts :one
SELECT count(*) FILTER (WHERE p.delivery = 1) AS delivered, count(*) FILTER (WHERE p.delivery = 2) AS undelivered
FROM (
    SELECT DISTINCT ON (t.user_id) t.delivery
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = @id::bigint
    ORDER BY t.user_id, t.task_id DESC
) p;

-- NotificationReached returns the people whom a notification reached or can still reach. user_ids null: all people of the notification. is_repeating: only the people
-- whom it can still reach.
-- name: NotificationReached :many
SELECT DISTINCT t.user_id::text AS user_id
FROM renderings r
JOIN tasks t ON t.rendering_id = r.id
WHERE r.notification_id = @id::bigint AND (t.status IN (0, 1) OR t.status = 2 AND NOT @is_repeating::boolean) -- PENDING, PROCESSING, SUCCESS
    AND (sqlc.narg(user_ids)::text[] IS NULL OR t.user_id = ANY (sqlc.narg(user_ids)::text[]))
ORDER BY user_id;

-- NotificationCountries returns the countries of the waiting and leased tasks of a notification. An empty text is an unknown country, and the country of other
-- messages than short messages.
-- name: NotificationCountries :many
SELECT DISTINCT coalesce(q.country_no, '')::text AS country_no
FROM renderings r
JOIN queue q ON q.rendering_id = r.id
WHERE r.notification_id = @notification_id
ORDER BY country_no;

-- NotificationLock locks the notifications of biz_types that have a biz_id in biz_ids. A run of a notification holds the same lock. After the wait for the lock,
-- the tasks of this run are visible.
-- name: NotificationLock :many
SELECT n.id FROM notifications n
WHERE n.company_id = @company_id AND n.deleted_at IS NULL AND n.forgotten_at IS NULL AND n.biz_type = ANY (@biz_types::smallint[])
    AND n.biz_id = ANY (@biz_ids::bigint[])
    AND (sqlc.narg(owner)::text IS NULL OR n.submitted_by = sqlc.narg(owner)::text)
ORDER BY n.id
FOR UPDATE;

-- NotificationSet sets the notifications of `ids` whose state is in `expected` to the state target, and returns them (S1.6). target 0 (waiting): the
-- notification runs now, unless it has expired, or a later notification uses its dedup_key. The caller withdraws the tasks.
-- name: NotificationSet :many
WITH changed AS (
    UPDATE notifications n
    SET ended_as = nullif(@target::smallint, 0), next_run_at = CASE WHEN @target::smallint = 0 THEN now() END,
        run_rendering_id = NULL, run_after = NULL, remark = CASE WHEN @target::smallint = 0 THEN NULL ELSE n.remark END, operator = coalesce(sqlc.narg(operator), n.operator),
        changed_by = @changed_by::text, updated_at = now()
    FROM notification_standings s
    WHERE n.id = ANY (@ids::bigint[]) AND s.notification_id = n.id AND s.status = ANY (@expected::smallint[])
        AND (@target::smallint > 0 OR (s.status > 0 AND n.replaced_at IS NULL AND (n.expires_at > now()) IS NOT FALSE))
    RETURNING n.id
)
SELECT c.id FROM changed c ORDER BY c.id;

-- NotificationDelete marks notifications as deleted, and releases their dedup keys.
-- name: NotificationDelete :execrows
UPDATE notifications n
SET deleted_at = now(), next_run_at = NULL, run_rendering_id = NULL, run_after = NULL, operator = coalesce(sqlc.narg(operator), n.operator),
    changed_by = @changed_by::text, updated_at = now()
WHERE n.id = ANY (@ids::bigint[]) AND n.deleted_at IS NULL;

-- NotificationsForget removes up to batch_size notifications that have ended and were created before `before`, and returns their number. It removes those with a
-- task whose id is at least first_id and less than before_id, and those without tasks. A notification whose dedup_key is still in use keeps its row with its
-- last state, but without its data. The rows of all others are deleted. The caller runs the statement before the tasks are dropped, because the state and the
-- recipients are computed from the tasks.
-- name: NotificationsForget :one
WITH old AS MATERIALIZED (
    SELECT n.id, n.announcement_id, (n.dedup_key IS NULL OR n.deleted_at IS NOT NULL OR n.replaced_at IS NOT NULL) AS is_nameless
    FROM notifications n
    WHERE n.forgotten_at IS NULL AND n.created_at < @before::timestamptz AND n.next_run_at IS NULL
        AND NOT EXISTS (SELECT FROM renderings r JOIN queue q ON q.rendering_id = r.id WHERE r.notification_id = n.id)
        AND (
            EXISTS (
                SELECT FROM renderings r JOIN messages m ON m.rendering_id = r.id
                WHERE r.notification_id = n.id AND m.task_id >= @first_id::text AND m.task_id < @before_id::text
            )
            OR NOT EXISTS (SELECT FROM renderings r JOIN messages m ON m.rendering_id = r.id WHERE r.notification_id = n.id)
        )
    ORDER BY n.created_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
ended AS (
    UPDATE notifications n
    SET forgotten_at = now(), ended_as = s.status, own_payload = '{}'
    FROM old
    -- OFFSET 0 as in NotificationStatuses
    CROSS JOIN LATERAL (SELECT v.status FROM notification_standings v WHERE v.notification_id = old.id OFFSET 0) s
    WHERE n.id = old.id AND NOT old.is_nameless
),
deleted AS (
    DELETE FROM notifications n USING old WHERE n.id = old.id AND old.is_nameless
),
announced AS MATERIALIZED (
    SELECT o.announcement_id, bool_and(o.is_nameless) AND NOT bool_or(k.is_other) AS is_deleted
    FROM (SELECT DISTINCT announcement_id, is_nameless FROM old) o
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM notifications n WHERE n.announcement_id = o.announcement_id AND n.id NOT IN (SELECT old.id FROM old)) AS is_other,
            EXISTS (
                SELECT FROM notifications n
                WHERE n.announcement_id = o.announcement_id AND n.forgotten_at IS NULL AND n.id NOT IN (SELECT old.id FROM old)
            ) AS is_in_use
    ) k
    WHERE NOT k.is_in_use
    GROUP BY o.announcement_id
),
emptied AS (
    UPDATE announcements a SET payload = '{}', user_ids = '{}' FROM announced d WHERE a.id = d.announcement_id AND NOT d.is_deleted
),
silenced AS (
    DELETE FROM announcements a USING announced d WHERE a.id = d.announcement_id AND d.is_deleted
)
SELECT count(*) FROM old;

-- NotificationsHold returns up to max_tasks tasks with ids from first_id up to, but without, before_id. The tasks belong to notifications that are being sent and
-- do not repeat. These tasks must not be dropped, because they are the only record of the people whom the notifications have reached.
-- name: NotificationsHold :many
SELECT m.task_id
FROM notifications n
JOIN renderings r ON r.notification_id = n.id
JOIN messages m ON m.rendering_id = r.id
WHERE n.forgotten_at IS NULL AND n.deleted_at IS NULL AND n.repeat_minutes IS NULL
    AND (
        n.next_run_at IS NOT NULL
        OR n.id IN (SELECT o.notification_id FROM queue q JOIN renderings o ON o.id = q.rendering_id)
    )
    AND m.task_id >= @first_id::text AND m.task_id < @before_id::text
ORDER BY m.task_id
LIMIT @max_tasks::integer;

-- RenderingsDeleteUnused deletes up to batch_size renderings that were created on dropped days and are no longer used. It skips partitions that are being
-- imported.
-- name: RenderingsDeleteUnused :execrows
DELETE FROM renderings r
USING (
    SELECT x.id
    FROM task_partitions p
    CROSS JOIN LATERAL (
        SELECT o.id FROM renderings o
        WHERE o.created_at >= p.first_day::timestamp AT TIME ZONE 'UTC' AND o.created_at < p.last_day::timestamp AT TIME ZONE 'UTC'
            -- a message of the next day can also use the rendering
            AND NOT EXISTS (SELECT FROM messages m WHERE m.rendering_id = o.id)
            AND NOT EXISTS (SELECT FROM batches b WHERE b.rendering_id = o.id)
        LIMIT @batch_size::integer
    ) x
    WHERE p.dropped_at IS NOT NULL
    LIMIT @batch_size::integer
    FOR SHARE OF p SKIP LOCKED
) old
WHERE r.id = old.id;

-- BusinessEndsDeleteUnused deletes the ends of business tasks and nodes that were recorded on dropped days.
-- name: BusinessEndsDeleteUnused :execrows
DELETE FROM business_ends e
USING task_partitions p
WHERE p.dropped_at IS NOT NULL
    AND e.recorded_at >= p.first_day::timestamp AT TIME ZONE 'UTC' AND e.recorded_at < p.last_day::timestamp AT TIME ZONE 'UTC';

-- RenderingCreate stores the text that all tasks of one run share.
-- name: RenderingCreate :one
INSERT INTO renderings (notification_id, title, content, html, template_id, params, page, is_template)
VALUES (sqlc.narg(notification_id), @title, @content, @html, @template_id, @params, @page, @is_template)
RETURNING id;

-- RenderingCreateOfBatch stores the text that all tasks of a batch share. It returns no row if the channel does not exist.
-- name: RenderingCreateOfBatch :one
INSERT INTO renderings (channel_id, title, content, html, template_id, params, is_template)
SELECT c.id, @title, @content, @html, @template_id, @params, @is_template FROM channels c WHERE c.channel = @channel
RETURNING id;

-- name: NotificationTemplatePut :one
INSERT INTO notification_templates (biz_type, channel_id, title, content, html, external_id, sign, is_enabled)
SELECT @biz_type, c.id, @title, @content, sqlc.narg(html), @external_id, sqlc.narg(sign), @is_enabled FROM channels c WHERE c.channel = @channel
ON CONFLICT (biz_type, channel_id) DO UPDATE
SET title = excluded.title, content = excluded.content, html = excluded.html, external_id = excluded.external_id, sign = excluded.sign,
    is_enabled = excluded.is_enabled, updated_at = now()
RETURNING id;

-- name: NotificationTemplateList :many
SELECT t.biz_type, c.channel, t.title, t.content, t.html, t.external_id, t.sign, t.is_enabled, t.created_at, t.updated_at
FROM notification_templates t
JOIN channels c ON c.id = t.channel_id
WHERE (sqlc.narg(biz_type)::smallint IS NULL OR t.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
ORDER BY t.biz_type, c.channel;

-- name: NotificationTemplateDelete :execrows
DELETE FROM notification_templates t USING channels c WHERE c.id = t.channel_id AND c.channel = @channel AND t.biz_type = @biz_type;

-- CompanyTemplatePut creates or changes a notification template of a company.
-- name: CompanyTemplatePut :one
INSERT INTO company_notification_templates (company_id, biz_type, channel_id, title, content, html, external_id, sign, is_enabled)
SELECT @company_id, @biz_type, c.id, @title, @content, sqlc.narg(html), @external_id, sqlc.narg(sign), @is_enabled FROM channels c WHERE c.channel = @channel
ON CONFLICT (company_id, biz_type, channel_id) DO UPDATE
SET title = excluded.title, content = excluded.content, html = excluded.html, external_id = excluded.external_id, sign = excluded.sign,
    is_enabled = excluded.is_enabled, updated_at = now()
RETURNING id;

-- CompanyTemplateList returns the notification templates of a company.
-- name: CompanyTemplateList :many
SELECT t.biz_type, c.channel, t.title, t.content, t.html, t.external_id, t.sign, t.is_enabled, t.created_at, t.updated_at
FROM company_notification_templates t
JOIN channels c ON c.id = t.channel_id
WHERE t.company_id = @company_id
    AND (sqlc.narg(biz_type)::smallint IS NULL OR t.biz_type = sqlc.narg(biz_type)::smallint)
    AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
ORDER BY t.biz_type, c.channel;

-- name: CompanyTemplateDelete :execrows
DELETE FROM company_notification_templates t USING channels c
WHERE c.id = t.channel_id AND c.channel = @channel AND t.biz_type = @biz_type AND t.company_id = @company_id;

-- EffectiveTemplate returns the template that a company uses for a business type on a channel. This is the template of the company, or else the template of the
-- platform. It returns no row if neither exists.
-- name: EffectiveTemplate :one
SELECT t.title, t.content, t.html, t.external_id, t.sign
FROM effective_notification_templates t
JOIN channels c ON c.id = t.channel_id
WHERE t.company_id = @company_id AND t.biz_type = @biz_type AND c.channel = @channel;

-- SubscribeCreate creates a send-once message. If a message with the same key exists, the statement returns no row. It waits until the transaction that created
-- the other message has committed. ON CONFLICT names no index, because the unique index of the previous version also counts.
-- name: SubscribeCreate :one
INSERT INTO subscribe_messages (
    company_id, submitted_by, business_type, business_id, template_type, receiver_user_id, template_id, task_id, is_companys
)
VALUES (@company_id, @submitted_by, @business_type, @business_id, @template_type, @receiver_user_id, @template_id, '', true)
ON CONFLICT DO NOTHING
RETURNING id;

-- SubscribeHold locks and returns the send-once messages with a key, the oldest first. The previous version created one message for each submitter, so several
-- messages can have the same key.
-- name: SubscribeHold :many
SELECT m.id FROM subscribe_messages m
WHERE m.company_id = @company_id AND m.business_type = @business_type AND m.business_id = @business_id
    AND m.template_type = @template_type AND m.receiver_user_id = @receiver_user_id
ORDER BY m.id
FOR UPDATE;

-- SubscribeSend sets the task of a send-once message to a new task. sends is the number of tasks of the message so far.
-- name: SubscribeSend :exec
UPDATE subscribe_messages
SET sends = sends + CASE WHEN task_id = '' THEN 0 ELSE 1 END, task_id = @task_id, template_id = @template_id, updated_at = now()
WHERE id = @id;

-- SubscribeTask returns the current task of a message.
-- name: SubscribeTask :one
SELECT m.task_id FROM subscribe_messages m WHERE m.id = @id;

-- SubscribeList returns send-once messages, newest first. Their states are computed from their tasks: 0 sending, 1 sent, 2 failed. The task ids are from
-- from_id to to_id. waits_because and waits_until are set if a message waits and all its senders are paused. held_by contains each switch that holds a waiting
-- message, followed by a space and the name.
-- name: SubscribeList :many
SELECT m.id, m.business_type, m.business_id, m.template_type, m.receiver_user_id, m.template_id, m.task_id, m.sends, m.submitted_by, m.created_at,
    t.sent_at, t.reported_at, t.updated_at AS changed_at, coalesce(t.on_unclear, 'retry')::text AS on_unclear, x.send_status,
    t.expires_at, coalesce(w.reason, '')::text AS waits_because, w.until AS waits_until,
    CASE WHEN t.status = 0 THEN ( -- PENDING
        SELECT coalesce(array_agg(h.switch || ' ' || h.name ORDER BY h.switch, h.name), '{}')
        FROM task_switches(t.pool_id, t.company_id, NULL, t.submitted_by) h
    ) ELSE '{}' END::text[] AS held_by,
    CASE WHEN x.send_status = 2 THEN coalesce(t.result, '') ELSE '' END::text AS error_message,
    coalesce(CASE WHEN x.send_status = 2 THEN (
        SELECT l.request_data ->> 'error_code' FROM report_logs l
        WHERE l.task_id = m.task_id AND l.task_id >= @from_id::text AND l.task_id <= @to_id::text
        ORDER BY l.id DESC
        LIMIT 1
    ) END, '')::text AS error_code
FROM subscribe_messages m
JOIN tasks_between(@from_id::text, @to_id::text) t ON t.task_id = m.task_id
CROSS JOIN LATERAL (
    SELECT CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 4 THEN 2 ELSE 0 END::smallint AS send_status, -- 0 sending, 1 sent, 2 failed
        CASE WHEN t.status IN (3, 4) THEN coalesce(t.reported_at, t.updated_at) END AS failed_at
) x
LEFT JOIN LATERAL (
    SELECT st.rest_reason AS reason, st.rest_until AS until -- null if at least one sender is not paused
    FROM pools p
    JOIN senders s ON s.channel_id = p.channel_id AND s.status = 'on' AND (
        (p.company_id IS NULL AND s.is_shared) OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.sender_id = s.id AND r.status = 'on')
    )
    JOIN sender_states st ON st.sender_id = s.id
    WHERE t.status = 0 AND p.id = t.pool_id -- PENDING
    ORDER BY st.rest_until NULLS FIRST, s.id
    LIMIT 1
) w ON true
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id) AND m.id < @before_id
    AND (sqlc.narg(owner)::text IS NULL OR m.submitted_by = sqlc.narg(owner)::text OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(id)::bigint IS NULL OR m.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(submitted_by)::text IS NULL OR m.submitted_by = sqlc.narg(submitted_by)::text)
    AND (sqlc.narg(business_type)::text IS NULL OR m.business_type = sqlc.narg(business_type)::text)
    AND (sqlc.narg(business_id)::bigint IS NULL OR m.business_id = sqlc.narg(business_id)::bigint)
    AND (sqlc.narg(receiver_user_id)::text IS NULL OR m.receiver_user_id = sqlc.narg(receiver_user_id)::text)
    AND (sqlc.narg(send_status)::smallint IS NULL OR x.send_status = sqlc.narg(send_status)::smallint)
ORDER BY m.id DESC
LIMIT @page_limit::integer;

-- SubscribeFailures returns failed send-once messages, the latest failure first. The columns are those of SubscribeList.
-- name: SubscribeFailures :many
SELECT m.id, m.business_type, m.business_id, m.template_type, m.receiver_user_id, m.template_id, m.task_id, m.sends, m.submitted_by, m.created_at,
    t.sent_at, t.reported_at, t.updated_at AS changed_at, coalesce(t.on_unclear, 'retry')::text AS on_unclear, x.send_status,
    t.expires_at, coalesce(w.reason, '')::text AS waits_because, w.until AS waits_until,
    '{}'::text[] AS held_by,
    CASE WHEN x.send_status = 2 THEN coalesce(t.result, '') ELSE '' END::text AS error_message,
    coalesce(CASE WHEN x.send_status = 2 THEN (
        SELECT l.request_data ->> 'error_code' FROM report_logs l WHERE l.task_id = m.task_id ORDER BY l.id DESC LIMIT 1
    ) END, '')::text AS error_code
FROM subscribe_messages m
JOIN tasks t ON t.task_id = m.task_id
CROSS JOIN LATERAL (
    SELECT CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 4 THEN 2 ELSE 0 END::smallint AS send_status, -- 0 sending, 1 sent, 2 failed
        CASE WHEN t.status IN (3, 4) THEN coalesce(t.reported_at, t.updated_at) END AS failed_at
) x
CROSS JOIN LATERAL (SELECT NULL::text AS reason, NULL::timestamptz AS until) w -- a failed message does not wait
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id)
    AND x.send_status = 2 AND (x.failed_at, m.id) < (@before_failed_at::timestamptz, @before_id::bigint)
    AND (sqlc.narg(owner)::text IS NULL OR m.submitted_by = sqlc.narg(owner)::text OR t.submitted_by = sqlc.narg(owner)::text)
    AND (sqlc.narg(submitted_by)::text IS NULL OR m.submitted_by = sqlc.narg(submitted_by)::text)
    AND (sqlc.narg(business_type)::text IS NULL OR m.business_type = sqlc.narg(business_type)::text)
    AND (sqlc.narg(business_id)::bigint IS NULL OR m.business_id = sqlc.narg(business_id)::bigint)
    AND (sqlc.narg(receiver_user_id)::text IS NULL OR m.receiver_user_id = sqlc.narg(receiver_user_id)::text)
ORDER BY x.failed_at DESC, m.id DESC
LIMIT @page_limit::integer;

-- SubscribeStatistics counts messages by template type (S2.4).
-- name: SubscribeStatistics :many
SELECT m.template_type, count(*) AS total, count(*) FILTER (WHERE t.status = 2) AS success,
    count(*) FILTER (WHERE t.status IN (3, 4)) AS failed -- FAILED, CANCELLED
FROM subscribe_messages m
JOIN tasks t ON t.task_id = m.task_id
WHERE m.company_id = coalesce(sqlc.narg(company_id)::bigint, m.company_id)
    AND (sqlc.narg(owner)::text IS NULL OR m.submitted_by = sqlc.narg(owner)::text OR t.submitted_by = sqlc.narg(owner)::text)
GROUP BY m.template_type
ORDER BY m.template_type;
