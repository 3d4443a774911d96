package postgres

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CopyOut writes the rows of a query to w as CSV, and returns the number of rows. If header is set, the first line contains the names of the columns. CopyOut
// runs outside the transaction of ctx.
func (db *DB) CopyOut(ctx context.Context, w io.Writer, query string, header bool) (int64, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("copy rows: %w", err)
	}
	defer conn.Release()
	tag, err := conn.Conn().PgConn().CopyTo(ctx, w, fmt.Sprintf("COPY (%s) TO STDOUT (FORMAT csv, HEADER %t)", query, header))
	return tag.RowsAffected(), Wrap("copy rows", err, nil)
}

// CopyIn adds the CSV of r, which has no header line, to columns of a table, in the transaction of ctx. It returns the number of added rows.
func (db *DB) CopyIn(ctx context.Context, r io.Reader, table string, columns []string) (int64, error) {
	tx := db.txOf(ctx)
	if tx == nil {
		return 0, fmt.Errorf("copy rows into %s: not in a transaction", table)
	}
	tag, err := tx.tx.Conn().PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT csv)", pgx.Identifier{table}.Sanitize(), Columns(columns)))
	return tag.RowsAffected(), Wrap("copy rows into "+table, err, nil)
}

// Columns returns column names as a quoted SQL list.
func Columns(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}

// Literal returns text as an SQL literal, for a statement that cannot have parameters.
func Literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
