-- Statements on phones with the SMSGate app. Each phone serves one sender.

-- PhonePair creates a code with which one phone can register for a sender. An earlier code becomes invalid. A phone that is already registered remains
-- registered until the code is used.
-- name: PhonePair :one
INSERT INTO phones AS p (sender_id, code_hash, code_until, code_sim_number)
SELECT s.id, @code_hash::bytea, now() + @valid_for::interval, sqlc.narg(sim_number)::smallint
FROM senders s
WHERE s.sender_no = @sender_no
ON CONFLICT (sender_id) DO UPDATE
SET code_hash = excluded.code_hash, code_until = excluded.code_until, code_sim_number = excluded.code_sim_number
RETURNING p.code_until::timestamptz AS code_until;

-- PhoneCodeUse makes a valid code invalid, and returns its sender. It returns no row if no valid code has this hash.
-- name: PhoneCodeUse :one
UPDATE phones p
SET code_hash = NULL, code_until = NULL
FROM senders s
WHERE p.code_hash = @code_hash::bytea AND p.code_until > now() AND s.id = p.sender_id
RETURNING p.sender_id, s.sender_no;

-- PhoneUserDelete deletes the user of the previously registered phone of a sender. The API key of the user is also deleted.
-- name: PhoneUserDelete :exec
DELETE FROM users u USING phones p WHERE p.sender_id = @sender_id AND u.id = p.user_id;

-- PhoneRegister stores the phone that used the code of a sender.
-- name: PhoneRegister :exec
UPDATE phones
SET device_no = @device_no::text, model = sqlc.narg(model), registered_at = now(), user_id = (SELECT u.id FROM users u WHERE u.username = @username),
    sim_number = code_sim_number, code_sim_number = NULL, pull_until = NULL
WHERE sender_id = @sender_id;

-- PhoneGet returns the registered phone of a user.
--   signing_key   the encrypted key with which the phone signs received messages; empty: the phone has no key yet
--   is_hooked     the phone has read the address to which it posts received messages
--   export_since, export_until   the phone is asked to post the messages of this time again; null: it is not asked
-- name: PhoneGet :one
SELECT p.sender_id, s.sender_no, p.device_no::text AS device_no, p.sim_number, p.claimed_at,
    coalesce(i.signing_key, '')::text AS signing_key, (i.hooked_at IS NOT NULL)::boolean AS is_hooked, i.export_since, i.export_until
FROM phones p
JOIN users u ON u.id = p.user_id
JOIN senders s ON s.id = p.sender_id
LEFT JOIN phone_inboxes i ON i.sender_id = p.sender_id AND i.device_no = p.device_no
WHERE u.username = @username AND p.device_no IS NOT NULL;

-- PhoneBreaker returns the version of a phone's sender, and the state of its circuit breaker. It returns no row if another phone was registered meanwhile.
-- name: PhoneBreaker :one
SELECT s.version, st.openings, coalesce(st.rest_until > clock_timestamp(), false)::boolean AS is_open
FROM phones p
JOIN senders s ON s.id = p.sender_id
JOIN sender_states st ON st.sender_id = s.id
WHERE p.sender_id = @sender_id AND p.device_no = @device_no::text;

-- PhonePullBegin allows one pull of a phone to claim tasks for the time valid_for. It returns 0 if another pull is in progress, or if another phone was
-- registered meanwhile.
-- name: PhonePullBegin :execrows
UPDATE phones
SET pull_until = clock_timestamp() + @valid_for::interval
WHERE sender_id = @sender_id AND device_no = @device_no::text AND (pull_until IS NULL OR pull_until <= clock_timestamp());

-- PhonePullEnd ends the pull that PhonePullBegin allowed.
-- name: PhonePullEnd :exec
UPDATE phones SET pull_until = NULL WHERE sender_id = @sender_id AND device_no = @device_no::text;

-- PhoneLeasesDelete deletes the leases of the previously registered phone. This phone possibly sent the messages of these leases, so the next phone must not
-- receive them.
-- name: PhoneLeasesDelete :exec
DELETE FROM phone_leases WHERE sender_id = @sender_id;

-- PhoneHeld returns the messages whose leases a phone holds, the oldest lease first. It also deletes the records of the leases that have ended. content is
-- computed as in TaskLease. sealed is the encrypted text of a sensitive message, whose content is masked. valid_until: the phone can send the message until this
-- time (phone_valid_until).
-- name: PhoneHeld :many
WITH held AS MATERIALIZED (
    SELECT l.lease_id, q.task_id, q.recipient, q.lease_sim, q.updated_at AS leased_at,
        phone_valid_until(q.updated_at, q.lease_until, q.send_before, @margin::interval) AS valid_until,
        q.sealed, coalesce(q.sign, q.lease_sign, '') AS sign, q.lease_sign_mode, handed_text(q.content, coalesce(q.sign, q.lease_sign), q.lease_sign_mode) AS content
    FROM phones p
    JOIN phone_leases l ON l.sender_id = p.sender_id
    CROSS JOIN LATERAL (
        SELECT t.*, send_before(t) AS send_before FROM queue t WHERE t.task_id = l.task_id OFFSET 0 -- OFFSET 0 forces one lookup for each lease, regardless of the size of the queue
    ) q
    WHERE p.sender_id = @sender_id AND p.device_no = @device_no::text AND q.lease_id = l.lease_id AND q.lease_until > now()
),
deleted AS (
    DELETE FROM phone_leases l
    WHERE l.sender_id = @sender_id AND l.lease_id <> ALL (ARRAY(SELECT h.lease_id FROM held h))
        AND EXISTS (SELECT FROM phones p WHERE p.sender_id = l.sender_id AND p.device_no = @device_no::text)
)
SELECT h.lease_id, h.task_id, h.recipient, h.lease_sim, h.leased_at::timestamptz AS leased_at, h.valid_until::timestamptz AS valid_until,
    (h.valid_until > clock_timestamp())::boolean AS is_valid, h.content::text AS content, h.sealed, h.sign::text AS sign,
    (h.lease_sign_mode IS NULL)::boolean AS is_sign_in_text
FROM held h
ORDER BY h.lease_id;

-- PhoneReported returns the results of leases that a sender holds or held. Leases of other senders and unknown leases are not returned.
--   is_sent     the sender reported SUCCESS (2)
--   is_settled  this SUCCESS ended the task; false if another sender claimed the task before the report
--   is_failed   the sender reported FAILED (3)
--   is_long     the lease is valid, and the phone sends its message in several parts
--   is_expired  valid_until of PhoneHeld has passed, or will pass within the clock error of the phone. The sweep has not taken the lease back
--   is_sensitive  the message is sensitive
-- name: PhoneReported :many
WITH named AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id
),
ended AS MATERIALIZED (
    -- With an array of ids, the planner opens only the partitions of these ids. With a join, it would open all partitions.
    SELECT r.task_id, r.lease_id, r.status, r.effect, r.leased_at IS NOT NULL AS was_held
    FROM report_logs r
    WHERE r.task_id = ANY (@task_ids::text[]) AND r.app_id = @sender_no::text AND r.lease_id IS NOT NULL
),
live AS MATERIALIZED (
    SELECT q.task_id, q.lease_id,
        phone_valid_until(q.updated_at, q.lease_until, send_before(q), @margin::interval)
            - phone_margin(q.updated_at, q.lease_until, @margin::interval) <= clock_timestamp() AS is_expired,
        -- Without a segment size, any text is counted as UCS-2. The phone never sends more parts than this count.
        attempt_segments(handed_text(q.content, coalesce(q.sign, q.lease_sign), q.lease_sign_mode), q.segments, NULL, true) > 1 AS is_long
    FROM queue q
    WHERE q.task_id = ANY (@task_ids::text[]) AND q.processing_app_id = @sender_no::text AND q.lease_until IS NOT NULL
),
sensitive AS MATERIALIZED (
    SELECT m.task_id FROM messages m WHERE m.task_id = ANY (@task_ids::text[]) AND m.is_sensitive
)
SELECT n.task_id::text AS task_id, n.lease_id::bigint AS lease_id,
    EXISTS (SELECT FROM ended e WHERE e.task_id = n.task_id AND e.lease_id = n.lease_id AND e.status = 2) AS is_sent,
    EXISTS (SELECT FROM ended e WHERE e.task_id = n.task_id AND e.lease_id = n.lease_id AND e.status = 2 AND e.effect = 'success') AS is_settled,
    EXISTS (SELECT FROM ended e WHERE e.task_id = n.task_id AND e.lease_id = n.lease_id AND e.status = 3) AS is_failed,
    EXISTS (SELECT FROM live l WHERE l.task_id = n.task_id AND l.lease_id = n.lease_id AND l.is_long) AS is_long,
    EXISTS (SELECT FROM live l WHERE l.task_id = n.task_id AND l.lease_id = n.lease_id AND l.is_expired) AS is_expired,
    EXISTS (SELECT FROM sensitive s WHERE s.task_id = n.task_id) AS is_sensitive
FROM named n
WHERE EXISTS (SELECT FROM ended e WHERE e.task_id = n.task_id AND e.lease_id = n.lease_id AND e.was_held)
    OR EXISTS (SELECT FROM live l WHERE l.task_id = n.task_id AND l.lease_id = n.lease_id)
ORDER BY n.task_id, n.lease_id;

-- PhoneInboxPut stores the key with which a phone signs received messages, unless a concurrent request of the phone has already stored a key. `before` is the
-- encrypted key that cannot be decrypted; empty: the phone has no key. A phone that was replaced meanwhile gets no key.
-- name: PhoneInboxPut :exec
INSERT INTO phone_inboxes AS i (sender_id, device_no, signing_key)
SELECT p.sender_id, p.device_no, @signing_key::text
FROM phones p
WHERE p.sender_id = @sender_id AND p.device_no = @device_no::text
ON CONFLICT (sender_id) DO UPDATE
SET device_no = excluded.device_no, signing_key = excluded.signing_key, hooked_at = NULL, export_since = NULL, export_until = NULL
WHERE i.device_no <> excluded.device_no OR i.signing_key = @before::text;

-- PhoneHooked records that a phone has read the address to which it posts received messages.
-- name: PhoneHooked :exec
UPDATE phone_inboxes SET hooked_at = now() WHERE sender_id = @sender_id AND device_no = @device_no::text;

-- PhoneInbox returns the sender and the encrypted key of a phone that posts a received message. It returns no row for an unknown or replaced phone, and if the
-- user of the phone is disabled.
-- name: PhoneInbox :one
SELECT s.sender_no, i.signing_key
FROM phone_inboxes i
JOIN phones p ON p.sender_id = i.sender_id AND p.device_no = i.device_no
JOIN users u ON u.id = p.user_id
JOIN senders s ON s.id = p.sender_id
WHERE i.device_no = @device_no::text AND NOT u.is_disabled;

-- PhoneExportAsk stores a request to the phones of senders: post again the messages of the period that begins at `since` and ends at `until`. If a phone has
-- not got an earlier request yet, the statement extends the range of that request. It returns the number of phones.
-- name: PhoneExportAsk :execrows
UPDATE phone_inboxes i
SET export_since = least(i.export_since, @since::timestamptz), export_until = greatest(i.export_until, @until::timestamptz)
FROM senders s
WHERE s.sender_no = ANY (@sender_nos::text[]) AND i.sender_id = s.id;

-- PhoneExportDelete deletes the request that a phone got. It does not delete a request that was extended meanwhile.
-- name: PhoneExportDelete :exec
UPDATE phone_inboxes
SET export_since = NULL, export_until = NULL
WHERE sender_id = @sender_id AND device_no = @device_no::text AND export_since = @since::timestamptz AND export_until = @until::timestamptz;

-- PhoneKeys returns the encrypted keys of all phones.
-- name: PhoneKeys :many
SELECT i.device_no, i.signing_key FROM phone_inboxes i ORDER BY i.sender_id;

-- PhoneKeyReplace replaces an encrypted key, unless the key has changed.
-- name: PhoneKeyReplace :execrows
UPDATE phone_inboxes SET signing_key = @sealed WHERE device_no = @device_no AND signing_key = @before::text;
