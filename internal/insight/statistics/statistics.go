// Package statistics owns figures over time: the events of tasks in each minute, hour and day, by company, channel, sender, message type and outcome. The
// figures are computed only from facts, and are always exact. The package also owns the metrics of tasks and the current overview, which are computed from the
// same events.
package statistics

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"lksms/gen/statisticsq"
	"lksms/internal/dispatch/fact"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Service stores and reads statistics.
type Service struct {
	db       *postgres.DB
	q        *statisticsq.Queries
	settings *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	return &Service{db: db, q: statisticsq.New(db), settings: settings}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Watch}, Name: "roll-up-statistics", Interval: time.Minute, Routine: true, Run: s.RollUp},
		{Roles: servers.Roles{servers.Watch}, Name: "delete-expired-statistics", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// These are the names of steps and dimensions in the database.
const (
	Minute = "minute"
	Hour   = "hour"
	Day    = "day"

	ByNothing     = "total"
	ByCompany     = "company"
	ByChannel     = "channel"
	BySender      = "sender"
	ByMessageType = "message_type"
	ByOutcome     = "outcome"
)

// Tests is the key of all test messages in the dimension ByMessageType. Other dimensions do not count test messages.
const Tests = "test"

// kept contains the time for which points are kept, by step. Points of days are kept forever.
var kept = map[string]time.Duration{Minute: 2 * 24 * time.Hour, Hour: 93 * 24 * time.Hour}

// Counts contains the number of events of each kind.
type Counts struct {
	Submitted      int64
	Requeued       int64
	Claimed        int64 // number of leases
	Succeeded      int64
	Failed         int64
	ReportedFailed int64 // leases that their sender reported as FAILED, even if the task was retried
	Unreported     int64 // leases that ended without a report, except leases that had to be started and were not; a later report does not change the number
	Cancelled      int64
	Delivered      int64 // receipts of this state
	Undelivered    int64
	Segments       int64 // segments of the leases that were reported as SUCCESS
}

func (c *Counts) add(o Counts) {
	c.Submitted += o.Submitted
	c.Requeued += o.Requeued
	c.Claimed += o.Claimed
	c.Succeeded += o.Succeeded
	c.Failed += o.Failed
	c.ReportedFailed += o.ReportedFailed
	c.Unreported += o.Unreported
	c.Cancelled += o.Cancelled
	c.Delivered += o.Delivered
	c.Undelivered += o.Undelivered
	c.Segments += o.Segments
}

// Figures contains counts, and durations. A duration begins when the task can be claimed for the first time.
type Figures struct {
	Counts
	Waits     Histogram // until the first claim
	Durations Histogram // until SUCCESS or FAILED
}

// AddFacts stages the events of facts in the transaction of ctx. It is a history.Consumer.
func (s *Service) AddFacts(ctx context.Context, facts []fact.Sum) error {
	var rows statisticsq.StatisticsStageParams
	for _, f := range facts {
		succeeded, failed := max(0, f.Success), max(0, f.Failed) // a requeue reduces Failed, but does not undo the event of an earlier minute
		if f.Submitted+f.Requeued+f.Leases+succeeded+failed+f.ReportedFailed+f.Unreported+f.Cancelled+f.Delivered+f.Undelivered == 0 {
			continue
		}
		sender := ""
		if f.SenderNo != nil {
			sender = *f.SenderNo
		}
		rows.Ats = append(rows.Ats, f.Minute)
		rows.CompanyIds = append(rows.CompanyIds, f.CompanyID)
		rows.Channels = append(rows.Channels, f.Channel)
		rows.SenderNos = append(rows.SenderNos, sender)
		messageType := f.MessageType
		if f.IsTest {
			messageType = Tests
		}
		rows.MessageTypes = append(rows.MessageTypes, messageType)
		rows.Outcomes = append(rows.Outcomes, f.Outcome)
		rows.Submitted = append(rows.Submitted, f.Submitted)
		rows.Requeued = append(rows.Requeued, f.Requeued)
		rows.Claimed = append(rows.Claimed, f.Leases)
		rows.Succeeded = append(rows.Succeeded, succeeded)
		rows.Failed = append(rows.Failed, failed)
		rows.ReportedFailed = append(rows.ReportedFailed, f.ReportedFailed)
		rows.Unreported = append(rows.Unreported, f.Unreported)
		rows.Cancelled = append(rows.Cancelled, f.Cancelled)
		rows.Delivered = append(rows.Delivered, f.Delivered)
		rows.Undelivered = append(rows.Undelivered, f.Undelivered)
		rows.Segments = append(rows.Segments, f.Segments)
		rows.Waits = append(rows.Waits, f.Waits)
		rows.Durations = append(rows.Durations, f.Durations)
	}
	if len(rows.Ats) == 0 {
		return nil
	}
	return postgres.Wrap("stage statistics", s.q.StatisticsStage(ctx, rows), nil)
}

// portion is the number of staged rows that one transaction of RollUp moves.
const portion = 20_000

// RollUp adds the staged rows of past minutes to the minutes, hours and days in the table statistics. It returns the number of moved staged rows.
func (s *Service) RollUp(ctx context.Context) (int, error) {
	return postgres.InBatches(portion, func() (n int64, err error) {
		values, err := s.settings.Get(ctx)
		if err != nil {
			return 0, err
		}
		err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
			n, err = s.rollUpPortion(ctx, values.Monitoring.TimeZone)
			return err
		})
		return n, postgres.Wrap("roll up statistics", err, nil)
	})
}

// sumKey is the primary key of a row of statistics.
type sumKey struct {
	step      string
	company   int64
	dimension string
	at        int64 // Unix seconds
	key       string
}

// compare compares two keys in the order of statistics_pkey.
func (p sumKey) compare(o sumKey) int {
	return cmp.Or(
		cmp.Compare(p.step, o.step), cmp.Compare(p.company, o.company), cmp.Compare(p.dimension, o.dimension), cmp.Compare(p.at, o.at),
		cmp.Compare(p.key, o.key),
	)
}

func (s *Service) rollUpPortion(ctx context.Context, zone string) (taken int64, err error) {
	if err := s.q.StatisticsLock(ctx); err != nil {
		return 0, err
	}
	staged, err := s.q.StatisticsTake(ctx, statisticsq.StatisticsTakeParams{Portion: portion, TimeZone: zone})
	if err != nil || len(staged) == 0 {
		return 0, err
	}
	sums := map[sumKey]*Figures{}
	for _, row := range staged {
		taken += row.Taken
		addTo(sums, row)
	}
	return taken, s.store(ctx, sums)
}

// AllCompanies is the company id in rows that count the tasks of all companies. No real company has this id.
const AllCompanies = 0

// addTo adds a staged row to the sums of all rows of the table statistics that must include it.
func addTo(sums map[sumKey]*Figures, row statisticsq.StatisticsTakeRow) {
	f := Figures{Counts: Counts{
		Submitted: row.Submitted, Requeued: row.Requeued, Claimed: row.Claimed, Succeeded: row.Succeeded, Failed: row.Failed,
		ReportedFailed: row.ReportedFailed, Unreported: row.Unreported, Cancelled: row.Cancelled, Delivered: row.Delivered, Undelivered: row.Undelivered, Segments: row.Segments,
	}}
	f.Waits.Add(row.Waits)
	f.Durations.Add(row.Durations)
	add := func(p sumKey) {
		sum := sums[p]
		if sum == nil {
			sum = &Figures{}
			sums[p] = sum
		}
		sum.add(f)
	}
	keys := map[string]string{ByMessageType: row.MessageType}
	if row.MessageType != Tests {
		keys = map[string]string{ByNothing: "", ByChannel: row.Channel, BySender: row.SenderNo, ByMessageType: row.MessageType, ByOutcome: row.Outcome}
	}
	for step, at := range map[string]time.Time{Minute: row.Minute, Hour: row.Hour, Day: row.Day} {
		for dimension, key := range keys {
			add(sumKey{step, row.CompanyID, dimension, at.Unix(), key})
			add(sumKey{step, AllCompanies, dimension, at.Unix(), key})
		}
		if row.MessageType == Tests {
			continue
		}
		add(sumKey{step, AllCompanies, ByCompany, at.Unix(), strconv.FormatInt(row.CompanyID, 10)})
	}
}

func (f *Figures) add(o Figures) {
	f.Counts.add(o.Counts)
	f.Waits.Merge(o.Waits)
	f.Durations.Merge(o.Durations)
}

// addStored adds two histograms in their stored form.
func (f *Figures) addStored(waits, durations []byte) error {
	return errors.Join(f.Waits.addPacked(waits), f.Durations.addPacked(durations))
}

// store adds sums to the rows of statistics. The caller's transaction holds the lock of StatisticsLock.
func (s *Service) store(ctx context.Context, sums map[sumKey]*Figures) error {
	var rows statisticsq.StatisticsAddParams
	added := make([]*Figures, 0, len(sums))
	for _, p := range slices.SortedFunc(maps.Keys(sums), sumKey.compare) { // in the order of the primary key, so that rows that are read together are stored side by side
		f := sums[p]
		added = append(added, f)
		rows.Steps = append(rows.Steps, p.step)
		rows.CompanyIds = append(rows.CompanyIds, p.company)
		rows.Dimensions = append(rows.Dimensions, p.dimension)
		rows.Ats = append(rows.Ats, time.Unix(p.at, 0))
		rows.Keys = append(rows.Keys, p.key)
		rows.Submitted = append(rows.Submitted, f.Submitted)
		rows.Requeued = append(rows.Requeued, f.Requeued)
		rows.Claimed = append(rows.Claimed, f.Claimed)
		rows.Succeeded = append(rows.Succeeded, f.Succeeded)
		rows.Failed = append(rows.Failed, f.Failed)
		rows.ReportedFailed = append(rows.ReportedFailed, f.ReportedFailed)
		rows.Unreported = append(rows.Unreported, f.Unreported)
		rows.Cancelled = append(rows.Cancelled, f.Cancelled)
		rows.Delivered = append(rows.Delivered, f.Delivered)
		rows.Undelivered = append(rows.Undelivered, f.Undelivered)
		rows.Segments = append(rows.Segments, f.Segments)
	}
	stored, err := s.q.StatisticsHistograms(ctx, statisticsq.StatisticsHistogramsParams{
		Steps: rows.Steps, CompanyIds: rows.CompanyIds, Dimensions: rows.Dimensions, Ats: rows.Ats, Keys: rows.Keys,
	})
	if err != nil {
		return err
	}
	for _, row := range stored {
		if err := added[row.Place].addStored(row.Waits, row.Durations); err != nil {
			return err
		}
	}
	for _, f := range added {
		rows.Waits = append(rows.Waits, f.Waits.pack())
		rows.Durations = append(rows.Durations, f.Durations.pack())
	}
	return s.q.StatisticsAdd(ctx, rows)
}

// deleteBatch is the number of rows that one statement deletes.
const deleteBatch = 10_000

// DeleteExpired deletes the points of minutes and hours that are older than the times in kept. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	total := 0
	for step, keep := range kept {
		n, err := postgres.InBatches(deleteBatch, func() (int64, error) {
			n, err := s.q.StatisticsDeleteExpired(ctx, statisticsq.StatisticsDeleteExpiredParams{Step: step, Keep: keep, BatchSize: deleteBatch})
			return n, postgres.Wrap("delete statistics", err, nil)
		})
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}
