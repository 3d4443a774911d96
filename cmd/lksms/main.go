// Command lksms accepts short messages over HTTP, queues them in PostgreSQL and hands them to senders. This package owns the command line: flags, output and
// the order in which the server starts and stops.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"lksms/cmd/lksms/demo"
	"lksms/cmd/lksms/remote"
	"lksms/cmd/lksms/sender"
	"lksms/cmd/lksms/server"
	"lksms/cmd/lksms/simulate"
	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
)

type cli struct {
	Send     remote.SendCmd     `cmd:"" group:"client" help:"Submit a message."`
	Status   remote.StatusCmd   `cmd:"" group:"client" help:"Show a task, or what happened to it."`
	Explain  remote.ExplainCmd  `cmd:"" group:"client" help:"Show why a task is in its state, and which senders could take it."`
	Watch    remote.WatchCmd    `cmd:"" group:"client" help:"Wait until a task or a batch has ended."`
	Cancel   remote.CancelCmd   `cmd:"" group:"client" help:"Cancel tasks that wait."`
	Requeue  remote.RequeueCmd  `cmd:"" group:"client" help:"Send tasks again that are FAILED or CANCELLED."`
	Verify   remote.VerifyCmd   `cmd:"" group:"client" help:"Send codes, and check what people enter."`
	Batch    remote.BatchCmd    `cmd:"" group:"client" help:"Upload lists of messages, and follow them."`
	Senders  remote.SendersCmd  `cmd:"" group:"client" help:"List senders with their state."`
	Sender   sender.Cmd         `cmd:"" group:"client" help:"Be a sender."`
	Received remote.ReceivedCmd `cmd:"" group:"client" help:"Read received messages, or hand them over."`
	Claim    remote.ClaimCmd    `cmd:"" group:"client" help:"Claim tasks once, for experiments."`
	Tail     remote.TailCmd     `cmd:"" group:"client" help:"Show events of messages and batches as they happen."`
	Login    remote.LoginCmd    `cmd:"" group:"client" help:"Store server and credentials in a profile."`
	Profile  remote.ProfileCmd  `cmd:"" group:"client" help:"Manage profiles."`

	Serve    server.ServeCmd   `cmd:"" group:"server" help:"Run the server."`
	Migrate  server.MigrateCmd `cmd:"" group:"server" help:"Apply or revert migrations of the database. serve applies them itself."`
	User     server.UserCmd    `cmd:"" group:"server" help:"Manage users and their API keys."`
	Sql      server.SQLCmd     `cmd:"" group:"server" help:"Manage which roles of PostgreSQL may submit messages by SQL."`
	History  server.HistoryCmd `cmd:"" group:"server" help:"List, export, drop and import the partitions of old tasks."`
	Secrets  server.SecretsCmd `cmd:"" group:"server" help:"Manage the key that encrypts the secrets of senders."`
	Demo     demo.Cmd          `cmd:"" group:"server" help:"Send a few dozen messages through a running server with a simulated sender."`
	Simulate simulate.Cmd      `cmd:"" group:"server" help:"Simulate a carrier, or a program that binds to one."`
	Health   demo.HealthCmd    `cmd:"" group:"server" help:"Check whether a running server is ready. The exit status is 0 if it is."`

	Completion completionCmd `cmd:"" group:"other" help:"Print a script that completes commands, flags and profiles in a shell."`
	Version    versionCmd    `cmd:"" group:"other" help:"Print the version, and from which commit it was built."`
}

func main() {
	environment := config.ReadRemote()
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
		kong.Bind(environment),
	)
	if len(os.Args) > 1 && os.Args[1] == completionWord {
		for _, word := range complete(parser.Model, os.Args[2:]) {
			fmt.Println(word)
		}
		return
	}
	args, err := readArguments(os.Args[1:])
	var parsed *kong.Context
	if err == nil {
		parsed, err = parser.Parse(args)
	}
	if err == nil {
		err = emptyArgument(parsed, usesServer(args))
	}
	if err != nil {
		refuse(parser, err)
	}
	err = parsed.Run()
	stop()
	if err == nil {
		return
	}
	if _, shown := errors.AsType[remote.ShownError](err); !shown {
		fmt.Fprintln(os.Stderr, "lksms:", remote.ExplainError(err))
	}
	os.Exit(remote.ExitStatus(err))
}

// usesServer reports whether a command calls a server instead of running one. Commands that call a server ignore the file .env of the working folder.
func usesServer(args []string) bool {
	field, found := reflect.StructField{}, false
	if len(args) > 0 {
		field, found = reflect.TypeFor[cli]().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, args[0]) })
	}
	return found && field.Tag.Get("group") != "server" || len(args) > 0 && args[0] == completionWord
}

// emptyArgument returns an error that names an empty argument or flag of a command. It is usually a variable that a script did not set. Flags of commands that run
// a server can be empty, as their environment variables can.
func emptyArgument(parsed *kong.Context, isClient bool) error {
	for _, one := range parsed.Path {
		switch {
		case one.Positional != nil && isEmpty(one.Positional, one.Positional.Required):
			return fmt.Errorf("<%s> is empty", one.Positional.Name)
		case one.Flag != nil && isClient && isEmpty(one.Flag.Value, true):
			return fmt.Errorf("--%s is empty", one.Flag.Name)
		}
	}
	return nil
}

// isEmpty reports whether a given value is an empty text, or, if inList, a list with an empty text.
func isEmpty(v *kong.Value, inList bool) bool {
	given, isList := v.Target.Interface().([]string)
	return v.Target.Kind() == reflect.String && v.Target.Len() == 0 || isList && inList && slices.Contains(given, "")
}

// refuse prints the error in a command line, and the usage of the command.
func refuse(parser *kong.Kong, err error) {
	help := "lksms --help"
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context.Selected() != nil {
		fmt.Fprintln(os.Stderr, "Usage: lksms", wrong.Context.Selected().Summary())
		help = "lksms " + wrong.Context.Selected().Path() + " --help"
	}
	fmt.Fprintf(os.Stderr, "lksms: %s\n%s shows all of it.\n", err, help)
	parser.Exit(remote.ExitStatus(remote.ErrUsage))
}

type versionCmd struct{}

func (versionCmd) Run() error {
	_, err := fmt.Println("lksms", build.Read())
	return err
}
