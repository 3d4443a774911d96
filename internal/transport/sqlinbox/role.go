package sqlinbox

import (
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

// Grant allows a role to submit for a user, and replaces the role's previous user. Fault: request.invalid if the role or user does not exist, or if the user
// is not allowed to submit.
func (r Roles) Grant(ctx context.Context, username, role string) error {
	return r.db.Tx(ctx, func(ctx context.Context) error {
		exists, err := r.q.SqlRoleExists(ctx, role)
		switch {
		case err != nil:
			return fmt.Errorf("find role: %w", err)
		case !exists:
			return errNoRole
		}
		if _, err := r.q.SqlRolePut(ctx, sqlinboxq.SqlRolePutParams{RoleName: role, Username: username}); err != nil {
			return postgres.Wrap("store role", err, errNoUser)
		}
		return postgres.Wrap("grant as the owner of the schema lksms", r.q.SqlRoleGrant(ctx, role), nil)
	})
}

// Revoke takes the rights that Grant gave to a role. It also succeeds if the role no longer exists. Fault: request.invalid for a role that is not allowed
// to submit.
func (r Roles) Revoke(ctx context.Context, role string) error {
	return r.db.Tx(ctx, func(ctx context.Context) error {
		if err := r.q.SqlRoleRevoke(ctx, role); err != nil {
			return fmt.Errorf("revoke as the owner of the schema lksms: %w", err)
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
