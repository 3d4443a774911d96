package httpapi

import (
	"context"
	"errors"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/httpapi/paging"
	"lksms/internal/optional"
	"lksms/internal/template"
)

// CreateTemplate adds a template (S0.5).
func (s *Server) CreateTemplate(ctx context.Context, req api.CreateTemplateRequestObject) (api.CreateTemplateResponseObject, error) {
	active := req.Body.IsActive == nil || *req.Body.IsActive
	row, err := s.templates.Create(ctx, template.Draft{
		TemplateName: req.Body.TemplateName, TemplateContent: req.Body.TemplateContent, IsActive: active,
		SendType: string(optional.Or(req.Body.SendType, api.Realtime)), Companies: optional.Value(req.Body.Companies),
	})
	return api.CreateTemplate200JSONResponse(templateAnswer(row)), err
}

// ListTemplates pages through templates, newest first.
func (s *Server) ListTemplates(ctx context.Context, req api.ListTemplatesRequestObject) (api.ListTemplatesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.templates.List(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, templateOf, func(t dbq.Template) string { return paging.IDText(t.ID) })
	return api.ListTemplates200JSONResponse{Code: ok, Message: success, Data: api.TemplatePage{Items: items, NextCursor: next}}, err
}

// GetTemplate shows one template.
func (s *Server) GetTemplate(ctx context.Context, req api.GetTemplateRequestObject) (api.GetTemplateResponseObject, error) {
	row, err := s.templates.Get(ctx, req.ID)
	return api.GetTemplate200JSONResponse(templateAnswer(row)), err
}

// UpdateTemplate changes, enables or disables a template.
func (s *Server) UpdateTemplate(ctx context.Context, req api.UpdateTemplateRequestObject) (api.UpdateTemplateResponseObject, error) {
	row, err := s.templates.Update(ctx, template.Patch{
		ID: req.ID, TemplateName: req.Body.TemplateName, TemplateContent: req.Body.TemplateContent, IsActive: req.Body.IsActive,
		SendType: (*string)(req.Body.SendType), Companies: optional.Value(req.Body.Companies),
	})
	return api.UpdateTemplate200JSONResponse(templateAnswer(row)), err
}

// DeleteTemplate removes a template.
func (s *Server) DeleteTemplate(ctx context.Context, req api.DeleteTemplateRequestObject) (api.DeleteTemplateResponseObject, error) {
	err := s.templates.Delete(ctx, req.ID)
	return api.DeleteTemplate200JSONResponse{DoneJSONResponse: done()}, err
}

// CreateDefaultContent stores what to send to a phone number by default (S0.6).
func (s *Server) CreateDefaultContent(ctx context.Context, req api.CreateDefaultContentRequestObject) (api.CreateDefaultContentResponseObject, error) {
	company, err := s.companyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, unknownCompany(err)
	}
	row, err := s.templates.CreateDefault(ctx, company, req.Body.PhoneNumber, req.Body.Content, optional.Value(req.Body.UseTemplate))
	answer, err := s.defaultAnswer(ctx, row, err)
	return api.CreateDefaultContent200JSONResponse(answer), err
}

// ListDefaultContents pages through default contents, newest first.
func (s *Server) ListDefaultContents(ctx context.Context, req api.ListDefaultContentsRequestObject) (api.ListDefaultContentsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	var company *int64
	if req.Params.CompanyNo != nil {
		id, err := s.companyID(ctx, req.Params.CompanyNo)
		if err != nil {
			return nil, err
		}
		company = &id
	}
	rows, err := s.templates.ListDefaults(ctx, company, req.Params.PhoneNumber, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(d dbq.DefaultContent) (api.DefaultContent, error) { return s.defaultOf(ctx, d) },
		func(d dbq.DefaultContent) string { return paging.IDText(d.ID) })
	return api.ListDefaultContents200JSONResponse{Code: ok, Message: success, Data: api.DefaultContentPage{Items: items, NextCursor: next}}, err
}

// GetDefaultContent shows one default content.
func (s *Server) GetDefaultContent(ctx context.Context, req api.GetDefaultContentRequestObject) (api.GetDefaultContentResponseObject, error) {
	row, err := s.templates.GetDefault(ctx, req.ID)
	answer, err := s.defaultAnswer(ctx, row, err)
	return api.GetDefaultContent200JSONResponse(answer), err
}

// UpdateDefaultContent changes a default content.
func (s *Server) UpdateDefaultContent(ctx context.Context, req api.UpdateDefaultContentRequestObject) (api.UpdateDefaultContentResponseObject, error) {
	row, err := s.templates.UpdateDefault(ctx, template.DefaultPatch{
		ID: req.ID, Content: req.Body.Content, UseTemplate: req.Body.UseTemplate,
	})
	answer, err := s.defaultAnswer(ctx, row, err)
	return api.UpdateDefaultContent200JSONResponse(answer), err
}

// ResetDefaultContent lets a default content be sent once more.
func (s *Server) ResetDefaultContent(ctx context.Context, req api.ResetDefaultContentRequestObject) (api.ResetDefaultContentResponseObject, error) {
	row, err := s.templates.ResetDefault(ctx, req.ID)
	answer, err := s.defaultAnswer(ctx, row, err)
	return api.ResetDefaultContent200JSONResponse(answer), err
}

// DeleteDefaultContent removes a default content.
func (s *Server) DeleteDefaultContent(ctx context.Context, req api.DeleteDefaultContentRequestObject) (api.DeleteDefaultContentResponseObject, error) {
	err := s.templates.DeleteDefault(ctx, req.ID)
	return api.DeleteDefaultContent200JSONResponse{DoneJSONResponse: done()}, err
}

func templateAnswer(t dbq.Template) api.TemplateResponse {
	return api.TemplateResponse{Code: ok, Message: success, Data: templateOf(t)}
}

func templateOf(t dbq.Template) api.Template {
	return api.Template{
		ID: t.ID, TemplateName: t.TemplateName, TemplateContent: t.TemplateContent, IsActive: t.IsActive,
		SendType: api.SendType(t.SendType), Companies: t.Companies, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

// defaultAnswer is the answer with a default content, or the error of reading or changing it.
func (s *Server) defaultAnswer(ctx context.Context, row dbq.DefaultContent, err error) (api.DefaultContentResponse, error) {
	if err != nil {
		return api.DefaultContentResponse{}, err
	}
	one, err := s.defaultOf(ctx, row)
	return api.DefaultContentResponse{Code: ok, Message: success, Data: one}, err
}

func (s *Server) defaultOf(ctx context.Context, d dbq.DefaultContent) (api.DefaultContent, error) {
	companyNo, err := s.directory.CompanyNo(ctx, d.CompanyID)
	return api.DefaultContent{
		ID: d.ID, CompanyNo: companyNo, PhoneNumber: d.PhoneNumber, Content: d.Content, UseTemplate: d.UseTemplate, IsSent: d.IsSent,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}, err
}

// unknownCompany makes of a company that is not there the fault of the body's field that names it.
func unknownCompany(err error) error { return missingCompany(err, "company_no") }

// missingCompany is unknownCompany for a field.
func missingCompany(err error, field string) error {
	var expected *fault.Error
	if errors.As(err, &expected) && expected.Reason == fault.CompanyNotFound {
		return fault.InvalidField(field, fault.NotThere, nil)
	}
	return err
}
