// Package upload owns the files of requests. It stores a file in the database in parts, as the file arrives, so that any server can process it. A file is
// deleted after processing, or one hour after its arrival if nothing uses it by then.
//
// To add an operation that receives a file:
//
//   - In the contract, its body is multipart/form-data, with a schema in which format: binary makes a property a file. A form contains at most one file. With
//     the parameter IdempotencyKey, a repeat is recognised by its fields and by the name and content of its file.
//   - The handler ignores the body of the generated code. It calls gate.FormOf for the checked fields and the form, then Open and sheet.Open. If the
//     request has no file, File of the form is nil.
//   - The domain stores its row, with an upload_id, and calls Use in the same transaction. Otherwise the file is deleted after the answer.
//   - The code that processes the file opens it again, on any server, and calls Delete in the transaction in which it records the end of its work.
//
// apptest.Form creates forms for tests.
package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"lksms/gen/uploadq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

const (
	// Most is the maximum size of a file in bytes.
	Most = 100 << 20

	partSize    = 256 << 10
	maxName     = 255     // maximum length in characters
	maxCompany  = 1 << 30 // maximum total size in bytes of the complete uploads of a company; above it, the company cannot start another upload
	unusedFor   = time.Hour
	deleteBatch = 10
)

// Service stores uploads.
type Service struct {
	db *postgres.DB
	q  *uploadq.Queries
}

// New returns a Service on db.
func New(db *postgres.DB) *Service { return &Service{db: db, q: uploadq.New(db)} }

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-unused-uploads", Interval: 5 * time.Minute, Run: s.DeleteExpired},
	}
}

// Meta describes the owner and the name of an upload.
type Meta struct {
	CompanyID   int64
	SubmittedBy string // user name
	Name        string // name of the file; folders in the name are removed
}

// Upload is a received file.
type Upload struct {
	ID   int64
	Name string
	Size int64
	Hash [sha256.Size]byte // SHA-256 of the content
}

var errTooMuch = &fault.Error{Kind: fault.TooMany, Reason: fault.RequestTooMuch, RetryAfter: time.Minute}

// SourceError is an error of the reader that Receive reads from. Errors of the database have other types.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "read upload: " + e.Err.Error() }

// Unwrap returns the error of the reader.
func (e *SourceError) Unwrap() error { return e.Err }

// Receive stores the content of r. Each part is a separate transaction. Receive returns an error inside a transaction, because this transaction would stay open
// until the file has arrived. After an error, Receive deletes the parts that it has stored. Errors: *SourceError. Faults: request.too_large, request.too_much.
func (s *Service) Receive(ctx context.Context, r io.Reader, meta Meta) (Upload, error) {
	if s.db.InTx(ctx) {
		return Upload{}, errors.New("receive upload: inside a transaction")
	}
	u, err := s.add(ctx, r, meta)
	if err != nil && u.ID != 0 {
		return Upload{}, errors.Join(err, s.Drop(ctx, u))
	}
	return u, err
}

// Put works like Receive for content in memory. It can run inside the transaction of ctx.
func (s *Service) Put(ctx context.Context, content []byte, meta Meta) (u Upload, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		u, err = s.add(ctx, bytes.NewReader(content), meta)
		return err
	})
	return u, postgres.Wrap("store upload", err, nil)
}

// add stores the content of r. After an error, parts of the returned upload can be stored.
func (s *Service) add(ctx context.Context, r io.Reader, meta Meta) (Upload, error) {
	u := Upload{Name: nameOf(meta.Name)}
	var err error
	u.ID, err = s.q.UploadAdd(ctx, uploadq.UploadAddParams{
		CompanyID: meta.CompanyID, SubmittedBy: meta.SubmittedBy, Name: u.Name, MaxBytes: maxCompany,
	})
	if err != nil {
		return Upload{}, postgres.Wrap("begin upload", err, errTooMuch)
	}
	err = s.store(ctx, &u, r)
	return u, err
}

// store stores the parts of an upload, and completes it.
func (s *Service) store(ctx context.Context, u *Upload, r io.Reader) error {
	hash, part := sha256.New(), make([]byte, partSize)
	for no := int32(0); ; no++ {
		n, err := fill(r, part)
		isLast := err == io.EOF //nolint:errorlint // readers return io.EOF unwrapped, and io.ErrUnexpectedEOF is a different error
		if err != nil && !isLast {
			return &SourceError{err}
		}
		if u.Size += int64(n); u.Size > Most {
			return fault.New(fault.TooLarge, fault.RequestTooLarge)
		}
		if n > 0 {
			_, _ = hash.Write(part[:n]) // never fails
			if err := s.q.UploadPartAdd(ctx, uploadq.UploadPartAddParams{UploadID: u.ID, Part: no, Bytes: part[:n]}); err != nil {
				return fmt.Errorf("store part of upload: %w", err)
			}
		}
		if isLast {
			break
		}
	}
	hash.Sum(u.Hash[:0])
	n, err := s.q.UploadComplete(ctx, uploadq.UploadCompleteParams{ID: u.ID, Size: u.Size})
	if err == nil && n == 0 {
		err = errGone
	}
	return postgres.Wrap("complete upload", err, nil)
}

// fill works like io.ReadFull, but returns the errors of r unchanged. io.ReadFull cannot be used: it returns io.ErrUnexpectedEOF for a short last part, and r
// returns the same error for a truncated body.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var read int
		read, err = r.Read(p[n:])
		n += read
	}
	return n, err
}

var errGone = errors.New("the upload was deleted")

// nameOf returns the name of a file without folders, in a form that PostgreSQL can store.
func nameOf(name string) string {
	name = path.Base(strings.ReplaceAll(postgres.Text(name), `\`, "/"))
	if name == "." || name == "/" {
		return ""
	}
	if runes := []rune(name); len(runes) > maxName {
		return string(runes[len(runes)-maxName:]) // keep the end, which contains the extension
	}
	return name
}

// Use keeps an upload until Delete is called. Call Use in the transaction that stores the row which needs the file. usedBy names this row, for example "batch
// 17".
func (s *Service) Use(ctx context.Context, id int64, usedBy string) error {
	n, err := s.q.UploadUse(ctx, uploadq.UploadUseParams{ID: id, UsedBy: usedBy})
	if err == nil && n == 0 {
		err = errGone
	}
	return postgres.Wrap("use upload", err, nil)
}

// Delete deletes an upload. Call Delete in the transaction that records the end of the processing of the file.
func (s *Service) Delete(ctx context.Context, id int64) error {
	return postgres.Wrap("delete upload", s.q.UploadDelete(ctx, id), nil)
}

// dropLimit is the timeout of Drop.
const dropLimit = 10 * time.Second

// Drop deletes an unused upload, even if ctx has ended. DeleteExpired deletes the upload later if Drop fails.
func (s *Service) Drop(ctx context.Context, u Upload) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
	defer cancel()
	return postgres.Wrap("drop upload", s.q.UploadDrop(ctx, u.ID), nil)
}

// DeleteExpired deletes the uploads that nothing has used within an hour. It returns the number of deleted uploads.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	n, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		return s.q.UploadsDeleteUnused(ctx, uploadq.UploadsDeleteUnusedParams{Keep: unusedFor, BatchSize: deleteBatch})
	})
	return n, postgres.Wrap("delete unused uploads", err, nil)
}
