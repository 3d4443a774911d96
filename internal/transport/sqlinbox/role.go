package sqlinbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/gen/sqlinboxq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Roles manages the PostgreSQL roles that are allowed to submit, and their users.
type Roles struct {
	db *postgres.DB
	q  *sqlinboxq.Queries
}

// NewRoles returns Roles on db. To grant and revoke, the role of db must own the schema lksms.
func NewRoles(db *postgres.DB) Roles { return Roles{db: db, q: sqlinboxq.New(db)} }

var (
	errNoUser = fault.InvalidField("username", fault.NotThere, nil)
	errNoRole = fault.InvalidField("role", fault.NotThere, nil)
)

// roleOfService is a query that returns why a role belongs to the service or its owners, or an empty text for another role. Such a role needs no grant. The
// limits of a grant would slow down the service, and a revocation would take its rights. pg_has_role is true for all roles if the connected role is a
// superuser, so the query follows memberships itself. A membership that neither inherits nor can be assumed does not count: a role that creates roles gets one
// in each. The query is not in db/queries because sqlc does not support pg_roles.
const roleOfService = `WITH RECURSIVE given AS (
		SELECT r.oid, r.rolname, r.rolsuper FROM pg_roles r WHERE r.rolname = $1
	), owners AS (
		SELECT n.nspowner AS oid FROM pg_namespace n WHERE n.nspname = 'lksms'
		UNION
		SELECT c.relowner FROM pg_class c WHERE c.oid = 'queue'::regclass
	), members AS (
		SELECT m.member, m.roleid FROM pg_auth_members m
		WHERE coalesce((to_jsonb(m) ->> 'set_option')::boolean, true) OR coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)
	), connected AS (
		SELECT r.oid FROM pg_roles r WHERE r.rolname IN (current_user, session_user)
		UNION
		SELECT m.roleid FROM connected c JOIN members m ON m.member = c.oid
	), roles_of_given AS (
		SELECT g.oid FROM given g
		UNION
		SELECT m.roleid FROM roles_of_given o JOIN members m ON m.member = o.oid
	)
	SELECT CASE
		WHEN g.rolsuper THEN 'it is a superuser'
		WHEN g.rolname IN (current_user, session_user) THEN 'this command and the service connect with it'
		WHEN g.oid IN (SELECT o.oid FROM owners o) THEN 'it owns the schema lksms or the tables of the service'
		WHEN g.oid IN (SELECT c.oid FROM connected c) THEN 'the role with which this command connects is a member of it'
		WHEN EXISTS (SELECT FROM roles_of_given o WHERE o.oid IN (SELECT w.oid FROM owners w)) THEN 'it is a member of the role that owns the tables of the service'
		WHEN has_table_privilege(g.oid, 'queue'::regclass, 'INSERT') THEN 'it can write the tables of the service'
		ELSE ''
	END
	FROM given g`

// belongsToService returns why a role belongs to the service or its owners, or an empty text for another role, or for a role that does not exist.
func (r Roles) belongsToService(ctx context.Context, role string) (why string, err error) {
	err = r.db.QueryRow(ctx, roleOfService, role).Scan(&why)
	if postgres.IsNoRows(err) {
		return "", nil
	}
	return why, postgres.Wrap("read role", err, nil)
}

// Grant allows a role to submit for a user, and replaces the role's previous user. Fault: request.invalid if the role or user does not exist, or if the user
// is not allowed to submit. A role of the service or its owners is refused: the error says why.
func (r Roles) Grant(ctx context.Context, username, role string) error {
	return r.db.Tx(ctx, func(ctx context.Context) error {
		exists, err := r.q.SqlRoleExists(ctx, role)
		switch {
		case err != nil:
			return fmt.Errorf("find role: %w", err)
		case !exists:
			return errNoRole
		}
		if why, err := r.belongsToService(ctx, role); err != nil || why != "" {
			return cmp.Or(err, fmt.Errorf("the role %s cannot be granted: %s. Create another role for the program that submits", role, why))
		}
		if _, err := r.q.SqlRolePut(ctx, sqlinboxq.SqlRolePutParams{RoleName: role, Username: username}); err != nil {
			return postgres.Wrap("store role", err, errNoUser)
		}
		return postgres.Wrap("grant as the owner of the schema lksms", r.q.SqlRoleGrant(ctx, role), nil)
	})
}

// Revoke takes the rights that Grant gave to a role. It also succeeds if the role no longer exists. A role of the service or its owners retains its rights,
// and only no longer submits. Fault: request.invalid for a role that is not allowed to submit.
func (r Roles) Revoke(ctx context.Context, role string) error {
	return r.db.Tx(ctx, func(ctx context.Context) error {
		why, err := r.belongsToService(ctx, role)
		if err != nil {
			return err
		}
		if why == "" {
			if err := r.q.SqlRoleRevoke(ctx, role); err != nil {
				return fmt.Errorf("revoke as the owner of the schema lksms: %w", err)
			}
		}
		n, err := r.q.SqlRoleDelete(ctx, role)
		return postgres.DeletedOne(n, err, "delete role", errNoRole)
	})
}

// List returns the roles that are allowed to submit.
func (r Roles) List(ctx context.Context) ([]sqlinboxq.SqlRoleListRow, error) {
	rows, err := r.q.SqlRoleList(ctx)
	return rows, postgres.Wrap("list roles", err, nil)
}

// Bounds limits the resources of PostgreSQL that a role can use. A zero field sets no limit.
type Bounds struct {
	Connections       int           // maximum number of concurrent connections
	IdleInTransaction time.Duration // PostgreSQL ends a longer idle transaction, which would hold back vacuum and migrations
	TempFiles         string        // maximum size of the temporary files of one session, such as 1GB
}

// DefaultBounds contains the limits that lksms sql grant sets.
var DefaultBounds = Bounds{Connections: 20, IdleInTransaction: 30 * time.Second, TempFiles: "1GB"}

// roleBounds is a query for the limits that a role already has, for all databases or for this database. It is not in db/queries because sqlc does not support
// pg_roles.
const roleBounds = `SELECT r.rolconnlimit <> -1, coalesce(bool_or(c.setting LIKE 'idle_in_transaction_session_timeout=%'), false),
		coalesce(bool_or(c.setting LIKE 'temp_file_limit=%'), false)
	FROM pg_roles r
	LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
	LEFT JOIN LATERAL unnest(s.setconfig) AS c (setting) ON true
	WHERE r.rolname = $1
	GROUP BY r.rolconnlimit`

// Bound sets the limits that a role does not have yet. PostgreSQL allows this only to some roles: missing contains the statements that the role of db is not
// allowed to run.
func (r Roles) Bound(ctx context.Context, role string, b Bounds) (missing []string, err error) {
	var has struct{ connections, idle, tempFiles bool }
	if err := r.db.QueryRow(ctx, roleBounds, role).Scan(&has.connections, &has.idle, &has.tempFiles); err != nil {
		return nil, fmt.Errorf("read bounds of role: %w", err)
	}
	name := pgx.Identifier{role}.Sanitize()
	var statements []string
	if b.Connections > 0 && !has.connections {
		statements = append(statements, fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", name, b.Connections))
	}
	if b.IdleInTransaction > 0 && !has.idle {
		statements = append(statements, fmt.Sprintf("ALTER ROLE %s SET idle_in_transaction_session_timeout = '%ds'", name, int(b.IdleInTransaction.Seconds())))
	}
	if b.TempFiles != "" && !has.tempFiles {
		statements = append(statements, fmt.Sprintf("ALTER ROLE %s SET temp_file_limit = %s", name, postgres.Literal(b.TempFiles)))
	}
	for _, statement := range statements {
		_, err := r.db.Exec(ctx, statement)
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused) && refused.Code == "42501":
			missing = append(missing, statement)
		case err != nil:
			return missing, fmt.Errorf("limit role: %w", err)
		}
	}
	return missing, nil
}
