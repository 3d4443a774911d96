package httpapi

import (
	"context"
	"slices"
	"strconv"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/optional"
	"lksms/internal/statistics"
)

// ReadStatistics returns what happened in each minute, hour or day.
func (s *Server) ReadStatistics(ctx context.Context, req api.ReadStatisticsRequestObject) (api.ReadStatisticsResponseObject, error) {
	p := req.Params
	query := statistics.Query{
		CompanyID: ownCompany(ctx), From: p.From, To: p.To, Step: string(optional.Or(p.Step, api.StepHour)), By: statistics.ByNothing,
		Key: p.Key, Limit: optional.Or(p.Limit, 20), // 20 is the contract's default
	}
	if p.CompanyNo != nil {
		id, err := s.companyID(ctx, p.CompanyNo)
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
	case *p.By == api.ByCompany: // the series of a company is that of its tasks
		id, err := s.companyID(ctx, p.Key)
		if err != nil {
			return nil, err
		}
		query.CompanyID, query.Key = &id, nil
	case *p.By == api.ByMessageType && *p.Key != statistics.Tests:
		code := slices.Index(messageTypes[:], api.MessageType(*p.Key))
		if code < 0 {
			return nil, fault.InvalidField("key", fault.NotThere, nil)
		}
		query.Key = new(strconv.Itoa(code))
	}
	answer, err := s.figures.Read(ctx, query)
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
	return api.ReadStatistics200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

// seriesOf names a series as callers know it.
func seriesOf(by string, s statistics.Series) api.StatisticsSeries {
	key := optional.NonZero(s.Key)
	switch {
	case key == nil:
	case by == statistics.ByCompany:
		if *key = s.CompanyNo; *key == "" {
			*key = "#" + s.Key // it was deleted
		}
	case by == statistics.ByMessageType:
		if code, err := strconv.Atoi(s.Key); err == nil && code < len(messageTypes) {
			*key = string(messageTypes[code])
		}
	}
	return api.StatisticsSeries{Key: key, Totals: figuresOf(s.Totals), Points: convert(s.Points, pointOf)}
}

func figuresOf(f statistics.Figures) api.StatisticsFigures {
	return api.StatisticsFigures{
		Submitted: f.Submitted, Requeued: f.Requeued, Claimed: f.Claimed, Succeeded: f.Succeeded, Failed: f.Failed,
		ReportedFailed: f.ReportedFailed, Cancelled: f.Cancelled, Delivered: f.Delivered, Undelivered: f.Undelivered, Segments: f.Segments,
		WaitP50: f.Waits.Percentile(0.5), WaitP95: f.Waits.Percentile(0.95), WaitP99: f.Waits.Percentile(0.99),
		DurationP50: f.Durations.Percentile(0.5), DurationP95: f.Durations.Percentile(0.95), DurationP99: f.Durations.Percentile(0.99),
	}
}

func pointOf(p statistics.Point) api.StatisticsPoint {
	f := figuresOf(p.Figures)
	return api.StatisticsPoint{
		At: p.At, Submitted: f.Submitted, Requeued: f.Requeued, Claimed: f.Claimed, Succeeded: f.Succeeded, Failed: f.Failed,
		ReportedFailed: f.ReportedFailed, Cancelled: f.Cancelled, Delivered: f.Delivered, Undelivered: f.Undelivered, Segments: f.Segments, WaitP50: f.WaitP50, WaitP95: f.WaitP95,
		WaitP99: f.WaitP99, DurationP50: f.DurationP50, DurationP95: f.DurationP95, DurationP99: f.DurationP99,
	}
}
