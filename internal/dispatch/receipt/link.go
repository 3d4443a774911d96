package receipt

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"

	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/received"
)

// TakeLinked stores what a provider sent through a link of a sender: a receipt as Take stores it, or a message or a part of one. The provider sends it again
// unless TakeLinked returns nil. Therefore a receipt without the number of a message is also stored, as a callback with an item that cannot be read.
func (s *Service) TakeLinked(ctx context.Context, senderNo string, in provider.Incoming) error {
	if m := in.Received; m != nil {
		message := received.Message{From: m.From, To: m.To, Content: m.Content, MessageNo: m.MessageNo, Raw: in.Raw}
		if m.Part != nil {
			return s.inbox.TakePart(ctx, senderNo, message, *m.Part)
		}
		_, err := s.inbox.Take(ctx, senderNo, []received.Message{received.Fitting(message)})
		return err
	}
	p := proven{Call: callback.Call{SenderNo: senderNo, Body: []byte(in.Raw)}, hash: sha256.Sum256([]byte(in.Raw))}
	if r, others, hasNumber := linkedReceipt(in); hasNumber {
		p.body.Receipts, p.others = []callback.Receipt{r}, others
	} else {
		p.body.LeftOut = 1
	}
	if _, err := s.calls.Do(ctx, p); err != nil {
		return err
	}
	s.logLeftOut(ctx, p)
	return nil
}

// linkedReceipt returns a receipt in a form that can be stored, with the other forms of its number. hasNumber is false if no form of the number contains anything.
func linkedReceipt(in provider.Incoming) (r callback.Receipt, others []string, hasNumber bool) {
	if in.Receipt == nil {
		return r, nil, false
	}
	for _, number := range append([]string{in.Receipt.Number}, in.Others...) {
		if number = callback.FittingNumber(number); number != "" && !strings.Contains(number, "\n") && !slices.Contains(others, number) { // a line break separates numbers
			others = append(others, number)
		}
	}
	if len(others) == 0 {
		return r, nil, false
	}
	r = *in.Receipt
	r.Number = others[0]
	return callback.Fitting(r), others[1:], true
}
