package progress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Estimate contains which senders will send the remaining rows of a batch, and when the batch can end.
type Estimate struct {
	Costs    []Cost
	Earliest *time.Time // the end if the senders send nothing else; nil: no sender is available, or the senders have too little balance
	Likely   *time.Time // the end at the measured rate; nil: too little was sent, or the batch does not continue
}

// Cost is the number of segments that a sender will charge for the remaining rows.
type Cost struct {
	SenderNo string
	Segments int64
}

// horizon is the maximum time until a predicted end.
const horizon = 400 * 24 * time.Hour

// Estimate reads the remaining rows of a batch, and the limits of the senders that its routes name now. Rows beyond the limits of a group of senders go to the
// group with the next smaller sort. Within a group, the rows are divided by weight; later claims also depend on which senders are available. Each sender counts
// segments as its claims do.
func (r *Reader) Estimate(ctx context.Context, st Progress) (Estimate, error) {
	left, err := leftOf(st)
	if err != nil {
		return Estimate{}, err
	}
	counted := counts{reader: r, batchID: st.ID, left: left, known: map[counting][]float64{}}
	shares := map[string]*share{}
	var all []*share
	rows := 0.0
	for i, country := range left {
		rows += country.Rows
		senders, err := r.sendersOf(ctx, st.Batch, country.CountryNo)
		if err != nil {
			return Estimate{}, err
		}
		weights, last := map[int32]float64{}, int32(0)
		for _, one := range senders {
			weights[one.GroupNo] += one.Weight
			last = max(last, one.GroupNo)
		}
		for _, one := range senders {
			segments, err := counted.by(ctx, one)
			if err != nil {
				return Estimate{}, err
			}
			if shares[one.SenderNo] == nil {
				shares[one.SenderNo] = &share{group: one.GroupNo}
				all = append(all, shares[one.SenderNo])
			}
			shares[one.SenderNo].add(one, country.Rows, segments[i], part{one.GroupNo, one.GroupNo == last, one.Weight / weights[one.GroupNo]})
		}
	}
	groups := grouped(all)
	took, isKnown := timeFor(math.Round(rows), groups)
	e := Estimate{Costs: costs(groups, math.Round(rows), took)}
	if !isKnown || math.Round(rows) == 0 || st.Wait != nil && (st.Wait.Reason == WaitsForAny || st.Wait.Reason == WaitsInVain) {
		return e, nil
	}
	begin := r.beginOf(st, all)
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

// share contains the part of the remaining rows that a sender may send.
type share struct {
	limits batchq.SenderLimitsRow
	group  int32 // the first of its groups, which can differ between countries
	parts  []partOf

	rows, segments float64 // totals of the rows that the sender may send
}

// part is the sender's share of the rows to one country.
type part struct {
	group  int32
	isLast bool    // no later group exists
	weight float64 // weight within the group
}

// partOf is a part of a number of segments.
type partOf struct {
	part

	segments float64
}

// add adds the rows to a country, of which the sender gets the part p. segments is the number of their segments as the sender counts them.
func (s *share) add(limits batchq.SenderLimitsRow, rows, segments float64, p part) {
	s.limits = limits
	s.group = min(s.group, p.group)
	s.parts = append(s.parts, partOf{p, segments})
	s.rows += rows
	s.segments += segments
}

// grouped returns shares by their group. A group can be empty.
func grouped(all []*share) (groups [][]*share) {
	for _, one := range all {
		for len(groups) <= int(one.group) {
			groups = append(groups, nil)
		}
		groups[one.group] = append(groups[one.group], one)
	}
	return groups
}

// costs returns the costs of senders for a number of messages within a time. Each group gets the messages that the previous groups leave. Senders of later
// groups that get no messages are omitted.
func costs(groups [][]*share, messages float64, within time.Duration) (all []Cost) {
	var took, before []float64 // fractions of the messages that each group gets, and the sums of the previous fractions
	sum := 0.0
	for _, n := range capacities(groups, within) {
		part := 0.0
		if messages > 0 {
			part = min(1-sum, n/messages)
		}
		took, before = append(took, part), append(before, sum)
		sum += part
	}
	for i, group := range groups {
		for _, one := range group {
			segments := 0.0
			for _, p := range one.parts {
				n, left := 0.0, 1-sum // for a country with more groups than others
				if int(p.group) < len(groups) {
					n, left = took[p.group], 1-before[p.group]
				}
				if p.isLast {
					n = left
				}
				segments += p.segments * p.weight * n
			}
			if n := int64(math.Round(segments)); i == 0 || n > 0 {
				all = append(all, Cost{one.limits.SenderNo, n})
			}
		}
	}
	return all
}

// perMessage returns the average number of segments of a message of the sender.
func (s *share) perMessage() float64 {
	if s.rows == 0 {
		return 1
	}
	return max(1, s.segments/s.rows)
}

// counting is a method to count the segments of a text.
type counting struct {
	Sign         string `json:"sign"` // signature of the sender, for messages without a signature; empty: none
	ForbidsSigns bool   `json:"forbids_signs"`
	SegmentSize  int64  `json:"segment_size"` // 0: the segment sizes of short messages
}

// countryPart contains the remaining rows to a country.
type countryPart struct {
	CountryNo string  `json:"country_no"` // empty: the country is unknown
	Rows      float64 `json:"rows"`
	Segments  float64 `json:"segments"` // counted at the submission
	// BySender contains the segments for senders with their own counting method that served the batch when its check ended. They are computed from the first
	// MaxSampled rows: the rows to the country, or all rows if no sampled row goes to the country. nil means that an earlier version computed the sums.
	BySender []struct {
		counting

		Segments float64 `json:"segments"`
	} `json:"by_sender"`
}

// counts counts the remaining rows of a batch with the methods of senders.
type counts struct {
	reader  *Reader
	batchID int64
	left    []countryPart
	known   map[counting][]float64
}

// MaxSampled is the maximum number of rows that are counted with the method of a sender. In larger batches, the other rows are assumed to be similar.
const MaxSampled = 1000

// by returns, for each country, the segments that a sender charges if it sends all rows. If the check did not count them, they are computed from the first
// rows.
func (c *counts) by(ctx context.Context, one batchq.SenderLimitsRow) ([]float64, error) {
	way := counting{optional.Value(one.Sign), one.ForbidsSigns, optional.Value(one.SegmentSize)}
	if all, isKnown := c.known[way]; isKnown {
		return all, nil
	}
	all := make([]float64, len(c.left))
	unknown := false
	for i, country := range c.left {
		all[i] = country.Segments
		if way == (counting{}) || !one.CountsSegments {
			continue
		}
		isCounted := false
		for _, sum := range country.BySender {
			if sum.counting == way {
				all[i], isCounted = sum.Segments, true
			}
		}
		unknown = unknown || !isCounted
	}
	if unknown {
		if err := c.sample(ctx, one, all); err != nil {
			return nil, err
		}
	}
	c.known[way] = all
	return all, nil
}

// sample converts submitted segments to the segments that a sender counts.
func (c *counts) sample(ctx context.Context, one batchq.SenderLimitsRow, all []float64) error {
	rows, err := c.reader.q.BatchSegmentsSampled(ctx, batchq.BatchSegmentsSampledParams{
		ID: c.batchID, Sign: one.Sign, ForbidsSigns: one.ForbidsSigns, SegmentSize: one.SegmentSize, Most: MaxSampled,
	})
	if err != nil {
		return fmt.Errorf("count segments of rows: %w", err)
	}
	ofAll, ratios := 1.0, map[string]float64{} // by country; 1: no rows remain
	for _, row := range rows {
		if row.Submitted <= 0 {
			continue
		}
		ratio := float64(row.Counted) / float64(row.Submitted)
		if row.IsOfAll {
			ofAll = ratio
		} else {
			ratios[row.CountryNo] = ratio
		}
	}
	for i, country := range c.left {
		ratio, isSampled := ratios[country.CountryNo]
		if !isSampled {
			ratio = ofAll
		}
		all[i] = country.Segments * ratio
	}
	return nil
}

// leftOf returns the unsent rows by country: the sums from the end of the check, multiplied by the fraction of rows that wait. Its cost therefore does not
// depend on the number of rows. It returns nil while the batch is being checked.
func leftOf(st Progress) (left []countryPart, err error) {
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
		for j := range left[i].BySender {
			left[i].BySender[j].Segments *= share
		}
	}
	return left, nil
}

// Countries returns the countries of the valid rows; an empty country is unknown. It returns nil while the batch is being checked.
func (st Progress) Countries() (all []string, err error) {
	parts, err := leftOf(st)
	for _, part := range parts {
		all = append(all, part.CountryNo)
	}
	return all, err
}

// isClaimed reports whether an available sender can send a part of the remaining rows of a batch.
func (r *Reader) isClaimed(ctx context.Context, st Progress) (bool, error) {
	left, err := leftOf(st)
	if err != nil {
		return false, err
	}
	for _, country := range left {
		senders, err := r.sendersOf(ctx, st.Batch, country.CountryNo)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(senders, func(one batchq.SenderLimitsRow) bool { return !one.IsSilent }) {
			return true, nil
		}
	}
	return false, nil
}

// sendersOf returns the available senders that can send the rows of a batch to a country, with their limits. It returns no senders if the only sender of the
// batch no longer serves the company.
func (r *Reader) sendersOf(ctx context.Context, b batchq.Batch, countryNo string) ([]batchq.SenderLimitsRow, error) {
	values, err := r.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	p := batchq.SenderLimitsParams{SilentAfter: values.Queue.SilentAfter(), RecordedApart: sender.SeenApart}
	if b.SenderNo == nil {
		pool, err := r.directory.PoolOf(ctx, b.Channel, b.CompanyID, b.MessageType, countryNo)
		if err != nil {
			return nil, fmt.Errorf("find pool: %w", err)
		}
		p.PoolID = &pool
	} else {
		sender, err := r.directory.ServingSender(ctx, b.Channel, b.CompanyID, b.MessageType, *b.SenderNo)
		var refused *fault.Error
		if errors.As(err, &refused) {
			return nil, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // says what it is
		}
		p.SenderID = &sender
	}
	senders, err := r.q.SenderLimits(ctx, p)
	return senders, postgres.Wrap("read limits of senders", err, nil)
}

// knownRows is the number of rows that must have ended before their rate is used, or a tenth of the rows if this is less.
const knownRows = 100

// beginOf returns when the remaining rows can be sent, by the clock of the database.
func (r *Reader) beginOf(st Progress, all []*share) time.Time {
	begin := time.Now()
	if len(all) > 0 {
		begin = all[0].limits.At
	}
	if st.ExpectSendTime != nil && st.ExpectSendTime.After(begin) {
		return *st.ExpectSendTime
	}
	return begin
}

// timeFor returns how long groups of senders need for a number of messages. If their balance is too small, or no sender is available, it returns the horizon
// and false.
func timeFor(messages float64, groups [][]*share) (time.Duration, bool) {
	within := func(d time.Duration) bool {
		total := 0.0
		for _, n := range capacities(groups, d) {
			total += n
		}
		return total >= messages-rounding
	}
	if !within(horizon) {
		return horizon, false
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

// rounding is the maximum rounding error of sums of fractions of messages.
const rounding = 1e-6

// capacities returns how many messages each group can send within a time. A group gets messages only while the limits of all senders of the previous groups are
// used up. A sender that waits for its interval has not used up its limits.
func capacities(groups [][]*share, d time.Duration) []float64 {
	all := make([]float64, len(groups))
	free := d // the time in which the senders of the previous groups have used up their limits
	for i, group := range groups {
		busy, isUsedUp := time.Duration(0), true
		for _, one := range group {
			n, limit := capacity(one.limits, one.perMessage(), d, free)
			all[i] += n
			isUsedUp = isUsedUp && n >= limit
			busy = max(busy, time.Duration(n*float64(one.limits.IntervalMs)*float64(time.Millisecond)))
		}
		if math.IsInf(all[i], 1) || !isUsedUp {
			break
		}
		free = max(0, free-busy)
	}
	return all
}

// capacity returns how many messages of perMessage segments a sender can send within d, of which it may send for the time free: the remaining limits of the
// current windows, and the full limits of later windows. limit is the same number without the interval of the sender.
func capacity(s batchq.SenderLimitsRow, perMessage float64, d, free time.Duration) (messages, limit float64) {
	most := math.Inf(1) // in segments
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
	limit = most / perMessage
	messages = limit
	if s.IntervalMs > 0 {
		messages = min(messages, 1+float64(free/time.Millisecond)/float64(s.IntervalMs))
	}
	return messages, limit
}
