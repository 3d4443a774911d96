package segment

import "testing"

func TestShortenedSplitsNoGrapheme(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		most       int
	}{
		{"hello", "hello", 5},
		{"hello!", "hell…", 5},
		{"ab👨‍👩‍👧cd", "ab…", 6},
		{"ab👨‍👩‍👧cd", "ab👨‍👩‍👧…", 8},
		{"e\u0301e\u0301e\u0301", "e\u0301e\u0301…", 5},
		{"e\u0301e\u0301e\u0301", "e\u0301…", 4},
		{"您的快递已到", "您的快…", 4},
		{"👨‍👩‍👧", "…", 2},
	} {
		if got := Shortened(c.text, c.most); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
