package sheet_test

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"lksms/internal/audience/sheet"
)

// disk is a file on disk. Its content uses no memory.
type disk struct{ *os.File }

func (disk) Encoding() string { return "" }

func (d disk) Size() int64 {
	info, err := d.Stat()
	if err != nil {
		panic(err)
	}
	return info.Size()
}

// write writes a list to a file on disk.
func write(b *testing.B, to func(w io.Writer) error) disk {
	b.Helper()
	file, err := os.CreateTemp(b.TempDir(), "list")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	buffer := bufio.NewWriter(file)
	if err := errors.Join(to(buffer), buffer.Flush()); err != nil {
		b.Fatal(err)
	}
	return disk{file}
}

// workbook returns a function that writes a workbook of n rows and three columns. The texts are in the cells, or shared if isShared is set.
func workbook(n int, isShared bool) func(w io.Writer) error {
	return func(w io.Writer) error {
		z := zip.NewWriter(w)
		all := book("", nil, nil)
		delete(all, "xl/sharedStrings.xml")
		delete(all, "xl/worksheets/sheet1.xml")
		for name, text := range all {
			part, err := z.Create(name)
			if err != nil {
				return err
			}
			fmt.Fprint(part, text)
		}
		rows, err := z.Create("xl/worksheets/sheet1.xml")
		if err != nil {
			return err
		}
		fmt.Fprint(rows, `<worksheet><sheetData>`, inline(1, "手机号", "姓名", "金额"))
		for i := range n {
			if isShared {
				fmt.Fprintf(rows, `<row r="%d" spans="1:3"><c r="A%[1]d" t="s"><v>%d</v></c><c r="B%[1]d" t="s"><v>%d</v></c><c r="C%[1]d" t="s"><v>%d</v></c></row>`, i+2, 3*i, 3*i+1, 3*i+2)
			} else {
				fmt.Fprintf(rows, `<row r="%d" spans="1:3"><c r="A%[1]d"><v>%d</v></c><c r="B%[1]d" t="inlineStr"><is><t>客户%d</t></is></c><c r="C%[1]d" s="3"><v>%d.5</v></c></row>`, i+2, 13_800_000_000+i, i, i)
			}
		}
		fmt.Fprint(rows, `</sheetData></worksheet>`)
		strings, err := z.Create("xl/sharedStrings.xml")
		if err != nil {
			return err
		}
		fmt.Fprint(strings, "<sst>")
		for i := range n {
			if isShared {
				fmt.Fprintf(strings, `<si><t>%d</t></si><si><t>客户%d</t></si><si><t>您好，您的订单 %[2]d 已发货</t></si>`, 13_800_000_000+i, i)
			}
		}
		fmt.Fprint(strings, "</sst>")
		return z.Close()
	}
}

// BenchmarkListOfAMillionRows reads lists of a million rows and three columns, and reports the maximum heap size.
func BenchmarkListOfAMillionRows(b *testing.B) {
	const n = 1_000_000
	for _, c := range []struct {
		name string
		to   func(w io.Writer) error
	}{
		{"CSV", func(w io.Writer) error {
			fmt.Fprintln(w, "手机号,姓名,内容")
			for i := range n {
				fmt.Fprintf(w, "%d,客户%d,\"您好，您的订单 %[2]d 已发货\"\r\n", 13_800_000_000+i, i)
			}
			return nil
		}},
		{"JSON", func(w io.Writer) error {
			fmt.Fprintln(w, "[")
			for i := range n {
				if i > 0 {
					fmt.Fprintln(w, ",")
				}
				fmt.Fprintf(w, `{"手机号":"%d","姓名":"客户%d","内容":"您好，您的订单 %[2]d 已发货"}`, 13_800_000_000+i, i)
			}
			fmt.Fprintln(w, "]")
			return nil
		}},
		{"XLSX", workbook(n, false)},
		{"XLSX-shared", workbook(n, true)},
	} {
		b.Run(c.name, func(b *testing.B) {
			file := write(b, c.to)
			runtime.GC()
			var memory runtime.MemStats
			most := uint64(0)
			for b.Loop() {
				r, err := sheet.Open(b.Context(), file, sheet.Options{})
				if err != nil {
					b.Fatal(err)
				}
				rows := 0
				for ; ; rows++ {
					if _, err = r.Next(); err != nil {
						break
					}
					if rows%20_000 == 0 {
						runtime.ReadMemStats(&memory)
						most = max(most, memory.HeapInuse)
					}
				}
				if err := r.Close(); err != nil {
					b.Error(err)
				}
				if !errors.Is(err, io.EOF) || rows != n {
					b.Fatal(rows, err)
				}
			}
			b.ReportMetric(float64(most)/1e6, "MB-heap")
			b.ReportMetric(float64(file.Size())/1e6, "MB-file")
		})
	}
}
