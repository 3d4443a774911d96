package messages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"lksms/test/bench/measure"
)

const (
	withCap    = `{"recipient":{"caps":{"verification":{"per_hour":1000},"notification":{"per_hour":1000},"marketing":{"per_hour":1000}}}}`
	withoutCap = `{"recipient":{"caps":{"verification":{"per_hour":null},"notification":{"per_hour":null},"marketing":{"per_hour":null}}}}`
)

// CappedSubmit compares the processor time of PostgreSQL for single submissions with and without a cap per phone number, under the same load.
func CappedSubmit(ctx context.Context, b *measure.Bench) error {
	c := b.Client(measure.Connections)
	var with, without []float64
	for range b.Rounds {
		for _, r := range []struct {
			rules string
			took  *[]float64
		}{{withoutCap, &without}, {withCap, &with}} {
			if err := errors.Join(b.Empty(ctx), c.Call("PATCH", "/api/v1/admin/companies/default", r.rules, nil)); err != nil {
				return err
			}
			took, err := postgresTime(ctx, b, func() error { return c.Call("POST", measure.SendPath, measure.SendBody(), nil) })
			var counted int
			if err == nil {
				err = b.DB.QueryRow(ctx, "SELECT count(*) FROM capped_recipients").Scan(&counted)
			}
			if err == nil && (counted > 0) != (r.rules == withCap) {
				err = fmt.Errorf("%d phone numbers were counted with the rules %s", counted, r.rules)
			}
			if err != nil {
				return err
			}
			*r.took = append(*r.took, took)
		}
	}
	more := measure.Median(with) - measure.Median(without)
	b.Add(measure.Figure{
		Name: "processor time of PostgreSQL for the cap of a single submit", Value: measure.Show(more, "µs"),
		Compared: measure.Show(measure.Median(with), "µs") + " with the cap, " + measure.Show(measure.Median(without), "µs") + " without", Target: "<= 60 µs", Met: more <= 60,
	})
	return errors.Join(c.Call("PATCH", "/api/v1/admin/companies/default", withoutCap, nil), b.Empty(ctx))
}

// postgresTime returns the processor time that all processes of PostgreSQL need for one call under load, in microseconds.
func postgresTime(ctx context.Context, b *measure.Bench, call func() error) (float64, error) {
	rows, err := b.DB.Query(ctx, "SELECT pid FROM pg_stat_activity")
	if err != nil {
		return 0, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, err
	}
	seconds := func() (sum float64) {
		for _, pid := range pids {
			sum += measure.ProcessorSeconds(pid)
		}
		return sum
	}
	before := seconds()
	var calls atomic.Int64
	_, err = measure.ClosedLoop(ctx, measure.Connections, b.Time, func(int) error {
		calls.Add(1)
		return call()
	})
	return (seconds() - before) * 1e6 / float64(max(1, calls.Load())), err
}
