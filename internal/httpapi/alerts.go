package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/httpapi/jsonbody"
	"lksms/internal/httpapi/paging"
)

// ListEvents pages through what operators should know, newest first.
func (s *Server) ListEvents(ctx context.Context, req api.ListEventsRequestObject) (api.ListEventsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.alerts.Events(ctx, req.Params.Event, req.Params.Subject, before, limit+1)
	if err != nil {
		return nil, err
	}
	var bad error
	items, next := paging.Page(rows, limit, func(e dbq.Event) api.Event {
		one := api.Event{ID: e.ID, Event: e.Event, Subject: e.Subject, CreatedAt: e.CreatedAt}
		var err error
		if one.Detail, err = jsonbody.Fields(e.Detail); err != nil {
			bad = err
		}
		return one
	}, func(e dbq.Event) string { return paging.IDText(e.ID) })
	return api.ListEvents200JSONResponse{Code: ok, Message: success, Data: api.EventPage{Items: items, NextCursor: next}}, bad
}
