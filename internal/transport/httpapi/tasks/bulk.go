package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/gate/contract"
)

// SendSmsBatch accepts many messages. Each message has its own outcome.
func (h *Handlers) SendSmsBatch(ctx context.Context, req api.SendSmsBatchRequestObject) (api.SendSmsBatchResponseObject, error) {
	x := gate.Of(ctx)
	wrong := wrongOf(x.Body.Items)
	var good []submit.Submission
	var indexes []int
	for i, m := range req.Body.Messages {
		if wrong[i] == nil {
			good, indexes = append(good, SubmissionOf(m, x.Body.Items[i].Raw)), append(indexes, i)
		}
	}
	outcomes, err := h.services.Submissions.SubmitAll(ctx, good, x.Origin)
	if err != nil {
		return nil, err
	}
	data := api.SentBatch{Items: make([]api.SentItem, len(x.Body.Items))}
	for j, o := range outcomes {
		item := &data.Items[indexes[j]]
		if wrong[indexes[j]] = o.Err; o.Err != nil {
			continue
		}
		status := api.TaskStatus(o.Status)
		item.Code, item.TaskID, item.Status, item.FinalContent = convert.OK, &o.TaskID, &status, &o.FinalContent
		item.Deduplicated, item.Recipient, item.Region = optional.NonZero(o.Deduplicated), optional.NonZero(o.Recipient), optional.NonZero(phone.Region(o.Recipient))
		data.Accepted++
	}
	var refused []submit.Refused
	toFault := h.services.Gate.ToFaults(ctx)
	for i := range data.Items {
		if wrong[i] == nil {
			continue
		}
		item, f := &data.Items[i], toFault(wrong[i])
		item.Code, item.Message, item.Error = gate.ItemError(x.Text, f)
		data.Refused++
		if gate.IsServerError(f.Kind) {
			continue
		}
		answer, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("write answer for the log: %w", err)
		}
		refused = append(refused, submit.Refused{Raw: x.Body.Items[i].Raw, Status: item.Code, Answer: answer})
	}
	if err := h.logRefused(ctx, refused); err != nil {
		return nil, err
	}
	x.AddToLog("accepted", data.Accepted, "refused", data.Refused)
	return api.SendSmsBatch200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// logRefused stores the rejected messages of a request in which other messages were accepted. It uses the transaction of the request if one exists.
func (h *Handlers) logRefused(ctx context.Context, refused []submit.Refused) error {
	x := gate.Of(ctx)
	switch {
	case len(refused) == 0:
	case x.InTransaction:
		return h.services.Submissions.LogRefused(ctx, x.Origin, refused...)
	default:
		h.services.Gate.StoreRefusals(ctx, refused...)
	}
	return nil
}

func wrongOf(items []contract.Item) []error {
	return convert.List(items, func(one contract.Item) error { return one.Wrong })
}

// ReportTasks accepts the reports of many tasks. Each report has its own outcome.
func (h *Handlers) ReportTasks(ctx context.Context, req api.ReportTasksRequestObject) (api.ReportTasksResponseObject, error) {
	data, err := h.reportAll(ctx, req.Body.Reports)
	return api.ReportTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// ExchangeTasks accepts the reports of many tasks and then claims tasks, in one request. The reports stay stored if the claim fails.
func (h *Handlers) ExchangeTasks(ctx context.Context, req api.ExchangeTasksRequestObject) (api.ExchangeTasksResponseObject, error) {
	if err := h.scope.RequireApp(ctx, req.Body.AppID); err != nil {
		return nil, err
	}
	reported, err := h.reportAll(ctx, optional.Value(req.Body.Reports))
	if err != nil {
		return nil, err
	}
	leases, err := h.claim(ctx, claimOf(req.Body.AppID, req.Body.Limit, req.Body.StartSeconds), req.Body.Wait)
	return api.ExchangeTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Exchanged{
		Reported: reported, Tasks: convert.List(leases, claimedOf),
	}}, err
}

// reportAll stores reports, each with its own outcome. The reports are the items of the request.
func (h *Handlers) reportAll(ctx context.Context, list []api.ReportRequest) (data api.ReportedBatch, err error) {
	x, reports := gate.Of(ctx), h.services.Gate.Reports()
	wrong := wrongOf(x.Body.Items)
	var good []queue.Report
	var indexes []int
	for i, r := range list {
		if wrong[i] == nil {
			wrong[i] = h.scope.RequireApp(ctx, r.AppID)
		}
		if wrong[i] == nil {
			good, indexes = append(good, ReportOf(r, x.Body.Items[i].Raw)), append(indexes, i)
		}
	}
	outcomes, err := h.services.Queue.ReportAll(ctx, good)
	if err != nil {
		return data, err
	}
	data = api.ReportedBatch{Items: make([]api.ReportedItem, len(x.Body.Items))}
	for i, one := range x.Body.Items {
		data.Items[i].TaskID = reports.TaskID(one.Plain)
	}
	for j, o := range outcomes {
		wrong[indexes[j]], data.Items[indexes[j]].Effect = o.Err, optional.NonZero(api.ReportEffect(o.Effect))
	}
	toFault := h.services.Gate.ToFaults(ctx)
	for i := range data.Items {
		item := &data.Items[i]
		if wrong[i] == nil {
			item.Code = convert.OK
			data.Accepted++
			continue
		}
		item.Code, item.Message, item.Error = gate.ItemError(x.Text, toFault(wrong[i]))
		data.Refused++
	}
	x.AddToLog("accepted", data.Accepted, "refused", data.Refused)
	return data, nil
}

// StartTasks records that a sender starts to send tasks (S4.6).
func (h *Handlers) StartTasks(ctx context.Context, req api.StartTasksRequestObject) (api.StartTasksResponseObject, error) {
	if err := h.scope.RequireApp(ctx, req.Body.AppID); err != nil {
		return nil, err
	}
	x := gate.Of(ctx)
	leases := convert.List(req.Body.Leases, func(l api.HeldLease) queue.Held { return queue.Held{TaskID: l.TaskID, LeaseID: l.LeaseID} })
	live, err := h.services.Queue.Start(ctx, req.Body.AppID, leases)
	if err != nil {
		return nil, err
	}
	refused := h.services.Gate.ToFaults(ctx)(fault.New(fault.Conflict, fault.LeaseNotHeld))
	data := api.StartedBatch{Items: make([]api.StartedItem, len(leases))}
	for i, l := range leases {
		item := api.StartedItem{Code: convert.OK, TaskID: l.TaskID, LeaseID: l.LeaseID}
		if until, isLive := live[l]; isLive {
			item.LeaseUntil = &until
			data.Started++
		} else {
			item.Code, item.Message, item.Error = gate.ItemError(x.Text, refused)
			data.Refused++
		}
		data.Items[i] = item
	}
	x.AddToLog("app_id", req.Body.AppID, "started", data.Started, "refused", data.Refused)
	return api.StartTasks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}
