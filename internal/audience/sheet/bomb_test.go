package sheet_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"lksms/internal/audience/sheet"
)

// zipWith returns a ZIP file with the parts of a workbook. raw is the compressed sheet, and header is the ZIP header of the sheet.
func zipWith(t testing.TB, header *zip.FileHeader, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range book("", nil, nil) {
		if name == header.Name {
			continue
		}
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := z.CreateRaw(header)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// deflated compresses a file that consists of text and of `times` copies of the string `repeated`.
func deflated(t testing.TB, text, repeated string, times int) (packed []byte, crc uint32, size int) {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.NewIEEE()
	both := io.MultiWriter(w, sum)
	fmt.Fprint(both, text)
	for range times {
		fmt.Fprint(both, repeated)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), sum.Sum32(), len(text) + times*len(repeated)
}

func TestAZIPBombIsRefused(t *testing.T) {
	t.Parallel()
	const name = "xl/worksheets/sheet1.xml"
	packed, crc, size := deflated(t, "<worksheet><sheetData>"+inline(1, "a"), strings.Repeat(" ", 1<<20), 200) // 200 MiB, compressed to some hundred kB
	method := func(declared uint64, flags uint16, crc uint32) *zip.FileHeader {
		return &zip.FileHeader{Name: name, Method: zip.Deflate, Flags: flags, CRC32: crc, CompressedSize64: uint64(len(packed)), UncompressedSize64: declared}
	}
	small, smallCRC, smallSize := deflated(t, "<worksheet><sheetData>"+inline(1, "a")+"</sheetData></worksheet>", "", 0)
	for what, c := range map[string]struct {
		content []byte
		want    string
	}{
		"of the size it says":     {zipWith(t, method(uint64(size), 0, crc), packed), "file unpacked_too_big 104857600"},
		"of another size":         {zipWith(t, method(1000, 0, crc), packed), "file damaged <nil>"},
		"of no size":              {zipWith(t, method(0, 0, crc), packed), "file damaged <nil>"},
		"of a huge size":          {zipWith(t, method(1<<62, 0, crc), packed), "file unpacked_too_big 104857600"},
		"of an impossible size":   {zipWith(t, method(1<<63+5, 0, crc), packed), "file unpacked_too_big 104857600"},
		"with a password":         {zipWith(t, method(1000, 1, crc), packed), "file encrypted <nil>"},
		"with a wrong checksum":   {zipWith(t, &zip.FileHeader{Name: name, Method: zip.Deflate, CRC32: smallCRC + 1, CompressedSize64: uint64(len(small)), UncompressedSize64: uint64(smallSize)}, small), "file damaged <nil>"},
		"with an unknown packing": {zipWith(t, &zip.FileHeader{Name: name, Method: 99, CompressedSize64: uint64(len(small)), UncompressedSize64: uint64(smallSize)}, small), "file damaged <nil>"},
		"cut off inside":          {zipWith(t, &zip.FileHeader{Name: name, Method: zip.Deflate, CRC32: smallCRC, CompressedSize64: uint64(len(small) / 2), UncompressedSize64: uint64(smallSize)}, small[:len(small)/2]), "file damaged <nil>"},
		"a good one":              {zipWith(t, &zip.FileHeader{Name: name, Method: zip.Deflate, CRC32: smallCRC, CompressedSize64: uint64(len(small)), UncompressedSize64: uint64(smallSize)}, small), "<nil>"},
	} {
		if got, err := read(t, sheet.Bytes("", c.content), sheet.Options{Unpacked: 100 << 20}); fields(err) != c.want {
			t.Errorf("%s: %s, want %s; %.100q", what, fields(err), c.want, got)
		}
	}
}

// A directory of a million entries would need hundreds of bytes of memory per entry. The test measures memory, and therefore does not run in parallel.
func TestAHugeZIPDirectoryIsRefused(t *testing.T) {
	entry := make([]byte, 46)
	copy(entry, "PK\x01\x02")
	content := append([]byte("PK\x03\x04"), bytes.Repeat(entry, 1<<20)...)
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	binary.LittleEndian.PutUint32(end[12:], uint32(len(content)-4))
	binary.LittleEndian.PutUint32(end[16:], 4)
	file := sheet.Bytes("", append(content, end...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := read(t, file, sheet.Options{}); fields(err) != "file damaged <nil>" {
		t.Error(fields(err))
	}
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 20 {
		t.Errorf("%d MiB in memory", used)
	}
}

// Most strings of a workbook are in a temporary file. Closing the list deletes this file, even after an error.
func TestStringsOfAWorkbookAreReadInAnyOrderFromATemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const n = 200_000
	var shared, rows strings.Builder
	for i := range n {
		fmt.Fprintf(&shared, "<si><t>text number %d 文字</t></si>", i)
	}
	rows.WriteString(inline(1, "a"))
	order := []int{n - 1, 0, 1, 77_777, 150_000, 63, 64, 65, n - 2, 100_000}
	for range 200 {
		order = append(order, (order[len(order)-1]*7919+13)%n)
	}
	for _, i := range order {
		fmt.Fprintf(&rows, `<row><c t="s"><v>%d</v></c></row>`, i)
	}
	for _, last := range []string{"", `<row><c t="s"><v>200000</v></c></row>`} {
		content := packed(t, book(rows.String()+last, nil, parts{"xl/sharedStrings.xml": "<sst>" + shared.String() + "</sst>"}))
		r, err := sheet.Open(t.Context(), sheet.Bytes("", content), sheet.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range order {
			row, err := r.Next()
			if want := fmt.Sprintf("text number %d 文字", i); err != nil || row.Cells[0].Text != want {
				t.Fatalf("%v %v, want %s", row, err, want)
			}
		}
		if _, err := r.Next(); (last == "") != errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if files, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(files) > 0 {
			t.Errorf("left behind: %v %v", files, err)
		}
	}
}
