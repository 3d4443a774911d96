-- name: UserCreate :one
INSERT INTO users (username, role, app_id, password_hash, company_id, has_company, top_priority)
SELECT @username, @role, sqlc.narg(app_id), sqlc.narg(password_hash), c.id, sqlc.narg(company_no)::text IS NOT NULL,
    coalesce(sqlc.narg(top_priority)::smallint, 1)
FROM companies c
WHERE c.company_no = coalesce(sqlc.narg(company_no)::text, 'default')
RETURNING *;

-- name: UserGet :one
SELECT * FROM users WHERE username = @username;

-- UserByKey returns the user that owns an API key.
-- name: UserByKey :one
SELECT u.* FROM users u JOIN api_keys k ON k.user_id = u.id WHERE k.key_hash = @key_hash;

-- name: UserList :many
SELECT * FROM users WHERE id < @before_id ORDER BY id DESC LIMIT @page_limit::integer;

-- UserUpdate changes the given fields of a user. If the new role is not send, the user loses its app_id. without_company removes the user from its company. The
-- constraint users_company_binds_role rejects a company for roles other than submit and read. An admin that was created before this constraint can have a
-- company_id although has_company is false. If this user gets the role submit or read, the user then belongs to this company.
-- name: UserUpdate :one
UPDATE users u
SET role = coalesce(sqlc.narg(role), u.role),
    app_id = CASE WHEN coalesce(sqlc.narg(role), u.role) = 'send'
        THEN nullif(coalesce(sqlc.narg(app_id), u.app_id), '') END,
    password_hash = coalesce(sqlc.narg(password_hash), u.password_hash),
    is_disabled = coalesce(sqlc.narg(is_disabled), u.is_disabled),
    company_id = CASE WHEN @without_company::boolean THEN 1 -- the default company
        ELSE coalesce((SELECT c.id FROM companies c WHERE c.company_no = sqlc.narg(company_no)::text), u.company_id) END,
    has_company = NOT @without_company::boolean AND (
        u.has_company OR sqlc.narg(company_no)::text IS NOT NULL
        OR (u.company_id <> 1 AND coalesce(sqlc.narg(role), u.role) IN ('submit', 'read'))
    ),
    top_priority = coalesce(sqlc.narg(top_priority), u.top_priority),
    version = u.version + 1,
    updated_at = now()
WHERE u.username = @username AND u.version = coalesce(sqlc.narg(version), u.version)
RETURNING *;

-- name: CompanyFind :one
SELECT id FROM companies WHERE company_no = @company_no;

-- name: KeyCreate :one
INSERT INTO api_keys (user_id, key_hash, name)
SELECT u.id, @key_hash, @name FROM users u WHERE u.username = @username
RETURNING id, name, created_at;

-- name: KeyList :many
SELECT k.id, k.name, k.created_at
FROM api_keys k
JOIN users u ON u.id = k.user_id
WHERE u.username = @username
ORDER BY k.id DESC;

-- name: KeyDelete :execrows
DELETE FROM api_keys k USING users u
WHERE u.id = k.user_id AND u.username = @username AND k.id = @id;

-- SmppPasswordGet returns the hash of the SMPP password of a user.
-- name: SmppPasswordGet :one
SELECT p.password_hash FROM smpp_passwords p WHERE p.user_id = @user_id;

-- SmppPasswordPut stores the SMPP password of a user, and replaces an earlier one.
-- name: SmppPasswordPut :execrows
INSERT INTO smpp_passwords AS p (user_id, password_hash)
SELECT u.id, @password_hash FROM users u WHERE u.username = @username
ON CONFLICT ON CONSTRAINT smpp_passwords_pkey DO UPDATE SET password_hash = excluded.password_hash, created_at = now();

-- SmppPasswordDelete deletes the SMPP password of a user.
-- name: SmppPasswordDelete :execrows
DELETE FROM smpp_passwords p USING users u WHERE u.id = p.user_id AND u.username = @username;

-- CredentialsVersion returns the number of the last transaction that changed users or API keys. It returns 0 if users and keys never changed.
-- name: CredentialsVersion :one
SELECT coalesce((SELECT v.version::text::bigint FROM credentials_version v), 0)::bigint AS version;

-- UserAddressRecord records, at most once a day, that a user proved its password at an address. It deletes the addresses of the user that are older than 30
-- days, and keeps only its latest 1000 addresses. This limit protects the table from a user whose address changes constantly.
-- name: UserAddressRecord :exec
WITH old AS (
    DELETE FROM user_addresses o
    WHERE o.username = @username AND o.network <> @network AND (o.seen_at < now() - interval '30 days' OR o.network IN (
        SELECT a.network FROM user_addresses a
        WHERE a.username = @username AND a.network <> @network
        ORDER BY a.seen_at DESC, a.network
        OFFSET 999
    ))
)
INSERT INTO user_addresses (network, username) VALUES (@network, @username)
ON CONFLICT (network, username) DO UPDATE SET seen_at = now() WHERE user_addresses.seen_at < now() - interval '1 day';

-- UserAddressList returns the users that proved their passwords at an address within 30 days, the latest first.
-- name: UserAddressList :many
SELECT a.username FROM user_addresses a
WHERE a.network = @network AND a.seen_at > now() - interval '30 days'
ORDER BY a.seen_at DESC, a.username
LIMIT @page_limit::integer;

-- SessionCreate creates a session, and deletes the oldest sessions of the user above the limit max_sessions. It returns no row if the user is disabled or was
-- deleted. is_configured: the user is defined in the configuration, and is not checked. FOR SHARE makes the statement wait for an uncommitted change of the
-- user. It also makes later changes of the user wait until the session is stored.
-- name: SessionCreate :one
WITH owner AS (
    SELECT u.username FROM users u WHERE u.username = @username::text AND NOT u.is_disabled AND NOT @is_configured::boolean
    FOR SHARE
),
surplus AS (
    DELETE FROM sessions s
    WHERE s.id IN (
        SELECT o.id FROM sessions o WHERE o.username = @username::text ORDER BY o.id DESC OFFSET sqlc.arg(max_sessions)::integer - 1
    )
)
INSERT INTO sessions (token_hash, username, password_proof, source_ip, user_agent)
SELECT @token_hash, @username::text, @password_proof, @source_ip, @user_agent
WHERE @is_configured::boolean OR EXISTS (SELECT FROM owner)
RETURNING created_at;

-- SessionGet returns the session with the given token, unless the session has expired. is_unseen is true if the last use of the session was stored more than a
-- minute ago.
-- name: SessionGet :one
SELECT s.id, s.username, s.password_proof, s.created_at, (s.last_seen_at < now() - interval '1 minute')::boolean AS is_unseen
FROM sessions s
WHERE s.token_hash = @token_hash AND s.last_seen_at > now() - @idle::interval AND s.created_at > now() - @max_age::interval;

-- SessionSeen stores the use of a session, at most once a minute.
-- name: SessionSeen :exec
UPDATE sessions s SET last_seen_at = now() WHERE s.id = @id AND s.last_seen_at < now() - interval '1 minute';

-- name: SessionEnd :exec
DELETE FROM sessions WHERE token_hash = @token_hash;

-- name: SessionsEnd :exec
DELETE FROM sessions WHERE username = @username;

-- SessionsDeleteExpired deletes up to batch_size expired sessions.
-- name: SessionsDeleteExpired :execrows
DELETE FROM sessions s
WHERE s.id IN (
    SELECT o.id FROM sessions o
    WHERE o.last_seen_at <= now() - @idle::interval OR o.created_at <= now() - @max_age::interval
    ORDER BY o.id
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
);
