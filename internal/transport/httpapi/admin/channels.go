package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// CreateChannel adds a channel.
func (h *Handlers) CreateChannel(ctx context.Context, req api.CreateChannelRequestObject) (api.CreateChannelResponseObject, error) {
	row, err := h.services.Directory.CreateChannel(ctx, directory.Channel{
		Channel: req.Body.Channel, Name: req.Body.Name, SignatureRequired: optional.Value(req.Body.SignatureRequired),
		Status:    string(optional.Or(req.Body.Status, api.SwitchOn)),
		Countries: countriesOf(req.Body.Countries, req.Body.CountriesOff, req.Body.AnyCountry), RetryMinutes: optional.Value(req.Body.RetryMinutes),
	})
	return api.CreateChannel200JSONResponse(channelAnswer(row)), err
}

// ListChannels pages through channels, newest first.
func (h *Handlers) ListChannels(ctx context.Context, req api.ListChannelsRequestObject) (api.ListChannelsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Directory.ListChannels(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, channelOf, func(c directory.ChannelRow) string { return paging.IDText(c.ID) })
	return api.ListChannels200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ChannelPage{Items: items, NextCursor: next}}, err
}

// GetChannel shows one channel.
func (h *Handlers) GetChannel(ctx context.Context, req api.GetChannelRequestObject) (api.GetChannelResponseObject, error) {
	row, err := h.services.Directory.GetChannel(ctx, req.Channel)
	return api.GetChannel200JSONResponse(channelAnswer(row)), err
}

// UpdateChannel changes a channel.
func (h *Handlers) UpdateChannel(ctx context.Context, req api.UpdateChannelRequestObject) (api.UpdateChannelResponseObject, error) {
	row, err := h.services.Directory.UpdateChannel(ctx, req.Channel, req.Body.Version, func(c *directory.Channel) {
		convert.Set(&c.Name, req.Body.Name)
		convert.Set(&c.SignatureRequired, req.Body.SignatureRequired)
		setStatus(&c.Status, req.Body.Status)
		c.Countries.Change(req.Body.Countries, req.Body.CountriesOff, req.Body.AnyCountry)
		if req.Body.RetryMinutes.IsSpecified() {
			c.RetryMinutes, _ = req.Body.RetryMinutes.Get() // nil for null
		}
	})
	return api.UpdateChannel200JSONResponse(channelAnswer(row)), err
}

// DeleteChannel removes a channel.
func (h *Handlers) DeleteChannel(ctx context.Context, req api.DeleteChannelRequestObject) (api.DeleteChannelResponseObject, error) {
	err := h.services.Directory.DeleteChannel(ctx, req.Channel)
	return api.DeleteChannel200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func channelAnswer(c directory.ChannelRow) api.ChannelResponse {
	return api.ChannelResponse{Code: convert.OK, Message: convert.Success, Data: channelOf(c)}
}

func channelOf(c directory.ChannelRow) api.Channel {
	allowed := directory.CountriesOf(c.AnyCountry, c.Countries, c.CountriesOff)
	one := api.Channel{
		Channel: c.Channel, Name: c.Name, SignatureRequired: c.SignatureRequired, Status: api.SwitchStatus(c.Status), Countries: allowed.On,
		CountriesOff: allowed.Off, AnyCountry: allowed.Any, Version: c.Version, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	}
	if c.RetryMinutes != nil {
		one.RetryMinutes = &c.RetryMinutes
	}
	return one
}
