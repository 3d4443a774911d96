-- The inbox of messages that were submitted by SQL, and the roles that may submit.

-- SqlInboxCompanies returns the companies that have messages in the inbox. It jumps from one to the next, however many messages they have.
-- name: SqlInboxCompanies :many
WITH RECURSIVE waiting AS (
    (SELECT i.company_id FROM sql_inbox i ORDER BY i.company_id LIMIT 1)
    UNION ALL
    SELECT n.company_id
    FROM waiting w
    CROSS JOIN LATERAL (SELECT i.company_id FROM sql_inbox i WHERE i.company_id > w.company_id ORDER BY i.company_id LIMIT 1) n
)
SELECT w.company_id::bigint AS company_id FROM waiting w ORDER BY w.company_id;

-- SqlInboxTake locks the next messages of a company that are due, in the order in which they were submitted.
-- name: SqlInboxTake :many
SELECT * FROM sql_inbox i
WHERE i.company_id = @company_id AND i.due_at <= clock_timestamp()
ORDER BY i.id
LIMIT @portion::integer
FOR UPDATE SKIP LOCKED;

-- SqlInboxDelete deletes messages that the caller has locked.
-- name: SqlInboxDelete :exec
DELETE FROM sql_inbox i WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxPostpone lets messages that the caller has locked be tried again after 5, 10, 20 seconds and so on, at most after 10 minutes.
-- name: SqlInboxPostpone :exec
UPDATE sql_inbox i
SET tries = i.tries + 1, due_at = clock_timestamp() + least(interval '10 minutes', interval '5 seconds' * 2 ^ least(i.tries, 10))
WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxWait returns for how many seconds the first message has waited; no row: the inbox is empty.
-- name: SqlInboxWait :one
SELECT greatest(0, extract(epoch FROM clock_timestamp() - i.created_at))::double precision AS seconds FROM sql_inbox i ORDER BY i.id LIMIT 1;

-- SqlRoleExists reports whether the cluster has a role.
-- name: SqlRoleExists :one
SELECT (to_regrole(quote_ident(@role_name::text)) IS NOT NULL)::boolean;

-- SqlRolePut lets a role submit for a user. No row: the user does not exist, or may not submit.
-- name: SqlRolePut :one
INSERT INTO sql_roles AS s (role_name, user_id)
SELECT @role_name, u.id FROM users u WHERE u.username = @username AND u.role IN ('submit', 'admin')
ON CONFLICT ON CONSTRAINT sql_roles_pkey DO UPDATE SET user_id = excluded.user_id
RETURNING s.user_id;

-- SqlRoleDelete takes that right from a role.
-- name: SqlRoleDelete :execrows
DELETE FROM sql_roles s WHERE s.role_name = @role_name;

-- SqlRoleGrant gives a role the grants in the schema lksms.
-- name: SqlRoleGrant :exec
SELECT sql_role_grant(@role_name::text);

-- SqlRoleRevoke takes them from it.
-- name: SqlRoleRevoke :exec
SELECT sql_role_revoke(@role_name::text);

-- SqlRoleList returns the roles, with whether each exists in the cluster.
-- name: SqlRoleList :many
SELECT s.role_name, u.username, u.is_disabled, c.company_no, (to_regrole(quote_ident(s.role_name)) IS NOT NULL)::boolean AS has_role
FROM sql_roles s
JOIN users u ON u.id = s.user_id
JOIN companies c ON c.id = u.company_id
ORDER BY s.role_name;
