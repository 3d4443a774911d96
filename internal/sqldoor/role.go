package sqldoor

import (
	"context"
	"fmt"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// Roles owns which roles of PostgreSQL may submit, and for whom.
type Roles struct {
	db *postgres.DB
	q  *dbq.Queries
}

// NewRoles returns Roles on db, whose role must own the schema lksms to grant and revoke.
func NewRoles(db *postgres.DB) Roles { return Roles{db: db, q: dbq.New(db)} }

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
		if _, err := r.q.SqlRolePut(ctx, dbq.SqlRolePutParams{RoleName: role, Username: username}); err != nil {
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
func (r Roles) List(ctx context.Context) ([]dbq.SqlRoleListRow, error) {
	rows, err := r.q.SqlRoleList(ctx)
	return rows, postgres.Wrap("list roles", err, nil)
}
