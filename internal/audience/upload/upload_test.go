package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"lksms/internal/audience/upload"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is the service on a test database.
type bundle struct {
	*testing.T
	db *postgres.DB
	*upload.Service
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return bundle{t, db, upload.New(db)}
}

var meta = upload.Meta{CompanyID: 1, SubmittedBy: "somebody", Name: "list.csv"}

func (b bundle) count(sql string) (n int) {
	b.Helper()
	if err := b.db.QueryRow(b.Context(), sql).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func (b bundle) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.db.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// expectRows fails the test if the numbers of stored uploads and of their parts differ from the given numbers.
func (b bundle) expectRows(uploads, parts int) {
	b.Helper()
	if n, m := b.count("SELECT count(*) FROM uploads"), b.count("SELECT count(*) FROM upload_parts"); n != uploads || m != parts {
		b.Errorf("%d uploads with %d parts, want %d with %d", n, m, uploads, parts)
	}
}

func TestAnUploadIsReadAsItWasReceived(t *testing.T) {
	b := setup(t)
	const part = 256 << 10
	for _, size := range []int{0, 1, part - 1, part, part + 1, 3*part + 17} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i * 7 / 3)
		}
		u, err := b.Receive(t.Context(), iotest.HalfReader(bytes.NewReader(content)), meta)
		if err != nil {
			t.Fatal(err)
		}
		file, err := b.Open(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		if file.Size() != int64(size) || u.Size != int64(size) || file.Name() != "list.csv" {
			t.Errorf("%q of %d bytes", file.Name(), file.Size())
		}
		if err := iotest.TestReader(io.NewSectionReader(file, 0, file.Size()), content); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	b.expectRows(6, 0+1+1+1+2+4)
}

func TestFileNamesAreCutToTheStorableLength(t *testing.T) {
	b := setup(t)
	for name, want := range map[string]string{
		`C:\lists\名单.xlsx`: "名单.xlsx", "../../etc/passwd": "passwd", "a\x00\xff.csv": "a\uFFFD.csv", "": "", "/": "",
		strings.Repeat("长", 300) + ".csv": strings.Repeat("长", 251) + ".csv",
	} {
		u, err := b.Receive(t.Context(), strings.NewReader("x"), upload.Meta{CompanyID: 1, Name: name})
		if err != nil || u.Name != want {
			t.Errorf("%q: %q, want %q: %v", name, u.Name, want, err)
		}
	}
}

func TestAnInterruptedUploadStoresNothing(t *testing.T) {
	b := setup(t)
	broken := errors.New("the caller has gone")
	_, err := b.Receive(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat("x", 600<<10)), iotest.ErrReader(broken)), meta)
	source := new(upload.SourceError)
	if !errors.As(err, &source) || !errors.Is(err, broken) {
		t.Error(err)
	}
	_, err = b.Receive(t.Context(), io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)), meta)
	if !errors.As(err, &source) {
		t.Errorf("a body that is cut off: %v", err)
	}
	b.expectRows(0, 0)
}

// endless yields any number of bytes.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestTheSizeOfAnUploadIsBounded(t *testing.T) {
	b := setup(t)
	_, err := b.Receive(t.Context(), endless{}, meta)
	if f := new(fault.Error); !errors.As(err, &f) || f.Kind != fault.TooLarge {
		t.Error(err)
	}
	if _, err := b.Receive(t.Context(), io.LimitReader(endless{}, upload.Most), meta); err != nil {
		t.Error(err)
	}
	b.expectRows(1, 400)
}

func TestTheTotalSizeOfTheUploadsOfACompanyIsBounded(t *testing.T) {
	b := setup(t)
	b.exec("INSERT INTO companies (company_no, name) VALUES ('other', 'o')")
	b.exec("INSERT INTO uploads (company_id, submitted_by, name, size) VALUES (1, '', '', $1)", 1<<30)
	_, err := b.Receive(t.Context(), strings.NewReader("x"), meta)
	if f := new(fault.Error); !errors.As(err, &f) || f.Reason != fault.RequestTooMuch || f.RetryAfter == 0 {
		t.Error(err)
	}
	if _, err := b.Receive(t.Context(), strings.NewReader("x"), upload.Meta{CompanyID: int64(b.count("SELECT max(id) FROM companies"))}); err != nil {
		t.Errorf("another company: %v", err)
	}
}

func TestAnUploadIsNotReceivedInATransaction(t *testing.T) {
	b := setup(t)
	err := b.db.Tx(t.Context(), func(ctx context.Context) error {
		_, err := b.Receive(ctx, strings.NewReader("x"), meta)
		return err
	})
	if err == nil {
		t.Error("the upload was received")
	}
}

// An upload that nothing uses is deleted after an hour. An upload in use is deleted only by Delete.
func TestUnusedUploadsAreDeleted(t *testing.T) {
	b := setup(t)
	receive := func() upload.Upload {
		u, err := b.Receive(t.Context(), strings.NewReader("x"), meta)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	old, used, dropped, fresh := receive(), receive(), receive(), receive()
	if err := b.Use(t.Context(), used.ID, "batch 1"); err != nil {
		t.Fatal(err)
	}
	if err := b.Use(t.Context(), used.ID, "batch 2"); err == nil {
		t.Error("two batches use one upload")
	}
	for _, u := range []upload.Upload{used, dropped} {
		if err := b.Drop(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
	b.exec("UPDATE uploads SET created_at = now() - interval '61 minutes' WHERE id <> $1", fresh.ID)
	b.exec("UPDATE uploads SET created_at = now() - interval '59 minutes' WHERE id = $1", fresh.ID)
	if n, err := b.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Errorf("%d were deleted: %v", n, err)
	}
	for u, want := range map[upload.Upload]bool{old: false, used: true, dropped: false, fresh: true} {
		if _, err := b.Open(t.Context(), u.ID); (err == nil) != want {
			t.Errorf("upload %d: %v", u.ID, err)
		}
	}
	if err := b.Use(t.Context(), old.ID, "batch 3"); err == nil {
		t.Error("a deleted upload is used")
	}
	if err := b.Delete(t.Context(), used.ID); err != nil {
		t.Error(err)
	}
	b.expectRows(1, 1)
}

func TestFormsAreReadInAnyOrder(t *testing.T) {
	b := setup(t)
	for _, isFirst := range []bool{true, false} {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		file := func() {
			part, err := w.CreateFormFile("file", "名单.csv")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(part, strings.Repeat("x", 300<<10))
		}
		if isFirst {
			file()
		}
		_ = w.WriteField("name", "批次")
		_ = w.WriteField("tag", "a")
		_ = w.WriteField("tag", "b")
		if !isFirst {
			file()
		}
		_ = w.Close()
		form, err := b.Form(t.Context(), iotest.OneByteReader(&body), upload.FormSpec{
			Boundary: w.Boundary(), Files: []string{"file", "rows"}, Fields: []string{"name", "tag"}, Meta: meta,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(form.Fields, form.FileField, form.File.Name, form.File.Size); got != "map[name:[批次] tag:[a b]]file名单.csv307200" {
			t.Error(got)
		}
	}
	b.expectRows(2, 4)
}

func TestAnInvalidFormIsRefusedAndStoresNothing(t *testing.T) {
	b := setup(t)
	const head = "--x\r\nContent-Disposition: form-data; name="
	file := head + "file; filename=a.csv\r\n\r\n" + strings.Repeat("a,b\r\n", 100_000) + "\r\n"
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                  {"", "request.malformed"},
		"cut off after the file":   {file, "request.malformed"},
		"cut off in the file":      {file[:1000], "request.malformed"},
		"cut off in a field":       {file + head + "name\r\n\r\nabc", "request.malformed"},
		"cut off in a header":      {file + head, "request.malformed"},
		"an unknown field":         {file + head + "colour\r\n\r\nred\r\n--x--", "request.invalid: colour unknown_field"},
		"an unknown file":          {file + head + "photo; filename=a.png\r\n\r\n\x89\r\n--x--", "request.invalid: photo unknown_field"},
		"two files":                {file + file + "--x--", "request.invalid: file duplicate"},
		"two fields with files":    {file + head + "rows\r\n\r\n[]\r\n--x--", "request.invalid: rows duplicate"},
		"a part without a name":    {file + "--x\r\nContent-Disposition: attachment\r\n\r\nx\r\n--x--", "request.malformed"},
		"a field that is no text":  {file + head + "name\r\n\r\n\xff\r\n--x--", "request.invalid: name bad_characters"},
		"a field with a NUL":       {file + head + "name\r\n\r\na\x00\r\n--x--", "request.invalid: name bad_characters"},
		"a long field":             {file + head + "name\r\n\r\n" + strings.Repeat("x", 300<<10) + "\r\n--x--", "request.too_large"},
		"a long header":            {file + head + "name\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\nx\r\n--x--", "request.too_large"},
		"many fields":              {file + strings.Repeat(head+"name\r\n\r\n\r\n", 10_000) + "--x--", "request.too_large"},
		"a preamble without end":   {strings.Repeat("-", 1<<20), "request.malformed"},
		"a long preamble":          {strings.Repeat("-\r\n", 1<<20), "request.too_large"},
		"a file beyond the bounds": {head + "file\r\n\r\n" + strings.Repeat("x", upload.Most+1) + "\r\n--x--", "request.too_large"},
	} {
		_, err := b.Form(t.Context(), strings.NewReader(c.body), upload.FormSpec{Boundary: "x", Files: []string{"file", "rows"}, Fields: []string{"name"}, Meta: meta})
		if f := new(fault.Error); !errors.As(err, &f) || f.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	form, err := b.Form(t.Context(), strings.NewReader(head+"file; filename=\"\"\r\n\r\n\r\n--x--"), upload.FormSpec{Boundary: "x", Files: []string{"file"}, Meta: meta})
	if err != nil || form.File != nil {
		t.Errorf("a file that was not chosen: %v %v", form, err)
	}
	b.expectRows(0, 0)
}

// A form without its closing boundary is refused. It is not read as a shorter form.
func TestATruncatedFormIsRefused(t *testing.T) {
	b := setup(t)
	spec := upload.FormSpec{Boundary: "x", Files: []string{"file"}, Fields: []string{"name", "more"}, Meta: meta}
	const whole = "--x\r\nContent-Disposition: form-data; name=name\r\n\r\nn\r\n--x\r\nContent-Disposition: form-data; name=file; filename=a\r\nX: y\r\n\r\na,b\r\n" +
		"--x\r\nContent-Disposition: form-data; name=more\r\n\r\nm\r\n"
	const end = "--x--"
	for cut := range len(whole) + len(end) - 1 {
		if form, err := b.Form(t.Context(), strings.NewReader((whole + end)[:cut]), spec); err == nil {
			t.Errorf("%d bytes are a whole form: %v", cut, form)
		}
	}
	form, err := b.Form(t.Context(), strings.NewReader(whole+end), spec)
	if err != nil || form.File == nil || form.Fields["name"][0] != "n" || form.Fields["more"][0] != "m" {
		t.Errorf("%v %v", form, err)
	}
}
