package insight

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"lksms/gen/api"
	"lksms/internal/dispatch/queue/backlog"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/stream"
)

// GetOverview shows the current figures.
func (h *Handlers) GetOverview(ctx context.Context, _ api.GetOverviewRequestObject) (api.GetOverviewResponseObject, error) {
	data, err := h.overview(ctx, gate.Of(ctx).Caller.User)
	return api.GetOverview200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// StreamOverview sends the current figures repeatedly.
func (h *Handlers) StreamOverview(ctx context.Context, req api.StreamOverviewRequestObject) (api.StreamOverviewResponseObject, error) {
	x := gate.Of(ctx)
	who := x.Caller.User
	var company string // empty for callers who can read all companies
	if own := caller.OwnCompany(ctx); own != nil {
		company = fmt.Sprint(*own)
	}
	leave, err := h.services.Streams.Open(who.Username, company)
	if err != nil {
		return nil, err
	}
	x.Stream()
	return streamAnswer(func(w http.ResponseWriter) error {
		defer leave()
		source := stream.Source{
			Event: "overview", Every: statistics.NowEvery,
			Next: func(ctx context.Context) (event, figures []byte, err error) {
				data, err := h.overview(ctx, who)
				if err != nil {
					return nil, nil, err
				}
				if event, err = json.Marshal(data); err != nil {
					return nil, nil, fmt.Errorf("write figures: %w", err)
				}
				data.At = time.Time{} // figures that differ only in their time count as unchanged
				if figures, err = json.Marshal(data); err != nil {
					return nil, nil, fmt.Errorf("write figures: %w", err)
				}
				return event, figures, nil
			},
			MayRead: func() error {
				err := x.Caller.Authorise()
				if err == nil && x.Caller.User != who { // the role or company of the user has changed, and so have the figures that the user can read
					err = fault.New(fault.Forbidden, fault.AuthForbidden)
				}
				return err
			},
		}
		if req.Params.Seconds != nil {
			source.Limit = new(time.Duration(*req.Params.Seconds) * time.Second)
		}
		if err := h.services.Streams.Serve(ctx, w, source); err != nil {
			h.services.Log.Debug("stream ended", "request_id", x.Origin.RequestID, "error", err) // the reader disconnected or is too slow
		}
		return nil
	}), nil
}

// streamAnswer is a response that is sent as a stream.
type streamAnswer func(http.ResponseWriter) error

// VisitStreamOverviewResponse implements api.StreamOverviewResponseObject.
func (a streamAnswer) VisitStreamOverviewResponse(w http.ResponseWriter) error { return a(w) }

// overview returns the figures that a user can read.
func (h *Handlers) overview(ctx context.Context, who access.Principal) (api.Overview, error) {
	var data api.Overview
	var company *int64
	if !who.SeesAll {
		company = &who.CompanyID
		no, err := h.services.Directory.CompanyNo(ctx, who.CompanyID)
		if err != nil {
			return data, err
		}
		data.CompanyNo = &no
	}
	f, err := h.services.Overview.Get(ctx, company)
	if err != nil {
		return data, err
	}
	data.At, data.OldestWaitSeconds, data.FiringAlerts = f.Tasks.CountedAt, f.LongestWait, f.FiringAlerts
	data.Conversations.Unread, data.Conversations.LastReceivedID = f.Unread.Conversations, f.Unread.LastID
	data.Tasks.PendingNew, data.Tasks.PendingRetry, data.Tasks.Processing = f.Tasks.PendingNewTasks, f.Tasks.PendingRetryTasks, f.Tasks.ProcessingTasks
	data.Tasks.Success, data.Tasks.Failed = f.Tasks.SuccessTasks, f.Tasks.FailedTasks
	if f.Rates != nil {
		data.Rates.In, data.Rates.Out, data.Rates.Failed = &f.Rates.In, &f.Rates.Out, &f.Rates.Failed
	}
	data.Senders.Ready, data.Senders.NotReady = f.Senders.Ready, f.Senders.NotReady
	data.SendersNotReady = convert.List(f.Senders.NotReadyFirst, func(r sender.ReadyRow) api.NotReadySender {
		return api.NotReadySender{SenderNo: r.SenderNo, Name: r.Name, Reason: api.NotReadySenderReason(r.Reason)}
	})
	data.HeldBy = new(convert.List(f.Held, func(r backlog.Held) api.HoldingSwitch {
		return api.HoldingSwitch{By: api.Switch{Switch: api.SwitchSwitch(r.Switch), Name: r.Name}, Tasks: r.Tasks}
	}))
	return data, nil
}
