package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/audience/erasure"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// EraseContacts begins to erase a person (S4.10).
func (s *Server) EraseContacts(ctx context.Context, req api.EraseContactsRequestObject) (api.EraseContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := s.erasures.Start(ctx, erasure.Request{
		CompanyID: company, UserID: req.Body.UserID, Phone: req.Body.Phone, Email: req.Body.Email, By: gate.Of(ctx).Caller.User.Username,
	})
	if err != nil {
		return nil, err
	}
	one, err := s.wholeErasure(ctx, row)
	return api.EraseContacts200JSONResponse{Code: ok, Message: success, Data: one}, err
}

// ListErasures pages through erasures, newest first.
func (s *Server) ListErasures(ctx context.Context, req api.ListErasuresRequestObject) (api.ListErasuresResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.erasures.List(ctx, company, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, erasureOf, func(e dbq.Erasure) string { return paging.IDText(e.ID) })
	return api.ListErasures200JSONResponse{Code: ok, Message: success, Data: api.ErasurePage{Items: items, NextCursor: next}}, err
}

// GetErasure shows an erasure and what it has erased.
func (s *Server) GetErasure(ctx context.Context, req api.GetErasureRequestObject) (api.GetErasureResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := s.erasures.Get(ctx, company, req.ErasureID)
	if err != nil {
		return nil, err
	}
	one, err := s.wholeErasure(ctx, row)
	return api.GetErasure200JSONResponse{Code: ok, Message: success, Data: one}, err
}

// wholeErasure is an erasure with the exports in which nobody looked for the person.
func (s *Server) wholeErasure(ctx context.Context, e dbq.Erasure) (api.Erasure, error) {
	one, err := erasureOf(e)
	if err == nil {
		one.ExportsNotSearched, err = s.erasures.Unsearched(ctx)
	}
	return one, err
}

func erasureOf(e dbq.Erasure) (api.Erasure, error) {
	c, err := erasure.CountsOf(e)
	return api.Erasure{
		ErasureID: e.ID, Status: api.ErasureStatus(e.Status), Held: e.Held, Exports: e.Exports, ExportsNotSearched: []string{}, CreatedBy: e.CreatedBy,
		CreatedAt: e.CreatedAt, FinishedAt: e.FinishedAt,
		Counts: api.ErasureCounts{
			Contacts: c.Contacts, Tags: c.Tags, TasksCancelled: c.Cancelled, Tasks: c.Tasks, Reports: c.Reports, Attempts: c.Attempts,
			Receipts: c.Receipts, Callbacks: c.Callbacks, Texts: c.Texts, Notifications: c.Notifications, SendOnce: c.SentOnce,
			BatchRows: c.BatchRows, DefaultContents: c.DefaultContents, Submissions: c.Submissions, DedupKeys: c.DedupKeys, Answers: c.Answers,
			TaskJobs: c.Jobs, Audit: c.Changes,
		},
	}, err
}
