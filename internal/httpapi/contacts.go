package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/contact"
	"lksms/internal/httpapi/gate"
	"lksms/internal/httpapi/paging"
	"lksms/internal/optional"
)

// PutContacts adds contacts and changes those that are there.
func (s *Server) PutContacts(ctx context.Context, req api.PutContactsRequestObject) (api.PutContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	// The generated type does not tell null from what was left out.
	var said struct{ Contacts []map[string]json.RawMessage }
	if err := json.Unmarshal(gate.Of(ctx).Body, &said); err != nil {
		return nil, fmt.Errorf("read contacts: %w", err)
	}
	contacts := make([]contact.Contact, len(req.Body.Contacts))
	for i, c := range req.Body.Contacts {
		given := func(field string, text *string) *string {
			if _, ok := said.Contacts[i][field]; !ok {
				return nil
			}
			return new(optional.Value(text))
		}
		contacts[i] = contact.Contact{
			UserID: c.UserID, Phone: given("phone", c.Phone), DingTalkName: given("dingtalk_name", c.DingtalkName),
			WeChatOpenID: given("wechat_openid", c.WechatOpenid), Email: given("email", c.Email),
		}
	}
	n, err := s.contacts.Put(ctx, company, contacts)
	if err != nil {
		return nil, err
	}
	return api.PutContacts200JSONResponse(changed(n)), nil
}

// ListContacts pages through contacts by user id.
func (s *Server) ListContacts(ctx context.Context, req api.ListContactsRequestObject) (api.ListContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
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
	items, next := paging.Page(rows, limit, contactOf, func(c dbq.Contact) string { return c.UserID })
	return api.ListContacts200JSONResponse{Code: ok, Message: success, Data: api.ContactPage{Items: items, NextCursor: next}}, nil
}

func contactOf(c dbq.Contact) api.Contact {
	return api.Contact{UserID: c.UserID, Phone: c.Phone, DingtalkName: c.DingtalkName, WechatOpenid: c.WechatOpenid, Email: c.Email}
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
	return api.GetContact200JSONResponse{Code: ok, Message: success, Data: contactOf(row)}, nil
}

// DeleteContact removes a contact.
func (s *Server) DeleteContact(ctx context.Context, req api.DeleteContactRequestObject) (api.DeleteContactResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	if err := s.contacts.Delete(ctx, company, req.UserID); err != nil {
		return nil, err
	}
	return api.DeleteContact200JSONResponse{DoneJSONResponse: done()}, nil
}
