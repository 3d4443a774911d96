package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/notify"
	"lksms/internal/sender"
	"lksms/internal/setting"
)

// The names of message types, by how tasks keep them.
var messageTypes = [...]api.MessageType{
	setting.Verification: api.Verification, setting.Notification: api.Notification, setting.Marketing: api.Marketing,
}

// messageType is the kept form of a name; notification if there is none.
func messageType(name *api.MessageType) int16 {
	if name != nil {
		for code, known := range messageTypes {
			if known == *name {
				return int16(code)
			}
		}
	}
	return setting.Notification
}

// pageOf reads what a list was asked for; one row more tells whether there is a next page.
func pageOf(cursor *string, limit *int) (sender.Page, error) {
	before, err := idCursor(cursor)
	return sender.Page{Before: before, Limit: pageSize(limit) + 1}, err
}

// CreateCompany adds a company.
func (s *Server) CreateCompany(ctx context.Context, req api.CreateCompanyRequestObject) (api.CreateCompanyResponseObject, error) {
	row, err := s.senders.CreateCompany(ctx, sender.Company{
		No: req.Body.CompanyNo, Name: req.Body.Name, Weight: orElse(req.Body.Weight, 1), Countries: value(req.Body.Countries),
	})
	if err != nil {
		return nil, err
	}
	return api.CreateCompany200JSONResponse(companyAnswer(row)), nil
}

// ListCompanies pages through companies, newest first.
func (s *Server) ListCompanies(ctx context.Context, req api.ListCompaniesRequestObject) (api.ListCompaniesResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.senders.ListCompanies(ctx, ownCompany(ctx), p)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, companyOf, func(c dbq.CompanyListRow) string { return idText(c.ID) })
	return api.ListCompanies200JSONResponse{Code: ok, Message: success, Data: api.CompanyPage{Items: items, NextCursor: next}}, nil
}

// GetCompany shows one company.
func (s *Server) GetCompany(ctx context.Context, req api.GetCompanyRequestObject) (api.GetCompanyResponseObject, error) {
	row, err := s.senders.GetCompany(ctx, req.CompanyNo)
	if own := ownCompany(ctx); err == nil && own != nil && row.ID != *own {
		err = fault.New(fault.NotFound, fault.CompanyNotFound)
	}
	if err != nil {
		return nil, err
	}
	return api.GetCompany200JSONResponse(companyAnswer(row)), nil
}

// UpdateCompany changes a company.
func (s *Server) UpdateCompany(ctx context.Context, req api.UpdateCompanyRequestObject) (api.UpdateCompanyResponseObject, error) {
	row, err := s.senders.UpdateCompany(ctx, sender.CompanyPatch{
		No: req.CompanyNo, Name: req.Body.Name, Weight: req.Body.Weight, Countries: req.Body.Countries, Version: req.Body.Version,
	})
	if err != nil {
		return nil, err
	}
	return api.UpdateCompany200JSONResponse(companyAnswer(row)), nil
}

// DeleteCompany removes a company.
func (s *Server) DeleteCompany(ctx context.Context, req api.DeleteCompanyRequestObject) (api.DeleteCompanyResponseObject, error) {
	if err := s.senders.DeleteCompany(ctx, req.CompanyNo); err != nil {
		return nil, err
	}
	return api.DeleteCompany200JSONResponse{DoneJSONResponse: done()}, nil
}

// CreateChannel adds a channel.
func (s *Server) CreateChannel(ctx context.Context, req api.CreateChannelRequestObject) (api.CreateChannelResponseObject, error) {
	row, err := s.senders.CreateChannel(ctx, sender.Channel{
		Channel: req.Body.Channel, Name: req.Body.Name, SignatureRequired: value(req.Body.SignatureRequired),
		Countries: value(req.Body.Countries), RetryMinutes: value(req.Body.RetryMinutes),
	})
	if err != nil {
		return nil, err
	}
	return api.CreateChannel200JSONResponse(channelAnswer(row)), nil
}

// ListChannels pages through channels, newest first.
func (s *Server) ListChannels(ctx context.Context, req api.ListChannelsRequestObject) (api.ListChannelsResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.senders.ListChannels(ctx, p)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, channelOf, func(c dbq.ChannelListRow) string { return idText(c.ID) })
	return api.ListChannels200JSONResponse{Code: ok, Message: success, Data: api.ChannelPage{Items: items, NextCursor: next}}, nil
}

// GetChannel shows one channel.
func (s *Server) GetChannel(ctx context.Context, req api.GetChannelRequestObject) (api.GetChannelResponseObject, error) {
	row, err := s.senders.GetChannel(ctx, req.Channel)
	if err != nil {
		return nil, err
	}
	return api.GetChannel200JSONResponse(channelAnswer(row)), nil
}

// UpdateChannel changes a channel.
func (s *Server) UpdateChannel(ctx context.Context, req api.UpdateChannelRequestObject) (api.UpdateChannelResponseObject, error) {
	clear, err := nulls(exchangeOf(ctx).body)
	if err != nil {
		return nil, err
	}
	row, err := s.senders.UpdateChannel(ctx, sender.ChannelPatch{
		Channel: req.Channel, Name: req.Body.Name, SignatureRequired: req.Body.SignatureRequired, Countries: req.Body.Countries,
		RetryMinutes: value(req.Body.RetryMinutes), Clear: clear, Version: req.Body.Version,
	})
	if err != nil {
		return nil, err
	}
	return api.UpdateChannel200JSONResponse(channelAnswer(row)), nil
}

// DeleteChannel removes a channel.
func (s *Server) DeleteChannel(ctx context.Context, req api.DeleteChannelRequestObject) (api.DeleteChannelResponseObject, error) {
	if err := s.senders.DeleteChannel(ctx, req.Channel); err != nil {
		return nil, err
	}
	return api.DeleteChannel200JSONResponse{DoneJSONResponse: done()}, nil
}

// CreateCountry adds a country.
func (s *Server) CreateCountry(ctx context.Context, req api.CreateCountryRequestObject) (api.CreateCountryResponseObject, error) {
	empty, err := nulls(exchangeOf(ctx).body)
	if err != nil {
		return nil, err
	}
	row, err := s.senders.CreateCountry(ctx, sender.Country{
		No: req.Body.CountryNo, Name: req.Body.Name, DialPrefix: req.Body.DialPrefix, Region: req.Body.Region,
		AnyRegion: slices.Contains(empty, "region"), SignatureRequired: value(req.Body.SignatureRequired),
	})
	if err != nil {
		return nil, err
	}
	return api.CreateCountry200JSONResponse(countryAnswer(row)), nil
}

// ListCountries pages through countries, newest first.
func (s *Server) ListCountries(ctx context.Context, req api.ListCountriesRequestObject) (api.ListCountriesResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.senders.ListCountries(ctx, p)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, countryOf, func(c dbq.Country) string { return idText(c.ID) })
	return api.ListCountries200JSONResponse{Code: ok, Message: success, Data: api.CountryPage{Items: items, NextCursor: next}}, nil
}

// GetCountry shows one country.
func (s *Server) GetCountry(ctx context.Context, req api.GetCountryRequestObject) (api.GetCountryResponseObject, error) {
	row, err := s.senders.GetCountry(ctx, req.CountryNo)
	if err != nil {
		return nil, err
	}
	return api.GetCountry200JSONResponse(countryAnswer(row)), nil
}

// UpdateCountry changes a country.
func (s *Server) UpdateCountry(ctx context.Context, req api.UpdateCountryRequestObject) (api.UpdateCountryResponseObject, error) {
	empty, err := nulls(exchangeOf(ctx).body)
	if err != nil {
		return nil, err
	}
	row, err := s.senders.UpdateCountry(ctx, sender.CountryPatch{
		No: req.CountryNo, Name: req.Body.Name, DialPrefix: req.Body.DialPrefix, Region: req.Body.Region,
		AnyRegion: slices.Contains(empty, "region"), SignatureRequired: req.Body.SignatureRequired, Version: req.Body.Version,
	})
	if err != nil {
		return nil, err
	}
	return api.UpdateCountry200JSONResponse(countryAnswer(row)), nil
}

// DeleteCountry removes a country.
func (s *Server) DeleteCountry(ctx context.Context, req api.DeleteCountryRequestObject) (api.DeleteCountryResponseObject, error) {
	if err := s.senders.DeleteCountry(ctx, req.CountryNo); err != nil {
		return nil, err
	}
	return api.DeleteCountry200JSONResponse{DoneJSONResponse: done()}, nil
}

// CreateSender adds a sender.
func (s *Server) CreateSender(ctx context.Context, req api.CreateSenderRequestObject) (api.CreateSenderResponseObject, error) {
	config, err := member(ctx, "config")
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = []byte("{}")
	}
	kind, lease := orElse(req.Body.Kind, sender.KindApp), req.Body.LeaseSeconds
	if kind != sender.KindApp {
		if config, err = s.pusher.SealConfig(kind, req.Body.SenderNo, config, nil); err != nil {
			return nil, err
		}
		if lease == nil {
			lease = new(int64(notify.LeaseSeconds))
		}
	}
	limits := value(req.Body.Limits)
	row, err := s.senders.CreateSender(ctx, dbq.SenderCreateParams{
		SenderNo: req.Body.SenderNo, Name: req.Body.Name, Channel: orElse(req.Body.Channel, sender.SMS),
		Kind: kind, Status: string(orElse(req.Body.Status, api.SenderOn)),
		Sort: value(req.Body.Sort), IsShared: orElse(req.Body.IsShared, true), IntervalMs: value(req.Body.IntervalMs),
		PerMinute: limits.PerMinute, PerHour: limits.PerHour, PerDay: limits.PerDay, PerMonth: limits.PerMonth,
		TimeZone: orElse(req.Body.TimeZone, "Asia/Shanghai"), LeaseSeconds: lease, Sign: req.Body.Sign,
		SegmentSize: req.Body.SegmentSize, LowWarning: req.Body.LowWarning, LowSwitch: req.Body.LowSwitch, Config: config,
		OnUnclear: string(orElse(req.Body.OnUnclear, api.OnUnclearRetry)), Balance: req.Body.Balance, Username: exchangeOf(ctx).who.Username,
	})
	if err != nil {
		return nil, err
	}
	s.pusher.Changed()
	answer, err := senderAnswer(row, s.pusher.Configs)
	return api.CreateSender200JSONResponse(answer), err
}

// ListSenders pages through senders, newest first.
func (s *Server) ListSenders(ctx context.Context, req api.ListSendersRequestObject) (api.ListSendersResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.senders.ListSenders(ctx, ownCompany(ctx), (*string)(req.Params.Status), p)
	if err != nil {
		return nil, err
	}
	var bad error
	items, next := page(rows, p.Limit-1, func(row dbq.SenderListRow) api.Sender {
		one, err := senderOf(row, s.pusher.Configs)
		if err != nil {
			bad = err
		}
		return one
	}, func(row dbq.SenderListRow) string { return idText(row.ID) })
	return api.ListSenders200JSONResponse{Code: ok, Message: success, Data: api.SenderPage{Items: items, NextCursor: next}}, bad
}

// GetSender shows one sender.
func (s *Server) GetSender(ctx context.Context, req api.GetSenderRequestObject) (api.GetSenderResponseObject, error) {
	row, err := s.senders.GetSender(ctx, ownCompany(ctx), req.SenderNo)
	if err != nil {
		return nil, err
	}
	answer, err := senderAnswer(row, s.pusher.Configs)
	return api.GetSender200JSONResponse(answer), err
}

// UpdateSender changes a sender.
func (s *Server) UpdateSender(ctx context.Context, req api.UpdateSenderRequestObject) (api.UpdateSenderResponseObject, error) {
	config, err := member(ctx, "config")
	if err != nil {
		return nil, err
	}
	clear, err := nulls(exchangeOf(ctx).body)
	if err != nil {
		return nil, err
	}
	if config, err = s.sealed(ctx, req.SenderNo, req.Body, config); err != nil {
		return nil, err
	}
	limits := value(req.Body.Limits)
	row, err := s.senders.UpdateSender(ctx, dbq.SenderUpdateParams{
		SenderNo: req.SenderNo, Name: req.Body.Name, Kind: req.Body.Kind, Status: (*string)(req.Body.Status), Sort: req.Body.Sort,
		IsShared: req.Body.IsShared, IntervalMs: req.Body.IntervalMs, PerMinute: limits.PerMinute, PerHour: limits.PerHour,
		PerDay: limits.PerDay, PerMonth: limits.PerMonth, TimeZone: req.Body.TimeZone, LeaseSeconds: req.Body.LeaseSeconds,
		Sign: req.Body.Sign, SegmentSize: req.Body.SegmentSize, LowWarning: req.Body.LowWarning, LowSwitch: req.Body.LowSwitch,
		Config: config, OnUnclear: (*string)(req.Body.OnUnclear), Clear: clear, Version: req.Body.Version, Username: exchangeOf(ctx).who.Username,
	})
	if err != nil {
		return nil, err
	}
	s.pusher.Changed()
	answer, err := senderAnswer(row, s.pusher.Configs)
	return api.UpdateSender200JSONResponse(answer), err
}

// sealed is the configuration that a patch of a sender leaves, to be stored; nil if it says nothing of it. A patch made of what
// was there a moment ago is of that version.
func (s *Server) sealed(ctx context.Context, no string, patch *api.SenderPatch, config []byte) ([]byte, error) {
	if patch.Kind == nil && config == nil {
		return nil, nil
	}
	row, err := s.senders.GetSender(ctx, nil, no)
	if err != nil {
		return nil, err
	}
	kind := orElse(patch.Kind, row.Kind)
	if kind == sender.KindApp && (config != nil || row.Kind == sender.KindApp) {
		return config, nil
	}
	if patch.Version == nil {
		patch.Version = &row.Version
	}
	if kind == sender.KindApp {
		return notify.DropSecrets(row.Kind, row.Config)
	}
	if config == nil {
		if config, err = s.pusher.ShowConfig(row.Kind, no, row.Config); err != nil {
			return nil, err
		}
	}
	return s.pusher.SealConfig(kind, no, config, &notify.Stored{Kind: row.Kind, Config: row.Config})
}

// nulls names the fields of a patch that are null, those of limits included: that they are to be emptied, which the
// generated type does not tell from what was left out.
func nulls(body []byte) ([]string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	names := []string{}
	for name, text := range fields {
		switch {
		case bytes.Equal(text, []byte("null")):
			names = append(names, name)
		case name == "limits":
			inner, err := nulls(text)
			if err != nil {
				return nil, err
			}
			names = append(names, inner...)
		}
	}
	return names, nil
}

// DeleteSender removes a sender.
func (s *Server) DeleteSender(ctx context.Context, req api.DeleteSenderRequestObject) (api.DeleteSenderResponseObject, error) {
	if err := s.senders.DeleteSender(ctx, req.SenderNo); err != nil {
		return nil, err
	}
	return api.DeleteSender200JSONResponse{DoneJSONResponse: done()}, nil
}

// ChangeBalance tops up or corrects a balance.
func (s *Server) ChangeBalance(ctx context.Context, req api.ChangeBalanceRequestObject) (api.ChangeBalanceResponseObject, error) {
	entry, err := s.senders.ChangeBalance(ctx, req.SenderNo, req.Body.Change, nonEmpty(req.Body.Remark), exchangeOf(ctx).who.Username)
	if err != nil {
		return nil, err
	}
	return api.ChangeBalance200JSONResponse{Code: ok, Message: success, Data: entryOf(entry)}, nil
}

// ListLedger pages through the changes of a balance, newest first.
func (s *Server) ListLedger(ctx context.Context, req api.ListLedgerRequestObject) (api.ListLedgerResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.senders.Ledger(ctx, ownCompany(ctx), req.SenderNo, p)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, entryOf, func(e dbq.SenderLedger) string { return idText(e.ID) })
	return api.ListLedger200JSONResponse{Code: ok, Message: success, Data: api.LedgerPage{Items: items, NextCursor: next}}, nil
}

// CreateRoute adds a route.
func (s *Server) CreateRoute(ctx context.Context, req api.CreateRouteRequestObject) (api.CreateRouteResponseObject, error) {
	row, err := s.senders.CreateRoute(ctx, sender.Route{
		CompanyNo: req.Body.CompanyNo, MessageType: messageType(&req.Body.MessageType), CountryNo: value(req.Body.CountryNo),
		SenderNo: req.Body.SenderNo, Weight: orElse(req.Body.Weight, 1), Sort: value(req.Body.Sort),
		Status: string(orElse(req.Body.Status, api.StatusOn)),
	})
	if err != nil {
		return nil, err
	}
	return api.CreateRoute200JSONResponse(routeAnswer(row)), nil
}

// ListRoutes pages through routes, newest first.
func (s *Server) ListRoutes(ctx context.Context, req api.ListRoutesRequestObject) (api.ListRoutesResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.requireCompany(ctx, req.Params.CompanyNo); err != nil {
		return nil, err
	}
	if req.Params.SenderNo != nil {
		if err := s.requireSender(ctx, *req.Params.SenderNo); err != nil {
			return nil, err
		}
	}
	rows, err := s.senders.ListRoutes(ctx, ownCompany(ctx), req.Params.CompanyNo, req.Params.SenderNo, p)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, routeOf, func(r dbq.RouteListRow) string { return idText(r.ID) })
	return api.ListRoutes200JSONResponse{Code: ok, Message: success, Data: api.RoutePage{Items: items, NextCursor: next}}, nil
}

// GetRoute shows one route.
func (s *Server) GetRoute(ctx context.Context, req api.GetRouteRequestObject) (api.GetRouteResponseObject, error) {
	row, err := s.senders.GetRoute(ctx, ownCompany(ctx), req.RouteNo)
	if err != nil {
		return nil, err
	}
	return api.GetRoute200JSONResponse(routeAnswer(row)), nil
}

// UpdateRoute changes a route.
func (s *Server) UpdateRoute(ctx context.Context, req api.UpdateRouteRequestObject) (api.UpdateRouteResponseObject, error) {
	row, err := s.senders.UpdateRoute(ctx, dbq.RouteUpdateParams{
		RouteNo: req.RouteNo, Weight: req.Body.Weight, Sort: req.Body.Sort, Status: (*string)(req.Body.Status), Version: req.Body.Version,
	})
	if err != nil {
		return nil, err
	}
	return api.UpdateRoute200JSONResponse(routeAnswer(row)), nil
}

// DeleteRoute removes a route.
func (s *Server) DeleteRoute(ctx context.Context, req api.DeleteRouteRequestObject) (api.DeleteRouteResponseObject, error) {
	if err := s.senders.DeleteRoute(ctx, req.RouteNo); err != nil {
		return nil, err
	}
	return api.DeleteRoute200JSONResponse{DoneJSONResponse: done()}, nil
}

func companyAnswer(c dbq.CompanyListRow) api.CompanyResponse {
	return api.CompanyResponse{Code: ok, Message: success, Data: companyOf(c)}
}

func companyOf(c dbq.CompanyListRow) api.Company {
	return api.Company{
		CompanyNo: c.CompanyNo, Name: c.Name, Weight: c.Weight, Countries: c.Countries, Version: c.Version,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
}

func channelAnswer(c dbq.ChannelListRow) api.ChannelResponse {
	return api.ChannelResponse{Code: ok, Message: success, Data: channelOf(c)}
}

func channelOf(c dbq.ChannelListRow) api.Channel {
	one := api.Channel{
		Channel: c.Channel, Name: c.Name, SignatureRequired: c.SignatureRequired, Countries: c.Countries,
		Version: c.Version, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if c.RetryMinutes != nil {
		one.RetryMinutes = &c.RetryMinutes
	}
	return one
}

func countryAnswer(c dbq.Country) api.CountryResponse {
	return api.CountryResponse{Code: ok, Message: success, Data: countryOf(c)}
}

func countryOf(c dbq.Country) api.Country {
	return api.Country{
		CountryNo: c.CountryNo, Name: c.Name, DialPrefix: c.DialPrefix, Region: c.Region, SignatureRequired: c.SignatureRequired, Version: c.Version,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
}

func senderAnswer(row dbq.SenderListRow, configs *notify.Configs) (api.SenderResponse, error) {
	one, err := senderOf(row, configs)
	return api.SenderResponse{Code: ok, Message: success, Data: one}, err
}

func senderOf(s dbq.SenderListRow, configs *notify.Configs) (api.Sender, error) {
	one := api.Sender{
		SenderNo: s.SenderNo, Name: s.Name, Channel: s.Channel, Kind: s.Kind, Status: api.SenderStatus(s.Status), Sort: s.Sort,
		IsShared: s.IsShared, IntervalMs: s.IntervalMs,
		Limits: api.Limits{PerMinute: s.PerMinute, PerHour: s.PerHour, PerDay: s.PerDay, PerMonth: s.PerMonth},
		Used:   api.Used{Minute: s.MinuteUsed, Hour: s.HourUsed, Day: s.DayUsed, Month: s.MonthUsed}, TimeZone: s.TimeZone,
		LeaseSeconds: s.LeaseSeconds, Sign: s.Sign, SegmentSize: s.SegmentSize, Balance: s.Balance, LowWarning: s.LowWarning,
		LowSwitch: s.LowSwitch, OnUnclear: api.OnUnclear(s.OnUnclear), IsReady: s.IsReady, NextAvailableAt: s.NextAvailableAt, SeenAt: s.SeenAt, SentAt: s.SentAt,
		Attempts: s.Attempts, TotalSent: s.Succeeded, Version: s.Version, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if s.Balance != nil {
		one.Consumed = new(s.Granted - *s.Balance)
	}
	if s.Openings > 0 {
		one.Rest = &api.SenderRest{State: api.RestHalfOpen, Reason: value(s.RestReason), Until: value(s.RestUntil), Openings: s.Openings}
		if s.IsOpen {
			one.Rest.State = api.RestOpen
		}
	}
	if reported := s.Succeeded + s.Failed; reported > 0 {
		rate, average := float64(s.Succeeded)/float64(reported), s.ResponseMs/reported
		one.SuccessRate, one.AverageResponseMs = &rate, &average
	}
	config, err := configs.ShowConfig(s.Kind, s.SenderNo, s.Config)
	if err == nil {
		one.Config, err = object(config)
	}
	if err != nil {
		return one, fmt.Errorf("read config of sender: %w", err)
	}
	return one, nil
}

func entryOf(e dbq.SenderLedger) api.LedgerEntry {
	return api.LedgerEntry{
		ID: e.ID, Change: e.Change, Balance: e.Balance, LeaseID: e.LeaseID, Remark: e.Remark, By: e.Username, CreatedAt: e.CreatedAt,
		LowWarning: e.LowWarning, LowSwitch: e.LowSwitch,
	}
}

func routeAnswer(r dbq.RouteListRow) api.RouteResponse {
	return api.RouteResponse{Code: ok, Message: success, Data: routeOf(r)}
}

func routeOf(r dbq.RouteListRow) api.Route {
	return api.Route{
		RouteNo: r.ID, CompanyNo: r.CompanyNo, MessageType: messageTypes[r.MessageType], CountryNo: r.CountryNo, SenderNo: r.SenderNo,
		Weight: r.Weight, Sort: r.Sort, Status: api.OnOff(r.Status), Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
