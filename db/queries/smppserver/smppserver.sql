-- Statements on programs that bind over SMPP.

-- SmppReceiverSee records a bind of a user. A new user gets the events after after_id.
-- name: SmppReceiverSee :exec
INSERT INTO smpp_receivers AS r (company_id, username, after_id) VALUES (@company_id, @username, @after_id)
ON CONFLICT ON CONSTRAINT smpp_receivers_pkey DO UPDATE SET seen_at = now();

-- SmppReceiverHold takes over a user, or renews the right of held_by, and returns the last event that was read, and the earlier events that wait for another
-- attempt. It returns no row if another process sends.
-- name: SmppReceiverHold :one
UPDATE smpp_receivers r SET held_by = @held_by, held_until = now() + @lease::interval, seen_at = now()
WHERE r.company_id = @company_id AND r.username = @username AND (r.held_by = @held_by OR r.held_until < now())
RETURNING r.after_id, r.waiting::bigint[] AS waiting;

-- SmppReceiverAdvance records that all events up to after_id were sent, except those of waiting. It changes no row if held_by has lost the right.
-- name: SmppReceiverAdvance :execrows
UPDATE smpp_receivers r SET after_id = @after_id, waiting = @waiting::bigint[]
WHERE r.company_id = @company_id AND r.username = @username AND r.held_by = @held_by AND r.held_until > now();

-- SmppReceiverRelease ends the right of held_by, so that another process can take over at once.
-- name: SmppReceiverRelease :exec
UPDATE smpp_receivers r SET held_by = '', held_until = '-infinity'
WHERE r.company_id = @company_id AND r.username = @username AND r.held_by = @held_by;

-- SmppReceiversDeleteExpired deletes users that did not bind for max_age: the feed has deleted their events.
-- name: SmppReceiversDeleteExpired :execrows
DELETE FROM smpp_receivers r WHERE r.seen_at < now() - @max_age::interval;

-- SmppPartKeep stores a part of a long message, and returns the message with all parts that are there. It returns no row if the part is already stored with other
-- octets: the program has used the reference for another message.
-- name: SmppPartKeep :one
INSERT INTO smpp_long_messages AS m (company_id, username, source, recipient, reference, total, task_id, parts, message)
VALUES (@company_id, @username, @source, @recipient, @reference, @total, @task_id, @parts::bytea[], @message)
ON CONFLICT ON CONSTRAINT smpp_long_messages_key DO UPDATE SET parts[@nth::integer] = excluded.parts[@nth::integer],
    message = CASE WHEN m.message #> '{Draft,registered_delivery}' = '0' -- some programs request receipts in one part only
        THEN jsonb_set(m.message, '{Draft,registered_delivery}', excluded.message #> '{Draft,registered_delivery}') ELSE m.message END
WHERE m.parts[@nth::integer] IS NULL OR m.parts[@nth::integer] = excluded.parts[@nth::integer]
RETURNING m.id, m.task_id, m.parts::bytea[] AS parts, m.message;

-- SmppLongMessagesAreMany returns whether a user has more than max_rows incomplete messages.
-- name: SmppLongMessagesAreMany :one
SELECT EXISTS (
    SELECT FROM smpp_long_messages m WHERE m.company_id = @company_id AND m.username = @username OFFSET @max_rows::integer
)::boolean AS are_many;

-- SmppLongMessageTake deletes a message and returns it.
-- name: SmppLongMessageTake :one
DELETE FROM smpp_long_messages m WHERE m.id = @id
RETURNING m.company_id, m.username, m.task_id, m.parts::bytea[] AS parts, m.message;

-- SmppLongMessageFind returns the message to which a part belongs.
-- name: SmppLongMessageFind :one
SELECT m.id FROM smpp_long_messages m
WHERE m.company_id = @company_id AND m.username = @username AND m.source = @source AND m.recipient = @recipient AND m.reference = @reference
    AND m.total = @total;

-- SmppLongMessagesExpired returns messages with ids greater than after_id whose parts did not all arrive within max_age.
-- name: SmppLongMessagesExpired :many
SELECT m.id FROM smpp_long_messages m WHERE m.created_at < now() - @max_age::interval AND m.id > @after_id
ORDER BY m.id
LIMIT @max_rows::integer;

-- SmppNumberAdd returns a new short message id of a task.
-- name: SmppNumberAdd :one
INSERT INTO smpp_numbers (task_id) VALUES (@task_id) RETURNING number;

-- SmppNumberGet returns the task of a short message id.
-- name: SmppNumberGet :one
SELECT n.task_id FROM smpp_numbers n WHERE n.number = @number;

-- SmppNumbersDeleteExpired deletes up to max_rows short message ids that are older than max_age.
-- name: SmppNumbersDeleteExpired :execrows
DELETE FROM smpp_numbers n
WHERE n.number IN (SELECT o.number FROM smpp_numbers o WHERE o.created_at < now() - @max_age::interval ORDER BY o.created_at LIMIT @max_rows::integer);
