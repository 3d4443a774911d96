package submit

import (
	"context"

	"lksms/gen/queueq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// EraseTasks deletes the dedup keys of tasks, and erases the logged submissions that were repeats of these tasks.
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
	if len(p.Digits) == 0 {
		return nil
	}
	next := func(ctx context.Context, after int64) (all []erase.Candidate, err error) {
		rows, err := s.q.ErasureCandidates(ctx, queueq.ErasureCandidatesParams{
			CompanyID: &p.CompanyID, Digits: p.Digits, AfterID: after, Portion: erase.Portion,
		})
		for _, row := range rows {
			all = append(all, erase.Candidate{ID: row.ID, Matches: p.Has(row.PhoneNumber)})
		}
		return all, postgres.Wrap("find submissions", err, nil)
	}
	err := run.Matching(ctx, next, func(ctx context.Context, ids []int64) (erase.Counts, error) {
		n, err := s.q.ErasureSubmissions(ctx, queueq.ErasureSubmissionsParams{Ids: ids, Erased: result.Erased})
		return erase.Counts{erase.Submissions: n}, err
	})
	return postgres.Wrap("erase submissions", err, nil)
}
