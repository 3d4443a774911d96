package receipt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/postgres"
)

// Match matches receipts that arrived before the provider's response to the message. It returns the number of matched receipts. Its cost depends only on the
// number of due receipts, and not on the number of stored receipts.
func (s *Service) Match(ctx context.Context) (int, error) {
	total := 0
	for {
		ids, err := s.q.ReceiptsDue(ctx, matchBatch)
		if err != nil {
			return total, fmt.Errorf("find due receipts: %w", err)
		}
		n, err := s.match(ctx, ids)
		if total += n; err != nil || len(ids) < matchBatch {
			return total, err
		}
	}
}

// MatchSent matches receipts that arrived before the given reports. If a receipt arrives at the same moment as a report, the sweep matches it later. Errors
// are only logged.
func (s *Service) MatchSent(ctx context.Context, senderNo string, reports []queue.Report) {
	var numbers []string
	for _, r := range reports {
		if r.ProviderNo != "" {
			numbers = append(numbers, strings.Split(r.ProviderNo, "\n")...)
		}
	}
	if len(numbers) == 0 {
		return
	}
	ids, err := s.q.ReceiptsWaiting(ctx, receiptq.ReceiptsWaitingParams{SenderNo: senderNo, ProviderNos: numbers})
	if err == nil {
		_, err = s.match(ctx, ids)
	}
	if err != nil {
		s.log.WarnContext(ctx, "receipts will be matched later", "sender_no", senderNo, "error", err)
	}
}

// match matches receipts with tasks in one transaction, and returns the number of matched receipts. A receipt matches a task by the provider's number and, if
// the receipt contains a recipient, by the recipient. The receipt gets the number of its message, if this is another form of its own number.
func (s *Service) match(ctx context.Context, ids []int64) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	params := receiptq.ReceiptTriedParams{ParkedFor: parkedFor, Found: []int64{}, LeftOver: []int64{}}
	var named receiptq.ReceiptsNameParams
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		rows, err := s.q.ReceiptCandidates(ctx, ids)
		if err != nil {
			return fmt.Errorf("find the messages of receipts: %w", err)
		}
		var final []queue.Final
		var of []int64            // ids of the receipts, in the order of final
		parts := map[int64]bool{} // leases with a delivered part
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r receiptq.ReceiptCandidatesRow) bool { return r.ID != rows[0].ID })
			if n < 0 {
				n = len(rows)
			}
			params.Ids = append(params.Ids, rows[0].ID)
			matched := matchedBy(rows[:n])
			if len(matched) > 0 {
				params.Found = append(params.Found, rows[0].ID)
				if matched[0].IsOther {
					named.Ids, named.Numbers = append(named.Ids, rows[0].ID), append(named.Numbers, matched[0].Number)
				}
			}
			for _, r := range matched {
				if r.State == callback.OnItsWay || r.InPart {
					continue
				}
				if r.IsPart && r.State == callback.Delivered {
					parts[*r.LeaseID] = true
				}
				of = append(of, r.ID)
				final = append(final, queue.Final{TaskID: r.TaskID, SenderNo: r.SenderNo, Code: r.Code, State: r.State, LeaseID: r.LeaseID})
			}
			rows = rows[n:]
		}
		if len(named.Ids) > 0 {
			if err := s.q.ReceiptsName(ctx, named); err != nil {
				return fmt.Errorf("give receipts the numbers of their messages: %w", err)
			}
		}
		if err := s.q.ReceiptTried(ctx, params); err != nil {
			return fmt.Errorf("mark receipts as matched: %w", err)
		}
		final, of, err = s.withoutIncomplete(ctx, final, of, parts)
		if err != nil {
			return err
		}
		left, err := s.queue.SettleReceipts(ctx, final)
		if err != nil {
			return err
		}
		for i, id := range of {
			if left[i] {
				params.LeftOver = append(params.LeftOver, id)
			}
		}
		if len(params.LeftOver) == 0 {
			return nil
		}
		return postgres.Wrap("repeat receipts later", s.q.ReceiptTried(ctx, receiptq.ReceiptTriedParams{
			Ids: params.LeftOver, LeftOver: params.LeftOver, Found: []int64{}, ParkedFor: parkedFor,
		}), nil)
	})
	if err != nil {
		return 0, err
	}
	return len(params.Found), nil
}

// withoutIncomplete removes the delivered parts of long messages with other parts that are not delivered. A message is delivered with its last part.
func (s *Service) withoutIncomplete(ctx context.Context, final []queue.Final, of []int64, parts map[int64]bool) ([]queue.Final, []int64, error) {
	if len(parts) == 0 {
		return final, of, nil
	}
	var p receiptq.DeliveriesOfLeasesParams
	for _, f := range final {
		if f.LeaseID != nil && parts[*f.LeaseID] {
			p.TaskIds, p.LeaseIds = append(p.TaskIds, f.TaskID), append(p.LeaseIds, *f.LeaseID)
		}
	}
	if err := s.q.DeliveriesOfLeasesHold(ctx, receiptq.DeliveriesOfLeasesHoldParams(p)); err != nil { // receipts of two parts at once see each other
		return nil, nil, fmt.Errorf("lock parts: %w", err)
	}
	incomplete, err := s.q.DeliveriesOfLeases(ctx, p)
	if err != nil {
		return nil, nil, fmt.Errorf("find parts that are not delivered: %w", err)
	}
	var whole []queue.Final
	var ofWhole []int64
	for i, f := range final {
		if f.State != callback.Delivered || f.LeaseID == nil || !slices.Contains(incomplete, *f.LeaseID) {
			whole, ofWhole = append(whole, f), append(ofWhole, of[i])
		}
	}
	return whole, ofWhole, nil
}

// matchedBy returns the candidates whose recipient one receipt contains. If the receipt contains full numbers of candidates, matchedBy ignores the candidates
// with a matching national number. If the national number belongs to several recipients, or if messages with several other forms of the receipt's number match, no
// candidate is returned.
func matchedBy(candidates []receiptq.ReceiptCandidatesRow) []receiptq.ReceiptCandidatesRow {
	var inFull, national []receiptq.ReceiptCandidatesRow
	for _, c := range candidates {
		if c.TaskID == "" {
			continue
		}
		switch {
		case c.Recipient == "" || phone.HasCountryCode(c.SentTo, c.Recipient):
			inFull = append(inFull, c)
		case phone.IsNationalFormat(c.SentTo, c.Recipient):
			national = append(national, c)
		}
	}
	matched := inFull
	if len(matched) == 0 {
		matched = national
	}
	isAmbiguous := func(c receiptq.ReceiptCandidatesRow) bool {
		return c.IsOther && c.Number != matched[0].Number || len(inFull) == 0 && c.SentTo != matched[0].SentTo
	}
	if slices.ContainsFunc(matched, isAmbiguous) {
		return nil
	}
	return matched
}
