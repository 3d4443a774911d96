package job

import (
	"context"
	"strconv"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes a person from the filters of jobs, and adds the ids of these jobs to p.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	jobs, err := s.q.ErasureJobs(ctx, p.CompanyID)
	if err != nil {
		return nil, postgres.Wrap("find jobs", err, nil)
	}
	var ids []int64
	for _, j := range jobs {
		if p.Has(j.PhoneNumber) {
			ids, p.Jobs = append(ids, j.ID), append(p.Jobs, strconv.FormatInt(j.ID, 10))
		}
	}
	n, err := s.q.ErasureJob(ctx, ids)
	return erase.Counts{erase.TaskJobs: n}, postgres.Wrap("erase jobs", err, nil)
}
