package reconcile

import (
	"context"
	"math"
	"time"

	"lksms/gen/reconcileq"
	"lksms/internal/dispatch/fact"
	"lksms/internal/platform/postgres"
)

// AddFacts is the history.Consumer that adds facts to daily totals, in the transaction of ctx.
func (s *Service) AddFacts(ctx context.Context, facts []fact.Sum) error {
	var p reconcileq.DailyTotalsAddParams
	for _, f := range facts {
		if f.SenderNo == nil {
			continue // no sender attempted the task
		}
		if attempted := f.ReportedSuccess + f.ReportedFailed; attempted > 0 {
			addTotal(&p, f, f.Minute, attempted, f.ReportedSuccess, 0, f.Segments)
		}
		if f.Delivered > 0 && f.AcceptedAt != nil {
			addTotal(&p, f, *f.AcceptedAt, 0, 0, f.Delivered, 0)
		}
	}
	if len(p.Ats) == 0 {
		return nil
	}
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return err
	}
	p.TimeZone = values.Monitoring.TimeZone
	return postgres.Wrap("add facts to daily totals", s.q.DailyTotalsAdd(ctx, p), nil)
}

func addTotal(p *reconcileq.DailyTotalsAddParams, f fact.Sum, at time.Time, attempted, accepted, delivered, segments int64) {
	p.Ats, p.CompanyIds, p.SenderNos = append(p.Ats, at), append(p.CompanyIds, f.CompanyID), append(p.SenderNos, *f.SenderNo)
	p.MessageTypes, p.CountryNos, p.AreTests = append(p.MessageTypes, f.MessageType), append(p.CountryNos, f.CountryNo), append(p.AreTests, f.IsTest)
	p.Attempted, p.Accepted = append(p.Attempted, attempted), append(p.Accepted, accepted)
	p.Delivered, p.Segments = append(p.Delivered, delivered), append(p.Segments, segments)
}

// TotalsFilter selects daily totals. A nil field matches all.
type TotalsFilter struct {
	CompanyID                        *int64
	DayFrom, DayTo                   *time.Time // both days are included
	SenderNo, MessageType, CountryNo *string    // MessageType is the number in the database, as text
}

// TotalsPosition is a position in the list of daily totals.
type TotalsPosition struct {
	Day time.Time
	ID  int64
}

// FirstTotals is the position before the newest total.
var FirstTotals = TotalsPosition{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), math.MaxInt64}

// Totals lists up to limit daily totals after a position, newest first, without tests.
func (s *Service) Totals(ctx context.Context, f TotalsFilter, after TotalsPosition, limit int) ([]TotalsRow, error) {
	rows, err := s.q.DailyTotalsList(ctx, reconcileq.DailyTotalsListParams{
		BeforeDay: after.Day, BeforeID: after.ID, CompanyID: f.CompanyID, DayFrom: f.DayFrom, DayTo: f.DayTo, SenderNo: f.SenderNo,
		MessageType: f.MessageType, CountryNo: f.CountryNo, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("list daily totals", err, nil)
}
