package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The server would store a text in another encoding as a different text.
func TestSendRefusesATextThatIsNotUTF8(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{"\xEF\xBB\xBF您的快递已到\r\n", "您的快递已到"},
		{"\xC4\xFA\xB5\xC4\n", ""}, // 您的 in GB18030
	} {
		path := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(path, []byte(c.input), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		stdin := os.Stdin
		os.Stdin = file
		m, err := (&SendCmd{Number: "13800138000", Text: new("-")}).message()
		os.Stdin = stdin
		if c.want == "" && (err == nil || !strings.Contains(err.Error(), "not UTF-8")) || c.want != "" && (err != nil || *m.Content != c.want) {
			t.Errorf("%q: %v, %v", c.input, m.Content, err)
		}
	}
}
