package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SendPath is the path of the operation that submits one message.
const SendPath = "/api/v1/sms/send"

// LifeCallers is the number of callers that submit, claim and report batches of LifeSize tasks. Each caller is a different sender.
const (
	LifeSize    = 100
	LifeCallers = 8
)

// LifeBody returns the body of a submission of size messages.
func LifeBody(size int) string {
	messages := make([]string, size)
	for i := range messages {
		messages[i] = SendBody()
	}
	return `{"messages":[` + strings.Join(messages, ",") + `]}`
}

// Leased is a task in the response to a claim.
type Leased struct {
	TaskID  string `json:"task_id"`
	LeaseID int64  `json:"lease_id"`
}

type reportItem struct {
	Leased
	AppID  string `json:"app_id"`
	Status int    `json:"status"`
}

// ReportsOf returns reports that the sender appID sent its tasks. Their status is SUCCESS (2).
func ReportsOf(tasks []Leased, appID string) []reportItem {
	reports := make([]reportItem, len(tasks))
	for i, t := range tasks {
		reports[i] = reportItem{t, appID, 2}
	}
	return reports
}

// Live submits a batch of messages, claims the same number of tasks, and reports these tasks.
func Live(c *Client, appID string) error {
	if err := c.Call("POST", "/api/v1/sms/send-batch", LifeBody(LifeSize), nil); err != nil {
		return err
	}
	_, err := Pull(c, appID, LifeSize)
	return err
}

// Pull claims and reports up to size tasks, and returns their number.
func Pull(c *Client, appID string, size int) (int, error) {
	var tasks []Leased
	claim := fmt.Sprintf(`{"app_id":%q,"limit":%d}`, appID, size)
	if err := c.Call("POST", "/api/v1/sms/tasks/claim", claim, &tasks); err != nil || len(tasks) == 0 {
		return 0, err
	}
	report, err := json.Marshal(map[string]any{"reports": ReportsOf(tasks, appID)})
	if err != nil {
		return 0, err
	}
	return len(tasks), c.Call("POST", "/api/v1/sms/report-batch", string(report), nil)
}

// Claims makes n claims of 100 tasks over HTTP and returns their median duration in milliseconds.
func (b *Bench) Claims(ctx context.Context, c *Client, n int) (float64, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		var tasks []Leased
		if err := c.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":100}`, &tasks); err != nil {
			return 0, err
		}
		if len(tasks) != 100 {
			return 0, fmt.Errorf("claimed %d of 100", len(tasks))
		}
		took = append(took, time.Since(began))
	}
	return Millis(Quantile(took, 0.5)), ctx.Err()
}

// FillPending inserts n new tasks that wait in the shared pool.
func (b *Bench) FillPending(ctx context.Context, prefix string, n int, company int64) error {
	return b.Fill(ctx, Plain(prefix, n, company, time.Now()), PendingState)
}

// FillRetries inserts n tasks that wait for a retry in an hour.
func (b *Bench) FillRetries(ctx context.Context, prefix string, n int) error {
	return b.Fill(ctx, Plain(prefix, n, DefaultCompany, time.Now()), RetryState)
}

// FillFinished inserts n tasks that were submitted yesterday and reported as SUCCESS.
func (b *Bench) FillFinished(ctx context.Context, prefix string, n int) error {
	return b.Fill(ctx, Plain(prefix, n, DefaultCompany, time.Now().AddDate(0, 0, -1)), FinishedState)
}

// Filling describes the messages that Fill inserts.
type Filling struct {
	N           int
	prefix      string    // prefix of the task ids; empty: the ids have the form of the service's ids
	First, Last time.Time // the messages are created at even distances from First to Last
	Numbers     int       // number of different phone numbers
	// Company, Submitter and Source are SQL expressions of i, the number of the message from 1 to n.
	Company, Submitter, Source string
}

// Plain describes n messages of one user that are created at the same time. Each message has a different phone number.
func Plain(prefix string, n int, company int64, at time.Time) Filling {
	return Filling{
		N: n, prefix: prefix, First: at, Last: at, Numbers: n, Company: strconv.FormatInt(company, 10), Submitter: "'admin'", Source: "'bench'",
	}
}

// Fill inserts messages, with one statement per portion. The SQL statement state inserts the state of the tasks, and reads the messages from the CTE made. The
// task ids ascend, as in the service. The phone numbers also ascend, so that the index of phone numbers is filled in order. The phone numbers are spread over
// all possible numbers, so that later submissions reach every part of the index.
func (b *Bench) Fill(ctx context.Context, f Filling, state string) error {
	const portion = 500_000
	taskID := "'" + f.prefix + "' || lpad(i::text, 9, '0')"
	if f.prefix == "" {
		taskID = serviceID
	}
	for from := 1; from <= f.N; from += portion {
		if err := b.Exec(ctx, `WITH made AS (
				SELECT i, `+taskID+` AS task_id, '138' || number AS phone_number, '+86138' || number AS recipient,
					'您的验证码是123456，请勿泄露' AS content, (`+f.Company+`)::bigint AS company_id, `+f.Submitter+` AS submitted_by,
					`+f.Source+` AS source, 1 AS message_type, 5 AS priority, 1 AS segments, to_timestamp(created_ms / 1000.0) AS created_at
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
			`+state, f.Numbers, f.First.UnixMilli(), f.Last.UnixMilli(), f.N, from, min(f.N, from+portion-1)); err != nil {
			return err
		}
	}
	return nil
}

const DefaultCompany = 1 // the company of admin

// ByHand runs the hand-written submission with pgbench. Meanwhile it disables the trigger that counts tasks, because a hand-written queue would have no such
// trigger.
func (b *Bench) ByHand(ctx context.Context, clients int, d time.Duration, rate float64) (float64, []time.Duration, error) {
	if err := b.Exec(ctx, "ALTER TABLE queue DISABLE TRIGGER queue_facts_inserted"); err != nil {
		return 0, nil, err
	}
	reached, took, err := b.pgbench(ctx, submitScript, clients, d, rate)
	return reached, took, errors.Join(err, b.Exec(ctx, "ALTER TABLE queue ENABLE TRIGGER queue_facts_inserted"))
}

// serviceID is the SQL expression of a task id in the format of the service: the day, and a ULID of the millisecond created_ms. The last part of the ULID is
// random in the service. Here it is the number of the message, so that ids of one millisecond ascend.
var serviceID = func() string {
	id := "'task_' || to_char(to_timestamp(created_ms / 1000.0) AT TIME ZONE 'UTC', 'YYYYMMDD_')"
	for shift := 45; shift >= 0; shift -= 5 {
		id += fmt.Sprintf(" || substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + (created_ms >> %d & 31)::integer, 1)", shift)
	}
	return id + " || lpad(i::text, 16, '0')"
}()

// PendingState, RetryState and FinishedState are states of tasks that Fill can insert: new, waiting for a retry in an hour, and reported as SUCCESS (2). The
// lane of a new task is 32 * priority.
const (
	PendingState = `INSERT INTO queue (task_id, pool_id, lane, rank, company_id, message_type, priority, segments, phone_number, recipient,
			content)
		SELECT task_id, 1, 32 * priority, i, company_id, message_type, priority, segments, phone_number, recipient, content FROM made`
	RetryState = `INSERT INTO queue (task_id, pool_id, retry_count, due_at, company_id, message_type, priority, segments, phone_number,
			recipient, content)
		SELECT task_id, 1, 1 + i % 3, now() + interval '1 hour', company_id, message_type, priority, segments, phone_number, recipient, content
		FROM made`
	FinishedState = `INSERT INTO report_logs (task_id, company_id, app_id, lease_id, event, status, effect, outcome, retry_count, due_at,
			leased_at, lease_until, lease_limit)
		SELECT task_id, company_id, 'app', nextval('lease_ids'), 'reported', 2, 'success', 2, 0, now(), now(), now() + interval '1 hour', 100
		FROM made`
)

// MakeAccount returns a client of a user with a role, and the id of the user's company. It creates the user and the company unless they exist.
func MakeAccount(ctx context.Context, b *Bench, admin *Client, companyNo, username, role string) (c *Client, companyID int64, err error) {
	// Errors are ignored, because the company and the user can exist from an earlier run.
	_ = admin.Call("POST", "/api/v1/admin/companies", fmt.Sprintf(`{"company_no":%q,"name":%q}`, companyNo, companyNo), nil)
	_ = admin.Call("POST", "/api/v1/admin/users", fmt.Sprintf(`{"username":%q,"role":%q,"company_no":%q}`, username, role, companyNo), nil)
	var key struct {
		Key string `json:"key"`
	}
	if err := admin.Call("POST", "/api/v1/admin/users/"+username+"/keys", `{"name":"bench"}`, &key); err != nil {
		return nil, 0, err
	}
	c = b.Client(8)
	c.auth = "Bearer " + key.Key
	err = b.DB.QueryRow(ctx, "SELECT id FROM companies WHERE company_no = $1", companyNo).Scan(&companyID)
	return c, companyID, err
}
