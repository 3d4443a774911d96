package directory

import (
	"context"
	"math"

	"lksms/gen/directoryq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Country is a country to create.
type Country struct {
	No                string
	Name              string
	DialPrefix        string // without the +
	Region            *string
	AnyRegion         bool // the country covers all numbers with the prefix; if AnyRegion is false and Region is nil, defaultRegion decides
	SignatureRequired bool
	Status            string // On or Off
}

// defaultRegion returns the region of a country whose region is not given. If the number of the country is a region with the dial prefix, the result is the
// number. Otherwise the result is nil.
func defaultRegion(no, prefix string) *string {
	if phone.HasDialPrefix(no, prefix) {
		return &no
	}
	return nil
}

// errNotOfPrefix returns the fault for a region whose numbers cannot start with prefix.
func errNotOfPrefix(prefix string) error {
	return fault.InvalidField("region", fault.NotAllowed, phone.RegionsOf(prefix))
}

// CreateCountry adds a country. Faults: exists if the number is in use, or if the prefix is in use in the region; request.invalid.
func (s *Service) CreateCountry(ctx context.Context, c Country) (CountryRow, error) {
	switch {
	case c.Region != nil && !phone.HasDialPrefix(*c.Region, c.DialPrefix):
		return CountryRow{}, errNotOfPrefix(c.DialPrefix)
	case c.Region == nil && !c.AnyRegion:
		c.Region = defaultRegion(c.No, c.DialPrefix)
	}
	err := s.Change(ctx, func(ctx context.Context) error {
		err := s.q.CountryCreate(ctx, directoryq.CountryCreateParams{
			CountryNo: c.No, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired,
			Status: c.Status,
		})
		return wrapCountryError(err, "create country")
	})
	if err != nil {
		return CountryRow{}, err
	}
	return s.GetCountry(ctx, c.No)
}

// wrapCountryError returns the fault exists if the number or the prefix is in use, and otherwise wraps err.
func wrapCountryError(err error, act string) error {
	if postgres.Violates(err, "countries_country_no_key") || postgres.Violates(err, "countries_dial_prefix_region_key") {
		return fault.New(fault.Conflict, fault.Exists)
	}
	return postgres.Wrap(act, err, nil)
}

// GetCountry returns one country, or the fault country.not_found.
func (s *Service) GetCountry(ctx context.Context, no string) (CountryRow, error) {
	rows, err := s.q.CountryList(ctx, directoryq.CountryListParams{BeforeID: math.MaxInt64, CountryNo: &no, PageLimit: 1})
	return postgres.One(rows, err, "get country", errNoCountry)
}

// ListCountries lists up to limit countries with smaller ids than `before`, newest first.
func (s *Service) ListCountries(ctx context.Context, before int64, limit int) ([]CountryRow, error) {
	rows, err := s.q.CountryList(ctx, directoryq.CountryListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list countries", err, nil)
}

// UpdateCountry applies change to a country. If version is not nil, the country must have this version. If change sets only the prefix, and no number of the
// region starts with this prefix, UpdateCountry sets the default region. Faults: country.not_found, exists, version.stale, request.invalid.
func (s *Service) UpdateCountry(ctx context.Context, no string, version *int64, change func(*Country)) (row CountryRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		s.switchAfterCommit(ctx)
		read := func() (CountryRow, error) { return s.GetCountry(ctx, no) }
		row, err = postgres.Patch(version, read, func(r CountryRow) int64 { return r.Version }, func(was CountryRow) (int64, error) {
			c := Country{No: no, Name: was.Name, DialPrefix: was.DialPrefix, Region: was.Region, SignatureRequired: was.SignatureRequired, Status: was.Status}
			change(&c)
			switch {
			case c.Region == nil || phone.HasDialPrefix(*c.Region, c.DialPrefix):
			case c.Region == was.Region && c.DialPrefix == was.DialPrefix: // neither region nor prefix changes
			case c.Region != was.Region: // change has set the region
				return 0, errNotOfPrefix(c.DialPrefix)
			default:
				c.Region = defaultRegion(no, c.DialPrefix)
			}
			n, err := s.q.CountryUpdate(ctx, directoryq.CountryUpdateParams{
				CountryNo: no, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired,
				Status: c.Status, Version: was.Version,
			})
			return n, wrapCountryError(err, "update country")
		})
		return err
	})
	return row, err
}

// DeleteCountry removes a country that nothing references. Faults: country.not_found, in_use.
func (s *Service) DeleteCountry(ctx context.Context, no string) error {
	return s.Change(ctx, func(ctx context.Context) error {
		n, err := s.q.CountryDelete(ctx, no)
		return postgres.Deleted(n, err, "delete country", func() (CountryRow, error) { return s.GetCountry(ctx, no) })
	})
}
