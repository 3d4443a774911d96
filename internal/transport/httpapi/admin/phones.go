package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgate/mobile"
)

// PairPhone returns a pairing code with which a phone registers as a sender.
func (h *Handlers) PairPhone(ctx context.Context, req api.PairPhoneRequestObject) (api.PairPhoneResponseObject, error) {
	made, err := h.services.Phones.Pair(ctx, req.SenderNo, req.Body.SimNumber)
	address := "https://" + gate.Of(ctx).Address() + mobile.Prefix // the app accepts no other scheme
	return api.PairPhone200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Pairing{
		Code: made.Code, ExpiresAt: made.Until, Address: address, Qr: address + "\n" + made.Code,
	}}, err
}
