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
