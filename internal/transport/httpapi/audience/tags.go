package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/contact"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// SelectContacts pages through the contacts that have some tags and do not have others, ordered by user id (S4.10).
func (h *Handlers) SelectContacts(ctx context.Context, req api.SelectContactsRequestObject) (api.SelectContactsResponseObject, error) {
	p := req.Params
	page, err := h.selectContacts(ctx, p.CompanyNo, optional.Value(p.Tag), optional.Value(p.NotTag), p.Cursor, p.Limit)
	return api.SelectContacts200JSONResponse(page), err
}

// ListTagContacts pages through the contacts of a tag, ordered by user id.
func (h *Handlers) ListTagContacts(ctx context.Context, req api.ListTagContactsRequestObject) (api.ListTagContactsResponseObject, error) {
	page, err := h.selectContacts(ctx, req.Params.CompanyNo, []string{req.Tag}, nil, req.Params.Cursor, req.Params.Limit)
	return api.ListTagContacts200JSONResponse(page), err
}

func (h *Handlers) selectContacts(ctx context.Context, companyNo *string, tags, notTags []string, cursor *string, limit *int) (page api.ContactListResponse, err error) {
	company, err := h.scope.CompanyID(ctx, companyNo)
	if err != nil {
		return page, err
	}
	after, err := paging.ParseText(cursor)
	if err != nil {
		return page, err
	}
	size := paging.Size(limit)
	rows, end, err := h.services.Contacts.ListSelected(ctx, contact.Selection{CompanyID: company, Tags: tags, NotTags: notTags}, after, size+1)
	if err != nil {
		return page, err
	}
	items, next, err := paging.TryPage(rows, size, contactOf, func(c contact.Row) string { return c.UserID })
	if end != "" {
		next = new(paging.CursorOf(end))
	}
	return api.ContactListResponse{Code: convert.OK, Message: convert.Success, Data: api.ContactPage{Items: items, NextCursor: next}}, err
}

// CountContacts counts the contacts that SelectContacts lists.
func (h *Handlers) CountContacts(ctx context.Context, req api.CountContactsRequestObject) (api.CountContactsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	n, isExact, err := h.services.Contacts.Count(ctx, contact.Selection{
		CompanyID: company, Tags: optional.Value(req.Params.Tag), NotTags: optional.Value(req.Params.NotTag),
	})
	return api.CountContacts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ContactCount{Count: n, Exact: isExact}}, err
}

// ListTags pages through tags, newest first.
func (h *Handlers) ListTags(ctx context.Context, req api.ListTagsRequestObject) (api.ListTagsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Contacts.Tags(ctx, company, req.Params.UserID, before, limit+1)
	items, next := paging.Page(rows, limit, tagOf, func(t contact.TagRow) string { return paging.IDText(t.ID) })
	return api.ListTags200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TagPage{Items: items, NextCursor: next}}, err
}

func tagOf(t contact.TagRow) api.Tag {
	return api.Tag{Tag: t.Tag, Contacts: t.Contacts, CreatedAt: t.CreatedAt}
}

// PutTag adds a tag, unless it exists.
func (h *Handlers) PutTag(ctx context.Context, req api.PutTagRequestObject) (api.PutTagResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Contacts.PutTag(ctx, company, req.Tag)
	return api.PutTag200JSONResponse{Code: convert.OK, Message: convert.Success, Data: tagOf(row)}, err
}

// DeleteTag removes a tag.
func (h *Handlers) DeleteTag(ctx context.Context, req api.DeleteTagRequestObject) (api.DeleteTagResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	err = h.services.Contacts.DeleteTag(ctx, company, req.Tag)
	return api.DeleteTag200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// ChangeTag removes contacts from a tag and adds contacts to it.
func (h *Handlers) ChangeTag(ctx context.Context, req api.ChangeTagRequestObject) (api.ChangeTagResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	c, err := h.services.Contacts.ChangeTag(ctx, company, req.Tag, optional.Value(req.Body.Add), optional.Value(req.Body.Remove))
	return api.ChangeTag200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TagChange{
		Added: c.Added, Removed: c.Removed, Unknown: convert.List(c.Unknown, func(id string) string { return id }),
	}}, err
}
