package sheet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lksms/internal/audience/sheet"
)

// lists returns a list of each kind. Each list has some thousand rows.
func lists(t *testing.T) map[string]sheet.File {
	t.Helper()
	var csv, json, rows, shared strings.Builder
	csv.WriteString("phone,name\n")
	rows.WriteString(inline(1, "phone", "name"))
	for i := range 5000 {
		fmt.Fprintf(&csv, "1380000%04d,客户%[1]d\n", i)
		fmt.Fprintf(&json, `,{"phone":"1380000%04d","name":"客户%[1]d"}`, i)
		fmt.Fprintf(&rows, `<row><c><v>1380000%04d</v></c><c t="s"><v>%[1]d</v></c></row>`, i)
		fmt.Fprintf(&shared, `<si><t>客户%d</t></si>`, i)
	}
	return map[string]sheet.File{
		"CSV":  sheet.Bytes("", []byte(csv.String())),
		"JSON": sheet.Bytes("", []byte("["+json.String()[1:]+"]")),
		"XLSX": sheet.Bytes("", packed(t, book(rows.String(), nil, parts{"xl/sharedStrings.xml": "<sst>" + shared.String() + "</sst>"}))),
	}
}

// failing returns an error after a number of reads.
type failing struct {
	sheet.File
	left int
}

var errDisk = errors.New("the disk is broken")

func (f *failing) ReadAt(p []byte, at int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errDisk
	}
	return f.File.ReadAt(p, at)
}

// An error of the storage is not reported as a fault of the file.
func TestStorageErrorsAreReturnedUnchanged(t *testing.T) {
	t.Parallel()
	for kind, file := range lists(t) {
		whole, err := read(t, file, sheet.Options{})
		if err != nil || strings.Count(whole, "\n") != 5000 {
			t.Fatalf("%s: %v", kind, err)
		}
		failures := 0
		for reads := 0; ; reads++ {
			broken := &failing{file, reads}
			if _, err = read(t, broken, sheet.Options{}); err == nil {
				break
			}
			if failures++; !errors.Is(err, errDisk) {
				t.Errorf("%s after %d reads: %v", kind, reads, err)
			}
		}
		if failures < 3 {
			t.Errorf("%s needs %d reads", kind, failures)
		}
	}
}

func TestAListIsReadUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	for kind, file := range lists(t) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := sheet.Open(ctx, file, sheet.Options{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if _, err := r.Next(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		cancel()
		if _, err := r.Next(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := sheet.Open(ctx, file, sheet.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
