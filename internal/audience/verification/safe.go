package verification

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"lksms/gen/verificationq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
)

// SuspectRow is a suspected prefix of numbers, or network of clients.
type SuspectRow = verificationq.SuspectListRow

// SafeRow is a safe prefix of numbers, or network of clients.
type SafeRow = verificationq.SafeListRow

// Suspects returns up to limit suspected subjects, those with the most codes first. A nil companyID means all companies.
func (s *Service) Suspects(ctx context.Context, companyID *int64, limit int) ([]SuspectRow, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.SuspectList(ctx, verificationq.SuspectListParams{
		SuspectedFrom: cmp.Or(values.Verification.UnprovenPerDay, never), CompanyID: companyID, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("list suspects", err, nil)
}

// Safe is a prefix of numbers, or a network of clients, that is never suspected.
type Safe struct {
	CompanyID *int64 // nil: all companies
	Subject   string
	ExpiresAt *time.Time // nil: never
	Note      *string
	By        string
}

// released is how long a released subject is safe. After this time, the codes before the release no longer count.
const released = 24 * time.Hour

// Release makes a subject safe for 24 hours, unless it is safe for longer. Fault: request.invalid for subject.
func (s *Service) Release(ctx context.Context, companyID int64, subject, by string) (SafeRow, error) {
	return s.store(ctx, subject, func(ctx context.Context, subject string) (int64, error) {
		return s.q.SafeRelease(ctx, verificationq.SafeReleaseParams{CompanyID: companyID, Subject: subject, Ttl: released, CreatedBy: by})
	})
}

// AddSafe adds a safe subject, or changes it. Faults: request.invalid, limit.reached.
func (s *Service) AddSafe(ctx context.Context, safe Safe) (SafeRow, error) {
	if safe.ExpiresAt != nil && !safe.ExpiresAt.After(time.Now()) {
		return SafeRow{}, fault.InvalidField("expires_at", fault.InThePast, nil)
	}
	return s.store(ctx, safe.Subject, func(ctx context.Context, subject string) (int64, error) {
		return s.q.SafeStore(ctx, verificationq.SafeStoreParams{
			CompanyID: safe.CompanyID, Subject: subject, ExpiresAt: safe.ExpiresAt, Note: safe.Note, CreatedBy: safe.By,
		})
	})
}

// store stores a subject with put, which returns its id, and reads it.
func (s *Service) store(ctx context.Context, subject string, put func(ctx context.Context, subject string) (int64, error)) (row SafeRow, err error) {
	if !strings.HasPrefix(subject, "+") {
		networks, err := outbound.Networks([]string{subject})
		if err != nil || networkOf(networks[0].Addr().String(), watchedBits4, watchedBits6) != networks[0].String() {
			return row, fault.InvalidField("subject", fault.WrongFormat, nil)
		}
		subject = networks[0].String()
	}
	if phone.IsWhole(subject) { // it would name a person, also in the audit
		return row, fault.InvalidField("subject", fault.WrongFormat, nil)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		id, err := put(ctx, subject)
		if err != nil {
			return postgres.Wrap("store safe subject", err, nil)
		}
		rows, err := s.q.SafeList(ctx, verificationq.SafeListParams{ID: &id, BeforeID: math.MaxInt64, PageLimit: 1})
		row, err = postgres.One(rows, err, "read safe subject", errNoSafe)
		return err
	})
	return row, err
}

// errNoSafe is the fault of an unknown safe subject.
var errNoSafe = fault.New(fault.NotFound, fault.SafeNotFound)

// ListSafe lists up to limit safe subjects with smaller ids than before, newest first: those that apply to the company. A nil companyID means all.
func (s *Service) ListSafe(ctx context.Context, companyID *int64, before int64, limit int) ([]SafeRow, error) {
	rows, err := s.q.SafeList(ctx, verificationq.SafeListParams{BeforeID: before, CompanyID: companyID, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list safe subjects", err, nil)
}

// DeleteSafe removes a safe subject. Fault: safe.not_found.
func (s *Service) DeleteSafe(ctx context.Context, id int64) error {
	n, err := s.q.SafeDelete(ctx, id)
	if err == nil && n == 0 {
		return errNoSafe
	}
	return postgres.Wrap("delete safe subject", err, nil)
}
