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
