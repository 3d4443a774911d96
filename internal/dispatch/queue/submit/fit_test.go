package submit_test

import (
	"strings"
	"testing"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

// A text within its limits is not changed. A longer text is cut to the longest beginning that fits.
func TestFitCutsATextToItsLimits(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"max_content_marketing":1024,"max_segments_marketing":1,"max_content_notification":20}`)
	limits := func(messageType int16) submit.Limits {
		l, err := b.App.Submissions.Limits(t.Context(), messageType)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	characters, segment := limits(submit.Notification), limits(submit.Marketing)
	for _, c := range []struct {
		name       string
		limits     submit.Limits
		sign       string
		text, want string
	}{
		{"as long as allowed", characters, "", strings.Repeat("字", 20), strings.Repeat("字", 20)},
		{"a character too long", characters, "", strings.Repeat("字", 21), strings.Repeat("字", 19) + "…"},
		{"in GSM 03.38", characters, "", strings.Repeat("a", 21), strings.Repeat("a", 17) + "..."},
		{"a space before the end", characters, "", "aaaaaaaaaaaaaaaa b  ccccccc", "aaaaaaaaaaaaaaaa..."},
		{"characters of the extension take two", segment, "", strings.Repeat("[", 81), strings.Repeat("[", 78) + "..."},
		{"with a signature", segment, "签名", strings.Repeat("a", 70), strings.Repeat("a", 65) + "…"},
		{"a character above U+FFFF is not split", segment, "", strings.Repeat("🔴", 36), strings.Repeat("🔴", 34) + "…"},
		{"the last character makes it UCS-2", segment, "", strings.Repeat("a", 159) + "字", strings.Repeat("a", 69) + "…"},
	} {
		if got := c.limits.Fit(c.sign, c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
