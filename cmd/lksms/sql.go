package main

import (
	"context"
	"fmt"

	"lksms/internal/config"
	"lksms/internal/postgres"
	"lksms/internal/sqldoor"
)

type sqlCmd struct {
	Grant  sqlGrantCmd  `cmd:"" help:"Let a role of PostgreSQL submit messages with lksms.enqueue, for a user."`
	Revoke sqlRevokeCmd `cmd:"" help:"Take that right from a role."`
	List   sqlListCmd   `cmd:"" help:"List the roles and their users."`
}

type sqlGrantCmd struct {
	Username string          `arg:"" help:"Name of a user with the role submit or admin."`
	Role     string          `arg:"" help:"Name of a role of PostgreSQL, which exists."`
	Database config.Database `embed:""`
}

func (c *sqlGrantCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqldoor.Roles) error { return roles.Grant(ctx, c.Username, c.Role) })
}

type sqlRevokeCmd struct {
	Role     string          `arg:"" help:"Name of the role."`
	Database config.Database `embed:""`
}

func (c *sqlRevokeCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqldoor.Roles) error { return roles.Revoke(ctx, c.Role) })
}

type sqlListCmd struct {
	Database config.Database `embed:""`
}

func (c *sqlListCmd) Run(ctx context.Context) error {
	return withRoles(ctx, c.Database, func(ctx context.Context, roles sqldoor.Roles) error {
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
func withRoles(ctx context.Context, cfg config.Database, fn func(context.Context, sqldoor.Roles) error) error {
	return withMigrated(ctx, cfg, func(ctx context.Context, db *postgres.DB) error { return fn(ctx, sqldoor.NewRoles(db)) })
}
