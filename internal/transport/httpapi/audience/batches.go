package audience

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"lksms/gen/api"
	"lksms/internal/audience/batch"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
	"lksms/internal/transport/httpapi/stream"
)

// batchFields contains the fields of a batch request and its raw rows.
type batchFields struct {
	api.BatchForm

	Rows json.RawMessage `json:"rows"`
}

// batchList returns the fields of a request that creates a batch, and its list. The list is nil if the request contains no list. field is the name of the
// list's field. The caller must call done after the response: done deletes an upload of rows that no batch uses.
func (h *Handlers) batchList(ctx context.Context) (fields api.BatchForm, list *upload.Upload, field string, done func(), err error) {
	x := gate.Of(ctx)
	done = func() {}
	if x.Body.Form != nil {
		fields, form, err := gate.FormOf[api.BatchForm](ctx)
		return fields, form.File, cmp.Or(form.FileField, "file"), done, err
	}
	var body batchFields
	if err := json.Unmarshal(x.Body.Plain, &body); err != nil {
		return fields, nil, "", done, fmt.Errorf("read batch: %w", err)
	}
	rows := struct{ Rows json.RawMessage }{}
	if err := json.Unmarshal(x.Body.Raw, &rows); err != nil || rows.Rows == nil { // Raw keeps numbers as the caller wrote them
		return body.BatchForm, nil, "rows", done, err
	}
	who := x.Caller.User
	stored, err := h.services.Uploads.Put(ctx, rows.Rows, upload.Meta{CompanyID: who.CompanyID, SubmittedBy: who.Username, Name: "rows.json"})
	if err != nil {
		return fields, nil, "", done, err
	}
	return body.BatchForm, &stored, "rows", func() { _ = h.services.Uploads.Drop(ctx, stored) }, nil // after an error, a sweep deletes the upload
}

// renamed returns err in which the field name `from` is replaced by `to`. The rows of a JSON body are named by their indexes.
func renamed(err error, from, to string) error {
	return fault.Rename(err, func(field fault.Field) string {
		place, isPlace := field.Limit.(fault.Place)
		switch {
		case field.Name != from || from == to:
			return field.Name
		case isPlace && place.Row > 0 && to == "rows":
			return strings.TrimSuffix(fmt.Sprintf("rows.%d.%s", place.Row-1, place.Column), ".")
		default:
			return to
		}
	})
}

// CreateBatch stores a batch. A job checks the rows of its list later.
func (h *Handlers) CreateBatch(ctx context.Context, _ api.CreateBatchRequestObject) (api.CreateBatchResponseObject, error) {
	f, list, field, done, err := h.batchList(ctx)
	defer done()
	if err != nil {
		return nil, err
	}
	origin := gate.Of(ctx).Origin
	if origin.CompanyID, err = h.scope.CompanyID(ctx, f.CompanyNo); err != nil {
		return nil, convert.MissingCompany(err, "company_no")
	}
	tags := batch.Tags{All: optional.Value(f.TagsAll), Any: optional.Value(f.TagsAny), None: optional.Value(f.TagsNone)}
	column, err := addressColumn(f)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Batches.Create(ctx, batch.Request{
		Name: f.Name, Channel: optional.Or(f.Channel, directory.SMS), Upload: list, Tag: optional.Value(f.Tag), Tags: tags, AddressColumn: column, DefaultRegion: optional.Value(f.DefaultRegion), SignColumn: optional.Value(f.SignColumn), MessageType: convert.MessageType(f.MessageType),
		Priority: f.Priority, TemplateNo: optional.Value(f.TemplateNo), Language: optional.Value(f.Language), Content: optional.Value(f.Content),
		Subject: optional.Value(f.Subject), HTML: optional.Value(f.HTML), BizType: f.BizType,
		Sign: optional.Value(f.Sign), SenderNo: optional.Value(f.SenderNo), Dedup: dedupOf(f.Dedup),
		Test: optional.Value(f.Test), AutoConfirm: optional.Value(f.AutoConfirm), ExpectSendTime: f.ExpectSendTime, ExpiresAt: f.ExpiresAt,
		Origin: origin,
	})
	if err != nil {
		return nil, renamed(err, "file", field)
	}
	gate.Of(ctx).AddToLog("batch_id", row.ID)
	return api.CreateBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.BatchCreated{BatchID: row.ID, Status: api.BatchStatus(row.Status)}}, nil
}

// addressColumn returns the name of the column with addresses. It returns an empty text if the request names no column.
func addressColumn(f api.BatchForm) (string, error) {
	isSMS := optional.Or(f.Channel, directory.SMS) == directory.SMS
	switch {
	case isSMS && f.AddressColumn != nil:
		return "", fault.InvalidField("address_column", fault.OnlyTogether, "channel")
	case !isSMS && f.PhoneColumn != nil:
		return "", fault.InvalidField("phone_column", fault.NotTogether, "channel")
	case isSMS:
		return optional.Value(f.PhoneColumn), nil
	}
	return optional.Value(f.AddressColumn), nil
}

// dedupOf returns the rule for duplicate rows. The values phone and address mean the same rule.
func dedupOf(asked *api.BatchFormDedup) string {
	if dedup := optional.Value(asked); dedup != "" && dedup != "address" {
		return string(dedup)
	}
	return batch.DedupPhone
}

// batchViewer returns which batches the caller can see.
func batchViewer(ctx context.Context) batch.Viewer {
	return batch.Viewer{CompanyID: caller.OwnCompany(ctx)}
}

// GetBatch shows a batch, its counts, and its estimated end.
func (h *Handlers) GetBatch(ctx context.Context, req api.GetBatchRequestObject) (api.GetBatchResponseObject, error) {
	st, err := h.services.Batches.Get(ctx, batchViewer(ctx), req.BatchID)
	if err != nil {
		return nil, err
	}
	data, err := h.oneBatch(ctx, st)
	if err != nil {
		return nil, err
	}
	if st.Status == progress.Finished || st.Status == progress.Cancelled {
		return api.GetBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
	}
	e, err := h.services.Batches.Estimate(ctx, st)
	if err != nil {
		return nil, err
	}
	held, err := h.services.Explain.HeldBy(ctx, explain.Messages{
		Channel: st.Channel, CompanyID: st.CompanyID, MessageType: st.MessageType, Submitter: st.SubmittedBy, SenderNo: st.SenderNo, BatchID: &st.ID,
		Countries: e.Countries,
	})
	if err != nil {
		return nil, err
	}
	data.HeldBy = new(convert.Switches(held))
	data.Estimate = &api.BatchEstimate{EarliestEnd: e.Earliest, LikelyEnd: e.Likely, Costs: []api.BatchCost{}}
	if len(held) > 0 {
		data.Estimate.EarliestEnd, data.Estimate.LikelyEnd = nil, nil
	}
	if caller.SeesNumbers(ctx) { // if several senders serve a batch, the costs reveal their weights
		for _, c := range e.Costs {
			data.Estimate.Costs = append(data.Estimate.Costs, api.BatchCost{SenderNo: c.SenderNo, Segments: c.Segments})
		}
	}
	return api.GetBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// ListBatches pages through batches, newest first.
func (h *Handlers) ListBatches(ctx context.Context, req api.ListBatchesRequestObject) (api.ListBatchesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Batches.List(ctx, batchViewer(ctx), (*string)(req.Params.Status), before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(st progress.Progress) (api.Batch, error) { return h.batchOf(ctx, st) },
		func(st progress.Progress) string { return paging.IDText(st.ID) })
	return api.ListBatches200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.BatchPage{Items: items, NextCursor: next}}, err
}

// oneBatch works like batchOf, and adds the actions of users.
func (h *Handlers) oneBatch(ctx context.Context, st progress.Progress) (api.Batch, error) {
	b, err := h.batchOf(ctx, st)
	if err != nil {
		return b, err
	}
	acts, err := h.services.Batches.ListActions(ctx, st.ID)
	shown := convert.List(acts, func(a batch.Act) api.BatchAct {
		return api.BatchAct{Act: api.BatchActAct(a.Act), Username: a.Username, At: a.At}
	})
	b.Acts = &shown
	return b, err
}

func (h *Handlers) batchOf(ctx context.Context, st progress.Progress) (api.Batch, error) {
	company, err := h.services.Directory.CompanyNo(ctx, st.CompanyID)
	if err != nil {
		return api.Batch{}, err
	}
	remark, err := remarkOf(ctx, st.Fault)
	if err != nil {
		return api.Batch{}, err
	}
	c := st.Counts
	b := api.Batch{
		BatchID: st.ID, Name: st.Name, Status: api.BatchStatus(st.Status), Segments: st.Segments, CheckedRows: st.LastRow, CompanyNo: company,
		SubmittedBy: st.SubmittedBy, ChangedBy: st.ChangedBy, MessageType: convert.MessageTypes[st.MessageType], Priority: st.Priority, TemplateNo: st.TemplateNo, Content: st.Content,
		Channel: &st.Channel, Subject: st.Subject, BizType: st.BizType, Sign: st.Sign, SenderNo: st.SenderNo, Tag: st.Tag, PhoneColumn: st.PhoneColumn, DefaultRegion: st.DefaultRegion, SignColumn: st.SignColumn, Dedup: st.Dedup, Test: st.IsTest,
		Encoding: st.Encoding, EncodingWarning: encodingWarning(ctx, st.IsEncodingDoubtful),
		ExpectSendTime: st.ExpectSendTime, ExpiresAt: st.ExpiresAt, Remark: remark, CreatedAt: st.CreatedAt, CheckedAt: st.CheckedAt,
		ConfirmedAt: st.ConfirmedAt, ConfirmedBy: st.ConfirmedBy, StartedAt: st.StartedAt, EndedAt: st.EndedAt, Senders: []api.BatchSender{},
		Counts: api.BatchCounts{
			Rows: c.Rows, Valid: c.Valid, Invalid: c.Invalid, Duplicate: c.Duplicate, Blocked: c.Blocked, Waiting: c.Waiting, Processing: c.Processing,
			Success: c.Success, Failed: c.Failed, Cancelled: c.Cancelled, Delivered: c.Delivered, Undelivered: c.Undelivered,
		},
	}
	if w := st.Wait; w != nil {
		b.WaitsFor = &api.BatchWait{
			Reason: api.BatchWaitReason(w.Reason), SenderNo: w.SenderNo, Until: w.Until, Message: gate.Of(ctx).Text.BatchWaits[w.Reason],
		}
	}
	if optional.Value(st.Tag) == "" {
		b.Tag = nil
	}
	if len(st.TagsAll)+len(st.TagsAny) > 0 {
		b.TagsAll, b.TagsAny, b.TagsNone = &st.TagsAll, &st.TagsAny, &st.TagsNone
	}
	if st.Channel != directory.SMS && st.Dedup == batch.DedupPhone {
		b.Dedup = "address"
	}
	for _, one := range st.Senders {
		b.Senders = append(b.Senders, api.BatchSender{
			SenderNo: one.SenderNo, Segments: one.Segments, Success: one.Success, Failed: one.Failed, Processing: one.Processing, Delivered: one.Delivered,
		})
	}
	return b, nil
}

// remarkOf returns the error of a row or list in the language of the request. It returns nil if no error is stored.
func remarkOf(ctx context.Context, stored []byte) (*string, error) {
	if stored == nil {
		return nil, nil //nolint:nilnil // no fault
	}
	wrong, err := fault.Decode(stored)
	if err != nil {
		return nil, err
	}
	return new(gate.Of(ctx).Text.Remark(wrong)), nil
}

// rowRemark returns the reason why a row is not sent, in the language of the request. It returns nil for a row that is sent.
func rowRemark(ctx context.Context, code *int16, stored []byte) (*string, error) {
	if code != nil && stored == nil {
		return optional.NonZero(gate.Of(ctx).Text.BatchCodes[*code]), nil
	}
	return remarkOf(ctx, stored)
}

// ListBatchRows pages through the rows of a batch, in their order.
func (h *Handlers) ListBatchRows(ctx context.Context, req api.ListBatchRowsRequestObject) (api.ListBatchRowsResponseObject, error) {
	from, err := paging.ParseText(req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	after, err := strconv.ParseInt(cmp.Or(from, "0"), 10, 64)
	if err != nil || from != "" && from != strconv.FormatInt(after, 10) {
		return nil, fault.InvalidField("cursor", fault.NotACursor, nil)
	}
	rows, end, err := h.services.Batches.Rows(ctx, batchViewer(ctx), req.BatchID, string(optional.Value(req.Params.Status)), after, paging.Size(req.Params.Limit))
	if err != nil {
		return nil, err
	}
	data := api.BatchRowPage{Items: make([]api.BatchRow, len(rows))}
	for i, row := range rows {
		if data.Items[i], err = batchRowOf(ctx, row); err != nil {
			return nil, err
		}
	}
	if end != 0 {
		data.NextCursor = new(paging.CursorOf(strconv.FormatInt(end, 10)))
	}
	return api.ListBatchRows200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

func batchRowOf(ctx context.Context, row batch.Row) (api.BatchRow, error) {
	remark, err := rowRemark(ctx, row.Code, row.Fault)
	if err != nil {
		return api.BatchRow{}, err
	}
	first, err := row.DuplicateOf()
	one := api.BatchRow{
		Row: row.RowNo, PhoneNumber: row.Recipient, Content: row.Content, Segments: row.Segments, Status: optional.NonZero(row.Status), Code: row.Code,
		Remark: remark, TaskID: row.TaskID, Result: row.Result, Sign: row.Sign, DuplicateOf: first, Region: optional.NonZero(phone.Region(row.Recipient)),
	}
	switch row.Delivery {
	case callback.Delivered:
		one.Delivery = new(api.TaskDelivered)
	case callback.Undelivered:
		one.Delivery = new(api.TaskUndelivered)
	}
	return one, err
}

// csvAnswer is a response that is written while the rows are read from the database.
type csvAnswer func(http.ResponseWriter) error

// VisitExportBatchErrorsResponse implements api.ExportBatchErrorsResponseObject.
func (a csvAnswer) VisitExportBatchErrorsResponse(w http.ResponseWriter) error { return a(w) }

// ExportBatchErrors writes the rows that are not sent as a CSV file.
func (h *Handlers) ExportBatchErrors(ctx context.Context, req api.ExportBatchErrorsRequestObject) (api.ExportBatchErrorsResponseObject, error) {
	seen := batchViewer(ctx)
	st, err := h.services.Batches.Get(ctx, seen, req.BatchID)
	if err != nil {
		return nil, err
	}
	return csvAnswer(func(w http.ResponseWriter) error {
		name := fmt.Sprintf("batch-%d-errors.csv", req.BatchID)
		return stream.WriteCSV(w, name, []string{"row", address.Field(st.Channel), "content", "code", "remark"}, func(out *stream.CSVWriter) error {
			return h.services.Batches.EachWrong(ctx, seen, req.BatchID, func(rows []batch.Row) error {
				lines := make([][]string, len(rows))
				for i, row := range rows {
					remark, err := rowRemark(ctx, row.Code, row.Fault)
					if err != nil {
						return err
					}
					lines[i] = []string{
						strconv.FormatInt(row.RowNo, 10), row.Recipient, row.Content, strconv.Itoa(int(optional.Value(row.Code))), optional.Value(remark),
					}
				}
				return out.Add(lines)
			})
		})
	}), nil
}

// PreviewBatch shows the message of a row and the senders that can send it.
func (h *Handlers) PreviewBatch(ctx context.Context, req api.PreviewBatchRequestObject) (api.PreviewBatchResponseObject, error) {
	p, err := h.services.Batches.Preview(ctx, batchViewer(ctx), req.BatchID, optional.Value(req.Params.Row))
	if err != nil {
		return nil, err
	}
	remark, err := rowRemark(ctx, optional.NonZero(p.Code), p.Fault)
	if err != nil {
		return nil, err
	}
	data := api.BatchPreview{
		Row: p.RowNo, PhoneNumber: p.Recipient, Code: optional.NonZero(p.Code), Remark: remark, Senders: []api.SenderView{},
	}
	if p.Message != nil {
		data.Subject, data.HTML = optional.NonZero(p.Subject), optional.NonZero(p.HTML)
		data.FinalContent, data.Segments, data.Senders = &p.Message.Final, p.Message.Segments, convert.Candidates(ctx, p.Message.Senders)
		if len(p.Message.HeldBy) > 0 {
			data.HeldBy = new(convert.Switches(p.Message.HeldBy))
		}
		data.Reason, data.DueAt = optional.NonZero(api.DelayReason(p.Message.Delay)), p.Message.DueAt
		if caller.SeesNumbers(ctx) {
			data.Cost = &p.Message.Cost
		}
	}
	return api.PreviewBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// ConfirmBatch starts the sending of a checked batch.
func (h *Handlers) ConfirmBatch(ctx context.Context, req api.ConfirmBatchRequestObject) (api.ConfirmBatchResponseObject, error) {
	st, err := h.services.Batches.Confirm(ctx, batchViewer(ctx), req.BatchID, gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	data, err := h.oneBatch(ctx, st)
	return api.ConfirmBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// PauseBatch pauses a batch.
func (h *Handlers) PauseBatch(ctx context.Context, req api.PauseBatchRequestObject) (api.PauseBatchResponseObject, error) {
	st, err := h.services.Batches.Pause(ctx, batchViewer(ctx), req.BatchID, gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	data, err := h.oneBatch(ctx, st)
	return api.PauseBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// ResumeBatch resumes a paused batch.
func (h *Handlers) ResumeBatch(ctx context.Context, req api.ResumeBatchRequestObject) (api.ResumeBatchResponseObject, error) {
	st, err := h.services.Batches.Resume(ctx, batchViewer(ctx), req.BatchID, gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	data, err := h.oneBatch(ctx, st)
	return api.ResumeBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// CancelBatch cancels the rest of a batch.
func (h *Handlers) CancelBatch(ctx context.Context, req api.CancelBatchRequestObject) (api.CancelBatchResponseObject, error) {
	st, err := h.services.Batches.Cancel(ctx, batchViewer(ctx), req.BatchID, gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	data, err := h.oneBatch(ctx, st)
	return api.CancelBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// RequeueBatch sends the failed messages of a batch again.
func (h *Handlers) RequeueBatch(ctx context.Context, req api.RequeueBatchRequestObject) (api.RequeueBatchResponseObject, error) {
	r, err := h.services.Batches.Requeue(ctx, batchViewer(ctx), req.BatchID, gate.Of(ctx).Caller.User.Username, "")
	if err != nil {
		return nil, err
	}
	data := api.BatchRequeued{Count: r.Count, Skipped: []api.BatchSkipped{}}
	for _, one := range r.Skipped {
		data.Skipped = append(data.Skipped, api.BatchSkipped{
			Reason: string(one.Reason), Count: one.Count, Message: gate.Of(ctx).Text.Reason(fault.New(fault.Conflict, one.Reason)),
		})
	}
	if r.Job != nil {
		data.JobID = &r.Job.ID
	}
	return api.RequeueBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}
