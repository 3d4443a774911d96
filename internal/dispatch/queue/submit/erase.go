package submit

import (
	"context"

	"lksms/gen/queueq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// EraseTasks erases the logged submissions that repeated tasks, and deletes the dedup keys of these tasks.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	repeats, err := s.q.ErasureRepeats(ctx, taskIDs)
	if err != nil {
		return nil, postgres.Wrap("find repeated submissions", err, nil)
	}
	submissions, err := s.q.ErasureSubmissions(ctx, queueq.ErasureSubmissionsParams{Ids: repeats, Erased: result.Erased})
	if err != nil {
		return nil, postgres.Wrap("erase repeated submissions", err, nil)
	}
	keys, err := s.q.ErasureKeys(ctx, taskIDs)
	return erase.Counts{erase.Submissions: submissions, erase.DedupKeys: keys}, postgres.Wrap("delete dedup keys", err, nil)
}

// Erase removes a person from the submissions that created no task.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for after, n := int64(0), erase.Portion; n == erase.Portion && len(p.Digits) > 0; {
		rows, err := s.q.ErasureCandidates(ctx, queueq.ErasureCandidatesParams{
			CompanyID: &p.CompanyID, Digits: p.Digits, AfterID: after, Portion: erase.Portion,
		})
		if err != nil {
			return postgres.Wrap("find submissions", err, nil)
		}
		n = len(rows)
		var ids []int64
		for _, row := range rows {
			if after = row.ID; p.Has(row.PhoneNumber) {
				ids = append(ids, row.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		err = run(ctx, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.q.ErasureSubmissions(ctx, queueq.ErasureSubmissionsParams{Ids: ids, Erased: result.Erased})
			return erase.Counts{erase.Submissions: n}, err
		})
		if err != nil {
			return postgres.Wrap("erase submissions", err, nil)
		}
	}
	return nil
}
