package postgres_test

import (
	"testing"

	"lksms/internal/postgres"
)

// How long charges and batches are kept begins with what the logs had, and a key that exists gets the day of the upgrade.
func TestTheMigrationThatKeepsLedgerAndBatchesApartBeginsWithTheTimeOfLogs(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261126160000")
	if _, err := db.Pool().Exec(t.Context(), `INSERT INTO settings (category, name, value, updated_by) VALUES ('history', 'log_days', '30', NULL);
		INSERT INTO dedup_keys (company_id, submitted_by, dedup_key, task_id) VALUES (1, 'u', 'k', 'task_20200101_1')`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	var settings string
	var isOfToday bool
	if err := db.Pool().QueryRow(t.Context(), `SELECT (SELECT string_agg(name || ' ' || value, ', ' ORDER BY name) FROM settings WHERE category = 'history'),
		(SELECT made_on = (now() AT TIME ZONE 'UTC')::date FROM dedup_keys)`).Scan(&settings, &isOfToday); err != nil || !isOfToday ||
		settings != "batch_days 30, ledger_days 30, log_days 30" {
		t.Errorf("%s, of today: %t, %v", settings, isOfToday, err)
	}
}
