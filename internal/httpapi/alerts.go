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
	items, next, err := paging.TryPage(rows, limit, operatorEventOf, func(e dbq.Event) string { return paging.IDText(e.ID) })
	return api.ListEvents200JSONResponse{Code: ok, Message: success, Data: api.EventPage{Items: items, NextCursor: next}}, err
}

func operatorEventOf(e dbq.Event) (api.Event, error) {
	detail, err := jsonbody.Fields(e.Detail)
	return api.Event{ID: e.ID, Event: e.Event, Subject: e.Subject, CreatedAt: e.CreatedAt, Detail: detail}, err
}
