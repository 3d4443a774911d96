// Package contact owns the contacts and tags of companies. A contact is a user with one address for each channel. A tag is a named set of contacts.
package contact

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"unicode/utf8"

	"lksms/gen/contactq"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Service manages contacts.
type Service struct {
	db        *postgres.DB
	q         *contactq.Queries
	uploads   *upload.Service
	settings  *setting.Service
	directory *directory.Service
}

// New returns a Service on db.
func New(db *postgres.DB, uploads *upload.Service, settings *setting.Service, dir *directory.Service) *Service {
	return &Service{db: db, q: contactq.New(db), uploads: uploads, settings: settings, directory: dir}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "empty-deleted-tags", Interval: 10 * time.Second, Run: s.EmptyTags},
		{Roles: servers.Roles{servers.Sweep}, Name: "import-contacts", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Import},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-contact-imports", Interval: 10 * time.Minute, Run: s.DeleteExpiredImports},
	}
}

// Contact is the stored data of a user. In a change of an existing contact, a nil field keeps its value and an empty field is cleared. If Attributes is not
// nil, it replaces all existing attributes.
type Contact struct {
	UserID                                         string
	Name, Phone, DingTalkName, WeChatOpenID, Email *string
	Attributes                                     *map[string]string // an empty value removes the attribute
}

// Row is a stored contact.
type Row = contactq.Contact

// Put inserts or changes either all contacts or none of them, in one transaction. It returns the number of contacts. region applies to phone numbers without a
// country code; empty: the default region of the company. Faults: request.invalid, limit.reached.
func (s *Service) Put(ctx context.Context, companyID int64, region string, contacts []Contact) (int, error) {
	region, err := s.directory.RegionOr(ctx, &companyID, region)
	if err != nil {
		return 0, err
	}
	p := contactq.ContactChangeParams{CompanyID: companyID}
	addField := func(texts *[]string, given *[]bool, text *string) {
		*texts, *given = append(*texts, optional.Value(text)), append(*given, text != nil)
	}
	var wrong fault.Fields
	seen := map[string]bool{}
	for i, c := range contacts {
		field := func(name string) string { return fmt.Sprintf("contacts.%d.%s", i, name) }
		if seen[c.UserID] {
			wrong.Invalid(field("user_id"), fault.Duplicate, nil)
		}
		seen[c.UserID] = true
		if err := wrong.Add(c.normalise(region, field)); err != nil {
			return 0, err
		}
		attributes, err := encodeAttributes(field("attributes"), optional.Value(c.Attributes))
		if err = wrong.Add(err); err != nil {
			return 0, err
		}
		p.UserIds = append(p.UserIds, c.UserID)
		p.Attributes, p.AttributesGiven = append(p.Attributes, attributes), append(p.AttributesGiven, c.Attributes != nil)
		addField(&p.Names, &p.NamesGiven, c.Name)
		addField(&p.Phones, &p.PhonesGiven, c.Phone)
		addField(&p.DingtalkNames, &p.DingtalkNamesGiven, c.DingTalkName)
		addField(&p.WechatOpenids, &p.WechatOpenidsGiven, c.WeChatOpenID)
		addField(&p.Emails, &p.EmailsGiven, c.Email)
	}
	if err := wrong.Err(); err != nil {
		return 0, err
	}
	var n int64
	err = s.change(ctx, companyID, func(ctx context.Context) (err error) {
		if err = s.q.ContactAdd(ctx, contactq.ContactAddParams{
			CompanyID: companyID, UserIds: p.UserIds, Names: p.Names, Phones: p.Phones, DingtalkNames: p.DingtalkNames, WechatOpenids: p.WechatOpenids,
			Emails: p.Emails, Attributes: p.Attributes,
		}); err != nil {
			return postgres.Wrap("add contacts", err, nil)
		}
		n, err = s.q.ContactChange(ctx, p)
		return postgres.Wrap("change contacts", err, nil)
	})
	return int(n), err
}

// Lock blocks other changes of the contacts and tags of a company until the transaction of ctx ends.
func Lock(ctx context.Context, db *postgres.DB, companyID int64) error {
	_, err := contactq.New(db).ContactsHold(ctx, companyID)
	return postgres.Wrap("lock contacts", err, nil)
}

// change calls do in a transaction that blocks other changes of the contacts and tags of the company.
func (s *Service) change(ctx context.Context, companyID int64, do func(ctx context.Context) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		if err := Lock(ctx, s.db, companyID); err != nil {
			return err
		}
		return do(ctx)
	})
}

// These limits apply to one attribute. A constraint of the table contacts limits the total size of all attributes of a contact.
const (
	maxAttributes     = 50
	maxAttributeName  = 50  // characters
	maxAttributeValue = 500 // characters
)

// encodeAttributes returns attributes as JSON, without empty values. Fault: request.invalid.
func encodeAttributes(field string, attributes map[string]string) ([]byte, error) {
	var wrong fault.Fields
	kept := make(map[string]string, len(attributes))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if f := checkAttribute(field, name, attributes[name]); f != nil {
			wrong.Invalid(f.Fields[0].Name, f.Fields[0].Rule, f.Fields[0].Limit)
		}
		if attributes[name] != "" {
			kept[name] = attributes[name]
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
	}
	if len(kept) > maxAttributes {
		return nil, fault.InvalidField(field, fault.TooManyItems, maxAttributes)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("write attributes: %w", err)
	}
	return text, nil
}

// checkAttribute returns the fault of an invalid attribute, or nil. The name must not contain a brace, because braces enclose the names in placeholders.
func checkAttribute(field, name, value string) *fault.Error {
	isForbidden := func(r rune) bool { return r < ' ' || r == '{' || r == '}' }
	switch {
	case name == "":
		return fault.InvalidField(field, fault.Empty, nil)
	case utf8.RuneCountInString(name) > maxAttributeName:
		return fault.InvalidField(field, fault.TooLong, maxAttributeName)
	case strings.ContainsFunc(name, isForbidden) || strings.TrimSpace(name) != name:
		return fault.InvalidField(field, fault.BadCharacters, nil)
	case utf8.RuneCountInString(value) > maxAttributeValue:
		return fault.InvalidField(field+"."+name, fault.TooLong, maxAttributeValue)
	}
	return nil
}

// Attributes returns the attributes of a contact.
func Attributes(c Row) (attributes map[string]string, err error) {
	if err := json.Unmarshal(c.Attributes, &attributes); err != nil {
		return nil, fmt.Errorf("read attributes: %w", err)
	}
	return attributes, nil
}

// List returns up to limit contacts with user ids greater than `after`, in the order of user ids.
func (s *Service) List(ctx context.Context, companyID int64, after string, limit int) ([]Row, error) {
	rows, err := s.q.ContactList(ctx, contactq.ContactListParams{CompanyID: companyID, AfterID: after, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list contacts", err, nil)
}

// Position is a position in the results of a search: the position after the entry with this Term and UserID. Term is the matching field in lower case, and
// UserID is the user id of its contact.
type Position struct{ Term, UserID string }

// from returns p. If p is before all terms with the prefix, from returns the position before the first of these terms.
func (p Position) from(prefix string) Position {
	if p.Term < prefix {
		return Position{Term: prefix}
	}
	return p
}

// fieldsFound is the number of fields that Search reads.
const fieldsFound = 4

// Search returns up to limit contacts that have a field which starts with text. It ignores case, sorts by these fields and returns each contact once. The next
// page starts after next; if next is nil, no page follows. Search reads a bounded number of entries. A page can therefore contain fewer than limit contacts,
// even none, although another page follows.
func (s *Service) Search(ctx context.Context, companyID int64, text string, after Position, limit int) (found []Row, next *Position, err error) {
	region, err := s.directory.DefaultRegion(ctx, &companyID)
	if err != nil {
		return nil, nil, err
	}
	prefix := strings.TrimSpace(text)
	if strings.Contains(text, "@") { // names can contain invisible characters, and addresses cannot
		prefix = address.EmailForms(text)[0]
	}
	prefix = strings.ToLower(prefix) // in the same way as the SQL function fold_case
	from := after.from(prefix)
	p := contactq.ContactSearchParams{
		CompanyID: companyID, Prefix: prefix, AfterTerm: from.Term, AfterID: from.UserID, MaxRows: int32(fieldsFound*limit + 1),
	}
	for _, number := range phone.Prefixes(text, region) {
		from := after.from(number)
		p.Numbers, p.NumbersAfter, p.NumbersAfterID = append(p.Numbers, number), append(p.NumbersAfter, from.Term), append(p.NumbersAfterID, from.UserID)
	}
	rows, err := s.q.ContactSearch(ctx, p)
	if err != nil {
		return nil, nil, postgres.Wrap("search contacts", err, nil)
	}
	var last Position
	for _, row := range rows {
		if row.IsFirst {
			if len(found) == limit {
				return found, &last, nil
			}
			found = append(found, row.Contact)
		}
		last = Position{Term: row.Term, UserID: row.Contact.UserID}
	}
	if len(rows) == int(p.MaxRows) {
		return found, &last, nil
	}
	return found, nil, nil
}

var errNoContact = fault.New(fault.NotFound, fault.ContactNotFound)

// Get returns one contact. Fault: contact.not_found.
func (s *Service) Get(ctx context.Context, companyID int64, userID string) (Row, error) {
	rows, err := s.q.ContactsNamed(ctx, contactq.ContactsNamedParams{CompanyID: companyID, UserIds: []string{userID}})
	return postgres.One(rows, err, "get contact", errNoContact)
}

// Delete removes a contact. Fault: contact.not_found.
func (s *Service) Delete(ctx context.Context, companyID int64, userID string) error {
	return s.change(ctx, companyID, func(ctx context.Context) error {
		n, err := s.q.ContactDelete(ctx, contactq.ContactDeleteParams{CompanyID: companyID, UserID: userID})
		return postgres.DeletedOne(n, err, "delete contact", errNoContact)
	})
}

// FindByUserIDs returns the existing contacts with the given user ids, in the order of user ids.
func (s *Service) FindByUserIDs(ctx context.Context, companyID int64, userIDs []string) ([]Row, error) {
	rows, err := s.q.ContactsNamed(ctx, contactq.ContactsNamedParams{CompanyID: companyID, UserIds: userIDs})
	return rows, postgres.Wrap("find contacts", err, nil)
}

// Known is a contact that is found by its phone number.
type Known struct {
	UserID string
	Name   *string
	Tags   []string // the first maxKnownTags tags, by name
}

// maxKnownTags is the maximum number of tags of a Known contact.
const maxKnownTags = 20

// FindByPhones returns the contact with each pair of a company and a phone number in E.164, in the order of the pairs; nil: no contact has the number. Of
// several contacts with a number, it returns the first by user id.
func (s *Service) FindByPhones(ctx context.Context, companyIDs []int64, phones []string) ([]*Known, error) {
	known := make([]*Known, len(phones))
	rows, err := s.q.ContactsOfPhones(ctx, contactq.ContactsOfPhonesParams{CompanyIds: companyIDs, Phones: phones, MaxTags: maxKnownTags})
	for _, row := range rows {
		known[row.Nth-1] = &Known{UserID: row.UserID, Name: row.Name, Tags: row.Tags}
	}
	return known, postgres.Wrap("find contacts by phone", err, nil)
}

// Address returns the address of a contact on a channel, or an empty text if the contact has no address. If the table contacts has no field for the channel,
// the user id is the address.
func Address(c Row, channel string) string {
	switch channel {
	case directory.SMS:
		return optional.Value(c.Phone)
	case directory.DingTalk:
		return optional.Value(c.DingtalkName)
	case directory.WeChat:
		return optional.Value(c.WechatOpenid)
	case directory.Email:
		return optional.Value(c.Email)
	}
	return c.UserID
}

// Addresses returns the addresses of users on a channel, in the order of userIDs. A user without an address has an empty text.
func (s *Service) Addresses(ctx context.Context, companyID int64, channel string, userIDs []string) ([]string, error) {
	rows, err := s.FindByUserIDs(ctx, companyID, userIDs)
	if err != nil {
		return nil, err
	}
	contacts := make(map[string]Row, len(rows))
	for _, row := range rows {
		contacts[row.UserID] = row
	}
	addresses := make([]string, len(userIDs))
	for i, id := range userIDs {
		c := contacts[id]
		c.UserID = id
		addresses[i] = Address(c, channel)
	}
	return addresses, nil
}
