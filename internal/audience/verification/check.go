package verification

import (
	"context"
	"strings"
	"unicode"

	"lksms/gen/verificationq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Checked is the outcome of a check.
type Checked struct {
	ID         string
	Status     string // Approved; Pending: the code is wrong
	ChecksLeft int
}

// Check compares a code with the code of a verification. Exactly one check can approve a verification. Faults: verification.not_found, and
// verification.approved, .expired, .exhausted or .cancelled if the verification has ended, and verification.no_key if the server does not have the key of the
// code: nothing is counted then.
func (s *Service) Check(ctx context.Context, companyID int64, id, code string) (Checked, error) {
	digests, err := s.Secrets.Digests(typed(code), ownerOf(id))
	if err != nil {
		return Checked{}, errNoKey
	}
	row, err := s.q.VerificationCheck(ctx, verificationq.VerificationCheckParams{VerificationID: id, CompanyID: companyID, Digests: digests})
	switch {
	case postgres.IsNoRows(err):
		return Checked{}, s.ended(ctx, companyID, id)
	case err != nil:
		return Checked{}, postgres.Wrap("check code", err, nil)
	}
	if row.Status != Pending {
		s.metrics.ended.WithLabelValues(row.Status).Inc()
		s.takeBack(ctx, id, row.TaskIds, itself, false)
	}
	switch row.Status {
	case Exhausted:
		return Checked{}, fault.New(fault.Conflict, fault.VerificationExhausted)
	case Approved:
		s.metrics.approval.Observe(row.Seconds)
	}
	return Checked{ID: id, Status: row.Status, ChecksLeft: int(row.ChecksLeft)}, nil
}

// typed returns a code as it was sent: people also type full-width digits, and spaces and hyphens between the digits.
func typed(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '０' && r <= '９':
			return r - '０' + '0'
		case unicode.In(r, unicode.White_Space, unicode.Pd, unicode.Cf):
			return -1
		default:
			return r
		}
	}, code)
}

// CheckOf works like Check for the newest verification of a person and a purpose. If the person has none, the fault is verification.expired.
func (s *Service) CheckOf(ctx context.Context, companyID int64, p Person, purpose, code string) (Checked, error) {
	to, err := s.find(ctx, companyID, p)
	if err != nil {
		return Checked{}, err
	}
	id, err := s.q.VerificationNewest(ctx, verificationq.VerificationNewestParams{
		CompanyID: companyID, Channel: to.channel, Recipient: to.address, Purpose: purpose,
	})
	switch {
	case postgres.IsNoRows(err):
		return Checked{}, errExpired
	case err != nil:
		return Checked{}, postgres.Wrap("find verification", err, nil)
	}
	return s.Check(ctx, companyID, id, code)
}

// Cancel ends a pending verification. Faults: those of an ended verification, and verification.not_found.
func (s *Service) Cancel(ctx context.Context, companyID int64, id, by string) error {
	tasks, err := s.q.VerificationCancel(ctx, verificationq.VerificationCancelParams{VerificationID: id, CompanyID: companyID})
	switch {
	case postgres.IsNoRows(err):
		return s.ended(ctx, companyID, id)
	case err != nil:
		return postgres.Wrap("cancel verification", err, nil)
	}
	s.metrics.ended.WithLabelValues(Cancelled).Inc()
	s.takeBack(ctx, id, tasks, by, false)
	return nil
}
