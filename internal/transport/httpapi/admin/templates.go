package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"lksms/gen/api"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// CreateTemplate adds a template (S0.5, S3.10).
func (h *Handlers) CreateTemplate(ctx context.Context, req api.CreateTemplateRequestObject) (api.CreateTemplateResponseObject, error) {
	b := req.Body
	if b.IsActive != nil && b.Status != nil {
		return nil, errTwoStates
	}
	to := template.Settings{
		Name: b.TemplateName, Content: b.TemplateContent, Scene: optional.Value(b.Scene), Purpose: optional.Value(b.Purpose), Language: b.Language,
		Translations: optional.Value(b.Translations), Sign: b.Sign, Status: string(optional.Or(b.Status, api.FirstActive)),
		SendType: string(optional.Or(b.SendType, api.Realtime)), Companies: optional.Value(b.Companies),
	}
	to.Enable(optional.Or(b.IsActive, to.Status == template.Active))
	row, err := h.services.Templates.Create(ctx, b.TemplateNo, to)
	answer, err := templateAnswer(row, err)
	return api.CreateTemplate200JSONResponse(answer), err
}

// errTwoStates rejects a request with both is_active and status.
var errTwoStates = fault.InvalidField("is_active", fault.NotTogether, "status")

// ListTemplates pages through templates, newest first. For a caller of a company, the list contains only active templates that the company can use.
func (h *Handlers) ListTemplates(ctx context.Context, req api.ListTemplatesRequestObject) (api.ListTemplatesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	if err := h.scope.RequireCompany(ctx, req.Params.CompanyNo); err != nil {
		return nil, err
	}
	own, err := h.scope.OwnCompanyNo(ctx)
	if err != nil {
		return nil, err
	}
	f := template.Filter{
		TemplateNo: req.Params.TemplateNo, Scene: req.Params.Scene, Status: (*string)(req.Params.Status), CompanyNo: req.Params.CompanyNo,
		BeforeID: before, Limit: limit + 1,
	}
	if own != nil {
		f.CompanyNo, f.OnlyActive = own, true
	}
	rows, err := h.services.Templates.List(ctx, f)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(t template.Row) (api.Template, error) { return templateOf(shown(t, own)) }, func(t template.Row) string { return paging.IDText(t.ID) })
	return api.ListTemplates200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TemplatePage{Items: items, NextCursor: next}}, err
}

// shown returns a template in the form for callers of a company: Companies contains only this company. If company is nil, shown returns the template
// unchanged.
func shown(t template.Row, company *string) template.Row {
	if company != nil && len(t.Companies) > 0 {
		t.Companies = []string{*company}
	}
	return t
}

// GetTemplate shows one template. A caller of a company can read only active templates that the company can use.
func (h *Handlers) GetTemplate(ctx context.Context, req api.GetTemplateRequestObject) (api.GetTemplateResponseObject, error) {
	own, err := h.scope.OwnCompanyNo(ctx)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Templates.Get(ctx, req.ID)
	if err == nil && own != nil && (!row.IsActive || len(row.Companies) > 0 && !slices.Contains(row.Companies, *own)) {
		err = fault.New(fault.NotFound, fault.TemplateNotFound)
	}
	answer, err := templateAnswer(shown(row, own), err)
	return api.GetTemplate200JSONResponse(answer), err
}

// UpdateTemplate changes, enables or disables a template.
func (h *Handlers) UpdateTemplate(ctx context.Context, req api.UpdateTemplateRequestObject) (api.UpdateTemplateResponseObject, error) {
	b := req.Body
	if b.IsActive != nil && b.Status != nil {
		return nil, errTwoStates
	}
	row, err := h.services.Templates.Update(ctx, req.ID, b.Version, func(t *template.Settings) {
		convert.Set(&t.Name, b.TemplateName)
		convert.Set(&t.Content, b.TemplateContent)
		convert.Set(&t.Scene, b.Scene)
		convert.Set(&t.Purpose, b.Purpose)
		convert.SetNullable(&t.Language, b.Language)
		if b.Translations != nil {
			t.Translations = *b.Translations
		}
		convert.SetNullable(&t.Sign, b.Sign)
		convert.Set(&t.Status, (*string)(b.Status))
		convert.Set(&t.SendType, (*string)(b.SendType))
		convert.Set(&t.Companies, b.Companies)
		if b.IsActive != nil {
			t.Enable(*b.IsActive)
		}
	})
	answer, err := templateAnswer(row, err)
	return api.UpdateTemplate200JSONResponse(answer), err
}

// ListTemplateVersions pages through the versions of a template, newest first.
func (h *Handlers) ListTemplateVersions(ctx context.Context, req api.ListTemplateVersionsRequestObject) (api.ListTemplateVersionsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Templates.Versions(ctx, req.ID, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, versionOf, func(v template.VersionRow) string { return paging.IDText(v.Version) })
	return api.ListTemplateVersions200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TemplateVersionPage{Items: items, NextCursor: next}}, err
}

// PreviewTemplate renders a template in any state with sample values.
func (h *Handlers) PreviewTemplate(ctx context.Context, req api.PreviewTemplateRequestObject) (api.PreviewTemplateResponseObject, error) {
	row, err := h.services.Templates.Get(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	text, err := sampleOf(ctx, row, req.Body.Language)
	if err != nil {
		return nil, err
	}
	sign := optional.Or(req.Body.Sign, text.Sign)
	limits, err := h.services.Submissions.Limits(ctx, convert.MessageType(req.Body.MessageType))
	if err == nil {
		err = limits.Check(sign, segment.Bare(sign, text.Content))
	}
	if err != nil {
		return nil, err
	}
	content := segment.Signed(sign, segment.Bare(sign, text.Content))
	return api.PreviewTemplate200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TemplatePreview{
		Content: content, Characters: utf8.RuneCountInString(content), Segments: segment.Count(content),
		Placeholders: placeholdersOf(row.TemplateContent), Version: row.Version, Language: optional.NonZero(text.Source.Language),
	}}, nil
}

// TestTemplate submits a test message that is rendered with a template. The template can be in any state except voided.
func (h *Handlers) TestTemplate(ctx context.Context, req api.TestTemplateRequestObject) (api.TestTemplateResponseObject, error) {
	x, b := gate.Of(ctx), req.Body
	x.AddToLog("phone", phone.Mask(b.PhoneNumber))
	row, err := h.services.Templates.Get(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	if row.Status == template.Voided {
		return nil, fault.New(fault.Conflict, fault.TemplateVoided)
	}
	text, err := sampleOf(ctx, row, b.Language)
	if err != nil {
		return nil, err
	}
	origin := x.Origin
	if origin.CompanyID, err = h.scope.CompanyID(ctx, b.CompanyNo); err != nil {
		return nil, convert.UnknownCompany(err)
	}
	raw, err := text.Source.AddTo(x.Body.Raw)
	if err != nil {
		return nil, err
	}
	made, err := h.services.Submissions.Submit(ctx, submit.Submission{
		PhoneNumber: b.PhoneNumber, Content: text.Content, MessageType: convert.MessageType(b.MessageType), Sign: optional.Or(b.Sign, text.Sign), Test: true,
		SenderNo: optional.Value(b.SenderNo), Raw: raw,
	}, origin)
	if err != nil {
		return nil, err
	}
	x.AddToLog("task_id", made.TaskID)
	return api.TestTemplate200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Submitted{
		TaskID: made.TaskID, Status: api.TaskStatus(made.Status), FinalContent: made.FinalContent, Recipient: optional.NonZero(made.Recipient),
		Region: optional.NonZero(phone.Region(made.Recipient)),
	}}, nil
}

// sampleOf renders a template with the params of the request.
func sampleOf(ctx context.Context, row template.Row, language *string) (template.Rendered, error) {
	t, err := template.Of(row)
	if err != nil {
		return template.Rendered{}, err
	}
	params, err := template.ParseParams(convert.Params(gate.Of(ctx).Body.Raw))
	if err != nil {
		return template.Rendered{}, err
	}
	return t.Render(params, optional.Value(language))
}

// DeleteTemplate removes a template.
func (h *Handlers) DeleteTemplate(ctx context.Context, req api.DeleteTemplateRequestObject) (api.DeleteTemplateResponseObject, error) {
	err := h.services.Templates.Delete(ctx, req.ID)
	return api.DeleteTemplate200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// CreateDefaultContent stores the default content for a phone number (S0.6).
func (h *Handlers) CreateDefaultContent(ctx context.Context, req api.CreateDefaultContentRequestObject) (api.CreateDefaultContentResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, convert.UnknownCompany(err)
	}
	region, err := h.services.Directory.DefaultRegion(ctx, &company)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Templates.CreateDefault(ctx, company, region, req.Body.PhoneNumber, req.Body.Content, optional.Value(req.Body.UseTemplate))
	answer, err := h.defaultAnswer(ctx, row, err)
	return api.CreateDefaultContent200JSONResponse(answer), err
}

// ListDefaultContents pages through default contents, newest first.
func (h *Handlers) ListDefaultContents(ctx context.Context, req api.ListDefaultContentsRequestObject) (api.ListDefaultContentsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	var company *int64
	if req.Params.CompanyNo != nil {
		id, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
		if err != nil {
			return nil, err
		}
		company = &id
	}
	region, err := h.services.Directory.DefaultRegion(ctx, company)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Templates.ListDefaults(ctx, company, region, req.Params.PhoneNumber, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(d template.DefaultRow) (api.DefaultContent, error) { return h.defaultOf(ctx, d) },
		func(d template.DefaultRow) string { return paging.IDText(d.ID) })
	return api.ListDefaultContents200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.DefaultContentPage{Items: items, NextCursor: next}}, err
}

// GetDefaultContent shows one default content.
func (h *Handlers) GetDefaultContent(ctx context.Context, req api.GetDefaultContentRequestObject) (api.GetDefaultContentResponseObject, error) {
	row, err := h.services.Templates.GetDefault(ctx, req.ID)
	answer, err := h.defaultAnswer(ctx, row, err)
	return api.GetDefaultContent200JSONResponse(answer), err
}

// UpdateDefaultContent changes a default content.
func (h *Handlers) UpdateDefaultContent(ctx context.Context, req api.UpdateDefaultContentRequestObject) (api.UpdateDefaultContentResponseObject, error) {
	row, err := h.services.Templates.UpdateDefault(ctx, template.DefaultPatch{
		ID: req.ID, Content: req.Body.Content, UseTemplate: req.Body.UseTemplate,
	})
	answer, err := h.defaultAnswer(ctx, row, err)
	return api.UpdateDefaultContent200JSONResponse(answer), err
}

// ResetDefaultContent allows a default content to be sent once more.
func (h *Handlers) ResetDefaultContent(ctx context.Context, req api.ResetDefaultContentRequestObject) (api.ResetDefaultContentResponseObject, error) {
	row, err := h.services.Templates.ResetDefault(ctx, req.ID)
	answer, err := h.defaultAnswer(ctx, row, err)
	return api.ResetDefaultContent200JSONResponse(answer), err
}

// DeleteDefaultContent removes a default content.
func (h *Handlers) DeleteDefaultContent(ctx context.Context, req api.DeleteDefaultContentRequestObject) (api.DeleteDefaultContentResponseObject, error) {
	err := h.services.Templates.DeleteDefault(ctx, req.ID)
	return api.DeleteDefaultContent200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// templateAnswer returns the response with a template, or err if err is not nil.
func templateAnswer(row template.Row, err error) (api.TemplateResponse, error) {
	if err != nil {
		return api.TemplateResponse{}, err
	}
	one, err := templateOf(row)
	return api.TemplateResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func templateOf(t template.Row) (api.Template, error) {
	translations, err := translationsOf(t.Translations)
	return api.Template{
		ID: t.ID, TemplateName: t.TemplateName, TemplateContent: t.TemplateContent, IsActive: t.IsActive,
		SendType: api.SendType(t.SendType), Companies: t.Companies, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
		TemplateNo: t.TemplateNo, Scene: t.Scene, Purpose: t.Purpose, Language: t.Language, Translations: translations, Sign: t.Sign,
		Status: api.TemplateStatus(t.Status), Version: t.Version, Placeholders: placeholdersOf(t.TemplateContent),
	}, err
}

func versionOf(v template.VersionRow) (api.TemplateVersion, error) {
	translations, err := translationsOf(v.Translations)
	return api.TemplateVersion{
		Version: v.Version, TemplateContent: v.TemplateContent, Language: v.Language, Translations: translations, Sign: v.Sign,
		CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy,
	}, err
}

// placeholdersOf returns the placeholders of content, never nil, so that JSON contains [] instead of null.
func placeholdersOf(content string) []string {
	return append([]string{}, template.Placeholders(content)...)
}

func translationsOf(stored []byte) (translations map[string]string, err error) {
	if err := json.Unmarshal(stored, &translations); err != nil {
		return nil, fmt.Errorf("read translations: %w", err)
	}
	return translations, nil
}

// defaultAnswer returns the response with a default content, or err if err is not nil.
func (h *Handlers) defaultAnswer(ctx context.Context, row template.DefaultRow, err error) (api.DefaultContentResponse, error) {
	if err != nil {
		return api.DefaultContentResponse{}, err
	}
	one, err := h.defaultOf(ctx, row)
	return api.DefaultContentResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func (h *Handlers) defaultOf(ctx context.Context, d template.DefaultRow) (api.DefaultContent, error) {
	companyNo, err := h.services.Directory.CompanyNo(ctx, d.CompanyID)
	return api.DefaultContent{
		ID: d.ID, CompanyNo: companyNo, PhoneNumber: d.PhoneNumber, Content: d.Content, UseTemplate: d.UseTemplate, IsSent: d.IsSent,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}, err
}
