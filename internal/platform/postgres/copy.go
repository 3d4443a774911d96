package postgres

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CopyOut writes the rows of a query to w as CSV, with the names of the columns in the first line if header, and returns how many rows. It runs
// outside the transaction of ctx.
func (db *DB) CopyOut(ctx context.Context, w io.Writer, query string, header bool) (int64, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("copy rows: %w", err)
	}
	defer conn.Release()
	tag, err := conn.Conn().PgConn().CopyTo(ctx, w, fmt.Sprintf("COPY (%s) TO STDOUT (FORMAT csv, HEADER %t)", query, header))
	return tag.RowsAffected(), Wrap("copy rows", err, nil)
}

// CopyIn adds the CSV of r, without a first line of names, to columns of a table, in the transaction of ctx, and returns how many rows it added.
func (db *DB) CopyIn(ctx context.Context, r io.Reader, table string, columns []string) (int64, error) {
	tx := db.txOf(ctx)
	if tx == nil {
		return 0, fmt.Errorf("copy rows into %s: not in a transaction", table)
	}
	tag, err := tx.tx.Conn().PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT csv)", pgx.Identifier{table}.Sanitize(), Columns(columns)))
	return tag.RowsAffected(), Wrap("copy rows into "+table, err, nil)
}

// Columns returns names of columns as SQL.
func Columns(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}

// Literal returns text as a literal of SQL, for a statement that cannot have parameters.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
