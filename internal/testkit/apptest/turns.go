package apptest

import (
	"strconv"

	"github.com/jackc/pgx/v5"
)

// OnUpdate runs an SQL statement in each transaction that changes a column of a table, once for each changed row. NEW is this row.
func (b *Bundle) OnUpdate(table, column, statement string) {
	b.T.Helper()
	name := "on_update_" + column + "_" + strconv.Itoa(b.Count("SELECT count(*) FROM pg_trigger"))
	b.Exec("CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + statement + "; RETURN NULL; END $$")
	b.Exec("CREATE TRIGGER " + name + " AFTER UPDATE OF " + column + " ON " + table + " FOR EACH ROW EXECUTE FUNCTION " + name + "()")
}

// RecordUpdates records which rows of a table are changed in a column. It returns a function that returns the ids of these rows in the order of the changes.
func (b *Bundle) RecordUpdates(table, column string) (ids func() []int64) {
	b.T.Helper()
	b.Exec("CREATE TABLE recorded_updates (nth bigint GENERATED ALWAYS AS IDENTITY, id bigint)")
	b.OnUpdate(table, column, "INSERT INTO recorded_updates (id) VALUES (NEW.id)")
	return func() []int64 {
		b.T.Helper()
		rows, err := b.DB.Query(b.T.Context(), "SELECT id FROM recorded_updates ORDER BY nth")
		if err != nil {
			b.T.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			b.T.Fatal(err)
		}
		return all
	}
}
