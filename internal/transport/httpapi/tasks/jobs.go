package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"lksms/gen/api"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// CreateTaskJob counts the tasks that match a filter, or creates a job that changes them.
func (h *Handlers) CreateTaskJob(ctx context.Context, req api.CreateTaskJobRequestObject) (api.CreateTaskJobResponseObject, error) {
	body := req.Body
	filter, err := h.jobFilter(ctx, body.Filter)
	if err != nil {
		return nil, err
	}
	shown, err := json.Marshal(body.Filter)
	if err != nil {
		return nil, fmt.Errorf("write filter: %w", err)
	}
	plan, err := h.services.Jobs.Plan(ctx, job.Request{
		Action: string(body.Action), Filter: filter, Shown: shown, Count: body.Count, Remark: optional.Value(body.Remark),
		By: gate.Of(ctx).Caller.User.Username,
	})
	if err != nil {
		return nil, err
	}
	data := api.TaskJobPlan{Count: plan.Count, Capped: plan.Capped}
	if plan.Job != nil {
		gate.Of(ctx).AddToLog("job_id", plan.Job.ID)
		made, err := jobOf(ctx, *plan.Job)
		if err != nil {
			return nil, err
		}
		data.Job = &made
	}
	return api.CreateTaskJob200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

func (h *Handlers) jobFilter(ctx context.Context, f api.TaskJobFilter) (task.Filter, error) {
	filter := task.Filter{
		Status: (*int16)(f.Status), PhoneNumber: f.PhoneNumber, Source: f.Source, MessageType: convert.OnlyMessageType(f.MessageType), SenderNo: f.SenderNo,
		Result: f.Result, BatchID: f.BatchID, Test: f.Test, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
		CountryNo: f.CountryNo, TemplateNo: f.TemplateNo, SubmittedBy: f.SubmittedBy, ProviderNo: f.ProviderNo,
	}
	if f.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, f.CompanyNo)
		if err != nil {
			return filter, convert.MissingCompany(err, "filter.company_no")
		}
		filter.Viewer.CompanyID = &company
	}
	if f.Delivery != nil {
		filter.Delivery = new(callback.Undelivered)
		if *f.Delivery == api.JobOnlyDelivered {
			*filter.Delivery = callback.Delivered
		}
	}
	return filter, nil
}

// ListTaskJobs pages through jobs, newest first.
func (h *Handlers) ListTaskJobs(ctx context.Context, req api.ListTaskJobsRequestObject) (api.ListTaskJobsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Jobs.List(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(j job.Row) (api.TaskJob, error) { return jobOf(ctx, j) }, func(j job.Row) string { return paging.IDText(j.ID) })
	return api.ListTaskJobs200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.TaskJobPage{Items: items, NextCursor: next}}, err
}

// GetTaskJob shows one job.
func (h *Handlers) GetTaskJob(ctx context.Context, req api.GetTaskJobRequestObject) (api.GetTaskJobResponseObject, error) {
	row, err := h.services.Jobs.Get(ctx, req.JobID)
	if err != nil {
		return nil, err
	}
	data, err := jobOf(ctx, row)
	return api.GetTaskJob200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// StopTaskJob stops a running job.
func (h *Handlers) StopTaskJob(ctx context.Context, req api.StopTaskJobRequestObject) (api.StopTaskJobResponseObject, error) {
	row, err := h.services.Jobs.Stop(ctx, req.JobID, gate.Of(ctx).Caller.User.Username)
	if err != nil {
		return nil, err
	}
	data, err := jobOf(ctx, row)
	return api.StopTaskJob200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

func jobOf(ctx context.Context, j job.Row) (api.TaskJob, error) {
	var filter api.TaskJobFilter
	if err := json.Unmarshal(j.Filter, &filter); err != nil {
		return api.TaskJob{}, fmt.Errorf("read filter of job %d: %w", j.ID, err)
	}
	var skipped map[fault.Reason]int64
	if err := json.Unmarshal(j.SkippedBy, &skipped); err != nil {
		return api.TaskJob{}, fmt.Errorf("read reasons of job %d: %w", j.ID, err)
	}
	skippedBy := make([]api.BatchSkipped, 0, len(skipped))
	for reason, count := range skipped {
		skippedBy = append(skippedBy, api.BatchSkipped{
			Reason: string(reason), Count: count, Message: gate.Of(ctx).Text.Reason(fault.New(fault.Conflict, reason)),
		})
	}
	slices.SortFunc(skippedBy, func(a, b api.BatchSkipped) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return api.TaskJob{
		JobID: j.ID, Action: api.TaskJobAction(j.Action), Filter: filter, Remark: j.Remark, Total: j.Total, Done: j.Done, Skipped: j.Skipped,
		SkippedBy: skippedBy, Failed: j.Failed, Status: api.TaskJobStatus(j.Status), CreatedBy: j.CreatedBy, StoppedBy: j.StoppedBy,
		CreatedAt: j.CreatedAt, FinishedAt: j.FinishedAt,
	}, nil
}
