package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Estimate says who will send what is left of a batch, and when it can end.
type Estimate struct {
	Costs    []Cost
	Earliest *time.Time // if the senders send nothing else; nil: no sender is there, or they have too little money
	Likely   *time.Time // by what was sent until now; nil: too little was, or the batch does not go on
}

// Cost is what a sender will take of what is left.
type Cost struct {
	SenderNo string
	Segments int64
}

// horizon is how far ahead an end is looked for.
const horizon = 400 * 24 * time.Hour

// Estimate reads what is left of a batch, and the limits of the senders that its routes name today. The shares of senders are those of their weights; what
// a claim then does depends on who is available.
func (s *Service) Estimate(ctx context.Context, st Standing) (Estimate, error) {
	left, err := leftOf(st)
	if err != nil {
		return Estimate{}, err
	}
	costs, limits := map[string]float64{}, map[string]dbq.SenderLimitsRow{}
	var order []string
	var segments, rows float64
	for _, country := range left {
		rows += country.Rows
		senders, err := s.sendersOf(ctx, st.Batch, country.CountryNo)
		if err != nil {
			return Estimate{}, err
		}
		weights := 0.0
		for _, one := range senders {
			weights += one.Weight
		}
		for _, one := range senders {
			if _, known := limits[one.SenderNo]; !known {
				order = append(order, one.SenderNo)
			}
			limits[one.SenderNo] = one
			part := country.takenBy(one) * one.Weight / weights
			costs[one.SenderNo] += part
			segments += part
		}
		if len(senders) == 0 {
			segments += country.Segments
		}
	}
	var e Estimate
	for _, no := range order {
		e.Costs = append(e.Costs, Cost{no, int64(math.Round(costs[no]))})
	}
	if segments == 0 || st.Wait != nil && (st.Wait.Reason == WaitsForAny || st.Wait.Reason == WaitsInVain) {
		return e, nil
	}
	all := make([]dbq.SenderLimitsRow, 0, len(order))
	for _, no := range order {
		all = append(all, limits[no])
	}
	took, isKnown := timeFor(int64(math.Round(segments)), segments/rows, all)
	if !isKnown {
		return e, nil
	}
	begin := s.beginOf(st, all)
	e.Earliest = new(begin.Add(took))
	settled := st.Counts.Success + st.Counts.Failed
	if st.StartedAt != nil && st.Status == Running && st.Wait == nil && settled >= max(1, min(knownRows, st.Counts.Valid/10)) {
		rate := float64(time.Since(*st.StartedAt)) / float64(settled)
		e.Likely = new(time.Now().Add(time.Duration(rate * float64(st.Counts.Waiting+st.Counts.Processing))))
		if e.Likely.Before(*e.Earliest) {
			e.Likely = e.Earliest
		}
	}
	return e, nil
}

// countryPart is what is to be sent to a country.
type countryPart struct {
	CountryNo string  `json:"country_no"` // empty: no known country
	Rows      float64 `json:"rows"`
	Segments  float64 `json:"segments"`
	// Unsigned are the segments without signatures. nil: an earlier version made the sums.
	Unsigned *float64 `json:"unsigned"`
}

// takenBy returns the segments that a sender takes if it sends all of it.
func (p countryPart) takenBy(one dbq.SenderLimitsRow) float64 {
	if one.ForbidsSigns && p.Unsigned != nil {
		return *p.Unsigned
	}
	return p.Segments
}

// leftOf returns what no sender has taken yet, by country: the sums that were made when the check ended, by the share of the rows that wait. So it costs
// the same for any number of rows. None: the batch is being checked.
func leftOf(st Standing) (left []countryPart, err error) {
	if st.ByCountry == nil {
		return nil, nil
	}
	if err := json.Unmarshal(st.ByCountry, &left); err != nil {
		return nil, fmt.Errorf("read sums of batch: %w", err)
	}
	all := 0.0
	for _, part := range left {
		all += part.Rows
	}
	for i := range left {
		share := float64(st.Counts.Waiting) / all
		left[i].Rows, left[i].Segments = left[i].Rows*share, left[i].Segments*share
		if left[i].Unsigned != nil {
			*left[i].Unsigned *= share
		}
	}
	return left, nil
}

// Countries returns the countries of the valid rows, empty for numbers of no known country; nil: the batch is being checked.
func (st Standing) Countries() (all []string, err error) {
	parts, err := leftOf(st)
	for _, part := range parts {
		all = append(all, part.CountryNo)
	}
	return all, err
}

// isClaimed reports whether a sender that is there may take a part of what is left of a batch.
func (s *Service) isClaimed(ctx context.Context, st Standing) (bool, error) {
	left, err := leftOf(st)
	if err != nil {
		return false, err
	}
	for _, country := range left {
		senders, err := s.sendersOf(ctx, st.Batch, country.CountryNo)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(senders, func(one dbq.SenderLimitsRow) bool { return !one.IsSilent }) {
			return true, nil
		}
	}
	return false, nil
}

// sendersOf returns the available senders that may send the rows of a batch to a country, with their limits. None: its only sender does not serve the
// company any more.
func (s *Service) sendersOf(ctx context.Context, b dbq.Batch, countryNo string) ([]dbq.SenderLimitsRow, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	p := dbq.SenderLimitsParams{SilentAfter: values.Queue.SilentAfter(), NotedApart: sender.SeenApart}
	if b.SenderNo == nil {
		pool, err := s.Directory.PoolOf(ctx, b.Channel, b.CompanyID, b.MessageType, countryNo)
		if err != nil {
			return nil, fmt.Errorf("find pool: %w", err)
		}
		p.PoolID = &pool
	} else {
		sender, err := s.Directory.ServingSender(ctx, b.Channel, b.CompanyID, b.MessageType, *b.SenderNo)
		var refused *fault.Error
		if errors.As(err, &refused) {
			return nil, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // says what it is
		}
		p.SenderID = &sender
	}
	senders, err := s.q.SenderLimits(ctx, p)
	return senders, postgres.Wrap("read limits of senders", err, nil)
}

// knownRows is how many rows must have ended so that their pace says something, or a tenth of them if that is less.
const knownRows = 100

// beginOf returns when what is left can begin to be sent, by the clock of the database.
func (s *Service) beginOf(st Standing, all []dbq.SenderLimitsRow) time.Time {
	begin := time.Now()
	if len(all) > 0 {
		begin = all[0].At
	}
	if st.ExpectSendTime != nil && st.ExpectSendTime.After(begin) {
		return *st.ExpectSendTime
	}
	return begin
}

// timeFor returns how long senders need for segments of messages that have perMessage each. It is not known if they have too little money, or no sender
// is there.
func timeFor(segments int64, perMessage float64, senders []dbq.SenderLimitsRow) (time.Duration, bool) {
	within := func(d time.Duration) bool {
		total := 0.0
		for _, one := range senders {
			total += capacity(one, perMessage, d)
		}
		return total >= float64(segments)
	}
	if !within(horizon) {
		return 0, false
	}
	short, long := time.Duration(0), horizon
	for long-short > time.Second {
		if middle := (short + long) / 2; within(middle) {
			long = middle
		} else {
			short = middle
		}
	}
	if within(0) {
		long = 0
	}
	return long, true
}

// capacity returns how many segments a sender can take within a time: what its limits have left in the windows of now, and all of the later ones.
func capacity(s dbq.SenderLimitsRow, perMessage float64, d time.Duration) float64 {
	most := math.Inf(1)
	if s.IntervalMs > 0 {
		most = (1 + float64(d/time.Millisecond)/float64(s.IntervalMs)) * perMessage
	}
	for _, w := range []struct {
		limit  *int64
		used   int64
		window time.Duration
	}{
		{s.PerMinute, s.MinuteUsed, time.Minute}, {s.PerHour, s.HourUsed, time.Hour},
		{s.PerDay, s.DayUsed, 24 * time.Hour}, {s.PerMonth, s.MonthUsed, 30 * 24 * time.Hour},
	} {
		if w.limit != nil {
			most = min(most, float64(max(0, *w.limit-w.used))+math.Floor(float64(d)/float64(w.window))*float64(*w.limit))
		}
	}
	if s.HasBalance {
		most = min(most, float64(max(0, s.Funds)))
	}
	return most
}
