package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/platform/migrate"
)

// NewWithClock works like New for a database with a separate clock, which all functions and statements in the database use. The only row of clock.hand sets
// this clock. If its column stopped is NULL, the clock runs ahead of the server's clock by the interval in its column ahead. Otherwise the clock always shows
// stopped.
func NewWithClock(t testing.TB) string {
	t.Helper()
	url := NewEmpty(t)
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	err := execute(ctx, url, func(conn *pgx.Conn) error {
		sql := `CREATE SCHEMA clock; CREATE TABLE clock.hand (ahead interval NOT NULL, stopped timestamptz); INSERT INTO clock.hand VALUES ('0', NULL);`
		for name, volatility := range map[string]string{"now": "STABLE", "statement_timestamp": "STABLE", "clock_timestamp": "VOLATILE"} {
			sql += fmt.Sprintf("CREATE FUNCTION clock.%s() RETURNS timestamptz LANGUAGE sql %s AS $$ SELECT coalesce(h.stopped, pg_catalog.%s() + h.ahead) FROM clock.hand h $$;",
				name, volatility, name)
		}
		sql += fmt.Sprintf("ALTER DATABASE %s SET search_path = clock, public, pg_catalog", conn.Config().Database)
		_, err := conn.Exec(ctx, sql)
		return err
	})
	if err == nil {
		_, err = migrate.Up(ctx, url, nil)
	}
	if err == nil {
		err = execute(ctx, url, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, clockOfFunctions+"; "+settings)
			return err
		})
	}
	if err != nil {
		t.Fatalf("make database with a clock: %v", err)
	}
	return url
}

// clockOfFunctions makes functions that set a search path use the clock.
const clockOfFunctions = `DO $$
DECLARE
	made regprocedure;
BEGIN
	FOR made IN SELECT p.oid FROM pg_proc p WHERE array_to_string(p.proconfig, ',') LIKE '%search_path=clock,%' LOOP
		EXECUTE format('ALTER FUNCTION %s SET search_path = clock, public, pg_catalog, pg_temp', made);
	END LOOP;
END $$`
