package server

import (
	"context"
	"fmt"
	"time"

	"lksms/internal/platform/config"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/sqlinbox"
)

// SQLCmd is the command `lksms sql`.
type SQLCmd struct {
	Grant  sqlGrantCmd  `cmd:"" help:"Let a role of PostgreSQL submit messages with lksms.enqueue, for a user."`
	Revoke sqlRevokeCmd `cmd:"" help:"Revoke this right from a role."`
	List   sqlListCmd   `cmd:"" help:"List the roles and their users."`
}

type sqlGrantCmd struct {
	Username string          `arg:"" help:"Name of a user with the role submit or admin."`
	Role     string          `arg:"" help:"Name of a role of PostgreSQL, which exists."`
	Bounds   sqlBounds       `embed:""`
	Database config.Database `embed:""`
}

// sqlBounds are the flags for sqlinbox.Bounds, with the same defaults.
type sqlBounds struct {
	Connections int           `default:"20" help:"Maximum number of concurrent connections of the role, unless it already has a limit; 0: no change."`
	IdleAfter   time.Duration `default:"30s" help:"End transactions of the role that are idle for so long, unless it already has a limit; 0: no change."`
	TempFiles   string        `default:"1GB" help:"Maximum size of the temporary files of a session of the role, unless it already has a limit; empty: no change."`
}

func (c *sqlGrantCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqlinbox.Roles) error {
		if err := roles.Grant(ctx, c.Username, c.Role); err != nil {
			return err
		}
		missing, err := roles.Bound(ctx, c.Role, sqlinbox.Bounds{
			Connections: c.Bounds.Connections, IdleInTransaction: c.Bounds.IdleAfter, TempFiles: c.Bounds.TempFiles,
		})
		if len(missing) > 0 {
			fmt.Printf("%s may submit for %s. To limit the resources of the role, let a superuser run:\n\n", c.Role, c.Username)
			for _, statement := range missing {
				fmt.Printf("  %s;\n", statement)
			}
		}
		return err
	})
}

type sqlRevokeCmd struct {
	Role     string          `arg:"" help:"Name of the role."`
	Database config.Database `embed:""`
}

func (c *sqlRevokeCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqlinbox.Roles) error { return roles.Revoke(ctx, c.Role) })
}

type sqlListCmd struct {
	Database config.Database `embed:""`
}

func (c *sqlListCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqlinbox.Roles) error {
		rows, err := roles.List(ctx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			remark := ""
			switch {
			case r.IsDisabled:
				remark = "  the user is disabled"
			case !r.HasRole:
				remark = "  the role does not exist any more"
			}
			fmt.Printf("%-20s %-20s %s%s\n", r.RoleName, r.Username, r.CompanyNo, remark)
		}
		return nil
	})
}

// withRoles runs fn with the roles of the configured database.
func withRoles(ctx context.Context, cfg config.Database, fn func(context.Context, sqlinbox.Roles) error) error {
	return withMigrated(ctx, cfg, func(ctx context.Context, db *postgres.DB) error { return fn(ctx, sqlinbox.NewRoles(db)) })
}
