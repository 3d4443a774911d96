package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/erasure"
	"lksms/internal/platform/erase"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// EraseContacts starts the erasure of a person's data (S4.10).
func (h *Handlers) EraseContacts(ctx context.Context, req api.EraseContactsRequestObject) (api.EraseContactsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Erasures.Start(ctx, erasure.Request{
		CompanyID: company, UserID: req.Body.UserID, Phone: req.Body.Phone, Email: req.Body.Email, By: gate.Of(ctx).Caller.User.Username,
	})
	if err != nil {
		return nil, err
	}
	one, err := h.wholeErasure(ctx, row)
	return api.EraseContacts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

// ListErasures pages through erasures, newest first.
func (h *Handlers) ListErasures(ctx context.Context, req api.ListErasuresRequestObject) (api.ListErasuresResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Erasures.List(ctx, company, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, erasureOf, func(e erasure.Row) string { return paging.IDText(e.ID) })
	return api.ListErasures200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ErasurePage{Items: items, NextCursor: next}}, err
}

// GetErasure shows an erasure and the numbers of erased rows.
func (h *Handlers) GetErasure(ctx context.Context, req api.GetErasureRequestObject) (api.GetErasureResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Erasures.Get(ctx, company, req.ErasureID)
	if err != nil {
		return nil, err
	}
	one, err := h.wholeErasure(ctx, row)
	return api.GetErasure200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

// wholeErasure returns an erasure, including the exports that were not searched for the person.
func (h *Handlers) wholeErasure(ctx context.Context, e erasure.Row) (api.Erasure, error) {
	one, err := erasureOf(e)
	if err == nil {
		one.ExportsNotSearched, err = h.services.Erasures.ListUnsearchedExports(ctx)
	}
	return one, err
}

func erasureOf(e erasure.Row) (api.Erasure, error) {
	c, err := erasure.CountsOf(e)
	return api.Erasure{
		ErasureID: e.ID, Status: api.ErasureStatus(e.Status), Held: e.Held, Exports: e.Exports, ExportsNotSearched: []string{}, CreatedBy: e.CreatedBy,
		CreatedAt: e.CreatedAt, FinishedAt: e.FinishedAt,
		Counts: api.ErasureCounts{
			Contacts: c[erase.Contacts], Tags: c[erase.Tags], TasksCancelled: c[erase.Cancelled], Tasks: c[erase.Tasks], Reports: c[erase.Reports],
			Attempts: c[erase.Attempts], Receipts: c[erase.Receipts], Received: c[erase.Received], Blocks: c[erase.Blocks], Callbacks: c[erase.Callbacks], Texts: c[erase.Texts],
			Notifications: c[erase.Notifications], SendOnce: c[erase.SentOnce], BatchRows: c[erase.BatchRows], DefaultContents: c[erase.DefaultContents],
			Submissions: c[erase.Submissions], DedupKeys: c[erase.DedupKeys], Answers: c[erase.Answers], TaskJobs: c[erase.TaskJobs], Audit: c[erase.Changes],
		},
	}, err
}
