package audience

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"lksms/gen/api"
	"lksms/internal/audience/contact"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// fileAnswer is a response that contains a file.
type fileAnswer func(http.ResponseWriter) error

// VisitExportContactsResponse implements api.ExportContactsResponseObject.
func (a fileAnswer) VisitExportContactsResponse(w http.ResponseWriter) error { return a(w) }

// VisitExportContactImportErrorsResponse implements api.ExportContactImportErrorsResponseObject.
func (a fileAnswer) VisitExportContactImportErrorsResponse(w http.ResponseWriter) error { return a(w) }

// VisitExportBlocksResponse implements api.ExportBlocksResponseObject.
func (a fileAnswer) VisitExportBlocksResponse(w http.ResponseWriter) error { return a(w) }

func (h *Handlers) file(ctx context.Context, name string, header []string, fill func(add func(rows [][]string) error) error) (fileAnswer, error) {
	return h.services.Streams.File(ctx, h.services.Log, name, header, fill)
}

// contactColumns contains the first columns of a file of contacts. The columns of attributes follow.
var contactColumns = []string{"user_id", "name", "phone", "dingtalk_name", "wechat_openid", "email"}

// ExportContacts returns a CSV file of contacts.
func (h *Handlers) ExportContacts(ctx context.Context, req api.ExportContactsRequestObject) (api.ExportContactsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	attributes, each, err := h.services.Contacts.Export(ctx, contact.Selection{
		CompanyID: company, Tags: optional.Value(req.Params.Tag), NotTags: optional.Value(req.Params.NotTag),
	})
	if err != nil {
		return nil, err
	}
	return h.file(ctx, "contacts.csv", append(contactColumns[:len(contactColumns):len(contactColumns)], attributes...), func(add func([][]string) error) error {
		return each(func(contacts []contact.Row) error {
			rows := make([][]string, len(contacts))
			for i, c := range contacts {
				has, err := contact.Attributes(c)
				if err != nil {
					return err
				}
				rows[i] = []string{
					c.UserID, optional.Value(c.Name), optional.Value(c.Phone), optional.Value(c.DingtalkName), optional.Value(c.WechatOpenid), optional.Value(c.Email),
				}
				for _, name := range attributes {
					rows[i] = append(rows[i], has[name])
				}
			}
			return add(rows)
		})
	})
}

// ImportContacts starts an import of contacts from a list (S4.10).
func (h *Handlers) ImportContacts(ctx context.Context, _ api.ImportContactsRequestObject) (api.ImportContactsResponseObject, error) {
	fields, form, err := gate.FormOf[api.ContactImportRequest](ctx)
	if err != nil {
		return nil, err
	}
	company, err := h.scope.CompanyID(ctx, fields.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Contacts.StartImport(ctx, contact.ImportRequest{
		CompanyID: company, Upload: *form.File, Sheet: optional.Value(fields.Sheet), Region: optional.Value(fields.DefaultRegion), Tag: fields.Tag, By: gate.Of(ctx).Caller.User.Username,
	})
	if err != nil {
		return nil, err
	}
	one, err := importOf(ctx, row)
	return api.ImportContacts200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

// ListContactImports pages through imports, newest first.
func (h *Handlers) ListContactImports(ctx context.Context, req api.ListContactImportsRequestObject) (api.ListContactImportsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Contacts.Imports(ctx, company, before, limit+1)
	if err != nil {
		return nil, err
	}
	one := func(i contact.ImportRow) (api.ContactImport, error) { return importOf(ctx, i) }
	items, next, err := paging.TryPage(rows, limit, one, func(i contact.ImportRow) string { return paging.IDText(i.ID) })
	return api.ListContactImports200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ContactImportPage{Items: items, NextCursor: next}}, err
}

// GetContactImport shows an import and its progress.
func (h *Handlers) GetContactImport(ctx context.Context, req api.GetContactImportRequestObject) (api.GetContactImportResponseObject, error) {
	row, err := h.contactImport(ctx, req.Params.CompanyNo, req.ImportID)
	if err != nil {
		return nil, err
	}
	one, err := importOf(ctx, row)
	return api.GetContactImport200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func (h *Handlers) contactImport(ctx context.Context, companyNo *string, id int64) (contact.ImportRow, error) {
	company, err := h.scope.CompanyID(ctx, companyNo)
	if err != nil {
		return contact.ImportRow{}, err
	}
	return h.services.Contacts.GetImport(ctx, company, id)
}

func importOf(ctx context.Context, i contact.ImportRow) (api.ContactImport, error) {
	one := api.ContactImport{
		ImportID: i.ID, Status: api.ContactImportStatus(i.Status), FileName: i.FileName, Tag: i.Tag, Rows: i.Rows, Added: i.Added, Changed: i.Changed,
		Invalid: i.Invalid, CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, FinishedAt: i.FinishedAt,
	}
	if i.Failure == nil {
		return one, nil
	}
	failed, err := fault.Decode(i.Failure)
	if err == nil {
		one.Failure = new(gate.Of(ctx).Text.Remark(failed))
	}
	return one, err
}

// errorsPage is the number of errors of an import that one query reads.
const errorsPage = 1000

// ExportContactImportErrors returns a CSV file of the import rows that were not stored.
func (h *Handlers) ExportContactImportErrors(ctx context.Context, req api.ExportContactImportErrorsRequestObject) (api.ExportContactImportErrorsResponseObject, error) {
	i, err := h.contactImport(ctx, req.Params.CompanyNo, req.ImportID)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("import-%d-errors.csv", i.ID)
	return h.file(ctx, name, []string{"row", "column", "error"}, func(add func([][]string) error) error {
		for after := int64(0); ; {
			wrong, err := h.services.Contacts.ImportErrors(ctx, i.ID, after, errorsPage)
			if err != nil {
				return err
			}
			rows := make([][]string, len(wrong))
			for n, e := range wrong {
				field := (*gate.Of(ctx).Text.Detail(e.Fault).Fields)[0]
				rows[n], after = []string{strconv.FormatInt(e.Row, 10), field.Field, field.Message}, e.Row
			}
			if err := add(rows); err != nil || len(wrong) < errorsPage {
				return err
			}
		}
	})
}
