package segment_test

import (
	"testing"
	"unicode/utf8"

	"lksms/internal/dispatch/segment"
)

// FuzzCount counts the segments of any text. The result is at least one, at most one per character, and never smaller for a longer text.
func FuzzCount(f *testing.F) {
	f.Add("a€短😀", "公司")
	f.Add("\xff", "")
	f.Fuzz(func(t *testing.T, text, sign string) {
		n := segment.Count(text)
		if most := max(utf8.RuneCountInString(text), 1); n < 1 || n > most {
			t.Errorf("%q has %d segments", text, n)
		}
		if longer := segment.Count(segment.Signed(sign, text)); longer < n {
			t.Errorf("%q has %d segments, and %d with the signature %q", text, n, longer, sign)
		}
	})
}
