package received

import (
	"context"
	"slices"

	"lksms/gen/receivedq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes a person from received messages. An erased message is still known, so that a repeat of the message is not stored again.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	if len(p.Digits) == 0 {
		return nil
	}
	next := func(ctx context.Context, after int64) (all []erase.Candidate, err error) {
		rows, err := s.q.ErasureReceivedCandidates(ctx, receivedq.ErasureReceivedCandidatesParams{
			CompanyID: p.CompanyID, Digits: p.Digits, AfterID: after, Portion: erase.Portion,
		})
		for _, row := range rows {
			all = append(all, erase.Candidate{ID: row.ID, Matches: p.Has(row.PhoneNumber)})
		}
		return all, postgres.Wrap("find received messages", err, nil)
	}
	err := run.Matching(ctx, next, func(ctx context.Context, ids []int64) (erase.Counts, error) {
		n, err := s.q.ErasureReceived(ctx, ids)
		return erase.Counts{erase.Received: n}, err
	})
	return postgres.Wrap("erase received messages", err, nil)
}

// EraseParts deletes the parts of long messages from a person that still wait for other parts. It deletes only the parts whose message would belong to the company
// of the erasure: its tasks to the person must still exist. A deleted part is still known, so that a repeat of the part is not stored again.
func (s *Service) EraseParts(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	if len(p.Digits) == 0 {
		return nil, nil
	}
	waiting, err := s.q.ErasureReceivedParts(ctx, p.Digits)
	if err != nil {
		return nil, postgres.Wrap("find parts of received messages", err, nil)
	}
	var deleted int64
	for len(waiting) > 0 {
		senderNo, n := waiting[0].SenderNo, slices.IndexFunc(waiting, func(w receivedq.ErasureReceivedPartsRow) bool { return w.SenderNo != waiting[0].SenderNo })
		if n < 0 {
			n = len(waiting)
		}
		ofPerson := slices.DeleteFunc(slices.Clone(waiting[:n]), func(w receivedq.ErasureReceivedPartsRow) bool { return !p.Has(w.FromNo) })
		of, err := s.eraseParts(ctx, p, senderNo, ofPerson)
		if err != nil {
			return nil, postgres.Wrap("delete parts of received messages", err, nil)
		}
		deleted, waiting = deleted+of, waiting[n:]
	}
	return erase.Counts{erase.Received: deleted}, nil
}

// eraseParts deletes those messages of a person to a sender that would belong to the company of an erasure. It returns the number of parts.
func (s *Service) eraseParts(ctx context.Context, p *erase.Person, senderNo string, waiting []receivedq.ErasureReceivedPartsRow) (int64, error) {
	messages := make([]Message, len(waiting))
	for i, w := range waiting {
		messages[i] = Message{From: w.FromNo, To: w.ToNo, ReceivedAt: &w.Began}
	}
	rows, err := s.rowsOf(ctx, senderNo, messages)
	if err != nil {
		return 0, err
	}
	of := receivedq.ErasureReceivedPartsDeleteParams{SenderNo: senderNo}
	for i, w := range waiting {
		if rows[i].company == p.CompanyID {
			of.FromNos, of.ToNos = append(of.FromNos, w.FromNo), append(of.ToNos, w.ToNo)
			of.ReferencesOf, of.Totals = append(of.ReferencesOf, w.Reference), append(of.Totals, w.Total)
		}
	}
	if len(of.FromNos) == 0 {
		return 0, nil
	}
	if err := s.q.ReceivedLock(ctx, senderNo); err != nil { // a part that arrives at once locks the parts of its message in another order
		return 0, err
	}
	return s.q.ErasureReceivedPartsDelete(ctx, of)
}
