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

// Roles owns which roles of PostgreSQL may submit, and for whom.
type Roles struct {
	db *postgres.DB
	q  *sqlinboxq.Queries
}

// NewRoles returns Roles on db, whose role must own the schema lksms to grant and revoke.
func NewRoles(db *postgres.DB) Roles { return Roles{db: db, q: sqlinboxq.New(db)} }

var (
	errNoUser = fault.InvalidField("username", fault.NotThere, nil)
	errNoRole = fault.InvalidField("role", fault.NotThere, nil)
)

// Grant lets a role submit for a user, in place of the user for whom it did before. Faults: request.invalid for a role that does not exist, and for a
// user that does not exist or may not submit.
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

// Revoke takes from a role what Grant gave it; the role may be gone. Fault: request.invalid for a role that may not submit.
func (r Roles) Revoke(ctx context.Context, role string) error {
	return r.db.Tx(ctx, func(ctx context.Context) error {
		n, err := r.q.SqlRoleDelete(ctx, role)
		if err := postgres.DeletedOne(n, err, "delete role", errNoRole); err != nil {
			return err
		}
		return postgres.Wrap("revoke as the owner of the schema lksms", r.q.SqlRoleRevoke(ctx, role), nil)
	})
}

// List returns the roles that may submit.
func (r Roles) List(ctx context.Context) ([]sqlinboxq.SqlRoleListRow, error) {
	rows, err := r.q.SqlRoleList(ctx)
	return rows, postgres.Wrap("list roles", err, nil)
}

// Bounds limit what a role can use up of PostgreSQL. A zero leaves the role as it is.
type Bounds struct {
	Connections       int           // connections at the same time
	IdleInTransaction time.Duration // after it, PostgreSQL ends an idle transaction, which would hold back vacuum and migrations
	TempFiles         string        // size of the temporary files of one session, as PostgreSQL writes it: 1GB
}

// DefaultBounds are those of lksms sql grant.
var DefaultBounds = Bounds{Connections: 20, IdleInTransaction: 30 * time.Second, TempFiles: "1GB"}

// roleBounds returns which bounds a role has already, of its own or in this database. sqlc does not know pg_roles.
const roleBounds = `SELECT r.rolconnlimit <> -1, coalesce(bool_or(c.setting LIKE 'idle_in_transaction_session_timeout=%'), false),
		coalesce(bool_or(c.setting LIKE 'temp_file_limit=%'), false)
	FROM pg_roles r
	LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
	LEFT JOIN LATERAL unnest(s.setconfig) AS c (setting) ON true
	WHERE r.rolname = $1
	GROUP BY r.rolconnlimit`

// Bound sets bounds for a role where it has none. PostgreSQL lets only some roles do that: Bound returns the statements that this one may not run.
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
			return missing, fmt.Errorf("bound role: %w", err)
		}
	}
	return missing, nil
}
