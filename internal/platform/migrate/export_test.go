package migrate

import (
	"context"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"testing/fstest"
	"time"

	"github.com/amacneil/dbmate/v2/pkg/dbmate"

	"lksms/db"
)

func init() { logWaitInterval = 100 * time.Millisecond }

// These are the version of the last migration that is older than version 1.0, and the number of these migrations.
const (
	EarlierLast  = earlierLast
	EarlierCount = earlierCount
)

// IsBaseline reports whether a version or file name belongs to a baseline migration.
func IsBaseline(version string) bool { return isBaseline(version) }

// laterFiles returns the migrations and one later migration with content.
func laterFiles(content string) (fs.FS, error) {
	files := fstest.MapFS{"migrations/99991231000000_later.sql": {Data: []byte(content)}}
	own, err := fs.Glob(db.Migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, file := range own {
		content, err := fs.ReadFile(db.Migrations, file)
		if err != nil {
			return nil, err
		}
		files[file] = &fstest.MapFile{Data: content}
	}
	return files, nil
}

// UpTo applies the missing migrations and then the migration later.
func UpTo(ctx context.Context, databaseURL, later string, log *slog.Logger) (int, error) {
	files, err := laterFiles(later)
	if err != nil {
		return 0, err
	}
	return up(ctx, databaseURL, log, files)
}

// DownFrom reverts a migration that UpTo applied.
func DownFrom(ctx context.Context, databaseURL, later string) error {
	files, err := laterFiles(later)
	if err != nil {
		return err
	}
	return down(ctx, databaseURL, nil, files)
}

// ConcurrentBuilds returns two numbers of concurrent index builds: the builds that pendingBuilds finds (known), and the builds in the files (written).
func ConcurrentBuilds(later string) (known, written int, err error) {
	files, err := laterFiles(later)
	if err != nil {
		return 0, 0, err
	}
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return 0, 0, err
	}
	var all []dbmate.Migration
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return 0, 0, err
		}
		up, _, _ := strings.Cut(string(content), "-- migrate:down")
		written += strings.Count(up, "INDEX CONCURRENTLY") - strings.Count(up, "DROP INDEX CONCURRENTLY")
		all = append(all, dbmate.Migration{FileName: path.Base(name), FilePath: name, FS: files})
	}
	builds, err := pendingBuilds(all)
	return len(builds), written, err
}
