-- Statements in the transaction of a claim by a phone with the SMSGate app.

-- PhoneLeasesKeep records the leases that a phone claims. It returns 0 if another phone was registered meanwhile. The statement locks the row of the phone. A
-- concurrent registration waits for this lock, and then deletes the leases.
-- name: PhoneLeasesKeep :execrows
WITH holder AS (
    UPDATE phones SET claimed_at = clock_timestamp() WHERE phones.sender_id = @sender_id::bigint AND device_no = @device_no::text RETURNING phones.sender_id
)
INSERT INTO phone_leases (sender_id, lease_id, task_id)
SELECT p.sender_id, l.lease_id, l.task_id
FROM holder p
CROSS JOIN (SELECT unnest(@lease_ids::bigint[]) AS lease_id, unnest(@task_ids::text[]) AS task_id) l;
