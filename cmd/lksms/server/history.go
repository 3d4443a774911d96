package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lksms/internal/audience/notification"
	"lksms/internal/insight/history"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// HistoryCmd is the command `lksms history`.
type HistoryCmd struct {
	List   historyListCmd   `cmd:"" help:"List the partitions of tasks, newest first."`
	Export historyExportCmd `cmd:"" help:"Export a partition to a new folder in HISTORY_DIR, and print the folder."`
	Drop   historyDropCmd   `cmd:"" help:"Drop a partition whose tasks are settled."`
	Import historyImportCmd `cmd:"" help:"Import a dropped partition from its export. The role of the database must own the tables."`
}

// partitionArg is the argument that selects a partition.
type partitionArg struct {
	FirstDay time.Time `arg:"" format:"2006-01-02" help:"First day (UTC) of the partition, such as 2026-11-01."`
}

type historyListCmd struct {
	Limit    int             `default:"400" help:"Maximum number of partitions to list."`
	Database config.Database `embed:""`
}

func (c *historyListCmd) Run(ctx context.Context) error {
	return withHistory(ctx, c.Database, "", func(ctx context.Context, h *history.Service) error {
		rows, err := h.Partitions(ctx, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), c.Limit)
		if err != nil {
			return err
		}
		fmt.Printf("%-10s  %-10s  %-8s  %10s  %s\n", "FIRST DAY", "LAST DAY", "PLACE", "MEGABYTES", "EXPORTED TO")
		for _, p := range rows {
			place, exported := "recent", "never"
			switch {
			case p.DroppedAt != nil:
				place = "dropped"
			case p.HistoryAt != nil:
				place = "history"
			}
			if p.ExportedTo != nil {
				exported = *p.ExportedTo
			}
			fmt.Printf("%s  %s  %-8s  %10.1f  %s\n", p.FirstDay.Format(time.DateOnly), p.LastDay.AddDate(0, 0, -1).Format(time.DateOnly), place, float64(p.Bytes)/1e6, exported)
		}
		return nil
	})
}

type historyExportCmd struct {
	partitionArg
	Dir      string          `name:"history-dir" env:"HISTORY_DIR" required:"" help:"Folder for exports."`
	Database config.Database `embed:""`
}

func (c *historyExportCmd) Run(ctx context.Context) error {
	return withHistory(ctx, c.Database, c.Dir, func(ctx context.Context, h *history.Service) error {
		folder, err := h.Export(ctx, c.FirstDay)
		if err == nil {
			fmt.Println(folder)
		}
		return err
	})
}

type historyDropCmd struct {
	partitionArg
	Lose     bool            `help:"Drop the partition even if no export contains all its rows."`
	Dir      string          `name:"history-dir" env:"HISTORY_DIR" help:"Folder for exports. Without --lose, a partition that has no complete export is exported first."`
	Database config.Database `embed:""`
}

func (c *historyDropCmd) Run(ctx context.Context) error {
	return withHistory(ctx, c.Database, c.Dir, func(ctx context.Context, h *history.Service) error {
		return h.Drop(ctx, c.FirstDay, !c.Lose)
	})
}

type historyImportCmd struct {
	Folder   string          `arg:"" type:"existingdir" help:"Folder of the export."`
	Database config.Database `embed:""`
}

func (c *historyImportCmd) Run(ctx context.Context) error {
	return withHistory(ctx, c.Database, "", func(ctx context.Context, h *history.Service) error {
		tasks, err := h.Import(ctx, c.Folder)
		if err == nil {
			fmt.Printf("%d tasks imported\n", tasks)
		}
		return err
	})
}

// withHistory runs fn on the partitions of the database. dir is the folder for exports.
func withHistory(ctx context.Context, cfg config.Database, dir string, fn func(context.Context, *history.Service) error) error {
	return withDatabase(ctx, cfg, func(ctx context.Context, url string) error {
		db, err := postgres.Open(ctx, url)
		if err != nil {
			return err
		}
		defer db.Close()
		switch current, err := migrate.IsDone(ctx, db); {
		case err != nil:
			return err
		case !current:
			return errors.New("the database is not migrated to this version: run lksms migrate up first")
		}
		retention := notification.NewRetention(db)
		return fn(ctx, history.New(db, setting.New(db), history.Options{Dir: dir, BeforeDrop: retention.End, Held: retention.Held}))
	})
}
