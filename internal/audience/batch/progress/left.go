package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lksms/gen/batchq"
)

// countryPart contains numbers about the remaining rows to one country.
type countryPart struct {
	CountryNo string  `json:"country_no"` // empty: the country is unknown
	Rows      float64 `json:"rows"`
	Segments  float64 `json:"segments"` // number of segments when the rows were submitted
	// BySender contains the segments as counted by senders that have their own counting method. It contains the senders that served the batch at the end of its
	// check. The numbers are computed from the sampled rows (the first MaxSampled rows) to this country; if no sampled row has this country, from all
	// sampled rows. nil means that an earlier version stored the row.
	BySender []struct {
		counting

		Segments float64 `json:"segments"`
	} `json:"by_sender"`
}

// partsOf returns the valid rows by country at the end of the check. It returns nil while the batch is being checked.
func partsOf(st Progress) (parts []countryPart, err error) {
	if st.ByCountry == nil {
		return nil, nil
	}
	if err := json.Unmarshal(st.ByCountry, &parts); err != nil {
		return nil, fmt.Errorf("read sums of batch: %w", err)
	}
	return parts, nil
}

// maxLeft is the maximum number of waiting tasks that are counted by country, and of rows that are not tasks yet. A batch normally has fewer waiting tasks,
// unless many of its tasks are delayed, held or requeued. Counting 11,000 tasks takes 13 ms.
const maxLeft = 11_000

// leftOf returns the unsent rows by country: the waiting tasks, and the rows that are not tasks yet. If these rows are too many to be counted, leftOf assumes
// that their countries are distributed like the countries of all valid rows. Its cost therefore does not depend on the number of rows.
func (r *Reader) leftOf(ctx context.Context, st Progress) ([]countryPart, error) {
	parts, err := partsOf(st)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	var known []batchq.BatchLeftRow
	if st.Fed > 0 { // otherwise all valid rows remain
		if known, err = r.q.BatchLeft(ctx, batchq.BatchLeftParams{BatchID: st.ID, FedRow: st.FedRow, MaxRows: maxLeft}); err != nil {
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
	unfed := st.unfed()
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
		if _, isKnown := valid[country]; !isKnown { // the country of these numbers changed after the check
			parts = append(parts, countryPart{CountryNo: country, Rows: 1, Segments: segments / rows})
		}
	}
	for i := range parts {
		parts[i].scale(left[parts[i].CountryNo] / parts[i].Rows)
	}
	return parts, nil
}

// countriesOf returns the counted rows of one kind by country, and their sum. isQueued selects the kind: waiting tasks, or rows that are not tasks yet.
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

// isClaimed reports whether a sender that polls can send at least one remaining row of a batch. If such senders can send all valid rows, isClaimed does not
// count the remaining rows, because a list of batches calls it for each running batch.
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
