package audience

import (
	"context"
	"math"

	"lksms/gen/api"
	"lksms/internal/audience/verification"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
)

// ReadVerificationStatistics returns the numbers of verifications by hour, country, company or sender.
func (h *Handlers) ReadVerificationStatistics(ctx context.Context, req api.ReadVerificationStatisticsRequestObject) (api.ReadVerificationStatisticsResponseObject, error) {
	p := req.Params
	company, err := h.companyOrAll(ctx, p.CompanyNo)
	if err != nil {
		return nil, err
	}
	query := verification.Query{
		CompanyID: company, From: p.From, To: p.To, By: string(optional.Or(p.By, api.VerificationsByHour)), Limit: optional.Or(p.Limit, 100),
	}
	found, err := h.services.Verifications.Statistics(ctx, query)
	if err != nil {
		return nil, err
	}
	return api.ReadVerificationStatistics200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.VerificationStatistics{
		From: found.From, To: found.To, By: api.VerificationStatisticsBy(query.By), Totals: verificationFigures(found.Totals), MoreGroups: found.MoreGroups,
		Groups: convert.List(found.Groups, func(g verification.Group) api.VerificationGroup {
			f := verificationFigures(g)
			return api.VerificationGroup{
				Key: optional.NonZero(g.Key), Started: f.Started, Approved: f.Approved, Expired: f.Expired, Exhausted: f.Exhausted, Cancelled: f.Cancelled,
				Conversion: f.Conversion, ApprovalP50: f.ApprovalP50, ApprovalP95: f.ApprovalP95,
			}
		}),
	}}, nil
}

func verificationFigures(g verification.Group) api.VerificationFigures {
	f := api.VerificationFigures{Started: g.Started, Approved: g.Approved, Expired: g.Expired, Exhausted: g.Exhausted, Cancelled: g.Cancelled}
	if g.Started > 0 {
		f.Conversion = new(rounded(float64(g.Approved) / float64(g.Started)))
	}
	if g.P50 != nil && g.P95 != nil {
		f.ApprovalP50, f.ApprovalP95 = new(rounded(*g.P50)), new(rounded(*g.P95))
	}
	return f
}

// rounded rounds a number to three decimal places.
func rounded(n float64) float64 { return math.Round(n*1000) / 1000 }
