// Package storage measures the cost of stored rows: lists, partitions, and the removal of rows.
package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/bench/measure"
)

const (
	listsPath         = "/api/v1/sms/tasks"
	receivedPath      = "/api/v1/received"
	conversationsPath = "/api/v1/conversations"
	listsDays         = 20
	listsLimit        = 50
	// listsTiny is the number of tasks of the smallest submitter, which are evenly spread over time.
	listsTiny = 50
)

// listsState sets the outcomes of the finished tasks of the lists: 1 of 100 is FAILED (3), 1 of 1000 is CANCELLED (4), and the others are SUCCESS (2). Of the
// SUCCESS tasks, 1 of 5 has a receipt with the state delivered, and 1 of 500 has a receipt with the state undelivered. One sender reported 1 of 20,000 tasks.
// The recipient of 1 of 10 tasks replied, and 1 of 50 of these replies is unread.
const listsState = `, ended AS MATERIALIZED (
	SELECT m.*, CASE WHEN i % 1000 = 8 THEN 4 WHEN i % 100 = 7 THEN 3 ELSE 2 END AS outcome,
		CASE WHEN i % 20000 = 3 THEN 'lists-rare' ELSE 'app-' || i % 8 END AS app_id
	FROM made m
),
settled AS (
	INSERT INTO report_logs (task_id, company_id, app_id, lease_id, event, status, effect, error_message, outcome, result, retry_count,
		created_at, due_at, leased_at, lease_until, lease_limit)
	SELECT task_id, company_id, app_id, nextval('lease_ids'), 'reported', outcome, CASE outcome WHEN 2 THEN 'success' ELSE 'failed' END,
		CASE outcome WHEN 3 THEN 'MK:0001' END, outcome, CASE outcome WHEN 2 THEN '发送成功' ELSE 'MK:0001' END, 0,
		created_at + interval '2 seconds', created_at, created_at + interval '1 second', created_at + interval '1 hour', 100
	FROM ended
	WHERE outcome IN (2, 3)
),
withdrawn AS (
	INSERT INTO report_logs (task_id, company_id, event, effect, outcome, retry_count, created_at, due_at)
	SELECT task_id, company_id, 'cancelled', 'cancelled', 4, 0, created_at + interval '2 seconds', created_at
	FROM ended
	WHERE outcome = 4
),
received AS (
	INSERT INTO received_messages (company_id, sender_no, phone_number, content, received_at, task_id, submitted_by, created_at, read_at)
	SELECT company_id, app_id, recipient, '好的，谢谢', created_at + interval '1 minute', task_id, submitted_by, created_at + interval '61 seconds',
		CASE WHEN i % 50 <> 0 THEN created_at + interval '1 hour' END
	FROM ended
	WHERE i / 7 % 10 = 0
)
INSERT INTO report_logs (task_id, company_id, app_id, event, effect, result, created_at)
SELECT task_id, company_id, app_id, 'receipt', CASE i % 5 WHEN 0 THEN 'delivered' ELSE 'undelivered' END,
	CASE i % 5 WHEN 0 THEN 'DELIVRD' ELSE 'UNDELIV' END, created_at + interval '5 seconds'
FROM ended
WHERE outcome = 2 AND (i % 5 = 0 OR i % 500 = 3)`

// leasedState inserts tasks that senders have leased for an hour.
const leasedState = `INSERT INTO queue (task_id, pool_id, lane, rank, company_id, message_type, priority, segments, phone_number, recipient,
		content, processing_app_id, lease_id, lease_until, lease_limit)
	SELECT task_id, 1, 32 * priority, i, company_id, message_type, priority, segments, phone_number, recipient, content, 'app-' || i % 8,
		nextval('lease_ids'), now() + interval '1 hour', 100
	FROM made`

// list is a query of tasks, received messages or conversations by one viewer.
type list struct {
	name   string
	viewer *measure.Client
	query  func() url.Values
	path   func() string // nil: listsPath
}

// page is a response with a page of a list.
type page struct {
	Items      []struct{} `json:"items"`
	NextCursor string     `json:"next_cursor"`
}

// ListPages measures how long a page of each list of tasks, received messages and conversations takes, with the tasks of twenty days.
func ListPages(ctx context.Context, b *measure.Bench) error {
	viewers, err := fillLists(ctx, b)
	if err != nil {
		return err
	}
	all := list{"list of tasks: all", viewers.admin, func() url.Values { return url.Values{} }, nil}
	tenth, err := all.cursor(10)
	if err != nil {
		return err
	}
	by := func(name, value string) func() url.Values {
		return func() url.Values { return url.Values{name: {value}} }
	}
	lists := []list{
		all,
		{fmt.Sprintf("list of tasks: own tasks of a submitter with %d", listsTiny), viewers.tiny, all.query, nil},
		{"list of tasks: own tasks of a submitter with half of all", viewers.large, all.query, nil},
		{"list of tasks: tasks of a company with 60 % of all", viewers.reader, all.query, nil},
		{"list of tasks: phone_number", viewers.admin, func() url.Values {
			return url.Values{"phone_number": {anyNumber(b)}}
		}, nil},
		{"list of tasks: source of 1 in 5000 tasks of the large submitter", viewers.large, by("source", "rare"), nil},
		{"list of tasks: sender_no of 1 in 20000 tasks", viewers.admin, by("sender_no", "lists-rare"), nil},
		{"list of tasks: delivery undelivered", viewers.admin, by("delivery", "undelivered"), nil},
		{"list of tasks: a day in the middle, from noon to noon", viewers.admin, func() url.Values {
			noon := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -listsDays/2).Add(12 * time.Hour)
			return url.Values{"created_from": {noon.Format(time.RFC3339)}, "created_to": {noon.AddDate(0, 0, 1).Format(time.RFC3339)}}
		}, nil},
		{"list of tasks: the tenth page of all", viewers.admin, by("cursor", tenth), nil},
	}
	for status, name := range []string{"PENDING", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"} {
		lists = append(lists, list{"list of tasks: status " + name, viewers.admin, by("status", fmt.Sprint(status)), nil})
	}
	ofRecipients, err := recipientLists(ctx, b, viewers)
	if err != nil {
		return err
	}
	lists = append(lists, ofRecipients...)
	n := 300
	if b.Short {
		n = 100
	}
	for _, l := range lists {
		f, err := l.measure(ctx, n, 6*b.Time)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		b.Add(f)
	}
	return errors.Join(b.Empty(ctx), dropPastPartitions(ctx, b))
}

// anyNumber returns a phone number that has tasks.
func anyNumber(b *measure.Bench) string {
	numbers := b.Rows / listsDays
	return fmt.Sprintf("138%08d", 99_999_999*rand.IntN(numbers)/numbers)
}

// recipientLists returns the lists of received messages and of conversations.
func recipientLists(ctx context.Context, b *measure.Bench, v viewers) ([]list, error) {
	rows, err := b.DB.Query(ctx, `SELECT c.phone_number FROM conversations c JOIN companies o ON o.id = c.company_id
		WHERE o.company_no = 'lists-0' AND c.submitted_by = '' ORDER BY random() LIMIT 1000`)
	if err != nil {
		return nil, err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	received, conversations := func() string { return receivedPath }, func() string { return conversationsPath }
	with := func(pairs ...string) func() url.Values {
		return func() url.Values {
			query := url.Values{}
			for i := 0; i < len(pairs); i += 2 {
				query.Set(pairs[i], pairs[i+1])
			}
			return query
		}
	}
	return []list{
		{"list of received messages: all", v.admin, with(), received},
		{"list of received messages: unread", v.admin, with("unread", "true"), received},
		{"list of received messages: phone_number", v.admin, func() url.Values { return url.Values{"phone_number": {anyNumber(b)}} }, received},
		{"list of received messages: sender_no", v.admin, with("sender_no", "app-3"), received},
		{"list of received messages: of a company with 60 % of all", v.reader, with(), received},
		{"list of conversations: all", v.admin, with(), conversations},
		{"list of conversations: unread", v.admin, with("unread", "true"), conversations},
		{"list of conversations: sender_no", v.admin, with("sender_no", "app-3"), conversations},
		{"list of conversations: of a company with 60 % of all", v.reader, with(), conversations},
		{"list of conversations: own of a submitter with half of all", v.large, with(), conversations},
		{"conversation", v.reader, with(), func() string { return conversationsPath + "/" + numbers[rand.IntN(len(numbers))] }},
	}, nil
}

// measure makes up to n requests, one after the other, and returns the figure of the list. If the list is slow, measure ends after maxDuration.
func (l list) measure(ctx context.Context, n int, maxDuration time.Duration) (measure.Figure, error) {
	took := make([]time.Duration, 0, n)
	var items, cutShort int
	for first := time.Now(); len(took) < n && time.Since(first) < maxDuration; {
		began := time.Now()
		got, err := l.get(l.query())
		if err != nil {
			return measure.Figure{}, err
		}
		took = append(took, time.Since(began))
		items += len(got.Items)
		if len(got.Items) < listsLimit && got.NextCursor != "" {
			cutShort++
		}
	}
	if items+cutShort == 0 {
		return measure.Figure{}, errors.New("the list is empty")
	}
	compared := fmt.Sprintf("%d requests, %.3g items each", len(took), float64(items)/float64(len(took)))
	if cutShort > 0 {
		compared += ", and more pages follow"
	}
	p50, p99 := measure.Millis(measure.Quantile(took, 0.5)), measure.Millis(measure.Quantile(took, 0.99))
	return measure.Figure{
		Name: l.name, Value: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", p50, p99), Compared: compared, Target: "p99 <= 50 ms",
		Met: p99 <= 50,
	}, ctx.Err()
}

// cursor returns the cursor of a page of the list. Pages are numbered from 1.
func (l list) cursor(page int) (cursor string, err error) {
	for ; page > 1; page-- {
		query := l.query()
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		got, err := l.get(query)
		if err != nil {
			return "", err
		}
		cursor = got.NextCursor
	}
	return cursor, nil
}

func (l list) get(query url.Values) (got page, err error) {
	query.Set("limit", fmt.Sprint(listsLimit))
	path := listsPath
	if l.path != nil {
		path = l.path()
	}
	return got, l.viewer.Call("GET", path+"?"+query.Encode(), "", &got)
}

// viewers contains the users that read lists. admin can read all tasks, and reader the tasks of one company. large and tiny are submitters of this company,
// who can read only their own tasks.
type viewers struct{ admin, reader, large, tiny *measure.Client }

// fillLists replaces all tasks. It inserts Rows finished tasks of twenty days, each day in a partition. It also inserts tasks of the last hour: Rows/10 tasks
// that wait for a retry, Rows/200 leased tasks, and Rows/10 new tasks. Of ten tasks, one company has six, two other companies have two and one, and the
// default company has one. One submitter has half of all tasks. Twenty other submitters share the rest of each company.
func fillLists(ctx context.Context, b *measure.Bench) (viewers, error) {
	v := viewers{admin: b.Client(1)}
	companies := make([]int64, 3)
	var err error
	for _, a := range []struct {
		company        int
		username, role string
		viewer         **measure.Client
	}{
		{0, "lists-reader", "read", &v.reader}, {0, "lists-large", "submit", &v.large}, {0, "lists-tiny", "submit", &v.tiny},
		{1, "lists-second", "submit", new(*measure.Client)}, {2, "lists-third", "submit", new(*measure.Client)},
	} {
		if *a.viewer, companies[a.company], err = measure.MakeAccount(ctx, b, v.admin, fmt.Sprint("lists-", a.company), a.username, a.role); err != nil {
			return v, err
		}
	}
	if err := b.Empty(ctx); err != nil {
		return v, err
	}
	now := time.Now().UTC()
	first := now.Truncate(24*time.Hour).AddDate(0, 0, -listsDays)
	if err := b.Exec(ctx, "SELECT task_partitions_ahead('day', $1, $2)", first, now); err != nil {
		return v, err
	}
	f := measure.Filling{
		N: b.Rows, First: first, Last: now.Add(-time.Hour), Numbers: b.Rows / listsDays,
		Company: fmt.Sprintf("(ARRAY[%[1]d, %[1]d, %[1]d, %[1]d, %[1]d, %[1]d, %[2]d, %[2]d, %[3]d, %[4]d])[1 + i %% 10]",
			companies[0], companies[1], companies[2], measure.DefaultCompany),
		Submitter: "CASE WHEN i % 10 < 5 THEN 'lists-large' ELSE 'lists-' || i / 10 % 20 END",
		Source:    "CASE WHEN i % 10000 = 1 THEN 'rare' ELSE 'bench' END",
	}
	waiting := f
	// The numbers of the tasks of the tiny submitter are multiples of 10, so these tasks belong to the company of the large submitter.
	f.Submitter = fmt.Sprintf("CASE WHEN i %% %d = 0 THEN 'lists-tiny' WHEN i %% 10 < 5 THEN 'lists-large' ELSE 'lists-' || i / 10 %% 20 END",
		b.Rows/listsTiny/10*10)
	if err := b.Fill(ctx, f, listsState); err != nil {
		return v, err
	}
	waiting.Source = "'bench'"
	for _, w := range []struct {
		n     int
		state string
	}{{b.Rows / 10, measure.RetryState}, {b.Rows / 200, leasedState}, {b.Rows / 10, measure.PendingState}} {
		waiting.N, waiting.Numbers = w.n, w.n
		waiting.First, waiting.Last = waiting.Last, waiting.Last.Add(20*time.Minute)
		if err := b.Fill(ctx, waiting, w.state); err != nil {
			return v, err
		}
	}
	return v, b.Exec(ctx, "VACUUM (ANALYZE) messages, queue, report_logs, received_messages, conversations") // otherwise autovacuum would do this during the measurement
}

// dropPastPartitions drops the empty partitions of past days that a figure created. It keeps the partition of yesterday, which can still get tasks.
func dropPastPartitions(ctx context.Context, b *measure.Bench) error {
	return errors.Join(
		b.Exec(ctx, `SELECT task_partition_drop(p.first_day) FROM task_partitions p
			WHERE p.last_day <= (now() AT TIME ZONE 'UTC')::date AND p.dropped_at IS NULL`),
		b.Exec(ctx, "DELETE FROM task_partitions WHERE dropped_at IS NOT NULL"),
	)
}
