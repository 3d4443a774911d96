package audience

import (
	"context"
	"math"
	"strings"
	"time"

	"lksms/gen/api"
	"lksms/internal/audience/notification"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// SendOnce sends a subscribe message at most once (S2.1).
func (h *Handlers) SendOnce(ctx context.Context, req api.SendOnceRequestObject) (api.SendOnceResponseObject, error) {
	b := req.Body
	data, err := convert.Fields(ctx, "data")
	if err != nil {
		return nil, err
	}
	origin, err := h.originFor(ctx, b.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, again, err := h.services.Notifications.SendOnce(ctx, notification.Once{
		BusinessType: b.BusinessType, BusinessID: b.BusinessID, TemplateType: b.TemplateType, ReceiverUserID: b.ReceiverUserID,
		TemplateID: b.TemplateID, OpenID: optional.Value(b.ReceiverOpenid), Data: data, Page: optional.Value(b.Page), Again: optional.Value(b.Retry),
		OnUnclear: string(optional.Or(b.OnUnclear, api.OnUnclearFail)), ExpiresAt: b.ExpiresAt,
	}, origin)
	if err != nil {
		return nil, err
	}
	one := onceOf(row)
	one.Deduplicated = &again
	return api.SendOnce200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, nil
}

// ListOnce pages through subscribe messages, newest first (S2.4). A list of failed messages is sorted by the time of failure, latest first.
func (h *Handlers) ListOnce(ctx context.Context, req api.ListOnceRequestObject) (api.ListOnceResponseObject, error) {
	f := notification.OnceFilter{
		Viewer: caller.Viewer(ctx), SubmittedBy: req.Params.SubmittedBy, BusinessType: req.Params.BusinessType, BusinessID: req.Params.BusinessID,
		ReceiverUserID: req.Params.ReceiverUserID, Status: (*int16)(req.Params.SendStatus), Limit: paging.Size(req.Params.Limit) + 1,
	}
	key := func(row notification.SubscribeRow) string { return paging.IDText(row.ID) }
	var err error
	if f.IsOfFailures() {
		key = func(row notification.SubscribeRow) string {
			return optional.Value(notification.FailedAt(row)).UTC().Format(time.RFC3339Nano) + "," + paging.IDText(row.ID)
		}
		f.BeforeFailure, f.Before, err = paging.TimeCursor(req.Params.Cursor)
	} else {
		f.Before, err = paging.ParseID(req.Params.Cursor)
	}
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Notifications.ListOnce(ctx, f)
	items, next := paging.Page(rows, f.Limit-1, onceOf, key)
	return api.ListOnce200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.OncePage{Items: items, NextCursor: next}}, err
}

// OnceStatistics counts subscribe messages by template type (S2.4).
func (h *Handlers) OnceStatistics(ctx context.Context, _ api.OnceStatisticsRequestObject) (api.OnceStatisticsResponseObject, error) {
	rows, err := h.services.Notifications.OnceStatistics(ctx, caller.Viewer(ctx))
	return api.OnceStatistics200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.OnceCounts{
		Items: convert.List(rows, func(r notification.SubscribeCounts) api.OnceCount {
			return api.OnceCount{
				TemplateType: r.TemplateType, Total: r.Total, Success: r.Success, Failed: r.Failed,
				SuccessRate: math.Round(float64(r.Success)*10000/float64(r.Total)) / 100,
			}
		}),
	}}, err
}

func onceOf(m notification.SubscribeRow) api.Once {
	heldBy := convert.List(m.HeldBy, func(one string) api.Switch {
		kind, name, _ := strings.Cut(one, " ")
		return api.Switch{Switch: api.SwitchSwitch(kind), Name: name}
	})
	return api.Once{
		MessageID: m.ID, BusinessType: m.BusinessType, BusinessID: m.BusinessID, TemplateType: m.TemplateType,
		ReceiverUserID: m.ReceiverUserID, TemplateID: m.TemplateID, TaskID: m.TaskID, SendStatus: api.SendStatus(m.SendStatus),
		Sends: m.Sends, SubmittedBy: m.SubmittedBy, OnUnclear: api.OnUnclear(m.OnUnclear), ErrorCode: optional.NonZero(m.ErrorCode), ErrorMessage: optional.NonZero(m.ErrorMessage),
		SentAt: m.SentAt, FailedAt: notification.FailedAt(m), CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt,
		WaitsBecause: optional.NonZero(m.WaitsBecause), WaitsUntil: m.WaitsUntil, HeldBy: &heldBy,
	}
}
