package sensitive

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lksms/internal/dispatch/segment"
)

func TestAMaskHasTheCharactersAndSegmentsOfItsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a1 *|€[]\n您码【】，😀🞶＊"))).Draw(t, "text")
		sign := rapid.SampledFrom([]string{"", "公司", "ACME"}).Draw(t, "sign")
		masked := Mask(text)
		if utf8.RuneCountInString(masked) != utf8.RuneCountInString(text) {
			t.Fatalf("%q is masked as %q", text, masked)
		}
		if got, want := segment.Count(segment.Signed(sign, masked)), segment.Count(segment.Signed(sign, text)); got != want {
			t.Fatalf("%q has %d segments, its mask %d", text, want, got)
		}
		if front, rest, isSigned := strings.Cut(masked, "】"); isSigned && strings.HasPrefix(text, "【") && !strings.HasPrefix(text, front+"】") || strings.ContainsAny(rest, "a1您码") {
			t.Fatalf("%q is masked as %q", text, masked)
		}
	})
}

func TestRestoreReplacesOnlyTheMask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ handed, content, want string }{
		{"******", "123456", "123456"},
		{"【公司】******", "123456", "【公司】123456"},
		{"******", "【公司】123456", "123456"},
		{"【公司】******", "【公司】123456", "【公司】123456"},
		{"＊*", "码1", "码1"},
	} {
		if got := Restore(c.handed, c.content); got != c.want {
			t.Errorf("Restore(%q, %q) is %q, want %q", c.handed, c.content, got, c.want)
		}
	}
}

func TestWordsAreTheHiddenWordsOfAText(t *testing.T) {
	t.Parallel()
	text := "您的验证码是AB12CD，123 for 654321. 654321"
	if got, want := Words(text, Mask(text)), []string{"您的验证码是", "AB12CD", "654321"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Words(text, MaskPart(text, "654321")), []string{"654321"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMaskRequestHidesTheTextsOfSensitiveMessages(t *testing.T) {
	t.Parallel()
	const code = "493817"
	for _, body := range []string{
		`{"sensitive":true,"content":"code 493817"}`,
		`{"Sensitive":true,"Content":"code 493817"}`,
		`{"s\u0065nsitive":true,"content":"code 493817"}`,
		`{"sensitive":"yes","content":"code 493817"}`,
		`{"sensitive":true,"template_no":"t","params":{"code":"493817"}}`,
		`{"sensitive":true,"template_no":"t","params":{"code":493817}}`,
		`{"sensitive":true,"template_no":"t","params":["493817"]}`,
		`{"messages":[{"content":"a"},{"content":"493817","sensitive":true}]}`,
		`{"content":"493817","content":"x","sensitive":true}`,
		`{"sensitive":true,"content":"493817"`,
		`{"sensitive":true,"content":"x"} 493817`,
	} {
		if got := string(MaskRequest([]byte(body))); strings.Contains(got, code) {
			t.Errorf("%s is stored as %s", body, got)
		}
	}
	for _, body := range []string{`{"content":"493817"}`, `{"sensitive":false,"content":"493817"}`, `{"content":"493817 \u00e9"`[:20], ""} {
		if got := string(MaskRequest([]byte(body))); got != body {
			t.Errorf("%s is stored as %s", body, got)
		}
	}
}
