package directory

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"lksms/gen/directoryq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Company is a company to create.
type Company struct {
	No        string
	Name      string
	Weight    float64
	Status    string // On or Off
	Countries Countries

	DefaultRegion     string // region of phone numbers without a country code; empty: no region
	UsesSharedSenders bool   // shared senders can send messages for which the company has no route
	Recipient         RecipientRules
}

// CreateCompany adds a company. Fault: exists.
func (s *Service) CreateCompany(ctx context.Context, c Company) (CompanyRow, error) {
	err := s.Change(ctx, func(ctx context.Context) error {
		if err := phone.CheckRegion("default_region", c.DefaultRegion); err != nil {
			return err //nolint:wrapcheck // the error is a fault
		}
		if err := s.checkCountries(ctx, c.Countries); err != nil {
			return err
		}
		if err := c.Recipient.check(); err != nil {
			return err
		}
		_, err := s.q.CompanyCreate(ctx, directoryq.CompanyCreateParams{
			CompanyNo: c.No, Name: c.Name, Weight: c.Weight, Status: c.Status, Countries: c.Countries.On, CountriesOff: c.Countries.Off,
			AnyCountry: c.Countries.Any, UsesSharedSenders: c.UsesSharedSenders, DefaultRegion: c.DefaultRegion,
			Recipient: c.Recipient.stored(),
		})
		if postgres.Violates(err, "companies_company_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create company", err, nil)
	})
	if err != nil {
		return CompanyRow{}, err
	}
	return s.GetCompany(ctx, c.No)
}

// GetCompany returns one company, or the fault company.not_found.
func (s *Service) GetCompany(ctx context.Context, no string) (CompanyRow, error) {
	rows, err := s.q.CompanyList(ctx, directoryq.CompanyListParams{BeforeID: math.MaxInt64, CompanyNo: &no, PageLimit: 1})
	return postgres.One(rows, err, "get company", ErrNoCompany)
}

// ListCompanies lists up to limit companies with smaller ids than `before`, newest first. If visible is non-nil, the list contains only the company with this
// id.
func (s *Service) ListCompanies(ctx context.Context, visible *int64, before int64, limit int) ([]CompanyRow, error) {
	rows, err := s.q.CompanyList(ctx, directoryq.CompanyListParams{BeforeID: before, ID: visible, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list companies", err, nil)
}

// UpdateCompany applies change to a company. change must not change the number of the company. If version is not nil, the company must have this version.
// Faults: company.not_found, version.stale, request.invalid.
func (s *Service) UpdateCompany(ctx context.Context, no string, version *int64, change func(*Company)) (row CompanyRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		s.switchAfterCommit(ctx)
		read := func() (CompanyRow, error) { return s.GetCompany(ctx, no) }
		row, err = postgres.Patch(version, read, func(r CompanyRow) int64 { return r.Version }, func(was CompanyRow) (int64, error) {
			c := Company{
				No: no, Name: was.Name, Weight: was.Weight, Status: was.Status, Countries: CountriesOf(was.AnyCountry, was.Countries, was.CountriesOff),
				UsesSharedSenders: was.UsesSharedSenders, DefaultRegion: was.DefaultRegion,
			}
			listed := c.Countries
			var err error
			if c.Recipient, err = recipientRulesOf(no, was.Recipient); err != nil {
				return 0, err
			}
			change(&c)
			if err := c.Recipient.check(); err != nil {
				return 0, err
			}
			if err := phone.CheckRegion("default_region", c.DefaultRegion); err != nil {
				return 0, err //nolint:wrapcheck // the error is a fault
			}
			if err := s.checkCountries(ctx, c.Countries); err != nil {
				return 0, err
			}
			n, err := s.q.CompanyUpdate(ctx, directoryq.CompanyUpdateParams{
				CompanyNo: no, Name: c.Name, Weight: c.Weight, Status: c.Status, AnyCountry: c.Countries.Any, UsesSharedSenders: c.UsesSharedSenders,
				DefaultRegion: c.DefaultRegion, Recipient: c.Recipient.stored(), Version: was.Version,
			})
			if err == nil && n > 0 && !c.Countries.hasRowsOf(listed) {
				err = s.list(ctx, no, c.Countries)
			}
			return n, postgres.Wrap("update company", err, nil)
		})
		return err
	})
	return row, err
}

// list replaces the countries to which a company can send, and the countries that are off for the company.
func (s *Service) list(ctx context.Context, companyNo string, c Countries) error {
	on, off := c.lists()
	err := s.q.CompanyUnlist(ctx, directoryq.CompanyUnlistParams{CompanyNo: companyNo, Countries: on, CountriesOff: off})
	if err != nil || len(on)+len(off) == 0 {
		return err
	}
	return s.q.CompanyAllow(ctx, directoryq.CompanyAllowParams{CompanyNo: companyNo, Countries: on, CountriesOff: off})
}

// CheckOpen returns the fault company.off if a company is off: no messages can be submitted for the company. A change by another server takes effect within
// four seconds.
func (s *Service) CheckOpen(ctx context.Context, companyID int64) error {
	d, err := s.cache.Get(ctx)
	if err != nil {
		return err
	}
	if d.companies[companyID].Status == Off {
		return fault.New(fault.Conflict, fault.CompanyOff)
	}
	return nil
}

// DeleteCompany removes a company that nothing references. Faults: company.not_found, in_use.
func (s *Service) DeleteCompany(ctx context.Context, no string) error {
	return s.Change(ctx, func(ctx context.Context) error {
		// The foreign key would delete these rows, too, but then the audit could not name the company.
		if err := s.list(ctx, no, Countries{}); err != nil {
			return postgres.Wrap("delete countries of company", err, nil)
		}
		if _, err := s.deleteSenderPools(ctx, 0, nil, &no); err != nil {
			return err
		}
		if _, err := s.q.CompanyHold(ctx, no); err != nil {
			return postgres.Wrap("lock company", err, nil)
		}
		n, err := s.q.CompanyDelete(ctx, no)
		return postgres.Deleted(n, err, "delete company", func() (CompanyRow, error) { return s.GetCompany(ctx, no) })
	})
}

// CompanyNo returns the number of an existing company.
func (s *Service) CompanyNo(ctx context.Context, id int64) (string, error) {
	d, err := s.cache.Get(ctx)
	if err == nil && d.companies[id].CompanyNo == "" { // another server can have added the company after the view was loaded
		d, err = s.cache.Since(ctx, time.Now())
	}
	if err != nil {
		return "", err
	}
	return d.companies[id].CompanyNo, nil
}

// DefaultRegion returns the region of a company's phone numbers without a country code. It returns an empty string if the company has no region, or if
// companyID is nil.
func (s *Service) DefaultRegion(ctx context.Context, companyID *int64) (string, error) {
	if companyID == nil {
		return "", nil
	}
	d, err := s.cache.Get(ctx)
	if err != nil {
		return "", err
	}
	return d.companies[*companyID].DefaultRegion, nil
}

// Regions returns the default regions of all companies, each once; an empty region: a company has no region. With companyID, it returns the region of this
// company.
func (s *Service) Regions(ctx context.Context, companyID *int64) ([]string, error) {
	if companyID != nil {
		region, err := s.DefaultRegion(ctx, companyID)
		return []string{region}, err
	}
	d, err := s.cache.Get(ctx)
	if err != nil {
		return nil, err
	}
	regions := map[string]bool{}
	for _, c := range d.companies {
		regions[c.DefaultRegion] = true
	}
	return slices.Sorted(maps.Keys(regions)), nil
}

// RegionOr returns region or, if region is empty, the default region of the company. The region applies to phone numbers without a country code. Fault:
// request.invalid for default_region.
func (s *Service) RegionOr(ctx context.Context, companyID *int64, region string) (string, error) {
	if region == "" {
		return s.DefaultRegion(ctx, companyID)
	}
	return region, phone.CheckRegion("default_region", region)
}

// NormaliseNumber returns a phone number of a company in E.164. field is the name of the request field. Fault: request.invalid for this field.
func (s *Service) NormaliseNumber(ctx context.Context, companyID *int64, field string, number *string) (*string, error) {
	region, err := s.DefaultRegion(ctx, companyID)
	if err != nil {
		return nil, err
	}
	return phone.NormaliseFilter(field, number, region)
}
