-- Statements on quiet hours. queue.quiet_from is the beginning of the next quiet hours of a task's recipient. From then on, no claim returns the task
-- (task_fits). The sweep move-quiet-tasks computes the hours again: it delays the task until after the quiet hours, or only sets the next quiet_from. It also
-- checks the caps for the new due time, so released tasks with caps get a quiet_from, too (TaskUnhold). The rules at the beginning of claim.sql also apply
-- here.

-- TasksQuiet returns PENDING tasks whose quiet_from has come. due_at is the time for which the quiet hours are computed: now, or the later due time. due_before
-- is the present due time. is_new: the task had no attempt.
-- name: TasksQuiet :many
SELECT t.task_id, k.channel, t.company_id, t.message_type, t.priority, t.recipient, greatest(t.due_at, now())::timestamptz AS due_at,
    t.due_at AS due_before, t.expires_at, (t.retry_count = 0 AND t.troubles = 0)::boolean AS is_new, coalesce(t.exemption, '')::text AS exemption
FROM queue t
JOIN pools p ON p.id = t.pool_id
JOIN channels k ON k.id = p.channel_id
WHERE t.lease_until IS NULL AND t.quiet_from <= now() AND t.due_at < held_due_at() -- by queue_quiet_idx
ORDER BY t.quiet_from, t.task_id
LIMIT @portion::integer;

-- TaskDefer delays PENDING tasks whose quiet_from has come until after their quiet hours: the tasks wait until due_ats, and are not queued. Their waiting time
-- then begins again, as in TaskUnhold. due_when_resumed keeps the former due time for TaskQuietReset, or the end of the last attempt if that is later.
-- quiet_froms contains the beginnings of the quiet hours after due_ats.
-- name: TaskDefer :exec
UPDATE queue t
SET lane = NULL, rank = NULL, flow_rank = NULL, due_when_resumed = coalesce(former_due_at(t), greatest(t.due_at, t.updated_at)),
    due_at = (@due_ats::timestamptz[])[array_position(@task_ids::text[], t.task_id)],
    entered_at = CASE WHEN t.retry_count > 0 OR t.troubles > 0
        THEN t.entered_at ELSE (@due_ats::timestamptz[])[array_position(@task_ids::text[], t.task_id)] END,
    quiet_from = (@quiet_froms::timestamp with time zone[])[array_position(@task_ids::text[], t.task_id)]
WHERE t.task_id = ANY (ARRAY(
    SELECT o.task_id FROM queue o
    WHERE o.task_id = ANY (@task_ids::text[]) AND o.lease_until IS NULL AND o.quiet_from <= now() AND o.due_at < held_due_at()
    ORDER BY o.task_id
    FOR UPDATE
));

-- TaskQuietSet sets quiet_from of PENDING tasks whose quiet_from has come. Null: the task has no quiet hours.
-- name: TaskQuietSet :exec
UPDATE queue t SET quiet_from = (@quiet_froms::timestamp with time zone[])[array_position(@task_ids::text[], t.task_id)]
WHERE t.task_id = ANY (ARRAY(
    SELECT o.task_id FROM queue o
    WHERE o.task_id = ANY (@task_ids::text[]) AND o.lease_until IS NULL AND o.quiet_from <= now() AND o.due_at < held_due_at()
    ORDER BY o.task_id
    FOR UPDATE
));

-- QuietChange returns the oldest change of quiet hours that the sweep has not finished, and locks it. after_id is the last task of the previous portion.
-- name: QuietChange :one
SELECT c.id, c.company_id, c.begins_at, c.after_id FROM quiet_changes c WHERE c.begins_at <= now() ORDER BY c.id LIMIT 1 FOR UPDATE;

-- TaskQuietReset sets quiet_from of the next portion of tasks after after_id to epoch, so that the sweep computes their quiet hours again. For PENDING tasks,
-- the sweep does so at once. For leased tasks, it does so if they become PENDING again. If quiet hours or a cap delay a task, the task gets its former due
-- time, or now if this time is past, and the sweep checks the caps again. The former due time of a retry is the end of its delay. The statement returns the
-- last task of the portion; an empty text means that no task was left. company_id null: tasks of all companies. Tasks that were created after begins_at already
-- have the new hours. Verification codes, urgent messages, channels without phone numbers, and messages that are exempt have no quiet hours.
-- name: TaskQuietReset :one
WITH next AS MATERIALIZED (
    SELECT t.task_id, t.created_at <= @begins_at::timestamptz AND t.message_type > 0 AND t.priority > 0 AND starts_with(t.recipient, '+')
        AND t.exemption IS DISTINCT FROM 'caps_and_quiet'
        AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint) AS fits
    FROM queue t
    WHERE t.task_id > @after_id::text
    ORDER BY t.task_id
    LIMIT @portion::integer
),
locked AS MATERIALIZED (
    SELECT t.task_id FROM queue t
    WHERE t.task_id = ANY (ARRAY(SELECT n.task_id FROM next n WHERE n.fits))
    ORDER BY t.task_id
    FOR UPDATE
),
reset AS (
    UPDATE queue t
    SET quiet_from = 'epoch',
        (due_at, entered_at) = (
            SELECT coalesce(d.at, t.due_at), CASE WHEN t.retry_count > 0 OR t.troubles > 0 THEN t.entered_at ELSE coalesce(d.at, t.entered_at) END
            FROM (SELECT CASE WHEN t.lease_until IS NULL AND t.due_at > now() AND t.due_at < held_due_at() AND former_due_at(t) IS NOT NULL
                THEN greatest(now(), former_due_at(t)) END AS at) d
        )
    WHERE t.task_id = ANY (ARRAY(SELECT l.task_id FROM locked l))
)
SELECT coalesce(max(n.task_id), '')::text AS last_id FROM next n;

-- QuietChangeMove stores the last task of a portion.
-- name: QuietChangeMove :exec
UPDATE quiet_changes c SET after_id = @after_id WHERE c.id = @id;

-- QuietChangeDelete deletes a finished change.
-- name: QuietChangeDelete :exec
DELETE FROM quiet_changes c WHERE c.id = @id;
