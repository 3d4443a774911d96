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

// Query selects series of points.
type Query struct {
	CompanyID *int64 // nil: all companies
	From      time.Time
	To        *time.Time // nil: now
	Step      string
	By        string
	Key       *string // nil: all keys; otherwise only the series with this key, as in the database
	Limit     int     // maximum number of series
}

// Answer contains the selected series, the largest first. From and To include the whole first and last step.
type Answer struct {
	From, To   time.Time
	TimeZone   string
	Series     []Series
	MoreSeries int
}

// Series contains the points of one key.
type Series struct {
	Key       string // as in the database; empty: the series of the tasks without a key
	CompanyNo string // only in series by company; empty: the company was deleted
	Totals    Figures
	Points    []Point // in ascending order; steps without events are omitted
}

// Point contains the events of one step. The step begins at At.
type Point struct {
	At time.Time
	Counts
	taken     int64 // number of tasks that were claimed for the first time
	Waits     Percentiles
	Durations Percentiles
}

// longest contains the maximum range of a query in days for each step. For minutes and hours, this is the time for which their points are kept. For days, it is
// ten years.
var longest = map[string]int{Minute: 2, Hour: 93, Day: 3660}

// lengths contains the minimum length of each step.
var lengths = map[string]time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 23 * time.Hour}

// maxPoints is the maximum number of points in an answer. The answer to a query with a longer range therefore contains fewer series.
const maxPoints = 10_000

// Read returns series. Fault: request.invalid. The fault names the field "from" if the range is empty, or too long for its step. It names "from" or "to" if a
// whole step would be outside the years 1 to 9999.
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
	case length > time.Duration(days)*24*time.Hour+2*lengths[query.Step]: // whole steps can extend beyond both ends of the range
		return Answer{}, fault.InvalidField("from", fault.RangeTooLong, days)
	}
	company, by := int64(AllCompanies), query.By
	if query.CompanyID != nil {
		company = *query.CompanyID
		if by == ByCompany {
			by = ByNothing // a single company has only the series of all its tasks
		}
	}
	maxSeries := max(1, min(query.Limit, maxPoints/int(length/lengths[query.Step]+1)))
	keys := []string{""}
	switch {
	case by == ByNothing:
	case query.Key != nil:
		keys[0] = *query.Key
	default:
		rows, err := s.q.StatisticsSeries(ctx, statisticsq.StatisticsSeriesParams{
			Step: query.Step, CompanyID: company, Dimension: by, FromAt: span.FromAt, ToAt: span.ToAt, MaxRows: int32(maxSeries),
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

// countSubmissions sets the submissions of series by sender: a submission counts for the sender that first claimed the task. Each task has one wait, which ends
// at its first claim. The number of submissions of a sender is therefore its number of waits. The series without a sender contains the tasks that no sender has
// claimed.
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

// Events returns the numbers of submitted, succeeded and failed tasks of a company; nil: of all companies. Counting begins about two days before `since`. The
// numbers are exact and never decrease. Only the differences between results with the same since are meaningful.
func (s *Service) Events(ctx context.Context, company *int64, since time.Time) (statisticsq.StatisticsEventsRow, error) {
	row, err := s.q.StatisticsEvents(ctx, statisticsq.StatisticsEventsParams{CompanyID: optional.Or(company, AllCompanies), Since: since})
	return row, postgres.Wrap("count events", err, nil)
}

// size returns the number by which series are sorted: the largest series comes first.
func (c Counts) size() int64 {
	return c.Submitted + c.Requeued + c.Claimed + c.Succeeded + c.Failed + c.ReportedFailed + c.Unreported + c.Cancelled + c.Delivered + c.Undelivered
}

// seriesOf builds series from rows that are sorted by key and time. A point can consist of two rows.
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

// oneSeries builds a series from the rows of one key. It reuses the histograms of each point for the next point to save memory.
func oneSeries(rows []statisticsq.StatisticsPointsRow) (Series, error) {
	s := Series{Key: rows[0].Key, Points: make([]Point, 0, len(rows))}
	var point Figures
	var waits, durations tally
	for i, row := range rows {
		point.Counts.add(Counts{
			Submitted: row.Submitted, Requeued: row.Requeued, Claimed: row.Claimed, Succeeded: row.Succeeded, Failed: row.Failed,
			ReportedFailed: row.ReportedFailed, Unreported: row.Unreported, Cancelled: row.Cancelled, Delivered: row.Delivered, Undelivered: row.Undelivered,
			Segments: row.Segments,
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

// nameCompanies sets Key and CompanyNo of series by company. If companyID is not nil, all series belong to this company.
func (s *Service) nameCompanies(ctx context.Context, companyID *int64, all []Series) error {
	ids := make([]int64, len(all))
	for i := range all {
		if companyID != nil {
			all[i].Key = strconv.FormatInt(*companyID, 10)
		}
		ids[i], _ = strconv.ParseInt(all[i].Key, 10, 64) // the key is the id of a company
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
