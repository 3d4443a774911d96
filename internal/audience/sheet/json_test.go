package sheet_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"lksms/internal/audience/sheet"
)

func TestAJSONArrayIsReadAsAList(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`[{"phone":"13800138000","a":1},{"b":true,"phone":13900139000}]`:                "phone|a|b\n1 13800138000|1|\n2 13900139000||true",
		"\n[ { \" a\\n b \" : null , \"c\":false} , {}, {\"c\":\" \"},{\"c\":\"x\"}]\n": "a b|c\n1 |false\n4 |x",
		`[{"n":1.38e10},{"n":0.5},{"n":-1.50},{"n":1e-3},{"n":123456789012345678901},{"n":1e999},{"n":"1.38E+10"},{"n":"'007"}]`: "n\n1 13800000000\n2 0.5\n3 -1.50\n4 1e-3\n5 123456789012345678901\n" +
			"6 1e999\n7 ~1.38E+10\n8 007",
		encoded(t, simplifiedchinese.GB18030, `[{"姓名":"张三"}]`):                                 "姓名\n1 张三",
		encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), `[{"姓名":"张三\u4e00"}]`): "姓名\n1 张三一",
		"\xEF\xBB\xBF" + `[{"a":"\ud83d\ude00"}]`:                                              "a\n1 😀",
	} {
		for _, name := range []string{"", "rows.json", "list.csv"} {
			if got, err := read(t, sheet.Bytes(name, []byte(content)), sheet.Options{}); err != nil || got != want {
				t.Errorf("%q: %s\n%q, want\n%q", content, fields(err), got, want)
			}
		}
	}
	late := `[` + strings.Repeat(`{"a":1},`, 1000) + `{"a":2,"b":"x"},{"b":""},{"a":3,"b":null}]`
	got, err := read(t, sheet.Bytes("", []byte(late)), sheet.Options{})
	if err != nil || !strings.HasSuffix(got, "\n1000 1\n1001 2 +1\n1003 3") {
		t.Errorf("a late member: %s %q", fields(err), got[max(0, len(got)-50):])
	}
}

func TestAnInvalidJSONListIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	var wide strings.Builder
	for i := range 201 {
		fmt.Fprintf(&wide, `,"%d":1`, i)
	}
	for content, want := range map[string]string{
		`[]`:                 "file no_header <nil>",
		`[{},{}]`:            "file no_header <nil>",
		`{"rows":[]}`:        "file not_a_list <nil>",
		`["a"]`:              "file not_a_value {1  0}",
		`[{"a":1},2]`:        "file not_a_value {2  0}",
		`[{"a":[1]}]`:        "file not_a_value {1 a 0}",
		`[{"a":1},{"b":{}}]`: "file not_a_value {2 b 0}",
		`[{"a":[{}],"b":{"c":[]}},{"a":1},[{"a":[]}],{"b":[]}]`: "file not_a_value {1 a 0}, file not_a_value {1 b 0}, file not_a_value {3  0}, file not_a_value {4 b 0}",
		`[{"":1}]`:                 "file unnamed_column {1  0}",
		`[{"a":1,"a ":1}]`:         "file duplicate_column a",
		`[{"a":1,"a":1}]`:          "file damaged_at {1  0}",
		`[{"a":1},{"a":"x`:         "file cut_short {2  0}",
		`[{"a":1}`:                 "file cut_short {2  0}",
		`[{"a":1}]x`:               "file damaged_at {2  0}",
		`[{"a":1}][]`:              "file damaged_at {2  0}",
		`[{"a":1},{a:1}]`:          "file damaged_at {2  0}",
		"[{\"名字\":\"名\xE4\xB8\"}]": "file not_text {1  0}",
		encoded(t, simplifiedchinese.GB18030, `[{"名":"一二`) + "\xFF\"}]": "file not_text {1  0}",
		`[{"` + strings.Repeat("x", 201) + `":1}]`:                      "file cell_too_long {1 A 200}",
		`[{"a":"\u0000"}]`: "file not_text {1  0}",
		`[{"a":"\ud83d"}]`: "file damaged_at {1  0}",
		`[{"a":"` + strings.Repeat("x", 32_768) + `"}]`:       "file cell_too_long {1 a 32767}",
		`[{"a":"` + strings.Repeat("x", 100<<20) + `"}]`:      "file cell_too_long {1  32767}",
		`[{"a":1},{"a":` + strings.Repeat("[", 10<<20) + `}]`: "file not_a_value {2 a 0}",
		`[{"a":1` + wide.String() + `}]`:                      "file too_many_columns 200",
	} {
		if got, err := read(t, sheet.Bytes("rows.json", []byte(content)), sheet.Options{}); fields(err) != want {
			t.Errorf("%.100s: %s, want %s; %q", content, fields(err), want, got)
		}
	}
}
