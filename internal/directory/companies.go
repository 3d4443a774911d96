package directory

import (
	"context"
	"math"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
)

// Company is a company to create.
type Company struct {
	No        string
	Name      string
	Weight    float64
	Countries []string // numbers of the countries to which the company can send; empty: all

	DefaultRegion string // of phone numbers without a country code; empty: none
}

// CreateCompany adds a company. Fault: exists.
func (s *Service) CreateCompany(ctx context.Context, c Company) (dbq.CompanyListRow, error) {
	err := s.Change(ctx, func(ctx context.Context) error {
		if err := phone.CheckRegion("default_region", c.DefaultRegion); err != nil {
			return err //nolint:wrapcheck // a fault
		}
		if err := s.checkCountries(ctx, c.Countries); err != nil {
			return err
		}
		_, err := s.q.CompanyCreate(ctx, dbq.CompanyCreateParams{CompanyNo: c.No, Name: c.Name, Weight: c.Weight, DefaultRegion: c.DefaultRegion, Countries: c.Countries})
		if postgres.Violates(err, "companies_company_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create company", err, nil)
	})
	if err != nil {
		return dbq.CompanyListRow{}, err
	}
	return s.GetCompany(ctx, c.No)
}

// GetCompany returns one company, or the fault company.not_found.
func (s *Service) GetCompany(ctx context.Context, no string) (dbq.CompanyListRow, error) {
	rows, err := s.q.CompanyList(ctx, dbq.CompanyListParams{BeforeID: math.MaxInt64, CompanyNo: &no, PageLimit: 1})
	return postgres.One(rows, err, "get company", errNoCompany)
}

// ListCompanies lists up to limit companies with smaller ids than before, newest first. A non-nil visible is the only
// company that the caller can see.
func (s *Service) ListCompanies(ctx context.Context, visible *int64, before int64, limit int) ([]dbq.CompanyListRow, error) {
	rows, err := s.q.CompanyList(ctx, dbq.CompanyListParams{BeforeID: before, ID: visible, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list companies", err, nil)
}

// UpdateCompany changes a company by change, which may not change its number. A non-nil version is the one that it must have. Faults:
// company.not_found, version.stale, request.invalid.
func (s *Service) UpdateCompany(ctx context.Context, no string, version *int64, change func(*Company)) (row dbq.CompanyListRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		read := func() (dbq.CompanyListRow, error) { return s.GetCompany(ctx, no) }
		row, err = postgres.Patch(version, read, func(r dbq.CompanyListRow) int64 { return r.Version }, func(was dbq.CompanyListRow) (int64, error) {
			c := Company{No: no, Name: was.Name, Weight: was.Weight, DefaultRegion: was.DefaultRegion, Countries: was.Countries}
			change(&c)
			if err := phone.CheckRegion("default_region", c.DefaultRegion); err != nil {
				return 0, err //nolint:wrapcheck // a fault
			}
			moves := !slices.Equal(c.Countries, was.Countries)
			if moves {
				if err := s.checkCountries(ctx, c.Countries); err != nil {
					return 0, err
				}
			}
			n, err := s.q.CompanyUpdate(ctx, dbq.CompanyUpdateParams{CompanyNo: no, Name: c.Name, Weight: c.Weight, DefaultRegion: c.DefaultRegion, Version: was.Version})
			if err == nil && n > 0 && moves {
				err = s.q.CompanyAllow(ctx, dbq.CompanyAllowParams{CompanyNo: no, Countries: c.Countries})
			}
			return n, postgres.Wrap("update company", err, nil)
		})
		return err
	})
	return row, err
}

// DeleteCompany removes a company that nothing references. Faults: company.not_found, in_use.
func (s *Service) DeleteCompany(ctx context.Context, no string) error {
	return s.Change(ctx, func(ctx context.Context) error {
		// The foreign key would delete them too, but then the audit could not name the company.
		if err := s.q.CompanyAllow(ctx, dbq.CompanyAllowParams{CompanyNo: no, Countries: []string{}}); err != nil {
			return postgres.Wrap("delete countries of company", err, nil)
		}
		if _, err := s.deleteSenderPools(ctx, 0, nil, &no); err != nil {
			return err
		}
		if _, err := s.q.CompanyHold(ctx, no); err != nil {
			return postgres.Wrap("lock company", err, nil)
		}
		n, err := s.q.CompanyDelete(ctx, no)
		return postgres.Deleted(n, err, "delete company", func() (dbq.CompanyListRow, error) { return s.GetCompany(ctx, no) })
	})
}

// CompanyNo returns the number of a company that exists.
func (s *Service) CompanyNo(ctx context.Context, id int64) (string, error) {
	d, err := s.cache.Get(ctx)
	if err == nil && d.companies[id].CompanyNo == "" { // another server may have added it since the view was loaded
		d, err = s.cache.Since(ctx, time.Now())
	}
	if err != nil {
		return "", err
	}
	return d.companies[id].CompanyNo, nil
}

// DefaultRegion returns the region of phone numbers of a company that have no country code; empty: it has none. A nil company has none.
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
