package tasks

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/api"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// webhookUser returns the user whose webhooks the caller can read and change. It returns nil for an admin, who can read all webhooks.
func webhookUser(ctx context.Context) *string {
	if who := gate.Of(ctx).Caller.User; who.Role != access.RoleAdmin {
		return &who.Username
	}
	return nil
}

// CreateWebhook adds a webhook of the caller. An admin adds a webhook for a company or for all companies (B13).
func (h *Handlers) CreateWebhook(ctx context.Context, req api.CreateWebhookRequestObject) (api.CreateWebhookResponseObject, error) {
	owner := webhook.Owner{Username: webhookUser(ctx)}
	if owner.Username != nil || req.Body.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
		if err != nil {
			return nil, err
		}
		owner.CompanyID = &company
	}
	row, secret, err := h.services.Webhooks.Create(ctx, owner, webhook.Settings{
		URL: req.Body.URL, Events: eventsOf(req.Body.Events), Description: optional.Value(req.Body.Description), Status: webhook.On,
	}, gate.Of(ctx).Caller.User.Username)
	return api.CreateWebhook200JSONResponse(newWebhook(row, secret)), err
}

// ListWebhooks pages through webhooks, newest first.
func (h *Handlers) ListWebhooks(ctx context.Context, req api.ListWebhooksRequestObject) (api.ListWebhooksResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Webhooks.List(ctx, webhookUser(ctx), before, limit+1)
	items, next := paging.Page(rows, limit, webhookOf, func(r webhook.Row) string { return paging.IDText(r.ID) })
	return api.ListWebhooks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.WebhookPage{Items: items, NextCursor: next}}, err
}

// GetWebhook shows one webhook.
func (h *Handlers) GetWebhook(ctx context.Context, req api.GetWebhookRequestObject) (api.GetWebhookResponseObject, error) {
	row, err := h.services.Webhooks.Get(ctx, webhookUser(ctx), req.WebhookID)
	return api.GetWebhook200JSONResponse{Code: convert.OK, Message: convert.Success, Data: webhookOf(row)}, err
}

// UpdateWebhook changes a webhook.
func (h *Handlers) UpdateWebhook(ctx context.Context, req api.UpdateWebhookRequestObject) (api.UpdateWebhookResponseObject, error) {
	p := req.Body
	row, err := h.services.Webhooks.Update(ctx, webhookUser(ctx), req.WebhookID, p.Version, func(to *webhook.Settings) {
		convert.Set(&to.URL, p.URL)
		if p.Events != nil {
			to.Events = eventsOf(*p.Events)
		}
		convert.Set(&to.Description, p.Description)
		convert.Set(&to.Status, (*string)(p.Status))
	})
	return api.UpdateWebhook200JSONResponse{Code: convert.OK, Message: convert.Success, Data: webhookOf(row)}, err
}

// DeleteWebhook removes a webhook.
func (h *Handlers) DeleteWebhook(ctx context.Context, req api.DeleteWebhookRequestObject) (api.DeleteWebhookResponseObject, error) {
	err := h.services.Webhooks.Delete(ctx, webhookUser(ctx), req.WebhookID)
	return api.DeleteWebhook200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// RotateWebhook creates a new secret for a webhook.
func (h *Handlers) RotateWebhook(ctx context.Context, req api.RotateWebhookRequestObject) (api.RotateWebhookResponseObject, error) {
	overlap := time.Duration(optional.Or(req.Body.OverlapSeconds, 86_400)) * time.Second // 86_400 is the default in the contract
	row, secret, err := h.services.Webhooks.Rotate(ctx, webhookUser(ctx), req.WebhookID, overlap)
	return api.RotateWebhook200JSONResponse(newWebhook(row, secret)), err
}

// TestWebhook posts a test event immediately.
func (h *Handlers) TestWebhook(ctx context.Context, req api.TestWebhookRequestObject) (api.TestWebhookResponseObject, error) {
	a, err := h.services.Webhooks.Test(ctx, webhookUser(ctx), req.WebhookID)
	return api.TestWebhook200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.WebhookTest{
		Taken: a.Error == "", StatusCode: optional.NonZero(a.Status), DurationMs: a.Duration.Milliseconds(), Error: optional.NonZero(a.Error),
		Response: optional.NonZero(a.Response),
	}}, err
}

// ReplayWebhook posts events again.
func (h *Handlers) ReplayWebhook(ctx context.Context, req api.ReplayWebhookRequestObject) (api.ReplayWebhookResponseObject, error) {
	b := req.Body
	switch {
	case b.EventIds != nil && b.From != nil:
		return nil, fault.InvalidField("from", fault.NotTogether, "event_ids")
	case b.EventIds == nil && b.From == nil:
		return nil, fault.InvalidField("event_ids", fault.Required, nil)
	case b.To != nil && b.From == nil:
		return nil, fault.InvalidField("to", fault.OnlyTogether, "from")
	case b.To != nil && !b.To.After(*b.From):
		return nil, fault.InvalidField("to", fault.RangeEmpty, nil)
	}
	r := webhook.Replay{From: b.From, To: b.To}
	var wrong fault.Fields
	for i, text := range optional.Value(b.EventIds) {
		id, isID := feed.ParseID(text)
		if !isID {
			wrong.Invalid(fmt.Sprintf("event_ids.%d", i), fault.WrongFormat, nil)
		}
		r.IDs = append(r.IDs, id)
	}
	if err := wrong.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
	}
	out, err := h.services.Webhooks.Replay(ctx, webhookUser(ctx), req.WebhookID, r)
	data := api.WebhookReplayed{Events: out.Events, Complete: out.IsComplete, KeptSince: out.KeptSince}
	if out.LastID > 0 {
		data.LastEventID = new(feed.IDText(out.LastID))
	}
	return api.ReplayWebhook200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// ListWebhookDeliveries pages through the latest posts of a webhook, newest first.
func (h *Handlers) ListWebhookDeliveries(ctx context.Context, req api.ListWebhookDeliveriesRequestObject) (api.ListWebhookDeliveriesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Webhooks.Deliveries(ctx, webhookUser(ctx), req.WebhookID, before, limit+1)
	items, next := paging.Page(rows, limit, webhookDelivery, func(d webhook.Delivery) string { return paging.IDText(d.ID) })
	return api.ListWebhookDeliveries200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.WebhookDeliveryPage{Items: items, NextCursor: next}}, err
}

func webhookDelivery(d webhook.Delivery) api.WebhookDelivery {
	shown := api.WebhookDelivery{
		EventID: feed.IDText(d.FeedID), Type: d.Type, At: d.At, Attempt: int(d.Attempt), Taken: d.Error == nil, DurationMs: d.DurationMs,
		Error: d.Error, Response: d.Response, NextAt: d.NextAt,
	}
	if d.StatusCode != nil {
		shown.StatusCode = new(int(*d.StatusCode))
	}
	if d.Body != nil {
		shown.Request = &d.Body
	}
	return shown
}

func webhookOf(r webhook.Row) api.Webhook {
	scope := api.WebhookOfAll
	switch {
	case r.Username != nil:
		scope = api.WebhookOfUser
	case r.CompanyID != nil:
		scope = api.WebhookOfCompany
	}
	return api.Webhook{
		WebhookID: r.ID, Form: api.FormOfWebhook(r.Form), Scope: scope, CompanyNo: r.CompanyNo, Username: r.Username, URL: r.Url,
		Events: convert.List(r.Events, func(t string) api.EventType { return api.EventType(t) }), Description: r.Description, Status: api.WebhookStatus(r.Status),
		OffReason: r.OffReason, FailingSince: r.FailingSince, Waiting: r.Waiting, CreatedBy: r.CreatedBy, RotatedAt: r.RotatedAt, Version: r.Version,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func newWebhook(r webhook.Row, secret string) api.NewWebhookResponse {
	w := webhookOf(r)
	return api.NewWebhookResponse{Code: convert.OK, Message: convert.Success, Data: api.NewWebhook{
		WebhookID: w.WebhookID, Form: w.Form, Scope: w.Scope, CompanyNo: w.CompanyNo, Username: w.Username, URL: w.URL, Events: w.Events, Description: w.Description,
		Status: w.Status, OffReason: w.OffReason, FailingSince: w.FailingSince, Waiting: w.Waiting, CreatedBy: w.CreatedBy, RotatedAt: w.RotatedAt,
		Version: w.Version, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, Secret: secret,
	}}
}

func eventsOf(types []api.EventType) []string {
	return convert.List(types, func(t api.EventType) string { return string(t) })
}
