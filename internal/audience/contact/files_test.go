package contact_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

const importPath = "/api/v1/contacts/import"

// uploadList uploads a list of contacts, and returns the import.
func uploadList(b *apptest.Bundle, name, content string, fields ...string) api.ContactImport {
	b.T.Helper()
	return apptest.Decode[api.ContactImport](b.T, b.Expect(200, "", "POST", importPath, apptest.Form("file", name, content, fields...), "Content-Type", apptest.FormType))
}

// readCSV parses a CSV file that starts with a byte order mark.
func readCSV(t *testing.T, a apptest.Answer) [][]string {
	t.Helper()
	text, hasMark := strings.CutPrefix(a.Raw, "\uFEFF")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || !hasMark || a.Header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatalf("%v: %s %q", err, a.Header.Get("Content-Type"), a.Raw)
	}
	return rows
}

// A form can name the region of the numbers and the encoding of a list, in any order.
func TestAnImportCanNameARegionAndAnEncoding(t *testing.T) {
	b := apptest.New(t)
	uploadList(b, "list.csv", "user_id,name,phone\nm,M\xFCller,0812 3456 7890\n", "default_region", "ID", "encoding", "Windows-1252")
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM contacts WHERE name = 'Müller' AND phone = '+6281234567890'"); n != 1 {
		t.Error("the contact differs from the list")
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", `{"default_region":"ID","contacts":[{"user_id":"n","phone":"0812 3456 7891"}]}`)
	if n := b.Count("SELECT count(*) FROM contacts WHERE phone = '+6281234567891'"); n != 1 {
		t.Error("the number is not one of the region of the request")
	}
	a := b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/contacts", `{"default_region":"XX","contacts":[{"user_id":"n","phone":"0812 3456 7891"}]}`)
	if a.Fields() != "default_region" {
		t.Errorf("the wrong fields are %s", a.Fields())
	}
	for field, value := range map[string]string{"default_region": "XX", "encoding": "EBCDIC"} {
		a := b.Expect(422, "request.invalid", "POST", importPath, apptest.Form("file", "x.csv", "user_id\nx\n", field, value), "Content-Type", apptest.FormType)
		if a.Fields() != field {
			t.Errorf("the wrong fields are %s", a.Fields())
		}
	}
}

// Nobody checks the rows of an import before they are stored. If the encoding of the list is doubtful, the request must therefore name the encoding.
func TestAnImportWithADoubtfulEncodingMustNameTheEncoding(t *testing.T) {
	b := apptest.New(t)
	const latin = "user_id;name;phone\nm;M\xFCller;+4917612345678\n" // this text is also valid GB18030
	for language, want := range map[string]string{"en": "encoding must be named", "zh-CN": "必须指定"} {
		a := b.Expect(422, "request.invalid", "POST", importPath, apptest.Form("file", "x.csv", latin), "Content-Type", apptest.FormType, "Accept-Language", language)
		if a.Fields() != "encoding" || !strings.Contains(a.Raw, strings.TrimPrefix(want, "encoding ")) {
			t.Errorf("%s", a.Raw)
		}
	}
	if n := b.Count("SELECT count(*) FROM contact_imports"); n != 0 {
		t.Errorf("%d imports began", n)
	}
	for _, encoding := range []string{"Windows-1252", "GB18030"} {
		b.Expect(200, "", "POST", importPath, apptest.Form("file", "x.csv", latin, "encoding", encoding), "Content-Type", apptest.FormType)
	}
}

// S4.10: an import runs after its request. It reports its progress, and lists the invalid rows in the language of the caller.
func TestAnImportReportsItsProgressAndInvalidRows(t *testing.T) {
	b := apptest.New(t)
	const content = "工号;姓名;手机号;城市\r\na;张三;13800138000;杭州\r\n\r\nb;;12;\r\nc;;1.38E+10;\r\n"
	i := uploadList(b, `C:\lists\客户.csv`, content, "tag", "新")
	if i.Status != api.ImportRunning || i.FileName != "客户.csv" || *i.Tag != "新" || i.Rows != 0 || i.CreatedBy != apptest.Username {
		t.Errorf("%+v", i)
	}
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprint("/api/v1/contacts/imports/", i.ImportID)
	i = apptest.Decode[api.ContactImport](t, b.Expect(200, "", "GET", path, nil))
	if i.Status != api.ImportFinished || i.Rows != 3 || i.Added != 1 || i.Invalid != 2 || i.Failure != nil || i.FinishedAt == nil {
		t.Errorf("%+v", i)
	}
	for language, want := range map[string]string{
		"en": "[[row column error] [4 phone is not a phone number that can be dialled] [5 手机号 was shortened by the spreadsheet program, or could not be computed: format the column as text, and enter the value again]]",
		"zh": "[[row column error] [4 phone 不是可以拨打的手机号码] [5 手机号 被表格软件缩短或未能计算：请把该列设为文本格式，再重新填写]]",
	} {
		a := b.Expect(200, "", "GET", path+"/errors.csv", nil, "Accept-Language", language)
		if got := fmt.Sprint(readCSV(t, a)); got != want {
			t.Errorf("%s", got)
		}
	}
	for _, wrong := range []struct{ content, field string }{{"name\nx\n", "file"}, {"", "file"}, {"PK\x03\x04", "file"}} {
		a := b.Expect(422, "request.invalid", "POST", importPath, apptest.Form("file", "x.csv", wrong.content), "Content-Type", apptest.FormType)
		if a.Fields() != wrong.field {
			t.Errorf("%q: %s", wrong.content, a.Raw)
		}
	}
	if a := b.Expect(422, "request.invalid", "POST", importPath, apptest.Form("", "", "", "tag", " x"), "Content-Type", apptest.FormType); a.Fields() != "file,tag" {
		t.Errorf("%s", a.Raw)
	}
	b.Expect(404, "import.not_found", "GET", "/api/v1/contacts/imports/99", nil)
	b.Expect(404, "import.not_found", "GET", "/api/v1/contacts/imports/99/errors.csv", nil)
	b.Expect(404, "company.not_found", "GET", "/api/v1/contacts/imports?company_no=nobody", nil)
	b.Expect(404, "company.not_found", "POST", importPath, apptest.Form("file", "x.csv", "user_id\na\n", "company_no", "nobody"), "Content-Type", apptest.FormType)
	// This list is truncated.
	failed := uploadList(b, "x.csv", "user_id\na\n\"b")
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := apptest.Decode[api.ContactImportPage](t, b.Expect(200, "", "GET", "/api/v1/contacts/imports?limit=1", nil))
	if one := list.Items[0]; one.ImportID != failed.ImportID || one.Status != api.ImportFailed || *one.Failure != "file ends in the middle of a value: row 3" || list.NextCursor == nil {
		t.Errorf("%+v", list)
	}
	for range 10 {
		uploadList(b, "x.csv", "user_id\na\n")
	}
	if a := b.Expect(409, "limit.reached", "POST", importPath, apptest.Form("file", "x.csv", "user_id\n"), "Content-Type", apptest.FormType); a.Body.Error.Limit != 10 {
		t.Errorf("%s", a.Raw)
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 10 {
		t.Errorf("%d uploads, want those of the imports that run", n)
	}
}

// An export can be opened by spreadsheet programs. The import of an export restores the same contacts.
func TestAnExportCanBeImported(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.PutContacts(
		map[string]any{"user_id": "-a", "name": `=cmd|'/C calc'!A0`, "phone": "13800138000", "attributes": map[string]string{"城市": "杭州, \"西湖\"", "note": "-1+1"}},
		map[string]any{"user_id": "b", "email": "b@example.com", "dingtalk_name": "@b", "wechat_openid": "-open"},
	)
	tagged(b, map[string][]string{"A": {"b"}})
	a := b.Expect(200, "", "GET", "/api/v1/contacts/export.csv", nil)
	if rows := readCSV(t, a); fmt.Sprintf("%q", rows) != fmt.Sprintf("%q", [][]string{
		{"user_id", "name", "phone", "dingtalk_name", "wechat_openid", "email", "note", "城市"},
		{"'-a", `'=cmd|'/C calc'!A0`, "'+8613800138000", "", "", "", "'-1+1", "杭州, \"西湖\""},
		{"b", "", "", "'@b", "'-open", "b@example.com", "", ""},
	}) {
		t.Errorf("%q", rows)
	}
	if rows := readCSV(t, b.Expect(200, "", "GET", "/api/v1/contacts/export.csv?tag=A", nil)); len(rows) != 2 || rows[1][0] != "b" {
		t.Errorf("%q", rows)
	}
	b.Expect(404, "tag.not_found", "GET", "/api/v1/contacts/export.csv?tag=B", nil)
	b.Expect(200, "", "POST", importPath, apptest.Form("file", "x.csv", a.Raw), append(acme, "Content-Type", apptest.FormType)...)
	if _, err := b.App.Contacts.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := b.Expect(200, "", "GET", "/api/v1/contacts/export.csv", nil, acme...); again.Raw != a.Raw {
		t.Errorf("%q became %q", a.Raw, again.Raw)
	}
}

// A large export is sent page by page. A client notices if the export is interrupted.
func TestTheClientNoticesAnInterruptedExport(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`SELECT set_config('lksms.contact_import', 'a test', true); -- whose contacts are not recorded one by one
		INSERT INTO contacts (company_id, user_id, name, attributes) SELECT 1, 'u' || to_char(n, 'FM00000'), repeat('x', 100), jsonb_build_object('a', repeat('y', 500))
		FROM generate_series(1, 60000) n`)
	if rows := readCSV(t, b.Expect(200, "", "GET", "/api/v1/contacts/export.csv", nil)); len(rows) != 60001 {
		t.Errorf("%d rows", len(rows))
	}
	// The client pauses after the first page. Meanwhile its user is disabled.
	headers := b.AddUser("slow", "read", map[string]any{"company_no": "default"})
	server, err := net.Dial("tcp", strings.TrimPrefix(b.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	fmt.Fprintf(server, "GET /api/v1/contacts/export.csv HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", headers[0], headers[1])
	if _, err := io.ReadFull(server, make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/slow", `{"is_disabled":true}`)
	rest, err := io.ReadAll(server)
	if err == nil && strings.HasSuffix(string(rest), "0\r\n\r\n") {
		t.Error("the client did not notice that the file is incomplete")
	}
	if len(rest) > 30<<20 { // the whole export has 42 MB
		t.Errorf("the reader got %d bytes", len(rest))
	}
}
