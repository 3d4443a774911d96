package audience

import (
	"context"
	"time"

	"lksms/gen/api"
	"lksms/internal/audience/blocklist"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// companyOrAll returns the company that a request names. It returns nil if an admin, or a reader of all companies, names no company.
func (h *Handlers) companyOrAll(ctx context.Context, no *string) (*int64, error) {
	if no == nil {
		return caller.OwnCompany(ctx), nil
	}
	id, err := h.scope.CompanyID(ctx, no)
	return &id, err
}

// blockedNumber returns a phone number in E.164. A number without country code belongs to the region of the company.
func (h *Handlers) blockedNumber(ctx context.Context, company *int64, number string) (string, error) {
	region, err := h.services.Directory.DefaultRegion(ctx, company)
	if err != nil {
		return "", err
	}
	return phone.Normalise("phone_number", number, region)
}

// ListBlocks pages through blocks, newest first.
func (h *Handlers) ListBlocks(ctx context.Context, req api.ListBlocksRequestObject) (api.ListBlocksResponseObject, error) {
	p := req.Params
	before, limit, err := paging.Of(p.Cursor, p.Limit)
	if err != nil {
		return nil, err
	}
	company, err := h.companyOrAll(ctx, p.CompanyNo)
	if err != nil {
		return nil, err
	}
	data := api.BlockPage{}
	if p.PhoneNumber != nil {
		number, err := h.blockedNumber(ctx, company, *p.PhoneNumber)
		if err != nil {
			return nil, err
		}
		rows, err := h.services.Blocks.ListByRecipient(ctx, company, number, (*string)(p.Scope))
		data.Items = convert.List(rows, blockOf)
		return api.ListBlocks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
	}
	rows, err := h.services.Blocks.List(ctx, block.Filter{CompanyID: company, Scope: (*string)(p.Scope), BeforeID: before, Limit: limit + 1})
	data.Items, data.NextCursor = paging.Page(rows, limit, blockOf, func(r block.Row) string { return paging.IDText(r.ID) })
	return api.ListBlocks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// AddBlock blocks a phone number, and takes back the messages that wait.
func (h *Handlers) AddBlock(ctx context.Context, req api.AddBlockRequestObject) (api.AddBlockResponseObject, error) {
	body := req.Body
	company, err := h.companyOrAll(ctx, body.CompanyNo)
	if err != nil {
		return nil, err
	}
	number, err := h.blockedNumber(ctx, company, body.PhoneNumber)
	if err != nil {
		return nil, err
	}
	if body.ExpiresAt != nil && !body.ExpiresAt.After(time.Now()) {
		return nil, fault.InvalidField("expires_at", fault.InThePast, nil)
	}
	ids, err := h.services.Blocks.Put(ctx, block.Block{
		CompanyID: company, Scope: string(body.Scope), Reason: body.Reason, ExpiresAt: body.ExpiresAt, By: gate.Of(ctx).Caller.User.Username,
	}, []string{number})
	if err != nil {
		return nil, err
	}
	taken, err := h.services.Blocks.Enforce(ctx, ids)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Blocks.Get(ctx, company, number, ids[0])
	if err != nil {
		return nil, err
	}
	return api.AddBlock200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.BlockAdded{
		Block: blockOf(row), CancelledTasks: taken.Cancelled,
		HeldTasks: convert.List(taken.Held, func(l task.Lease) api.HeldTask {
			return api.HeldTask{TaskID: l.TaskID, SenderNo: l.SenderNo, LeaseUntil: l.LeaseUntil}
		}),
	}}, nil
}

// ImportBlocks blocks the phone numbers of a list.
func (h *Handlers) ImportBlocks(ctx context.Context, _ api.ImportBlocksRequestObject) (api.ImportBlocksResponseObject, error) {
	fields, form, err := gate.FormOf[api.BlockImportRequest](ctx)
	if err != nil {
		return nil, err
	}
	company, err := h.companyOrAll(ctx, fields.CompanyNo)
	if err != nil {
		return nil, err
	}
	done, err := h.services.Blocklists.Import(ctx, blocklist.Request{
		CompanyID: company, Upload: *form.File, Sheet: optional.Value(fields.Sheet), Region: optional.Value(fields.DefaultRegion),
		Scope: string(optional.Value(fields.Scope)), Reason: optional.Value(fields.Reason), ExpiresAt: fields.ExpiresAt, By: gate.Of(ctx).Caller.User.Username,
	})
	if err != nil {
		return nil, err
	}
	data := api.BlockImport{
		Rows: done.Rows, Added: done.Added, Changed: done.Changed, Unchanged: done.Unchanged, Invalid: done.Invalid, CancelledTasks: done.Cancelled, HeldTasks: done.Held,
		Errors: convert.List(done.Errors, func(e blocklist.RowError) api.BlockImportError {
			field := (*gate.Of(ctx).Text.Detail(e.Fault).Fields)[0]
			return api.BlockImportError{Row: e.Row, Column: field.Field, Error: field.Message}
		}),
	}
	return api.ImportBlocks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// DeleteBlock removes the blocks of a phone number.
func (h *Handlers) DeleteBlock(ctx context.Context, req api.DeleteBlockRequestObject) (api.DeleteBlockResponseObject, error) {
	company, err := h.companyOrAll(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	number, err := h.blockedNumber(ctx, company, req.PhoneNumber)
	if err != nil {
		return nil, err
	}
	err = h.services.Blocks.Delete(ctx, company, number, (*string)(req.Params.Scope))
	return api.DeleteBlock200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// exportedBlocks is the number of blocks that one query of an export reads.
const exportedBlocks = 1000

// ExportBlocks returns a CSV file of blocks with a number.
func (h *Handlers) ExportBlocks(ctx context.Context, req api.ExportBlocksRequestObject) (api.ExportBlocksResponseObject, error) {
	company, err := h.companyOrAll(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	header := []string{"phone_number", "scope", "company_no", "reason", "created_by", "created_at", "expires_at", "asked_at"}
	return h.file(ctx, "blocks.csv", header, func(add func([][]string) error) error {
		before, _, _ := paging.Of(nil, nil)
		for {
			rows, err := h.services.Blocks.List(ctx, block.Filter{CompanyID: company, Scope: (*string)(req.Params.Scope), BeforeID: before, Limit: exportedBlocks})
			if err != nil || len(rows) == 0 {
				return err
			}
			var lines [][]string
			for _, r := range rows {
				if r.Recipient == nil { // the person was erased: an import could not add the block
					continue
				}
				lines = append(lines, []string{
					*r.Recipient, r.Scope, optional.Value(r.CompanyNo), optional.Value(r.Reason), r.CreatedBy, timeText(&r.CreatedAt), timeText(r.ExpiresAt),
					timeText(r.AskedAt),
				})
			}
			if err := add(lines); err != nil {
				return err
			}
			before = rows[len(rows)-1].ID
		}
	})
}

// timeText returns a time with its fractions of a second, so that an import of the file changes nothing. No time is an empty text.
func timeText(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func blockOf(r block.Row) api.Block {
	return api.Block{
		BlockID: r.ID, PhoneNumber: r.Recipient, Scope: api.BlockScope(r.Scope), CompanyNo: r.CompanyNo, Reason: r.Reason, ReceivedID: r.ReceivedID,
		AskedAt: r.AskedAt, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
}
