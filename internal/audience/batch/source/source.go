// Package source reads the rows of a batch, either from an uploaded list or from the contacts of its tags.
package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/text/unicode/norm"

	"lksms/gen/batchq"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/sheet"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// Combined is stored as the tag of a batch if several tags select its contacts. No real tag has this name.
const Combined = ""

// Source returns the rows of a batch in the order of their numbers. A list returns the same rows each time it is opened. The contacts of a tag can change
// between two openings.
type Source interface {
	AddressColumn() string
	SignColumn(used []string) string          // SignColumn returns the column with the signatures of rows; empty: no such column. used contains the columns that the text uses.
	Missing(names []string) []string          // Missing returns those names that are not columns. It returns nil if the columns are unknown before the rows are read.
	Encoding() (name string, isDoubtful bool) // Encoding returns the encoding of a list, see sheet.Reader.Encoding. The name is empty if the source is not a list.
	Next(ctx context.Context) (Row, error)
	Close()
}

// Row is a row of a source.
type Row struct {
	No      int64
	Address sheet.Cell
	Sign    sheet.Cell
	Value   func(name string) (cell sheet.Cell, is bool)
	Extra   int // see sheet.Row.Extra
}

// Open starts to read the rows of a batch. Fault: request.invalid if the list, the column with addresses, or a tag is invalid. The list of a batch without a
// list and a tag counts as invalid.
func Open(ctx context.Context, uploads *upload.Service, contacts *contact.Service, b batchq.Batch) (Source, error) {
	if b.Tag != nil {
		return openTag(ctx, contacts, b)
	}
	if b.UploadID == nil {
		return nil, fault.InvalidField("file", fault.NotThere, nil)
	}
	file, err := uploads.Open(ctx, *b.UploadID)
	if err != nil {
		return nil, fmt.Errorf("open list: %w", err)
	}
	r, err := sheet.Open(ctx, file, sheet.Options{})
	if err != nil {
		return nil, err //nolint:wrapcheck // a fault of the list
	}
	l := &list{Reader: r, indexes: map[string]int{}}
	if l.address, err = addressIndex(r, b.Channel, b.PhoneColumn); err != nil {
		l.Close()
		return nil, err
	}
	if l.sign, err = signIndex(r, b.SignColumn); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// signIndex returns the index of the column with signatures that the request names, or -1 if the request names no column.
func signIndex(r *sheet.Reader, name *string) (int, error) {
	if name == nil {
		return -1, nil
	}
	i, is := r.Column(*name)
	if !is {
		return 0, fault.InvalidField("sign_column", fault.NotThere, nil)
	}
	return i, nil
}

// usualSigns contains the usual names of columns with signatures. An earlier name takes precedence. The console has the same names (columns.json).
var usualSigns = []string{"sign", "sms_sign", "短信签名", "签名"}

// columnField returns the name of the request's field that names the column with addresses.
func columnField(channel string) string {
	if channel == directory.SMS {
		return "phone_column"
	}
	return "address_column"
}

// addressIndex returns the index of the column with addresses. If the request names no column, this is the column with a usual name, or
// the only column. The console has the same names (columns.json).
func addressIndex(r *sheet.Reader, channel, name string) (int, error) {
	if name != "" {
		if i, is := r.Column(name); is {
			return i, nil
		}
		return 0, fault.InvalidField(columnField(channel), fault.NotThere, nil)
	}
	at, err := r.Find(columnField(channel), contact.AddressColumns(channel))
	switch {
	case err != nil || at >= 0:
		return at, err //nolint:wrapcheck // the error is a fault
	case len(r.Columns()) == 1:
		return 0, nil
	}
	return 0, fault.InvalidField(columnField(channel), fault.Required, nil)
}

// list is the source of an uploaded list.
type list struct {
	*sheet.Reader

	address int
	sign    int            // -1: no such column
	indexes map[string]int // column index by the name in the text; -1: the list has no such column
}

func (l *list) AddressColumn() string { return l.Columns()[l.address] }

// SignColumn returns the column of the signature. If the request named no column, this is the first column that has a usual name and is not in used, the
// columns of the text.
func (l *list) SignColumn(used []string) string {
	if l.sign >= 0 {
		return l.Columns()[l.sign]
	}
	for _, usual := range usualSigns {
		i, is := l.Column(usual)
		isUsed := slices.ContainsFunc(used, func(name string) bool {
			at, isThere := l.index(name)
			return isThere && at == i
		})
		if is && i != l.address && !isUsed {
			return l.Columns()[i]
		}
	}
	return ""
}

func (l *list) Close() { _ = l.Reader.Close() } // Close ignores the error, because the reader writes nothing

// index returns the index of the column with a name. The names in placeholders are in Unicode normal form NFC.
func (l *list) index(name string) (int, bool) {
	i, known := l.indexes[name]
	if !known {
		column, is := l.Column(name)
		if i = column; !is {
			i = slices.IndexFunc(l.Columns(), func(column string) bool { return norm.NFC.String(column) == name })
		}
		l.indexes[name] = i
	}
	return i, i >= 0
}

func (l *list) Missing(names []string) (missing []string) {
	for _, name := range names {
		if _, is := l.index(name); !is {
			missing = append(missing, name)
		}
	}
	return missing
}

func (l *list) Next(context.Context) (Row, error) {
	row, err := l.Reader.Next()
	if err != nil {
		return Row{}, err //nolint:wrapcheck // a fault of the list, or io.EOF
	}
	var sign sheet.Cell
	if l.sign >= 0 {
		sign = row.Cells[l.sign]
	}
	return Row{No: row.No, Address: row.Cells[l.address], Sign: sign, Extra: row.Extra, Value: func(name string) (sheet.Cell, bool) {
		i, is := l.index(name)
		if !is {
			return sheet.Cell{}, false
		}
		return row.Cells[i], true
	}}, nil
}

// contactPage is the maximum number of contacts that one statement reads.
const contactPage = 1000

// tagged is the source of the contacts of tags.
type tagged struct {
	contacts  *contact.Service
	channel   string
	field     string // field that contains the address
	selection contact.Selection
	sign      string // field or attribute that contains the signature; empty: no signature
	page      []contact.Row
	after     string
	isLast    bool
	no        int64
}

func openTag(ctx context.Context, contacts *contact.Service, b batchq.Batch) (Source, error) {
	field, _ := contact.AddressField(b.Channel)
	if b.PhoneColumn != "" && b.PhoneColumn != field {
		return nil, fault.InvalidField(columnField(b.Channel), fault.NotAllowed, field)
	}
	t := &tagged{contacts: contacts, channel: b.Channel, field: field, sign: optional.Value(b.SignColumn)}
	t.selection = contact.Selection{CompanyID: b.CompanyID, Tags: b.TagsAll, AnyTags: b.TagsAny, NotTags: b.TagsNone}
	named := map[string][]string{"tags_all": b.TagsAll, "tags_any": b.TagsAny, "tags_none": b.TagsNone}
	if *b.Tag != Combined {
		t.selection.Tags = []string{*b.Tag}
		named = map[string][]string{"tag": t.selection.Tags}
	}
	for _, field := range slices.Sorted(maps.Keys(named)) {
		for _, tag := range named[field] {
			if _, err := contacts.GetTag(ctx, b.CompanyID, tag); err != nil {
				return nil, fault.OfField(err, contact.ErrNoTag, field)
			}
		}
	}
	return t, nil
}

func (t *tagged) AddressColumn() string { return t.field }

func (t *tagged) SignColumn([]string) string { return t.sign }

// Missing returns nil, because each contact can have different attributes.
func (t *tagged) Missing([]string) []string { return nil }

// Encoding returns an empty name, because contacts are not a file.
func (t *tagged) Encoding() (string, bool) { return "", false }

func (t *tagged) Close() {}

func (t *tagged) Next(ctx context.Context) (Row, error) {
	for len(t.page) == 0 {
		if t.isLast {
			return Row{}, io.EOF
		}
		page, end, err := t.contacts.ListSelected(ctx, t.selection, t.after, contactPage)
		if err != nil {
			return Row{}, fmt.Errorf("read contacts: %w", err)
		}
		switch {
		case end != "":
			t.after = end
		case len(page) < contactPage:
			t.isLast = true
		default:
			t.after = page[len(page)-1].UserID
		}
		t.page = page
	}
	c := t.page[0]
	t.page, t.no = t.page[1:], t.no+1
	values := map[string]string{}
	if err := json.Unmarshal(c.Attributes, &values); err != nil {
		return Row{}, fmt.Errorf("read attributes of contact: %w", err)
	}
	for name, value := range map[string]*string{
		"user_id": &c.UserID, "name": c.Name, "phone": c.Phone, "email": c.Email, "dingtalk_name": c.DingtalkName, "wechat_openid": c.WechatOpenid,
	} {
		if value != nil {
			values[name] = *value
		}
	}
	return Row{No: t.no, Address: sheet.Cell{Text: contact.Address(c, t.channel)}, Sign: sheet.Cell{Text: values[t.sign]}, Value: func(name string) (sheet.Cell, bool) {
		value, is := values[name]
		return sheet.Cell{Text: value}, is
	}}, nil
}
