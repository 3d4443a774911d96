package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/verification"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// ListSuspects lists suspected prefixes and networks.
func (h *Handlers) ListSuspects(ctx context.Context, req api.ListSuspectsRequestObject) (api.ListSuspectsResponseObject, error) {
	company, err := h.companyOrAll(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Verifications.Suspects(ctx, company, paging.Size(req.Params.Limit))
	answer := api.ListSuspects200JSONResponse{Code: convert.OK, Message: convert.Success}
	answer.Data.Items = convert.List(rows, func(r verification.SuspectRow) api.Suspect {
		return api.Suspect{CompanyNo: r.CompanyNo, Subject: r.Subject, Started: int(r.Started), Approved: int(r.Approved), Since: r.Since}
	})
	return answer, err
}

// ReleaseSuspect makes a suspected prefix or network safe for a day.
func (h *Handlers) ReleaseSuspect(ctx context.Context, req api.ReleaseSuspectRequestObject) (api.ReleaseSuspectResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, &req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Verifications.Release(ctx, company, req.Body.Subject, gate.Of(ctx).Caller.User.Username)
	return api.ReleaseSuspect200JSONResponse{Code: convert.OK, Message: convert.Success, Data: safeOf(row)}, err
}

// ListSafe pages through safe prefixes and networks, newest first.
func (h *Handlers) ListSafe(ctx context.Context, req api.ListSafeRequestObject) (api.ListSafeResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	company, err := h.companyOrAll(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Verifications.ListSafe(ctx, company, before, limit+1)
	data := api.SafePage{}
	data.Items, data.NextCursor = paging.Page(rows, limit, safeOf, func(r verification.SafeRow) string { return paging.IDText(r.ID) })
	return api.ListSafe200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// AddSafe adds a safe prefix or network.
func (h *Handlers) AddSafe(ctx context.Context, req api.AddSafeRequestObject) (api.AddSafeResponseObject, error) {
	b := req.Body
	company, err := h.companyOrAll(ctx, b.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Verifications.AddSafe(ctx, verification.Safe{
		CompanyID: company, Subject: b.Subject, ExpiresAt: b.ExpiresAt, Note: b.Note, By: gate.Of(ctx).Caller.User.Username,
	})
	return api.AddSafe200JSONResponse{Code: convert.OK, Message: convert.Success, Data: safeOf(row)}, err
}

// DeleteSafe removes a safe prefix or network.
func (h *Handlers) DeleteSafe(ctx context.Context, req api.DeleteSafeRequestObject) (api.DeleteSafeResponseObject, error) {
	err := h.services.Verifications.DeleteSafe(ctx, req.SafeID)
	return api.DeleteSafe200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func safeOf(r verification.SafeRow) api.Safe {
	return api.Safe{
		SafeID: r.ID, CompanyNo: r.CompanyNo, Subject: r.Subject, ExpiresAt: r.ExpiresAt, Note: r.Note, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt,
	}
}
