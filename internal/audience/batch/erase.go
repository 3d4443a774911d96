package batch

import (
	"context"
	"slices"
	"strings"

	"lksms/gen/batchq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// CountRunningChecks returns the number of batches that are older than the erasure and are being checked. Their lists can contain the person.
func (s *Service) CountRunningChecks(ctx context.Context, p *erase.Person) (int64, error) {
	n, err := s.q.ErasureChecking(ctx, batchq.ErasureCheckingParams{CompanyID: p.CompanyID, Before: p.Since})
	return n, postgres.Wrap("find batches that are checked", err, nil)
}

// RejectUnsentRows rejects the rows to a person that are not submitted yet. Erase counts these rows later.
func (s *Service) RejectUnsentRows(ctx context.Context, p *erase.Person, _ erase.Runner) error {
	ids, err := s.q.ErasureBatches(ctx, batchq.ErasureBatchesParams{CompanyID: p.CompanyID, OnlyOpen: true})
	if err != nil {
		return postgres.Wrap("find batches", err, nil)
	}
	for _, id := range ids {
		if _, err := s.q.ErasureUnfed(ctx, batchq.ErasureUnfedParams{BatchID: id, Recipients: p.Recipients, Addresses: p.Lowered()}); err != nil {
			return postgres.Wrap("refuse rows of batch", err, nil)
		}
	}
	return nil
}

// Erase removes a person from the rows of all batches.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	ids, err := s.q.ErasureBatches(ctx, batchq.ErasureBatchesParams{CompanyID: p.CompanyID})
	if err != nil {
		return postgres.Wrap("find batches", err, nil)
	}
	for _, id := range ids {
		if err := s.eraseRows(ctx, p, id, run); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) eraseRows(ctx context.Context, p *erase.Person, batchID int64, run erase.Runner) error {
	addresses, digits := p.Lowered(), append([]string{}, p.Digits...)
	next := func(ctx context.Context, after int64) (all []erase.Candidate, err error) {
		rows, err := s.q.ErasureRowCandidates(ctx, batchq.ErasureRowCandidatesParams{
			BatchID: batchID, AfterRow: after, Digits: digits, Addresses: addresses, Portion: erase.Portion,
		})
		for _, row := range rows {
			matches := p.Has(row.Recipient) || slices.Contains(addresses, strings.ToLower(row.Recipient))
			all = append(all, erase.Candidate{ID: row.RowNo, Matches: matches})
		}
		return all, postgres.Wrap("find rows of batch", err, nil)
	}
	err := run.Matching(ctx, next, func(ctx context.Context, rowNos []int64) (erase.Counts, error) {
		n, err := s.q.ErasureRows(ctx, batchq.ErasureRowsParams{BatchID: batchID, RowNos: rowNos})
		return erase.Counts{erase.BatchRows: n}, err
	})
	return postgres.Wrap("erase rows of batch", err, nil)
}
