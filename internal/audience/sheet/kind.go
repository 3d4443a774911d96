package sheet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"lksms/internal/platform/fault"
)

// headSize is the number of first bytes that determine the kind of a file.
const headSize = 4 << 10

// These are the first bytes of workbooks.
const (
	zipMagic = "PK\x03\x04"
	oleMagic = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" // Excel before 2007, and any Office file with a password
)

// binaryMagics are the first bytes of other binary files that people upload by mistake.
var binaryMagics = []string{"PK", "%PDF", "\x1F\x8B", "Rar!", "7z\xBC\xAF", "\x89PNG", "\xFF\xD8\xFF", "GIF8", "BM", "SQLite format"}

// rowsOf determines the kind of a file, and starts to read the file. Only the content decides, with one exception: a text that starts with a bracket can be a
// JSON array, or CSV with a bracket in the name of its first column. In this case the file name decides, too.
func rowsOf(ctx context.Context, file File, options Options) (rows, error) {
	head := make([]byte, min(headSize, file.Size()))
	if _, err := readAt(file, head, 0); err != nil {
		return nil, err
	}
	switch {
	case len(head) == 0:
		return nil, wrong(fault.Empty, nil)
	case bytes.HasPrefix(head, []byte(zipMagic)):
		return openWorkbook(ctx, file, options)
	case bytes.HasPrefix(head, []byte(oleMagic)):
		isEncrypted, err := contains(ctx, file, utf16Of("EncryptedPackage"))
		if err != nil {
			return nil, err
		}
		if isEncrypted {
			return nil, wrong(fault.Encrypted, nil)
		}
		return nil, wrong(fault.OldWorkbook, nil)
	}
	for _, magic := range binaryMagics {
		if bytes.HasPrefix(head, []byte(magic)) && bytes.ContainsFunc(head, isControl) {
			return nil, wrong(fault.NotAList, nil)
		}
	}
	t, err := textOf(ctx, file, head)
	if err != nil {
		return nil, err
	}
	start := strings.TrimLeftFunc(t.start, isBlank)
	switch {
	case start == "":
		return nil, wrong(fault.NoHeader, nil)
	case isJSON(file, start):
		return openJSON(ctx, file, head, options)
	case start[0] == '{' && isNamed(file, ".json"):
		return nil, wrong(fault.NotAList, nil)
	case start[0] == '<': // a web page, or an old XML format that spreadsheet programs open as a list
		return nil, wrong(fault.NotAList, nil)
	}
	return newCSV(t, options), nil
}

// isControl reports whether c is a control character that no text file contains.
func isControl(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\x1A' }

// isJSON reports whether a text is a JSON array: its file has the extension .json, or the text starts like an array of objects.
func isJSON(file File, start string) bool {
	rest, is := strings.CutPrefix(start, "[")
	rest = strings.TrimLeft(rest, " \t\r\n")
	return is && (isNamed(file, ".json") || strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, "]"))
}

// isNamed reports whether a file has the given extension.
func isNamed(file File, extension string) bool {
	return strings.EqualFold(path.Ext(file.Name()), extension)
}

// readAt fills p with the bytes of a file at an offset, up to the end of the file.
func readAt(file File, p []byte, at int64) (int, error) {
	n, err := file.ReadAt(p, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err //nolint:wrapcheck // the error names the file
}

// eachChunk calls do for each chunk of a file, in order, until do returns false.
func eachChunk(ctx context.Context, file File, do func(chunk []byte) bool) error {
	chunk := make([]byte, 256<<10)
	for at := int64(0); at < file.Size(); {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // Open returns the reason
		}
		n, err := readAt(file, chunk, at)
		if err != nil {
			return err
		}
		if n == 0 || !do(chunk[:n]) {
			return nil
		}
		at += int64(n)
	}
	return nil
}

// contains reports whether a file contains a sequence of bytes.
func contains(ctx context.Context, file File, wanted []byte) (is bool, err error) {
	var window []byte // the end of the previous chunk, and the current chunk
	err = eachChunk(ctx, file, func(chunk []byte) bool {
		window = append(window[max(0, len(window)-len(wanted)+1):], chunk...)
		is = bytes.Contains(window, wanted)
		return !is
	})
	return is, err
}

// utf16Of returns ASCII as little-endian UTF-16.
func utf16Of(ascii string) []byte {
	wide := make([]byte, 0, 2*len(ascii))
	for i := range len(ascii) {
		wide = append(wide, ascii[i], 0)
	}
	return wide
}
