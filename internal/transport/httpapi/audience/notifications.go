package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/paging"
)

// CreateNotifications notifies people of a business event (S1.3).
func (h *Handlers) CreateNotifications(ctx context.Context, req api.CreateNotificationsRequestObject) (api.CreateNotificationsResponseObject, error) {
	payload, err := convert.Fields(ctx, "payload")
	if err != nil {
		return nil, err
	}
	all := make([]notification.Notification, len(req.Body.Channels))
	for i, channel := range req.Body.Channels {
		all[i] = notification.Notification{
			BizType: req.Body.BizType, BizID: req.Body.BizID, Channel: channel, DedupKey: convert.NonEmpty(req.Body.DedupKey),
			NextRunAt: req.Body.NextRunTime, ExpiresAt: req.Body.ExpiresAt, StartedAt: req.Body.StartedAt, Repeat: req.Body.RepeatMinutes,
			Sign: req.Body.Sign, Operator: req.Body.Operator,
		}
	}
	users := optional.Value(req.Body.UserIds)
	switch {
	case len(users) > 0 && req.Body.Tag != nil:
		return nil, fault.InvalidField("tag", fault.NotTogether, "user_ids")
	case len(users) == 0 && req.Body.Tag == nil:
		return nil, fault.InvalidField("user_ids", fault.Required, nil)
	}
	origin, err := h.originFor(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	outcome, err := h.services.Notifications.Create(ctx, &notification.Announcement{Payload: payload, UserIDs: users, Tag: req.Body.Tag}, all, origin)
	return api.CreateNotifications200JSONResponse(notificationsMade(outcome)), err
}

func notificationsMade(o notification.Outcome) api.NotificationsMadeResponse {
	return api.NotificationsMadeResponse{Code: convert.OK, Message: convert.Success, Data: api.NotificationsMade{
		Ended: o.Ended, MoreFailed: optional.NonZero(o.HasMoreFailed),
		Items: convert.List(o.Made, func(m notification.Made) api.NotificationMade {
			return api.NotificationMade{
				NotificationID: m.ID, Channel: m.Channel, Deduplicated: m.Deduplicated, Status: api.NotificationStatus(m.Status), Remark: optional.NonZero(m.Remark),
				Replaces: replacedOf(m.Replaces),
				Failed: convert.List(m.Failed, func(f notification.Failure) api.NotificationFailure {
					return api.NotificationFailure{UserID: f.UserID, Reason: f.Reason}
				}),
			}
		}),
	}}
}

func replacedOf(r *notification.Replaced) *api.NotificationReplaced {
	if r == nil {
		return nil
	}
	return &api.NotificationReplaced{NotificationID: r.ID, Remark: r.Remark}
}

// originFor returns the origin of a request, with the company that companyNo names. If companyNo is nil, it uses the caller's company.
func (h *Handlers) originFor(ctx context.Context, companyNo *string) (origin submit.Origin, err error) {
	origin = gate.Of(ctx).Origin
	origin.CompanyID, err = h.scope.CompanyID(ctx, companyNo)
	return origin, convert.UnknownCompany(err)
}

// TakeEvent accepts an event of a business task (S1.4).
func (h *Handlers) TakeEvent(ctx context.Context, req api.TakeEventRequestObject) (api.TakeEventResponseObject, error) {
	payload, err := convert.Fields(ctx, "payload")
	if err != nil {
		return nil, err
	}
	b := req.Body
	e := notification.Event{
		Name: string(b.Event), TaskID: b.TaskID, NodeID: b.NodeInstID, Channels: b.Channels, Payload: payload,
		UserIDs: optional.Value(b.UserIds), Initiator: optional.Value(b.Initiator), StartedAt: b.StartedAt, EndedAt: b.FinishedAt, MaxMins: b.MaxDuration, Repeat: b.TimeoutRemind,
		Sign: b.Sign, Operator: b.Operator,
		Orbits: convert.List(optional.Value(b.Orbits), func(o api.Orbit) notification.Orbit { return notification.Orbit{No: o.OrbitNo, InTime: o.InTime} }),
	}
	origin, err := h.originFor(ctx, b.CompanyNo)
	if err != nil {
		return nil, err
	}
	outcome, err := h.services.Notifications.ProcessEvent(ctx, e, origin)
	return api.TakeEvent200JSONResponse(notificationsMade(outcome)), err
}

// ListNotifications pages through notifications, newest first.
func (h *Handlers) ListNotifications(ctx context.Context, req api.ListNotificationsRequestObject) (api.ListNotificationsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	seen := caller.Viewer(ctx)
	if req.Params.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
		if err != nil {
			return nil, err
		}
		seen.CompanyID = &company
	}
	rows, end, err := h.services.Notifications.List(ctx, notification.Filter{
		Viewer: seen, BizType: req.Params.BizType, BizID: req.Params.BizID, Channel: req.Params.Channel,
		UserID: req.Params.UserID, SubmittedBy: req.Params.SubmittedBy, Status: (*int16)(req.Params.Status), Before: before, Limit: limit + 1,
	})
	items, next := paging.Page(rows, limit, summaryOf, func(row notification.Row) string { return paging.IDText(row.ID) })
	if end > 0 {
		next = new(paging.CursorOf(paging.IDText(end)))
	}
	return api.ListNotifications200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.NotificationPage{Items: items, NextCursor: next}}, err
}

// GetNotification shows a notification with its recipients.
func (h *Handlers) GetNotification(ctx context.Context, req api.GetNotificationRequestObject) (api.GetNotificationResponseObject, error) {
	n, err := h.services.Notifications.Get(ctx, caller.Viewer(ctx), req.ID)
	if err != nil {
		return nil, err
	}
	payload, err := jsonbody.Fields(n.Announcement.Payload)
	if err != nil {
		return nil, err
	}
	recipients := convert.List(n.People, func(p notification.PersonRow) api.NotificationRecipient {
		return api.NotificationRecipient{
			UserID: p.UserID, TaskID: p.TaskID, Address: p.Recipient, Status: api.RecipientStatus(p.Status), RetryCount: p.RetryCount,
			DueAt: p.DueAt, SentAt: p.SentAt, LastError: optional.NonZero(p.LastError), ExternalMsgid: p.ProviderNo, Times: p.Times,
			Delivery: convert.Delivery(p.Delivery), DeliveryCode: p.DeliveryCode,
		}
	})
	heldBy := []explain.Switch{}
	if n.Summary.Status == notification.Waiting {
		countries, err := h.services.Notifications.Countries(ctx, req.ID)
		if err != nil {
			return nil, err
		}
		heldBy, err = h.services.Explain.HeldBy(ctx, explain.Messages{
			Channel: n.Summary.Channel, CompanyID: n.Summary.CompanyID, MessageType: submit.Notification, Submitter: n.Summary.SubmittedBy, Countries: countries,
		})
		if err != nil {
			return nil, err
		}
	}
	of := summaryOf(n.Summary)
	one := api.NotificationView{
		NotificationID: of.NotificationID, CompanyNo: of.CompanyNo, Channel: of.Channel, BizType: of.BizType, BizID: of.BizID, DedupKey: of.DedupKey,
		Status: of.Status, People: of.People, Succeeded: of.Succeeded, RetryCount: of.RetryCount, NextRunTime: of.NextRunTime,
		RepeatMinutes: of.RepeatMinutes, StartedAt: of.StartedAt, ExpiresAt: of.ExpiresAt, Sign: of.Sign, Remark: of.Remark,
		Operator: of.Operator, SubmittedBy: of.SubmittedBy, ChangedBy: of.ChangedBy, CreatedAt: of.CreatedAt, UpdatedAt: of.UpdatedAt,
		Payload: payload, UserIds: n.Announcement.UserIds, Tag: n.Announcement.Tag, Recipients: &recipients,
		Delivered: &n.Receipts.Delivered, Undelivered: &n.Receipts.Undelivered, HeldBy: new(convert.Switches(heldBy)),
	}
	return api.GetNotification200JSONResponse{Code: convert.OK, Message: convert.Success, Data: one}, nil
}

func summaryOf(n notification.Row) api.NotificationSummary {
	return api.NotificationSummary{
		NotificationID: n.ID, CompanyNo: n.CompanyNo, Channel: n.Channel, BizType: n.BizType, BizID: n.BizID, DedupKey: n.DedupKey,
		Status: api.NotificationStatus(n.Status), People: n.People, Succeeded: n.Succeeded, RetryCount: n.Retries,
		NextRunTime: n.NextRunTime, RepeatMinutes: n.RepeatMinutes, StartedAt: n.StartedAt, ExpiresAt: n.ExpiresAt, Sign: n.Sign,
		Remark: n.Remark, Operator: n.Operator, SubmittedBy: n.SubmittedBy, ChangedBy: n.ChangedBy, CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt,
	}
}

// EndNotifications cancels or ends notifications (S1.6).
func (h *Handlers) EndNotifications(ctx context.Context, req api.EndNotificationsRequestObject) (api.EndNotificationsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, convert.UnknownCompany(err)
	}
	expected := []int16{notification.Waiting}
	if req.Body.ExpectedStatuses != nil {
		expected = convert.List(*req.Body.ExpectedStatuses, func(e api.NotificationEndRequestExpectedStatuses) int16 { return int16(e) })
	}
	n, err := h.services.Notifications.End(ctx, company, caller.Viewer(ctx).Owner, []int16{req.Body.BizType}, req.Body.BizIds,
		int16(req.Body.Status), expected, actsFor(ctx, req.Body.Operator))
	return api.EndNotifications200JSONResponse(changed(n)), err
}

// actsFor returns the caller, together with the operator for whom the caller acts.
func actsFor(ctx context.Context, operator *string) notification.By {
	return notification.By{User: gate.Of(ctx).Caller.User.Username, Operator: operator}
}

func changed(n int) api.ChangedResponse {
	return api.ChangedResponse{Code: convert.OK, Message: convert.Success, Data: api.Changed{Changed: n}}
}

// DeleteNotifications deletes notifications (S1.6).
func (h *Handlers) DeleteNotifications(ctx context.Context, req api.DeleteNotificationsRequestObject) (api.DeleteNotificationsResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	n, err := h.services.Notifications.Delete(ctx, company, caller.Viewer(ctx).Owner, req.Params.BizType, req.Params.BizIds, actsFor(ctx, req.Params.Operator))
	return api.DeleteNotifications200JSONResponse(changed(n)), err
}
