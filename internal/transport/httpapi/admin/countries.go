package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// CreateCountry adds a country.
func (h *Handlers) CreateCountry(ctx context.Context, req api.CreateCountryRequestObject) (api.CreateCountryResponseObject, error) {
	row, err := h.services.Directory.CreateCountry(ctx, directory.Country{
		No: req.Body.CountryNo, Name: req.Body.Name, DialPrefix: req.Body.DialPrefix, Region: convert.Given(req.Body.Region),
		AnyRegion: req.Body.Region.IsNull(), SignatureRequired: optional.Value(req.Body.SignatureRequired),
		Status: string(optional.Or(req.Body.Status, api.SwitchOn)),
	})
	return api.CreateCountry200JSONResponse(countryAnswer(row)), err
}

// ListCountries pages through countries, newest first.
func (h *Handlers) ListCountries(ctx context.Context, req api.ListCountriesRequestObject) (api.ListCountriesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Directory.ListCountries(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, countryOf, func(c directory.CountryRow) string { return paging.IDText(c.ID) })
	return api.ListCountries200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.CountryPage{Items: items, NextCursor: next}}, err
}

// GetCountry shows one country.
func (h *Handlers) GetCountry(ctx context.Context, req api.GetCountryRequestObject) (api.GetCountryResponseObject, error) {
	row, err := h.services.Directory.GetCountry(ctx, req.CountryNo)
	return api.GetCountry200JSONResponse(countryAnswer(row)), err
}

// UpdateCountry changes a country.
func (h *Handlers) UpdateCountry(ctx context.Context, req api.UpdateCountryRequestObject) (api.UpdateCountryResponseObject, error) {
	row, err := h.services.Directory.UpdateCountry(ctx, req.CountryNo, req.Body.Version, func(c *directory.Country) {
		convert.Set(&c.Name, req.Body.Name)
		convert.Set(&c.DialPrefix, req.Body.DialPrefix)
		convert.SetNullable(&c.Region, req.Body.Region)
		convert.Set(&c.SignatureRequired, req.Body.SignatureRequired)
		setStatus(&c.Status, req.Body.Status)
	})
	return api.UpdateCountry200JSONResponse(countryAnswer(row)), err
}

// DeleteCountry removes a country.
func (h *Handlers) DeleteCountry(ctx context.Context, req api.DeleteCountryRequestObject) (api.DeleteCountryResponseObject, error) {
	err := h.services.Directory.DeleteCountry(ctx, req.CountryNo)
	return api.DeleteCountry200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func countryAnswer(c directory.CountryRow) api.CountryResponse {
	return api.CountryResponse{Code: convert.OK, Message: convert.Success, Data: countryOf(c)}
}

func countryOf(c directory.CountryRow) api.Country {
	return api.Country{
		CountryNo: c.CountryNo, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired, Status: api.SwitchStatus(c.Status), Version: c.Version,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
}
