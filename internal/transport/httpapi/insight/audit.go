package insight

import (
	"context"
	"time"

	"lksms/gen/api"
	"lksms/internal/insight/audit"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/paging"
)

// ListAudit pages through administrative changes, newest first.
func (h *Handlers) ListAudit(ctx context.Context, req api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	p := req.Params
	at, id, err := paging.TimeCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	f := audit.Filter{
		Actor: p.Actor, Action: (*string)(p.Action), Entity: p.Entity, EntityKey: p.EntityKey, From: p.From, To: p.To,
		BeforeAt: at, BeforeID: id, Limit: paging.Size(p.Limit) + 1,
	}
	rows, err := h.services.Audit.List(ctx, f)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, f.Limit-1, auditEntryOf, func(a audit.Row) string {
		return a.At.UTC().Format(time.RFC3339Nano) + "," + paging.IDText(a.ID)
	})
	return api.ListAudit200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.AuditPage{Items: items, NextCursor: next}}, err
}

func auditEntryOf(a audit.Row) (api.AuditEntry, error) {
	before, err := fieldsOrNull(a.Before)
	if err != nil {
		return api.AuditEntry{}, err
	}
	after, err := fieldsOrNull(a.After)
	return api.AuditEntry{
		ID: a.ID, At: a.At, Actor: a.Actor, ActorRole: a.ActorRole, SourceIP: a.SourceIp, RequestID: a.RequestID,
		Action: api.AuditAction(a.Action), Entity: a.Entity, EntityKey: a.EntityKey, CompanyNo: a.CompanyNo, Before: before, After: after,
	}, err
}

// fieldsOrNull parses a JSON object. It returns nil if text is nil.
func fieldsOrNull(text []byte) (*map[string]any, error) {
	if text == nil {
		return nil, nil
	}
	fields, err := jsonbody.Fields(text)
	return &fields, err
}
