package remote

import (
	"bytes"
	"strings"
	"testing"
)

func TestPrintableReplacesControlCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\x1b[2Jb": "a�[2Jb", "two\nlines\tx": "two lines x", "您好": "您好", "\u202eabc": "�abc", "\x9b31m": "�31m", "\u0085": "�",
	} {
		if got := printable(strings.ToValidUTF8(in, "�")); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	var written bytes.Buffer
	if err := writeJSON(&written, "a\x1b\u007f\u009b\u202e您", ""); err != nil || written.String() != `"a\u001b\u007f\u009b\u202e您"`+"\n" {
		t.Errorf("JSON: %s, %v", written.String(), err)
	}
	for in, want := range map[string]string{"short": "short", "很长的中文文本": "很长的中…", "abcdefghijk": "abcdefghi…"} {
		if got := shorten(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
