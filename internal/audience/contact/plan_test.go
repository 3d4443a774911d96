package contact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/gen/contactq"
	"lksms/internal/testkit/apptest"
)

// planned is a Runner that reads the plan of each statement instead of running it.
type planned struct {
	pgx.Tx

	plan *string
}

var errPlanned = errors.New("only planned")

func (p planned) explain(ctx context.Context, sql string, args []any) error {
	rows, err := p.Tx.Query(ctx, "EXPLAIN (COSTS OFF) "+sql, args...)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if *p.plan = strings.Join(lines, "\n"); err == nil {
		err = errPlanned
	}
	return err
}

func (p planned) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, p.explain(ctx, sql, args)
}

func (p planned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, p.explain(ctx, sql, args)
}

// During an import into an almost empty list, the statistics of PostgreSQL describe a single contact. The statements of an import nevertheless find each
// contact by its key, both with a custom and with a generic plan. With any other plan, the time of a portion grows with the number of contacts: an import of
// 100,000 contacts took minutes.
func TestContactLookupsUseTheIndexWithStaleStatistics(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": "first"})
	b.Exec("ALTER TABLE contacts SET (autovacuum_enabled = off); ANALYZE contacts")
	var list strings.Builder
	list.WriteString("user_id,name,phone,email\n")
	ids, attributes := []string{}, [][]byte{}
	for i := range 10_000 {
		fmt.Fprintf(&list, "user-%05d,name,%d,user%d@example.com\n", i, 13800000000+i, i)
		ids, attributes = append(ids, fmt.Sprintf("user-%05d", i)), append(attributes, []byte("{}"))
	}
	imported(b, nil, list.String())
	for name, run := range map[string]func(q *contactq.Queries) error{
		"tag": func(q *contactq.Queries) error {
			_, err := q.TagAdd(t.Context(), contactq.TagAddParams{TagID: 1, CompanyID: 1, UserIds: ids})
			return err
		},
		"attributes": func(q *contactq.Queries) error {
			_, err := q.ImportOverfull(t.Context(), contactq.ImportOverfullParams{CompanyID: 1, UserIds: ids, Attributes: attributes, MaxAttributes: 50})
			return err
		},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			tx, err := b.DB.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = "+mode); err != nil {
				t.Fatal(err)
			}
			var plan string
			if err := run(contactq.New(planned{tx, &plan})); !errors.Is(err, errPlanned) {
				t.Fatal(err)
			}
			if !strings.Contains(plan, "Index Cond: ((company_id = ") || !strings.Contains(plan, "(user_id = ") || !strings.Contains(plan, "contacts_pkey") {
				t.Errorf("%s, %s:\n%.2000s", name, mode, plan)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
