// Command lksms accepts short messages over HTTP, queues them in PostgreSQL and hands them to senders. It owns the
// command line: flags, output and the order in which the server starts and stops.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"lksms/internal/config"
)

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Run the server."`
	Migrate migrateCmd `cmd:"" help:"Apply or revert migrations of the database. serve applies them itself."`
	User    userCmd    `cmd:"" help:"Manage users and their API keys."`
	History historyCmd `cmd:"" help:"List, export, drop and import the partitions of old tasks."`
	Secrets secretsCmd `cmd:"" help:"Manage the key that seals the secrets of senders."`
	Demo    demoCmd    `cmd:"" help:"Send a few dozen messages through a running server with a simulated sender."`
	Health  healthCmd  `cmd:"" help:"Check whether a running server is ready. The exit status is 0 if it is."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

func main() {
	if err := config.LoadEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, "lksms:", err)
		os.Exit(2)
	}
	var commands cli
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	parsed := kong.Parse(&commands,
		kong.Name("lksms"),
		kong.Description("Accepts short messages over HTTP, queues them in PostgreSQL and hands them to senders."),
		kong.Vars{"data_dir": config.DefaultDataDir()},
		config.Booleans(),
		kong.ShortUsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	err := parsed.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lksms:", err)
		os.Exit(1)
	}
}

// version is set by make build.
var version = "devel"

type versionCmd struct{}

func (versionCmd) Run() error {
	_, err := fmt.Println("lksms", version)
	return err
}

func newLogger(cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.SlogLevel()}
	if cfg.Format == "text" || cfg.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
