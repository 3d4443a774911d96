// Command missing prints the statuses of the contract that no test observed, and fails if it prints any. Its argument is the folder to which all test processes
// of a run saved the statuses that they observed.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"lksms/internal/testkit/contracttest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "missing:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: missing folder")
	}
	missing, err := contracttest.Missing(args[0])
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return errors.New("statuses in the contract that no test saw: " + strings.Join(missing, ", "))
	}
	return nil
}
