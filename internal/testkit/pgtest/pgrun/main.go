// Command pgrun starts a PostgreSQL, runs a command, and then stops the PostgreSQL. All test packages of the command share this PostgreSQL. With -database, the
// command also gets DATABASE_URL, the URL of a migrated database.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"lksms/internal/platform/config"
	"lksms/internal/testkit/pgtest"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		code = 1
	}
	os.Exit(code)
}

func run() (int, error) {
	database := flag.Bool("database", false, "set DATABASE_URL to a migrated database")
	flag.Parse()
	if flag.NArg() == 0 {
		return 0, errors.New("usage: pgrun [-database] command [argument ...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, stop, err := pgtest.Start(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	env := append(os.Environ(), config.TestServerVariable+"="+server.AdminURL())
	if *database {
		url, _, err := pgtest.CreateMigrated(ctx, server.AdminURL())
		if err != nil {
			return 0, err
		}
		env = append(env, "DATABASE_URL="+url)
	}
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	// The terminal also sends its signals to the command. This process ignores the signals, because it must stop PostgreSQL afterwards.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
