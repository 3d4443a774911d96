package httpapi

import (
	"context"

	"github.com/oapi-codegen/nullable"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/audience/contact"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/paging"
)

// PutContacts adds contacts and changes those that are there.
func (s *Server) PutContacts(ctx context.Context, req api.PutContactsRequestObject) (api.PutContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	n, err := s.contacts.Put(ctx, company, optional.Value(req.Body.DefaultRegion), convert(req.Body.Contacts, func(c api.ContactChange) contact.Contact {
		return contact.Contact{
			UserID: c.UserID, Name: emptiedByNull(c.Name), Phone: emptiedByNull(c.Phone), DingTalkName: emptiedByNull(c.DingtalkName),
			WeChatOpenID: emptiedByNull(c.WechatOpenid), Email: emptiedByNull(c.Email), Attributes: emptiedByNull(c.Attributes),
		}
	}))
	return api.PutContacts200JSONResponse(changed(n)), err
}

// emptiedByNull is the value that a change gives, empty for null, and nil if it gives none.
func emptiedByNull[T any](value nullable.Nullable[T]) *T {
	if !value.IsSpecified() {
		return nil
	}
	return new(optional.Value(given(value)))
}

// ListContacts pages through contacts by user id.
func (s *Server) ListContacts(ctx context.Context, req api.ListContactsRequestObject) (api.ListContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	if req.Params.Q != nil {
		return s.searchContacts(ctx, company, req.Params)
	}
	after, err := paging.TextCursor(req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	limit := paging.Size(req.Params.Limit)
	rows, err := s.contacts.List(ctx, company, after, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, contactOf, func(c dbq.Contact) string { return c.UserID })
	return api.ListContacts200JSONResponse{Code: ok, Message: success, Data: api.ContactPage{Items: items, NextCursor: next}}, err
}

func (s *Server) searchContacts(ctx context.Context, company int64, p api.ListContactsParams) (api.ListContactsResponseObject, error) {
	after, err := paging.PlaceCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.contacts.Search(ctx, company, *p.Q, after, paging.Size(p.Limit))
	if err != nil {
		return nil, err
	}
	data := api.ContactPage{Items: make([]api.Contact, len(rows)), NextCursor: paging.CursorOfPlace(next)}
	for i, row := range rows {
		if data.Items[i], err = contactOf(row); err != nil {
			return nil, err
		}
	}
	return api.ListContacts200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

func contactOf(c dbq.Contact) (api.Contact, error) {
	attributes, err := contact.Attributes(c)
	return api.Contact{
		UserID: c.UserID, Name: c.Name, Phone: c.Phone, DingtalkName: c.DingtalkName, WechatOpenid: c.WechatOpenid, Email: c.Email, Attributes: &attributes,
	}, err
}

// GetContact shows a contact.
func (s *Server) GetContact(ctx context.Context, req api.GetContactRequestObject) (api.GetContactResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := s.contacts.Get(ctx, company, req.UserID)
	if err != nil {
		return nil, err
	}
	one, err := contactOf(row)
	return api.GetContact200JSONResponse{Code: ok, Message: success, Data: one}, err
}

// DeleteContact removes a contact.
func (s *Server) DeleteContact(ctx context.Context, req api.DeleteContactRequestObject) (api.DeleteContactResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	err = s.contacts.Delete(ctx, company, req.UserID)
	return api.DeleteContact200JSONResponse{DoneJSONResponse: done()}, err
}
