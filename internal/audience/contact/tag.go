package contact

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"lksms/gen/contactq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// ErrNoTag is the fault of a tag that does not exist.
var ErrNoTag = fault.New(fault.NotFound, fault.TagNotFound)

// PutTag creates a tag if it does not exist. It returns the tag. Fault: limit.reached.
func (s *Service) PutTag(ctx context.Context, companyID int64, tag string) (row TagRow, err error) {
	err = s.change(ctx, companyID, func(ctx context.Context) error {
		if err := s.q.TagPut(ctx, contactq.TagPutParams{CompanyID: companyID, Tag: tag}); err != nil {
			return postgres.Wrap("put tag", err, nil)
		}
		row, err = s.GetTag(ctx, companyID, tag)
		return err
	})
	return row, err
}

// DeleteTag deletes a tag, but not its contacts. Fault: tag.not_found.
func (s *Service) DeleteTag(ctx context.Context, companyID int64, tag string) error {
	return s.change(ctx, companyID, func(ctx context.Context) error {
		n, err := s.q.TagDelete(ctx, contactq.TagDeleteParams{CompanyID: companyID, Tag: tag})
		return postgres.DeletedOne(n, err, "delete tag", ErrNoTag)
	})
}

// GetTag returns a tag. Fault: tag.not_found.
func (s *Service) GetTag(ctx context.Context, companyID int64, tag string) (TagRow, error) {
	rows, err := s.q.TagList(ctx, contactq.TagListParams{CompanyID: companyID, Tags: []string{tag}, BeforeID: math.MaxInt64, PageLimit: 1})
	return postgres.One(rows, err, "get tag", ErrNoTag)
}

// Tags returns up to limit tags with smaller ids than `before`, newest first. With a userID, it returns only tags that contain this contact. Fault:
// contact.not_found.
func (s *Service) Tags(ctx context.Context, companyID int64, userID *string, before int64, limit int) ([]TagRow, error) {
	if userID != nil {
		if _, err := s.Get(ctx, companyID, *userID); err != nil {
			return nil, err
		}
	}
	rows, err := s.q.TagList(ctx, contactq.TagListParams{CompanyID: companyID, UserID: userID, BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list tags", err, nil)
}

// Changed is the result of a change of a tag.
type Changed struct {
	Added, Removed int64
	Unknown        []string // user ids in add that belong to no contact
}

// ChangeTag removes contacts from a tag, and then adds other contacts. Fault: tag.not_found.
func (s *Service) ChangeTag(ctx context.Context, companyID int64, tag string, add, remove []string) (c Changed, err error) {
	err = s.change(ctx, companyID, func(ctx context.Context) error {
		row, err := s.GetTag(ctx, companyID, tag)
		if err != nil {
			return err
		}
		if c.Removed, err = s.q.TagRemove(ctx, contactq.TagRemoveParams{TagID: row.ID, UserIds: remove}); err != nil {
			return fmt.Errorf("remove contacts from tag: %w", err)
		}
		if c.Added, err = s.q.TagAdd(ctx, contactq.TagAddParams{TagID: row.ID, CompanyID: companyID, UserIds: add}); err != nil {
			return fmt.Errorf("add contacts to tag: %w", err)
		}
		if c.Unknown, err = s.q.ContactsUnknown(ctx, contactq.ContactsUnknownParams{CompanyID: companyID, UserIds: add}); err != nil {
			return fmt.Errorf("find unknown contacts: %w", err)
		}
		c.Unknown = slices.Compact(c.Unknown)
		if c.Added+c.Removed == 0 {
			return nil
		}
		err = s.q.TagRecord(ctx, contactq.TagRecordParams{TagID: row.ID, Added: c.Added, Removed: c.Removed})
		return postgres.Wrap("write audit", err, nil)
	})
	return c, err
}

// Selection selects contacts of a company. A contact must have all of Tags, at least one of AnyTags (unless AnyTags is empty), and no tag of NotTags.
type Selection struct {
	CompanyID              int64
	Tags, AnyTags, NotTags []string
}

// selected is a Selection in the form that the statements need. The statements read the contacts of the smallest tag of Tags, and filter them. tagID is the id
// of this tag. If tagID is 0, the statements read all contacts of the company.
type selected struct {
	tagID                   int64
	contacts                int64 // number of contacts of the tag tagID, or of the company if tagID is 0
	others, anyOf, excluded []int64
}

// resolve finds the tags of a selection in the database. Fault: tag.not_found.
func (s *Service) resolve(ctx context.Context, of Selection) (found selected, err error) {
	if len(of.AnyTags) == 1 {
		of.Tags, of.AnyTags = append(slices.Clone(of.Tags), of.AnyTags...), nil
	}
	names := distinct(slices.Concat(of.Tags, of.AnyTags, of.NotTags))
	rows := []TagRow{}
	if len(names) > 0 {
		if rows, err = s.q.TagList(ctx, contactq.TagListParams{CompanyID: of.CompanyID, Tags: names, BeforeID: math.MaxInt64, PageLimit: int32(len(names))}); err != nil {
			return found, fmt.Errorf("find tags: %w", err)
		}
	}
	if len(rows) < len(names) {
		return found, ErrNoTag
	}
	slices.SortFunc(rows, func(a, b TagRow) int { return cmp.Compare(a.Contacts, b.Contacts) })
	found.others, found.anyOf, found.excluded = []int64{}, []int64{}, []int64{}
	for _, row := range rows {
		if slices.Contains(of.NotTags, row.Tag) {
			found.excluded = append(found.excluded, row.ID)
		}
		if slices.Contains(of.AnyTags, row.Tag) {
			found.anyOf = append(found.anyOf, row.ID)
		}
		switch {
		case !slices.Contains(of.Tags, row.Tag):
		case found.tagID == 0:
			found.tagID, found.contacts = row.ID, row.Contacts
		default:
			found.others = append(found.others, row.ID)
		}
	}
	if found.tagID == 0 {
		found.contacts, err = s.q.ContactCount(ctx, of.CompanyID)
	}
	return found, postgres.Wrap("count contacts", err, nil)
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// maxScan is the maximum number of contacts that one page reads.
const maxScan = 5000

// ListSelected returns up to limit selected contacts with user ids greater than `after`, in the order of user ids. It reads at most maxScan contacts. If the
// page is not full then, the next page continues after the user id end. Otherwise end is empty. Fault: tag.not_found.
func (s *Service) ListSelected(ctx context.Context, of Selection, after string, limit int) (rows []Row, end string, err error) {
	found, err := s.resolve(ctx, of)
	if err != nil {
		return nil, "", err
	}
	rows, err = s.q.ContactListTagged(ctx, contactq.ContactListTaggedParams{
		CompanyID: of.CompanyID, TagID: found.tagID, TagIds: found.others, AnyTagIds: found.anyOf, NotTagIds: found.excluded, AfterID: after, ScanLimit: maxScan, PageLimit: int32(limit),
	})
	if err != nil {
		return nil, "", fmt.Errorf("list contacts: %w", err)
	}
	if len(rows) == limit || found.contacts <= maxScan {
		return rows, "", nil
	}
	end, err = s.q.ContactScanEnd(ctx, contactq.ContactScanEndParams{CompanyID: of.CompanyID, TagID: found.tagID, AfterID: after, ScanLimit: maxScan})
	if postgres.IsNoRows(err) {
		return rows, "", nil
	}
	return rows, end, postgres.Wrap("find the end of a page", err, nil)
}

// maxCount is the maximum number of contacts that a count reads. Reading so many contacts takes some seconds.
const maxCount = 1_000_000

// Count counts the selected contacts. isExact is false if Count stopped after maxCount contacts. Fault: tag.not_found.
func (s *Service) Count(ctx context.Context, of Selection) (n int64, isExact bool, err error) {
	found, err := s.resolve(ctx, of)
	if err != nil {
		return 0, false, err
	}
	if len(found.others)+len(found.anyOf)+len(found.excluded) == 0 {
		return found.contacts, true, nil
	}
	n, err = s.q.ContactCountTagged(ctx, contactq.ContactCountTaggedParams{
		CompanyID: of.CompanyID, TagID: found.tagID, TagIds: found.others, AnyTagIds: found.anyOf, NotTagIds: found.excluded, ScanLimit: maxCount,
	})
	return n, found.contacts <= maxCount, postgres.Wrap("count contacts", err, nil)
}

const (
	exportPage = 1000 // contacts that one statement of an export reads
	maxNames   = 1000 // maximum attribute columns of an export
)

// Export returns the names of all attributes, and a function each. each calls page with the selected contacts in the order of user ids, some contacts at a
// time. No transaction is open between two calls. A contact that changes during the export is therefore exported either before or after its change. Faults:
// tag.not_found; request.invalid for too many names.
func (s *Service) Export(ctx context.Context, of Selection) (attributes []string, each func(page func([]Row) error) error, err error) {
	if _, err := s.resolve(ctx, of); err != nil {
		return nil, nil, err
	}
	attributes, err = s.q.ContactAttributes(ctx, contactq.ContactAttributesParams{CompanyID: of.CompanyID, MaxRows: maxNames + 1})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("find attributes: %w", err)
	case len(attributes) > maxNames:
		return nil, nil, fault.InvalidField("attributes", fault.TooManyItems, maxNames)
	}
	return attributes, func(page func([]Row) error) error {
		for after := ""; ; {
			rows, end, err := s.ListSelected(ctx, of, after, exportPage)
			if err != nil {
				return err
			}
			if err := page(rows); err != nil {
				return err
			}
			switch {
			case end != "":
				after = end
			case len(rows) == exportPage:
				after = rows[exportPage-1].UserID
			default:
				return nil
			}
		}
	}, nil
}

// emptyBatch is the number of contacts that one statement removes from a deleted tag.
const emptyBatch = 5000

// EmptyTags removes all contacts from deleted tags. It returns the number of removed contacts.
func (s *Service) EmptyTags(ctx context.Context) (int, error) {
	ids, err := s.q.DeletedTags(ctx)
	if err != nil {
		return 0, fmt.Errorf("find deleted tags: %w", err)
	}
	total := 0
	for _, id := range ids {
		n, err := postgres.InBatches(emptyBatch, func() (int64, error) {
			return s.q.DeletedTagEmpty(ctx, contactq.DeletedTagEmptyParams{TagID: id, BatchSize: emptyBatch})
		})
		if total += n; err == nil {
			err = s.q.DeletedTagDelete(ctx, id)
		}
		if err != nil {
			return total, fmt.Errorf("empty tag: %w", err)
		}
	}
	return total, nil
}
