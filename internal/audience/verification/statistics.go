package verification

import (
	"context"
	"time"

	"lksms/gen/verificationq"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// These are the groups of statistics.
const (
	ByHour    = "hour"
	ByCountry = "country"
	ByCompany = "company"
	BySender  = "sender"
)

// maxDays contains the maximum range of statistics in days. Groups by sender read the tasks of all verifications.
var maxDays = map[string]int{ByHour: 31, ByCompany: 31, ByCountry: 31, BySender: 7}

// tolerance allows a range that begins a number of days ago, and ends when the server has read the request.
const tolerance = time.Minute

// Query selects verifications by their start.
type Query struct {
	CompanyID *int64 // nil: all companies
	From      time.Time
	To        *time.Time // nil: now
	By        string
	Limit     int // maximum number of groups that are not hours
}

// Statistics contains the counts of all selected verifications, and of each group: hours in ascending order, other groups with the largest first.
type Statistics struct {
	From, To   time.Time
	Totals     Group
	Groups     []Group
	MoreGroups int
}

// Group contains the counts of one group. An hour has its beginning as the key. The key is empty if the verifications have no known country or sender.
type Group = verificationq.VerificationStatisticsRow

// Statistics counts verifications. Fault: request.invalid for "from", if the range is empty or too long.
func (s *Service) Statistics(ctx context.Context, query Query) (Statistics, error) {
	at := Statistics{From: query.From, To: time.Now()}
	if query.To != nil {
		at.To = *query.To
	}
	switch days := maxDays[query.By]; {
	case !at.From.Before(at.To):
		return Statistics{}, fault.InvalidField("from", fault.RangeEmpty, nil)
	case at.To.Sub(at.From) > time.Duration(days)*24*time.Hour+tolerance:
		return Statistics{}, fault.InvalidField("from", fault.RangeTooLong, days)
	}
	groups, err := s.groups(ctx, query, at)
	if err != nil {
		return Statistics{}, postgres.Wrap("count verifications", err, nil)
	}
	at.Totals, at.Groups = groups[0], groups[1:] // the first row contains the totals, even if it is the only one
	if n := len(at.Groups); query.By != ByHour && n > query.Limit {
		at.Groups, at.MoreGroups = at.Groups[:query.Limit], n-query.Limit
	}
	return at, nil
}

func (s *Service) groups(ctx context.Context, query Query, at Statistics) ([]Group, error) {
	if query.By != BySender {
		return s.q.VerificationStatistics(ctx, verificationq.VerificationStatisticsParams{
			ByHour: query.By == ByHour, ByCountry: query.By == ByCountry, FromAt: at.From, ToAt: at.To, CompanyID: query.CompanyID,
		})
	}
	rows, err := verificationq.New(s.db.InPartitions()).VerificationStatisticsBySender(ctx, verificationq.VerificationStatisticsBySenderParams{
		FromAt: at.From, ToAt: at.To, CompanyID: query.CompanyID,
		FromID: taskid.First(at.From), BeforeID: taskid.Day(at.To.Add(48 * time.Hour)), // a code is valid for an hour at most, so its last task is not later
	})
	all := make([]Group, len(rows))
	for i, row := range rows {
		all[i] = Group(row)
	}
	return all, err
}
