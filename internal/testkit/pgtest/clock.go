package pgtest

import (
	"fmt"
	"testing"
)

// NewWithClock works like New for a database with a separate clock, which all functions and statements in the database use. The only row of clock.hand sets
// this clock. If its column stopped is NULL, the clock runs ahead of the server's clock by the interval in its column ahead. Otherwise the clock always shows
// stopped.
func NewWithClock(t testing.TB) string {
	t.Helper()
	return fresh(t, clocked.copy)
}

// clocked is the template of the databases with a separate clock.
var clocked = template{prefix: "lksms_clock_", searchPath: "clock, public, pg_catalog", before: clockSchema(), after: clockOfFunctions + "; " + settings}

// clockSchema returns the statements that create the clock.
func clockSchema() string {
	sql := `CREATE SCHEMA clock; CREATE TABLE clock.hand (ahead interval NOT NULL, stopped timestamptz); INSERT INTO clock.hand VALUES ('0', NULL);`
	for _, f := range [][2]string{{"now", "STABLE"}, {"statement_timestamp", "STABLE"}, {"clock_timestamp", "VOLATILE"}} {
		sql += fmt.Sprintf("CREATE FUNCTION clock.%s() RETURNS timestamptz LANGUAGE sql %s AS $$ SELECT coalesce(h.stopped, pg_catalog.%[1]s() + h.ahead) FROM clock.hand h $$;", f[0], f[1])
	}
	return sql
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
