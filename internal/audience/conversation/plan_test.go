package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/gen/conversationq"
	"lksms/gen/receivedq"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/testkit/apptest"
)

// planned is a Runner that reads the plan of each statement instead of running it.
type planned struct {
	tx   pgx.Tx
	plan *string
}

var errPlanned = errors.New("only planned")

func (p planned) explain(ctx context.Context, sql string, args []any) error {
	rows, err := p.tx.Query(ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+sql, args...)
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

func (p planned) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return failed{p.explain(ctx, sql, args)}
}

type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// partition finds the partitions of messages and report_logs in a plan.
var partition = regexp.MustCompile(`on (?:messages|report_logs)_(\w+)`)

// R2: the statements of lists and conversations read indexes, whether PostgreSQL knows the parameters or not. They open only the partitions that they need.
func TestConversationsAreReadThroughIndexes(t *testing.T) {
	b := apptest.New(t)
	b.Exec("SELECT task_partitions_ahead('day', now() - interval '60 days', now())")
	b.Exec(`INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments, created_at)
		SELECT 'task_' || to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD') || '_' || lpad(i::text, 26, '0'), n, n, 'x', 'admin', 1, 1, 1, 5, 1, at
		FROM (SELECT i, '+86138' || lpad((i * 7919 % 9000)::text, 8, '0') AS n, now() - interval '1 day' * (i / 300) AS at FROM generate_series(0, 60 * 300 - 1) i) x`)
	b.Exec(`INSERT INTO report_logs (task_id, company_id, event, effect, outcome) SELECT task_id, 1, 'reported', 'success', 2 FROM messages`)
	b.Exec(`INSERT INTO received_messages (company_id, sender_no, phone_number, content, submitted_by, read_at, created_at)
		SELECT 1 + i % 7 / 6, 'phone' || i % 3000, '+86138' || lpad((i * 31 % 9000)::text, 8, '0'), 'x', CASE WHEN i % 3 = 0 THEN 'admin' ELSE '' END,
			CASE WHEN i % 100 > 0 THEN now() END, now() - interval '1 minute' * (30000 - i)
		FROM generate_series(1, 30000) i`)
	b.Exec("ANALYZE")
	number := "+86138" + fmt.Sprintf("%08d", 31*29_999%9000)
	ids := strings.Split(apptest.Scan[string](b, "SELECT string_agg(task_id, ',') FROM (SELECT task_id FROM messages WHERE recipient = $1 ORDER BY task_id DESC LIMIT 2) m", number), ",")
	recent, end := taskid.Day(time.Now().Add(-48*time.Hour)), taskid.Day(time.Now().Add(24*time.Hour))
	company := int64(1)
	plan := planOf(b, "force_generic_plan", false, func(p planned) error {
		_, err := receivedq.New(p).ReceivedReadUpTo(t.Context(), receivedq.ReceivedReadUpToParams{CompanyID: 1, PhoneNumber: number, UpTo: 30000, MaxRows: 1000})
		return err
	})
	if !strings.Contains(plan, "received_messages_unread_conversation_idx") {
		t.Errorf("reading does not use the index:\n%s", plan)
	}
	for _, s := range []struct {
		name       string
		run        func(q *conversationq.Queries) error
		index      string
		partitions int // of each table; 0: none
	}{
		{"list", func(q *conversationq.Queries) error {
			_, err := q.ConversationIDs(t.Context(), conversationq.ConversationIDsParams{BeforeID: 20000, MaxRows: 21})
			return err
		}, "conversations_last_idx", 0},
		{"unread", func(q *conversationq.Queries) error {
			_, err := q.ConversationIDsUnread(t.Context(), conversationq.ConversationIDsUnreadParams{BeforeID: 20000, MaxRows: 21})
			return err
		}, "conversations_unread_idx", 0},
		{"list of a company", func(q *conversationq.Queries) error {
			_, err := q.ConversationIDsOfCompany(t.Context(), conversationq.ConversationIDsOfCompanyParams{CompanyID: 1, BeforeID: 20000, MaxRows: 21})
			return err
		}, "conversations_company_idx", 0},
		{"unread of a company", func(q *conversationq.Queries) error {
			_, err := q.ConversationIDsUnreadOfCompany(t.Context(), conversationq.ConversationIDsUnreadOfCompanyParams{CompanyID: 1, BeforeID: 20000, MaxRows: 21})
			return err
		}, "conversations_unread_company_idx", 0},
		{"list of a sender", func(q *conversationq.Queries) error {
			_, err := q.ConversationIDsOfSender(t.Context(), conversationq.ConversationIDsOfSenderParams{SenderNo: "phone7", BeforeID: 20000, MaxRows: 21})
			return err
		}, "received_messages_sender_idx", 0},
		{"rows", func(q *conversationq.Queries) error {
			_, err := q.ConversationListOf(t.Context(), conversationq.ConversationListOfParams{Ids: []int64{29990, 29991, 29992}, CompanyID: &company, MaxLength: 200})
			return err
		}, "conversations_", 0},
		{"count of unread", func(q *conversationq.Queries) error { _, err := q.ConversationUnread(t.Context(), 1000); return err }, "conversations_unread_", 0},
		{"count of unread of a company", func(q *conversationq.Queries) error {
			_, err := q.ConversationUnreadOfCompany(t.Context(), conversationq.ConversationUnreadOfCompanyParams{CompanyID: 1, MaxRows: 1000})
			return err
		}, "conversations_unread_company_idx", 0},
		{"head", func(q *conversationq.Queries) error {
			_, err := q.ConversationGet(t.Context(), conversationq.ConversationGetParams{CompanyID: 1, PhoneNumber: number, MaxLength: 200})
			return err
		}, "conversations_pkey", 0},
		{"received", func(q *conversationq.Queries) error {
			_, err := q.ConversationReceived(t.Context(), conversationq.ConversationReceivedParams{CompanyID: 1, PhoneNumber: number, BeforeID: 30000, MaxRows: 21})
			return err
		}, "received_messages_conversation_idx", 0},
		{"last tasks", func(q *conversationq.Queries) error {
			_, err := q.ConversationLastTasks(t.Context(), conversationq.ConversationLastTasksParams{
				CompanyIds: []int64{1, 1}, PhoneNumbers: []string{number, "+8613800000001"}, FromIds: []string{recent, recent}, MinID: recent, EndID: end, MaxTasks: 50, MaxLength: 200,
			})
			return err
		}, "recipient_task_id_idx", 3},
		{"tasks", func(q *conversationq.Queries) error {
			_, err := q.ConversationTasks(t.Context(), conversationq.ConversationTasksParams{CompanyID: 1, PhoneNumber: number, BeforeID: end, FromID: recent, MaxRows: 21})
			return err
		}, "recipient_task_id_idx", 3},
		{"states of tasks", func(q *conversationq.Queries) error { _, err := q.ConversationStates(t.Context(), ids); return err }, "report_logs_", 2},
		{"signature", func(q *conversationq.Queries) error { _, err := q.ConversationSign(t.Context(), ids[0]); return err }, "_pkey", 1},
	} {
		modes := []string{"force_custom_plan"}
		if s.partitions == 0 { // ByKey and InPartitions always plan for the parameters
			modes = append(modes, "force_generic_plan")
		}
		for _, mode := range modes {
			plan := planOf(b, mode, s.partitions > 0, func(p planned) error { return s.run(conversationq.New(p)) })
			if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, s.index) {
				t.Errorf("%s, %s: does not use %s:\n%s", s.name, mode, s.index, plan)
			}
			var opened []string
			for _, found := range partition.FindAllStringSubmatch(plan, -1) {
				if found[1] != "default" {
					opened = append(opened, found[1])
				}
			}
			slices.Sort(opened)
			if n := len(slices.Compact(opened)); n > s.partitions {
				t.Errorf("%s opens %d partitions, want at most %d:\n%s", s.name, n, s.partitions, plan)
			}
		}
	}
}

// planOf returns the plan of the statement that run runs. byKey: the statement runs as in postgres.DB.ByKey.
func planOf(b *apptest.Bundle, mode string, byKey bool, run func(p planned) error) (plan string) {
	b.T.Helper()
	err := pgx.BeginFunc(b.T.Context(), b.DB, func(tx pgx.Tx) error {
		set := "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = " + mode // some tables are small here
		if byKey {
			set += "; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL join_collapse_limit = 1"
		}
		if _, err := tx.Exec(b.T.Context(), set); err != nil {
			return err
		}
		return run(planned{tx, &plan})
	})
	if !errors.Is(err, errPlanned) {
		b.T.Fatal(err)
	}
	return plan
}
