package history_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// charges returns the number of rows of sender_ledger in each partition.
func charges(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT coalesce(string_agg(place || ':' || n, ' ' ORDER BY place), '')
		FROM (SELECT replace(tableoid::regclass::text, 'sender_ledger_', '') AS place, count(*) AS n FROM sender_ledger GROUP BY 1) x`)
}

func expectCharges(b *apptest.Bundle, when, want string) {
	b.T.Helper()
	if got := charges(b); got != want {
		b.T.Errorf("%s: the ledger has %s, want %s", when, got, want)
	}
	if bad := b.Count(`SELECT count(*) FROM sender_states st JOIN senders s ON s.id = st.sender_id
		WHERE st.balance <> (SELECT sum(l.change) FROM sender_ledger l WHERE l.sender_id = s.id)`); bad != 0 {
		b.T.Errorf("%s: %d balances differ from the sums of their ledgers", when, bad)
	}
}

func sumUp(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Senders.SumUpLedger(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// Charges and refunds are deleted with their partition. Their sums are kept.
func TestChargesAreDroppedByPartition(t *testing.T) {
	b, _ := withFolder(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 100})
	b.SubmitMany("x", 30, nil)
	before := b.Take("paid", 5)
	expectCharges(b, "at first", "default:6")
	b.NextNumberPartitions()
	inside := b.Take("paid", 6)
	expectCharges(b, "in a partition", "2000000000:6 default:6")
	b.NextNumberPartitions()
	after := b.Take("paid", 7)
	expectCharges(b, "in the next one", "2000000000:6 4000000000:7 default:6")
	var unused []queue.Unused
	for _, leases := range [][]api.ClaimedTask{before[:1], inside[:2], after[:3]} {
		for _, l := range leases {
			unused = append(unused, queue.Unused{TaskID: l.TaskID, LeaseID: l.LeaseID})
		}
	}
	for range 2 {
		if _, err := b.App.Queue.Release(t.Context(), "paid", unused); err != nil {
			t.Fatal(err)
		}
	}
	expectCharges(b, "a refund is beside its charge", "2000000000:8 4000000000:10 default:7")
	for _, sign := range []string{"<", ">"} {
		if _, err := b.DB.Exec(t.Context(), `INSERT INTO sender_ledger (sender_id, change, balance, lease_id)
			SELECT sender_id, change, 0, lease_id FROM sender_ledger WHERE lease_id > 2000000000 AND change `+sign+` 0 LIMIT 1`); err == nil || !strings.Contains(err.Error(), "duplicate key") {
			t.Errorf("a lease has two entries with change %s 0: %v", sign, err)
		}
	}

	b.Exec("UPDATE number_partitions SET left_at = left_at - interval '7 days' WHERE parent = 'sender_ledger' AND first_number = 2000000000")
	set(b, map[string]any{"ledger_days": 1})
	sumUp(b)
	expectCharges(b, "while a lease may be refunded", "2000000000:8 4000000000:10 default:7")
	set(b, map[string]any{"ledger_days": 30})
	sumUp(b)
	expectCharges(b, "before their time", "2000000000:8 4000000000:10 default:7")
	b.Exec("UPDATE sender_ledger SET created_at = created_at - interval '31 days' WHERE lease_id < 4000000000 AND lease_id >= 2000000000")
	b.Exec("UPDATE number_partitions SET left_at = left_at - interval '31 days' WHERE parent = 'sender_ledger' AND first_number = 2000000000")
	set(b, map[string]any{"ledger_days": 0})
	sumUp(b)
	expectCharges(b, "with no end", "2000000000:8 4000000000:10 default:7")
	set(b, map[string]any{"ledger_days": 30})
	sumUp(b)
	expectCharges(b, "after their time", "4000000000:10 default:8")
	items := apptest.Decode[api.LedgerPage](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/paid/ledger", nil)).Items
	if sums := slices.DeleteFunc(items, func(e api.LedgerEntry) bool { return e.LeaseID != nil || e.Change > 0 }); len(sums) != 1 || sums[0].Change != -4 || sums[0].Balance != 85 {
		t.Errorf("the sum of the day: %+v", sums)
	}
	b.NextNumberPartitions()
	b.Take("paid", 1)
	expectCharges(b, "the one after", "4000000000:10 6000000000:1 default:8")
}

// After a restore, the sequence can be beyond the upper limits of all partitions. The last partition then takes the rows, because it has no upper limit.
func TestEveryLedgerRowHasPartition(t *testing.T) {
	b, _ := withFolder(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 100})
	b.SubmitMany("x", 30, nil)
	b.NextNumberPartitions()
	b.Take("paid", 1)
	b.Exec("SELECT setval('lease_ids', last_value + 70000000000) FROM lease_ids")
	b.Take("paid", 2)
	expectCharges(b, "after the jump", "2000000000:1 6000000000:2 default:1")
	b.NextNumberPartitions() // sets the upper limit of the last partition
	b.NextNumberPartitions()
	b.Take("paid", 3)
	expectCharges(b, "after the next run", "2000000000:1 6000000000:2 74000000000:3 default:1")
	if open := apptest.Scan[string](b, `SELECT string_agg(first_number::text, ' ' ORDER BY first_number) FROM number_partitions
		WHERE parent = 'sender_ledger' AND left_at IS NULL`); open != "74000000000 76000000000 78000000000" {
		t.Errorf("partitions that are not left: %s", open)
	}
}

// A new partition is created without a scan of the default partition, which can contain hundreds of gigabytes.
func TestPartitionIsCreatedWithoutReadingRows(t *testing.T) {
	b, _ := withFolder(t)
	config, err := pgx.ParseConfig(b.DB.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	proven := map[string]int{}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "00000" {
			proven[n.Message]++
		}
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range []string{
		"SET client_min_messages = debug1", "SELECT number_partitions_ahead('sender_ledger', '1 day')", "SELECT number_partitions_ahead('batch_rows', '1 day')",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"sender_ledger_default", "batch_rows_default"} {
		if proven[`updated partition constraint for default partition "`+table+`" is implied by existing constraints`] == 0 {
			t.Errorf("%s is read: %v", table, proven)
		}
	}
}

// While other transactions use the table, the partition is not dropped, and no transaction waits for long. The partition is dropped afterwards.
func TestPartitionOfChargesIsDroppedWhenLocksAreFree(t *testing.T) {
	b, _ := withFolder(t)
	b.AddSender(map[string]any{"sender_no": "paid", "balance": 100})
	b.SubmitMany("x", 5, nil)
	b.NextNumberPartitions()
	b.Take("paid", 2)
	b.NextNumberPartitions()
	b.Exec("UPDATE number_partitions SET left_at = left_at - interval '400 days' WHERE first_number = 2000000000")
	reader, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(context.WithoutCancel(t.Context())) // the transaction only reads, so its rollback changes nothing
	if _, err := reader.Exec(t.Context(), "SELECT FROM sender_ledger"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.App.Senders.SumUpLedger(t.Context())
		done <- err
	}()
	apptest.Eventually(t, "the drop waits for its lock", func() bool {
		return b.Count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'sender_ledger'::regclass") > 0
	})
	b.Take("paid", 1)
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	expectCharges(b, "while a reader is in it", "2000000000:2 4000000000:1 default:1")
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the drop does not end")
	}
	expectCharges(b, "afterwards", "4000000000:1 default:2")
}
