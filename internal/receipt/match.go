package receipt

import (
	"context"
	"fmt"
	"slices"

	"lksms/gen/dbq"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/queue"
	"lksms/internal/receipt/callback"
)

// Match looks for the messages of receipts that came before the answers to their sending, and returns how many it found. Its cost is
// that of the receipts whose turn it is, however many are parked.
func (s *Service) Match(ctx context.Context) (int, error) {
	total := 0
	for {
		ids, err := s.q.ReceiptsDue(ctx, matchBatch)
		if err != nil {
			return total, fmt.Errorf("look for receipts: %w", err)
		}
		n, err := s.match(ctx, ids)
		if total += n; err != nil || len(ids) < matchBatch {
			return total, err
		}
	}
}

// MatchSent matches the receipts that came before what was just reported. The sweep finds those that come at the same moment.
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
	ids, err := s.q.ReceiptsWaiting(ctx, dbq.ReceiptsWaitingParams{SenderNo: senderNo, ProviderNos: numbers})
	if err == nil {
		_, err = s.match(ctx, ids)
	}
	if err != nil {
		s.log.WarnContext(ctx, "receipts are matched later", "sender_no", senderNo, "error", err)
	}
}

// match joins receipts to the tasks of their messages and returns how many it has joined: by the provider's number and, where the
// receipt names one, by the recipient.
func (s *Service) match(ctx context.Context, ids []int64) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	looked := dbq.ReceiptLookedParams{ParkedFor: parkedFor, Found: []int64{}}
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		rows, err := s.q.ReceiptCandidates(ctx, ids)
		if err != nil {
			return fmt.Errorf("look for the messages of receipts: %w", err)
		}
		var final []queue.Final
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r dbq.ReceiptCandidatesRow) bool { return r.ID != rows[0].ID })
			if n < 0 {
				n = len(rows)
			}
			looked.Ids = append(looked.Ids, rows[0].ID)
			meant := meantBy(rows[:n])
			if len(meant) > 0 {
				looked.Found = append(looked.Found, rows[0].ID)
			}
			for _, r := range meant {
				if r.State == callback.OnItsWay {
					continue
				}
				final = append(final, queue.Final{TaskID: r.TaskID, SenderNo: r.SenderNo, Code: r.Code, State: r.State})
			}
			rows = rows[n:]
		}
		if err := s.tasks.SettleReceipts(ctx, final); err != nil {
			return err
		}
		return postgres.Wrap("note which receipts were matched", s.q.ReceiptLooked(ctx, looked), nil)
	})
	if err != nil {
		return 0, err
	}
	return len(looked.Found), nil
}

// meantBy are those of the candidates of one receipt that it means: those whose recipient it names in full, else those that it may name
// without the prefix of the country, unless that is the number of several.
func meantBy(candidates []dbq.ReceiptCandidatesRow) []dbq.ReceiptCandidatesRow {
	var inFull, atHome []dbq.ReceiptCandidatesRow
	for _, c := range candidates {
		if c.TaskID == "" {
			continue
		}
		switch {
		case c.Recipient == "" || phone.IsInFull(c.SentTo, c.Recipient):
			inFull = append(inFull, c)
		case phone.IsAtHome(c.SentTo, c.Recipient):
			atHome = append(atHome, c)
		}
	}
	if len(inFull) > 0 {
		return inFull
	}
	if slices.ContainsFunc(atHome, func(c dbq.ReceiptCandidatesRow) bool { return c.SentTo != atHome[0].SentTo }) {
		return nil
	}
	return atHome
}
