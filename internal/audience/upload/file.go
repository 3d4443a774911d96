package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"lksms/gen/uploadq"
	"lksms/internal/audience/sheet"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// cachedParts is the number of parts of a file that are kept in memory: a reader of a workbook alternates between the strings and the rows.
const cachedParts = 4

// file reads an upload.
type file struct {
	ctx  context.Context // context of Open, because io.ReaderAt has no context
	q    *uploadq.Queries
	id   int64
	name string
	size int64

	encoding string

	mu    sync.Mutex
	parts []cachedPart // the most recently used part is the first
}

type cachedPart struct {
	no    int64
	bytes []byte
}

// Open opens a complete upload. Reads fail after ctx has ended. An open file uses a database connection only during a read.
func (s *Service) Open(ctx context.Context, id int64) (sheet.File, error) {
	row, err := s.q.UploadGet(ctx, id)
	if err != nil {
		if postgres.IsNoRows(err) {
			err = errGone
		}
		return nil, fmt.Errorf("open upload: %w", err)
	}
	return &file{ctx: ctx, q: s.q, id: id, name: row.Name, size: row.Size, encoding: optional.Value(row.Encoding)}, nil
}

// Size implements sheet.File.
func (f *file) Size() int64 { return f.size }

// Name implements sheet.File.
func (f *file) Name() string { return f.name }

// Encoding implements sheet.File.
func (f *file) Encoding() string { return f.encoding }

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("read upload: negative offset")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		if at >= f.size {
			return n, io.EOF
		}
		part, err := f.part(at / partSize)
		if err != nil {
			return n, err
		}
		copied := copy(p[n:], part[at%partSize:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}

// part returns a part, from the cache or from the database.
func (f *file) part(no int64) ([]byte, error) {
	for i, cached := range f.parts {
		if cached.no == no {
			copy(f.parts[1:i+1], f.parts[:i])
			f.parts[0] = cached
			return cached.bytes, nil
		}
	}
	bytes, err := f.q.UploadPartGet(f.ctx, uploadq.UploadPartGetParams{UploadID: f.id, Part: int32(no)})
	if err != nil {
		return nil, fmt.Errorf("read upload: %w", err)
	}
	if want := min(partSize, f.size-no*partSize); int64(len(bytes)) != want {
		return nil, fmt.Errorf("read upload: part %d has %d bytes instead of %d", no, len(bytes), want)
	}
	if len(f.parts) == cachedParts {
		f.parts = f.parts[:cachedParts-1]
	}
	f.parts = append([]cachedPart{{no, bytes}}, f.parts...)
	return bytes, nil
}
