package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// invariant is a condition on the history and the database. Its statement returns a text for each violation; $1 is
// MAX_RETRY_COUNT.
type invariant struct {
	name string
	sql  string
}

// verdict is the result of checking one invariant.
type verdict struct {
	name    string
	broken  int
	samples []string
}

func (v *verdict) add(text string) {
	v.broken++
	if len(v.samples) < 3 {
		v.samples = append(v.samples, text)
	}
}

// check returns the violations of the invariant.
func (i invariant) check(ctx context.Context, conn *pgx.Conn) (verdict, error) {
	v := verdict{name: i.name}
	var args []any
	if strings.Contains(i.sql, "$1") {
		args = append(args, maxRetries)
	}
	rows, err := conn.Query(ctx, i.sql, args...)
	if err != nil {
		return v, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return v, err
		}
		v.add(text)
	}
	return v, rows.Err()
}

func checkAll(ctx context.Context, conn *pgx.Conn, invariants []invariant) (all []verdict, err error) {
	for _, i := range invariants {
		v, err := i.check(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// broken returns the verdicts of broken invariants.
func broken(verdicts []verdict) []verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v verdict) bool { return v.broken == 0 })
}

// printVerdicts prints which invariants hold.
func printVerdicts(verdicts []verdict) {
	fmt.Println()
	for _, v := range verdicts {
		mark := "holds "
		if v.broken > 0 {
			mark = "BROKEN"
		}
		fmt.Printf("  %s  %s\n", mark, v.name)
		if v.broken > 0 {
			fmt.Printf("          %d times: %s\n", v.broken, strings.Join(v.samples, "; "))
		}
	}
	held := len(verdicts) - len(broken(verdicts))
	fmt.Printf("\nsoak: %d invariants hold, %d are broken\n", held, len(verdicts)-held)
}
