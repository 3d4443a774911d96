package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const sendPath = "/api/v1/sms/send"

// The tasks of life come in batches of this size from this many callers. Each caller is a sender of its own.
const (
	lifeSize    = 100
	lifeCallers = 8
)

// lifeBody returns a batch of messages.
func lifeBody(size int) string {
	messages := make([]string, size)
	for i := range messages {
		messages[i] = sendBody()
	}
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

type leased struct {
	TaskID  string `json:"task_id"`
	LeaseID int64  `json:"lease_id"`
}

type reportItem struct {
	leased
	AppID  string `json:"app_id"`
	Status int    `json:"status"`
}

// reportsOf returns the reports that an app sent its tasks: their status is SUCCESS (2).
func reportsOf(tasks []leased, appID string) []reportItem {
	reports := make([]reportItem, len(tasks))
	for i, t := range tasks {
		reports[i] = reportItem{t, appID, 2}
	}
	return reports
}

// live submits a batch of messages, claims as many and reports them.
func live(c *client, appID string) error {
	if err := c.call("POST", "/api/v1/sms/send-batch", lifeBody(lifeSize), nil); err != nil {
		return err
	}
	_, err := pull(c, appID, lifeSize)
	return err
}

// pull claims up to size tasks, reports them, and returns their number.
func pull(c *client, appID string, size int) (int, error) {
	var tasks []leased
	claim := fmt.Sprintf(`{"app_id":%q,"limit":%d}`, appID, size)
	if err := c.call("POST", "/api/v1/sms/tasks/claim", claim, &tasks); err != nil || len(tasks) == 0 {
		return 0, err
	}
	report, err := json.Marshal(map[string]any{"reports": reportsOf(tasks, appID)})
	if err != nil {
		return 0, err
	}
	return len(tasks), c.call("POST", "/api/v1/sms/report-batch", string(report), nil)
}

// claims returns the median time of a claim of 100 over HTTP.
func (b *bench) claims(ctx context.Context, c *client, n int) (float64, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		var tasks []leased
		if err := c.call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":100}`, &tasks); err != nil {
			return 0, err
		}
		if len(tasks) != 100 {
			return 0, fmt.Errorf("claimed %d of 100", len(tasks))
		}
		took = append(took, time.Since(began))
	}
	return millis(quantile(took, 0.5)), ctx.Err()
}

// fillPending inserts new tasks that wait in the shared pool.
func (b *bench) fillPending(ctx context.Context, prefix string, n int, company int64) error {
	return b.fill(ctx, plain(prefix, n, company, time.Now()), pendingState)
}

// fillRetries inserts tasks that wait for a retry in an hour.
func (b *bench) fillRetries(ctx context.Context, prefix string, n int) error {
	return b.fill(ctx, plain(prefix, n, defaultCompany, time.Now()), retryState)
}

// fillFinished inserts tasks that were submitted yesterday and are reported as SUCCESS.
func (b *bench) fillFinished(ctx context.Context, prefix string, n int) error {
	return b.fill(ctx, plain(prefix, n, defaultCompany, time.Now().AddDate(0, 0, -1)), finishedState)
}

// filling describes the messages that fill inserts.
type filling struct {
	n           int
	prefix      string    // of the task ids; empty: ids like those of the service
	first, last time.Time // the messages are created at even distances from first to last
	numbers     int       // how many phone numbers they are sent to
	// SQL expressions of i, the number of the message from 1 to n
	company, submitter, source string
}

// plain describes n messages of one user, created at once. Each has a phone number of its own.
func plain(prefix string, n int, company int64, at time.Time) filling {
	return filling{
		n: n, prefix: prefix, first: at, last: at, numbers: n, company: strconv.FormatInt(company, 10), submitter: "'admin'", source: "'bench'",
	}
}

// fill inserts messages, and with the statement state the state of their tasks, which made lists. It uses one statement for each portion.
// The task ids ascend, as those of the service do. The phone numbers ascend too, so that their index is filled in order, and are spread
// over all numbers, so that later submissions reach all of that index.
func (b *bench) fill(ctx context.Context, f filling, state string) error {
	const portion = 500_000
	taskID := "'" + f.prefix + "' || lpad(i::text, 9, '0')"
	if f.prefix == "" {
		taskID = serviceID
	}
	for from := 1; from <= f.n; from += portion {
		if err := b.exec(ctx, `WITH made AS (
				SELECT i, `+taskID+` AS task_id, '138' || number AS phone_number, '+86138' || number AS recipient,
					'您的验证码是123456，请勿泄露' AS content, (`+f.company+`)::bigint AS company_id, `+f.submitter+` AS submitted_by,
					`+f.source+` AS source, 1 AS message_type, 5 AS priority, 1 AS segments, to_timestamp(created_ms / 1000.0) AS created_at
				FROM (
					SELECT i, lpad((99999999 * ((i - 1) % $1) / $1)::text, 8, '0') AS number,
						$2::bigint + ($3::bigint - $2::bigint) * i / $4 AS created_ms
					FROM generate_series($5::bigint, $6::bigint) i
				) n
			),
			stored AS (
				INSERT INTO messages (task_id, phone_number, recipient, content, source, submitted_by, company_id, pool_id, message_type,
					priority, segments, created_at)
				SELECT task_id, phone_number, recipient, content, source, submitted_by, company_id, 1, message_type, priority, segments, created_at
				FROM made
			)
			`+state, f.numbers, f.first.UnixMilli(), f.last.UnixMilli(), f.n, from, min(f.n, from+portion-1)); err != nil {
			return err
		}
	}
	return nil
}

const defaultCompany = 1 // the company of admin

// byHand runs the statement of one submission with pgbench. The trigger that counts tasks is off, because no hand-written statement would
// have it.
func (b *bench) byHand(ctx context.Context, clients int, d time.Duration, rate float64) (float64, []time.Duration, error) {
	if err := b.exec(ctx, "ALTER TABLE queue DISABLE TRIGGER queue_facts_inserted"); err != nil {
		return 0, nil, err
	}
	reached, took, err := b.pgbench(ctx, submitScript, clients, d, rate)
	return reached, took, errors.Join(err, b.exec(ctx, "ALTER TABLE queue ENABLE TRIGGER queue_facts_inserted"))
}

// serviceID is the SQL expression of a task id as the service makes it: the day, and a ULID of the millisecond created_ms. The part that is
// random in the service is the number of the message, so that ids of one millisecond ascend.
var serviceID = func() string {
	id := "'task_' || to_char(to_timestamp(created_ms / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDD_')"
	for shift := 45; shift >= 0; shift -= 5 {
		id += fmt.Sprintf(" || substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + (created_ms >> %d & 31)::integer, 1)", shift)
	}
	return id + " || lpad(i::text, 16, '0')"
}()

// The states of tasks that fill inserts: new, waiting for a retry in an hour, and reported as SUCCESS (2). The lane of a new task is
// 32 * priority.
const (
	pendingState = `INSERT INTO queue (task_id, pool_id, lane, rank, company_id, message_type, priority, segments, phone_number, recipient,
			content)
		SELECT task_id, 1, 32 * priority, i, company_id, message_type, priority, segments, phone_number, recipient, content FROM made`
	retryState = `INSERT INTO queue (task_id, pool_id, retry_count, due_at, company_id, message_type, priority, segments, phone_number,
			recipient, content)
		SELECT task_id, 1, 1 + i % 3, now() + interval '1 hour', company_id, message_type, priority, segments, phone_number, recipient, content
		FROM made`
	finishedState = `INSERT INTO report_logs (task_id, company_id, app_id, lease_id, event, status, effect, outcome, retry_count, due_at,
			leased_at, lease_until, lease_limit)
		SELECT task_id, company_id, 'app', nextval('lease_ids'), 'reported', 2, 'success', 2, 0, now(), now(), now() + interval '1 hour', 100
		FROM made`
)

// makeAccount returns a client of a user with a role, and the id of its company. Both are created unless they exist.
func makeAccount(ctx context.Context, b *bench, admin *client, companyNo, username, role string) (c *client, companyID int64, err error) {
	// They may exist from an earlier run.
	_ = admin.call("POST", "/api/v1/admin/companies", fmt.Sprintf(`{"company_no":%q,"name":%q}`, companyNo, companyNo), nil)
	_ = admin.call("POST", "/api/v1/admin/users", fmt.Sprintf(`{"username":%q,"role":%q,"company_no":%q}`, username, role, companyNo), nil)
	var key struct {
		Key string `json:"key"`
	}
	if err := admin.call("POST", "/api/v1/admin/users/"+username+"/keys", `{"name":"bench"}`, &key); err != nil {
		return nil, 0, err
	}
	c = b.client(8)
	c.auth = "Bearer " + key.Key
	err = b.db.QueryRow(ctx, "SELECT id FROM companies WHERE company_no = $1", companyNo).Scan(&companyID)
	return c, companyID, err
}
