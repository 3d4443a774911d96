package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"lksms/test/bench/measure"
)

// tasksADay is the number of tasks in each partition of a past day.
const tasksADay = 20

// These are the calls that PartitionPages measures.
const (
	submitCall = iota
	claimCall
	reportCall
	findCall
	partedCalls
)

// parted is a server whose database has partitions of a number of past days.
type parted struct {
	days   int
	server *measure.Stack
	client *measure.Client
	ids    []string // tasks of the past days
	took   [partedCalls][]time.Duration
}

// PartitionPages measures the same calls with partitions of a few past days and of many past days. Each number of days has a separate server and database, so
// that the measurements can alternate.
func PartitionPages(ctx context.Context, b *measure.Bench) (err error) {
	numbers, warm, n := []int{3, 60, 400}, 20, 200
	if b.Short {
		numbers, warm, n = []int{3, 20}, 2, 20
	}
	var all []*parted
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.server.Stop(), b.DropDatabase(context.WithoutCancel(ctx), databaseOf(p.days)))
		}
	}()
	for _, days := range numbers {
		server, err := b.Beside(ctx, databaseOf(days))
		p := &parted{days: days, server: server}
		all = append(all, p)
		if err == nil {
			err = errors.Join(p.fill(ctx, b.Options), server.Serve(ctx))
		}
		if err != nil {
			return fmt.Errorf("%d days: %w", days, err)
		}
		p.client = server.Client(1)
	}
	for round := range warm + n { // the connections prepare their statements in the first rounds
		if round == warm {
			for _, p := range all {
				p.took = [partedCalls][]time.Duration{}
			}
		}
		for _, i := range rand.Perm(len(all)) {
			if err := errors.Join(all[i].round(), ctx.Err()); err != nil {
				return fmt.Errorf("%d days: %w", all[i].days, err)
			}
		}
	}
	for call, name := range []string{"submit of 100", "claim of 100", "report of 100", "query of a task"} {
		few := measure.Millis(measure.Quantile(all[0].took[call], 0.5))
		for _, p := range all[1:] {
			b.AtMost(1.2, fmt.Sprintf("%s with the partitions of %d past days", name, p.days), measure.Millis(measure.Quantile(p.took[call], 0.5)), few, "ms",
				fmt.Sprintf("%d past days", all[0].days))
		}
	}
	return nil
}

func databaseOf(days int) string { return fmt.Sprint("bench_partitions_", days) }

// fill creates the partitions of the past days, each with a few finished tasks.
func (p *parted) fill(ctx context.Context, o measure.Options) error {
	b := &measure.Bench{Options: o, Stack: p.server}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	first := today.AddDate(0, 0, -p.days)
	for day := first; day.Before(today); day = day.AddDate(0, 0, 1) {
		if err := b.Exec(ctx, "SELECT task_partition_make($1, $2)", day, day.AddDate(0, 0, 1)); err != nil {
			return err
		}
	}
	f := measure.Plain("", p.days*tasksADay, measure.DefaultCompany, first)
	f.Last = today.Add(-time.Hour)
	if err := errors.Join(b.Fill(ctx, f, measure.FinishedState), b.Exec(ctx, "VACUUM (ANALYZE) messages, report_logs")); err != nil {
		return err
	}
	return b.DB.QueryRow(ctx, "SELECT array_agg(task_id) FROM messages").Scan(&p.ids)
}

// round submits a hundred messages, claims them, reports them, and queries ten tasks of the past days.
func (p *parted) round() error {
	var tasks []measure.Leased
	err := errors.Join(
		p.call(submitCall, "POST", "/api/v1/sms/send-batch", measure.LifeBody(100), nil),
		p.call(claimCall, "POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":100}`, &tasks),
	)
	if err == nil && len(tasks) != 100 {
		err = fmt.Errorf("claimed %d of 100", len(tasks))
	}
	if err != nil {
		return err
	}
	report, err := json.Marshal(map[string]any{"reports": measure.ReportsOf(tasks, "app")})
	if err != nil {
		return err
	}
	err = p.call(reportCall, "POST", "/api/v1/sms/report-batch", string(report), nil)
	for range 10 {
		err = errors.Join(err, p.call(findCall, "GET", "/api/v1/sms/task/"+p.ids[rand.IntN(len(p.ids))], "", nil))
	}
	return err
}

// call makes a request and records its duration.
func (p *parted) call(call int, method, path, body string, data any) error {
	began := time.Now()
	err := p.client.Call(method, path, body, data)
	p.took[call] = append(p.took[call], time.Since(began))
	return err
}
