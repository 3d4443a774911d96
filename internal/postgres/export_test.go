package postgres

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"
	"time"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"
	"github.com/jackc/pgx/v5"

	"lksms/db"
)

func init() { tellWaitEvery = 100 * time.Millisecond }

// MigrateUpBefore applies the migrations before a version, as the program of that time did.
func MigrateUpBefore(ctx context.Context, databaseURL, version string) error {
	return withMigrator(ctx, databaseURL, func(_ context.Context, m *migrator) error {
		earlier := fstest.MapFS{}
		files, err := fs.Glob(db.Migrations, m.MigrationsDir[0]+"/*.sql")
		if err != nil {
			return err
		}
		for _, file := range files {
			if path.Base(file) >= version {
				continue
			}
			content, err := fs.ReadFile(db.Migrations, file)
			if err != nil {
				return err
			}
			earlier[file] = &fstest.MapFile{Data: content}
		}
		m.FS = earlier
		if err := m.Migrate(); err != nil {
			return err
		}
		return withConn(ctx, databaseURL, func(conn *pgx.Conn) error {
			var isPartitioned bool
			err := conn.QueryRow(ctx, "SELECT to_regproc('task_partitions_ahead') IS NOT NULL").Scan(&isPartitioned)
			if err == nil && isPartitioned {
				_, err = conn.Exec(ctx, firstPartitions)
			}
			return err
		})
	})
}

// MigrateDownBefore undoes the migration of a version and all after it, as that many MigrateDown do. It does not look for them anew before each.
func MigrateDownBefore(ctx context.Context, databaseURL, version string) error {
	return withMigrator(ctx, databaseURL, func(_ context.Context, m *migrator) error {
		all, err := m.FindMigrations()
		if err != nil {
			return err
		}
		for _, migration := range all {
			if !migration.Applied || migration.FileName < version {
				continue
			}
			if err := m.Rollback(); err != nil {
				return err
			}
		}
		return nil
	})
}

// ConcurrentBuilds counts the indexes that migrations are known to build concurrently, and those that their files do.
func ConcurrentBuilds() (known, written int, err error) {
	files, err := fs.Glob(db.Migrations, "migrations/*.sql")
	if err != nil {
		return 0, 0, err
	}
	var all []dbmate.Migration
	for _, file := range files {
		content, err := fs.ReadFile(db.Migrations, file)
		if err != nil {
			return 0, 0, err
		}
		up, _, _ := strings.Cut(string(content), "-- migrate:down")
		written += strings.Count(up, "INDEX CONCURRENTLY") - strings.Count(up, "DROP INDEX CONCURRENTLY")
		all = append(all, dbmate.Migration{FileName: path.Base(file), FilePath: file, FS: db.Migrations})
	}
	builds, err := pendingBuilds(all)
	return len(builds), written, err
}
