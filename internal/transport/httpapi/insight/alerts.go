package insight

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/insight/alert"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/paging"
)

// ListEvents pages through the operator events, newest first.
func (h *Handlers) ListEvents(ctx context.Context, req api.ListEventsRequestObject) (api.ListEventsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Alerts.Events(ctx, req.Params.Event, req.Params.Subject, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, operatorEventOf, func(e alert.EventRow) string { return paging.IDText(e.ID) })
	return api.ListEvents200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.EventPage{Items: items, NextCursor: next}}, err
}

func operatorEventOf(e alert.EventRow) (api.Event, error) {
	detail, err := jsonbody.Fields(e.Detail)
	return api.Event{ID: e.ID, Event: e.Event, Subject: e.Subject, CreatedAt: e.CreatedAt, Detail: detail}, err
}

// ListAlerts pages through alerts, newest first.
func (h *Handlers) ListAlerts(ctx context.Context, req api.ListAlertsRequestObject) (api.ListAlertsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	f := alert.Filter{Rule: req.Params.RuleNo, Level: (*string)(req.Params.Level)}
	if req.Params.Status != nil {
		f.IsResolved = new(*req.Params.Status == api.AlertResolved)
	}
	rows, err := h.services.Alerts.Alerts(ctx, f, before, limit+1)
	items, next := paging.Page(rows, limit, func(a alert.Incident) api.Alert { return alertOf(ctx, a) },
		func(a alert.Incident) string { return paging.IDText(a.ID) })
	return api.ListAlerts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.AlertPage{Items: items, NextCursor: next}}, err
}

// AcknowledgeAlert records that the caller is working on an alert.
func (h *Handlers) AcknowledgeAlert(ctx context.Context, req api.AcknowledgeAlertRequestObject) (api.AcknowledgeAlertResponseObject, error) {
	one, err := h.services.Alerts.Acknowledge(ctx, req.AlertID, convert.NonEmpty(req.Body.Remark), gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	return api.AcknowledgeAlert200JSONResponse{Code: convert.OK, Message: convert.Success, Data: alertOf(ctx, one)}, nil
}

func alertOf(ctx context.Context, a alert.Incident) api.Alert {
	status := api.AlertFiring
	if a.ResolvedAt != nil {
		status = api.AlertResolved
	}
	return api.Alert{
		AlertID: a.ID, RuleNo: a.RuleID, Kind: api.AlertKind(a.Kind), Level: api.AlertLevel(a.Level), Subject: a.Subject, CompanyNo: a.CompanyNo,
		Channel: a.Channel, SenderNo: a.SenderNo, Summary: gate.Of(ctx).Text.Alerts.Summary(a.Alert), Value: a.Value, Threshold: a.Threshold,
		Status: status, StartedAt: a.StartedAt, FiredAt: *a.FiredAt, ResolvedAt: a.ResolvedAt, EndedBy: a.EndedBy,
		AcknowledgedAt: a.AcknowledgedAt, AcknowledgedBy: a.AcknowledgedBy, Remark: a.Remark, OnlyOwnChannel: a.OnlyOwnChannel,
		Deliveries: convert.List(a.Deliveries, func(d alert.DeliveryRow) api.AlertDelivery {
			return api.AlertDelivery{
				ReceiverNo: d.ReceiverID, DeliveredAt: alert.DeliveredAt(d), ResolutionDeliveredAt: alert.EndDeliveredAt(d), QueuedAt: d.ToldAt,
				EscalatedAt: d.EscalatedAt, EscalatedFrom: d.EscalatedFrom, Error: d.Error,
			}
		}),
	}
}
