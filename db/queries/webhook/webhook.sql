-- Statements on webhooks. A webhook is an address to which events of the feed are sent by POST. A run of a webhook reads events, sends them outside of a
-- transaction, and records all outcomes in one transaction.

-- WebhookCreate creates a webhook. Its first event is the first event after after_id. An empty external_id means no value.
-- name: WebhookCreate :one
INSERT INTO webhooks (company_id, user_id, url, events, description, created_by, after_id, form, external_id)
VALUES (
    sqlc.narg(company_id)::bigint, (SELECT u.id FROM users u WHERE u.username = sqlc.narg(username)::text), @url, @events::text[], @description,
    @created_by, @after_id, @form, nullif(@external_id::text, '')
)
RETURNING id;

-- WebhookList returns webhooks with ids smaller than before_id, newest first. username null: webhooks of all users.
-- name: WebhookList :many
SELECT w.id, c.company_no, w.company_id, u.username, w.url, w.events, w.description, w.status, w.off_reason, w.created_by, w.failing_since, w.rotated_at,
    w.version, w.created_at, w.updated_at, (SELECT count(*) FROM webhook_retries r WHERE r.webhook_id = w.id)::bigint AS waiting,
    w.form, w.external_id, coalesce(u.role = 'admin', true)::boolean AS is_trusted -- true if an administrator set the address
FROM webhooks w
LEFT JOIN companies c ON c.id = w.company_id
LEFT JOIN users u ON u.id = w.user_id
WHERE w.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR w.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(username)::text IS NULL OR (u.username = sqlc.narg(username)::text AND u.company_id = w.company_id))
    AND (sqlc.narg(form)::text IS NULL OR w.form = sqlc.narg(form)::text)
    AND (sqlc.narg(external_id)::text IS NULL OR w.external_id = sqlc.narg(external_id)::text)
ORDER BY w.id DESC
LIMIT @page_limit::integer;

-- WebhookUpdate changes a webhook if its version is still `version`, and ends its pause.
-- name: WebhookUpdate :execrows
UPDATE webhooks w
SET url = @url, events = @events::text[], description = @description, status = @status::text, off_reason = CASE WHEN @status::text = 'off' THEN w.off_reason END,
    failing_since = NULL, failed_runs = 0, rest_until = NULL, version = w.version + 1, updated_at = now()
WHERE w.id = @id AND w.version = @version;

-- WebhookDelete deletes a webhook.
-- name: WebhookDelete :execrows
DELETE FROM webhooks w WHERE w.id = @id;

-- WebhookHold locks a webhook until the end of the transaction.
-- name: WebhookHold :one
SELECT w.company_id FROM webhooks w WHERE w.id = @id FOR UPDATE;

-- WebhookUserHold locks a user until the end of the transaction, so that only one request at a time changes the webhooks of this user. It returns no row for a
-- deleted user, and for the configured administrator, who is not stored in users.
-- name: WebhookUserHold :one
SELECT u.id FROM users u WHERE u.username = @username AND u.company_id = @company_id FOR NO KEY UPDATE;

-- WebhookSecretAdd creates the row of a new secret of a webhook. WebhookSecretStore then stores the encrypted secret.
-- name: WebhookSecretAdd :one
INSERT INTO webhook_secrets (webhook_id, sealed) VALUES (@webhook_id, '') RETURNING id;

-- WebhookSecretStore stores an encrypted secret. It changes nothing if the secret was changed meanwhile.
-- name: WebhookSecretStore :execrows
UPDATE webhook_secrets s SET sealed = @sealed WHERE s.id = @id AND s.sealed = @before;

-- WebhookSecretsExpire sets the end of the current secret of a webhook: the secret signs for `overlap` from now. It deletes expired secrets, and keeps only the
-- newest max_secrets secrets. The caller has locked the webhook.
-- name: WebhookSecretsExpire :exec
WITH deleted AS (
    DELETE FROM webhook_secrets s
    WHERE s.webhook_id = @webhook_id AND (
        s.valid_until <= now()
        OR s.id <= coalesce((SELECT o.id FROM webhook_secrets o WHERE o.webhook_id = @webhook_id ORDER BY o.id DESC OFFSET @max_secrets::integer LIMIT 1), 0)
    )
)
UPDATE webhook_secrets s SET valid_until = now() + @overlap::interval WHERE s.webhook_id = @webhook_id AND s.valid_until IS NULL;

-- WebhookRotated records that the secret of a webhook was replaced now.
-- name: WebhookRotated :exec
UPDATE webhooks w SET rotated_at = now(), version = w.version + 1, updated_at = now() WHERE w.id = @id;

-- WebhookSecrets returns the secrets that sign the requests of a webhook, the current secret first.
-- name: WebhookSecrets :many
SELECT s.id, s.sealed FROM webhook_secrets s
WHERE s.webhook_id = @webhook_id AND (s.valid_until IS NULL OR s.valid_until > now())
ORDER BY s.id DESC;

-- WebhookSecretList returns all secrets of all webhooks, so that they can be encrypted again.
-- name: WebhookSecretList :many
SELECT s.id, s.sealed FROM webhook_secrets s ORDER BY s.id;

-- WebhooksDue returns the webhooks that have events to send or to skip. Failing webhooks are last. Webhooks of disabled users are not returned. is_due needs
-- the longest possible waits: a pause of a webhook lasts at most a day, and a retry waits for at most 27 hours (a day plus a tenth).
-- name: WebhooksDue :many
SELECT w.id, (w.failing_since IS NOT NULL)::boolean AS is_failing, coalesce(w.company_id, 0)::bigint AS company_id -- 0 for a webhook of all companies
FROM webhooks w
LEFT JOIN users u ON u.id = w.user_id
WHERE w.status = 'on' AND w.id <> ALL (@running::bigint[]) AND (w.rest_until IS NULL OR is_due(w.rest_until, interval '1 day'))
    AND (w.user_id IS NULL OR NOT u.is_disabled)
    AND (
        EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND is_due(r.due_at, interval '27 hours'))
        OR (
            (SELECT count(*) FROM (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.tries > 0 LIMIT @max_waiting::integer) x) < @max_waiting::integer
            AND CASE WHEN w.company_id IS NULL THEN EXISTS (SELECT FROM feed f WHERE f.id > w.after_id)
                WHEN w.user_id IS NOT NULL THEN EXISTS ( -- the same condition as in FeedRead: events of other submitters of the company do not count
                    SELECT FROM feed f WHERE f.id > w.after_id AND f.company_id = w.company_id AND f.submitted_by = u.username
                )
                ELSE EXISTS (SELECT FROM feed f WHERE f.id > w.after_id AND f.company_id = w.company_id) END
        )
    )
ORDER BY w.failing_since NULLS FIRST, w.id;

-- WebhookRead returns the data that a run of a webhook needs. has_room is true if fewer than max_waiting failed events wait for a retry. The run can then send
-- new events after after_id.
-- name: WebhookRead :one
SELECT w.id, w.company_id, u.username, w.url, w.events, w.version, w.after_id, w.failed_runs, w.form, w.external_id,
    coalesce(u.role = 'admin', true)::boolean AS is_trusted, -- true if an administrator set the address
    ((SELECT count(*) FROM (SELECT FROM webhook_retries r WHERE r.webhook_id = w.id AND r.tries > 0 LIMIT @max_waiting::integer) x) < @max_waiting::integer)::boolean AS has_room
FROM webhooks w
LEFT JOIN users u ON u.id = w.user_id
WHERE w.id = @id AND (NOT @only_on::boolean OR w.status = 'on' AND (w.user_id IS NULL OR NOT u.is_disabled));

-- WebhookRetriesDue returns the events of a webhook whose retry is due, in the order of their ids. An event is skipped if an earlier event of the same task
-- waits for a retry that is not due.
-- name: WebhookRetriesDue :many
SELECT f.id, f.company_id, f.submitted_by, f.type, coalesce(f.task_id, '')::text AS task_id, coalesce(f.log_id, 0)::bigint AS log_id, f.at, f.data, r.tries
FROM webhook_retries r
JOIN feed f ON f.id = r.feed_id
WHERE r.webhook_id = @webhook_id AND is_due(r.due_at, interval '27 hours') AND NOT EXISTS (
    SELECT FROM webhook_retries e
    WHERE e.webhook_id = r.webhook_id AND e.task_id = r.task_id AND e.feed_id < r.feed_id AND is_due(e.due_at, interval '27 hours') IS NOT TRUE
)
ORDER BY r.feed_id
LIMIT @page_limit::integer;

-- WebhookTasksWaiting returns the tasks of task_ids that have events waiting for a retry by a webhook.
-- name: WebhookTasksWaiting :many
SELECT DISTINCT r.task_id::text AS task_id FROM webhook_retries r
WHERE r.webhook_id = @webhook_id AND r.task_id = ANY (@task_ids::text[])
ORDER BY task_id;

-- WebhookSettle records the outcome of a run of a webhook, and sets after_id to the last processed event. taken: the receiver accepted a request. failed: a
-- request failed. pause: the webhook is paused for this time. It returns no row if another server processed the webhook meanwhile, or if the webhook was
-- changed or turned off. The run is then not recorded.
-- name: WebhookSettle :one
UPDATE webhooks w
SET after_id = greatest(w.after_id, @next_id::bigint),
    failing_since = CASE WHEN @taken::boolean THEN NULL WHEN @failed::boolean THEN coalesce(w.failing_since, now()) ELSE w.failing_since END,
    failed_runs = CASE WHEN @taken::boolean THEN 0 WHEN @failed::boolean THEN w.failed_runs + 1 ELSE w.failed_runs END,
    rest_until = CASE WHEN @pause::interval > interval '0' THEN now() + @pause::interval END
WHERE w.id = @id AND w.version = @version AND w.after_id = @after_id::bigint AND w.status = 'on'
RETURNING w.failing_since, coalesce(w.failing_since < now() - @max_failing::interval, false)::boolean AS is_over;

-- WebhookOff turns a webhook off automatically, and adds an operator event.
-- name: WebhookOff :exec
WITH off AS (
    UPDATE webhooks w SET status = 'off', off_reason = @reason::text, version = w.version + 1, updated_at = now()
    WHERE w.id = @id AND w.status = 'on'
    RETURNING w.id, w.company_id, w.failing_since
)
INSERT INTO events (event, subject, detail)
SELECT 'webhook.off', o.id::text, jsonb_build_object(
    'reason', @reason::text, 'failing_since', o.failing_since, 'company_no', (SELECT c.company_no FROM companies c WHERE c.id = o.company_id)
)
FROM off o;

-- WebhookRetriesDone deletes the retries of events that the receiver accepted.
-- name: WebhookRetriesDone :exec
DELETE FROM webhook_retries r WHERE r.webhook_id = @webhook_id AND r.feed_id = ANY (@feed_ids::bigint[]);

-- WebhookRetriesFree makes retries of a webhook due now if they waited for an earlier event of their task, and no earlier event waits any more.
-- name: WebhookRetriesFree :exec
UPDATE webhook_retries r SET due_at = now()
WHERE r.webhook_id = @webhook_id AND r.due_at IS NULL AND NOT EXISTS (
    SELECT FROM webhook_retries e WHERE e.webhook_id = r.webhook_id AND e.task_id = r.task_id AND e.feed_id < r.feed_id
);

-- WebhookRetriesFreeAll does the same as WebhookRetriesFree for all webhooks, after earlier events were deleted.
-- name: WebhookRetriesFreeAll :execrows
UPDATE webhook_retries r SET due_at = now()
WHERE r.due_at IS NULL AND NOT EXISTS (
    SELECT FROM webhook_retries e WHERE e.webhook_id = r.webhook_id AND e.task_id = r.task_id AND e.feed_id < r.feed_id
);

-- WebhookRetriesBehind makes a retry wait for an earlier event of the same task if the retry of the earlier event is not due.
-- name: WebhookRetriesBehind :exec
UPDATE webhook_retries r SET due_at = NULL
WHERE r.webhook_id = @webhook_id AND r.due_at IS NOT NULL AND EXISTS (
    SELECT FROM webhook_retries e
    WHERE e.webhook_id = r.webhook_id AND e.task_id = r.task_id AND e.feed_id < r.feed_id AND is_due(e.due_at, interval '27 hours') IS NOT TRUE
);

-- WebhookRetriesNow makes all retries of a webhook due now, because its receiver works again. Retries that wait for an earlier event of their task do not
-- change.
-- name: WebhookRetriesNow :exec
UPDATE webhook_retries r SET due_at = now() WHERE r.webhook_id = @webhook_id AND r.due_at > now();

-- WebhookRetriesPut stores retries of events. A retry is due after its wait in seconds. wait -1: the retry waits for an earlier event of the same task. The
-- caller has locked the webhook. An event that was deleted meanwhile is skipped. An event of are_retries is also skipped if its retry no longer exists, because
-- another server has processed the retry meanwhile.
-- name: WebhookRetriesPut :exec
INSERT INTO webhook_retries AS r (webhook_id, feed_id, task_id, tries, due_at, delivery_id)
SELECT @webhook_id, f.id, f.task_id, x.tries, CASE WHEN x.wait >= 0 THEN now() + make_interval(secs => x.wait) END, nullif(x.delivery_id, 0)
FROM (
    SELECT unnest(@feed_ids::bigint[]) AS feed_id, unnest(@tries::bigint[]) AS tries, unnest(@waits::double precision[]) AS wait,
        unnest(@delivery_ids::bigint[]) AS delivery_id, unnest(@are_retries::boolean[]) AS is_retry
) x
JOIN feed f ON f.id = x.feed_id
WHERE NOT x.is_retry OR EXISTS (SELECT FROM webhook_retries e WHERE e.webhook_id = @webhook_id AND e.feed_id = x.feed_id)
ORDER BY f.id
ON CONFLICT ON CONSTRAINT webhook_retries_pkey DO UPDATE
SET tries = excluded.tries, due_at = excluded.due_at, delivery_id = coalesce(excluded.delivery_id, r.delivery_id);

-- FeedSpan returns the smallest and the largest id of the events in a time range. Both are 0 if no event exists. It also returns the time of the oldest event
-- of the feed, and whether events were ever deleted. `+ 0` forces the index by time. With the plan for min(id), the statement would scan the feed in the order
-- of ids.
-- name: FeedSpan :one
SELECT coalesce(min(f.id + 0), 0)::bigint AS first_id, coalesce(max(f.id + 0), 0)::bigint AS last_id,
    coalesce((SELECT min(o.at) FROM feed o), now())::timestamptz AS oldest_at, (SELECT s.pruned_id > 0 FROM feed_state s)::boolean AS is_pruned
FROM feed f
WHERE f.at >= @from_at AND f.at < @to_at;

-- WebhookBegins ends the pause of a webhook. It also increases the version, so that a run that has already begun is not recorded. The caller has locked the
-- webhook.
-- name: WebhookBegins :exec
UPDATE webhooks w SET version = w.version + 1, rest_until = NULL WHERE w.id = @id;

-- WebhookReplay makes up to max_rows events of the feed due again for a webhook. It returns their number and the last id. The events are the events of `ids`, or
-- the events of a time range (by_time), if the webhook subscribes to them. All ids are between from_id and until_id. An event that waits for an earlier event
-- of its task continues to wait.
-- name: WebhookReplay :one
WITH picked AS MATERIALIZED (
    SELECT f.id, f.task_id
    FROM feed f
    WHERE (@all_companies::boolean OR f.company_id = @company_id::bigint) AND (NOT @of_user::boolean OR f.submitted_by = @submitted_by::text)
        AND f.type = ANY (@types::text[]) AND f.id BETWEEN @from_id::bigint AND @until_id::bigint
        AND (f.id = ANY (@ids::bigint[]) OR (@by_time::boolean AND f.at >= @from_at::timestamptz AND f.at < @to_at::timestamptz))
    ORDER BY f.id
    LIMIT @max_rows::integer
),
put AS (
    INSERT INTO webhook_retries AS r (webhook_id, feed_id, task_id, due_at)
    SELECT @webhook_id, p.id, p.task_id, now() FROM picked p ORDER BY p.id
    ON CONFLICT ON CONSTRAINT webhook_retries_pkey DO UPDATE SET due_at = CASE WHEN r.due_at IS NOT NULL THEN now() END
)
SELECT count(*) AS events, coalesce(max(p.id), 0)::bigint AS last_id FROM picked p;

-- WebhookForward makes the event of a received message due for a webhook that does not subscribe to such events. It returns whether the event is in the feed, and
-- whether the webhook gets it anyway. `at` is the time of the message, which is also the time of its event. The caller has locked the webhook.
-- name: WebhookForward :one
WITH event AS (
    SELECT f.id, f.submitted_by FROM feed f
    WHERE f.at = @at AND f.company_id = @company_id AND f.type = 'message.received' AND (f.data ->> 'received_id')::bigint = @received_id::bigint
    ORDER BY f.id
    LIMIT 1
),
put AS (
    INSERT INTO webhook_retries (webhook_id, feed_id, due_at)
    SELECT @webhook_id, e.id, now() FROM event e WHERE NOT @is_subscribed::boolean
    ON CONFLICT ON CONSTRAINT webhook_retries_pkey DO NOTHING
)
SELECT EXISTS (SELECT FROM event e) AS is_in_feed;

-- WebhookWaiting returns the number of events of a webhook that wait for a retry, and its after_id.
-- name: WebhookWaiting :one
SELECT count(r.feed_id) AS waiting, w.after_id FROM webhooks w LEFT JOIN webhook_retries r ON r.webhook_id = w.id WHERE w.id = @id GROUP BY w.id;

-- WebhookDeliveriesAdd stores sent requests, and returns their ids in the same order. Empty texts and the status code 0 mean no value. If an erasure removed the
-- person meanwhile, the response is not stored.
-- name: WebhookDeliveriesAdd :many
INSERT INTO webhook_deliveries (webhook_id, feed_id, type, task_id, at, attempt, status_code, duration_ms, error, response)
SELECT @webhook_id, x.feed_id, x.type, nullif(x.task_id, ''), x.at, x.attempt, nullif(x.status_code, 0), x.duration_ms, nullif(x.error, ''),
    CASE
        WHEN x.response = '' OR EXISTS (SELECT FROM messages m WHERE m.task_id = x.task_id AND m.recipient = '')
            OR EXISTS (
                SELECT FROM feed f JOIN received_messages r ON r.id = (f.data ->> 'received_id')::bigint
                WHERE f.id = x.feed_id AND x.type = 'message.received' AND r.phone_number = ''
            )
            OR (x.type IN ('verification.approved', 'verification.failed') AND NOT EXISTS (
                SELECT FROM feed f JOIN verifications v ON v.verification_id = f.data ->> 'verification_id' WHERE f.id = x.feed_id
            )) THEN NULL
        ELSE x.response
    END
FROM (
    SELECT generate_series(1, cardinality(@feed_ids::bigint[])) AS nth, unnest(@feed_ids::bigint[]) AS feed_id, unnest(@types::text[]) AS type,
        unnest(@task_ids::text[]) AS task_id, unnest(@ats::timestamptz[]) AS at, unnest(@attempts::bigint[]) AS attempt,
        unnest(@status_codes::bigint[]) AS status_code, unnest(@durations::bigint[]) AS duration_ms, unnest(@errors::text[]) AS error,
        unnest(@responses::text[]) AS response
) x
ORDER BY x.nth
RETURNING id, feed_id;

-- WebhookDeliveriesDeleteOldest deletes stored requests of a webhook. It keeps the latest max_rows requests, and the last request of each event that waits for a
-- retry.
-- name: WebhookDeliveriesDeleteOldest :exec
DELETE FROM webhook_deliveries d
WHERE d.webhook_id = @webhook_id
    AND d.id <= coalesce((SELECT o.id FROM webhook_deliveries o WHERE o.webhook_id = @webhook_id ORDER BY o.id DESC OFFSET @max_rows::integer LIMIT 1), 0)
    AND NOT EXISTS (SELECT FROM webhook_retries r WHERE r.webhook_id = d.webhook_id AND r.feed_id = d.feed_id AND r.delivery_id = d.id);

-- WebhookDeliveryList returns requests of a webhook with ids smaller than before_id, newest first. next_at is the time of the next retry of the event. It is
-- set only in the last failed request of the event.
-- name: WebhookDeliveryList :many
SELECT d.id, d.feed_id, d.type, d.at, d.attempt, d.status_code, d.duration_ms, d.error, d.response, r.due_at AS next_at
FROM webhook_deliveries d
LEFT JOIN webhook_retries r ON r.webhook_id = d.webhook_id AND r.feed_id = d.feed_id AND r.delivery_id = d.id
WHERE d.webhook_id = @webhook_id AND d.id < @before_id
ORDER BY d.id DESC
LIMIT @page_limit::integer;

-- FeedIDNext returns an unused id of the feed.
-- name: FeedIDNext :one
SELECT nextval('feed_ids')::bigint;

-- WebhookListenersHold locks the listeners with webhooks until the end of the transaction. A webhook that is added concurrently waits for these locks, so that
-- WebhookListenersEnd does not end its listener.
-- name: WebhookListenersHold :many
SELECT l.id FROM feed_listeners l WHERE l.is_pushed ORDER BY l.id FOR UPDATE;

-- WebhookListenersEnd sets an end time for each listener whose webhooks are all off. If a webhook is turned on again before this time, the events in between
-- are not lost.
-- name: WebhookListenersEnd :execrows
UPDATE feed_listeners l SET is_pushed = false, listens_until = greatest(l.listens_until, now() + @listens::interval)
WHERE l.is_pushed AND NOT EXISTS (
    SELECT FROM webhooks w WHERE w.status = 'on' AND (w.company_id = l.company_id OR (w.company_id IS NULL AND l.company_id IS NULL))
);

-- FeedGet returns events by their ids, oldest first.
-- name: FeedGet :many
SELECT f.id, f.company_id, f.submitted_by, f.type, coalesce(f.task_id, '')::text AS task_id, coalesce(f.log_id, 0)::bigint AS log_id, f.at, f.data
FROM feed f
WHERE f.id = ANY (@ids::bigint[])
ORDER BY f.id;
