-- Statements on the inbox of messages that are submitted by SQL, and on the roles that are allowed to submit.

-- SqlInboxCompanies returns the companies with messages in the inbox. It steps from one company to the next, so the number of messages does not matter.
-- name: SqlInboxCompanies :many
WITH RECURSIVE waiting AS (
    (SELECT i.company_id FROM sql_inbox i ORDER BY i.company_id LIMIT 1)
    UNION ALL
    SELECT n.company_id
    FROM waiting w
    CROSS JOIN LATERAL (SELECT i.company_id FROM sql_inbox i WHERE i.company_id > w.company_id ORDER BY i.company_id LIMIT 1) n
)
SELECT w.company_id::bigint AS company_id FROM waiting w ORDER BY w.company_id;

-- SqlInboxTake locks the next due messages of a company, in the order in which they were submitted.
-- name: SqlInboxTake :many
SELECT * FROM sql_inbox i
WHERE i.company_id = @company_id AND i.due_at <= clock_timestamp()
ORDER BY i.id
LIMIT @portion::integer
FOR UPDATE SKIP LOCKED;

-- SqlInboxDelete deletes messages that the caller has locked.
-- name: SqlInboxDelete :exec
DELETE FROM sql_inbox i WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxPostpone postpones messages that the caller has locked by 5, 10, 20 seconds and so on, at most by 10 minutes.
-- name: SqlInboxPostpone :exec
UPDATE sql_inbox i
SET tries = i.tries + 1, due_at = clock_timestamp() + least(interval '10 minutes', interval '5 seconds' * 2 ^ least(i.tries, 10))
WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxWait returns the waiting time in seconds of the first message. It returns no row if the inbox is empty.
-- name: SqlInboxWait :one
SELECT greatest(0, extract(epoch FROM clock_timestamp() - i.created_at))::double precision AS seconds FROM sql_inbox i ORDER BY i.id LIMIT 1;

-- SqlRoleExists returns whether the cluster has a role.
-- name: SqlRoleExists :one
SELECT (to_regrole(quote_ident(@role_name::text)) IS NOT NULL)::boolean;

-- SqlRolePut allows a role to submit for a user. It returns no row if the user does not exist, or is not allowed to submit.
-- name: SqlRolePut :one
INSERT INTO sql_roles AS s (role_name, user_id)
SELECT @role_name, u.id FROM users u WHERE u.username = @username AND u.role IN ('submit', 'admin')
ON CONFLICT ON CONSTRAINT sql_roles_pkey DO UPDATE SET user_id = excluded.user_id
RETURNING s.user_id;

-- SqlRoleDelete removes this permission from a role.
-- name: SqlRoleDelete :execrows
DELETE FROM sql_roles s WHERE s.role_name = @role_name;

-- SqlRoleGrant grants a role the privileges in the schema lksms.
-- name: SqlRoleGrant :exec
SELECT sql_role_grant(@role_name::text);

-- SqlRoleRevoke revokes these privileges.
-- name: SqlRoleRevoke :exec
SELECT sql_role_revoke(@role_name::text);

-- SqlRoleList returns the roles, and whether each exists in the cluster.
-- name: SqlRoleList :many
SELECT s.role_name, u.username, u.is_disabled, c.company_no, (to_regrole(quote_ident(s.role_name)) IS NOT NULL)::boolean AS has_role
FROM sql_roles s
JOIN users u ON u.id = s.user_id
JOIN companies c ON c.id = u.company_id
ORDER BY s.role_name;
