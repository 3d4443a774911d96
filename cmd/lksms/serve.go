package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"lksms/internal/app"
	"lksms/internal/config"
	"lksms/internal/postgres"
)

type serveCmd struct {
	config.Server `embed:""`
}

// startLimit bounds everything before the first request: a first cluster, a recovery, the migrations.
const startLimit = 2 * time.Minute

// gcPercent lets the heap grow further before it is collected: of the memory of a small server there is enough, and a tenth
// of its time went into collecting. GOGC, if set, says otherwise.
const gcPercent = 300

// memoryLimit is from where on the heap is collected more often. The bodies of requests that are served at once need less, so a flood of
// them does not make the server grow further. GOMEMLIMIT, if set, says otherwise.
const memoryLimit = 256 << 20

func (c *serveCmd) Run(ctx context.Context) error {
	log := newLogger(c.Log)
	if before := debug.SetGCPercent(gcPercent); before != 100 {
		debug.SetGCPercent(before)
	}
	if before := debug.SetMemoryLimit(memoryLimit); before != math.MaxInt64 {
		debug.SetMemoryLimit(before)
	}
	if names := config.Meaningless(); len(names) > 0 {
		log.Warn("these variables mean nothing here; DATABASE_URL says where the data is, and without it a private PostgreSQL is started",
			"variables", strings.Join(names, ", "))
	}
	if c.IsSamplePassword() {
		log.Warn("BASIC_AUTH_PASSWORD is the sample of a document that everybody can read: set a password of your own")
	}
	// First, because it is what most often cannot be had, and nothing is touched yet.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address())
	if err != nil {
		return fmt.Errorf("listen (APP_HOST, APP_PORT): %w", err)
	}
	defer listener.Close() //nolint:errcheck // Serve closes it; this is for the ways out before

	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	db, err := openDatabase(starting, c.Database, log)
	if err != nil {
		return err
	}
	if db.borrowed {
		log.Warn("using the PostgreSQL that another lksms started; it stops with that one", "folder", c.DataDir)
	}
	err = c.serve(ctx, starting, db, listener, log)
	return errors.Join(err, db.stop())
}

func (c *serveCmd) serve(ctx, starting context.Context, db *database, listener net.Listener, log *slog.Logger) error {
	applied, err := postgres.MigrateUp(starting, db.url)
	if err != nil {
		return err
	}
	if applied > 0 {
		log.Info("migrated", "applied", applied)
	}
	password, generated, err := config.ResolvePassword(c.Account, c.Database, true)
	if err != nil {
		return err
	}
	options, err := app.FromConfig(&c.Server, db.url, password, log)
	if err != nil {
		return err
	}
	server, err := app.New(ctx, options)
	if err != nil {
		return err
	}
	defer server.Close()

	// Without its database the server is of no use: whoever started it should know.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-db.gone:
			stop(errors.New("the private PostgreSQL ended by itself"))
		case <-ctx.Done():
		}
	}()
	c.greet(listener.Addr(), password, generated)
	log.Info("serving", "address", listener.Addr().String())
	err = server.Serve(ctx, listener)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	log.Info("stopped")
	return err
}

// greet tells a person what to do next. A configured password is not repeated.
func (c *serveCmd) greet(addr net.Addr, password config.Secret, generated bool) {
	scheme := "http"
	if c.TLSCertFile != "" {
		scheme = "https"
	}
	base := baseURL(scheme, addr)
	shown := "as configured"
	if generated {
		shown = string(password) + "   (kept in " + c.PasswordFile() + ")"
	}
	fmt.Printf(`
  LKSMS is serving

    address    %s
    user       %s
    password   %s
`, base, c.Username, shown)
	if c.EnableDocs {
		fmt.Printf("    try it     %s/docs/\n", base)
	}
	fmt.Print("\n  Watch messages go out, in another terminal:\n\n    make demo\n\n")
}

// baseURL is how this machine reaches addr.
func baseURL(scheme string, addr net.Addr) string {
	host, port := "127.0.0.1", "0"
	if tcp, ok := addr.(*net.TCPAddr); ok {
		port = strconv.Itoa(tcp.Port)
		if !tcp.IP.IsUnspecified() {
			host = tcp.IP.String()
		}
	}
	return (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String()
}

// database is the one that was configured, or a private one.
type database struct {
	url  string
	gone <-chan struct{} // closed when a private server ends; nil otherwise
	stop func() error

	borrowed bool // a private one that another process started
}

func openDatabase(ctx context.Context, cfg config.Database, log *slog.Logger) (*database, error) {
	if cfg.DatabaseURL != "" {
		return &database{url: string(cfg.DatabaseURL), stop: func() error { return nil }}, nil
	}
	server, err := postgres.StartServer(ctx, postgres.ServerOptions{
		Dir: cfg.DataDir, BinDir: cfg.PostgresBin, MoreBins: config.UnpackedPostgres(), Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	db := &database{url: server.URL(), stop: server.Stop, borrowed: !server.Owned()}
	if server.Owned() {
		db.gone = server.Exited()
	}
	return db, nil
}

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing."`
	Down   migrateDownCmd   `cmd:"" help:"Take back the newest migration, and the data in what it made."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations."`
}

type migrateUpCmd struct {
	config.Database `embed:""`
}

func (c *migrateUpCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		applied, err := postgres.MigrateUp(ctx, url)
		if err == nil {
			fmt.Printf("%d applied\n", applied)
		}
		return err
	})
}

type migrateDownCmd struct {
	config.Database `embed:""`
}

func (c *migrateDownCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, postgres.MigrateDown)
}

type migrateStatusCmd struct {
	config.Database `embed:""`
}

func (c *migrateStatusCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		list, err := postgres.Migrations(ctx, url)
		for _, migration := range list {
			state := "missing"
			if migration.Applied {
				state = "applied"
			}
			fmt.Println(state, migration.File)
		}
		return err
	})
}

func withDatabase(ctx context.Context, cfg config.Database, fn func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	db, err := openDatabase(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, db.url), db.stop())
}
