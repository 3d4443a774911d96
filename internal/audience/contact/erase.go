package contact

import (
	"context"
	"slices"

	"lksms/gen/contactq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// MaxErased is the maximum number of contacts that one erasure erases. An address therefore cannot be shared by more contacts.
const MaxErased = 100

// FindByPerson returns up to MaxErased+1 contacts of a company that have one of the given user ids or addresses.
func (s *Service) FindByPerson(ctx context.Context, companyID int64, userIDs, recipients []string) ([]PersonRow, error) {
	rows, err := s.q.ErasedContacts(ctx, contactq.ErasedContactsParams{
		CompanyID: companyID, UserIds: userIDs, Recipients: recipients, MaxRows: MaxErased + 1,
	})
	return rows, postgres.Wrap("find contacts", err, nil)
}

// Erase deletes the contacts of a person, including contacts that an import has added since the last pass. It adds their user ids to the person.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	if err := Lock(ctx, s.db, p.CompanyID); err != nil {
		return nil, err
	}
	if len(p.AskedRecipients) > 0 {
		added, err := s.q.ErasedContacts(ctx, contactq.ErasedContactsParams{
			CompanyID: p.CompanyID, UserIds: []string{}, Recipients: p.AskedRecipients, MaxRows: MaxErased,
		})
		if err != nil {
			return nil, postgres.Wrap("find contacts", err, nil)
		}
		for _, one := range added {
			if !slices.Contains(p.UserIDs, one.UserID) {
				p.UserIDs = append(p.UserIDs, one.UserID)
			}
		}
	}
	n, err := s.q.ErasureContacts(ctx, contactq.ErasureContactsParams{CompanyID: p.CompanyID, UserIds: p.UserIDs})
	return erase.Counts{erase.Contacts: n.Contacts, erase.Tags: n.Tags}, postgres.Wrap("delete contacts", err, nil)
}

// CountRunningImports returns the number of running imports that started before the erasure. They can still add contacts of the person.
func (s *Service) CountRunningImports(ctx context.Context, p *erase.Person) (int64, error) {
	n, err := s.q.ErasureImports(ctx, contactq.ErasureImportsParams{CompanyID: p.CompanyID, Before: p.Since})
	return n, postgres.Wrap("find imports", err, nil)
}
