package messages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"lksms/test/bench/measure"
)

// CodeStartsAndChecks compares starts of verifications with single submissions, in turns, and measures the processor time of PostgreSQL for a check.
func CodeStartsAndChecks(ctx context.Context, b *measure.Bench) error {
	c := b.Client(measure.Connections)
	var number atomic.Int64 // each code goes to another number, and to another range of numbers, so that no limit refuses it
	begin := func() (id string, err error) {
		var started struct {
			ID string `json:"verification_id"`
		}
		err = c.Call("POST", "/api/v1/verifications", fmt.Sprintf(`{"phone_number":"138%08d","purpose":"login"}`, number.Add(1)*7919%100_000_000), &started)
		return started.ID, err
	}
	var starts, submits []float64
	for range b.Rounds {
		for _, r := range []struct {
			call  func(int) error
			rates *[]float64
		}{
			{func(int) error { return c.Call("POST", measure.SendPath, measure.SendBody(), nil) }, &submits},
			{func(int) error { _, err := begin(); return err }, &starts},
		} {
			if err := emptyAndProve(ctx, b); err != nil {
				return err
			}
			rate, err := measure.ClosedLoop(ctx, measure.Connections, b.Time, r.call)
			if err != nil {
				return err
			}
			*r.rates = append(*r.rates, rate)
		}
	}
	b.AtMost(1.5, "time of the start of a verification", 1e6/measure.Median(starts), 1e6/measure.Median(submits), "µs", "a single submit")

	if err := emptyAndProve(ctx, b); err != nil {
		return err
	}
	ids := make([]string, 1000)
	for i := range ids {
		var err error
		if ids[i], err = begin(); err != nil {
			return err
		}
	}
	var checked atomic.Int64
	took, err := postgresTime(ctx, b, func() error {
		n := int(checked.Add(1))
		if n > 4*len(ids) { // the fifth wrong code ends a verification
			return errDone
		}
		return c.Call("POST", "/api/v1/verifications/"+ids[n%len(ids)]+"/check", `{"code":"none"}`, nil)
	})
	if err != nil && !errors.Is(err, errDone) {
		return err
	}
	b.Add(measure.Figure{
		Name: "processor time of PostgreSQL for the check of a code", Value: measure.Show(took, "µs"), Target: "<= 1000 µs", Met: took <= 1000,
	})
	return b.Empty(ctx)
}

// emptyAndProve deletes all codes and their counts, and stores approved codes for prefixes of the numbers that the bench uses. Prefixes with more digits stay unproven, as
// in a country with many numbers.
func emptyAndProve(ctx context.Context, b *measure.Bench) error {
	if err := b.Empty(ctx); err != nil {
		return err
	}
	return b.Exec(ctx, `
		WITH prefixes AS (
			SELECT DISTINCT left('+86138' || lpad(n::text, 8, '0'), d.digits + 1) AS subject
			FROM generate_series(0, 99999999, 100000) AS n, unnest(ARRAY[2, 4, 6, 7, 8]) AS d (digits)
		), hours AS (
			INSERT INTO verification_hours (company_id, subject, hour, started, approved)
			SELECT c.id, p.subject, date_trunc('hour', now(), 'UTC') - interval '3 hours', 1000000, 1000000 FROM prefixes p, companies c
		)
		INSERT INTO verification_subjects (company_id, subject, started, approved, is_proven)
		SELECT c.id, p.subject, 1000000, 1000000, true FROM prefixes p, companies c`)
}

// errDone ends a measurement: there is no more work.
var errDone = errors.New("done")
