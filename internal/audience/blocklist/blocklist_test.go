package blocklist_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const path = "/api/v1/blocks/import"

// form returns the headers of a form after those of the caller.
func form(headers []string) []string {
	return append([]string{"Content-Type", apptest.FormType}, headers...)
}

// imported imports a list with the given fields, and describes the outcome.
func imported(b *apptest.Bundle, list string, fields []string, headers ...string) (api.BlockImport, string) {
	b.T.Helper()
	a := b.Expect(200, "", "POST", path, apptest.Form("file", "list.csv", list, fields...), form(headers)...)
	done := apptest.Decode[api.BlockImport](b.T, a)
	text := fmt.Sprintf("%d rows, %d added, %d changed, %d unchanged, %d invalid", done.Rows, done.Added, done.Changed, done.Unchanged, done.Invalid)
	for _, e := range done.Errors {
		text += fmt.Sprintf("; %d %s", e.Row, e.Column)
	}
	return done, text
}

func blocks(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT coalesce(string_agg(concat_ws(' ', b.recipient, b.scope, coalesce(c.company_no, 'all'), b.reason, b.created_by,
			to_char(b.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')), E'\n' ORDER BY b.recipient, b.scope, c.company_no), '')
		FROM blocks b LEFT JOIN companies c ON c.id = b.company_id`)
}

func TestTheNumbersOfAListAreBlocked(t *testing.T) {
	b := apptest.New(t)
	later := time.Now().AddDate(2, 0, 0).UTC()
	gbk, err := simplifiedchinese.GB18030.NewEncoder().String("手机号,备注\n138 0013 8004,老客户\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, list string
		fields     []string
		outcome    string
	}{
		{"a column of numbers", "phone\n13800138000\n13800138001\n", []string{"scope", "marketing", "reason", "moved", "company_no", "default"}, "2 rows, 2 added, 0 changed, 0 unchanged, 0 invalid"},
		{"the same again", "phone\n13800138000\n13800138001\n", []string{"scope", "marketing", "reason", "moved", "company_no", "default"}, "2 rows, 0 added, 0 changed, 2 unchanged, 0 invalid"},
		{"columns of the row take precedence", "phone_number,scope,reason,expires_at\n13800138001,marketing,asked,\n+4915112345678,all,," + later.Format(time.RFC3339) + "\n", []string{"scope", "notification", "reason", "moved", "company_no", "default"},
			"2 rows, 1 added, 1 changed, 0 unchanged, 0 invalid"},
		{"GB18030", gbk, []string{"scope", "all", "company_no", "default"}, "1 rows, 1 added, 0 changed, 0 unchanged, 0 invalid"},
		{"a number twice", "phone_number,reason\n13800138005,a\n13800138005,b\n", []string{"scope", "all"}, "2 rows, 1 added, 0 changed, 1 unchanged, 0 invalid"},
	} {
		if _, got := imported(b, step.list, step.fields); got != step.outcome {
			t.Errorf("%s: %s, want %s", step.name, got, step.outcome)
		}
	}
	want := "+4915112345678 all default moved admin " + later.Format(time.DateOnly) + `
+8613800138000 marketing default moved admin
+8613800138001 marketing default asked admin
+8613800138004 all default admin
+8613800138005 all all b admin`
	if got := blocks(b); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	recorded := apptest.Scan[string](b, `SELECT string_agg(concat_ws(' ', action, entity, CASE entity WHEN 'block_import' THEN entity_key END, before ->> 'reason', after ->> 'reason',
			after ->> 'file_name', after ->> 'added', after ->> 'changed'), E'\n' ORDER BY id) FROM audit WHERE entity LIKE 'block%' AND actor = 'admin'`)
	if recorded != `created block_import default list.csv 2 0
changed block moved asked
created block_import default list.csv 1 1
created block_import default list.csv 1 0
created block_import * list.csv 1 0` {
		t.Error(recorded)
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestInvalidRowsAreReportedAndOtherRowsAreBlocked(t *testing.T) {
	b := apptest.New(t)
	done, got := imported(b, strings.Join([]string{
		"phone_number,scope,reason,expires_at,company_no",
		"13800138000,all,,,",
		",all,,,",
		"12,all,,,",
		"1.38E+10,all,,,",
		"13800138001,,,,",
		"13800138001,everything,,,",
		"13800138001,all," + strings.Repeat("长", 201) + ",,",
		"13800138001,all,,tomorrow,",
		"13800138001,all,,2020-01-01T00:00:00Z,",
		"13800138001,all,,,acme",
		"13800138001,all,,,,more",
		"",
		"13800138002,all,,,default",
	}, "\n"), []string{"company_no", "default"}, "Accept-Language", "en")
	want := "12 rows, 2 added, 0 changed, 0 unchanged, 10 invalid; 3 phone_number; 4 phone_number; 5 phone_number; 6 scope; 7 scope; 8 reason; 9 expires_at; 10 expires_at; 11 company_no; 12 row"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if len(done.Errors) > 4 && !strings.Contains(done.Errors[4].Error, "notification") {
		t.Errorf("the error does not name the scopes: %s", done.Errors[4].Error)
	}
	if got := blocks(b); got != "+8613800138000 all default admin\n+8613800138002 all default admin" {
		t.Error(got)
	}
}

func TestAnUnreadableListBlocksNobody(t *testing.T) {
	b := apptest.New(t)
	for list, field := range map[string]string{
		"name\nx\n":                             "file",
		"":                                      "file",
		"手机,mobile\n1,2\n":                      "file",
		"phone_number\n13800138000\n\"13800138": "file",
		"phone_number\n" + strings.Repeat("13800138000\n", 5001): "file",
	} {
		a := b.Expect(422, "request.invalid", "POST", path, apptest.Form("file", "list.csv", list, "scope", "all"), form(nil)...)
		if a.Fields() != field {
			t.Errorf("%.40q: fields %s", list, a.Fields())
		}
	}
	a := b.Expect(422, "request.invalid", "POST", path, apptest.Form("file", "list.csv", "phone\n13800138000\n", "scope", "all", "expires_at", "2020-01-01T00:00:00Z"), form(nil)...)
	if a.Fields() != "expires_at" {
		t.Errorf("fields %s", a.Fields())
	}
	if got := blocks(b); got != "" {
		t.Error(got)
	}
}

func TestAnExportCanBeImported(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "13800138000", "scope": "marketing", "reason": "=asked", "company_no": "default"})
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "+4915112345678", "scope": "all", "expires_at": time.Now().Add(time.Hour), "company_no": "default"})
	before := blocks(b)
	file := b.Call("GET", "/api/v1/blocks/export.csv?company_no=default", nil).Raw
	const same = "2 rows, 0 added, 0 changed, 2 unchanged, 0 invalid"
	if _, got := imported(b, file, []string{"company_no", "default"}); got != same {
		t.Error(got)
	}
	b.Exec("DELETE FROM blocks")
	if _, got := imported(b, file, []string{"company_no", "default"}); got != "2 rows, 2 added, 0 changed, 0 unchanged, 0 invalid" {
		t.Error(got)
	}
	if got := blocks(b); got != before {
		t.Errorf("%s\nwant\n%s", got, before)
	}
	if _, got := imported(b, file, []string{"company_no", "default"}); got != same {
		t.Error(got)
	}
	// Blocks of one company do not become blocks for all companies.
	if _, got := imported(b, file, nil); got != "2 rows, 0 added, 0 changed, 0 unchanged, 2 invalid; 2 company_no; 3 company_no" {
		t.Error(got)
	}
}

// An export contains only blocks that an import can add: a block of an erased person has no number.
func TestABlockOfAnErasedPersonIsNotExported(t *testing.T) {
	b := apptest.New(t)
	for _, number := range []string{"13800138000", "13800138001"} {
		b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": number, "scope": "all", "company_no": "default"})
	}
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "13800138001"})
	for range 3 {
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Count("SELECT count(*) FROM blocks WHERE recipient IS NULL"); n != 1 {
		t.Fatalf("%d blocks have no number", n)
	}
	file := b.Call("GET", "/api/v1/blocks/export.csv?company_no=default", nil).Raw
	if _, got := imported(b, file, []string{"company_no", "default"}); got != "1 rows, 0 added, 0 changed, 1 unchanged, 0 invalid" {
		t.Error(got)
	}
}

// A block for which the person asked does not become the block of a user: the person can still end it.
func TestAnImportedOptOutIsNotABlockByAUser(t *testing.T) {
	b := apptest.New(t)
	say := func(text string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "phone", "messages": []map[string]any{{"from": "13800138000", "content": text}}})
	}
	say("STOP")
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "13800138000", "scope": "marketing", "company_no": "default"})
	file := b.Call("GET", "/api/v1/blocks/export.csv?company_no=default", nil).Raw
	if _, got := imported(b, file, []string{"company_no", "default"}); got != "2 rows, 0 added, 0 changed, 2 unchanged, 0 invalid" {
		t.Error(got)
	}
	b.Exec("DELETE FROM blocks")
	if _, got := imported(b, file, []string{"company_no", "default"}); got != "2 rows, 2 added, 0 changed, 0 unchanged, 0 invalid" {
		t.Error(got)
	}
	listed := apptest.Decode[api.BlockPage](t, b.Expect(200, "", "GET", "/api/v1/blocks?phone_number=13800138000", nil)).Items
	if len(listed) != 2 || (listed[0].AskedAt == nil) == (listed[1].AskedAt == nil) || listed[0].ReceivedID != nil || listed[1].ReceivedID != nil {
		t.Errorf("%+v", listed)
	}
	say("START")
	listed = apptest.Decode[api.BlockPage](t, b.Expect(200, "", "GET", "/api/v1/blocks?phone_number=13800138000", nil)).Items
	if len(listed) != 1 || listed[0].AskedAt != nil {
		t.Errorf("after START: %+v", listed)
	}
	if _, got := imported(b, "phone_number,scope,asked_at\n13800138001,all,yesterday\n13800138001,all,2026-01-01T00:00:00Z\n", nil); got != "2 rows, 0 added, 0 changed, 0 unchanged, 2 invalid; 2 asked_at; 3 company_no" {
		t.Error(got)
	}
}

// The server has stopped before it cancelled the messages. A repeated import cancels them before its answer.
func TestARepeatedImportCancelsMessagesThatStillWait(t *testing.T) {
	b := apptest.New(t)
	const list = "phone_number\n13800138000\n"
	imported(b, list, []string{"scope", "marketing"})
	b.Exec("UPDATE blocks SET expires_at = now() - interval '1 hour'")
	b.SubmitBody(map[string]any{"phone_number": "13800138000", "content": "x", "message_type": "marketing"})
	b.Exec("UPDATE blocks SET expires_at = NULL, is_enforced = false")
	done, got := imported(b, list, []string{"scope", "marketing"})
	if got != "1 rows, 0 added, 0 changed, 1 unchanged, 0 invalid" || done.CancelledTasks != 1 {
		t.Errorf("%s, %d cancelled", got, done.CancelledTasks)
	}
}

func TestAnImportCancelsWaitingMessages(t *testing.T) {
	b := apptest.New(t)
	submit := func(number string) string {
		return b.SubmitBody(map[string]any{"phone_number": number, "content": "x", "message_type": "marketing"}).TaskID
	}
	held := submit("13800138000")
	b.Claim("app", 1)
	due, other := submit("13800138001"), submit("13800138999")
	var list strings.Builder
	list.WriteString("phone_number\n")
	for n := range 500 {
		fmt.Fprintf(&list, "%d\n", 13800138000+n)
	}
	done, got := imported(b, list.String(), []string{"scope", "marketing"})
	if got != "500 rows, 500 added, 0 changed, 0 unchanged, 0 invalid" || done.CancelledTasks != 1 || done.HeldTasks != 1 {
		t.Errorf("%s, %d cancelled, %d held", got, done.CancelledTasks, done.HeldTasks)
	}
	if status := b.Task(due).Status; status != api.TaskCancelled {
		t.Errorf("the waiting message has the status %v", status)
	}
	if ids := b.ClaimIDs(10); len(ids) != 1 || ids[0] != other {
		t.Errorf("claimed %v, want %s", ids, other)
	}
	if n := b.Count("SELECT count(*) FROM blocks WHERE NOT is_enforced"); n != 0 {
		t.Errorf("%d blocks are not enforced", n)
	}
	if status := b.Task(held).Status; status != api.TaskProcessing {
		t.Errorf("the held message has the status %v", status)
	}
}

func TestACompanyImportsOnlyItsOwnBlocks(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	w.Exec("DELETE FROM blocks")
	if _, got := imported(w.Bundle, "phone_number,company_no\n13800138000,\n13800138001,acme\n13800138002,beta\n", []string{"scope", "all"}, w.Acme...); got != "3 rows, 2 added, 0 changed, 0 unchanged, 1 invalid; 4 company_no" {
		t.Error(got)
	}
	w.Expect(403, "auth.other_company", "POST", path, apptest.Form("file", "list.csv", "phone_number\n13800138000\n", "scope", "all", "company_no", "beta"), form(w.Acme)...)
	if got := apptest.Scan[string](w.Bundle, "SELECT string_agg(DISTINCT c.company_no, ' ') FROM blocks b JOIN companies c ON c.id = b.company_id"); got != "acme" {
		t.Errorf("blocks of %s", got)
	}
}
