package httpapi

import (
	"context"
	"lksms/gen/api"
	"lksms/internal/receipt"
	"lksms/internal/receipt/callback"
	"strings"
)

// TakeCallback takes what a provider tells of messages (S3.11).
func (s *Server) TakeCallback(ctx context.Context, req api.TakeCallbackRequestObject) (api.TakeCallbackResponseObject, error) {
	x := exchangeOf(ctx)
	answer, contentType, err := s.receipts.Take(ctx, callbackOf(x, req.SenderNo))
	x.provider = req.SenderNo // also if what it says is rejected
	if receipt.IsUnproven(err) {
		x.provider = ""
	}
	if err != nil {
		return nil, err
	}
	return api.TakeCallback200AsteriskResponse{Body: strings.NewReader(answer), ContentLength: int64(len(answer)), ContentType: contentType}, nil
}

func callbackOf(x *exchange, senderNo string) callback.Call {
	return callback.Call{
		SenderNo: senderNo, SourceIP: x.origin.SourceIP, Query: x.request.URL.Query(), Header: x.request.Header, Body: x.body, Cut: x.cut,
	}
}
