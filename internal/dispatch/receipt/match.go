package receipt

import (
	"context"
	"fmt"
	"slices"

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
			numbers = append(numbers, r.ProviderNo)
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
// the receipt contains a recipient, by the recipient.
func (s *Service) match(ctx context.Context, ids []int64) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	params := receiptq.ReceiptTriedParams{ParkedFor: parkedFor, Found: []int64{}, LeftOver: []int64{}}
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		rows, err := s.q.ReceiptCandidates(ctx, ids)
		if err != nil {
			return fmt.Errorf("find the messages of receipts: %w", err)
		}
		var final []queue.Final
		var of []int64 // the receipt of each entry of final
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r receiptq.ReceiptCandidatesRow) bool { return r.ID != rows[0].ID })
			if n < 0 {
				n = len(rows)
			}
			params.Ids = append(params.Ids, rows[0].ID)
			matched := matchedBy(rows[:n])
			if len(matched) > 0 {
				params.Found = append(params.Found, rows[0].ID)
			}
			for _, r := range matched {
				if r.State == callback.OnItsWay {
					continue
				}
				of = append(of, r.ID)
				final = append(final, queue.Final{TaskID: r.TaskID, SenderNo: r.SenderNo, Code: r.Code, State: r.State, LeaseID: r.LeaseID})
			}
			rows = rows[n:]
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
		params.Found = slices.DeleteFunc(params.Found, func(id int64) bool { return slices.Contains(params.LeftOver, id) })
		return postgres.Wrap("mark receipts as matched", s.q.ReceiptTried(ctx, params), nil)
	})
	if err != nil {
		return 0, err
	}
	return len(params.Found), nil
}

// matchedBy returns the candidates whose recipient one receipt contains. If the receipt contains full numbers of candidates, matchedBy ignores the candidates
// with a matching national number. If the national number belongs to several recipients, no candidate is returned.
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
	if len(inFull) > 0 {
		return inFull
	}
	if slices.ContainsFunc(national, func(c receiptq.ReceiptCandidatesRow) bool { return c.SentTo != national[0].SentTo }) {
		return nil
	}
	return national
}
