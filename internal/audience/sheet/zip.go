package sheet

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"math"
	"path"
	"strings"

	"lksms/internal/platform/fault"
)

const (
	maxDirectory = 2 << 20  // maximum size of the ZIP directory in bytes: a workbook has some tens of entries, and each entry needs hundreds of bytes in memory
	maxSmallPart = 16 << 20 // maximum size in bytes of a part, except the sheet and the strings
)

// archive is the ZIP file of a workbook.
type archive struct {
	ctx    context.Context // context of Open
	source *budgetReaderAt
	parts  map[string]*zip.File
}

// openArchive reads the directory of a ZIP file.
func openArchive(ctx context.Context, file File) (*archive, error) {
	a := &archive{ctx: ctx, source: &budgetReaderAt{ReaderAt: file, left: maxDirectory}, parts: map[string]*zip.File{}}
	directory, err := zip.NewReader(a.source, file.Size())
	if err != nil {
		return nil, a.explain(err)
	}
	a.source.left = math.MaxInt
	for _, part := range directory.File {
		a.parts[strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(part.Name, `\`, "/"), "/"))] = part
	}
	return a, nil
}

// explain returns the error of the storage, if any, and otherwise the fault of an invalid ZIP file.
func (a *archive) explain(err error) error {
	var known *fault.Error
	switch {
	case a.source.failed != nil:
		return a.source.failed
	case errors.As(err, &known), a.ctx.Err() != nil:
		return err
	default:
		return wrong(fault.Damaged, nil)
	}
}

// has reports whether the archive contains a part.
func (a *archive) has(name string) bool { return a.parts[strings.ToLower(name)] != nil }

// open returns a reader of a decompressed part of at most limit bytes.
func (a *archive) open(name string, limit int64) (io.ReadCloser, error) {
	part := a.parts[strings.ToLower(name)]
	switch {
	case part == nil:
		return nil, wrong(fault.Damaged, nil)
	case part.Flags&1 != 0:
		return nil, wrong(fault.Encrypted, nil)
	case part.UncompressedSize64 > uint64(limit):
		return nil, wrong(fault.UnpackedTooBig, limit)
	}
	unpacked, err := part.Open()
	if err != nil {
		return nil, a.explain(err)
	}
	return &partReader{ReadCloser: unpacked, archive: a, limit: limit, left: limit}, nil
}

// partReader reads a part of the archive. It limits the size itself, because the size in the directory can be wrong.
type partReader struct {
	io.ReadCloser
	archive *archive
	limit   int64
	left    int64
}

// Read implements io.Reader.
func (p *partReader) Read(b []byte) (int, error) {
	if err := p.archive.ctx.Err(); err != nil {
		return 0, err //nolint:wrapcheck // Open and Next return the reason
	}
	n, err := p.ReadCloser.Read(b)
	if p.left -= int64(n); p.left < 0 {
		return 0, wrong(fault.UnpackedTooBig, p.limit)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.ErrUnexpectedEOF is a different error
		err = p.archive.explain(err)
	}
	return n, err
}

// targetOf returns the name of the part that a relationship refers to. `from` is the part with the relationship.
func targetOf(from, target string) string {
	if strings.HasPrefix(target, "/") {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(from), target)
}

// Close implements io.Closer. It never fails: Read has already returned the error, if any.
func (p *partReader) Close() error {
	_ = p.ReadCloser.Close()
	return nil
}
