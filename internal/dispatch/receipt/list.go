package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/scan"
	"lksms/internal/platform/smpp"
)

// Filter selects callbacks or receipts of a list. A nil field matches all. The page contains ids smaller than BeforeID.
type Filter struct {
	SenderNo, ProviderNo *string
	Matched              *bool // only receipts with (true) or without (false) a known message
	Unreadable           *bool // only callbacks that could not be parsed completely (true), or only the other callbacks (false)
	From, To             *time.Time
	BeforeID             int64
	Limit                int
}

// Page is a page of a list, newest first.
type Page[Row any] = scan.Page[Row]

// maxBody is the maximum number of characters of a body in a list.
const maxBody = 1000

// senders returns the sender of f, or all senders with stored callbacks.
func (s *Service) senders(ctx context.Context, f Filter) ([]string, error) {
	if f.SenderNo != nil {
		return []string{*f.SenderNo}, nil
	}
	return s.q.CallbackSenders(ctx)
}

// Receipts lists the matching receipts, newest first.
func (s *Service) Receipts(ctx context.Context, f Filter) (p Page[Row], err error) {
	first, before, err := scan.Span(f.From, f.To, f.BeforeID, func(t time.Time) (int64, error) { return s.q.FirstReceiptSince(ctx, t) })
	if err != nil {
		return p, postgres.Wrap("list receipts", err, nil)
	}
	f.BeforeID = before
	var senders []string
	isUnmatched := f.Matched != nil && !*f.Matched
	if isUnmatched || f.ProviderNo != nil {
		if senders, err = s.senders(ctx, f); err != nil {
			return p, postgres.Wrap("list receipts", err, nil)
		}
	}
	p, err = scan.List[Row]{ID: func(r Row) int64 { return r.ID }, IDs: func(before int64, limit int32) ([]int64, error) {
		switch {
		case f.ProviderNo != nil:
			return s.q.ReceiptIDsOfNumber(ctx, receiptq.ReceiptIDsOfNumberParams{SenderNos: senders, ProviderNos: smpp.StoredIDs(f.ProviderNo), BeforeID: before, FromID: first, MaxRows: limit})
		case isUnmatched:
			return s.q.ReceiptIDsUnmatched(ctx, receiptq.ReceiptIDsUnmatchedParams{SenderNos: senders, BeforeID: before, FromID: first, MaxRows: limit})
		case f.SenderNo != nil:
			return s.q.ReceiptIDsOfSender(ctx, receiptq.ReceiptIDsOfSenderParams{SenderNo: *f.SenderNo, BeforeID: before, FromID: first, MaxRows: limit})
		default:
			return s.q.ReceiptIDs(ctx, receiptq.ReceiptIDsParams{BeforeID: before, FromID: first, MaxRows: limit})
		}
	}, Rows: func(ids []int64) ([]Row, error) {
		return s.q.ReceiptListOf(ctx, receiptq.ReceiptListOfParams{
			Ids: ids, SenderNo: f.SenderNo, ProviderNos: smpp.StoredIDs(f.ProviderNo), IsMatched: f.Matched, CreatedFrom: f.From, CreatedTo: f.To,
		})
	}}.Page(f.BeforeID, f.Limit)
	return p, postgres.Wrap("list receipts", err, nil)
}

// Callbacks lists the matching callbacks, newest first, with the beginnings of their bodies.
func (s *Service) Callbacks(ctx context.Context, f Filter) (p Page[CallbackRow], err error) {
	first, before, err := scan.Span(f.From, f.To, f.BeforeID, func(t time.Time) (int64, error) { return s.q.FirstCallbackSince(ctx, t) })
	if err != nil {
		return p, postgres.Wrap("list callbacks", err, nil)
	}
	f.BeforeID = before
	var senders []string
	isUnreadable := f.Unreadable != nil && *f.Unreadable
	if isUnreadable || f.ProviderNo != nil {
		if senders, err = s.senders(ctx, f); err != nil {
			return p, postgres.Wrap("list callbacks", err, nil)
		}
	}
	p, err = scan.List[CallbackRow]{ID: func(c CallbackRow) int64 { return c.ID }, IDs: func(before int64, limit int32) ([]int64, error) {
		switch {
		case f.ProviderNo != nil:
			return s.q.CallbackIDsOfNumber(ctx, receiptq.CallbackIDsOfNumberParams{SenderNos: senders, ProviderNos: smpp.StoredIDs(f.ProviderNo), BeforeID: before, FromID: first, MaxRows: limit})
		case isUnreadable:
			return s.q.CallbackIDsUnreadable(ctx, receiptq.CallbackIDsUnreadableParams{SenderNos: senders, BeforeID: before, FromID: first, MaxRows: limit})
		case f.SenderNo != nil:
			return s.q.CallbackIDsOfSender(ctx, receiptq.CallbackIDsOfSenderParams{SenderNo: *f.SenderNo, BeforeID: before, FromID: first, MaxRows: limit})
		default:
			return s.q.CallbackIDs(ctx, receiptq.CallbackIDsParams{BeforeID: before, FromID: first, MaxRows: limit})
		}
	}, Rows: func(ids []int64) ([]CallbackRow, error) {
		return s.q.CallbackListOf(ctx, receiptq.CallbackListOfParams{
			Ids: ids, MaxBody: 2 * maxBody, SenderNo: f.SenderNo, IsUnreadable: f.Unreadable, CreatedFrom: f.From, CreatedTo: f.To,
		})
	}}.Page(f.BeforeID, f.Limit)
	if err != nil {
		return p, postgres.Wrap("list callbacks", err, nil)
	}
	all, err := s.receivers.Get(ctx)
	for i, c := range p.Rows {
		p.Rows[i].Body = characters.First(all[c.SenderNo].mask.Replace(c.Body), maxBody) // c.Body is longer, because a secret can begin within maxBody
	}
	return p, err
}

// Read contains the receipts and messages of a stored callback, parsed with the current configuration of the sender.
type Read struct {
	Receipts []ReadReceipt
	Messages []callback.Message
	Unread   string        // reason why the body cannot be parsed; empty: the body was parsed
	Fields   []fault.Field // the wrong fields of the first item, if the body cannot be parsed and they are known
}

// ReadReceipt is a parsed receipt. Stored is nil if no such receipt is stored.
type ReadReceipt struct {
	callback.Receipt
	Stored *receiptq.ReceiptsFindRow
}

// NoCallback is the reason for a callback whose sender was deleted or accepts no callbacks.
const NoCallback = "sender.no_callback"

// Callback returns a callback with its parsed receipts and messages, or the fault callback.not_found.
func (s *Service) Callback(ctx context.Context, id int64) (c receiptq.Callback, read Read, err error) {
	if c, err = s.q.CallbackGet(ctx, id); err != nil {
		return c, read, postgres.Wrap("get callback", err, fault.New(fault.NotFound, fault.CallbackNotFound))
	}
	all, err := s.receivers.Get(ctx)
	if err != nil {
		return c, read, err
	}
	r := all[c.SenderNo]
	body := c.Body
	c.Body = r.mask.Replace(body)
	if isLinked := c.SourceIp == ""; isLinked {
		read, err = s.readLinked(ctx, c, body)
		return c, read, err
	}
	if r.verifier == nil {
		read.Unread = NoCallback
		return c, read, nil
	}
	parsed, unread := r.verifier.Config.Read([]byte(body))
	if refused := new(fault.Error); errors.As(unread, &refused) {
		read.Unread, read.Fields = string(refused.Reason), refused.Fields
		return c, read, nil
	}
	read.Messages = parsed.Messages
	p := receiptq.ReceiptsFindParams{SenderNo: c.SenderNo}
	for _, one := range parsed.Receipts {
		read.Receipts = append(read.Receipts, ReadReceipt{Receipt: one})
		p.ProviderNos, p.Recipients = append(p.ProviderNos, one.Number), append(p.Recipients, one.Recipient)
		p.States, p.Codes = append(p.States, one.State), append(p.Codes, one.Code)
	}
	stored, err := s.q.ReceiptsFind(ctx, p)
	if err != nil {
		return c, read, fmt.Errorf("find the receipts of a callback: %w", err)
	}
	for _, one := range stored {
		read.Receipts[one.Nth-1].Stored = &one
	}
	return c, read, nil
}

// readLinked returns the stored receipts of a callback that came through a link of a sender. The body was written by LKSMS, and contains the numbers of the
// receipts as the carrier wrote them.
func (s *Service) readLinked(ctx context.Context, c receiptq.Callback, body string) (read Read, err error) {
	p := receiptq.ReceiptsOfCallbackParams{SenderNo: c.SenderNo, CallbackID: c.ID}
	for _, value := range callback.Values([]byte(body)) {
		for _, form := range []smpp.IDForm{smpp.FormAuto, smpp.FormHexDec, smpp.FormDecHex} {
			p.ProviderNos = append(p.ProviderNos, form.Keys(value)...)
		}
	}
	rows, err := s.q.ReceiptsOfCallback(ctx, p)
	if err != nil {
		return read, fmt.Errorf("find the receipts of a callback: %w", err)
	}
	for _, row := range rows {
		read.Receipts = append(read.Receipts, ReadReceipt{
			Receipt: callback.Receipt{Number: row.ProviderNo, Recipient: row.Recipient, Code: row.Code, State: row.State},
			Stored:  &receiptq.ReceiptsFindRow{ID: row.ID, MatchedAt: row.MatchedAt},
		})
	}
	if c.LeftOut > 0 {
		read.Unread = string(fault.RequestInvalid)
	}
	return read, nil
}
