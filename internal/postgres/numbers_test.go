package postgres_test

import (
	"fmt"
	"testing"

	"lksms/internal/postgres"
)

// The ledger and the rows of batches become partitions as they are: no file is written anew. The statements of the version before go on. Undone, all rows
// are in one table again.
func TestTheLedgerAndRowsOfBatchesBecomePartitionsAsTheyAre(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261126210000")
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	text := func(query string) (found string) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), query).Scan(&found); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return found
	}
	// as the version before writes
	const (
		charge = `INSERT INTO sender_ledger (sender_id, change, balance, lease_id, company_id, created_at) SELECT 1, -1, 9, nextval('lease_ids'), 1, now() FROM generate_series(1, 3)`
		topUp  = `INSERT INTO sender_ledger (sender_id, change, balance, remark, username) VALUES (1, 10, 10, 'more', 'admin')`
		rows   = `INSERT INTO batch_rows (batch_id, row_no, recipient, content, segments) SELECT %s, n, '+8613800138000', 'x', 1 FROM generate_series(1, 3) n`
		files  = `SELECT pg_relation_filenode(to_regclass('sender_ledger%[1]s')) || ' ' || pg_relation_filenode(to_regclass('batch_rows%[1]s'))`
		ledger = `SELECT string_agg(l::text, E'\n' ORDER BY id) FROM (SELECT id, sender_id, change, balance, lease_id, remark, username, created_at, company_id FROM sender_ledger) l`
	)
	exec(topUp)
	exec(charge)
	const role = "pg_monitor" // some role of every cluster
	exec("GRANT SELECT ON sender_ledger, batch_rows TO " + role)
	exec(fmt.Sprintf(rows, "7"))
	was, filesWere := text(ledger), text(fmt.Sprintf(files, ""))
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if is := text(ledger); is != was {
		t.Errorf("the ledger after the upgrade:\n%s\nwas\n%s", is, was)
	}
	if are := text(fmt.Sprintf(files, "_default")); are != filesWere {
		t.Errorf("the files are %s, were %s", are, filesWere)
	}
	for _, table := range []string{"sender_ledger", "batch_rows"} {
		if has := text("SELECT has_table_privilege('" + role + "', '" + table + "', 'SELECT')::text"); has != "true" {
			t.Errorf("a role that could read %s cannot any more", table)
		}
	}
	exec(charge)
	exec(topUp)
	exec(fmt.Sprintf(rows, "8"))
	for range 4 {
		exec("SELECT number_partitions_ahead('sender_ledger', '1 day'), number_partitions_ahead('batch_rows', '1 day')")
	}
	exec(charge)
	exec(fmt.Sprintf(rows, "(SELECT last_value FROM batches_id_seq)"))
	if options := text("SELECT string_agg(DISTINCT coalesce(reloptions::text, ''), ' ') FROM pg_class WHERE oid IN (SELECT relid FROM pg_partition_tree('batch_rows') WHERE isleaf)"); options != "{fillfactor=85}" {
		t.Errorf("partitions of rows of batches have the options %s", options)
	}
	const places = `SELECT string_agg(place || ':' || n, ' ' ORDER BY place) FROM (
		SELECT tableoid::regclass::text AS place, count(*) AS n FROM sender_ledger GROUP BY 1 UNION ALL SELECT tableoid::regclass::text, count(*) FROM batch_rows GROUP BY 1) x`
	if is := text(places); is != "batch_rows_20000:3 batch_rows_default:6 sender_ledger_2000000000:3 sender_ledger_default:8" {
		t.Errorf("rows are in %s", is)
	}
	// the fold of the version before
	exec(`WITH removed AS (DELETE FROM sender_ledger l USING (SELECT o.id FROM sender_ledger o WHERE o.lease_id IS NOT NULL ORDER BY o.id LIMIT 2 FOR UPDATE SKIP LOCKED) old
			WHERE l.id = old.id RETURNING l.*)
		INSERT INTO sender_ledger (id, sender_id, change, balance, company_id, remark, created_at) OVERRIDING SYSTEM VALUE
		SELECT max(r.id), r.sender_id, sum(r.change), min(r.balance), r.company_id, 'sum', max(r.created_at) FROM removed r GROUP BY r.sender_id, r.company_id`)
	if is := text(places); is != "batch_rows_20000:3 batch_rows_default:6 sender_ledger_2000000000:3 sender_ledger_default:7" {
		t.Errorf("after the fold of the version before, rows are in %s", is)
	}
	was = text(ledger)
	migrateBefore(t, url, "20261126210000")
	if is := text(ledger); is != was {
		t.Errorf("the ledger after the upgrade was undone:\n%s\nwas\n%s", is, was)
	}
	exec(topUp)
	if n := text("SELECT count(*) || ' ' || count(DISTINCT id) FROM sender_ledger"); n != "11 11" {
		t.Errorf("rows and ids of the ledger: %s", n)
	}
	if n := text("SELECT count(*)::text FROM batch_rows"); n != "9" {
		t.Errorf("%s rows of batches", n)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Errorf("once more: %v", err)
	}
}
