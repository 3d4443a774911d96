-- Statements on erasures. An erasure deletes the data of a company about a person, or removes the texts of this data. Facts and counters are not deleted. Each
-- statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureCreate creates an erasure. It returns no row if the company already runs `most` erasures.
-- name: ErasureCreate :one
INSERT INTO erasures (company_id, user_ids, recipients, asked_recipients, created_by)
SELECT @company_id, @user_ids::text[], @recipients::text[], @asked_recipients::text[], @created_by
WHERE (SELECT count(*) FROM erasures e WHERE e.company_id = @company_id AND e.status = 'running') < sqlc.arg(most)::bigint
RETURNING id;

-- ErasureList returns erasures of a company with ids smaller than before_id, newest first.
-- name: ErasureList :many
SELECT * FROM erasures e
WHERE e.company_id = @company_id AND e.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR e.id = sqlc.narg(id)::bigint)
ORDER BY e.id DESC
LIMIT @page_limit::integer;

-- ErasuresDue returns the running erasures that can continue now. The erasure that has waited longest is first.
-- name: ErasuresDue :many
SELECT * FROM erasures e
WHERE e.status = 'running' AND e.next_at <= now()
ORDER BY e.next_at, e.id
LIMIT @page_limit::integer;

-- ErasureCount adds counts to the counts of an erasure. It also adds the exports that contain one of task_ids.
-- name: ErasureCount :exec
UPDATE erasures e
SET counts = (
        SELECT coalesce(jsonb_object_agg(k.name, coalesce((e.counts ->> k.name)::bigint, 0) + coalesce((sqlc.arg(counts)::jsonb ->> k.name)::bigint, 0)), '{}')
        FROM jsonb_object_keys(e.counts || sqlc.arg(counts)::jsonb) AS k (name)
    ),
    exports = ARRAY(
        SELECT x.folder FROM unnest(e.exports) AS x (folder)
        UNION
        SELECT p.exported_to FROM task_partitions p
        WHERE p.exported_to IS NOT NULL
            AND EXISTS (SELECT FROM unnest(@task_ids::text[]) AS t (id) WHERE t.id COLLATE "C" >= p.first_id AND t.id COLLATE "C" < p.before_id)
        ORDER BY folder
    )
WHERE e.id = @id AND e.status = 'running';

-- ErasureUsers stores the user ids that an erasure has found.
-- name: ErasureUsers :exec
UPDATE erasures e SET user_ids = @user_ids::text[] WHERE e.id = @id AND e.status = 'running';

-- ErasureWait postpones an erasure by `seconds`.
-- name: ErasureWait :exec
UPDATE erasures e SET held = @held, next_at = now() + make_interval(secs => @seconds::double precision) WHERE e.id = @id AND e.status = 'running';

-- ErasureEnd ends an erasure, and deletes the user ids and addresses of its person.
-- name: ErasureEnd :exec
UPDATE erasures e SET status = 'finished', held = 0, user_ids = '{}', recipients = '{}', asked_recipients = '{}', finished_at = now()
WHERE e.id = @id AND e.status = 'running';

-- ErasuresDeleteExpired reads the batch_size oldest erasures, and deletes the erasures that ended longer ago than keep.
-- name: ErasuresDeleteExpired :execrows
DELETE FROM erasures e
USING (SELECT o.id FROM erasures o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE e.id = old.id AND e.finished_at < now() - @keep::interval;

-- ExportsDropped returns the folders of exports whose partitions were dropped. It is unknown whether these exports contain data about a person.
-- name: ExportsDropped :many
SELECT p.exported_to::text AS folder FROM task_partitions p WHERE p.exported_to IS NOT NULL AND p.dropped_at IS NOT NULL ORDER BY p.first_day;

-- ErasedContacts returns up to `most` contacts of a company whose user id is in user_ids, or whose phone number or e-mail address is in recipients.
-- name: ErasedContacts :many
SELECT c.user_id, c.phone, c.email, c.dingtalk_name, c.wechat_openid FROM contacts c
WHERE c.company_id = @company_id
    AND (
        c.user_id = ANY (@user_ids::text[]) OR c.phone COLLATE "C" = ANY (@recipients::text[])
        OR lower(c.email COLLATE "C") IN (SELECT lower(x.address COLLATE "C") FROM unnest(@recipients::text[]) AS x (address))
    )
ORDER BY c.user_id
LIMIT sqlc.arg(most)::integer;

-- ErasureContacts deletes contacts, which also removes them from their tags. It returns the numbers of contacts and of tag entries. The caller has locked the
-- contacts of the company.
-- name: ErasureContacts :one
WITH held AS (
    SELECT count(*) AS tags FROM tag_contacts m WHERE m.company_id = @company_id AND m.user_id = ANY (@user_ids::text[])
),
deleted AS (
    DELETE FROM contacts c WHERE c.company_id = @company_id AND c.user_id = ANY (@user_ids::text[]) RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) AS contacts, h.tags FROM held h;

-- ErasureAudit erases audited changes of three kinds in a company:
--   contacts of user_ids       the values are removed, and the user id is replaced by a pseudonym
--   contents for recipients    the values are removed; the audit stores recipients masked with asterisks
--   task jobs of job_ids       the values are removed
-- name: ErasureAudit :execrows
UPDATE audit a
SET entity_key = CASE a.entity WHEN 'contact' THEN @pseudonym::text || array_position(@user_ids::text[], a.entity_key) ELSE a.entity_key END,
    before = CASE WHEN a.before IS NOT NULL THEN '{}'::jsonb END, after = CASE WHEN a.after IS NOT NULL THEN '{}'::jsonb END
FROM companies c
WHERE c.id = @company_id
    AND (
        a.entity = 'contact' AND a.company_no = c.company_no AND a.entity_key = ANY (@user_ids::text[])
        OR a.entity = 'default_content' AND a.entity_key IN (
            SELECT o.entity_key FROM audit o
            WHERE o.entity = 'default_content' AND o.company_no = c.company_no
                AND EXISTS (
                    SELECT FROM unnest(@recipients::text[]) AS r (address)
                    CROSS JOIN LATERAL (SELECT audit_shown('recipient', to_jsonb(r.address), false) AS shown) m
                    WHERE m.shown IN (o.before -> 'recipient', o.after -> 'recipient')
                )
        )
        OR a.entity = 'task_job' AND a.entity_key = ANY (@job_ids::text[])
    )
    AND (a.entity = 'contact' OR coalesce(a.before, '{}') <> '{}' OR coalesce(a.after, '{}') <> '{}');

-- ErasureDefaults deletes the default contents of a company for the given recipients, and returns their ids.
-- name: ErasureDefaults :many
WITH gone AS (
    DELETE FROM default_contents d WHERE d.company_id = @company_id AND d.recipient = ANY (@recipients::text[]) RETURNING d.id
)
SELECT g.id FROM gone g ORDER BY g.id;

-- ErasureTasks returns up to `portion` tasks of a company to a person after after_id, in the order of their ids. asked_recipients: addresses that the request
-- names. For another address of the person, tasks that were created for another user are not returned.
-- name: ErasureTasks :many
SELECT DISTINCT f.task_id::text AS task_id, f.rendering_id, (f.created_at > now() - interval '25 hours')::boolean AS is_recent
FROM (
    SELECT m.task_id, m.rendering_id, m.created_at
    FROM unnest(@recipients::text[]) AS r (address)
    CROSS JOIN LATERAL (
        SELECT x.task_id, x.rendering_id, x.created_at FROM messages x
        WHERE x.recipient = r.address AND x.company_id = @company_id AND x.task_id > @after_id::text
            AND (r.address = ANY (@asked_recipients::text[]) OR x.user_id IS NULL OR x.user_id = ANY (@user_ids::text[]))
        ORDER BY x.task_id
        LIMIT @portion::integer
    ) m
    UNION ALL
    SELECT m.task_id, m.rendering_id, m.created_at
    FROM unnest(@user_ids::text[]) AS u (user_id)
    CROSS JOIN LATERAL (
        SELECT x.task_id, x.rendering_id, x.created_at FROM messages x
        WHERE x.company_id = @company_id AND x.user_id = u.user_id AND x.task_id > @after_id::text
        ORDER BY x.task_id
        LIMIT @portion::integer
    ) m
) f
ORDER BY task_id
LIMIT @portion::integer;

-- ErasureOpen returns the tasks of task_ids that are PENDING or PROCESSING.
-- name: ErasureOpen :many
SELECT q.task_id FROM queue q WHERE q.task_id = ANY (@task_ids::text[]) ORDER BY q.task_id;

-- ErasureKeys deletes the dedup keys of tasks.
-- name: ErasureKeys :execrows
DELETE FROM dedup_keys d
USING messages m
WHERE m.task_id = ANY (@task_ids::text[]) AND d.company_id = m.company_id AND d.submitted_by = m.submitted_by AND d.dedup_key = m.dedup_key
    AND d.task_id = m.task_id;

-- ErasureSmsgateIDs replaces the message ids that client programs assigned to the messages of tasks. It skips ids that no longer refer to these tasks.
-- name: ErasureSmsgateIDs :execrows
UPDATE smsgate_messages s
SET message_id = gen_random_uuid()::text
FROM messages m
WHERE m.task_id = ANY (@task_ids::text[]) AND s.company_id = m.company_id AND s.submitted_by = m.submitted_by
    AND s.message_id = m.request_data ->> 'smsgate_id' AND m.task_id = ANY (s.task_ids);

-- ErasureMessages removes the recipient and the texts from tasks that have ended. It replaces the user id of a notification by a pseudonym, so that the number
-- of distinct users does not change.
-- name: ErasureMessages :execrows
UPDATE messages m
SET phone_number = '', recipient = '', content = @erased::text, submitted_content = CASE WHEN m.submitted_content IS NOT NULL THEN @erased::text END,
    request_data = CASE WHEN m.request_data IS NOT NULL THEN '{}'::jsonb END, dedup_key = NULL, contact_values = NULL,
    user_id = CASE WHEN m.user_id IS NOT NULL THEN @pseudonym::text || coalesce(array_position(@user_ids::text[], m.user_id), 0) END
WHERE m.task_id = ANY (@task_ids::text[]) AND NOT EXISTS (SELECT FROM queue q WHERE q.task_id = m.task_id);

-- ErasureReports removes the texts from the log rows of tasks. It does not remove texts that LKSMS wrote itself, or the user of a cancellation or requeue.
-- name: ErasureReports :execrows
UPDATE report_logs r
SET error_message = CASE WHEN r.error_message IS NOT NULL THEN @erased::text END,
    result = CASE WHEN r.result IS NULL OR r.result = ANY (@own::text[]) THEN r.result ELSE @erased::text END,
    request_data = CASE
        WHEN r.request_data IS NULL OR r.event IN ('cancelled', 'requeued') THEN r.request_data -- contains only the user of the action
        ELSE '{}'::jsonb
    END
WHERE r.task_id = ANY (@task_ids::text[]);

-- ErasureReceipts locks and returns the receipts with a recipient that refer to the deliveries of tasks. recipient is returned, because a provider can use the
-- same number for messages to many recipients.
-- name: ErasureReceipts :many
SELECT r.id, r.callback_id, r.recipient FROM receipts r
WHERE r.recipient <> '' AND EXISTS (
    SELECT FROM deliveries d WHERE d.task_id = ANY (@task_ids::text[]) AND d.sender_no = r.sender_no AND d.provider_no = r.provider_no
)
ORDER BY r.id
FOR UPDATE;

-- name: ErasureReceiptsDelete :execrows
DELETE FROM receipts r WHERE r.id = ANY (@ids::bigint[]);

-- ErasureCallbacks replaces each match of a regular expression in callbacks with asterisks.
-- name: ErasureCallbacks :execrows
UPDATE callbacks c SET body = regexp_replace(c.body, @pattern::text, '********', 'g') WHERE c.id = ANY (@ids::bigint[]) AND c.body ~ @pattern::text;

-- ErasureDeliveries removes the recipient and the provider's answer from the deliveries of tasks. It also removes the answers about these tasks from the latest
-- outcomes of senders.
-- name: ErasureDeliveries :execrows
WITH forgotten AS (
    DELETE FROM sender_answers a WHERE a.task_id = ANY (@task_ids::text[])
)
UPDATE deliveries d SET recipient = '', error = CASE WHEN d.error IS NOT NULL THEN @erased::text END, answer = NULL
WHERE d.task_id = ANY (@task_ids::text[]);

-- ErasureRepeats returns the rejected submissions that repeated one of task_ids.
-- name: ErasureRepeats :many
SELECT f.id FROM fruitless_submissions f WHERE f.task_id = ANY (@task_ids::text[]) ORDER BY f.id;

-- ErasureCandidates returns submissions of a company that created no task and whose phone numbers end with one of `digits`.
-- name: ErasureCandidates :many
SELECT f.id, f.phone_number::text AS phone_number FROM fruitless_submissions f
WHERE f.company_id = @company_id AND f.phone_number IS NOT NULL
    AND right(number_digits(f.phone_number), 8) = ANY (@digits::text[]) AND f.id > @after_id
ORDER BY f.id
LIMIT @portion::integer;

-- ErasureSubmissions removes the phone number and the texts from submissions.
-- name: ErasureSubmissions :execrows
UPDATE fruitless_submissions f
SET phone_number = NULL, content = CASE WHEN f.content IS NOT NULL THEN @erased::text END, request_data = '{}', response_data = '{}'
WHERE f.id = ANY (@ids::bigint[]);

-- ErasureRenderings erases renderings if all their messages have been erased. The content is replaced by a note about the erasure.
-- name: ErasureRenderings :execrows
UPDATE renderings r
SET title = '', content = @erased, html = '', params = '{}', page = ''
WHERE r.id = ANY (@ids::bigint[]) AND r.content <> @erased
    AND NOT EXISTS (SELECT FROM messages m WHERE m.rendering_id = r.id AND m.content <> @erased);

-- ErasureAnswers returns stored responses to idempotent requests that contain one of `texts`. It reads responses to users of the company (is_own), and
-- responses to administrators.
-- name: ErasureAnswers :many
SELECT k.username, k.operation, k.key, k.response, c.company_no,
    EXISTS (SELECT FROM users u WHERE u.username = k.username AND u.company_id = c.id AND u.role <> 'admin') AS is_own
FROM idempotency_keys k
CROSS JOIN companies c
WHERE c.id = @company_id
    AND NOT EXISTS (SELECT FROM users u WHERE u.username = k.username AND u.company_id <> c.id AND u.role <> 'admin')
    AND EXISTS (SELECT FROM unnest(@texts::text[]) AS t (part) WHERE position(convert_to(t.part, 'UTF8') IN k.response) > 0)
ORDER BY k.username, k.operation, k.key
LIMIT sqlc.arg(most)::integer;

-- name: ErasureAnswer :exec
UPDATE idempotency_keys k SET response = @response WHERE k.username = @username AND k.operation = @operation AND k.key = @key;

-- ErasureAnnouncements returns up to `portion` announcements of a company that name one of user_ids.
-- name: ErasureAnnouncements :many
SELECT DISTINCT a.id
FROM announcements a
JOIN notifications n ON n.announcement_id = a.id
WHERE a.user_ids && @user_ids::text[] AND n.company_id = @company_id
ORDER BY a.id
LIMIT @portion::integer;

-- ErasureAnnounced locks the notifications of announcements. A run of a notification holds the same lock. After the wait for the lock, the tasks of this run
-- are visible.
-- name: ErasureAnnounced :many
SELECT n.id FROM notifications n WHERE n.announcement_id = ANY (@ids::bigint[]) ORDER BY n.id FOR UPDATE;

-- ErasureAnnouncement removes user ids from announcements. If no user id remains, it also deletes the payload of the announcement.
-- name: ErasureAnnouncement :exec
WITH left_over AS (
    SELECT a.id, ARRAY(
        SELECT u.user_id FROM unnest(a.user_ids) WITH ORDINALITY AS u (user_id, place) WHERE u.user_id <> ALL (@user_ids::text[]) ORDER BY u.place
    ) AS user_ids
    FROM announcements a
    WHERE a.id = ANY (@ids::bigint[])
),
silenced AS (
    UPDATE notifications n SET own_payload = '{}' FROM left_over l WHERE n.announcement_id = l.id AND l.user_ids = '{}'
)
UPDATE announcements a
SET user_ids = l.user_ids, payload = CASE WHEN l.user_ids = '{}' THEN '{}' ELSE a.payload END
FROM left_over l
WHERE a.id = l.id;

-- ErasureOnce replaces the receivers of send-once messages by pseudonyms.
-- name: ErasureOnce :execrows
UPDATE subscribe_messages m
SET receiver_user_id = @pseudonym::text || array_position(@user_ids::text[], m.receiver_user_id)
WHERE m.company_id = @company_id AND m.receiver_user_id = ANY (@user_ids::text[]);

-- ErasureLists counts the lists of a company that are being read now and possibly contain the person: batches and imports that were created at `before` or
-- earlier.
-- name: ErasureLists :one
SELECT (
    (SELECT count(*) FROM batches b WHERE b.company_id = @company_id AND b.status = 'checking' AND b.created_at <= @before)
    + (SELECT count(*) FROM contact_imports i WHERE i.company_id = @company_id AND i.status = 'running' AND i.created_at <= @before)
)::bigint AS lists;

-- ErasureBatches returns the batches of a company. only_open: only batches whose rows can still be sent.
-- name: ErasureBatches :many
SELECT b.id FROM batches b
WHERE b.company_id = @company_id AND (NOT @only_open::boolean OR b.status IN ('ready', 'running', 'paused'))
ORDER BY b.id;

-- ErasureUnfed rejects the unsent rows of a batch to the given recipients, and returns their number. It also updates the counts of the batch.
-- name: ErasureUnfed :one
WITH held AS (
    SELECT b.id, b.fed_row FROM batches b WHERE b.id = @batch_id AND b.status IN ('ready', 'running', 'paused') FOR UPDATE
),
refused AS (
    UPDATE batch_rows r SET code = 7 -- rejected at its submission
    FROM held h
    WHERE r.batch_id = h.id AND r.row_no > h.fed_row AND r.code IS NULL
        AND (r.recipient = ANY (@recipients::text[]) OR lower(r.recipient) = ANY (@addresses::text[]))
    RETURNING r.segments
),
counted AS (
    UPDATE batches b
    SET valid = b.valid - s.rows, invalid = b.invalid + s.rows, segments = b.segments - s.segments
    FROM (SELECT count(*) AS rows, coalesce(sum(f.segments), 0) AS segments FROM refused f) s
    WHERE b.id = @batch_id AND s.rows > 0
)
SELECT count(*) AS rows FROM refused;

-- ErasureRowCandidates returns rows of a batch whose recipient ends with one of `digits`, or is one of `addresses` in lower case. The recipient of an invalid
-- row is stored as it was written, so the caller checks each returned row.
-- name: ErasureRowCandidates :many
SELECT r.row_no, r.recipient FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row
    AND (right(number_digits(r.recipient), 8) = ANY (@digits::text[]) OR lower(r.recipient) = ANY (@addresses::text[]))
ORDER BY r.row_no
LIMIT @portion::integer;

-- ErasureRows removes the recipient and the texts from rows of a batch.
-- name: ErasureRows :execrows
UPDATE batch_rows r SET recipient = '', content = '', contact_values = NULL WHERE r.batch_id = @batch_id AND r.row_no = ANY (@row_nos::bigint[]);

-- ErasureJobs returns the task jobs with a phone number in their filter that select tasks of a company or were created by a user of this company.
-- name: ErasureJobs :many
SELECT j.id, (j.filter ->> 'phone_number')::text AS phone_number FROM task_jobs j
WHERE j.filter ? 'phone_number'
    AND (
        j.created_by IN (SELECT u.username FROM users u WHERE u.company_id = @company_id)
        OR j.filter ->> 'company_no' = (SELECT c.company_no FROM companies c WHERE c.id = @company_id)
    )
ORDER BY j.id;

-- ErasureJob removes the phone number from the filters of task jobs.
-- name: ErasureJob :execrows
UPDATE task_jobs j SET filter = j.filter - 'phone_number' WHERE j.id = ANY (@ids::bigint[]);

-- ErasureInbounds removes recipients from the phone_numbers of a company's inbounds. If no number remains, the list becomes empty and not null. With null, the
-- body of each post would name the recipients.
-- name: ErasureInbounds :exec
UPDATE inbounds i
SET phone_numbers = ARRAY(
        SELECT n.number FROM unnest(i.phone_numbers) WITH ORDINALITY AS n (number, place)
        WHERE n.number <> ALL (@recipients::text[])
        ORDER BY n.place
    ),
    version = i.version + 1, updated_at = now()
WHERE i.company_id = @company_id AND i.phone_numbers && @recipients::text[];

-- ErasureWebhooks removes the responses of receivers to webhook calls about tasks, because a response can repeat the call.
-- name: ErasureWebhooks :execrows
UPDATE webhook_deliveries d SET response = NULL WHERE d.task_id = ANY (@task_ids::text[]) AND d.response IS NOT NULL;

-- SqlInboxHas returns whether the SQL inbox contains messages of a company that were submitted before `before`.
-- name: SqlInboxHas :one
SELECT EXISTS (SELECT FROM sql_inbox i WHERE i.company_id = @company_id AND i.created_at < @before::timestamptz);
