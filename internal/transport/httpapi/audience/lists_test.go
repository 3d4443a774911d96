package audience_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const previewPath = "/api/v1/lists/preview"

// preview uploads a list as a user of a company and returns the response.
func preview(b *apptest.Bundle, status int, form string, headers ...string) apptest.Answer {
	b.T.Helper()
	a := b.Call("POST", previewPath, form, append([]string{"Content-Type", apptest.FormType}, headers...)...)
	if a.Status != status {
		b.T.Errorf("%d, want %d: %s", a.Status, status, a.Raw)
	}
	return a
}

func TestPreviewShowsParsedList(t *testing.T) {
	b := apptest.New(t)
	gbk, err := simplifiedchinese.GBK.NewEncoder().String("手机号;姓名\n\n1.38E+10;张三\n13900139000;李;四\n")
	if err != nil {
		t.Fatal(err)
	}
	workbook, err := os.ReadFile("../../../audience/sheet/testdata/workbooks/openpyxl.xlsx")
	if err != nil {
		t.Fatal(err)
	}
	tenant := b.AddCompany("tenant", 1)
	for name, c := range map[string]struct{ form, want string }{
		"list.csv": {apptest.Form("file", "list.csv", gbk), "GB18030 [手机号 姓名] [{[1.38E+10 张三] 0 [手机号] 3} {[13900139000 李] 1 [] 4}]"},
		"long.csv": {
			apptest.Form("file", "long.csv", "a\n"+strings.Repeat("长", 101)+"\n"+strings.Repeat("长", 100)), "UTF-8 [a] [{[" + strings.Repeat("长", 99) + "…] 0 [] 2} {[" + strings.Repeat("长", 100) + "] 0 [] 3}]",
		},
		"other.xlsx": {apptest.Form("file", "list.xlsx", string(workbook), "sheet", "other"), " [x] []"},
		"rows.json":  {apptest.Form("file", "rows.json", `[{"a":"x"}]`), "UTF-8 [a] [{[x] 0 [] 1}]"},
	} {
		got := apptest.Decode[api.ListPreview](t, preview(b, 200, c.form, tenant...))
		if text := fmt.Sprint(optional.Value(got.Encoding), " ", got.Columns, " ", got.Rows); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	// The list is encoded in Windows-1252, but its bytes are also valid GB18030. The preview contains a warning until the request names the encoding.
	const german = "name\nM\xFCller\nSch\xE4fer\n"
	for name, c := range map[string]struct {
		form, want string
		isDoubtful bool
	}{
		"guessed": {apptest.Form("file", "list.csv", german), "GB18030 黮", true},
		"named":   {apptest.Form("file", "list.csv", german, "encoding", "Windows-1252"), "Windows-1252 ü", false},
	} {
		got := apptest.Decode[struct {
			Encoding        string
			EncodingWarning *string `json:"encoding_warning"`
			Rows            []struct{ Cells []string }
		}](t, preview(b, 200, c.form, tenant...))
		if text := got.Encoding + " " + string([]rune(got.Rows[0].Cells[0])[1]); text != c.want || (got.EncodingWarning != nil) != c.isDoubtful {
			t.Errorf("%s: %s, want %s: %+v", name, text, c.want, got)
		}
	}
	many := apptest.Decode[api.ListPreview](t, preview(b, 200, apptest.Form("file", "", "a\n"+strings.Repeat("1\n", 1000))))
	if len(many.Rows) != 10 {
		t.Errorf("%d rows", len(many.Rows))
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d files are kept", n)
	}
}

func TestErrorOfUnreadableListHasATextInEachLanguage(t *testing.T) {
	b := apptest.New(t)
	for form, want := range map[string][3]string{
		apptest.Form("", "", "", "sheet", "x"):                          {"file", "is required", "必填"},
		apptest.Form("file", "", "a\n", "sheet", ""):                    {},
		apptest.Form("file", "", ""):                                    {"file", "is required", "必填"}, // no file was chosen
		apptest.Form("file", "a.csv", ""):                               {"file", "must not be empty", "不能为空"},
		apptest.Form("file", "", "a,a\n"):                               {"file", "has two columns with the same name: a", "有两列同名：a"},
		apptest.Form("file", "", "a,b\n1,2\n3,\"4\n"):                   {"file", "ends in the middle of a value: row 3", "数据在某个值中间被截断：第 3 行"},
		apptest.Form("file", "", "a,b\n1,"+strings.Repeat("x", 32_768)): {"file", "has a value that is too long: row 2, column B, at most 32767 characters", "有过长的值：第 2 行，B 列，最多 32767 个字符"},
		apptest.Form("file", "", "PK\x03\x04"):                          {"file", "is damaged or incomplete: save it again and send the new file", "已损坏或不完整：请重新保存后再上传"},
		apptest.Form("file", "", "a\n", "colour", "red"):                {"colour", "is not a known field", "不是已知字段"},
	} {
		status := 422
		if want[0] == "" {
			status = 200
		}
		for i, language := range []string{"en", "zh-CN"} {
			a := preview(b, status, form, "Accept-Language", language)
			if status == 422 && (a.Fields() != want[0] || a.Body.Error.Fields[0].Message != want[1+i]) {
				t.Errorf("%q: %s, want %s", form[:min(200, len(form))], a.Raw, want)
			}
		}
	}
	if n := b.Count("SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d files are kept", n)
	}
}
