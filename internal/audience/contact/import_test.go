package contact_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"lksms/internal/app"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/testkit/apptest"
)

// startImport uploads a list, and starts its import for company 1.
func startImport(b *apptest.Bundle, tag *string, content string) (contact.ImportRow, error) {
	b.T.Helper()
	u, err := b.App.Uploads.Receive(b.T.Context(), strings.NewReader(content), upload.Meta{CompanyID: 1, SubmittedBy: "admin", Name: "名单.csv"})
	if err != nil {
		b.T.Fatal(err)
	}
	return b.App.Contacts.StartImport(b.T.Context(), contact.ImportRequest{CompanyID: 1, Upload: u, Tag: tag, By: "admin"})
}

// imported imports a list, and returns the import after its end.
func imported(b *apptest.Bundle, tag *string, content string) contact.ImportRow {
	b.T.Helper()
	i, err := startImport(b, tag, content)
	if err != nil {
		b.T.Fatal(err)
	}
	if _, err := b.App.Contacts.Import(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	if i, err = b.App.Contacts.GetImport(b.T.Context(), 1, i.ID); err != nil || i.Status == "running" {
		b.T.Fatalf("%+v, %v", i, err)
	}
	return i
}

func counts(i contact.ImportRow) string {
	return fmt.Sprintf("%s: %d rows, %d added, %d changed, %d invalid", i.Status, i.Rows, i.Added, i.Changed, i.Invalid)
}

// S4.10: lists of contacts are imported. The names of fields are recognised in two languages. Every other column is an attribute. Empty cells and missing
// columns change nothing.
func TestAListOfContactsIsImported(t *testing.T) {
	b := apptest.New(t)
	gbk, err := simplifiedchinese.GB18030.NewEncoder().String("工号,姓名,手机号,邮箱,城市\na,张三,138 0013 8000,a@example.com,杭州\nb,李四,,,\n")
	if err != nil {
		t.Fatal(err)
	}
	all := func() string {
		return apptest.Scan[string](b, `SELECT coalesce(string_agg(concat_ws(' ', user_id, name, phone, dingtalk_name, wechat_openid, email, attributes), E'\n' ORDER BY user_id), '')
			FROM contacts WHERE company_id = 1`)
	}
	for _, step := range []struct{ name, list, counts, all string }{
		{"GB18030", gbk, "finished: 2 rows, 2 added, 0 changed, 0 invalid",
			`a 张三 +8613800138000 a@example.com {"城市": "杭州"}` + "\nb 李四 {}"},
		{"the same again", gbk, "finished: 2 rows, 0 added, 0 changed, 0 invalid",
			`a 张三 +8613800138000 a@example.com {"城市": "杭州"}` + "\nb 李四 {}"},
		{"semicolons, a BOM and other columns", "\uFEFFuser_id;dingtalk_name;WeChat_OpenID;Level\r\na;ding;;VIP\r\nc;;open;\r\n", "finished: 2 rows, 1 added, 1 changed, 0 invalid",
			`a 张三 +8613800138000 ding a@example.com {"Level": "VIP", "城市": "杭州"}` + "\nb 李四 {}\nc open {}"},
		{"a person twice", "user_id,name,email\nb,王五,b@example.com\nb,赵六,\n", "finished: 2 rows, 0 added, 1 changed, 0 invalid",
			`a 张三 +8613800138000 ding a@example.com {"Level": "VIP", "城市": "杭州"}` + "\nb 赵六 b@example.com {}\nc open {}"},
		{"JSON", `[{"user_id":"c","城市":"上海"},{"user_id":"d"}]`, "finished: 2 rows, 1 added, 1 changed, 0 invalid",
			`a 张三 +8613800138000 ding a@example.com {"Level": "VIP", "城市": "杭州"}` + "\nb 赵六 b@example.com {}\nc open {\"城市\": \"上海\"}\nd {}"},
		{"no rows", "user_id,name\n", "finished: 0 rows, 0 added, 0 changed, 0 invalid",
			`a 张三 +8613800138000 ding a@example.com {"Level": "VIP", "城市": "杭州"}` + "\nb 赵六 b@example.com {}\nc open {\"城市\": \"上海\"}\nd {}"},
	} {
		if i := imported(b, nil, step.list); counts(i) != step.counts || i.FileName != "名单.csv" || i.FinishedAt == nil {
			t.Errorf("%s: %s, want %s", step.name, counts(i), step.counts)
		}
		if got := all(); got != step.all {
			t.Errorf("%s:\n%s\nwant\n%s", step.name, got, step.all)
		}
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'contact'"); n != 0 {
		t.Errorf("%d contacts are in the audit: an import is one change", n)
	}
	// A change by the API is still recorded in the audit.
	b.PutContacts(map[string]any{"user_id": "d", "name": "d"})
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'contact'"); n != 1 {
		t.Errorf("%d contacts are in the audit, want 1", n)
	}
}

// An erasure and a search find a person only if the stored address has no invisible characters.
func TestEMailAddressesAreStoredWithoutInvisibleCharacters(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": "a", "email": " zed@example.com\u200b"})
	imported(b, nil, "user_id,email\nb,\u00a0zed@example.com\u00a0\nc,\ufeffzed@exam\u00adple.com\n")
	if got := apptest.Scan[string](b, "SELECT string_agg(DISTINCT email, ' ') FROM contacts"); got != "zed@example.com" {
		t.Errorf("%q is stored", got)
	}
	if found := search(b, "\u200bzed@example.com\u00a0", 10); len(found) != 3 {
		t.Errorf("a search finds %v", found)
	}
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"email": "\u00a0zed@example.com\u200b"})
	if n := b.Count("SELECT count(*) FROM erasures WHERE 'zed@example.com' = ANY (asked_recipients) AND user_ids @> '{a,b,c}'"); n != 1 {
		t.Error("an erasure does not find the contacts: ", apptest.Scan[string](b, "SELECT string_agg(e::text, ' ') FROM erasures e"))
	}
}

func TestInvalidRowsAreReportedAndOtherRowsAreImported(t *testing.T) {
	b := apptest.New(t)
	full := map[string]string{}
	for i := range 50 {
		full[fmt.Sprint("k", i)] = "v"
	}
	b.PutContacts(map[string]any{"user_id": "full", "attributes": full})
	i := imported(b, nil, strings.Join([]string{
		"user_id,phone,email,openid,name,city",
		"good,13800138000,,,,",
		",13800138000,,,,",
		"a b,,,,,",
		"short,1.38E+10,,,,",
		"number,12,,,,",
		"mail,,nobody,,,",
		"open,,,a b,,",
		"long,,,," + strings.Repeat("长", 101) + ",",
		"",
		"city,,,,," + strings.Repeat("x", 501),
		"cells,,,,,,one more",
		"full,,,,,杭州",
		"last,,,,,上海",
	}, "\n"))
	if counts(i) != "finished: 12 rows, 2 added, 0 changed, 10 invalid" {
		t.Error(counts(i))
	}
	errors, err := b.App.Contacts.ImportErrors(t.Context(), i.ID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errors {
		got = append(got, fmt.Sprint(e.Row, " ", e.Fault.Fields[0].Name, " ", e.Fault.Fields[0].Rule, " ", e.Fault.Fields[0].Limit))
	}
	want := []string{
		"3 user_id required <nil>", "4 user_id bad_characters <nil>", "5 phone shortened <nil>", "6 phone not_a_phone_number <nil>",
		"7 email wrong_format <nil>", "8 wechat_openid bad_characters <nil>", "9 name too_long 100", "11 city too_long 500",
		"12 row too_many_cells <nil>", "13 attributes too_many_items 50",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAListWithoutUserIDsIsRefused(t *testing.T) {
	b := apptest.New(t)
	for list, want := range map[string]string{
		"name,phone\nx,\n":                 "file no_column",
		"":                                 "file",
		"user_id,手机,电话\na,,\n":             "file several_columns",
		"工号,编号\na,b\n":                     "file several_columns",
		"user_id,{x}\na,b\n":               "file bad_column",
		"user_id,a,a\n":                    "file duplicate_column",
		"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1": "file",
	} {
		if _, err := startImport(b, nil, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
	// The name of the field takes precedence over its other names. A column with another name is then an attribute.
	imported(b, nil, "user_id,编号,phone,电话\na,17,,\n")
	if got := apptest.Scan[string](b, "SELECT attributes::text FROM contacts"); got != `{"编号": "17"}` {
		t.Error(got)
	}
}

func TestAnImportAddsItsContactsToATag(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(contactsNamed("a", "other")...)
	imported(b, new("新客户"), "user_id\na\nb\n")
	if found, _ := ids(t, b.Expect(200, "", "GET", "/api/v1/contacts?tag=%E6%96%B0%E5%AE%A2%E6%88%B7", nil)); fmt.Sprint(found) != "[a b]" {
		t.Errorf("the tag contains %v", found)
	}
	// The tag is deleted while the import waits.
	i, err := startImport(b, new("gone"), "user_id\nc\n")
	if err != nil {
		t.Fatal(err)
	}
	b.Expect(200, "", "DELETE", "/api/v1/tags/gone", nil)
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i, err = b.App.Contacts.GetImport(t.Context(), 1, i.ID); err != nil || counts(i) != "failed: 0 rows, 0 added, 0 changed, 0 invalid" || !strings.Contains(string(i.Failure), "not_there") {
		t.Errorf("%s %s, %v", counts(i), i.Failure, err)
	}
}

// long returns a list of n contacts.
func long(n int, tail string) string {
	var list strings.Builder
	list.WriteString("user_id,name,phone,city\n")
	for i := range n {
		fmt.Fprintf(&list, "user-%06d,name %d,%d,杭州\n", i, i, 13800000000+i)
	}
	return list.String() + tail
}

// A truncated list is imported up to the truncation. The failure of its import names the row.
func TestATruncatedListIsImportedUpToTheTruncation(t *testing.T) {
	b := apptest.New(t)
	i := imported(b, nil, long(6000, `x,"`))
	if counts(i) != "failed: 6000 rows, 6000 added, 0 changed, 0 invalid" {
		t.Error(counts(i), string(i.Failure))
	}
	wrong, err := fault.Decode(i.Failure)
	if err != nil || fmt.Sprint(wrong) != "{file cut_short {6002  0}}" {
		t.Errorf("%v, %v", wrong, err)
	}
	b.Exec("UPDATE contact_counts SET contacts = 1999999")
	i = imported(b, nil, "user_id\na\nb\n")
	if counts(i) != "failed: 0 rows, 0 added, 0 changed, 0 invalid" || !strings.Contains(string(i.Failure), "beyond_limit") {
		t.Error(counts(i), string(i.Failure))
	}
}

// If a server is killed during an import, only whole portions are stored. Another server continues after these portions.
func TestAnotherServerContinuesAnImport(t *testing.T) {
	b := apptest.New(t)
	other, err := app.New(t.Context(), b.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	i, err := startImport(b, new("all"), long(12000, ""))
	if err != nil {
		t.Fatal(err)
	}
	// The connection is terminated during the second portion.
	b.Exec(`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.rows = 10000 THEN PERFORM pg_sleep(60); END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER stalls BEFORE UPDATE ON contact_imports FOR EACH ROW EXECUTE FUNCTION stall()`)
	ended := make(chan error, 1)
	go func() {
		_, err := b.App.Contacts.Import(t.Context())
		ended <- err
	}()
	apptest.Eventually(t, "the second portion is being stored", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()") == 1
	})
	b.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()")
	if err := <-ended; err == nil {
		t.Error("the import continued without its connection")
	}
	half, err := other.Contacts.GetImport(t.Context(), 1, i.ID)
	if err != nil || counts(half) != "running: 5000 rows, 5000 added, 0 changed, 0 invalid" {
		t.Fatalf("%s, %v", counts(half), err)
	}
	b.Exec("DROP TRIGGER stalls ON contact_imports")
	if n, err := other.Contacts.Import(t.Context()); err != nil || n != 7000 {
		t.Errorf("the other server imported %d rows: %v", n, err)
	}
	whole, err := other.Contacts.GetImport(t.Context(), 1, i.ID)
	if err != nil || counts(whole) != "finished: 12000 rows, 12000 added, 0 changed, 0 invalid" {
		t.Errorf("%s, %v", counts(whole), err)
	}
	if n := b.Count("SELECT contacts FROM tags WHERE tag = 'all'"); n != 12000 {
		t.Errorf("the tag contains %d contacts", n)
	}
}

// Two servers that process the same import concurrently store each row once. This can happen if a server loses the lock of its sweep.
func TestTwoServersStoreEachRowOfAnImportOnce(t *testing.T) {
	b := apptest.New(t)
	other, err := app.New(t.Context(), b.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	i, err := startImport(b, nil, long(20000, ""))
	if err != nil {
		t.Fatal(err)
	}
	apptest.Together(4, func(n int) {
		if _, err := []*app.App{b.App, other}[n%2].Contacts.Import(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for range 5 {
		if _, err := b.App.Contacts.Import(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if i, err = b.App.Contacts.GetImport(t.Context(), 1, i.ID); err != nil || counts(i) != "finished: 20000 rows, 20000 added, 0 changed, 0 invalid" {
		t.Errorf("%s, %v", counts(i), err)
	}
}
