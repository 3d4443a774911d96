package directory

import (
	"context"
	"math"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
)

// Country is a country to create.
type Country struct {
	No                string
	Name              string
	DialPrefix        string // without the +
	Region            *string
	AnyRegion         bool // it has every number of the prefix; else, without Region, those of the region that No names, if it names one
	SignatureRequired bool
}

// regionNamed is the region of a country that does not say: its number, if that names a region with its dial prefix.
func regionNamed(no, prefix string) *string {
	if phone.HasDialPrefix(no, prefix) {
		return &no
	}
	return nil
}

// CreateCountry adds a country. Faults: exists, for the number and for the prefix in a region; request.invalid.
func (s *Service) CreateCountry(ctx context.Context, c Country) (dbq.Country, error) {
	switch {
	case c.Region != nil && !phone.HasDialPrefix(*c.Region, c.DialPrefix):
		return dbq.Country{}, fault.InvalidField("region", fault.NotAllowed, nil)
	case c.Region == nil && !c.AnyRegion:
		c.Region = regionNamed(c.No, c.DialPrefix)
	}
	err := s.Change(ctx, func(ctx context.Context) error {
		err := s.q.CountryCreate(ctx, dbq.CountryCreateParams{
			CountryNo: c.No, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired,
		})
		return countryTaken(err, "create country")
	})
	if err != nil {
		return dbq.Country{}, err
	}
	return s.GetCountry(ctx, c.No)
}

func countryTaken(err error, act string) error {
	if postgres.Violates(err, "countries_country_no_key") || postgres.Violates(err, "countries_dial_prefix_region_key") {
		return fault.New(fault.Conflict, fault.Exists)
	}
	return postgres.Wrap(act, err, nil)
}

// GetCountry returns one country, or the fault country.not_found.
func (s *Service) GetCountry(ctx context.Context, no string) (dbq.Country, error) {
	rows, err := s.q.CountryList(ctx, dbq.CountryListParams{BeforeID: math.MaxInt64, CountryNo: &no, PageLimit: 1})
	return postgres.One(rows, err, "get country", ErrNoCountry)
}

// ListCountries lists countries.
func (s *Service) ListCountries(ctx context.Context, before int64, limit int) ([]dbq.Country, error) {
	rows, err := s.q.CountryList(ctx, dbq.CountryListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list countries", err, nil)
}

// CountryPatch says what to change, as CompanyPatch does.
type CountryPatch struct {
	No                string
	Name              *string
	DialPrefix        *string
	Region            *string
	AnyRegion         bool // Region is to be emptied
	SignatureRequired *bool
	Version           *int64
}

// place completes a patch that says where a country is: a region stays unless it does not have the new prefix. A patch made of what
// was there a moment ago is of that version.
func (p *CountryPatch) place(was dbq.Country) error {
	prefix := was.DialPrefix
	if p.DialPrefix != nil {
		prefix = *p.DialPrefix
	}
	switch {
	case p.AnyRegion:
	case p.Region == nil && was.Region == nil:
	case p.Region == nil && phone.HasDialPrefix(*was.Region, prefix):
		p.Region = was.Region
	case p.Region == nil:
		p.Region = regionNamed(p.No, prefix)
	case !phone.HasDialPrefix(*p.Region, prefix):
		return fault.InvalidField("region", fault.NotAllowed, nil)
	}
	if p.Version == nil {
		p.Version = &was.Version
	}
	return nil
}

// UpdateCountry changes a country. Faults: country.not_found, exists, version.stale, request.invalid.
func (s *Service) UpdateCountry(ctx context.Context, p CountryPatch) (row dbq.Country, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		moves := p.DialPrefix != nil || p.Region != nil || p.AnyRegion
		if moves {
			was, err := s.GetCountry(ctx, p.No)
			if err != nil {
				return err
			}
			if err := p.place(was); err != nil {
				return err
			}
		}
		n, err := s.q.CountryUpdate(ctx, dbq.CountryUpdateParams{
			CountryNo: p.No, Name: p.Name, DialPrefix: p.DialPrefix, Moves: moves, Region: p.Region, SignatureRequired: p.SignatureRequired,
			Version: p.Version,
		})
		if err := countryTaken(err, "update country"); err != nil {
			return err
		}
		row, err = postgres.Updated(n, err, "update country", func() (dbq.Country, error) { return s.GetCountry(ctx, p.No) })
		return err
	})
	return row, err
}

// DeleteCountry removes a country that nothing refers to. Faults: country.not_found, in_use.
func (s *Service) DeleteCountry(ctx context.Context, no string) error {
	return s.Change(ctx, func(ctx context.Context) error {
		n, err := s.q.CountryDelete(ctx, no)
		return postgres.Deleted(n, err, "delete country", func() (dbq.Country, error) { return s.GetCountry(ctx, no) })
	})
}
