package audience

import (
	"context"

	"github.com/oapi-codegen/nullable"

	"lksms/gen/api"
	"lksms/internal/audience/contact"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// PutContacts adds new contacts and changes existing contacts.
func (h *Handlers) PutContacts(ctx context.Context, req api.PutContactsRequestObject) (api.PutContactsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	n, err := h.services.Contacts.Put(ctx, company, optional.Value(req.Body.DefaultRegion), convert.List(req.Body.Contacts, func(c api.ContactChange) contact.Contact {
		return contact.Contact{
			UserID: c.UserID, Name: emptiedByNull(c.Name), Phone: emptiedByNull(c.Phone), DingTalkName: emptiedByNull(c.DingtalkName),
			WeChatOpenID: emptiedByNull(c.WechatOpenid), Email: emptiedByNull(c.Email), Attributes: emptiedByNull(c.Attributes),
		}
	}))
	return api.PutContacts200JSONResponse(changed(n)), err
}

// emptiedByNull returns the new value of a field. For null, it returns an empty value. If the request does not contain the field, it returns nil.
func emptiedByNull[T any](value nullable.Nullable[T]) *T {
	if !value.IsSpecified() {
		return nil
	}
	return new(optional.Value(convert.Given(value)))
}

// ListContacts pages through contacts, ordered by user id.
func (h *Handlers) ListContacts(ctx context.Context, req api.ListContactsRequestObject) (api.ListContactsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	if req.Params.Q != nil {
		return h.searchContacts(ctx, company, req.Params)
	}
	after, err := paging.ParseText(req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	limit := paging.Size(req.Params.Limit)
	rows, err := h.services.Contacts.List(ctx, company, after, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, contactOf, func(c contact.Row) string { return c.UserID })
	return api.ListContacts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ContactPage{Items: items, NextCursor: next}}, err
}

func (h *Handlers) searchContacts(ctx context.Context, company int64, p api.ListContactsParams) (api.ListContactsResponseObject, error) {
	after, err := paging.ParsePosition(p.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.services.Contacts.Search(ctx, company, *p.Q, after, paging.Size(p.Limit))
	if err != nil {
		return nil, err
	}
	data := api.ContactPage{Items: make([]api.Contact, len(rows)), NextCursor: paging.CursorOfPosition(next)}
	for i, row := range rows {
		if data.Items[i], err = contactOf(row); err != nil {
			return nil, err
		}
	}
	return api.ListContacts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

func contactOf(c contact.Row) (api.Contact, error) {
	attributes, err := contact.Attributes(c)
	return api.Contact{
		UserID: c.UserID, Name: c.Name, Phone: c.Phone, DingtalkName: c.DingtalkName, WechatOpenid: c.WechatOpenid, Email: c.Email, Attributes: &attributes,
	}, err
}

// GetContact shows a contact.
func (h *Handlers) GetContact(ctx context.Context, req api.GetContactRequestObject) (api.GetContactResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Contacts.Get(ctx, company, req.UserID)
	if err != nil {
		return nil, err
	}
	one, err := contactOf(row)
	return api.GetContact200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

// DeleteContact removes a contact.
func (h *Handlers) DeleteContact(ctx context.Context, req api.DeleteContactRequestObject) (api.DeleteContactResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	err = h.services.Contacts.Delete(ctx, company, req.UserID)
	return api.DeleteContact200JSONResponse{DoneJSONResponse: convert.Done()}, err
}
