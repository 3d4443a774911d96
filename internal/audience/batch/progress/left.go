package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lksms/gen/batchq"
)

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

// partsOf returns the valid rows by country, as they were at the end of the check. It returns nil while the batch is being checked.
func partsOf(st Progress) (parts []countryPart, err error) {
	if st.ByCountry == nil {
		return nil, nil
	}
	if err := json.Unmarshal(st.ByCountry, &parts); err != nil {
		return nil, fmt.Errorf("read sums of batch: %w", err)
	}
	return parts, nil
}

// maxLeft is the maximum number of waiting tasks, and of rows that are not tasks yet, that are counted by country. A batch normally has fewer than
// maxLeft tasks in the queue, unless many of its tasks were requeued. Counting 11,000 tasks takes 13 ms.
const maxLeft = 11_000

// leftOf returns the unsent rows by country. It counts the waiting tasks, and the rows that are not tasks yet. If these rows are too many to be counted,
// leftOf assumes that they have the same countries as all valid rows. Its cost therefore does not depend on the number of rows.
func (r *Reader) leftOf(ctx context.Context, st Progress) ([]countryPart, error) {
	parts, err := partsOf(st)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	var known []batchq.BatchLeftRow
	if st.Fed > 0 { // otherwise all valid rows are left
		if known, err = r.q.BatchLeft(ctx, batchq.BatchLeftParams{BatchID: st.ID, FedRow: st.FedRow, Most: maxLeft}); err != nil {
			return nil, fmt.Errorf("count remaining rows: %w", err)
		}
	}
	valid := map[string]float64{}
	rows, segments := 0.0, 0.0
	for _, part := range parts {
		valid[part.CountryNo] += part.Rows
		rows += part.Rows
		segments += part.Segments
	}
	unfed := max(0, min(st.Counts.Waiting, st.Counts.Valid-st.Fed))
	left := map[string]float64{}
	for isQueued, n := range map[bool]int64{true: st.Counts.Waiting - unfed, false: unfed} {
		by, sum := countriesOf(known, isQueued)
		if sum == 0 || sum == maxLeft {
			by, sum = valid, rows
		}
		for country, share := range by {
			left[country] += float64(n) * share / sum
		}
	}
	for _, country := range slices.Sorted(maps.Keys(left)) {
		if _, isKnown := valid[country]; !isKnown { // the countries of numbers changed after the check
			parts = append(parts, countryPart{CountryNo: country, Rows: 1, Segments: segments / rows})
		}
	}
	for i := range parts {
		parts[i].scale(left[parts[i].CountryNo] / parts[i].Rows)
	}
	return parts, nil
}

// countriesOf returns the counted rows of one kind by country, and their sum.
func countriesOf(known []batchq.BatchLeftRow, isQueued bool) (by map[string]float64, sum float64) {
	by = map[string]float64{}
	for _, row := range known {
		if row.IsQueued == isQueued {
			by[row.CountryNo] += float64(row.Rows)
			sum += float64(row.Rows)
		}
	}
	return by, sum
}

// scale multiplies the numbers of rows and segments.
func (p *countryPart) scale(factor float64) {
	p.Rows *= factor
	p.Segments *= factor
	for i := range p.BySender {
		p.BySender[i].Segments *= factor
	}
}

// isClaimed reports whether an available sender can send a part of the remaining rows of a batch. It counts the remaining rows only if some valid rows have no
// such sender, because a list of batches calls it for each running batch.
func (r *Reader) isClaimed(ctx context.Context, st Progress) (bool, error) {
	parts, err := partsOf(st)
	if err != nil {
		return false, err
	}
	isServed := map[string]bool{}
	serves := func(part countryPart) (bool, error) {
		if _, isKnown := isServed[part.CountryNo]; !isKnown {
			senders, err := r.sendersOf(ctx, st.Batch, part.CountryNo)
			if err != nil {
				return false, err
			}
			isServed[part.CountryNo] = slices.ContainsFunc(senders, isPolling)
		}
		return isServed[part.CountryNo], nil
	}
	servesAll := len(parts) > 0
	for _, part := range parts {
		isServed, err := serves(part)
		if err != nil {
			return false, err
		}
		servesAll = servesAll && isServed
	}
	if servesAll {
		return true, nil
	}
	left, err := r.leftOf(ctx, st)
	if err != nil {
		return false, err
	}
	for _, part := range left {
		if isServed, err := serves(part); err != nil || isServed && part.Rows > 0 {
			return isServed, err
		}
	}
	return false, nil
}

// isPolling reports whether a sender is not silent.
func isPolling(one batchq.SenderLimitsRow) bool { return !one.IsSilent }
