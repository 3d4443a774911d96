package batch_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// createJSON creates a batch from a JSON body, and returns its path.
func createJSON(b *apptest.Bundle, body map[string]any, headers ...string) string {
	b.T.Helper()
	a := b.Expect(200, "", "POST", path, body, headers...)
	return fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](b.T, a).BatchID)
}

func TestABatchCanBeCreatedFromJSON(t *testing.T) {
	b := apptest.New(t)
	at := createJSON(b, map[string]any{
		"name": "n", "content": "{name}: {price}", "sign": "甲",
		"rows": []any{
			map[string]any{"phone_number": "13800138000", "name": "a", "price": 9.5},
			map[string]any{"phone_number": 13800138001, "name": "b", "price": "1.50", "sign": "乙"},
			map[string]any{"phone_number": "1", "name": "c", "price": 1},
		},
	})
	check(b)
	want := `1 +8613800138000 "a: 9.5" waiting
2 +8613800138001 "b: 1.50" waiting
3 1 "c: 1" invalid 1: phone_number is not a phone number that can be dialled`
	if got := rows(b, at, ""); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	b.PutContacts(map[string]any{"user_id": "u", "phone": "13800138000"})
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", map[string]any{})
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"u"}})
	at = createJSON(b, map[string]any{"name": "n", "content": "x", "tag": "vip"})
	check(b)
	expect(b, get(b, at), "ready", "1 rows, 1 valid, 1 waiting")
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d uploads are kept", n)
	}
}

func TestTheFaultOfInvalidJSONNamesTheField(t *testing.T) {
	b := apptest.New(t)
	row := []any{map[string]any{"phone_number": "13800138000"}}
	for name, c := range map[string]struct {
		body  map[string]any
		field string
	}{
		"no list":             {map[string]any{"name": "n", "content": "x"}, "rows"},
		"two lists":           {map[string]any{"name": "n", "content": "x", "rows": row, "tag": "t"}, "rows"},
		"no rows":             {map[string]any{"name": "n", "content": "x", "rows": []any{}}, "rows"},
		"no columns":          {map[string]any{"name": "n", "content": "x", "rows": []any{map[string]any{}}}, "rows"},
		"a value that is not": {map[string]any{"name": "n", "content": "x", "rows": []any{map[string]any{"phone_number": []any{}}}}, "rows.0.phone_number"},
		"a placeholder":       {map[string]any{"name": "n", "content": "{x}", "rows": row}, "content"},
		"a sign column":       {map[string]any{"name": "n", "content": "x", "rows": row, "sign_column": "s"}, "sign_column"},
		"a company":           {map[string]any{"name": "n", "content": "x", "rows": row, "company_no": "nobody"}, "company_no"},
		"a file":              {map[string]any{"name": "n", "content": "x", "rows": row, "file": "x"}, "file"},
	} {
		a := b.Expect(422, "request.invalid", "POST", path, c.body)
		if len(a.Body.Error.Fields) == 0 || a.Body.Error.Fields[0].Field != c.field {
			t.Errorf("%s: %s", name, a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d uploads are kept", n)
	}
	if a := b.Call("POST", path, "x", "Content-Type", "text/csv"); a.Status != 415 {
		t.Errorf("a list alone: %d", a.Status)
	}
}

// If a request has several sources of rows, the error does not say that a source is missing.
func TestAListTogetherWithATagIsRefused(t *testing.T) {
	b := apptest.New(t)
	row := []any{map[string]any{"phone_number": "13800138000"}}
	for tags, value := range map[string]any{"tag": "t", "tags_all": []string{"t", "u"}, "tags_any": []string{"t", "u"}} {
		a := b.Expect(422, "request.invalid", "POST", "/api/v1/batches", map[string]any{"name": "n", "content": "x", "rows": row, tags: value})
		if got := a.Body.Error.Fields; len(got) != 1 || got[0].Field != "rows" || got[0].Message != "must not be given together with "+tags {
			t.Errorf("%s: %+v", tags, got)
		}
	}
}

func TestARepeatedKeyCreatesOneBatch(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"name": "n", "content": "x", "rows": []any{map[string]any{"phone_number": "13800138000"}}}
	first := createJSON(b, body, "Idempotency-Key", "k")
	if again := createJSON(b, body, "Idempotency-Key", "k"); again != first || b.Count("SELECT count(*) FROM batches") != 1 {
		t.Errorf("%s and %s", first, again)
	}
	check(b)
	expect(b, get(b, first), "ready", "1 rows, 1 valid, 1 waiting")
}

func TestAnAdminCreatesABatchForACompany(t *testing.T) {
	b := apptest.New(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	body := map[string]any{"name": "n", "content": "x", "company_no": "acme", "rows": []any{map[string]any{"phone_number": "13800138000"}}}
	at := createJSON(b, body)
	check(b)
	if got := apptest.Decode[api.Batch](t, b.Expect(200, "", "GET", at, nil, acme...)); got.CompanyNo != "acme" || got.SubmittedBy == "" {
		t.Errorf("%+v", got)
	}
	b.Expect(404, "batch.not_found", "GET", at, nil, beta...)
	b.Expect(403, "auth.other_company", "POST", path, body, beta...)
	b.Expect(200, "", "POST", path, body, acme...)
	b.Expect(200, "", "POST", at+"/confirm", nil, acme...)
	feed(b)
	if n := b.Count("SELECT count(*) FROM messages m JOIN companies c ON c.id = m.company_id WHERE c.company_no = 'acme'"); n != 1 {
		t.Errorf("%d tasks of the company", n)
	}
	form(b, 200, apptest.Form("file", "", numbers(1), "name", "n", "content", "x", "company_no", "acme"))
}

// Several users of a company change the same batch. The batch records the user of each action. An action that changes nothing is not recorded.
func TestTheActionsOfUsersOnABatchAreRecorded(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	colleague := b.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	a := form(b, 200, apptest.Form("file", "", numbers(2), "name", "n", "content", "x"), acme...)
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, a).BatchID)
	check(b)
	act := func(name string, headers []string) api.Batch {
		return apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", at+"/"+name, nil, headers...))
	}
	act("confirm", colleague)
	act("confirm", acme)
	feed(b)
	task := apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil, colleague...)).Items[0].TaskID
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+*task, nil, colleague...)
	if page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?batch_id="+at[len(path)+1:], nil, colleague...)); len(page.Items) != 2 {
		t.Errorf("a colleague sees %d tasks", len(page.Items))
	}
	act("pause", acme)
	act("resume", colleague)
	for _, claimed := range b.Claim("app", 10) {
		b.Report(claimed.TaskID, "app", 3, nil)
	}
	feed(b)
	b.Expect(200, "", "POST", at+"/requeue", nil, colleague...)
	got := act("cancel", nil)
	var acts []string
	for _, one := range *got.Acts {
		acts = append(acts, string(one.Act)+" "+one.Username)
	}
	if text := strings.Join(acts, ", "); text != "cancelled admin, requeued colleague, resumed colleague, paused user-of-acme, confirmed colleague" {
		t.Error(text)
	}
}

func TestARowHasItsOwnSignature(t *testing.T) {
	b := apptest.New(t)
	list := "phone,sign,text\n13800138000,甲,a\n13800138001,,b\n13800138002,【乙】,【乙】c\n13800138003," + strings.Repeat("长", 21) + ",d\n13800138004,丙【,e\n13800138005,丙,【甲】f\n13800138006,\u200b戊\ufeff,g\n"
	at := checked(b, list, "content", "{text}", "sign", " 丁\u200b", "auto_confirm", "true")
	want := `2 +8613800138000 "a" waiting
3 +8613800138001 "b" waiting
4 +8613800138002 "【乙】c" waiting
5 13800138003 "d" invalid 4: sign must have at most 20 characters
6 13800138004 "e" invalid 4: sign contains characters that are not allowed
7 +8613800138005 "【甲】f" waiting
8 +8613800138006 "g" waiting`
	if got := rows(b, at, ""); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
	p := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", at+"/preview?row=4", nil))
	if *p.FinalContent != "【乙】c" {
		t.Errorf("preview %q", *p.FinalContent)
	}
	feed(b)
	texts := map[string]bool{}
	for _, claimed := range b.Claim("app", 10) {
		texts[claimed.Content] = true
	}
	if got := fmt.Sprint(texts); got != "map[【丁】b:true 【丙】【甲】f:true 【乙】c:true 【戊】g:true 【甲】a:true]" {
		t.Error(got)
	}
	if got := get(b, at); got.SignColumn == nil || *got.SignColumn != "sign" {
		t.Errorf("%v", got.SignColumn)
	}
}

// A column with a usual name for signatures contains ordinary values if the text uses it. If the request names a column with another name, this column contains
// the signatures. Contacts have no usual column for signatures.
func TestTheColumnOfSignaturesCanBeNamed(t *testing.T) {
	b := apptest.New(t)
	for want, fields := range map[string][]string{"": {"content", "{sign}"}, "who": {"content", "x", "sign_column", "Who"}, "sign": {"content", "{who}"}} {
		got := get(b, checked(b, "phone,sign,who\n13800138000,甲,乙\n", fields...)).SignColumn
		if (got == nil) != (want == "") || got != nil && *got != want {
			t.Errorf("%v, want %q", got, want)
		}
	}
}

func TestTheSignatureOfARowSatisfiesTheRequirementOfACountry(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	at := checked(b, "phone,签名\n13800138000,甲\n13800138001,\n", "content", "x")
	want := `2 +8613800138000 "x" waiting
3 +8613800138001 "x" invalid 4: sign is required`
	if got := rows(b, at, ""); got != want {
		t.Errorf("rows:\n%s\nwant\n%s", got, want)
	}
}

func TestADuplicateRowNamesTheFirstRow(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, "phone\n13800138000\n13800138001\n+86 138 0013 8000\n13800138000\n", "content", "x")
	for _, r := range apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil)).Items {
		if isDuplicate := r.Code != nil; isDuplicate != (r.DuplicateOf != nil) || isDuplicate && (*r.DuplicateOf != 2 || *r.Remark != "phone_number repeats row 2") {
			t.Errorf("row %d: %v %v", r.Row, r.DuplicateOf, r.Remark)
		}
	}
}

// Expired messages cannot be sent again. The answer to the requeue states this reason, and the batch does not change.
func TestARequeueReportsSkippedTasks(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "x", "auto_confirm", "true", "expires_at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	feed(b)
	claimed := b.Claim("app", 10)
	for _, one := range claimed {
		b.Report(one.TaskID, "app", 3, nil)
	}
	feed(b)
	expect(b, get(b, at), "finished", "3 rows, 3 valid, 3 failed")
	requeue := func() string {
		r := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
		text := fmt.Sprint(r.Count, r.JobID != nil)
		for _, one := range r.Skipped {
			text += fmt.Sprint(" ", one.Reason, " ", one.Count)
			if one.Message == "" {
				t.Error("no message")
			}
		}
		return text
	}
	b.Exec("UPDATE messages SET expires_at = now() - interval '1 second' WHERE task_id = $1", claimed[0].TaskID)
	if got := requeue(); got != "2 true task.expired 1" {
		t.Error(got)
	}
	if _, err := b.App.Jobs.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, one := range b.Claim("app", 10) {
		b.Report(one.TaskID, "app", 3, nil)
	}
	feed(b)
	b.Exec("UPDATE messages SET expires_at = now() - interval '1 second'")
	if got := requeue(); got != "0 false task.expired 3" {
		t.Error(got)
	}
	expect(b, get(b, at), "finished", "3 rows, 3 valid, 3 failed")
}

// If a country is removed from the countries of a company, recipients in this country are refused. Their tasks do not count as requeued.
func TestARequeueReportsRefusedRecipients(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("DE", "49", nil)
	requeue := func(at string) api.BatchRequeued {
		return apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
	}
	const german = "+4915112345678\n+4915112345679\n"
	var at []string
	for _, list := range []string{german + "+8613800138000\n", german} {
		at = append(at, checked(b, "phone\n"+list, "content", "x", "auto_confirm", "true"))
		feed(b)
		for _, one := range b.Claim("app", 10) {
			b.Report(one.TaskID, "app", 3, nil)
		}
		feed(b)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
	for i, want := range []int64{1, 0} {
		r := requeue(at[i])
		if r.Count != want || (r.JobID != nil) != (want > 0) || len(r.Skipped) != 1 || r.Skipped[0].Reason != "task.recipient_refused" || r.Skipped[0].Count != 2 {
			t.Errorf("batch %d: %+v", i, r)
		}
	}
	if got := get(b, at[1]).Status; got != "finished" {
		t.Errorf("the batch without tasks to requeue is %s", got)
	}
}

// Blocks and caps concern single recipients, so they do not decide about the other tasks to the same country. The job counts the tasks that caps refuse.
func TestABlockOrCapOfARecipientDoesNotStopTheRequeueOfOtherTasks(t *testing.T) {
	b := apptest.New(t)
	at := checked(b, numbers(3), "content", "x", "auto_confirm", "true", "message_type", "notification")
	feed(b)
	var ids []string
	for _, one := range b.Claim("app", 10) {
		b.Report(one.TaskID, "app", 3, nil)
		ids = append(ids, one.TaskID)
	}
	feed(b)
	slices.Sort(ids)
	number := func(id string) string {
		return apptest.Scan[string](b, "SELECT recipient FROM messages WHERE task_id = $1", id)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"caps_notification_per_day": 1}})
	b.SubmitBody(map[string]any{"phone_number": number(ids[0]), "content": "y", "message_type": "notification"})
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": number(ids[1]), "scope": "all"})
	r := apptest.Decode[api.BatchRequeued](t, b.Expect(200, "", "POST", at+"/requeue", nil))
	if r.Count != 2 || r.JobID == nil || len(r.Skipped) != 1 || r.Skipped[0].Reason != "recipient.blocked" || r.Skipped[0].Count != 1 {
		t.Fatalf("%+v", r)
	}
	if _, err := b.App.Jobs.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := apptest.Decode[api.TaskJob](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/admin/task-jobs/", *r.JobID), nil))
	skipped := map[string]int64{}
	for _, one := range job.SkippedBy {
		skipped[one.Reason] = one.Count
	}
	if job.Done != 1 || !maps.Equal(skipped, map[string]int64{"recipient.blocked": 1, "recipient.limited": 1}) {
		t.Errorf("done %d, skipped %v", job.Done, skipped)
	}
}

func TestABatchReportsWhyItWaits(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	at := checked(b, numbers(2), "content", "x", "auto_confirm", "true", "sender_no", "one", "expect_send_time", later.Format(time.RFC3339))
	if w := get(b, at).WaitsFor; w == nil || w.Reason != "scheduled" || !w.Until.Equal(later) {
		t.Errorf("%+v", w)
	}
	b.Exec("UPDATE batches SET expect_send_time = NULL")
	if w := get(b, at).WaitsFor; w != nil {
		t.Errorf("%+v", w)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/senders/one", nil)
	feed(b)
	w := get(b, at).WaitsFor
	if w == nil || w.Reason != "sender_gone" || w.SenderNo == nil || *w.SenderNo != "one" || w.Message == "" {
		t.Errorf("%+v", w)
	}
	page := apptest.Decode[api.BatchPage](t, b.Expect(200, "", "GET", path, nil))
	if page.Items[0].WaitsFor == nil {
		t.Error("the list does not contain waits_for")
	}
	if w := get(b, at, "pause").WaitsFor; w != nil {
		t.Errorf("a paused batch waits for %+v", w)
	}
}

// Rows are held, and not invalid, if the only sender of their batch does not serve the company any more, or if the company cannot send to their country any
// more. Their previews have no code and no possible sender.
func TestRowsOfAnUnavailableSenderOrCountryAreHeldAndNotInvalid(t *testing.T) {
	for name, change := range map[string]func(b *apptest.Bundle){
		"a deleted sender": func(b *apptest.Bundle) { b.Expect(200, "", "DELETE", "/api/v1/admin/senders/one", nil) },
		"a sender of another company": func(b *apptest.Bundle) {
			b.AddCompany("acme", 1)
			b.AddRoute("acme", "one", 1)
			b.AddRoute("default", "app", 1)
		},
		"a narrowed company": func(b *apptest.Bundle) {
			b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"SG"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			b.AddCountry("CN", "86", nil)
			b.AddCountry("SG", "65", nil)
			b.AddSender(map[string]any{"sender_no": "one"})
			b.AddSender(map[string]any{"sender_no": "app"})
			at := checked(b, numbers(2)+"13800000000\n", "content", "x", "sign", "甲", "sender_no", "one", "auto_confirm", "true")
			change(b)
			feed(b)
			want := `2 +8613800000000 "x" waiting
3 +8613800000001 "x" waiting
4 +8613800000000 "x" duplicate 5: phone_number repeats row 2`
			if got := strings.ReplaceAll(rows(b, at, ""), " task", ""); got != want {
				t.Errorf("rows:\n%s\nwant\n%s", got, want)
			}
			for row, code := range map[int]int16{2: 0, 4: 5} {
				p := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", fmt.Sprintf("%s/preview?row=%d", at, row), nil))
				if optional.Value(p.Code) != code || (p.Remark != nil) != (code != 0) || p.FinalContent == nil || *p.FinalContent != "【甲】x" || p.Segments != 1 || *p.Cost != 1 {
					t.Errorf("preview of row %d: %+v", row, p)
				}
				isHeld := p.HeldBy != nil && fmt.Sprint(*p.HeldBy) == "[{CN company_country}]"
				if isNarrowed := name == "a narrowed company"; isHeld != isNarrowed || !isNarrowed && (len(p.Senders) != 0 || p.HeldBy != nil) {
					t.Errorf("row %d is held by %v, and sent by %v", row, p.HeldBy, p.Senders)
				}
			}
		})
	}
}

// The cost of reading a batch does not depend on the number of its rows, because no row is read.
func TestReadingABatchReadsNoRows(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	at := checked(b, numbers(5), "content", "x")
	b.Exec("ALTER TABLE batch_rows RENAME TO batch_rows_away")
	e := get(b, at).Estimate
	if e == nil || len(e.Costs) != 1 || e.Costs[0].Segments != 5 {
		t.Errorf("%+v", e)
	}
}
