package sqlinbox_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
	"lksms/internal/transport/sqlinbox"
)

// B12: a transaction in another database of the cluster submits through postgres_fdw. If the transaction is rolled back, the message is also rolled back.
func TestTransactionInAnotherDatabaseSubmitsThroughForeignTable(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	role, to := newRole(b)
	if err := sqlinbox.NewRoles(b.App.DB).Grant(t.Context(), "user-of-acme", role); err != nil {
		t.Fatal(err)
	}
	remote, err := pgx.ParseConfig(to)
	if err != nil {
		t.Fatal(err)
	}
	own := pgtest.NewEmpty(t) // the database of the caller
	admin := connect(t, pgtest.Admin(t, own))
	if scan[int](t, admin, "SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") == 0 {
		t.Skip("this PostgreSQL has no postgres_fdw")
	}
	exec(t, admin, fmt.Sprintf(`CREATE EXTENSION postgres_fdw;
		CREATE SERVER lksms FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%d', dbname '%s');
		CREATE USER MAPPING FOR PUBLIC SERVER lksms OPTIONS (user '%s', password 'shop');
		CREATE FOREIGN TABLE public.outgoing_messages (task_id text, phone_number text, content text, dedup_key text)
			SERVER lksms OPTIONS (schema_name 'lksms', table_name 'outgoing');
		CREATE TABLE public.orders (no text PRIMARY KEY, task_id text);
		GRANT SELECT, INSERT ON public.outgoing_messages TO %[4]s; GRANT SELECT, INSERT, UPDATE ON public.orders TO %[4]s`,
		remote.Host, remote.Port, remote.Database, role))
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	ownURL, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = ownURL.Path
	shop := connect(t, u.String())
	t.Cleanup(func() {
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role); err != nil {
			t.Error(err)
		}
	})

	const order = `WITH sent AS (INSERT INTO public.outgoing_messages (phone_number, content, dedup_key) VALUES ('13800138000', 'order ' || $1, $1) RETURNING task_id)
		INSERT INTO public.orders SELECT $1, task_id FROM sent RETURNING task_id`
	tx := begin(t, shop)
	scan[string](t, tx, order, "rolled back")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, shop)
	id := scan[string](t, tx, order, "1")
	commit(t, tx)
	if n := take(b); n != 1 {
		t.Errorf("converted %d messages", n)
	}
	if got := b.Task(id).Content; got != "order 1" {
		t.Errorf("the task is %s", got)
	}
	_, err = shop.Exec(t.Context(), "INSERT INTO public.outgoing_messages (phone_number, content) VALUES ('12', 'x')")
	// postgres_fdw passes on the SQLSTATE and the message, but not the column.
	if r := refusal(err); r.Code != "LK005" || !strings.HasPrefix(r.Message, "phone_number: ") {
		t.Errorf("a bad number: %v", err)
	}
	exec(t, shop, "INSERT INTO public.outgoing_messages (phone_number, content) SELECT '13800138000', 'many' FROM generate_series(1, 50)")
	if n := take(b); n != 50 {
		t.Errorf("converted %d messages of one statement", n)
	}
}
