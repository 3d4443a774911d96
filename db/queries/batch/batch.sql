-- Statements on batches (uploaded lists), their rows and their progress. The row of a batch is locked before all data that depends on its status, and before
-- the queue.

-- BatchCreate stores a batch that has to be checked. If the request also confirms the batch and its actor is a user, the confirmation is audited.
-- name: BatchCreate :one
WITH made AS (
    INSERT INTO batches (
        company_id, submitted_by, name, message_type, priority, upload_id, tag, phone_column, sign_column, template_no, template_id, template_version, template_language,
        is_deferred, content, sign, sender_no, dedup, is_test, is_confirmed, expect_send_time, expires_at, request_id, source_ip, user_agent,
        default_region, channel, subject, biz_type, rendering_id, tags_all, tags_any, tags_none, encoding, is_encoding_doubtful
    )
    VALUES (
        @company_id, @submitted_by, @name, @message_type, sqlc.narg(priority), sqlc.narg(upload_id), sqlc.narg(tag), @phone_column, sqlc.narg(sign_column),
        sqlc.narg(template_no), sqlc.narg(template_id), sqlc.narg(template_version), sqlc.narg(template_language), @is_deferred, @content, sqlc.narg(sign), sqlc.narg(sender_no), @dedup, @is_test, @is_confirmed, sqlc.narg(expect_send_time),
        sqlc.narg(expires_at), @request_id, @source_ip, @user_agent, @default_region, @channel, sqlc.narg(subject), sqlc.narg(biz_type),
        sqlc.narg(rendering_id), @tags_all, @tags_any, @tags_none, sqlc.narg(encoding), @is_encoding_doubtful
    )
    RETURNING id, is_confirmed, submitted_by
),
audited AS ( -- the same audit entry that BatchConfirm causes
    INSERT INTO audit (action, entity, entity_key, before, after)
    SELECT 'changed', 'batch', m.id::text, jsonb_build_object('is_confirmed', false, 'confirmed_by', NULL),
        jsonb_build_object('is_confirmed', true, 'confirmed_by', m.submitted_by)
    FROM made m
    WHERE m.is_confirmed AND current_setting('lksms.actor', true) <> ''
)
SELECT m.id FROM made m;

-- BatchList returns batches with ids smaller than before_id, newest first. company_id null: batches of all companies.
-- name: BatchList :many
SELECT * FROM batches b
WHERE b.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR b.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(company_id)::bigint IS NULL OR b.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(status)::text IS NULL OR b.status = sqlc.narg(status)::text)
ORDER BY b.id DESC
LIMIT @page_limit::integer;

-- BatchTotals returns the counts of tasks of batches, one row for each batch and sender.
-- name: BatchTotals :many
SELECT * FROM batch_totals t WHERE t.batch_id = ANY (@batch_ids::bigint[]) ORDER BY t.batch_id, t.sender_no;

-- BatchesUnsettled returns the checked batches for which the sweep has work now. has_more: rows can become tasks now, or must be read now. A batch that waits for
-- its start or its senders, or that is paused, is not returned. Therefore many such batches do not delay others.
-- name: BatchesUnsettled :many
WITH unsettled AS MATERIALIZED (
    SELECT b.*, b.fed < b.valid OR NOT b.is_read AS has_rows, coalesce(b.expect_send_time <= now(), true) AS is_due,
        coalesce(b.expires_at <= now(), false) AS is_expired
    FROM batches b
    WHERE NOT b.is_settled AND NOT is_in_check(b)
),
busy AS MATERIALIZED ( -- some of their tasks wait or are leased
    SELECT t.batch_id FROM batch_totals t
    WHERE t.batch_id = ANY (ARRAY(SELECT u.id FROM unsettled u))
    GROUP BY t.batch_id HAVING sum(t.waiting + t.processing) <> 0
)
SELECT u.id, u.company_id, u.status, u.is_held, (u.status = 'running' AND u.has_rows AND u.is_due AND NOT u.is_expired)::boolean AS has_more
FROM unsettled u
LEFT JOIN busy ON busy.batch_id = u.id
WHERE CASE u.status
    WHEN 'running' THEN u.is_held OR u.has_rows AND u.is_due AND NOT u.is_expired OR busy.batch_id IS NULL AND (u.is_expired OR NOT u.has_rows)
    WHEN 'paused' THEN busy.batch_id IS NULL AND u.is_expired OR busy.batch_id IS NOT NULL AND EXISTS (
        -- a leased task can have been queued for a retry meanwhile
        SELECT FROM queue t WHERE t.batch_id = u.id AND t.lease_until IS NULL AND t.due_at < held_due_at()
    )
    ELSE busy.batch_id IS NULL OR EXISTS (SELECT FROM queue t WHERE t.batch_id = u.id AND t.lease_until IS NULL)
    END
ORDER BY u.id;

-- BatchesChecking returns the batches whose check is running or waiting. The companies take turns: first the smallest upload of each company, then the second of
-- each.
-- name: BatchesChecking :many
SELECT c.id, c.company_id
FROM (
    SELECT b.id, b.company_id, u.size, row_number() OVER (PARTITION BY b.company_id ORDER BY u.size NULLS FIRST, b.id) AS turn
    FROM batches b
    LEFT JOIN uploads u ON u.id = b.upload_id
    WHERE is_in_check(b) AND NOT b.is_settled
) c
ORDER BY c.turn, c.size NULLS FIRST, c.id
LIMIT @max_rows::integer;

-- BatchHold locks a batch if the batch has the given status, and otherwise returns no row. With the status checking, it also locks a paused batch whose tag is
-- being read. is_due is true if the rows of the batch can be sent now.
-- name: BatchHold :one
SELECT sqlc.embed(b), (coalesce(b.expect_send_time <= now(), true) AND coalesce(b.expires_at > now(), true))::boolean AS is_due
FROM batches b
WHERE b.id = @id AND CASE WHEN @status::text = 'checking' THEN is_in_check(b) ELSE b.status = @status::text END
FOR NO KEY UPDATE; -- NO KEY: concurrent transactions that count tasks of the batch do not wait for this lock

-- BatchRowsAdd adds checked rows to a batch that the caller has locked. A row without sign has an empty sign, a row without country has an empty country_no,
-- and a valid row has the code 0.
-- name: BatchRowsAdd :exec
INSERT INTO batch_rows (batch_id, row_no, recipient, content, sign, segments, country_no, code, fault, contact_values)
SELECT @batch_id, r.row_no, r.recipient, r.content, nullif(r.sign, ''), r.segments, nullif(r.country_no, ''), nullif(r.code, 0), r.fault, r.contact_values
FROM (
    SELECT unnest(@row_nos::bigint[]) AS row_no, unnest(@recipients::text[]) AS recipient, unnest(@contents::text[]) AS content,
        unnest(@signs::text[]) AS sign, unnest(@segments::smallint[]) AS segments, unnest(@country_nos::text[]) AS country_no, unnest(@codes::smallint[]) AS code,
        unnest(@faults::jsonb[]) AS fault, unnest(@contact_values::jsonb[]) AS contact_values -- an empty array if no row has values
) r
ORDER BY r.row_no;

-- BatchChecked counts the added rows.
-- name: BatchChecked :exec
UPDATE batches b
SET last_row = @last_row, rows = b.rows + @rows::bigint, valid = b.valid + @valid::bigint, invalid = b.invalid + @invalid::bigint,
    blocked = b.blocked + @blocked::bigint, segments = b.segments + @segments::bigint
WHERE b.id = @id AND is_in_check(b);

-- BatchNestedLoops allows or forbids nested loops until the end of the transaction. PostgreSQL has no statistics of a new list, and expects a single row. With a
-- nested loop, it would read a list of n rows n times.
-- name: BatchNestedLoops :exec
SELECT set_config('enable_nestloop', CASE WHEN @are_allowed::boolean THEN 'on' ELSE 'off' END, true);

-- BatchRowsDuplicate marks each valid row of a batch that repeats an earlier row, with the number of the first such row. It returns the number of marked rows,
-- and the sum of their segments. address: the type of the addresses in the rows. dedup 'row': rows with the same recipient but different texts are not
-- duplicates. Texts are compared with their signature, without a repeated signature in the content. The statement sorts all rows. BatchNestedLoops must switch
-- nested loops off before.
-- name: BatchRowsDuplicate :one
WITH repeated AS MATERIALIZED (
    SELECT o.row_no, o.first_row
    FROM (
        SELECT r.row_no, min(r.row_no) OVER (
            PARTITION BY CASE WHEN @folds_case::boolean THEN fold_case(r.recipient) ELSE r.recipient END,
                CASE WHEN @dedup::text = 'row' THEN unsigned_text(r.content, coalesce(r.sign, b.sign)) END,
                CASE WHEN @dedup::text = 'row' THEN coalesce(r.sign, b.sign) END, CASE WHEN @dedup::text = 'row' THEN r.contact_values END
        ) AS first_row
        FROM batch_rows r
        JOIN batches b ON b.id = r.batch_id
        WHERE r.batch_id = @batch_id AND r.code IS NULL
    ) o
    WHERE o.row_no > o.first_row
),
marked AS (
    UPDATE batch_rows r
    SET code = 5, -- duplicate
        fault = jsonb_build_object('name', @address::text, 'rule', 'repeats_row', 'limit', p.first_row)
    FROM repeated p
    WHERE r.batch_id = @batch_id AND r.row_no = p.row_no
    RETURNING r.segments
)
SELECT count(*) AS rows, coalesce(sum(m.segments), 0)::bigint AS segments FROM marked m;

-- BatchSum stores the sums of the valid rows of a batch by country. It runs after BatchRowsDuplicate, in a batch that the caller has locked.
--   segments   segments as submitted
--   unsigned   segments without signatures, for servers of the previous version
--   by_sender  segments as counted by the senders that can serve the batch now and count differently
-- A sender counts differently if it has its own signature, forbids signatures, or has a segment size.
--
-- by_sender is an estimate from the first max_sampled rows, because counting all rows takes too long. The ratio of counted to submitted segments of the sampled
-- rows of a country is applied to all rows of the country. A country without sampled rows uses the ratio of all sampled rows.
-- name: BatchSum :exec
WITH counting AS MATERIALIZED (
    SELECT row_number() OVER () AS way, w.*
    FROM (
        SELECT DISTINCT s.sign, s.sign_mode = 'none' AS forbids_signs, s.segment_size
        FROM batches b
        JOIN channels c ON c.channel = b.channel AND c.channel = 'sms' -- on other channels, a message counts as one segment
        JOIN senders s ON s.channel_id = c.id
        WHERE b.id = @id AND s.status = 'on' AND (s.sign IS NOT NULL OR s.sign_mode = 'none' OR s.segment_size IS NOT NULL)
            AND (b.sender_no IS NULL OR b.sender_no = s.sender_no) AND sender_serves(s.id, b.company_id)
        LIMIT 10
    ) w
),
sampled AS MATERIALIZED (
    SELECT k.way, f.country_no::text AS country_no, f.submitted::numeric AS submitted, f.counted::bigint AS counted
    FROM counting k
    CROSS JOIN LATERAL batch_segments_counted(@id, k.sign, k.forbids_signs, k.segment_size, @max_sampled::integer) f
),
totals AS MATERIALIZED (
    SELECT coalesce(r.country_no, '') AS country_no, count(*) AS rows, sum(r.segments) AS segments,
        sum(CASE
            WHEN coalesce(r.sign, b.sign) IS NULL OR r.segments = 1 THEN r.segments
            ELSE unsigned_segments(handed_text(r.content, coalesce(r.sign, b.sign), 'none'))
        END) AS unsigned
    FROM batches b
    JOIN batch_rows r ON r.batch_id = b.id
    WHERE b.id = @id AND r.code IS NULL
    GROUP BY 1
),
by_sender AS MATERIALIZED (
    SELECT t.country_no, jsonb_agg(jsonb_build_object(
        'sign', coalesce(k.sign, ''), 'forbids_signs', k.forbids_signs, 'segment_size', coalesce(k.segment_size, 0),
        'segments', coalesce(own.counted * t.segments / own.submitted, every.counted * t.segments / every.submitted)
    )) AS counts
    FROM totals t
    CROSS JOIN counting k
    JOIN sampled every ON every.way = k.way AND every.country_no IS NULL
    LEFT JOIN sampled own ON own.way = k.way AND own.country_no = t.country_no
    GROUP BY t.country_no
)
UPDATE batches b
SET by_country = (
    SELECT coalesce(jsonb_agg(
        jsonb_build_object(
            'country_no', c.country_no, 'rows', c.rows, 'segments', c.segments, 'unsigned', c.unsigned, 'by_sender', coalesce(s.counts, '[]')
        ) ORDER BY c.country_no
    ), '[]')
    FROM totals c
    LEFT JOIN by_sender s ON s.country_no = c.country_no
)
WHERE b.id = @id AND is_in_check(b);

-- BatchSegmentsSampled counts the segments of the first max_sampled valid rows of a batch, by country. It counts them for a sender that BatchSum did not include.
-- submitted: segments as submitted. counted: segments as the sender counts them. is_of_all marks the row with the sums of all countries.
-- name: BatchSegmentsSampled :many
SELECT coalesce(f.country_no, '')::text AS country_no, (f.country_no IS NULL)::boolean AS is_of_all, f.submitted::bigint AS submitted,
    f.counted::bigint AS counted
FROM batch_segments_counted(@id, sqlc.narg(sign)::text, @forbids_signs::boolean, sqlc.narg(segment_size)::bigint, @max_sampled::integer) f
ORDER BY f.country_no;

-- BatchReady ends the check of a batch, and returns the new status. A paused batch remains paused, and any other confirmed batch becomes running. A batch that is
-- not confirmed becomes ready, and waits for its confirmation. If the request of the batch confirmed it, confirmed_by is the user of the request.
--
-- is_deferred: the batch uses a scheduled template. A confirmed batch without start time then starts at the next multiple of `every`, as in BatchConfirm. The
-- rows of such batches wait together, and then become tasks at full speed.
-- name: BatchReady :one
WITH ready AS (
    UPDATE batches b
    SET status = CASE WHEN b.status = 'paused' THEN b.status WHEN b.is_confirmed THEN 'running' ELSE 'ready' END,
        is_settled = NOT b.is_confirmed, is_read = b.is_read OR b.tag IS NULL,
        expect_send_time = CASE
            WHEN b.is_confirmed AND b.is_deferred THEN coalesce(b.expect_send_time, date_bin(@every::interval, now(), 'epoch') + @every::interval)
            ELSE b.expect_send_time
        END,
        upload_id = NULL, valid = b.valid - @duplicate::bigint, duplicate = @duplicate::bigint, segments = b.segments - @segments::bigint,
        checked_at = now(), confirmed_at = CASE WHEN b.is_confirmed THEN coalesce(b.confirmed_at, now()) END,
        confirmed_by = CASE WHEN b.is_confirmed THEN coalesce(b.confirmed_by, b.submitted_by) END
    FROM (SELECT o.id, o.confirmed_at FROM batches o WHERE o.id = @id) was
    WHERE b.id = was.id AND is_in_check(b)
    RETURNING b.id, b.status, b.submitted_by, b.is_confirmed AND was.confirmed_at IS NULL AS is_first
),
confirmed AS (
    INSERT INTO batch_acts (batch_id, act, username) SELECT r.id, 'confirmed', r.submitted_by FROM ready r WHERE r.is_first
)
SELECT r.status FROM ready r;

-- BatchUnreadable cancels a batch whose list cannot be read.
-- name: BatchUnreadable :execrows
UPDATE batches b
SET status = 'cancelled', is_settled = true, ended_at = now(), fault = @fault, upload_id = NULL
WHERE b.id = @id AND is_in_check(b);

-- BatchReread restarts the check of a batch whose recipients are the contacts of a tag, because the batch is about to be sent. The caller has locked the batch,
-- and deletes its rows.
-- name: BatchReread :exec
UPDATE batches b SET status = 'checking', is_read = true, checked_at = NULL WHERE b.id = @id AND b.status = 'running' AND NOT b.is_read;

-- BatchRowsDelete deletes the rows of a batch, and resets its sums, before a check of the batch. The caller has locked the batch.
-- name: BatchRowsDelete :exec
WITH deleted AS (
    DELETE FROM batch_rows r WHERE r.batch_id = @id
)
UPDATE batches b
SET last_row = 0, rows = 0, valid = 0, invalid = 0, duplicate = 0, blocked = 0, segments = 0, by_country = NULL
WHERE b.id = @id AND is_in_check(b);

-- BatchConfirm confirms a checked batch. It returns 0 if the batch expires before its rows can be sent.
-- name: BatchConfirm :execrows
WITH confirmed AS (
    UPDATE batches b
    SET status = 'running', is_settled = false, is_confirmed = true, confirmed_at = now(), confirmed_by = @confirmed_by::text, expect_send_time = w.start
    FROM batches o
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN o.is_deferred THEN coalesce(o.expect_send_time, date_bin(@every::interval, now(), 'epoch') + @every::interval)
            ELSE o.expect_send_time
        END AS start
    ) w
    WHERE b.id = @id AND b.status = 'ready' AND o.id = b.id AND (b.expires_at IS NULL OR b.expires_at > greatest(now(), w.start) + @min_lease::interval)
    RETURNING b.id
)
INSERT INTO batch_acts (batch_id, act, username) SELECT c.id, 'confirmed', @confirmed_by::text FROM confirmed c;

-- BatchPause pauses a running batch, and records the user. A batch that was confirmed and reads its tag again can also be paused: the reading goes on, so that
-- the rows are known if the batch ends while it is paused.
-- name: BatchPause :execrows
WITH paused AS (
    UPDATE batches b SET status = 'paused', is_held = true
    WHERE b.id = @id AND (b.status = 'running' OR b.status = 'checking' AND b.confirmed_at IS NOT NULL)
    RETURNING b.id
)
INSERT INTO batch_acts (batch_id, act, username) SELECT p.id, 'paused', @username::text FROM paused p;

-- BatchResume resumes a paused batch, and records the user.
-- name: BatchResume :execrows
WITH resumed AS (
    UPDATE batches b SET status = CASE WHEN is_in_check(b) THEN 'checking' ELSE 'running' END WHERE b.id = @id AND b.status = 'paused' RETURNING b.id
)
INSERT INTO batch_acts (batch_id, act, username) SELECT r.id, 'resumed', @username::text FROM resumed r;

-- BatchActAdd records an action of a user on a batch that the caller has locked.
-- name: BatchActAdd :exec
INSERT INTO batch_acts (batch_id, act, username) VALUES (@batch_id, @act, @username);

-- BatchActs returns up to max_rows actions of users on a batch, newest first.
-- name: BatchActs :many
SELECT a.act, a.username, a.at FROM batch_acts a WHERE a.batch_id = @batch_id ORDER BY a.id DESC LIMIT @max_rows::integer;

-- BatchPaused returns for how many seconds a running batch has been paused.
-- name: BatchPaused :one
SELECT coalesce(extract(epoch FROM sum(p.until - p.at)), 0)::double precision AS seconds
FROM (
    SELECT a.act, a.at, lead(a.at) OVER (ORDER BY a.id) AS until FROM batch_acts a WHERE a.batch_id = @batch_id AND a.act IN ('paused', 'resumed')
) p
WHERE p.act = 'paused';

-- BatchReleased sets is_held of a running batch to false if all tasks of the batch were released. Tasks that a switch holds do not count. The caller has locked
-- the batch in an earlier statement, so that this statement sees all tasks that were held until the lock.
-- name: BatchReleased :exec
UPDATE batches b SET is_held = false
WHERE b.id = @id AND b.status = 'running' AND b.is_held
    AND NOT EXISTS (
        SELECT FROM queue t WHERE t.batch_id = b.id AND t.lease_until IS NULL AND t.due_at = held_due_at()
            AND NOT EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, coalesce(t.submitted_by, task_submitter(t.task_id))))
    );

-- BatchCancel cancels a batch that has not ended, and returns the upload that the batch no longer needs.
-- name: BatchCancel :one
UPDATE batches b
SET status = 'cancelled', is_settled = b.fed = 0, ended_at = now(), upload_id = NULL
FROM (SELECT o.id, o.upload_id FROM batches o WHERE o.id = @id FOR UPDATE) was
WHERE b.id = was.id AND b.status IN ('checking', 'ready', 'running', 'paused')
RETURNING was.upload_id;

-- BatchRowsNext returns up to `portion` valid rows after after_row of a batch that the caller has locked.
-- name: BatchRowsNext :many
SELECT r.row_no, r.recipient, r.content, r.sign, r.segments, r.contact_values FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row::bigint AND r.code IS NULL
ORDER BY r.row_no
LIMIT @portion::integer;

-- BatchRowsFed stores the task ids of rows that became tasks. A rejected row has an empty task_id, a code and a fault.
-- name: BatchRowsFed :exec
UPDATE batch_rows r
SET task_id = nullif(x.task_id, ''), code = nullif(x.code, 0), fault = x.fault
FROM (
    SELECT unnest(@row_nos::bigint[]) AS row_no, unnest(@task_ids::text[]) AS task_id, unnest(@codes::smallint[]) AS code,
        unnest(@faults::jsonb[]) AS fault
) x
WHERE r.batch_id = @batch_id AND r.row_no = x.row_no AND r.task_id IS NULL AND r.code IS NULL;

-- BatchFed adds rows that became tasks (fed) or were rejected (invalid, blocked) to the counts of a running batch.
-- name: BatchFed :exec
UPDATE batches b
SET fed_row = @fed_row, fed = b.fed + @fed::bigint, valid = b.valid - sqlc.arg(invalid)::bigint - sqlc.arg(blocked)::bigint, invalid = b.invalid + @invalid::bigint,
    blocked = b.blocked + @blocked::bigint, segments = b.segments - @refused_segments::bigint, started_at = coalesce(b.started_at, now())
WHERE b.id = @id AND b.status = 'running';

-- BatchFinish ends a batch without remaining work. The batch has no remaining work if every row became a task or the batch expired, no task waits or is leased,
-- and no job is about to requeue tasks of the batch. A trigger creates the event. The caller has locked the batch in an earlier statement, so that this
-- statement sees all jobs that were stored until the lock. is_read: a batch of a tag reads the tag again at its start. Its rows are final only after this.
-- name: BatchFinish :execrows
UPDATE batches b
SET status = CASE WHEN b.status = 'cancelled' THEN b.status ELSE 'finished' END, is_settled = true, is_held = false,
    ended_at = coalesce(b.ended_at, now())
WHERE b.id = @id AND b.status IN ('running', 'paused', 'cancelled') AND NOT b.is_settled AND NOT is_in_check(b)
    AND (b.status = 'cancelled' OR b.expires_at <= now() OR b.status = 'running' AND b.is_read AND NOT EXISTS (
        SELECT FROM batch_rows r WHERE r.batch_id = b.id AND r.row_no > b.fed_row AND r.code IS NULL
    ))
    AND NOT EXISTS (SELECT FROM batch_totals t WHERE t.batch_id = b.id GROUP BY t.batch_id HAVING sum(t.waiting + t.processing) <> 0)
    AND NOT EXISTS (
        SELECT FROM task_jobs j WHERE j.status = 'running' AND j.action = 'requeue' AND (j.filter ->> 'batch_id')::bigint = b.id
    );

-- BatchRuns sets a finished batch to running, because a job is about to requeue tasks of the batch. If the batch has not ended, the statement locks the batch,
-- so that the batch does not end before the job is stored.
-- name: BatchRuns :execrows
UPDATE batches b SET status = CASE WHEN b.status = 'finished' THEN 'running' ELSE b.status END, is_settled = false, ended_at = NULL
WHERE b.id = @id AND b.status IN ('finished', 'running', 'paused');

-- BatchFailedVerdicts counts the FAILED tasks of a batch by verdict. The verdict 'fit' means that the task can be requeued; any other verdict is the reason why
-- not. RequeueVerdicts does the same for selected tasks, but never returns 'blocked'. The tasks are
-- selected as in JobPlan. Caps are not considered. Tasks to different countries, and tasks with and without a signature, are counted in separate rows, because one country can be refused and another
-- admitted. sample_id is one of the tasks that a row counts.
-- name: BatchFailedVerdicts :many
SELECT
    CASE
        WHEN EXISTS (
            SELECT FROM report_logs d
            WHERE d.task_id = m.task_id AND d.task_id >= @from_id::text AND d.event = 'receipt' AND d.effect = 'delivered'
        ) THEN 'delivered'
        WHEN m.expires_at <= clock_timestamp() + @min_lease::interval THEN 'expired'
        WHEN m.recipient = '' THEN 'erased'
        WHEN m.is_test AND NOT @send_tests::boolean THEN 'test'
        WHEN m.sender_no IS NOT NULL AND NOT @is_served::boolean THEN 'sender_gone'
        WHEN b.is_blocked THEN 'blocked'
        ELSE 'fit'
    END::text AS verdict,
    count(*) AS tasks, min(m.task_id)::text AS sample_id
FROM report_logs e
JOIN messages m ON m.task_id = e.task_id
LEFT JOIN LATERAL (SELECT true AS is_blocked FROM blocks_of(m.recipient, m.company_id, m.message_type) LIMIT 1) b ON true
WHERE e.outcome = 3 AND e.task_id >= @from_id::text AND m.task_id >= @from_id::text AND m.batch_id = @batch_id::bigint -- FAILED
GROUP BY 1, m.country_no, m.sign IS NULL
ORDER BY 1, sample_id;

-- BatchRowList returns rows of a batch after after_row. only_valid: rows with a code are skipped.
-- name: BatchRowList :many
SELECT * FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row::bigint AND (r.code IS NULL OR NOT @only_valid::boolean)
ORDER BY r.row_no
LIMIT @page_limit::integer;

-- BatchRowsWrong returns the rows of a batch after after_row that have one of `codes`.
-- name: BatchRowsWrong :many
SELECT * FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row::bigint AND r.code IS NOT NULL AND r.code = ANY (@codes::smallint[])
ORDER BY r.row_no
LIMIT @page_limit::integer;

-- BatchRowsUnsent returns the unsent rows of an ended batch after after_row. A row is unsent if it has a code, or if it did not become a task before the end of
-- the batch.
-- name: BatchRowsUnsent :many
SELECT * FROM batch_rows r
WHERE r.batch_id = @batch_id AND r.row_no > @after_row::bigint AND (r.code IS NOT NULL OR r.task_id IS NULL)
ORDER BY r.row_no
LIMIT @page_limit::integer;

-- BatchCountsAdd adds changes to the counts of tasks of batches. It skips deleted batches.
-- name: BatchCountsAdd :exec
INSERT INTO batch_counts AS c (batch_id, sender_no, waiting, processing, success, failed, delivered, undelivered, segments)
SELECT x.batch_id, x.sender_no, sum(x.waiting), sum(x.processing), sum(x.success), sum(x.failed), sum(x.delivered), sum(x.undelivered), sum(x.segments)
FROM (
    SELECT unnest(@batch_ids::bigint[]) AS batch_id, unnest(@sender_nos::text[]) AS sender_no, unnest(@waiting::bigint[]) AS waiting,
        unnest(@processing::bigint[]) AS processing, unnest(@success::bigint[]) AS success, unnest(@failed::bigint[]) AS failed,
        unnest(@delivered::bigint[]) AS delivered, unnest(@undelivered::bigint[]) AS undelivered, unnest(@segments::bigint[]) AS segments
) x
JOIN batches b ON b.id = x.batch_id
GROUP BY x.batch_id, x.sender_no
ORDER BY x.batch_id, x.sender_no
ON CONFLICT (batch_id, sender_no) DO UPDATE
SET waiting = c.waiting + excluded.waiting, processing = c.processing + excluded.processing, success = c.success + excluded.success,
    failed = c.failed + excluded.failed, delivered = c.delivered + excluded.delivered, undelivered = c.undelivered + excluded.undelivered,
    segments = c.segments + excluded.segments;

-- BatchesDeleteExpired deletes up to batch_size batches with their rows. A batch is deleted if it needs no further processing (is_settled), and ended longer
-- than `keep` ago. If the batch was never confirmed, the end of its check counts. A batch whose rows have their own partition is normally deleted with the
-- partition. This statement deletes such a batch only after keep_held, when other batches of the partition still prevent the drop.
-- name: BatchesDeleteExpired :execrows
WITH old AS (
    SELECT o.id FROM batches o
    WHERE o.is_settled AND coalesce(o.ended_at, o.checked_at) < now() - @keep::interval
        AND (
            coalesce(o.ended_at, o.checked_at) < now() - @keep_held::interval
            OR NOT EXISTS (
                SELECT FROM number_partitions p WHERE p.parent = 'batch_rows' AND p.first_number > 0 AND p.first_number <= o.id
            )
        )
    ORDER BY o.id
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
rows_deleted AS (
    DELETE FROM batch_rows r USING old WHERE r.batch_id = old.id
)
DELETE FROM batches b USING old WHERE b.id = old.id;

-- BatchRowsDrop drops the first partition of rows if all its batches ended longer ago than `keep`. It deletes these batches, and returns their number, see
-- batch_partition_drop.
-- name: BatchRowsDrop :one
SELECT batch_partition_drop(@keep::interval)::bigint AS dropped;

-- SenderLimits returns up to 100 available senders with their limits. These senders serve the pool by a route, or as shared senders. sender_id: only this
-- sender is returned.
--
-- The statement returns no sender if a switch holds the messages of the company to the country (null: the country is unknown), or if the company forbids the
-- shared senders that serve the pool. Switches that hold messages to all countries, for example a company that is off, have no effect. Silent senders are
-- returned only if all senders are silent.
--
-- group_no is 0 for the senders with the largest sort. ..._used is the used amount of a limit. funds is the usable balance of a sender with a balance. sign,
-- forbids_signs, segment_size and counts_segments determine how the sender counts segments.
-- name: SenderLimits :many
WITH candidates AS MATERIALIZED (
    SELECT r.sender_id, r.weight::double precision AS weight, r.sort
    FROM routes r JOIN sender_standings x ON x.sender_id = r.sender_id
    WHERE r.pool_id = @pool_id::bigint AND sqlc.narg(sender_id)::bigint IS NULL AND r.status = 'on' AND x.is_available
    UNION ALL
    SELECT x.sender_id, 1, x.sort
    FROM pools p JOIN sender_standings x ON x.channel_id = p.channel_id
    WHERE p.id = @pool_id::bigint AND sqlc.narg(sender_id)::bigint IS NULL AND p.company_id IS NULL AND x.is_shared AND x.is_available
    UNION ALL
    SELECT x.sender_id, 1, 0 FROM sender_standings x WHERE x.sender_id = sqlc.narg(sender_id)::bigint AND x.is_available
),
known AS MATERIALIZED (
    SELECT c.*, (
        SELECT z.is_silent FROM sender_silences(@silent_after::interval, @recorded_apart::interval) z WHERE z.sender_id = c.sender_id
    )::boolean AS is_silent
    FROM candidates c
)
SELECT x.sender_no, c.weight::double precision AS weight, s.sign, s.sign_mode = 'none' AS forbids_signs, s.segment_size,
    (s.channel_id = (SELECT h.id FROM channels h WHERE h.channel = 'sms'))::boolean AS counts_segments,
    s.interval_ms, s.per_minute, s.per_hour, s.per_day, s.per_month,
    x.minute_used::bigint AS minute_used, x.hour_used::bigint AS hour_used, x.day_used::bigint AS day_used, x.month_used::bigint AS month_used,
    s.has_balance, (coalesce(x.balance, 0) - coalesce(s.low_switch, 0))::bigint AS funds, now()::timestamptz AS at, c.is_silent,
    (dense_rank() OVER (ORDER BY c.sort DESC) - 1)::integer AS group_no
FROM known c
JOIN senders s ON s.id = c.sender_id
JOIN sender_standings x ON x.sender_id = c.sender_id
WHERE c.is_silent = (SELECT bool_and(m.is_silent) FROM known m)
    AND NOT EXISTS (
        SELECT FROM task_switches(@pool_id::bigint, @company_id::bigint, sqlc.narg(country_no)::text, '') w
        WHERE w.switch IN ('country', 'company_country', 'channel_country') OR w.switch = 'shared_senders' AND sqlc.narg(sender_id)::bigint IS NULL
    )
ORDER BY group_no, x.sender_no
LIMIT 100;

-- BatchLeft returns the numbers of rows of a batch that no sender holds, by country: the tasks that wait in the queue (is_queued), and the rows that did not
-- become tasks yet. It reads up to max_rows rows of each kind, in any order.
-- name: BatchLeft :many
SELECT x.is_queued::boolean AS is_queued, coalesce(x.country_no, '')::text AS country_no, count(*) AS rows
FROM (
    (SELECT true AS is_queued, t.country_no FROM queue t
        WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL -- by queue_batch_idx
        LIMIT @max_rows::integer)
    UNION ALL
    (SELECT false, r.country_no FROM batch_rows r
        WHERE r.batch_id = @batch_id::bigint AND r.row_no > @fed_row::bigint AND r.code IS NULL
        LIMIT @max_rows::integer)
) x
GROUP BY 1, 2
ORDER BY 1, 2;

-- BatchPlans returns some waiting tasks of a batch: up to max_rows of the oldest and of the newest, and one that is due. former_due_at is
-- the due time without quiet hours and caps. is_new: the task had no attempt, so if it is due later, quiet hours or caps of its recipient delay it.
-- name: BatchPlans :many
(SELECT t.due_at, coalesce(former_due_at(t), t.due_at)::timestamptz AS former_due_at, t.recipient,
    (t.retry_count = 0 AND t.troubles = 0)::boolean AS is_new FROM queue t
    WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL AND t.due_at < held_due_at() -- by queue_batch_idx
    ORDER BY t.task_id LIMIT @max_rows::integer)
UNION ALL
(SELECT t.due_at, coalesce(former_due_at(t), t.due_at), t.recipient, t.retry_count = 0 AND t.troubles = 0 FROM queue t
    WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL AND t.due_at < held_due_at()
    ORDER BY t.task_id DESC LIMIT @max_rows::integer)
UNION ALL
(SELECT t.due_at, coalesce(former_due_at(t), t.due_at), t.recipient, t.retry_count = 0 AND t.troubles = 0 FROM queue t
    WHERE t.batch_id = @batch_id::bigint AND t.lease_until IS NULL AND t.due_at <= now()
    LIMIT 1)
ORDER BY due_at;

-- BatchNextRecipients returns the recipients of up to max_rows next rows of a batch that are not tasks yet.
-- name: BatchNextRecipients :many
SELECT r.recipient FROM batch_rows r
WHERE r.batch_id = @batch_id::bigint AND r.row_no > @fed_row::bigint AND r.code IS NULL
ORDER BY r.row_no
LIMIT @max_rows::integer;

-- TaskStates returns the states of tasks. It computes them like the view `tasks`, but opens only the partitions of these tasks. Tasks whose partition was
-- dropped are not returned. delivery: 1 delivered, 2 undelivered, 0 without receipt.
-- name: TaskStates :many
SELECT m.task_id, CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
    coalesce(q.result, e.result) AS result, coalesce(min(CASE r.effect WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END), 0)::smallint AS delivery
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id = ANY (@task_ids::text[]) AND e.outcome IS NOT NULL
LEFT JOIN report_logs r ON r.task_id = m.task_id AND r.task_id = ANY (@task_ids::text[]) AND r.event = 'receipt'
WHERE m.task_id = ANY (@task_ids::text[])
GROUP BY m.task_id, q.task_id, q.lease_until, q.result, e.outcome, e.result
ORDER BY m.task_id;
