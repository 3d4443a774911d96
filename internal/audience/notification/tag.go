package notification

import (
	"context"
	"fmt"

	"lksms/gen/notificationq"
	"lksms/internal/audience/contact"
	"lksms/internal/platform/fault"
)

const (
	// maxTag is the maximum number of contacts of a tag to which a notification can be sent, because every read of a notification counts its tasks. A batch can
	// have more recipients.
	maxTag = 100_000

	// tagPortion is the number of contacts of a tag that get their tasks in one transaction.
	tagPortion = 500
)

// checkTag returns the fault request.invalid if the company does not have the tag, or if the tag has too many contacts.
func (s *Service) checkTag(ctx context.Context, companyID int64, tag string) error {
	row, err := s.contacts.GetTag(ctx, companyID, tag)
	switch {
	case fault.Is(err, fault.TagNotFound):
		return fault.InvalidField("tag", fault.NotThere, nil)
	case err != nil:
		return fmt.Errorf("find tag: %w", err)
	case row.Contacts > maxTag:
		return fault.InvalidField("tag", fault.TooManySelected, maxTag)
	}
	return nil
}

// tagged returns the next contacts of the tag of a notification: the contacts that have no task of this run yet. It returns a reason if the
// notification cannot be sent to the tag. The transaction that creates the tasks also stores the last contact, so that each contact gets one task even after a
// crash.
func (s *Service) tagged(ctx context.Context, n notificationq.NotificationDueRow) (to audience, _ *failReason, err error) {
	if n.RunRenderingID == nil {
		row, err := s.contacts.GetTag(ctx, n.CompanyID, *n.Tag)
		switch {
		case fault.Is(err, fault.TagNotFound):
			return to, &noTag, nil
		case err != nil:
			return to, nil, fmt.Errorf("find tag: %w", err)
		case row.Contacts > maxTag:
			return to, &bigTag, nil
		case row.Contacts == 0:
			return to, &emptyTag, nil
		}
	}
	rows, _, err := s.contacts.ListSelected(ctx, contact.Selection{CompanyID: n.CompanyID, Tags: []string{*n.Tag}}, n.RunAfter, tagPortion)
	if fault.Is(err, fault.TagNotFound) {
		return to, &tagGone, nil
	}
	if err != nil {
		return to, nil, fmt.Errorf("read contacts of tag: %w", err)
	}
	to.isLast = len(rows) < tagPortion
	for _, row := range rows {
		to.userIDs, to.last = append(to.userIDs, row.UserID), row.UserID
	}
	return to, nil, nil
}
