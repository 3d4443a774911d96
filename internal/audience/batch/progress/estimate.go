package progress

import (
	"cmp"
	"context"
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

// Estimate names the senders that will send the remaining rows of a batch, and the time at which the batch can end.
type Estimate struct {
	Costs     []Cost
	Countries []string   // countries of the remaining rows; an empty text: unknown country; nil: the batch is being checked, or no rows remain
	Earliest  *time.Time // end if the senders send nothing else; nil: no sender is available, or the balances of the senders are too low
	Likely    *time.Time // end at the measured rate; nil: too few rows were sent, or the batch does not continue
}

// Cost is the number of segments that a sender will charge for the remaining rows.
type Cost struct {
	SenderNo string
	Segments int64
}

// horizon limits predictions: a batch that would end later has no predicted end.
const horizon = 400 * 24 * time.Hour

// Estimate computes the costs and the end of a batch from its remaining rows and from the limits of the senders that its routes name now. The senders with the
// same sort are a group. If the limits of a group are used up, the group with the next smaller sort sends the further rows. Within a group, the rows are
// divided by weight; real claims also depend on which senders are available. Segments are counted for each sender in the same way as its claims count them. A
// batch ends when its last country ends. Rows that the switch of a country holds have no sender.
func (r *Reader) Estimate(ctx context.Context, st Progress) (Estimate, error) {
	left, err := r.leftOf(ctx, st)
	if err != nil {
		return Estimate{}, err
	}
	counted := counts{reader: r, batchID: st.ID, left: left, known: map[counting][]float64{}}
	var sets []*rowSet
	var countries []string
	sendsNow, canEnd := st.Status == Running && st.Wait == nil, true
	for i, country := range left {
		if math.Round(country.Rows) == 0 {
			continue
		}
		countries = append(countries, country.CountryNo)
		senders, err := r.sendersOf(ctx, st.Batch, country.CountryNo)
		if err != nil {
			return Estimate{}, err
		}
		canEnd = canEnd && (!sendsNow || slices.ContainsFunc(senders, isPolling))
		segments := make([]float64, len(senders))
		for j, one := range senders {
			all, err := counted.by(ctx, one)
			if err != nil {
				return Estimate{}, err
			}
			segments[j] = all[i]
		}
		sets = addCountry(sets, country.Rows, senders, segments)
	}
	took, isKnown := timeForAll(sets)
	e := Estimate{Costs: costs(sets), Countries: countries}
	if !isKnown || !canEnd || len(sets) == 0 || st.Wait != nil && (st.Wait.Reason == WaitsForAny || st.Wait.Reason == WaitsInVain) {
		return e, nil
	}
	open, err := r.openingOf(ctx, st, beginOf(st, sets))
	if err != nil {
		return Estimate{}, err
	}
	end := open.first.Add(took)
	if end.Before(open.last) {
		end = open.last
	}
	e.Earliest = &end
	if e.Likely, err = r.likelyEnd(ctx, st); err != nil {
		return Estimate{}, err
	}
	if e.Likely != nil && e.Likely.Before(end) {
		e.Likely = &end
	}
	return e, nil
}

// likelyEnd returns the end of a batch at its average rate since the start. The rate excludes the time during which users had paused the batch.
func (r *Reader) likelyEnd(ctx context.Context, st Progress) (*time.Time, error) {
	settled := st.Counts.Success + st.Counts.Failed
	if st.StartedAt == nil || st.Status != Running || st.Wait != nil || settled < max(1, min(knownRows, st.Counts.Valid/10)) {
		return nil, nil
	}
	paused, err := r.q.BatchPaused(ctx, st.ID)
	if err != nil {
		return nil, fmt.Errorf("read pauses of batch: %w", err)
	}
	took := time.Since(*st.StartedAt) - time.Duration(paused*float64(time.Second))
	left := float64(st.Counts.Waiting + st.Counts.Processing)
	return new(time.Now().Add(time.Duration(max(0, float64(took)) / float64(settled) * left))), nil
}

// rowSet contains the remaining rows to all countries that have the same senders in the same order.
type rowSet struct {
	rows   float64
	groups [][]*share // each group contains the senders with the same sort; the first group has the largest sort
}

// share is a sender of a rowSet. It can send all rows of the set.
type share struct {
	limits   batchq.SenderLimitsRow
	part     float64 // fraction of the capacity of the sender that this set gets
	rows     float64
	segments float64 // segments of the rows, as the sender counts them
	weighted float64 // segments that the sender charges if its group sends all rows of the set
}

// addCountry adds the rows to a country to the set with the same senders, or to a new set. For each sender, segments contains the segments of these rows as
// this sender counts them.
func addCountry(sets []*rowSet, rows float64, senders []batchq.SenderLimitsRow, segments []float64) []*rowSet {
	at := slices.IndexFunc(sets, func(set *rowSet) bool { return set.isOf(senders) })
	if at < 0 {
		set := &rowSet{}
		for _, one := range senders {
			for len(set.groups) <= int(one.GroupNo) {
				set.groups = append(set.groups, nil)
			}
			set.groups[one.GroupNo] = append(set.groups[one.GroupNo], &share{limits: one, part: 1})
		}
		at, sets = len(sets), append(sets, set)
	}
	weights := map[int32]float64{}
	for _, one := range senders {
		weights[one.GroupNo] += one.Weight
	}
	sets[at].rows += rows
	for i, s := range sets[at].shares() {
		s.rows += rows
		s.segments += segments[i]
		s.weighted += segments[i] * senders[i].Weight / weights[senders[i].GroupNo]
	}
	return sets
}

// shares returns the senders of a set, in the order of sendersOf.
func (set *rowSet) shares() []*share { return slices.Concat(set.groups...) }

// isOf reports whether a set has these senders in this order.
func (set *rowSet) isOf(senders []batchq.SenderLimitsRow) bool {
	return slices.EqualFunc(set.shares(), senders, func(s *share, one batchq.SenderLimitsRow) bool {
		return s.limits.SenderNo == one.SenderNo && s.limits.GroupNo == one.GroupNo
	})
}

// timeForAll returns the minimum time that the senders need for all sets; isKnown as in timeFor. It computes the time of each set as if its senders sent
// nothing else. For sets that share senders, it also computes the time that all their senders together need for all their rows. It returns the longest of these
// times.
func timeForAll(sets []*rowSet) (longest time.Duration, isKnown bool) {
	isKnown = true
	for _, set := range append(slices.Clone(sets), joined(sets)...) {
		took, canEnd := timeFor(math.Round(set.rows), set.groups)
		longest, isKnown = max(longest, took), isKnown && canEnd
	}
	return longest, isKnown
}

// joined combines sets that share senders: each result is one set with all their rows, and one group with all their senders. It omits sets that share no
// sender.
func joined(sets []*rowSet) (all []*rowSet) {
	parts := map[*rowSet]int{}
	for _, set := range sets {
		whole := &rowSet{groups: [][]*share{nil}}
		whole.take(set)
		n := 1
		all = slices.DeleteFunc(all, func(other *rowSet) bool {
			if !whole.meets(other) {
				return false
			}
			whole.take(other)
			n += parts[other]
			return true
		})
		all, parts[whole] = append(all, whole), n
	}
	return slices.DeleteFunc(all, func(set *rowSet) bool { return parts[set] == 1 })
}

// find returns the share of a sender in a set, or nil if the sender serves none of the countries of the set.
func (set *rowSet) find(senderNo string) *share {
	for _, group := range set.groups {
		for _, s := range group {
			if s.limits.SenderNo == senderNo {
				return s
			}
		}
	}
	return nil
}

func (set *rowSet) meets(other *rowSet) bool {
	return slices.ContainsFunc(other.shares(), func(s *share) bool { return set.find(s.limits.SenderNo) != nil })
}

// take adds the rows and senders of another set to the first group of set.
func (set *rowSet) take(other *rowSet) {
	set.rows += other.rows
	for _, s := range other.shares() {
		own := set.find(s.limits.SenderNo)
		if own == nil {
			own = &share{limits: s.limits, part: 1}
			set.groups[0] = append(set.groups[0], own)
		}
		own.rows += s.rows
		own.segments += s.segments
	}
}

// costs returns the cost of each sender until the end of the batch. A group sends the rows that exceed the limits of the previous groups. The last group sends
// all remaining rows. A sender of several sets divides its capacity among them by their numbers of rows. Senders of later groups that get no rows are omitted.
func costs(sets []*rowSet) (all []Cost) {
	rows := map[string]float64{} // number of rows that each sender can send, by sender number
	for _, set := range sets {
		for _, s := range set.shares() {
			rows[s.limits.SenderNo] += set.rows
		}
	}
	var totals []*total
	of := map[string]*total{}
	for _, set := range sets {
		for _, s := range set.shares() {
			s.part = set.rows / rows[s.limits.SenderNo]
			if of[s.limits.SenderNo] == nil {
				of[s.limits.SenderNo] = &total{senderNo: s.limits.SenderNo, group: s.limits.GroupNo}
				totals = append(totals, of[s.limits.SenderNo])
			}
		}
		for i, part := range set.fractions() {
			for _, s := range set.groups[i] {
				sum := of[s.limits.SenderNo]
				sum.group = min(sum.group, s.limits.GroupNo)
				sum.segments += s.weighted * part
			}
		}
	}
	slices.SortStableFunc(totals, func(a, b *total) int { return cmp.Compare(a.group, b.group) })
	for _, sum := range totals {
		if n := int64(math.Round(sum.segments)); sum.group == 0 || n > 0 {
			all = append(all, Cost{sum.senderNo, n})
		}
	}
	return all
}

// total is the sum of the costs of a sender.
type total struct {
	senderNo string
	group    int32 // the smallest group number of the sender, which can have different groups in different countries
	segments float64
}

// fractions returns, for each group, the fraction of the rows of the set that the group sends.
func (set *rowSet) fractions() []float64 {
	within, _ := timeFor(math.Round(set.rows), set.groups)
	all := capacities(set.groups, within)
	left := 1.0
	for i, n := range all {
		all[i] = min(left, n/set.rows)
		if i == len(all)-1 {
			all[i] = left
		}
		left -= all[i]
	}
	return all
}

// perMessage returns the average number of segments that the sender counts for a message.
func (s *share) perMessage() float64 {
	if s.rows == 0 {
		return 1
	}
	return max(1, s.segments/s.rows)
}

// counting is a method of counting the segments of a text.
type counting struct {
	Sign         string `json:"sign"` // signature of the sender for messages without a signature; empty: no signature
	ForbidsSigns bool   `json:"forbids_signs"`
	SegmentSize  int64  `json:"segment_size"` // 0: the usual segment sizes of short messages
}

// counts contains the segments of the remaining rows of a batch, by the counting methods of senders.
type counts struct {
	reader  *Reader
	batchID int64
	left    []countryPart
	known   map[counting][]float64
}

// MaxSampled is the maximum number of rows whose segments are counted with the counting method of a sender. The other rows of a larger batch are assumed to be
// similar.
const MaxSampled = 1000

// by returns, for each country, the segments that a sender charges if it sends all rows. If the check did not count with the method of this sender, by computes
// the segments from the first rows.
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

// sample sets all to the segments that a sender counts. It computes them from the submitted segments and from a sample of the rows.
func (c *counts) sample(ctx context.Context, one batchq.SenderLimitsRow, all []float64) error {
	rows, err := c.reader.q.BatchSegmentsSampled(ctx, batchq.BatchSegmentsSampledParams{
		ID: c.batchID, Sign: one.Sign, ForbidsSigns: one.ForbidsSigns, SegmentSize: one.SegmentSize, MaxSampled: MaxSampled,
	})
	if err != nil {
		return fmt.Errorf("count segments of rows: %w", err)
	}
	ofAll, ratios := 1.0, map[string]float64{} // ratio of the segments for all countries, and for each country; 1: no rows remain
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

// sendersOf returns the senders that can send the rows of a batch to a country, with their limits. The result contains silent senders. It is empty if the only
// sender of the batch does not serve the company any more, if a switch holds the rows to the country, or if only shared senders serve the country and the
// company forbids shared senders.
func (r *Reader) sendersOf(ctx context.Context, b batchq.Batch, countryNo string) ([]batchq.SenderLimitsRow, error) {
	values, err := r.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := r.directory.PoolOf(ctx, b.Channel, b.CompanyID, b.MessageType, countryNo)
	if err != nil {
		return nil, fmt.Errorf("find pool: %w", err)
	}
	p := batchq.SenderLimitsParams{
		PoolID: pool, CompanyID: b.CompanyID, CountryNo: optional.NonZero(countryNo), SilentAfter: values.Queue.SilentAfter(), RecordedApart: sender.SeenApart,
	}
	if b.SenderNo != nil {
		sender, err := r.directory.ServingSender(ctx, b.Channel, b.CompanyID, b.MessageType, *b.SenderNo)
		var refused *fault.Error
		if errors.As(err, &refused) {
			return nil, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the error is already wrapped
		}
		p.SenderID = &sender
	}
	senders, err := r.q.SenderLimits(ctx, p)
	return senders, postgres.Wrap("read limits of senders", err, nil)
}

// knownRows is the number of ended rows from which a rate is measured. In a batch with fewer than ten times as many rows, a tenth of the rows is enough.
const knownRows = 100

// beginOf returns the time from which the remaining rows can be sent, by the clock of the database, if no quiet hours delay them.
func beginOf(st Progress, sets []*rowSet) time.Time {
	begin := time.Now()
	if all := sets[0].shares(); len(all) > 0 {
		begin = all[0].limits.At
	}
	if st.ExpectSendTime != nil && st.ExpectSendTime.After(begin) {
		return *st.ExpectSendTime
	}
	return begin
}

// timeFor returns the time that groups of senders need for a number of messages. It returns the horizon and false if no sender is available, if the balances
// are too low, or if the senders need longer than the horizon.
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

// rounding is the maximum rounding error of a sum of fractions of messages.
const rounding = 1e-6

// capacities returns how many messages each group can send within d. A group sends only while the limits of all senders of the previous groups are used up. A
// sender that merely waits for its interval has not used up its limits.
func capacities(groups [][]*share, d time.Duration) []float64 {
	all := make([]float64, len(groups))
	free := d // time during which the limits of all previous groups are used up
	for i, group := range groups {
		busy, isUsedUp := time.Duration(0), true
		for _, one := range group {
			n, limit := capacity(one, d, free)
			all[i] += n
			isUsedUp = isUsedUp && n >= limit
			busy = max(busy, time.Duration(n/one.part*float64(one.limits.IntervalMs)*float64(time.Millisecond)))
		}
		if math.IsInf(all[i], 1) || !isUsedUp {
			break
		}
		free = max(0, free-busy)
	}
	return all
}

// capacity returns how many messages a sender can send within d: the remaining limits of the current windows, and the full limits of later windows. The sender
// can send during the part free of d. limit is the number of messages without the sender's interval.
func capacity(one *share, d, free time.Duration) (messages, limit float64) {
	s := one.limits
	segments := math.Inf(1) // maximum number of segments
	for _, w := range []struct {
		limit  *int64
		used   int64
		window time.Duration
	}{
		{s.PerMinute, s.MinuteUsed, time.Minute}, {s.PerHour, s.HourUsed, time.Hour},
		{s.PerDay, s.DayUsed, 24 * time.Hour}, {s.PerMonth, s.MonthUsed, 30 * 24 * time.Hour},
	} {
		if w.limit != nil {
			segments = min(segments, float64(max(0, *w.limit-w.used))+math.Floor(float64(d)/float64(w.window))*float64(*w.limit))
		}
	}
	if s.HasBalance {
		segments = min(segments, float64(max(0, s.Funds)))
	}
	limit = segments / one.perMessage() * one.part
	messages = limit
	if s.IntervalMs > 0 {
		messages = min(messages, (1+float64(free/time.Millisecond)/float64(s.IntervalMs))*one.part)
	}
	return messages, limit
}
