-- Statements on the inbox of messages that database roles submit by SQL, and on these roles.

-- SqlInboxCompanies returns the companies with messages in the inbox. It moves through the index from each company to the next, so its cost does not depend on
-- the number of messages.
-- name: SqlInboxCompanies :many
WITH RECURSIVE waiting AS (
    (SELECT i.company_id FROM sql_inbox i ORDER BY i.company_id LIMIT 1)
    UNION ALL
    SELECT n.company_id
    FROM waiting w
    CROSS JOIN LATERAL (SELECT i.company_id FROM sql_inbox i WHERE i.company_id > w.company_id ORDER BY i.company_id LIMIT 1) n
)
SELECT w.company_id::bigint AS company_id FROM waiting w ORDER BY w.company_id;

-- SqlInboxTake locks the next due messages of a company, and returns them in the order in which they were submitted.
-- name: SqlInboxTake :many
SELECT * FROM sql_inbox i
WHERE i.company_id = @company_id AND i.due_at <= clock_timestamp()
ORDER BY i.id
LIMIT @portion::integer
FOR UPDATE SKIP LOCKED;

-- SqlInboxDelete deletes messages that the caller has locked.
-- name: SqlInboxDelete :exec
DELETE FROM sql_inbox i WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxPostpone postpones messages that the caller has locked. The first delay is 5 seconds. Each further delay is twice as long, up to 10 minutes.
-- name: SqlInboxPostpone :exec
UPDATE sql_inbox i
SET tries = i.tries + 1, due_at = clock_timestamp() + least(interval '10 minutes', interval '5 seconds' * 2 ^ least(i.tries, 10))
WHERE i.id = ANY (@ids::bigint[]);

-- SqlInboxWait returns how long the first message of the inbox has waited, in seconds. It returns no row if the inbox is empty.
-- name: SqlInboxWait :one
SELECT greatest(0, extract(epoch FROM clock_timestamp() - i.created_at))::double precision AS seconds FROM sql_inbox i ORDER BY i.id LIMIT 1;

-- SqlRoleExists returns whether a database role with this name exists.
-- name: SqlRoleExists :one
SELECT (to_regrole(quote_ident(@role_name::text)) IS NOT NULL)::boolean;

-- SqlRolePut allows a database role to submit messages for a user. It returns no row if the user does not exist, or if the user is not allowed to submit. A
-- role that cannot connect gets CONNECT from the function sql_role_grant, which runs afterwards.
-- name: SqlRolePut :one
INSERT INTO sql_roles AS s (role_name, user_id, is_connect_granted)
SELECT @role_name, u.id, NOT has_database_privilege(@role_name::text, current_database()::text, 'CONNECT')
FROM users u
WHERE u.username = @username AND u.role IN ('submit', 'admin')
ON CONFLICT ON CONSTRAINT sql_roles_pkey DO UPDATE
SET user_id = excluded.user_id, is_connect_granted = s.is_connect_granted OR excluded.is_connect_granted
RETURNING s.user_id;

-- SqlRoleDelete forbids a database role to submit messages.
-- name: SqlRoleDelete :execrows
DELETE FROM sql_roles s WHERE s.role_name = @role_name;

-- SqlRoleGrant grants a database role the privileges that submitting requires: in the schema lksms, and CONNECT if the role cannot connect.
-- name: SqlRoleGrant :exec
SELECT sql_role_grant(@role_name::text);

-- SqlRoleRevoke revokes the privileges that SqlRoleGrant granted. It must run before SqlRoleDelete.
-- name: SqlRoleRevoke :exec
SELECT sql_role_revoke(@role_name::text);

-- SqlRoleList returns the database roles that are allowed to submit. has_role is true if the role still exists in the cluster.
-- name: SqlRoleList :many
SELECT s.role_name, u.username, u.is_disabled, c.company_no, (to_regrole(quote_ident(s.role_name)) IS NOT NULL)::boolean AS has_role
FROM sql_roles s
JOIN users u ON u.id = s.user_id
JOIN companies c ON c.id = u.company_id
ORDER BY s.role_name;
