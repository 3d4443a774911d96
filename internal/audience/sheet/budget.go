package sheet

import (
	"errors"
	"io"
)

// maxToken is the maximum size of an XML or JSON token in bytes: a value of the maximum length, with each character written as &#x10FFFF; or \ud83d\ude00. A
// decoder holds a whole token in memory.
const maxToken = 512 << 10

var errTokenTooLong = errors.New("a token is too long")

// budgetReader reads at most a given number of bytes between two calls of spend.
type budgetReader struct {
	io.Reader
	left   int
	failed error // error of the Reader
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
	return n, err //nolint:wrapcheck // its callers know it
}

// spend sets a new budget.
func (b *budgetReader) spend(bytes int) { b.left = bytes }

// budgetReaderAt reads at most a given number of bytes.
type budgetReaderAt struct {
	io.ReaderAt
	left   int
	failed error // error of the file
}

// ReadAt implements io.ReaderAt.
func (b *budgetReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if b.left < len(p) || at < 0 { // a ZIP file can claim that a part starts before the file
		return 0, errTokenTooLong
	}
	b.left -= len(p)
	n, err := b.ReaderAt.ReadAt(p, at)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err //nolint:wrapcheck // as above
}
