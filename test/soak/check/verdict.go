// Package check defines invariants, and collects the violations that their checks find.
package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/stack"
)

// Invariant is a condition on the recorded history and the database. Its SQL statement returns one text for each violation. $1 in the statement is
// MAX_RETRY_COUNT.
type Invariant struct {
	Name string
	SQL  string
}

// Verdict is the result of checking one invariant.
type Verdict struct {
	Name    string
	Broken  int
	Samples []string
}

// Add counts a violation, and stores the first three as samples.
func (v *Verdict) Add(text string) {
	v.Broken++
	if len(v.Samples) < 3 {
		v.Samples = append(v.Samples, text)
	}
}

// Check runs the statement of the invariant and returns its violations.
func (i Invariant) Check(ctx context.Context, conn *pgx.Conn) (Verdict, error) {
	v := Verdict{Name: i.Name}
	var args []any
	if strings.Contains(i.SQL, "$1") {
		args = append(args, stack.MaxRetries)
	}
	rows, err := conn.Query(ctx, i.SQL, args...)
	if err != nil {
		return v, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return v, err
		}
		v.Add(text)
	}
	return v, rows.Err()
}

// All checks the invariants in order.
func All(ctx context.Context, conn *pgx.Conn, invariants []Invariant) (all []Verdict, err error) {
	for _, i := range invariants {
		v, err := i.Check(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// Broken returns the verdicts of broken invariants.
func Broken(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Broken == 0 })
}

// Print prints each invariant and whether it holds.
func Print(verdicts []Verdict) {
	fmt.Println()
	for _, v := range verdicts {
		mark := "holds "
		if v.Broken > 0 {
			mark = "BROKEN"
		}
		fmt.Printf("  %s  %s\n", mark, v.Name)
		if v.Broken > 0 {
			fmt.Printf("          %d times: %s\n", v.Broken, strings.Join(v.Samples, "; "))
		}
	}
	held := len(verdicts) - len(Broken(verdicts))
	fmt.Printf("\nsoak: %d invariants hold, %d are broken\n", held, len(verdicts)-held)
}
