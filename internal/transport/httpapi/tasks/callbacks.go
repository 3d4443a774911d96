package tasks

import (
	"context"
	"strings"

	"lksms/gen/api"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/transport/httpapi/gate"
)

// TakeCallback accepts a receipt from a provider (S3.11).
func (h *Handlers) TakeCallback(ctx context.Context, req api.TakeCallbackRequestObject) (api.TakeCallbackResponseObject, error) {
	x := gate.Of(ctx)
	answer, contentType, err := h.services.Receipts.Take(ctx, x.Call(req.SenderNo))
	x.Caller.Provider = req.SenderNo // set even if the content of a proven callback is rejected
	if receipt.IsUnproven(err) {
		x.Caller.Provider = ""
	}
	return api.TakeCallback200AsteriskResponse{Body: strings.NewReader(answer), ContentLength: int64(len(answer)), ContentType: contentType}, err
}
