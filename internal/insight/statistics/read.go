package statistics

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"lksms/gen/statisticsq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Query asks for series of points.
type Query struct {
	CompanyID *int64 // nil: all companies
	From      time.Time
	To        *time.Time // nil: now
	Step      string
	By        string
	Key       *string // only this series, by its key in the database
	Limit     int     // of series
}

// Answer has the series that a Query asks for, the largest first, between From and To, which are full steps.
type Answer struct {
	From, To   time.Time
	TimeZone   string
	Series     []Series
	MoreSeries int
}

// Series has the points of one key.
type Series struct {
	Key       string // as in the database; empty: none
	CompanyNo string // of a series of a company; empty: it was deleted
	Totals    Figures
	Points    []Point // ascending, without those in which nothing happened
}

// Point has what happened in one step from At on.
type Point struct {
	At time.Time
	Counts
	taken     int64 // tasks that were claimed for the first time
	Waits     Percentiles
	Durations Percentiles
}

// longest is the longest range of a step in days: as long as its points are kept, and ten years.
var longest = map[string]int{Minute: 2, Hour: 93, Day: 3660}

// lengths has the shortest length of each step.
var lengths = map[string]time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 23 * time.Hour}

// maxPoints bounds the points of an answer: of a long range, it has fewer series.
const maxPoints = 10_000

// Read returns series. Faults: request.invalid, naming from, if the range is empty or too long for its step; naming from or to, if a full step
// is outside the years that answers can show.
func (s *Service) Read(ctx context.Context, query Query) (Answer, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return Answer{}, err
	}
	zone := values.Monitoring.TimeZone
	span, err := s.q.StatisticsRange(ctx, statisticsq.StatisticsRangeParams{Step: query.Step, FromAt: query.From, ToAt: query.To, TimeZone: zone})
	if err != nil {
		return Answer{}, postgres.Wrap("read range of statistics", err, nil)
	}
	answer := Answer{From: span.FromAt, To: span.ToAt, TimeZone: zone}
	length := span.ToAt.Sub(span.FromAt)
	switch days := longest[query.Step]; {
	case length <= 0:
		return Answer{}, fault.InvalidField("from", fault.RangeEmpty, nil)
	case span.FromAt.UTC().Year() < 1:
		return Answer{}, fault.InvalidField("from", fault.WrongFormat, nil)
	case span.ToAt.UTC().Year() > 9999:
		return Answer{}, fault.InvalidField("to", fault.WrongFormat, nil)
	case length > time.Duration(days)*24*time.Hour+2*lengths[query.Step]: // the first and the last step may be partly outside
		return Answer{}, fault.InvalidField("from", fault.RangeTooLong, days)
	}
	company, by := int64(AllCompanies), query.By
	if query.CompanyID != nil {
		company = *query.CompanyID
		if by == ByCompany {
			by = ByNothing // it has the only series
		}
	}
	most := max(1, min(query.Limit, maxPoints/int(length/lengths[query.Step]+1)))
	keys := []string{""}
	switch {
	case by == ByNothing:
	case query.Key != nil:
		keys[0] = *query.Key
	default:
		rows, err := s.q.StatisticsSeries(ctx, statisticsq.StatisticsSeriesParams{
			Step: query.Step, CompanyID: company, Dimension: by, FromAt: span.FromAt, ToAt: span.ToAt, Most: int32(most),
		})
		if err != nil {
			return Answer{}, postgres.Wrap("choose series of statistics", err, nil)
		}
		keys = keys[:0]
		for _, row := range rows {
			keys = append(keys, row.Key)
			answer.MoreSeries = int(row.Keys) - len(rows)
		}
	}
	rows, err := s.q.StatisticsPoints(ctx, statisticsq.StatisticsPointsParams{
		Step: query.Step, CompanyID: company, Dimension: by, FromAt: span.FromAt, ToAt: span.ToAt, Keys: keys, TimeZone: zone,
	})
	if err != nil {
		return Answer{}, postgres.Wrap("read statistics", err, nil)
	}
	if answer.Series, err = seriesOf(rows); err != nil {
		return Answer{}, err
	}
	if by == BySender {
		if err := s.countSubmissions(ctx, company, query.Step, span, zone, answer.Series); err != nil {
			return Answer{}, err
		}
		answer.Series = slices.DeleteFunc(answer.Series, func(one Series) bool { return one.Totals.size() == 0 })
	}
	slices.SortStableFunc(answer.Series, func(a, b Series) int { return cmp.Compare(b.Totals.size(), a.Totals.size()) })
	if query.By == ByCompany {
		err = s.nameCompanies(ctx, query.CompanyID, answer.Series)
	}
	return answer, err
}

// countSubmissions counts the submissions of series by sender under the sender that took them first: a task has one wait, which its first claim ends. The
// series without a sender keeps those that nobody took.
func (s *Service) countSubmissions(
	ctx context.Context, company int64, step string, span statisticsq.StatisticsRangeRow, zone string, all []Series,
) error {
	for i := range all {
		if all[i].Key == "" {
			rows, err := s.q.StatisticsPoints(ctx, statisticsq.StatisticsPointsParams{
				Step: step, CompanyID: company, Dimension: ByNothing, FromAt: span.FromAt, ToAt: span.ToAt, Keys: []string{""}, TimeZone: zone,
			})
			if err != nil {
				return postgres.Wrap("read totals of statistics", err, nil)
			}
			total, err := seriesOf(rows)
			if err != nil {
				return err
			}
			taken := map[int64]int64{}
			for _, one := range total {
				all[i].Totals.Submitted -= int64(one.Totals.Waits.Count())
				for _, point := range one.Points {
					taken[point.At.Unix()] = point.taken
				}
			}
			all[i].Totals.Submitted = max(0, all[i].Totals.Submitted)
			for j := range all[i].Points {
				point := &all[i].Points[j]
				point.Submitted = max(0, point.Submitted-taken[point.At.Unix()])
			}
			continue
		}
		all[i].Totals.Submitted = int64(all[i].Totals.Waits.Count())
		for j := range all[i].Points {
			all[i].Points[j].Submitted = all[i].Points[j].taken
		}
	}
	return nil
}

// Events returns how many tasks of a company, or of all if company is nil, were submitted, succeeded and failed since about two days before a time.
// The numbers are exact at any moment, never become smaller, and are of use as differences: only those with the same time can be compared.
func (s *Service) Events(ctx context.Context, company *int64, since time.Time) (statisticsq.StatisticsEventsRow, error) {
	row, err := s.q.StatisticsEvents(ctx, statisticsq.StatisticsEventsParams{CompanyID: optional.Or(company, AllCompanies), Since: since})
	return row, postgres.Wrap("count events", err, nil)
}

// size is what series are ordered by.
func (c Counts) size() int64 {
	return c.Submitted + c.Requeued + c.Claimed + c.Succeeded + c.Failed + c.ReportedFailed + c.Cancelled + c.Delivered + c.Undelivered
}

// seriesOf makes series of rows, which are ordered by key and time. One point may come from two rows.
func seriesOf(rows []statisticsq.StatisticsPointsRow) (all []Series, err error) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Key == rows[0].Key {
			n++
		}
		one, err := oneSeries(rows[:n])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
		rows = rows[n:]
	}
	return all, nil
}

// oneSeries makes a series of the rows of one key. The histograms of a point end with it, so that all points use the memory of one.
func oneSeries(rows []statisticsq.StatisticsPointsRow) (Series, error) {
	s := Series{Key: rows[0].Key, Points: make([]Point, 0, len(rows))}
	var point Figures
	var waits, durations tally
	for i, row := range rows {
		point.Counts.add(Counts{
			Submitted: row.Submitted, Requeued: row.Requeued, Claimed: row.Claimed, Succeeded: row.Succeeded, Failed: row.Failed,
			ReportedFailed: row.ReportedFailed, Cancelled: row.Cancelled, Delivered: row.Delivered, Undelivered: row.Undelivered, Segments: row.Segments,
		})
		if row.IsPacked {
			if err := point.addStored(row.Waits, row.Durations); err != nil {
				return Series{}, err
			}
		} else {
			point.Waits.Add(row.Waits)
			point.Durations.Add(row.Durations)
		}
		if i+1 < len(rows) && rows[i+1].At.Equal(row.At) {
			continue
		}
		s.Points = append(s.Points, Point{
			At: row.At, Counts: point.Counts, taken: int64(point.Waits.Count()),
			Waits: point.Waits.Percentiles(), Durations: point.Durations.Percentiles(),
		})
		s.Totals.Counts.add(point.Counts)
		waits.add(point.Waits)
		durations.add(point.Durations)
		point = Figures{Waits: point.Waits[:0], Durations: point.Durations[:0]}
	}
	s.Totals.Waits, s.Totals.Durations = waits.histogram(), durations.histogram()
	return s, nil
}

// nameCompanies sets CompanyNo of series of companies. The series of one company has no key yet.
func (s *Service) nameCompanies(ctx context.Context, only *int64, all []Series) error {
	ids := make([]int64, len(all))
	for i := range all {
		if only != nil {
			all[i].Key = strconv.FormatInt(*only, 10)
		}
		ids[i], _ = strconv.ParseInt(all[i].Key, 10, 64) // written by RollUp or the statement
	}
	rows, err := s.q.StatisticsCompanies(ctx, ids)
	if err != nil {
		return postgres.Wrap("name companies", err, nil)
	}
	for _, row := range rows {
		for i := range all {
			if ids[i] == row.ID {
				all[i].CompanyNo = row.CompanyNo
			}
		}
	}
	return nil
}
