package upload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"slices"
	"strings"

	"lksms/gen/uploadq"
	"lksms/internal/audience/sheet"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// maxFields is the maximum size of a form in bytes without its file: headers, fields, and separators.
const maxFields = 256 << 10

// FormSpec defines which fields a form can have.
type FormSpec struct {
	Boundary string
	Files    []string // names of file fields; a form contains at most one file
	Fields   []string // names of the other fields
	Meta     Meta     // metadata of the file; Form sets Name
}

// Form is a form of the type multipart/form-data.
type Form struct {
	Fields    map[string][]string
	File      *Upload // nil: no file
	FileField string
}

// Form reads a form and stores its file in the same way as Receive. The parts of the form can have any order. Errors: *SourceError. Faults: those of Receive;
// request.malformed; request.invalid for an unknown field or a second file.
func (s *Service) Form(ctx context.Context, body io.Reader, spec FormSpec) (Form, error) {
	bounded := &boundedReader{Reader: body, left: maxFields, tail: []byte("\n")}
	f := Form{Fields: map[string][]string{}}
	for parts := multipart.NewReader(bounded, spec.Boundary); ; {
		part, err := parts.NextPart()
		switch {
		case err == io.EOF && bounded.hasRead("\n--"+spec.Boundary+"--"): //nolint:errorlint // a truncated form ends with an error that wraps io.EOF, or with io.EOF itself
			if err = s.setEncoding(ctx, f); err == nil {
				return f, nil
			}
		case err == nil:
			err = s.readPart(ctx, bounded, &f, part, spec)
		default:
			err = bounded.explain(err)
		}
		if err != nil {
			if f.File != nil {
				err = errors.Join(err, s.Drop(ctx, *f.File))
			}
			return Form{}, err
		}
	}
}

// encodingField is the field of a form that names the encoding of its file. This field can come after the file.
const encodingField = "encoding"

// setEncoding stores the encoding of the file of a form if the form names a supported encoding. The contract rejects other encodings.
func (s *Service) setEncoding(ctx context.Context, f Form) error {
	named := f.Fields[encodingField]
	if f.File == nil || len(named) == 0 || !slices.Contains(sheet.Encodings, named[0]) {
		return nil
	}
	return postgres.Wrap("store encoding of upload", s.q.UploadSetEncoding(ctx, uploadq.UploadSetEncodingParams{ID: f.File.ID, Encoding: &named[0]}), nil)
}

// readPart reads a part of a form.
func (s *Service) readPart(ctx context.Context, bounded *boundedReader, f *Form, part *multipart.Part, spec FormSpec) error {
	switch name := part.FormName(); {
	case name == "":
		return fault.New(fault.Malformed, fault.RequestMalformed)
	case slices.Contains(spec.Files, name):
		return s.readFile(ctx, bounded, f, part, spec.Meta)
	case !slices.Contains(spec.Fields, name):
		return fault.InvalidField(postgres.Text(name), fault.UnknownField, nil)
	default:
		var value strings.Builder
		if _, err := io.Copy(&value, part); err != nil {
			return bounded.explain(err)
		}
		if !postgres.IsText(value.String()) {
			return fault.InvalidField(name, fault.BadCharacters, nil)
		}
		f.Fields[name] = append(f.Fields[name], value.String())
		return nil
	}
}

// readFile stores the file of a form. It ignores the empty file that a browser sends for an empty file field.
func (s *Service) readFile(ctx context.Context, bounded *boundedReader, f *Form, part *multipart.Part, meta Meta) error {
	bounded.isFile = true
	defer func() { bounded.isFile = false }()
	content := bufio.NewReader(part)
	if _, err := content.Peek(1); errors.Is(err, io.EOF) && part.FileName() == "" {
		return nil
	}
	if f.File != nil {
		return fault.InvalidField(part.FormName(), fault.Duplicate, nil)
	}
	meta.Name = part.FileName()
	u, err := s.Receive(ctx, content, meta)
	var source *SourceError
	switch {
	case errors.As(err, &source):
		return bounded.explain(source.Err)
	case err != nil:
		return err
	}
	f.File, f.FileField = &u, part.FormName()
	return nil
}

// boundedReader reads the body of a form, and limits the number of bytes outside the file.
type boundedReader struct {
	io.Reader
	left   int
	isFile bool
	tail   []byte // the last bytes that were read
	failed error  // error of reading the body
}

// maxTail is the number of last bytes that are kept. The end of a form is in the last buffer of multipart.Reader (4 KiB), or starts in the buffer before it.
const maxTail = 8 << 10

// hasRead reports whether the last bytes contain a text.
func (b *boundedReader) hasRead(text string) bool { return bytes.Contains(b.tail, []byte(text)) }

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.failed = fault.New(fault.TooLarge, fault.RequestTooLarge)
		return 0, b.failed
	}
	n, err := b.Reader.Read(p)
	if !b.isFile {
		b.left -= n
	}
	kept := copy(b.tail, b.tail[max(0, len(b.tail)-max(0, maxTail-n)):])
	b.tail = append(b.tail[:kept], p[max(0, n-maxTail):n]...)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err //nolint:wrapcheck // the error is wrapped by explain
}

// explain returns the error of the body. If the body was read without an error, it returns the error of the form.
func (b *boundedReader) explain(err error) error {
	var known *fault.Error
	switch {
	case errors.As(b.failed, &known):
		return known
	case b.failed != nil:
		return &SourceError{b.failed}
	case errors.As(err, &known):
		return known
	default:
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}
