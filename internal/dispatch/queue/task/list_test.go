package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestS0_2_GetReturnsATask(t *testing.T) {
	b := apptest.New(t)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "您好", "source": "system_a"}).TaskID
	a := b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil)
	got := apptest.Decode[api.Task](t, a)
	if got.TaskID != id || got.PhoneNumber != apptest.Phone || got.Content != "您好" || got.Status != api.TaskPending ||
		*got.Source != "system_a" || got.SentAt != nil {
		t.Errorf("got %+v", got)
	}
	for _, want := range []string{`"sent_at":null`, `"created_at":"20`} {
		if !strings.Contains(a.Raw, want) {
			t.Errorf("no %s in %s", want, a.Raw)
		}
	}
	b.Claim("app", 1)
	b.Report(id, "app", 2, nil)
	done := b.Task(id)
	if done.Status != api.TaskSuccess || done.SentAt == nil || done.ReportedAt == nil || done.SentAt.Before(done.CreatedAt) {
		t.Errorf("after SUCCESS: %+v", done)
	}
	b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/task_20231201_001", nil)
	b.Expect(422, "request.invalid", "GET", "/api/v1/sms/task/"+strings.Repeat("x", 51), nil)
	b.Expect(422, "request.invalid", "GET", "/api/v1/sms/task/a%00b", nil)
}

func TestCancelEndsAPendingTask(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	cancelled := apptest.Decode[api.Task](t, b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil))
	if cancelled.Status != api.TaskCancelled {
		t.Errorf("got %+v", cancelled)
	}
	if got := b.ClaimIDs(1); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
	b.Expect(409, "task.not_pending", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	b.Expect(404, "task.not_found", "POST", "/api/v1/sms/task/nothing/cancel", nil)
	held := b.Submit("y")
	b.Claim("app", 1)
	b.Expect(409, "task.not_pending", "POST", "/api/v1/sms/task/"+held+"/cancel", nil)
	b.ExpectEffects(id, "cancelled cancelled")
	if by := apptest.Scan[string](b, "SELECT request_data->>'by' FROM report_logs WHERE task_id = $1", id); by != apptest.Username {
		t.Errorf("cancelled by %q", by)
	}
}

func TestTimelineContainsAllEventsOfATask(t *testing.T) {
	b := apptest.New(t)
	a := b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, "X-Request-Id", "req-7")
	id := apptest.Decode[api.Submitted](t, a).TaskID
	b.Claim("slow", 1)
	b.ExpireLeases()
	b.Recover()
	b.Claim("quick", 1)
	b.Report(id, "slow", 3, apptest.Report{"error_message": "late"})
	b.Report(id, "quick", 2, nil)
	events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil))
	var got []string
	for _, e := range events {
		line := string(e.Event)
		if e.AppID != nil {
			line += " " + *e.AppID
		}
		if e.Attempt != nil {
			line += fmt.Sprint(" ", *e.Attempt)
		}
		if e.Effect != nil {
			line += " " + string(*e.Effect)
		}
		if e.Message != nil {
			line += " " + *e.Message
		}
		got = append(got, line)
	}
	want := []string{
		"received", "claimed slow 1", "recovered slow retry", "claimed quick 2", "reported slow ignored late", "reported quick success",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if events[0].RequestID == nil || *events[0].RequestID != "req-7" || *events[0].SourceIP != "127.0.0.1" {
		t.Errorf("received %+v", events[0])
	}
	b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/nothing/timeline", nil)
}

// A task can have any number of repeats, so the timeline contains only the latest repeats.
func TestTimelineShowsTheLatestRepeatedSubmissions(t *testing.T) {
	b := apptest.New(t)
	message := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": "again"}
	batch := map[string]any{"messages": slices.Repeat([]map[string]any{message}, 600)}
	items := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch", batch)).Items
	events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+*items[0].TaskID+"/timeline", nil))
	if len(events) != 501 || events[0].Event != api.EventReceived {
		t.Errorf("%d events, the first is %s", len(events), events[0].Event)
	}
}

func TestListFiltersAndPagesTasks(t *testing.T) {
	b := apptest.New(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, b.SubmitBody(map[string]any{
			"phone_number": fmt.Sprintf("1380013800%d", i%2), "content": fmt.Sprint(i), "source": fmt.Sprint("s", i%3), "priority": 5,
			"message_type": []string{"verification", "notification", "marketing"}[i%3],
		}).TaskID)
	}
	b.Claim("app", 1) // claims ids[0]
	slices.Reverse(ids)
	middle := b.Task(ids[2]).CreatedAt.Format("2006-01-02T15:04:05.999999Z")
	for query, want := range map[string][]string{
		"":                                    ids,
		"status=0":                            ids[:4],
		"status=1":                            ids[4:],
		"source=s1":                           {ids[0], ids[3]},
		"message_type=notification":           {ids[0], ids[3]},
		"message_type=verification&status=1":  {ids[4]},
		"phone_number=138-0013-8001":          {ids[1], ids[3]},
		"phone_number=1380013800%30&status=0": {ids[0], ids[2]},
		"created_from=" + middle:              ids[:3],
		"created_to=" + middle:                ids[3:],
		"status=2":                            {},
	} {
		var got []string
		for cursor := ""; ; {
			page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=2&"+query+cursor, nil))
			for _, item := range page.Items {
				got = append(got, item.TaskID)
			}
			if page.NextCursor == nil {
				break
			}
			cursor = "&cursor=" + *page.NextCursor
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
	for query, field := range map[string]string{
		"status=5": "status", "status=x": "status", "result=": "result", "limit=0": "limit", "limit=101": "limit", "created_from=yesterday": "created_from",
		"phone_number=12345678901": "phone_number", "cursor=!!": "cursor", "cursor=" + strings.Repeat("A", 1501): "cursor", "source=": "source", "message_type=spam": "message_type",
	} {
		if a := b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?"+query, nil); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", query, a.Fields(), field)
		}
	}
}

// A list reads a limited number of tasks. The tasks of other users do not count towards this limit, because the few tasks of a user can be spread among
// millions.
func TestListReadsALimitedNumberOfTasks(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	mine := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "mine", "source": "rare", "message_type": "marketing"}, acme...)).TaskID
	others := func(user, id, created string, n int) {
		b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, created_at, company_id, submitted_by, source)
			SELECT $1 || lpad(i::text, 5, '0'), '', '', 'x', $2::timestamptz, (SELECT company_id FROM messages LIMIT 1), $3, 'common' FROM generate_series(1, $4) i`,
			id, created, user, n)
	}
	others("another", "task_29990101_", "2999-01-01T00:00:00Z", 2500)
	list := func(query string) api.TaskPage {
		return apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?"+query, nil, acme...))
	}
	if first := list("limit=2"); len(first.Items) != 1 || first.Items[0].TaskID != mine || first.NextCursor != nil {
		t.Errorf("beside tasks of others: %+v", first)
	}
	others("user-of-acme", "task_29990102_", "2999-01-02T00:00:00Z", 2500)
	for _, filter := range []string{"source=rare", "message_type=marketing"} {
		first := list("limit=2&" + filter)
		if len(first.Items) != 0 || first.NextCursor == nil {
			t.Fatalf("%s: the first page has %d tasks, and more behind it: %v", filter, len(first.Items), first.NextCursor != nil)
		}
		pages, last := 1, first
		for ; len(last.Items) == 0 && last.NextCursor != nil; pages++ {
			last = list("limit=2&" + filter + "&cursor=" + *last.NextCursor)
		}
		if pages != 3 || len(last.Items) != 1 || last.Items[0].TaskID != mine || last.NextCursor != nil {
			t.Errorf("%s: the last of %d pages is %+v", filter, pages, last)
		}
	}
	for query, want := range map[string]int{
		"created_to=2998-01-01T00:00:00Z": 1, "created_from=2000-01-01T00:00:00Z&created_to=9999-12-31T23:59:59Z": 0,
		"created_from=2998-01-01T00:00:00Z": 0, "phone_number=" + apptest.Phone: 1, "created_from=0001-01-01T00:00:00Z&created_to=2998-01-01T00:00:00Z": 1,
	} {
		if got := list("source=rare&" + query); len(got.Items) != want {
			t.Errorf("%s: %d tasks on the first page, want %d", query, len(got.Items), want)
		}
	}
}

// For every combination of filters and every user, the pages of a list contain each matching task once, newest first.
func TestListContainsExactlyTheMatchingTasks(t *testing.T) {
	b := apptest.New(t)
	submits := b.AddCompany("acme", 1)
	reads := b.AddUser("reads", "read", map[string]any{"company_no": "acme"})
	// Days 2 to 4 have their own partitions. The days before and after are in the default partition.
	b.Exec("SELECT task_partitions_ahead('day', '2025-01-02T00:00:00Z', '2025-01-04T00:00:00Z')")
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, source, submitted_by, company_id, status, processing_app_id, lease_id, lease_until,
			result, message_type)
		SELECT 'task_20' || 250101 + i % 7 || '_' || lpad(i::text, 4, '0'), '1380013800' || i % 2, '+861380013800' || i % 2, 'x', 's' || i % 3,
			CASE i % 5 WHEN 0 THEN 'user-of-acme' WHEN 1 THEN 'zoe' ELSE 'admin' END,
			CASE WHEN i % 5 < 2 THEN (SELECT id FROM companies WHERE company_no = 'acme') ELSE 1 END, i % 11 % 5,
			CASE WHEN i % 11 % 5 IN (1, 2, 3) THEN 'app' || i % 2 END, CASE WHEN i % 11 % 5 IN (1, 2, 3) THEN i END,
			CASE WHEN i % 11 % 5 = 1 THEN now() + interval '1 hour' END, 'r' || i % 2 || '_', i / 3 % 3
		FROM generate_series(1, 600) i;
		INSERT INTO report_logs (task_id, company_id, event, effect)
		SELECT task_id, company_id, 'receipt', CASE WHEN right(task_id, 1) < '5' THEN 'delivered' ELSE 'undelivered' END FROM tasks WHERE status = 2 AND right(task_id, 1) <> '9';
		INSERT INTO report_logs (task_id, company_id, event, effect, result)
		SELECT task_id, company_id, 'receipt', 'delivered', 'late' FROM tasks WHERE delivery = 2 AND right(task_id, 1) = '8'`)
	if n := b.Count("SELECT count(*) FROM (TABLE tasks EXCEPT ALL SELECT * FROM tasks_between('', '~')) t") + b.Count("SELECT 600 - count(*) FROM tasks_between('', '~')"); n != 0 {
		t.Errorf("tasks_between differs from tasks in %d rows", n)
	}
	for name, asks := range map[string]struct {
		headers []string
		sees    string
	}{
		"an admin":  {nil, "true"},
		"a reader":  {reads, "company_id = (SELECT id FROM companies WHERE company_no = 'acme')"},
		"a company": {submits, "submitted_by = 'user-of-acme'"},
	} {
		for _, status := range []string{"", "status = 0", "status = 1", "status = 2", "status = 3", "status = 4"} {
			for _, source := range []string{"", "source = 's1'"} {
				for _, number := range []string{"", "phone_number = '13800138001'"} {
					for _, rest := range []string{
						"", "sender_no = 'app1'", "delivery = 'delivered'", "delivery = 'undelivered'", "company_no = 'acme'", "result = 'r1'",
						"message_type = 'marketing'",
					} {
						query, where := "limit=50", asks.sees
						for _, one := range []string{status, source, number, rest} {
							if one == "" {
								continue
							}
							query += "&" + strings.NewReplacer(" ", "", "'", "").Replace(one)
							where += " AND " + strings.NewReplacer(
								"sender_no", "processing_app_id", "'delivered'", "1", "'undelivered'", "2",
								"company_no =", "company_id = (SELECT id FROM companies WHERE company_no =", "'acme'", "'acme')",
								"result = 'r1'", "left(result, 2) = 'r1'", "'marketing'", "2",
							).Replace(one)
						}
						var got []string
						for cursor := ""; ; {
							page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?"+query+cursor, nil, asks.headers...))
							for _, item := range page.Items {
								got = append(got, item.TaskID)
							}
							if page.NextCursor == nil {
								break
							}
							cursor = "&cursor=" + *page.NextCursor
						}
						want := apptest.Scan[[]string](b, "SELECT coalesce(array_agg(task_id ORDER BY task_id DESC), '{}') FROM tasks WHERE "+where)
						if !slices.Equal(got, want) {
							t.Errorf("%s, %s: %d tasks, want %d", name, query, len(got), len(want))
						}
					}
				}
			}
		}
	}
}

// A list continues after an id of any form, because rows inserted by hand have ids of other forms.
func TestListContinuesAfterAnIDOfAnyForm(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT id, '', '', 'x' FROM unnest('{1,aged-1,task_1,zone}'::text[]) id`)
	var got []string
	for cursor := ""; ; {
		page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=1"+cursor, nil))
		for _, item := range page.Items {
			got = append(got, item.TaskID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if !slices.Equal(got, []string{"zone", "task_1", "aged-1", "1"}) {
		t.Errorf("the list is %v", got)
	}
}

// A list first reads the tasks of which a sender holds a lease, and then the tasks that the sender reported. If the sender reports a task between the two
// queries, the list contains the task once.
func TestListContainsATaskOnceIfItIsReportedMeanwhile(t *testing.T) {
	b := apptest.New(t)
	for _, id := range []string{"t1", "t2", "t3"} {
		b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id) VALUES ($1, '', '', 'x', 2, 'app', 1)`, id)
	}
	// This is the state of a list that reads t2 twice: its lease before the report, and its outcome after the report.
	b.Exec(`INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, processing_app_id, lease_id, lease_until)
		VALUES ('t2', 1, 1, 1, 5, 1, '', '', 'x', 'app', 1, now() + interval '1 hour')`)
	page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?sender_no=app", nil))
	if len(page.Items) != 3 || page.Items[1].TaskID != "t2" {
		t.Errorf("the list is %+v", page.Items)
	}
}

// A list of a time range skips tasks of other times of the day. It contains every task of the time range, for ids of any form.
func TestListOfATimeRangeSkipsOtherTimes(t *testing.T) {
	b := apptest.New(t)
	noon := time.Date(2025, 1, 3, 12, 0, 0, 0, time.UTC)
	b.Exec("SELECT task_partitions_ahead('day', '2025-01-01T00:00:00Z', '2025-01-03T00:00:00Z')")
	insert := func(created time.Time, ids ...string) {
		b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, created_at, status)
			SELECT id, '', '', 'x', $1, 2 FROM unnest($2::text[]) id`, created, ids)
	}
	made := func(at time.Time, n int) (ids []string) {
		for i := range n {
			ids = append(ids, fmt.Sprintf("%s_%s%016d", at.Format("task_20060102"), ulid.MustNew(ulid.Timestamp(at), nil).String()[:10], i))
		}
		return ids
	}
	for _, hours := range []int{-36, -24, -2, 2, 11} {
		at := noon.Add(time.Duration(hours) * time.Hour)
		insert(at, made(at, 2500)...)
	}
	// The clock of the second server is slow. The third server creates ids of another form, with the day of its time zone.
	insert(noon, made(noon, 1)...)
	insert(noon.Add(time.Minute), made(noon.Add(30*time.Second), 1)...)
	insert(noon.Add(time.Minute), "task_20250102_zone", "task_20250103_001", "task_20250103_123", "task_20250104_001", "task_20250104_zone")
	var got []string
	pages := 0
	for cursor := ""; ; pages++ {
		page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?created_from=2025-01-03T11:59:30Z&created_to=2025-01-03T12:02:00Z"+cursor, nil))
		for _, item := range page.Items {
			got = append(got, item.TaskID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	want := []string{
		"task_20250104_zone", "task_20250104_001", "task_20250103_123", made(noon.Add(30*time.Second), 1)[0], made(noon, 1)[0],
		"task_20250103_001", "task_20250102_zone",
	}
	if !slices.Equal(got, want) || pages > 0 {
		t.Errorf("on %d pages %v\nwant %v", pages+1, got, want)
	}
}

// A list reads a limited number of partitions, and the next page continues with older partitions.
func TestListReadsALimitedNumberOfPartitions(t *testing.T) {
	b := apptest.New(t)
	b.Exec("SELECT task_partitions_ahead('day', '2025-01-01T00:00:00Z', '2025-02-28T00:00:00Z')")
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status)
		VALUES ('task_20250101_1', $1, '+86' || $1, 'x', 2), ('task_20241231_1', $1, '+86' || $1, 'x', 2)`, apptest.Phone)
	var got []int
	for cursor := ""; ; {
		page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?phone_number="+apptest.Phone+cursor, nil))
		if got = append(got, len(page.Items)); page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if !slices.Equal(got, []int{0, 0, 0, 2}) { // the pages read 16 partitions each: today and 59 older days
		t.Errorf("tasks on the pages: %v", got)
	}
}
