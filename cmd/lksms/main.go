// Command lksms accepts short messages over HTTP, queues them in PostgreSQL and hands them to senders. It owns the
// command line: flags, output and the order in which the server starts and stops.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
)

type cli struct {
	Send    sendCmd    `cmd:"" group:"client" help:"Submit a message."`
	Status  statusCmd  `cmd:"" group:"client" help:"Show a task, or what happened to it."`
	Explain explainCmd `cmd:"" group:"client" help:"Show why a task is in its state, and which senders could take it."`
	Watch   watchCmd   `cmd:"" group:"client" help:"Wait until a task or a batch has ended."`
	Cancel  cancelCmd  `cmd:"" group:"client" help:"Cancel tasks that wait."`
	Requeue requeueCmd `cmd:"" group:"client" help:"Send tasks again that are FAILED or CANCELLED."`
	Batch   batchCmd   `cmd:"" group:"client" help:"Upload lists of messages, and follow them."`
	Senders sendersCmd `cmd:"" group:"client" help:"List senders with their state."`
	Sender  senderCmd  `cmd:"" group:"client" help:"Be a sender."`
	Claim   claimCmd   `cmd:"" group:"client" help:"Claim tasks once, for trying."`
	Tail    tailCmd    `cmd:"" group:"client" help:"Show events of messages and batches as they happen."`
	Login   loginCmd   `cmd:"" group:"client" help:"Store server and credentials in a profile."`
	Profile profileCmd `cmd:"" group:"client" help:"Manage profiles."`

	Serve   serveCmd   `cmd:"" group:"server" help:"Run the server."`
	Migrate migrateCmd `cmd:"" group:"server" help:"Apply or revert migrations of the database. serve applies them itself."`
	User    userCmd    `cmd:"" group:"server" help:"Manage users and their API keys."`
	Sql     sqlCmd     `cmd:"" group:"server" help:"Manage which roles of PostgreSQL may submit messages by SQL."`
	History historyCmd `cmd:"" group:"server" help:"List, export, drop and import the partitions of old tasks."`
	Secrets secretsCmd `cmd:"" group:"server" help:"Manage the key that seals the secrets of senders."`
	Demo    demoCmd    `cmd:"" group:"server" help:"Send a few dozen messages through a running server with a simulated sender."`
	Health  healthCmd  `cmd:"" group:"server" help:"Check whether a running server is ready. The exit status is 0 if it is."`

	Completion completionCmd `cmd:"" group:"other" help:"Print a script that completes commands, flags and profiles in a shell."`
	Version    versionCmd    `cmd:"" group:"other" help:"Print the version, and from which commit it was built."`
}

func main() {
	remote := config.ReadRemote()
	if usesServer(os.Args[1:]) {
		config.IgnoreEmpty()
	} else if err := config.LoadEnvironment(); err != nil {
		fmt.Fprintln(os.Stderr, "lksms:", err)
		os.Exit(2)
	}
	var commands cli
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	parser := kong.Must(&commands,
		kong.Name("lksms"),
		kong.Description("Accepts short messages over HTTP, queues them in PostgreSQL and hands them to senders."),
		kong.Vars{"data_dir": config.DefaultDataDir()},
		kong.ExplicitGroups([]kong.Group{
			{Key: "client", Title: "Use a server"}, {Key: "server", Title: "Run a server"}, {Key: "other", Title: "Others"},
		}),
		config.Booleans(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(remote),
	)
	if len(os.Args) > 1 && os.Args[1] == completionWord {
		for _, word := range complete(parser.Model, os.Args[2:]) {
			fmt.Println(word)
		}
		return
	}
	parsed, err := parser.Parse(os.Args[1:])
	if err == nil {
		err = emptyArgument(parsed)
	}
	if err != nil {
		refuse(parser, err)
	}
	err = parsed.Run()
	stop()
	if err == nil {
		return
	}
	if _, shown := errors.AsType[shownError](err); !shown {
		fmt.Fprintln(os.Stderr, "lksms:", explainError(err))
	}
	os.Exit(exitStatus(err))
}

// usesServer reports whether a command uses a server instead of running one. The file .env of a folder is for those that run one.
func usesServer(args []string) bool {
	field, found := reflect.StructField{}, false
	if len(args) > 0 {
		field, found = reflect.TypeFor[cli]().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, args[0]) })
	}
	return found && field.Tag.Get("group") != "server" || len(args) > 0 && args[0] == completionWord
}

// emptyArgument returns an error that names an argument of a command that is empty, as that of a variable that a script did not set.
func emptyArgument(parsed *kong.Context) error {
	for _, one := range parsed.Path {
		if one.Positional != nil && one.Positional.Target.Kind() == reflect.String && one.Positional.Target.String() == "" {
			return fmt.Errorf("<%s> is empty", one.Positional.Name)
		}
	}
	return nil
}

// refuse says what is wrong with a command line, and how the command is used.
func refuse(parser *kong.Kong, err error) {
	help := "lksms --help"
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context.Selected() != nil {
		fmt.Fprintln(os.Stderr, "Usage: lksms", wrong.Context.Selected().Summary())
		help = "lksms " + wrong.Context.Selected().Path() + " --help"
	}
	fmt.Fprintf(os.Stderr, "lksms: %s\n%s shows all of it.\n", err, help)
	parser.Exit(exitStatus(errUsage))
}

type versionCmd struct{}

func (versionCmd) Run() error {
	_, err := fmt.Println("lksms", build.Read())
	return err
}

func newLogger(cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.SlogLevel()}
	if cfg.Format == "text" || cfg.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}
