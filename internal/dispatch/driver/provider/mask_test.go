package provider

import (
	"net/http"
	"strings"
	"testing"
)

// A masked URL contains *** without encoding. A token in a URL is masked in every encoding.
func TestMaskedURLIsReadable(t *testing.T) {
	const address = "https://sms.example/token%2fof-many-letters/send?key=abc%2fdefgh%3d&to=1"
	m := MaskOf([]string{"secrets"}, []string{"url", "batchUrl"}, []byte(`{"url":"`+address+`"}`), nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.request(req).URL, "https://sms.example/***?key=***&to=1"; got != want {
		t.Errorf("shown as %s, want %s", got, want)
	}
	for _, text := range []string{address, "https://sms.example/token%2Fof-many-letters/send", "token/of-many-letters", "abc/defgh="} {
		if got := m.hide("Post " + text + ": refused"); strings.Contains(got, "of-many-letters") || strings.Contains(got, "defgh") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// An answer can break off within a secret.
func TestATruncatedSecretAtTheEndOfATextIsMasked(t *testing.T) {
	m := NewMask([]string{"hunter2-of-the-account"})
	for text, want := range map[string]string{
		`{"key":"hunter2-of-the-account`: `{"key":"***`,
		`{"key":"hunter2-of-`:            `{"key":"***`,
		`{"key":"hunt`:                   `{"key":"***`,
		`{"key":"hun`:                    `{"key":"hun`, // too short to be a secret
		`{"key":"hunting"}`:              `{"key":"hunting"}`,
	} {
		if got := m.hide(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// Providers repeat a secret in the notations of JSON and URLs, some characters of it escaped and others not.
func TestASecretIsMaskedInEachNotation(t *testing.T) {
	for secret, texts := range map[string][]string{
		"abcdEFGH/ijkl+mnop==": {
			`abcdEFGH/ijkl+mnop==`, `abcdEFGH\/ijkl+mnop==`, `abcdEFGH\u002fijkl\u002Bmnop\u003d=`, `abcdEFGH%2fijkl%2Bmnop%3d%3D`, `abcdEFGH%2Fijkl+mnop==`,
			`abcdEFGH%5C%2fijkl%2bmnop==`, `abcdEFGH\u00252fijkl+mnop==`, `YWJjZEVGR0gvaWprbCttbm9wPT0=`, `\u0061bcd\u0045FGH\/ijkl+mnop==`,
		},
		`say "密码😀" \ twice`: {
			`say "密码😀" \ twice`, `say \"\u5bc6\u7801\ud83d\ude00\" \\ twice`, `say+%22%e5%af%86%E7%A0%81%F0%9F%98%80%22+%5c+twice`,
			`say%20%22\u5bc6码%F0%9F%98%80%22 \ twice`,
		},
		"100%25 of it": {`100%25 of it`, `100%2525+of+it`},
	} {
		m := NewMask([]string{secret})
		for _, text := range texts {
			for _, whole := range []string{text, "key=" + text + "&to=1", `{"key":"` + text + `","to":"\u4e2d"}`} {
				want := strings.Replace(whole, text, "***", 1)
				if got := strings.Replace(m.Replace(whole), "***=", "***", 1); got != want { // base64 is masked without its padding
					t.Errorf("%s is shown as %s, want %s", whole, got, want)
				}
			}
			cut := text[:len(text)-1]
			if got := m.Replace("key=" + cut); got != "key=***" && got != "key=***=" {
				t.Errorf("the end %s is shown as %s", cut, got)
			}
		}
		for _, text := range []string{"", `no secret \u4e2d\x %zz \ud83d 7%`, `\u12`, `%`, `\`} {
			if got := m.Replace(text); got != text {
				t.Errorf("%s is shown as %s", text, got)
			}
		}
	}
	m := NewMask([]string{"abcdEFGH/ijkl"})
	for _, cut := range []string{`abcdEFGH\`, `abcdEFGH\u00`, `abcdEFGH%`, `abcdEFGH%2`, `abcdEFGH%5C%`} {
		if got := m.Replace("key=" + cut); got != "key=***" {
			t.Errorf("the end %s is shown as %s", cut, got)
		}
	}
}
