package batch_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const path = "/api/v1/batches"

// form sends a form that creates a batch.
func form(b *apptest.Bundle, status int, body string, headers ...string) apptest.Answer {
	b.T.Helper()
	a := b.Call("POST", path, body, append([]string{"Content-Type", apptest.FormType}, headers...)...)
	if a.Status != status {
		b.T.Fatalf("%d, want %d: %s", a.Status, status, a.Raw)
	}
	return a
}

// create creates a batch from a list, and returns the path of the batch. fields contains further fields of the form: names and values alternate.
func create(b *apptest.Bundle, list string, fields ...string) string {
	b.T.Helper()
	a := form(b, 200, apptest.Form("file", "list.csv", list, append([]string{"name", "n"}, fields...)...))
	return fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](b.T, a).BatchID)
}

// checked creates a batch from a list and checks the list. It returns the path of the batch.
func checked(b *apptest.Bundle, list string, fields ...string) string {
	b.T.Helper()
	at := create(b, list, fields...)
	check(b)
	return at
}

func check(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Batches.Check(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// feed submits the rows of batches, folds the facts, and submits again.
func feed(b *apptest.Bundle) {
	b.T.Helper()
	for range 2 {
		if _, err := b.App.Batches.Feed(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
		if _, err := b.App.History.Fold(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
}

// get reads a batch. With an action, get performs the action and returns the batch in its answer.
func get(b *apptest.Bundle, at string, action ...string) api.Batch {
	b.T.Helper()
	method := "GET"
	if len(action) > 0 {
		method, at = "POST", at+"/"+action[0]
	}
	return apptest.Decode[api.Batch](b.T, b.Expect(200, "", method, at, nil))
}

// expect fails the test unless a batch has the given status and non-zero counts.
func expect(b *apptest.Bundle, got api.Batch, status, counts string) {
	b.T.Helper()
	c := got.Counts
	var all []string
	for _, one := range []struct {
		name string
		n    int64
	}{
		{"rows", c.Rows}, {"valid", c.Valid}, {"invalid", c.Invalid}, {"duplicate", c.Duplicate}, {"blocked", c.Blocked}, {"waiting", c.Waiting},
		{"processing", c.Processing}, {"success", c.Success}, {"failed", c.Failed}, {"cancelled", c.Cancelled}, {"delivered", c.Delivered},
		{"undelivered", c.Undelivered},
	} {
		if one.n != 0 {
			all = append(all, fmt.Sprint(one.n, " ", one.name))
		}
	}
	if text := strings.Join(all, ", "); string(got.Status) != status || text != counts {
		b.T.Errorf("%s: %s, want %s: %s", got.Status, text, status, counts)
	}
}

// rows returns the rows of a batch: row number, phone number, text, status, code, and whether the row has a task.
func rows(b *apptest.Bundle, at, query string) string {
	b.T.Helper()
	var all []string
	for _, r := range apptest.Decode[api.BatchRowPage](b.T, b.Expect(200, "", "GET", at+"/rows"+query, nil)).Items {
		text := fmt.Sprintf("%d %s %q", r.Row, r.PhoneNumber, r.Content)
		if r.Status != nil {
			text += " " + *r.Status
		}
		if r.Code != nil {
			text += fmt.Sprint(" ", *r.Code)
		}
		if r.Remark != nil {
			text += ": " + *r.Remark
		}
		if r.TaskID != nil {
			text += " task"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// S3.4: a list is checked row by row, reviewed, confirmed and sent. Its counts are exact at any time.
func TestAListIsCheckedConfirmedAndSent(t *testing.T) {
	b := apptest.New(t)
	for no, prefix := range map[string]string{"CN": "86", "US": "1"} {
		b.AddCountry(no, prefix, nil)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
	list, err := simplifiedchinese.GB18030.NewEncoder().String("手机号;姓名\n13800138000;张三\n1380013;李四\n1.38E+10;王五\n" +
		"+86 138 0013 8000;赵六\n+14155552671;钱七\n13900139000;\n13900139000;孙八\n")
	if err != nil {
		t.Fatal(err)
	}
	at := create(b, list, "content", "{姓名}，您好", "sign", "示例")
	expect(b, get(b, at), "checking", "")
	check(b)
	expectChecked(b, at)
	expectRowsOfList(b, at)
	expectPreviews(b, at)

	feed(b)
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages before the batch is confirmed", n)
	}
	expect(b, get(b, at, "confirm"), "running", "7 rows, 2 valid, 3 invalid, 1 duplicate, 1 blocked, 2 waiting")
	get(b, at, "confirm") // a repeated request
	if _, err := b.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(b, get(b, at), "running", "7 rows, 2 valid, 3 invalid, 1 duplicate, 1 blocked, 2 waiting") // the counts include facts that are not folded yet
	feed(b)
	tasks := b.Claim("app", 10)
	if len(tasks) != 2 {
		t.Fatalf("%d tasks", len(tasks))
	}
	expect(b, get(b, at), "running", "7 rows, 2 valid, 3 invalid, 1 duplicate, 1 blocked, 2 processing")
	b.Report(tasks[0].TaskID, "app", 2, nil)
	b.Report(tasks[1].TaskID, "app", 3, apptest.Report{"error_message": "no"})
	feed(b)
	done := get(b, at)
	if len(done.Senders) != 1 || done.Senders[0].SenderNo != "app" || done.Senders[0].Success != 1 || done.Senders[0].Segments != 1 {
		t.Errorf("senders %+v", done.Senders)
	}
	expect(b, done, "finished", "7 rows, 2 valid, 3 invalid, 1 duplicate, 1 blocked, 1 success, 1 failed")
	if got, want := rows(b, at, "?status=success")+"\n"+rows(b, at, "?status=failed"), "2 +8613800138000 \"张三，您好\" success task\n8 +8613900139000 \"孙八，您好\" failed task"; got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	for _, action := range []string{"pause", "resume", "cancel"} {
		b.Expect(409, "batch.wrong_status", "POST", at+"/"+action, nil)
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d files are kept", n)
	}
}

// expectChecked fails the test unless the batch of the list is ready, and has no predicted end, because no sender exists.
func expectChecked(b *apptest.Bundle, at string) {
	b.T.Helper()
	b1 := get(b, at)
	expect(b, b1, "ready", "7 rows, 2 valid, 3 invalid, 1 duplicate, 1 blocked, 2 waiting")
	if b1.Segments != 2 || b1.CheckedRows != 8 || b1.PhoneColumn != "手机号" || b1.CheckedAt == nil {
		b.T.Errorf("%+v", b1)
	}
	if e := b1.Estimate; e == nil || e.EarliestEnd != nil {
		b.T.Errorf("estimate without senders %+v", e)
	}
}

// expectRowsOfList fails the test unless each row of the list has its status, and the file of errors contains each invalid row.
func expectRowsOfList(b *apptest.Bundle, at string) {
	b.T.Helper()
	want := `2 +8613800138000 "张三，您好" waiting
3 1380013 "李四，您好" invalid 1: phone_number is not a phone number that can be dialled
4 1.38E+10 "王五，您好" invalid 1: phone_number was shortened by the spreadsheet program, or could not be computed: format the column as text, and enter the value again
5 +8613800138000 "赵六，您好" duplicate 5: phone_number repeats row 2
6 +14155552671 "钱七，您好" blocked 6: phone_number is in a country that this company or channel does not send to
7 13900139000 "" invalid 2: content lacks parameters that the template needs: 姓名
8 +8613900139000 "孙八，您好" waiting`
	if got := rows(b, at, ""); got != want {
		b.T.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	if got := rows(b, at, "?status=duplicate"); !strings.HasPrefix(got, "5 ") || strings.Contains(got, "\n") {
		b.T.Errorf("duplicates:\n%s", got)
	}
	a := b.Expect(200, "", "GET", at+"/errors.csv", nil, "Accept-Language", "zh")
	if want := "\uFEFFrow,phone_number,content,code,remark\r\n3,1380013,李四，您好,1,phone_number 不是可以拨打的手机号码\r\n" +
		"4,1.38E+10,王五，您好,1,phone_number 被表格软件缩短或未能计算：请把该列设为文本格式，再重新填写\r\n5,'+8613800138000,赵六，您好,5,phone_number 与第 2 行重复\r\n" +
		"6,'+14155552671,钱七，您好,6,phone_number 所在国家不在该公司或通道的发送范围内\r\n7,13900139000,,2,content 缺少模板所需的参数：姓名\r\n"; a.Raw != want {
		b.T.Errorf("errors %q", a.Raw)
	}
}

// expectPreviews fails the test unless a valid row and a blocked row of the list can be previewed, and a missing row cannot.
func expectPreviews(b *apptest.Bundle, at string) {
	b.T.Helper()
	p := apptest.Decode[api.BatchPreview](b.T, b.Expect(200, "", "GET", at+"/preview", nil))
	if p.Row != 2 || *p.FinalContent != "【示例】张三，您好" || p.Segments != 1 || p.Code != nil {
		b.T.Errorf("preview %+v", p)
	}
	p = apptest.Decode[api.BatchPreview](b.T, b.Expect(200, "", "GET", at+"/preview?row=6", nil))
	if p.Row != 6 || p.FinalContent != nil || *p.Code != 6 || p.Remark == nil {
		b.T.Errorf("preview %+v", p)
	}
	b.Expect(404, "batch.row_not_found", "GET", at+"/preview?row=9", nil)
}
