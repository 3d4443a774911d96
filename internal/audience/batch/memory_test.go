package batch

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"lksms/internal/audience/batch/source"
	"lksms/internal/audience/sheet"
	"lksms/internal/dispatch/template"
)

// wide is a source of rows whose values are longer than any message.
type wide struct{ rows int }

func (w *wide) AddressColumn() string     { return "phone" }
func (w *wide) Missing([]string) []string { return nil }
func (w *wide) Close()                    {}

func (w *wide) SignColumn([]string) string { return "" }
func (w *wide) Encoding() (string, bool)   { return "", false }

func (w *wide) Next(context.Context) (source.Row, error) {
	if w.rows == 0 {
		return source.Row{}, io.EOF
	}
	w.rows--
	cell := sheet.Cell{Text: strings.Repeat("x", 32_767)}
	return source.Row{No: int64(w.rows), Address: cell, Value: func(string) (sheet.Cell, bool) { return cell, true }}, nil
}

// A portion of any rows needs little memory. The test does not run in parallel, because it measures the memory of the whole program.
func TestReadingAPortionOfRowsNeedsLittleMemory(t *testing.T) { //nolint:paralleltest // the test measures memory, see above
	text, err := template.Parse("content", "{name}")
	if err != nil {
		t.Fatal(err)
	}
	c := &check{text: message{text: text}, rows: &wide{checkedRows}}
	c.batch.LastRow = -1
	before := heap()
	rows, _, err := new(Service).read(t.Context(), c)
	if err != nil || len(rows) != checkedRows {
		t.Fatal(len(rows), err)
	}
	if kept := heap() - before; kept > 10<<20 {
		t.Errorf("%d rows keep %d MiB", len(rows), kept>>20)
	}
	if wrong := rows[0].wrong; wrong == nil || len([]rune(rows[0].address.Text)) > maxShown(c.batch.Channel) {
		t.Errorf("%+v", rows[0])
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
