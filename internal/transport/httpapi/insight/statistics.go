package insight

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"lksms/gen/api"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
)

// ReadStatistics returns the statistics of each minute, hour or day.
func (h *Handlers) ReadStatistics(ctx context.Context, req api.ReadStatisticsRequestObject) (api.ReadStatisticsResponseObject, error) {
	p := req.Params
	query := statistics.Query{
		CompanyID: caller.OwnCompany(ctx), From: p.From, To: p.To, Step: string(optional.Or(p.Step, api.StepHour)), By: statistics.ByNothing,
		Key: p.Key, Limit: optional.Or(p.Limit, 20), // 20 is the default in the contract
	}
	if p.CompanyNo != nil {
		id, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return nil, err
		}
		query.CompanyID = &id
	}
	if p.By != nil {
		query.By = string(*p.By)
	}
	switch {
	case p.Key == nil:
	case p.By == nil:
		return nil, fault.InvalidField("by", fault.Required, nil)
	case *p.By == api.ByCompany: // the series of a company contains its tasks
		id, err := h.seriesCompany(ctx, *p.Key)
		if err != nil {
			return nil, err
		}
		if query.CompanyID != nil && *query.CompanyID != id {
			return nil, fault.InvalidField("key", fault.NotAllowed, []api.No{*p.CompanyNo})
		}
		query.CompanyID, query.Key = &id, nil
	case *p.By == api.ByMessageType && *p.Key != statistics.Tests:
		code := slices.Index(convert.MessageTypes[:], api.MessageType(*p.Key))
		if code < 0 {
			return nil, fault.InvalidField("key", fault.NotThere, nil)
		}
		query.Key = new(strconv.Itoa(code))
	}
	answer, err := h.services.Statistics.Read(ctx, query)
	if err != nil {
		return nil, err
	}
	data := api.StatisticsRange{
		From: answer.From, To: answer.To, Step: api.StatisticsRangeStep(query.Step), TimeZone: answer.TimeZone, Series: []api.StatisticsSeries{},
		MoreSeries: answer.MoreSeries,
	}
	for _, one := range answer.Series {
		data.Series = append(data.Series, seriesOf(query.By, one))
	}
	return api.ReadStatistics200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// seriesCompany returns the id of the company of a series by its key, see seriesOf. Callers of a company can name only their own company.
func (h *Handlers) seriesCompany(ctx context.Context, key string) (int64, error) {
	if number, isDeleted := strings.CutPrefix(key, "#"); isDeleted && caller.OwnCompany(ctx) == nil {
		if id, err := strconv.ParseInt(number, 10, 64); err == nil {
			return id, nil
		}
	}
	return h.scope.CompanyID(ctx, &key)
}

// seriesOf converts a series. It replaces the keys of the database by the names that callers use.
func seriesOf(by string, s statistics.Series) api.StatisticsSeries {
	key := optional.NonZero(s.Key)
	switch {
	case key == nil:
	case by == statistics.ByCompany:
		if *key = s.CompanyNo; *key == "" {
			*key = "#" + s.Key // the company was deleted
		}
	case by == statistics.ByMessageType:
		if code, err := strconv.Atoi(s.Key); err == nil && code < len(convert.MessageTypes) {
			*key = string(convert.MessageTypes[code])
		}
	}
	return api.StatisticsSeries{Key: key, Totals: figuresOf(s.Totals), Points: convert.List(s.Points, pointOf)}
}

func figuresOf(f statistics.Figures) api.StatisticsFigures {
	waits, durations := f.Waits.Percentiles(), f.Durations.Percentiles()
	return api.StatisticsFigures{
		Submitted: f.Submitted, Requeued: f.Requeued, Claimed: f.Claimed, Succeeded: f.Succeeded, Failed: f.Failed,
		ReportedFailed: f.ReportedFailed, Unreported: &f.Unreported, Cancelled: f.Cancelled, Delivered: f.Delivered, Undelivered: f.Undelivered, Segments: f.Segments,
		WaitP50: waits.P50, WaitP95: waits.P95, WaitP99: waits.P99, DurationP50: durations.P50, DurationP95: durations.P95, DurationP99: durations.P99,
	}
}

func pointOf(p statistics.Point) api.StatisticsPoint {
	return api.StatisticsPoint{
		At: p.At, Submitted: p.Submitted, Requeued: p.Requeued, Claimed: p.Claimed, Succeeded: p.Succeeded, Failed: p.Failed,
		ReportedFailed: p.ReportedFailed, Unreported: &p.Unreported, Cancelled: p.Cancelled, Delivered: p.Delivered, Undelivered: p.Undelivered, Segments: p.Segments,
		WaitP50: p.Waits.P50, WaitP95: p.Waits.P95, WaitP99: p.Waits.P99,
		DurationP50: p.Durations.P50, DurationP95: p.Durations.P95, DurationP99: p.Durations.P99,
	}
}
