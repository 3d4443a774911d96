package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lksms/internal/platform/fault"
)

// sample is a template whose translations have the placeholders in another order.
var sample = Template{
	ID: 7, No: "login", Version: 3, Sign: "示例公司", language: "zh", text: parse("您的验证码是{code}，用户{name}，{code}"),
	translations: map[string]string{"en": "{name}, {code}", "zh-Hant": "驗證碼{code}，{name}", "pt-BR": "{code} {name} (br)"},
}

// shown lists the fields of a fault.
func shown(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return fmt.Sprint(err)
	}
	parts := make([]string, len(f.Fields))
	for i, field := range f.Fields {
		parts[i] = strings.TrimSpace(fmt.Sprint(field.Name, " ", field.Rule, " ", optionalText(field.Limit)))
	}
	return strings.Join(parts, "; ")
}

func optionalText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// S3.10: values are given by name, or in the order of the placeholders.
func TestS3_10_ParametersAreGivenByNameOrInOrder(t *testing.T) {
	for name, c := range map[string]struct{ params, language, want, wrong string }{
		"by name":                           {params: `{"code":"1","name":"张三"}`, want: "您的验证码是1，用户张三，1"},
		"a number as it is written":         {params: `{"code":012e0,"name":"x"}`, wrong: "params invalid"},
		"a whole number":                    {params: `{"code":123456,"name":1.50}`, want: "您的验证码是123456，用户1.50，123456"},
		"in order":                          {params: `"1;张三"`, want: "您的验证码是1，用户张三，1"},
		"in order, in a translation":        {params: `"1;张三"`, language: "en", want: "张三, 1"},
		"blank values":                      {params: `";"`, want: "您的验证码是，用户，"},
		"a wide semicolon is text":          {params: `"1；2;x"`, want: "您的验证码是1；2，用户x，1；2"},
		"a semicolon by name":               {params: `{"code":"1;2","name":"x"}`, want: "您的验证码是1;2，用户x，1;2"},
		"values are not expanded":           {params: `"{name};{code}"`, want: "您的验证码是{name}，用户{code}，{name}"},
		"the region of a language":          {params: `"1;x"`, language: "zh-Hant-TW", want: "驗證碼1，x"},
		"an unknown region":                 {params: `"1;x"`, language: "en-US", want: "x, 1"},
		"no translation":                    {params: `"1;x"`, language: "fr", want: "您的验证码是1，用户x，1"},
		"only with a region":                {params: `"1;x"`, language: "pt", want: "您的验证码是1，用户x，1"},
		"the language of the text":          {params: `"1;x"`, language: "zh-CN", want: "您的验证码是1，用户x，1"},
		"too few":                           {params: `"1"`, wrong: "params wrong_count code, name"},
		"too many":                          {params: `"1;2;3"`, wrong: "params wrong_count code, name"},
		"an escape has no meaning":          {params: `"1\\;2;3"`, wrong: "params wrong_count code, name"},
		"none":                              {params: ``, wrong: "params missing_parameters code, name"},
		"null":                              {params: ` null `, wrong: "params missing_parameters code, name"},
		"one is missing":                    {params: `{"name":"x"}`, wrong: "params missing_parameters code"},
		"one is unknown":                    {params: `{"code":"1","name":"x","z":"1","b":""}`, wrong: "params unknown_parameters b, z"},
		"one is missing and one is unknown": {params: `{"code":"1","nam":"x"}`, wrong: "params missing_parameters name; params unknown_parameters nam"},
		"a nested object":                   {params: `{"code":{"a":1},"name":"x"}`, wrong: "params.code wrong_type string"},
		"a list":                            {params: `{"code":["1"],"name":"x"}`, wrong: "params.code wrong_type string"},
		"a switch":                          {params: `{"code":true,"name":"x"}`, wrong: "params.code wrong_type string"},
		"null for a value":                  {params: `{"code":null,"name":"x"}`, wrong: "params.code wrong_type string"},
		"a NUL":                             {params: `{"code":"\u0000","name":"x"}`, wrong: "params.code bad_characters"},
		"a NUL in order":                    {params: `"\u0000;x"`, wrong: "params bad_characters"},
		"a list of values":                  {params: `["1","x"]`, wrong: "params invalid"},
		"one name in two spellings":         {params: `{"code":"1","name":"x","t\u00ean":"1","te\u0302n":"2"}`, wrong: "duplicate"},
		"rendered too long":                 {params: `"` + strings.Repeat("1", 600) + `;x"`, wrong: "content rendered_too_long {1211 1024}"},
	} {
		var r Rendered
		params, err := ParseParams(json.RawMessage(c.params))
		if err == nil {
			r, err = sample.Render(params, c.language)
		}
		if c.wrong != "" {
			if got := shown(err); got != c.wrong && (c.wrong != "duplicate" || !strings.HasSuffix(got, c.wrong)) {
				t.Errorf("%s: %s, want %s", name, got, c.wrong)
			}
			continue
		}
		if err != nil || r.Content != c.want || r.Sign != "示例公司" {
			t.Errorf("%s: %q %v, want %q", name, r.Content, err, c.want)
		}
	}
}

func TestATemplateWithoutPlaceholdersNeedsNoValues(t *testing.T) {
	for params, wrong := range map[string]string{
		``: "", `null`: "", `{}`: "", `""`: "", `" "`: "params wrong_count", `"a;b"`: "params wrong_count", `{"a":1}`: "params unknown_parameters a",
	} {
		var r Rendered
		p, err := ParseParams(json.RawMessage(params))
		if err == nil {
			r, err = Template{text: parse("hello")}.Render(p, "")
		}
		if got := shown(err); wrong != "" && got != wrong || wrong == "" && (err != nil || r.Content != "hello") {
			t.Errorf("%s: %q %s", params, r.Content, got)
		}
	}
}

// A text that is parsed once is rendered for all rows of a list, with values by column name.
func TestATextIsRenderedForEachRow(t *testing.T) {
	text, err := Parse("content", "{姓名}：{金额}元，{te\u0302n}")
	if err != nil || !slices.Equal(text.Names(), []string{"姓名", "金额", "t\u00ean"}) {
		t.Fatalf("%q %v", text.Names(), err)
	}
	columns := map[string]int{"姓名": 1, "金额": 2, "t\u00ean": 0}
	for _, c := range []struct {
		row         []string
		want, wrong string
	}{
		{[]string{"a", "张三", "1"}, "张三：1元，a", ""},
		{[]string{"", "", ""}, "：元，", ""},
		{[]string{"{姓名}", "x", "y"}, "x：y元，{姓名}", ""},
		{[]string{strings.Repeat("x", maxContent), "", ""}, "", "content rendered_too_long {1027 1024}"},
	} {
		got, err := text.Render(func(name string) (string, bool) { return c.row[columns[name]], true })
		if got != c.want || c.wrong != "" && shown(err) != c.wrong || c.wrong == "" && err != nil {
			t.Errorf("%q: %q %v", c.row, got, err)
		}
	}
	if _, err := text.Render(func(name string) (string, bool) { return "x", name == "金额" }); shown(err) != "content missing_parameters 姓名, t\u00ean" {
		t.Error(err)
	}
	if _, err := Parse("content", "{first name}"); shown(err) != "content spaced_placeholder {first name}" {
		t.Error(err)
	}
}

func TestALoggedSubmissionContainsItsTemplate(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1}`:         `{"a":1,"template":{"id":7,"template_no":"login","version":3,"language":"en"}}`,
		" { \"a\" : 1 } ": `{ "a" : 1,"template":{"id":7,"template_no":"login","version":3,"language":"en"}}`,
		`{ }`:             `{"template":{"id":7,"template_no":"login","version":3,"language":"en"}}`,
		`[1]`:             `[1]`,
		``:                ``,
	} {
		if got, err := sample.Source("en").AddTo([]byte(raw)); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", raw, got, err)
		}
	}
	var none *Source
	if got, _ := none.AddTo([]byte(`{}`)); string(got) != `{}` {
		t.Errorf("%s", got)
	}
	raw := []byte(`{"a":1}xx`)
	if _, err := sample.Source("").AddTo(raw[:7]); err != nil || string(raw) != `{"a":1}xx` {
		t.Errorf("the submission was written over: %s", raw)
	}
}

func FuzzParseParams(f *testing.F) {
	f.Add([]byte(`{"code":"1","name":2.50}`))
	f.Add([]byte(`"1;2"`))
	f.Add([]byte(`{"code":{},"name":"\u0000"}`))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if !json.Valid(sent) {
			return
		}
		params, err := ParseParams(sent)
		var r Rendered
		if err == nil {
			r, err = sample.Render(params, "en")
		}
		var expected *fault.Error
		switch {
		case err != nil && !errors.As(err, &expected):
			t.Fatalf("not a fault: %v", err)
		case err == nil && (len([]rune(r.Content)) > maxContent || strings.ContainsRune(r.Content, 0)):
			t.Errorf("%q", r.Content)
		}
	})
}
