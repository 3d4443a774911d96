package insight

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	types "github.com/oapi-codegen/runtime/types"

	"lksms/gen/api"
	"lksms/internal/insight/reconcile"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// fileAnswer is a response that contains a file.
type fileAnswer func(http.ResponseWriter) error

// VisitExportDailyTotalsResponse implements api.ExportDailyTotalsResponseObject.
func (a fileAnswer) VisitExportDailyTotalsResponse(w http.ResponseWriter) error { return a(w) }

// VisitExportReconciliationDifferencesResponse implements api.ExportReconciliationDifferencesResponseObject.
func (a fileAnswer) VisitExportReconciliationDifferencesResponse(w http.ResponseWriter) error {
	return a(w)
}

func (h *Handlers) file(ctx context.Context, name string, header []string, fill func(add func(rows [][]string) error) error) (fileAnswer, error) {
	return h.services.Streams.File(ctx, h.services.Log, name, header, fill)
}

// ListDailyTotals pages through the daily totals of senders (S3.13).
func (h *Handlers) ListDailyTotals(ctx context.Context, req api.ListDailyTotalsRequestObject) (api.ListDailyTotalsResponseObject, error) {
	p := req.Params
	filter, err := h.totalsFilter(ctx, api.ExportDailyTotalsParams{
		DayFrom: p.DayFrom, DayTo: p.DayTo, CompanyNo: p.CompanyNo, SenderNo: p.SenderNo, MessageType: p.MessageType, CountryNo: p.CountryNo,
	})
	if err != nil {
		return nil, err
	}
	day, id, err := paging.TimeCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	limit := paging.Size(p.Limit)
	rows, err := h.services.Reconcile.Totals(ctx, filter, reconcile.TotalsPosition{Day: day, ID: id}, limit+1)
	if err != nil {
		return nil, err
	}
	values, err := h.services.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	items, next := paging.Page(rows, limit, totalOf, func(t reconcile.TotalsRow) string {
		return t.Day.UTC().Format(time.RFC3339Nano) + "," + paging.IDText(t.ID)
	})
	return api.ListDailyTotals200JSONResponse{
		Code: convert.OK, Message: convert.Success, Data: api.DailyTotalPage{Items: items, Currency: values.Monitoring.Currency, NextCursor: next},
	}, nil
}

// totalsFilter returns the filter of a request, restricted to the totals that the caller can see.
func (h *Handlers) totalsFilter(ctx context.Context, p api.ExportDailyTotalsParams) (f reconcile.TotalsFilter, err error) {
	f = reconcile.TotalsFilter{CompanyID: caller.OwnCompany(ctx), SenderNo: p.SenderNo, CountryNo: p.CountryNo, DayFrom: dayOf(p.DayFrom), DayTo: dayOf(p.DayTo)}
	if p.CompanyNo != nil {
		id, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return f, err
		}
		f.CompanyID = &id
	}
	if p.MessageType != nil {
		f.MessageType = new(strconv.Itoa(slices.Index(convert.MessageTypes[:], *p.MessageType)))
	}
	return f, nil
}

func dayOf(d *types.Date) *time.Time {
	if d == nil {
		return nil
	}
	return &d.Time
}

func totalOf(t reconcile.TotalsRow) api.DailyTotal {
	return api.DailyTotal{
		Day: types.Date{Time: t.Day}, CompanyNo: t.CompanyNo, SenderNo: t.SenderNo, MessageType: typeOf(t.MessageType), CountryNo: optional.NonZero(t.CountryNo),
		Attempted: t.Attempted, Accepted: t.Accepted, Delivered: t.Delivered, Segments: t.Segments, Cost: t.Cost,
	}
}

// typeOf returns the name of a message type from its number as text. It returns nil if stored is not a known number.
func typeOf(stored string) *string {
	code, err := strconv.Atoi(stored)
	if err != nil || code < 0 || code >= len(convert.MessageTypes) {
		return nil
	}
	return new(string(convert.MessageTypes[code]))
}

// exportPage is the number of rows of a file that one query reads.
const exportPage = 1000

// ExportDailyTotals returns a CSV file of the daily totals of senders.
func (h *Handlers) ExportDailyTotals(ctx context.Context, req api.ExportDailyTotalsRequestObject) (api.ExportDailyTotalsResponseObject, error) {
	filter, err := h.totalsFilter(ctx, req.Params)
	if err != nil {
		return nil, err
	}
	values, err := h.services.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	header := []string{"day", "company_no", "sender_no", "message_type", "country_no", "attempted", "accepted", "delivered", "segments", "cost", "currency"}
	return h.file(ctx, "daily-totals.csv", header, func(add func([][]string) error) error {
		for place := reconcile.FirstTotals; ; {
			totals, err := h.services.Reconcile.Totals(ctx, filter, place, exportPage)
			if err != nil {
				return err
			}
			rows := make([][]string, len(totals))
			for i, t := range totals {
				place = reconcile.TotalsPosition{Day: t.Day, ID: t.ID}
				rows[i] = []string{
					t.Day.Format(time.DateOnly), t.CompanyNo, t.SenderNo, optional.Value(typeOf(t.MessageType)), t.CountryNo,
					strconv.FormatInt(t.Attempted, 10), strconv.FormatInt(t.Accepted, 10), strconv.FormatInt(t.Delivered, 10),
					strconv.FormatInt(t.Segments, 10), fmt.Sprintf("%d.%04d", t.Cost/10_000, t.Cost%10_000), values.Monitoring.Currency,
				}
			}
			if err := add(rows); err != nil || len(totals) < exportPage {
				return err
			}
		}
	})
}

// CreateReconciliation compares a provider's data about a day with the stored attempts (S3.13). It compares a total immediately, and a file in the
// background.
func (h *Handlers) CreateReconciliation(ctx context.Context, req api.CreateReconciliationRequestObject) (api.CreateReconciliationResponseObject, error) {
	row, err := h.createReconciliation(ctx, req)
	if err != nil {
		return nil, err
	}
	gate.Of(ctx).AddToLog("reconciliation_id", row.ID)
	one, err := reconciliationOf(ctx, row)
	return api.CreateReconciliation200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func (h *Handlers) createReconciliation(ctx context.Context, req api.CreateReconciliationRequestObject) (reconcile.Row, error) {
	by := gate.Of(ctx).Caller.User.Username
	if b := req.JSONBody; b != nil {
		return h.services.Reconcile.CompareTotal(ctx, reconcile.Statement{SenderNo: b.SenderNo, Day: b.Day.Time, By: by},
			string(optional.Or(b.Unit, api.UnitMessages)), b.Total)
	}
	f, form, err := gate.FormOf[api.ReconciliationForm](ctx)
	if err != nil {
		return reconcile.Row{}, err
	}
	return h.services.Reconcile.CompareFile(ctx, reconcile.Statement{SenderNo: f.SenderNo, Day: f.Day.Time, By: by}, *form.File, reconcile.FileOptions{
		Sheet: optional.Value(f.Sheet), NumberColumn: optional.Value(f.NumberColumn), StatusColumn: optional.Value(f.StatusColumn),
		SegmentsColumn: optional.Value(f.SegmentsColumn), Delivered: optional.Value(f.DeliveredValues), Pending: optional.Value(f.PendingValues),
	})
}

// ListReconciliations pages through reconciliations, newest first.
func (h *Handlers) ListReconciliations(ctx context.Context, req api.ListReconciliationsRequestObject) (api.ListReconciliationsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Reconcile.List(ctx, req.Params.SenderNo, dayOf(req.Params.Day), before, limit+1)
	if err != nil {
		return nil, err
	}
	one := func(r reconcile.Row) (api.Reconciliation, error) { return reconciliationOf(ctx, r) }
	items, next, err := paging.TryPage(rows, limit, one, func(r reconcile.Row) string { return paging.IDText(r.ID) })
	return api.ListReconciliations200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ReconciliationPage{Items: items, NextCursor: next}}, err
}

// GetReconciliation shows a reconciliation and its progress.
func (h *Handlers) GetReconciliation(ctx context.Context, req api.GetReconciliationRequestObject) (api.GetReconciliationResponseObject, error) {
	row, err := h.services.Reconcile.Get(ctx, req.ReconciliationID)
	if err != nil {
		return nil, err
	}
	one, err := reconciliationOf(ctx, row)
	return api.GetReconciliation200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func reconciliationOf(ctx context.Context, r reconcile.Row) (api.Reconciliation, error) {
	one := api.Reconciliation{
		ReconciliationID: r.ID, SenderNo: r.SenderNo, Day: types.Date{Time: r.Day}, Source: api.SourceFile, Unit: api.UnitMessages, FileName: r.FileName,
		Status: api.ReconciliationStatus(r.Status), Matched: r.Matched, NearMidnight: r.NearMidnight, Rows: r.Rows, CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
		Differences: api.ReconciliationDifferences{
			Total: api.ReconciliationTotal{Ours: r.Ours, Theirs: r.Theirs, Tests: r.Tests}, MissingHere: r.MissingHere, MissingThere: r.MissingThere,
			StatusDiffers: r.StatusDiffers, SegmentsDiffer: r.SegmentsDiffer, Repeated: r.Repeated, Unreadable: r.Unreadable,
		},
	}
	if r.Unit != nil {
		one.Source, one.Unit = api.SourceTotal, api.StatementUnit(*r.Unit)
	}
	if r.Status == reconcile.Finished {
		one.Matches = new(r.Differences == 0)
	}
	if r.Failure == nil {
		return one, nil
	}
	failed, err := fault.Decode(r.Failure)
	if err == nil {
		one.Failure = new(gate.Of(ctx).Text.Remark(failed))
	}
	return one, err
}

// ListReconciliationDifferences pages through differences, in the order in which they were found.
func (h *Handlers) ListReconciliationDifferences(ctx context.Context, req api.ListReconciliationDifferencesRequestObject) (api.ListReconciliationDifferencesResponseObject, error) {
	if _, err := h.services.Reconcile.Get(ctx, req.ReconciliationID); err != nil {
		return nil, err
	}
	after := int64(0)
	if req.Params.Cursor != nil {
		var err error
		if after, err = paging.ParseID(req.Params.Cursor); err != nil {
			return nil, err
		}
	}
	limit := paging.Size(req.Params.Limit)
	rows, err := h.services.Reconcile.Differences(ctx, req.ReconciliationID, (*string)(req.Params.Kind), after, limit+1)
	if err != nil {
		return nil, err
	}
	items, next := paging.Page(rows, limit, func(d reconcile.DifferenceRow) api.Difference { return differenceOf(ctx, d) },
		func(d reconcile.DifferenceRow) string { return paging.IDText(d.ID) })
	return api.ListReconciliationDifferences200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.DifferencePage{Items: items, NextCursor: next}}, nil
}

func differenceOf(ctx context.Context, d reconcile.DifferenceRow) api.Difference {
	one := api.Difference{
		Kind: api.DifferenceKind(d.Kind), Number: d.ProviderNo, Row: d.RowNo, TaskID: d.TaskID, AcceptedAt: d.AcceptedAt, Ours: d.Ours, Theirs: d.Theirs,
	}
	if one.Kind == api.Unreadable && d.Theirs != nil {
		one.Theirs = new((*gate.Of(ctx).Text.Detail(fault.InvalidField("row", fault.Rule(*d.Theirs), nil)).Fields)[0].Message)
	}
	return one
}

// ExportReconciliationDifferences returns a CSV file of differences.
func (h *Handlers) ExportReconciliationDifferences(ctx context.Context, req api.ExportReconciliationDifferencesRequestObject) (api.ExportReconciliationDifferencesResponseObject, error) {
	r, err := h.services.Reconcile.Get(ctx, req.ReconciliationID)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("reconciliation-%d-differences.csv", r.ID)
	header := []string{"kind", "number", "row", "task_id", "accepted_at", "ours", "theirs"}
	return h.file(ctx, name, header, func(add func([][]string) error) error {
		for after := int64(0); ; {
			differences, err := h.services.Reconcile.Differences(ctx, r.ID, (*string)(req.Params.Kind), after, exportPage)
			if err != nil {
				return err
			}
			rows := make([][]string, len(differences))
			for i, d := range differences {
				one := differenceOf(ctx, d)
				row, at := "", ""
				if d.RowNo != nil {
					row = strconv.FormatInt(*d.RowNo, 10)
				}
				if d.AcceptedAt != nil {
					at = d.AcceptedAt.UTC().Format(time.RFC3339)
				}
				rows[i], after = []string{
					d.Kind, optional.Value(d.ProviderNo), row, optional.Value(d.TaskID), at, optional.Value(one.Ours), optional.Value(one.Theirs),
				}, d.ID
			}
			if err := add(rows); err != nil || len(differences) < exportPage {
				return err
			}
		}
	})
}
