// Package server contains the commands that run a server, and the commands that work on its database.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"lksms/internal/app"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/pgserver"
	"lksms/internal/platform/postgres"
)

// ServeCmd is the command `lksms serve`.
type ServeCmd struct {
	Server config.Server `embed:""`
}

// Validate checks the settings. kong calls it after it has read the flags.
func (c *ServeCmd) Validate() error { return c.Server.Validate() }

// startLimit is the time limit until the database answers, for example after a recovery.
const startLimit = 2 * time.Minute

// migrateLimit is the time limit of the migrations. A migration that rewrites all tasks takes minutes per ten million tasks.
const migrateLimit = 24 * time.Hour

// gcPercent is the growth of the heap in percent that starts a garbage collection. With Go's default of 100, small servers spent a tenth of their time on
// garbage collections, although memory was free. GOGC overrides gcPercent.
const gcPercent = 300

// memoryLimit is the heap size in bytes above which garbage collections become more frequent. The bodies of all concurrent requests need less memory, so a
// flood of requests does not exceed the limit. GOMEMLIMIT overrides memoryLimit.
const memoryLimit = 256 << 20

func (c *ServeCmd) Run(ctx context.Context) error {
	log := c.Server.Logger()
	if before := debug.SetGCPercent(gcPercent); before != 100 {
		debug.SetGCPercent(before)
	}
	if before := debug.SetMemoryLimit(memoryLimit); before != math.MaxInt64 {
		debug.SetMemoryLimit(before)
	}
	if names := config.Meaningless(); len(names) > 0 {
		log.Warn("these variables are ignored: set DATABASE_URL to use a database, or leave it unset to start a private PostgreSQL",
			"variables", strings.Join(names, ", "))
	}
	if c.Server.IsSamplePassword() {
		log.Warn("BASIC_AUTH_PASSWORD is a sample from public documentation: set a password of your own")
	}
	// Listen before anything is changed: an occupied port is the most frequent failure.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Server.Address())
	if err != nil {
		return fmt.Errorf("listen (APP_HOST, APP_PORT): %w", err)
	}
	defer listener.Close() //nolint:errcheck // Serve closes the listener; this is for earlier returns
	starting, err := app.Start(&c.Server, listener, log)
	if err != nil {
		return err
	}
	defer starting.Close()

	opening, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	db, err := openDatabase(opening, c.Server.Database, log)
	if err != nil {
		return err
	}
	if db.isShared {
		log.Warn("using the PostgreSQL that another lksms process started; it stops with that process", "folder", c.Server.DataDir)
	}
	err = c.serve(ctx, db, listener, starting, log)
	return errors.Join(err, db.stop())
}

func (c *ServeCmd) serve(ctx context.Context, db *database, listener net.Listener, starting *app.Starting, log *slog.Logger) error {
	migrating, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	applied, err := migrate.Up(migrating, db.url, log)
	if err != nil {
		return err
	}
	if applied > 0 {
		log.Info("migrations applied", "applied", applied)
	}
	password, generated, err := config.ResolvePassword(c.Server.Account, c.Server.Database, true)
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

	// If the private PostgreSQL of this process ends, the server stops with an error, because it cannot work without its database.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-db.gone:
			stop(errors.New("the private PostgreSQL ended unexpectedly"))
		case <-ctx.Done():
		}
	}()
	if err := starting.HandOver(server.Handler); err != nil {
		return fmt.Errorf("use the listener: %w", err)
	}
	c.printNextSteps(listener.Addr(), password, generated)
	log.Info("serving", "address", listener.Addr().String())
	err = server.Serve(ctx, listener)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	log.Info("stopped")
	return err
}

// printNextSteps prints the address, the user and the next steps. It never prints a configured password. It prints a generated password only on a terminal,
// because the output of a service is stored in logs.
func (c *ServeCmd) printNextSteps(addr net.Addr, password config.Secret, generated bool) {
	scheme := "http"
	if c.Server.TLSCertFile != "" {
		scheme = "https"
	}
	base := baseURL(scheme, addr) + c.Server.BasePath
	shown := "as configured"
	switch {
	case generated && term.IsTerminal(int(os.Stdout.Fd())):
		shown = string(password) + "   (from " + c.Server.PasswordFile() + ")"
	case generated:
		shown = "generated, in " + c.Server.PasswordFile()
	}
	fmt.Printf(`
  LKSMS is serving

    address    %s
    console    %s/console/
    user       %s
    password   %s
`, base, base, c.Server.Username, shown)
	if c.Server.EnableDocs {
		fmt.Printf("    the API    %s/docs/\n", base)
	}
	fmt.Printf("\n  Watch messages go out, in another terminal:\n\n    %s demo\n\n", os.Args[0])
}

// baseURL returns the URL of addr on this machine.
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

// database is the configured database, or a private one.
type database struct {
	url  string
	gone <-chan struct{} // closed when the private server of this process ends; nil for other databases
	stop func() error

	isShared bool // another process owns the private server
}

func openDatabase(ctx context.Context, cfg config.Database, log *slog.Logger) (*database, error) {
	if cfg.DatabaseURL != "" {
		return &database{url: string(cfg.DatabaseURL), stop: func() error { return nil }}, nil
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		Dir: cfg.DataDir, BinDir: cfg.PostgresBin, MoreBins: config.UnpackedPostgres(), Log: log,
	})
	if err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	db := &database{url: server.URL(), stop: server.Stop, isShared: !server.Owned()}
	if server.Owned() {
		db.gone = server.Exited()
	}
	return db, nil
}

// MigrateCmd is the command `lksms migrate`.
type MigrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply missing migrations."`
	Down   migrateDownCmd   `cmd:"" help:"Revert the newest migration. Data in the tables and columns that it created is lost."`
	Status migrateStatusCmd `cmd:"" help:"List the migrations."`
}

type migrateUpCmd struct {
	Database config.Database `embed:""`
}

func (c *migrateUpCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		applied, err := migrate.Up(ctx, url, warnings())
		if err == nil {
			fmt.Printf("%d applied\n", applied)
		}
		return err
	})
}

type migrateDownCmd struct {
	Database config.Database `embed:""`
}

func (c *migrateDownCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error { return migrate.Down(ctx, url, warnings()) })
}

type migrateStatusCmd struct {
	Database config.Database `embed:""`
}

func (c *migrateStatusCmd) Run(ctx context.Context) error {
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		list, err := migrate.List(ctx, url)
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

// withDatabase runs fn with the URL of the configured database. If no database is configured, it starts a private database for the duration of fn. In the
// audit, changes of fn belong to the user that runs the command.
func withDatabase(ctx context.Context, cfg config.Database, fn func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	starting, started := context.WithTimeout(ctx, startLimit)
	defer started()
	db, err := openDatabase(starting, cfg, warnings())
	if err != nil {
		return err
	}
	return errors.Join(fn(postgres.As(ctx, postgres.Actor{Name: commandLineUser()}), db.url), db.stop())
}

// warnings returns a logger for commands, which prints warnings and errors.
func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// commandLineUser returns the name of the user that runs the command, in the format of the audit.
func commandLineUser() string {
	name := strconv.Itoa(os.Getuid())
	if who, err := user.Current(); err == nil { // an account without an entry has only a number
		name = who.Username
	}
	return "cli:" + name
}
