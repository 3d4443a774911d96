package tasks

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// ListCallbacks pages through callbacks of providers, newest first.
func (h *Handlers) ListCallbacks(ctx context.Context, req api.ListCallbacksRequestObject) (api.ListCallbacksResponseObject, error) {
	p := req.Params
	before, err := paging.ParseID(p.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := h.services.Receipts.Callbacks(ctx, receipt.Filter{
		SenderNo: p.SenderNo, ProviderNo: p.ProviderNo, Unreadable: p.Unreadable, From: p.From, To: p.To, BeforeID: before, Limit: paging.Size(p.Limit),
	})
	return api.ListCallbacks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.CallbackPage{
		Items: convert.List(page.Rows, callbackOf), NextCursor: cursorBefore(page.Before),
	}}, err
}

// cursorBefore returns the cursor of the page with ids smaller than id. It returns nil if id is 0, because no further page exists.
func cursorBefore(id int64) *string {
	if id == 0 {
		return nil
	}
	return new(paging.CursorOf(paging.IDText(id)))
}

// GetCallback shows a callback, and the receipts and messages that it contains.
func (h *Handlers) GetCallback(ctx context.Context, req api.GetCallbackRequestObject) (api.GetCallbackResponseObject, error) {
	c, read, err := h.services.Receipts.Callback(ctx, req.CallbackID)
	return api.GetCallback200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.CallbackDetail{
		CallbackID: c.ID, SenderNo: c.SenderNo, CreatedAt: c.CreatedAt, SourceIP: c.SourceIp, Body: c.Body, BodyLength: int32(len([]rune(c.Body))),
		Refused: c.Refused, LeftOut: c.LeftOut, Repeats: c.Repeats, Receipts: convert.List(read.Receipts, readReceiptOf),
		Messages: convert.List(read.Messages, readMessageOf), Unread: optional.NonZero(read.Unread),
		UnreadFields: gate.Of(ctx).Text.Detail(&fault.Error{Fields: read.Fields}).Fields,
	}}, err
}

// ListReceipts pages through receipts of providers, newest first.
func (h *Handlers) ListReceipts(ctx context.Context, req api.ListReceiptsRequestObject) (api.ListReceiptsResponseObject, error) {
	p := req.Params
	before, err := paging.ParseID(p.Cursor)
	if err != nil {
		return nil, err
	}
	page, err := h.services.Receipts.Receipts(ctx, receipt.Filter{
		SenderNo: p.SenderNo, ProviderNo: p.ProviderNo, Matched: p.Matched, From: p.From, To: p.To, BeforeID: before, Limit: paging.Size(p.Limit),
	})
	return api.ListReceipts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ReceiptPage{
		Items: convert.List(page.Rows, receiptOf), NextCursor: cursorBefore(page.Before),
	}}, err
}

func callbackOf(c receipt.CallbackRow) api.Callback {
	return api.Callback{
		CallbackID: c.ID, SenderNo: c.SenderNo, CreatedAt: c.CreatedAt, SourceIP: c.SourceIp, Body: c.Body, BodyLength: c.Length, Refused: c.Refused,
		LeftOut: c.LeftOut, Repeats: c.Repeats,
	}
}

func receiptOf(r receipt.Row) api.Receipt {
	return api.Receipt{
		ReceiptID: r.ID, CallbackID: r.CallbackID, SenderNo: r.SenderNo, ProviderNo: r.ProviderNo, Recipient: optional.NonZero(r.Recipient),
		State: receiptStates[r.State], Code: optional.NonZero(r.Code), CreatedAt: r.CreatedAt, MatchedAt: r.MatchedAt, LookAt: r.LookAt,
	}
}

func readReceiptOf(r receipt.ReadReceipt) api.ReadReceipt {
	read := api.ReadReceipt{
		ProviderNo: r.Number, Recipient: optional.NonZero(r.Recipient), State: receiptStates[r.State], Code: optional.NonZero(r.Code),
	}
	if r.Stored != nil {
		read.ReceiptID, read.MatchedAt = &r.Stored.ID, r.Stored.MatchedAt
	}
	return read
}

func readMessageOf(m callback.Message) api.ReadMessage {
	return api.ReadMessage{
		From: m.From, To: optional.NonZero(m.To), Content: m.Content, ReceivedAt: m.ReceivedAt, MessageNo: optional.NonZero(m.MessageNo),
	}
}

// receiptStates contains the names of a message's states at its provider.
var receiptStates = [...]api.ReceiptState{
	callback.OnItsWay: api.ReceiptOnItsWay, callback.Delivered: api.ReceiptDelivered, callback.Undelivered: api.ReceiptUndelivered,
}
