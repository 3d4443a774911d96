package stream

import (
	"errors"
	"net/http/httptest"
	"testing"
)

func TestFormulaCellsAreEscaped(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "a": "a", "=1+1": "'=1+1", "+86": "'+86", "-1": "'-1", "@a": "'@a", "\tx": "'\tx", "\rx": "'\rx", "'a": "'a", "张=": "张=", "1=": "1=",
	} {
		if got := Harmless(cell); got != want {
			t.Errorf("%q: %q, want %q", cell, got, want)
		}
	}
}

func TestWriteCSVWritesFileAndAbortsAfterError(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if err := WriteCSV(w, "x.csv", []string{"名", "=b"}, func(w *CSVWriter) error { return w.Add([][]string{{`a"b`, "c,d"}, {"", "e\nf"}}) }); err != nil {
		t.Fatal(err)
	}
	if want := "\uFEFF名,'=b\r\n\"a\"\"b\",\"c,d\"\r\n,\"e\r\nf\"\r\n"; w.Body.String() != want || w.Header().Get("Content-Disposition") != `attachment; filename="x.csv"` {
		t.Errorf("%q, want %q", w.Body, want)
	}
	failed := errors.New("failed")
	if err := WriteCSV(httptest.NewRecorder(), "x.csv", nil, func(*CSVWriter) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
