package tasks

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// ReceiveMessages accepts messages that people sent to a sender app. Each message has its own outcome.
func (h *Handlers) ReceiveMessages(ctx context.Context, req api.ReceiveMessagesRequestObject) (api.ReceiveMessagesResponseObject, error) {
	app := req.Body.AppID
	if err := h.scope.RequireApp(ctx, app); err != nil {
		return nil, err
	}
	x := gate.Of(ctx)
	wrong := wrongOf(x.Body.Items)
	var good []received.Message
	for i, m := range req.Body.Messages {
		if wrong[i] == nil {
			good = append(good, received.Message{
				From: m.From, To: optional.Value(m.To), Content: m.Content, SIM: optional.Value(m.Sim), ReceivedAt: m.ReceivedAt, MessageNo: optional.Value(m.MessageNo),
			})
		}
	}
	if len(good) > 0 { // invalid messages register no app
		if err := h.services.Senders.EnsureApp(ctx, app); err != nil {
			return nil, err
		}
	}
	stored, err := h.services.Received.Take(ctx, app, good)
	if err != nil {
		return nil, err
	}
	data := api.ReceivedBatch{Items: make([]api.ReceivedOutcome, len(wrong)), Accepted: len(good), Refused: len(wrong) - len(good)}
	toFault := h.services.Gate.ToFaults(ctx)
	for i := range data.Items {
		item := &data.Items[i]
		if wrong[i] != nil {
			item.Code, item.Message, item.Error = gate.ItemError(x.Text, toFault(wrong[i]))
			continue
		}
		item.Code, item.ReceivedID, item.Deduplicated = convert.OK, &stored[0].ID, &stored[0].Deduplicated
		stored = stored[1:]
	}
	x.AddToLog("app_id", app, "accepted", data.Accepted, "refused", data.Refused)
	return api.ReceiveMessages200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// ListReceived pages through received messages, newest first.
func (h *Handlers) ListReceived(ctx context.Context, req api.ListReceivedRequestObject) (api.ListReceivedResponseObject, error) {
	p := req.Params
	before, err := paging.ParseID(p.Cursor)
	if err != nil {
		return nil, err
	}
	if err := h.scope.RequireSender(ctx, p.SenderNo); err != nil {
		return nil, err
	}
	viewer := caller.Viewer(ctx)
	if p.CompanyNo != nil || viewer.CompanyID != nil {
		company, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return nil, err
		}
		viewer.CompanyID = &company
	}
	f := received.Filter{
		Viewer: viewer, SenderNo: p.SenderNo, Kind: (*string)(p.Kind), Unread: p.Unread, From: p.From, To: p.To, BeforeID: before, Limit: paging.Size(p.Limit),
	}
	if p.PhoneNumber != nil {
		regions, err := h.services.Directory.Regions(ctx, viewer.CompanyID)
		if err != nil {
			return nil, err
		}
		f.PhoneNumbers = received.NumbersOf(*p.PhoneNumber, regions)
	}
	page, err := h.services.Received.List(ctx, f)
	return api.ListReceived200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ReceivedPage{
		Items: convert.List(page.Rows, receivedOf), NextCursor: cursorBefore(page.Before),
	}}, err
}

// GetReceived shows a received message in its original form too.
func (h *Handlers) GetReceived(ctx context.Context, req api.GetReceivedRequestObject) (api.GetReceivedResponseObject, error) {
	row, err := h.services.Received.Get(ctx, caller.Viewer(ctx), req.ReceivedID)
	return api.GetReceived200JSONResponse(receivedAnswer(row)), err
}

// ReadReceived marks a received message as read.
func (h *Handlers) ReadReceived(ctx context.Context, req api.ReadReceivedRequestObject) (api.ReadReceivedResponseObject, error) {
	row, err := h.services.Received.Read(ctx, caller.Viewer(ctx), req.ReceivedID, gate.Of(ctx).Caller.User.Username)
	return api.ReadReceived200JSONResponse(receivedAnswer(row)), err
}

func receivedAnswer(row received.Row) api.ReceivedResponse {
	one := receivedOf(row)
	one.Raw = row.Raw
	return api.ReceivedResponse{Code: convert.OK, Message: convert.Success, Data: one}
}

func receivedOf(r received.Row) api.Received {
	return api.Received{
		ReceivedID: r.ID, CompanyNo: optional.Value(r.CompanyNo), SenderNo: r.SenderNo, Sim: r.Sim, PhoneNumber: r.PhoneNumber, OwnNumber: r.OwnNumber,
		Content: r.Content, Kind: api.ReceivedKind(r.Kind), ReceivedAt: r.ReceivedAt, CreatedAt: r.CreatedAt, MessageNo: r.MessageNo, InReplyTo: r.TaskID,
		ReadAt: r.ReadAt, ReadBy: r.ReadBy, Rule: convert.ReceivedRule(r.RuleID, r.RuleAction, r.RuleOutcome, r.RuleRefused, r.RuleDoneAt),
	}
}
