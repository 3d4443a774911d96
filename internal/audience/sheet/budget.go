package sheet

import (
	"errors"
	"io"
)

// maxToken is the maximum size of an XML or JSON token in bytes. This size is enough for the longest value if each character is written as &#x10FFFF; or
// \ud83d\ude00. The limit exists because a decoder holds a whole token in memory.
const maxToken = 512 << 10

var errTokenTooLong = errors.New("a token is too long")

// budgetReader reads at most a given number of bytes after each call of allow.
type budgetReader struct {
	io.Reader
	left   int
	failed error // error of the underlying Reader
}

func (b *budgetReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTokenTooLong
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err //nolint:wrapcheck // callers compare this error
}

// allow allows the next reads to read this number of bytes in total.
func (b *budgetReader) allow(bytes int) { b.left = bytes }

// budgetReaderAt reads at most a given number of bytes.
type budgetReaderAt struct {
	io.ReaderAt
	left   int
	failed error // error of the file
}

// ReadAt implements io.ReaderAt.
func (b *budgetReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if b.left < len(p) || at < 0 { // a ZIP file can state that a part starts before the beginning of the file
		return 0, errTokenTooLong
	}
	b.left -= len(p)
	n, err := b.ReaderAt.ReadAt(p, at)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err //nolint:wrapcheck // callers compare this error
}
