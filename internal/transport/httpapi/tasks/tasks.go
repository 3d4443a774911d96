package tasks

import (
	"context"
	"encoding/json"
	"time"

	"lksms/gen/api"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// SendSms accepts a message (S0.1).
func (h *Handlers) SendSms(ctx context.Context, req api.SendSmsRequestObject) (api.SendSmsResponseObject, error) {
	x := gate.Of(ctx)
	x.AddToLog("phone", phone.Mask(req.Body.PhoneNumber))
	if optional.Value(req.Params.DryRun) {
		return h.dryRun(ctx, x, *req.Body)
	}
	made, err := h.services.Submissions.Submit(ctx, SubmissionOf(*req.Body, x.Body.Raw), x.Origin)
	if err != nil {
		return nil, err
	}
	x.AddToLog("task_id", made.TaskID)
	return api.SendSms200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Submitted{
		TaskID: made.TaskID, Status: api.TaskStatus(made.Status), FinalContent: made.FinalContent,
		Deduplicated: optional.NonZero(made.Deduplicated), Recipient: optional.NonZero(made.Recipient), Region: optional.NonZero(phone.Region(made.Recipient)),
	}}, nil
}

func (h *Handlers) dryRun(ctx context.Context, x *gate.Exchange, body api.SendRequest) (api.SendSmsResponseObject, error) {
	p, err := h.services.Submissions.Preview(ctx, SubmissionOf(body, x.Body.Raw), x.Origin)
	if err != nil {
		return nil, err
	}
	senders, verdict := convert.Candidates(ctx, p.Senders), api.SubmittedVerdict(p.Verdict)
	data := api.Submitted{
		FinalContent: p.Final, Recipient: &p.Recipient, Region: optional.NonZero(phone.Region(p.Recipient)), CountryNo: optional.NonZero(p.CountryNo), Segments: &p.Segments,
		Priority: &p.Priority, Routed: &p.Routed, Senders: &senders, Verdict: &verdict,
		Reason: optional.NonZero(api.DelayReason(p.Delay)), DueAt: p.DueAt,
	}
	if heldBy := convert.Switches(p.HeldBy); len(heldBy) > 0 {
		data.HeldBy = &heldBy
	}
	if caller.SeesNumbers(ctx) {
		data.Cost = &p.Cost
	}
	return api.SendSms200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// ExplainTask explains why a task has its current state.
func (h *Handlers) ExplainTask(ctx context.Context, req api.ExplainTaskRequestObject) (api.ExplainTaskResponseObject, error) {
	e, err := h.services.Tasks.Explain(ctx, caller.Viewer(ctx), req.TaskID)
	if err != nil {
		return nil, err
	}
	data := api.Explanation{
		TaskID: e.Task.TaskID, Status: api.TaskStatus(e.Task.Status), Reason: api.ExplanationReason(e.Reason),
		Summary: gate.Of(ctx).Text.Explain(e), DueAt: e.Task.DueAt, IsDue: e.IsDue, ExpiresAt: e.Task.ExpiresAt,
		Priority: e.Task.Priority, Routed: e.Routed, HeldBy: convert.Switches(e.HeldBy), Senders: convert.Candidates(ctx, e.Senders),
		OnUnclear: optional.NonZero(api.OnUnclear(e.OnUnclear)), StartUntil: e.StartUntil, RequeuedAt: e.RequeuedAt, RequeuedBy: optional.NonZero(e.RequeuedBy),
	}
	if e.Ahead != nil {
		ahead, more := *e.Ahead, *e.Ahead > task.MaxAhead
		ahead = min(ahead, task.MaxAhead)
		data.Ahead, data.AheadIsMore = &ahead, &more
	}
	return api.ExplainTask200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// SubmissionOf converts a request body to a submission. raw is stored with the submission.
func SubmissionOf(body api.SendRequest, raw []byte) submit.Submission {
	var params json.RawMessage
	if body.Params != nil {
		params = convert.Params(raw)
	}
	isSensitive := optional.Value(body.Sensitive)
	if isSensitive {
		raw = sensitive.MaskRequest(raw)
	}
	return submit.Submission{
		TemplateNo: optional.Value(body.TemplateNo), Params: params, Language: optional.Value(body.Language),
		PhoneNumber: body.PhoneNumber, Region: optional.Value(body.DefaultRegion), Content: optional.Value(body.Content), UseTemplate: optional.Value(body.UseTemplate),
		Source: convert.NonEmpty(body.Source), DedupKey: body.DedupKey, Raw: raw, MessageType: convert.MessageType(body.MessageType),
		Priority: body.Priority, ExpectSendTime: body.ExpectSendTime, ExpiresAt: body.ExpiresAt, Sign: optional.Value(body.Sign),
		Test: optional.Value(body.Test), IsSensitive: isSensitive,
	}
}

// GetTask shows one task (S0.2).
func (h *Handlers) GetTask(ctx context.Context, req api.GetTaskRequestObject) (api.GetTaskResponseObject, error) {
	row, times, err := h.services.Tasks.Detail(ctx, caller.Viewer(ctx), req.TaskID)
	t, err := h.taskAnswer(ctx, row, err)
	return api.GetTask200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TaskDetail{
		TaskID: t.TaskID, CompanyNo: t.CompanyNo, Channel: t.Channel, NotificationID: t.NotificationID, PhoneNumber: t.PhoneNumber, Content: t.Content, Status: t.Status, Source: t.Source, SubmittedBy: t.SubmittedBy, RetryCount: t.RetryCount,
		ProcessingAppID: t.ProcessingAppID, Result: t.Result, DueAt: t.DueAt, LeaseUntil: t.LeaseUntil, CreatedAt: t.CreatedAt,
		UpdatedAt: t.UpdatedAt, SentAt: t.SentAt, ReportedAt: t.ReportedAt, MessageType: t.MessageType, Priority: t.Priority,
		Segments: t.Segments, CountryNo: t.CountryNo, Sign: t.Sign, Test: t.Test, ExpectSendTime: t.ExpectSendTime, ExpiresAt: t.ExpiresAt,
		UserID: t.UserID, BatchID: t.BatchID, Delivery: t.Delivery, DeliveryCode: t.DeliveryCode, DeliveredAt: t.DeliveredAt, ProviderNo: t.ProviderNo,
		QueuedAt: times.QueuedAt, FirstClaimedAt: times.FirstClaimedAt, WaitSeconds: secondsOf(times.Wait), TotalSeconds: secondsOf(times.Total),
	}}, err
}

func secondsOf(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}

// CancelTask cancels a task that no sender has leased.
func (h *Handlers) CancelTask(ctx context.Context, req api.CancelTaskRequestObject) (api.CancelTaskResponseObject, error) {
	row, err := h.services.Tasks.Cancel(ctx, caller.Viewer(ctx), req.TaskID, gate.Of(ctx).Caller.User.Username)
	t, err := h.taskAnswer(ctx, row, err)
	return api.CancelTask200JSONResponse{Code: convert.OK, Message: convert.Success, Data: t}, err
}

// RequeueTask queues a finished task again.
func (h *Handlers) RequeueTask(ctx context.Context, req api.RequeueTaskRequestObject) (api.RequeueTaskResponseObject, error) {
	remark := ""
	if req.Body != nil {
		remark = optional.Value(req.Body.Remark)
	}
	row, err := h.services.Tasks.Requeue(ctx, caller.Viewer(ctx), req.TaskID, gate.Of(ctx).Caller.User.Username, remark)
	t, err := h.taskAnswer(ctx, row, err)
	return api.RequeueTask200JSONResponse{Code: convert.OK, Message: convert.Success, Data: t}, err
}

// ListTasks pages through tasks, newest first.
func (h *Handlers) ListTasks(ctx context.Context, req api.ListTasksRequestObject) (api.ListTasksResponseObject, error) {
	p := req.Params
	before, err := paging.ParseTaskID(p.Cursor)
	if err != nil {
		return nil, err
	}
	seen, limit := caller.Viewer(ctx), paging.Size(p.Limit)
	if p.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return nil, err
		}
		seen.CompanyID = &company
	}
	var delivery *int16
	if p.Delivery != nil {
		delivery = new(callback.Undelivered)
		if *p.Delivery == api.OnlyDelivered {
			*delivery = callback.Delivered
		}
	}
	page, err := h.services.Tasks.List(ctx, task.Filter{
		Viewer: seen,
		Status: (*int16)(p.Status), PhoneNumber: p.PhoneNumber, Source: p.Source, MessageType: convert.OnlyMessageType(p.MessageType),
		SenderNo: p.SenderNo, Delivery: delivery, Result: p.Result,
		CountryNo: p.CountryNo, TemplateNo: p.TemplateNo, SubmittedBy: p.SubmittedBy, ProviderNo: p.ProviderNo,
		BatchID: p.BatchID, Test: p.Test, CreatedFrom: p.CreatedFrom, CreatedTo: p.CreatedTo, BeforeID: before, Limit: limit + 1,
	})
	if err != nil {
		return nil, err
	}
	rows, next := paging.Page(page.Tasks, limit, func(t task.Row) task.Row { return t }, func(t task.Row) string { return t.TaskID })
	items, err := h.tasksOf(ctx, rows)
	if next == nil && page.Before != "" {
		next = new(paging.CursorOf(page.Before))
	}
	return api.ListTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TaskPage{Items: items, NextCursor: next, Places: placesOf(page, items)}}, err
}

// placesOf divides the items of a page into groups of consecutive items from the same storage (recent or history), and counts each group.
func placesOf(page task.Page, items []api.Task) []api.StorageOfItems {
	places := []api.StorageOfItems{}
	for _, item := range items {
		place := api.PlaceRecent
		if page.IsHistory(item.TaskID) {
			place = api.PlaceHistory
		}
		if n := len(places); n > 0 && places[n-1].Place == place {
			places[n-1].Items++
		} else {
			places = append(places, api.StorageOfItems{Place: place, Items: 1})
		}
	}
	return places
}

// GetTaskTimeline shows all events of one task.
func (h *Handlers) GetTaskTimeline(ctx context.Context, req api.GetTaskTimelineRequestObject) (api.GetTaskTimelineResponseObject, error) {
	rows, err := h.services.Tasks.Timeline(ctx, caller.Viewer(ctx), req.TaskID)
	return api.GetTaskTimeline200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, eventOf)}, err
}

// ClaimTasks leases waiting tasks to a sender (S0.3).
func (h *Handlers) ClaimTasks(ctx context.Context, req api.ClaimTasksRequestObject) (api.ClaimTasksResponseObject, error) {
	rows, err := h.claim(ctx, claim.Request{SenderNo: req.Params.AppID, Limit: optional.Or(req.Params.Limit, claimDefault)}, req.Params.Wait)
	return api.ClaimTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, claimedOf)}, err
}

// ClaimTasksNow works like ClaimTasks, with a larger limit and further options.
func (h *Handlers) ClaimTasksNow(ctx context.Context, req api.ClaimTasksNowRequestObject) (api.ClaimTasksNowResponseObject, error) {
	rows, err := h.claim(ctx, claimOf(req.Body.AppID, req.Body.Limit, req.Body.StartSeconds), req.Body.Wait)
	return api.ClaimTasksNow200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, claimedOf)}, err
}

// claimOf converts the fields of a claim in a body.
func claimOf(senderNo string, limit *int, startSeconds *api.StartSeconds) claim.Request {
	c := claim.Request{SenderNo: senderNo, Limit: optional.Or(limit, claimDefault)}
	if startSeconds != nil {
		c.StartWithin = new(time.Duration(*startSeconds) * time.Second)
	}
	return c
}

// AppClaimTasks works like ClaimTasks in the format of the installed sender app (S0.18).
func (h *Handlers) AppClaimTasks(ctx context.Context, req api.AppClaimTasksRequestObject) (api.AppClaimTasksResponseObject, error) {
	rows, err := h.claim(ctx, claim.Request{SenderNo: req.Params.AppID, Limit: optional.Or(req.Params.Limit, claimDefault)}, nil)
	return api.AppClaimTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.AppTaskPage{
		TotalCount: len(rows), AppID: req.Params.AppID, Tasks: convert.List(rows, appTaskOf),
	}}, err
}

// claimDefault is the default of limit in the contract.
const claimDefault = 10

func (h *Handlers) claim(ctx context.Context, c claim.Request, wait *int) ([]claim.Lease, error) {
	if err := h.scope.RequireApp(ctx, c.SenderNo); err != nil {
		return nil, err
	}
	x := gate.Of(ctx)
	c.StillMay = func(ctx context.Context) error { // the user can have been disabled while the claim waited
		if err := x.Caller.Authorise(); err != nil {
			return err
		}
		return caller.RequireBinding(ctx, c.SenderNo)
	}
	rows, err := h.services.Queue.ClaimOrWait(ctx, c, time.Duration(optional.Value(wait))*time.Second)
	x.AddToLog("app_id", c.SenderNo, "claimed", len(rows))
	return rows, err
}

// ReportTask accepts the report of a task (S0.4).
func (h *Handlers) ReportTask(ctx context.Context, req api.ReportTaskRequestObject) (api.ReportTaskResponseObject, error) {
	err := h.report(ctx, *req.Body)
	return api.ReportTask200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// AppReportTask works like ReportTask for the installed sender app (S0.18).
func (h *Handlers) AppReportTask(ctx context.Context, req api.AppReportTaskRequestObject) (api.AppReportTaskResponseObject, error) {
	err := h.report(ctx, api.ReportRequest(*req.Body))
	return api.AppReportTask200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func (h *Handlers) report(ctx context.Context, body api.ReportRequest) error {
	if err := h.scope.RequireApp(ctx, body.AppID); err != nil {
		return err
	}
	x := gate.Of(ctx)
	x.AddToLog("app_id", body.AppID, "task_id", body.TaskID, "reported", body.Status)
	return h.services.Queue.Report(ctx, ReportOf(body, x.Body.Raw))
}

// ReportOf converts a request body to a report. raw is stored with the report.
func ReportOf(body api.ReportRequest, raw []byte) queue.Report {
	report := queue.Report{
		TaskID: body.TaskID, SenderNo: body.AppID, Status: int16(body.Status), ErrorMessage: body.ErrorMessage,
		ShouldRetry: optional.Value(body.ShouldRetry), LeaseID: body.LeaseID, Raw: raw,
	}
	if body.RetryAfterSeconds != nil {
		after := time.Duration(*body.RetryAfterSeconds) * time.Second
		report.RetryAfter = &after
	}
	return report
}

// taskAnswer returns a task for a response, or err if err is not nil.
func (h *Handlers) taskAnswer(ctx context.Context, row task.Row, err error) (api.Task, error) {
	if err != nil {
		return api.Task{}, err
	}
	tasks, err := h.tasksOf(ctx, []task.Row{row})
	if err != nil {
		return api.Task{}, err
	}
	return tasks[0], nil
}

// tasksOf converts tasks for a response.
func (h *Handlers) tasksOf(ctx context.Context, rows []task.Row) ([]api.Task, error) {
	origins, err := h.services.Tasks.Origins(ctx, rows)
	if err != nil {
		return nil, err
	}
	tasks := make([]api.Task, len(rows))
	for i, row := range rows {
		tasks[i] = taskOf(row, origins[i])
	}
	return tasks, nil
}

func taskOf(t task.Row, from task.OriginRow) api.Task {
	return api.Task{
		TaskID: t.TaskID, CompanyNo: from.CompanyNo, Channel: from.Channel, NotificationID: from.NotificationID,
		PhoneNumber: t.PhoneNumber, Content: t.Content, Status: api.TaskStatus(t.Status),
		Source: t.Source, SubmittedBy: t.SubmittedBy, RetryCount: t.RetryCount, ProcessingAppID: t.ProcessingAppID, Result: t.Result,
		DueAt: t.DueAt, LeaseUntil: t.LeaseUntil, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
		SentAt: t.SentAt, ReportedAt: t.ReportedAt, MessageType: convert.MessageTypes[t.MessageType], Priority: t.Priority,
		Segments: t.Segments, CountryNo: t.CountryNo, Sign: t.Sign, Test: t.IsTest, ExpectSendTime: t.ExpectSendTime,
		ExpiresAt: t.ExpiresAt, UserID: t.UserID, BatchID: t.BatchID, Delivery: convert.Delivery(t.Delivery), DeliveryCode: t.DeliveryCode, DeliveredAt: t.DeliveredAt,
		ProviderNo: from.ProviderNo,
	}
}

func claimedOf(t claim.Lease) api.ClaimedTask {
	var apart string
	if t.SignMode == claim.SignByProvider {
		apart = t.Sign
	}
	return api.ClaimedTask{
		TaskID: t.TaskID, PhoneNumber: t.PhoneNumber, Content: t.Content, Sign: optional.NonZero(apart),
		LeaseID: t.LeaseID, Attempt: t.Attempt, LeaseUntil: t.LeaseUntil, ExpiresAt: t.ExpiresAt, Sim: t.Sim, Traceparent: t.Traceparent,
	}
}

func appTaskOf(t claim.Lease) api.AppTask {
	return api.AppTask{TaskID: t.TaskID, PhoneNumber: t.PhoneNumber, Content: t.Content, ExpiresAt: t.ExpiresAt}
}

func eventOf(e task.TimelineRow) api.TimelineEvent {
	var from *api.MessageTemplate
	if len(e.Template) > 0 && json.Unmarshal(e.Template, &from) != nil {
		from = nil // an operator inserted the row by hand
	}
	return api.TimelineEvent{
		Event: api.TimelineEventEvent(e.Event), At: e.CreatedAt, AppID: e.AppID, Attempt: e.Attempt,
		LeaseID: e.LeaseID, LeaseUntil: e.LeaseUntil, Status: e.Status, Effect: (*api.ReportEffect)(e.Effect),
		Message: convert.NonEmpty(e.ErrorMessage), RequestID: e.RequestID, SourceIP: e.SourceIp, By: e.By, ProviderNo: e.ProviderNo, Template: from, Answer: e.Answer,
		Content: optional.NonZero(e.Content), Sign: optional.NonZero(e.Sign), Sim: e.Sim,
	}
}
