package template

import (
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"lksms/internal/platform/fault"
)

// render renders a text with form-encoded parameters.
func render(text, params string) (string, error) {
	r, err := Template{text: parse(text)}.renderForm(params)
	return r.Content, err
}

func TestRenderReplacesPlaceholders(t *testing.T) {
	for _, c := range []struct{ name, text, params, want string }{
		{"the document's example", "您的验证码是{code}，用户{name}", "code=123456&name=张三", "您的验证码是123456，用户张三"},
		{"order is irrelevant", "{a}{b}", "b=2&a=1", "12"},
		{"a placeholder twice", "{a}{a}", "a=1", "11"},
		{"escapes and plus", "{a}", "a=%E5%BC%A0+%2B%26%3D", "张 +&="},
		{"the first of two counts", "{a}", "a=1&a=2", "1"},
		{"blank is a value", "<{a}>", "a=", "<>"},
		{"a name alone is blank", "<{a}>", "a", "<>"},
		{"more than it needs", "{a}", "a=1&b=2&&", "1"},
		{"a value is not expanded", "{a}{b}", "a={b}&b={a}", "{b}{a}"},
		{"a value cannot make a placeholder", "{{a}}", "a=b&b=c", "{b}"},
		{"a semicolon is text", "{a}", "a=1;b=2", "1;b=2"},
		{"an equals sign in a value", "{a}", "a=b=c", "b=c"},
		{"braces that are no placeholder", `{} { a } {"k":1} }{ {a`, "a=1", `{} { a } {"k":1} }{ {a`},
		{"names in any script", "{姓名} {user.first-name_2}", "姓名=张&user.first-name_2=三", "张 三"},
		{"names with combining marks", "{नाम} {ชื่อ}", "नाम=राम&ชื่อ=x", "राम x"},
		{"a name composed in two ways", "{t\u00ean} {te\u0302n}", "te\u0302n=x", "x x"},
		{"1024 characters", "{a}", "a=" + strings.Repeat("验", 1024), strings.Repeat("验", 1024)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := render(c.text, c.params)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestRenderRejectsInvalidParameters(t *testing.T) {
	for _, c := range []struct {
		name, text, params string
		rule               fault.Rule
		limit              any
	}{
		{"missing parameters, each once", "{a}{b}{a}{c}", "b=1", fault.MissingParameters, "a, c"},
		{"no parameters", "{a}", "", fault.MissingParameters, "a"},
		{"a bad escape", "{a}", "a=100%", fault.NotFormEncoded, nil},
		{"a bad escape in a name", "{a}", "%zz=1&a=1", fault.NotFormEncoded, nil},
		{"bytes that are no text", "{a}", "a=%ff", fault.NotFormEncoded, nil},
		{"a NUL", "{a}", "a=%00", fault.NotFormEncoded, nil},
		{"1025 characters", "{a}!", "a=" + strings.Repeat("验", 1024), fault.RenderedTooLong, fault.Lengths{Has: 1025, Most: 1024}},
		{"many times a long value", strings.Repeat("{a}", 66), "a=" + strings.Repeat("x", 198), fault.RenderedTooLong, fault.Lengths{Has: 66 * 198, Most: 1024}},
		{"nothing left", "{a}", "a=+", fault.RenderedBlank, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := render(c.text, c.params)
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Invalid || len(f.Fields) != 1 {
				t.Fatalf("got %q, %v", got, err)
			}
			if want := (fault.Field{Name: "content", Rule: c.rule, Limit: c.limit}); f.Fields[0] != want {
				t.Errorf("got %+v, want %+v", f.Fields[0], want)
			}
		})
	}
}

func TestATemplateWithASpacedPlaceholderIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"您的验证码是{ code }":       "{ code }",
		"{a}{first name}":      "{first name}",
		"{a}{ b}{c }":          "{ b}",
		"{\u3000code}":         "{\u3000code}",
		"{a\nb}":               "{a\nb}",
		"{code} {नाम} {a.b-c}": "",
		`{} { } {"k": 1}`:      "",
		"{a, b} { a; } }{ {a":  "",
	} {
		_, err := Parse("template_content", text)
		var f *fault.Error
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want == "":
		case !errors.As(err, &f) || f.Fields[0] != fault.Field{Name: "template_content", Rule: fault.SpacedPlaceholder, Limit: want}:
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("您的验证码是{code}，用户{name}", "code=123456&name=张三")
	f.Add("{a}{b}", "a={b}&b=%7Ba%7D")
	f.Add("{{a}} {}", "a=%zz&;=+")
	f.Fuzz(func(t *testing.T, text, params string) {
		got, err := render(text, params)
		if err != nil {
			var expected *fault.Error
			if !errors.As(err, &expected) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		if n := len([]rune(got)); n > maxContent || n == 0 {
			t.Errorf("%d characters", n)
		}
		if strings.Contains(got, "\x00") && !strings.Contains(text, "\x00") {
			t.Error("the text has a NUL from the parameters")
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("code=123456&name=张三")
	f.Add("a=%zz&;=+&&=&a")
	f.Add("a=1&a=2&b=%E5%BC%A0+%2B%26%3D")
	f.Fuzz(func(t *testing.T, params string) {
		got, err := parseForm(params)
		if err != nil {
			var expected *fault.Error
			if !errors.As(err, &expected) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		// Parameters that were parsed, encoded and parsed again are equal.
		form := url.Values{}
		for name, value := range got {
			if !utf8.ValidString(name+value) || strings.ContainsRune(name+value, 0) {
				t.Errorf("%q=%q is not a valid text", name, value)
			}
			form.Set(name, value)
		}
		if again, err := parseForm(form.Encode()); err != nil || !maps.Equal(again, got) {
			t.Errorf("got %q, then %q, %v", got, again, err)
		}
	})
}
