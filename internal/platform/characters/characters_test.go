package characters_test

import (
	"testing"

	"lksms/internal/platform/characters"
)

func TestFirstCutsByCharactersAndNotByBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "ab": "ab", "abc": "abc", "abcd": "abc", "验证码": "验证码", "验证码是": "验证码", "😀é": "😀é"} {
		if got := characters.First(text, 3); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestIsDigitsAcceptsOnlyASCIIDigits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "0": true, "0123456789": true, "1a2": false, "-1": false, "1.0": false, "１": false, "٣": false} {
		if got := characters.IsDigits(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
