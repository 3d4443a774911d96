package admin

import (
	"context"
	"errors"

	"lksms/gen/api"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// CreateCompany adds a company.
func (h *Handlers) CreateCompany(ctx context.Context, req api.CreateCompanyRequestObject) (api.CreateCompanyResponseObject, error) {
	if err := h.checkOptOutReply(ctx, req.Body.Recipient); err != nil {
		return nil, err
	}
	row, err := h.services.Directory.CreateCompany(ctx, directory.Company{
		No: req.Body.CompanyNo, Name: req.Body.Name, Weight: optional.Or(req.Body.Weight, 1), Status: string(optional.Or(req.Body.Status, api.SwitchOn)),
		Countries: countriesOf(req.Body.Countries, req.Body.CountriesOff, req.Body.AnyCountry), UsesSharedSenders: optional.Or(req.Body.UsesSharedSenders, true),
		DefaultRegion: optional.Value(req.Body.DefaultRegion), Recipient: changeRules(directory.RecipientRules{}, req.Body.Recipient),
	})
	return api.CreateCompany200JSONResponse(companyAnswer(row)), err
}

// ListCompanies pages through companies, newest first.
func (h *Handlers) ListCompanies(ctx context.Context, req api.ListCompaniesRequestObject) (api.ListCompaniesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Directory.ListCompanies(ctx, caller.OwnCompany(ctx), before, limit+1)
	items, next := paging.Page(rows, limit, companyOf, func(c directory.CompanyRow) string { return paging.IDText(c.ID) })
	return api.ListCompanies200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.CompanyPage{Items: items, NextCursor: next}}, err
}

// GetCompany shows one company.
func (h *Handlers) GetCompany(ctx context.Context, req api.GetCompanyRequestObject) (api.GetCompanyResponseObject, error) {
	row, err := h.services.Directory.GetCompany(ctx, req.CompanyNo)
	if own := caller.OwnCompany(ctx); err == nil && own != nil && row.ID != *own {
		return nil, fault.New(fault.NotFound, fault.CompanyNotFound)
	}
	return api.GetCompany200JSONResponse(companyAnswer(row)), err
}

// UpdateCompany changes a company.
func (h *Handlers) UpdateCompany(ctx context.Context, req api.UpdateCompanyRequestObject) (api.UpdateCompanyResponseObject, error) {
	if err := h.checkOptOutReply(ctx, req.Body.Recipient); err != nil {
		return nil, err
	}
	row, err := h.services.Directory.UpdateCompany(ctx, req.CompanyNo, req.Body.Version, func(c *directory.Company) {
		convert.Set(&c.Name, req.Body.Name)
		convert.Set(&c.Weight, req.Body.Weight)
		setStatus(&c.Status, req.Body.Status)
		c.Countries.Change(req.Body.Countries, req.Body.CountriesOff, req.Body.AnyCountry)
		convert.Set(&c.UsesSharedSenders, req.Body.UsesSharedSenders)
		convert.Set(&c.DefaultRegion, req.Body.DefaultRegion)
		c.Recipient = changeRules(c.Recipient, req.Body.Recipient)
	})
	return api.UpdateCompany200JSONResponse(companyAnswer(row)), err
}

// DeleteCompany removes a company.
func (h *Handlers) DeleteCompany(ctx context.Context, req api.DeleteCompanyRequestObject) (api.DeleteCompanyResponseObject, error) {
	err := h.services.Directory.DeleteCompany(ctx, req.CompanyNo)
	return api.DeleteCompany200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// checkOptOutReply returns the fault request.invalid for a confirmation that is longer than notifications are allowed to be.
func (h *Handlers) checkOptOutReply(ctx context.Context, to *api.RecipientRulesChange) error {
	if to == nil {
		return nil
	}
	text, err := to.OptOutReply.Get()
	if err != nil { // null, or not given
		return nil //nolint:nilerr // nothing to check
	}
	limits, err := h.services.Submissions.Limits(ctx, submit.Notification)
	if err != nil {
		return err
	}
	err = limits.Check("", text)
	var wrong *fault.Error
	if errors.As(err, &wrong) {
		return fault.InvalidField("recipient.opt_out_reply", wrong.Fields[0].Rule, wrong.Fields[0].Limit)
	}
	return err
}

// changeRules returns the rules about recipients after a change.
func changeRules(r directory.RecipientRules, to *api.RecipientRulesChange) directory.RecipientRules {
	if to == nil {
		return r
	}
	if hours := to.QuietHours; hours != nil {
		convert.SetNullable(&r.QuietHours.Notification, hours.Notification)
		convert.SetNullable(&r.QuietHours.Marketing, hours.Marketing)
	}
	if caps := to.Caps; caps != nil {
		changeCaps(&r.Caps.Verification, caps.Verification)
		changeCaps(&r.Caps.Notification, caps.Notification)
		changeCaps(&r.Caps.Marketing, caps.Marketing)
	}
	convert.SetNullable(&r.TimeZone, to.TimeZone)
	convert.SetNullable(&r.OptOutWords, to.OptOutWords)
	convert.SetNullable(&r.OptInWords, to.OptInWords)
	convert.SetNullable(&r.OptOutReply, to.OptOutReply)
	convert.SetNullable(&r.VerificationCountries, to.VerificationCountries)
	return r
}

func changeCaps(c *directory.Caps, to *api.CapsChange) {
	if to != nil {
		convert.SetNullable(&c.PerMinute, to.PerMinute)
		convert.SetNullable(&c.PerHour, to.PerHour)
		convert.SetNullable(&c.PerDay, to.PerDay)
	}
}

func capsOf(c directory.Caps) api.Caps {
	return api.Caps{PerMinute: c.PerMinute, PerHour: c.PerHour, PerDay: c.PerDay}
}

func companyAnswer(c directory.CompanyRow) api.CompanyResponse {
	return api.CompanyResponse{Code: convert.OK, Message: convert.Success, Data: companyOf(c)}
}

// countriesOf returns the countries of a new company or channel: all countries, unless the request names some.
func countriesOf(on, off *[]string, isAny *bool) directory.Countries {
	c := directory.Countries{Any: true}
	c.Change(on, off, isAny)
	return c
}

// setStatus sets status if the request contains one.
func setStatus(status *string, to *api.SwitchStatus) {
	if to != nil {
		*status = string(*to)
	}
}

func rulesOf(r directory.RecipientRules) (rules api.RecipientRules) {
	rules.QuietHours.Notification, rules.QuietHours.Marketing, rules.TimeZone = r.QuietHours.Notification, r.QuietHours.Marketing, r.TimeZone
	rules.OptOutWords, rules.OptInWords, rules.OptOutReply, rules.VerificationCountries = r.OptOutWords, r.OptInWords, r.OptOutReply, r.VerificationCountries
	rules.Caps.Verification, rules.Caps.Notification, rules.Caps.Marketing = capsOf(r.Caps.Verification), capsOf(r.Caps.Notification), capsOf(r.Caps.Marketing)
	return rules
}

func companyOf(c directory.CompanyRow) api.Company {
	allowed := directory.CountriesOf(c.AnyCountry, c.Countries, c.CountriesOff)
	return api.Company{
		CompanyNo: c.CompanyNo, Name: c.Name, Weight: c.Weight, Status: api.SwitchStatus(c.Status), Countries: allowed.On, CountriesOff: allowed.Off,
		AnyCountry: allowed.Any, UsesSharedSenders: c.UsesSharedSenders, Version: c.Version,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, DefaultRegion: c.DefaultRegion, Recipient: rulesOf(directory.RulesOf(c)),
	}
}
