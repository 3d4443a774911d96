package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/notify"
)

// TakeCallback takes what a provider tells of messages (S3.11).
func (s *Server) TakeCallback(ctx context.Context, req api.TakeCallbackRequestObject) (api.TakeCallbackResponseObject, error) {
	x := exchangeOf(ctx)
	answer, contentType, err := s.pusher.Called(ctx, callbackOf(x, req.SenderNo))
	x.provider = req.SenderNo // also if what it says is rejected
	if notify.IsUnproven(err) {
		x.provider = ""
	}
	if err != nil {
		return nil, err
	}
	return api.TakeCallback200AsteriskResponse{Body: strings.NewReader(answer), ContentLength: int64(len(answer)), ContentType: contentType}, nil
}

func callbackOf(x *exchange, senderNo string) notify.Callback {
	return notify.Callback{
		SenderNo: senderNo, SourceIP: x.origin.SourceIP, Query: x.request.URL.Query(), Header: x.request.Header, Body: x.body, Cut: x.cut,
	}
}

// CreateNotifications tells people of a business event (S1.3).
func (s *Server) CreateNotifications(ctx context.Context, req api.CreateNotificationsRequestObject) (api.CreateNotificationsResponseObject, error) {
	payload, err := payload(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]notify.Notification, len(req.Body.Channels))
	for i, channel := range req.Body.Channels {
		all[i] = notify.Notification{
			BizType: req.Body.BizType, BizID: req.Body.BizID, Channel: channel, DedupKey: nonEmpty(req.Body.DedupKey),
			NextRunAt: req.Body.NextRunTime, ExpiresAt: req.Body.ExpiresAt, StartedAt: req.Body.StartedAt, Repeat: req.Body.RepeatMinutes,
			Sign: req.Body.Sign, Operator: req.Body.Operator,
		}
	}
	outcome, err := s.notify.Create(ctx, &notify.Announcement{Payload: payload, UserIDs: req.Body.UserIds}, all, exchangeOf(ctx).origin)
	if err != nil {
		return nil, err
	}
	return api.CreateNotifications200JSONResponse(notificationsMade(outcome)), nil
}

func notificationsMade(o notify.Outcome) api.NotificationsMadeResponse {
	var moreFailed *bool
	if o.HasMoreFailed {
		moreFailed = &o.HasMoreFailed
	}
	return api.NotificationsMadeResponse{Code: ok, Message: success, Data: api.NotificationsMade{
		Ended: o.Ended, MoreFailed: moreFailed,
		Items: convert(o.Made, func(m notify.Made) api.NotificationMade {
			return api.NotificationMade{
				NotificationID: m.ID, Channel: m.Channel, Deduplicated: m.Deduplicated, Status: api.NotificationStatus(m.Status), Remark: nonEmpty(&m.Remark),
				Failed: convert(m.Failed, func(f notify.Failure) api.NotificationFailure {
					return api.NotificationFailure{UserID: f.UserID, Reason: f.Reason}
				}),
			}
		}),
	}}
}

// TakeEvent takes what happened to a business task (S1.4).
func (s *Server) TakeEvent(ctx context.Context, req api.TakeEventRequestObject) (api.TakeEventResponseObject, error) {
	payload, err := payload(ctx)
	if err != nil {
		return nil, err
	}
	b := req.Body
	e := notify.Event{
		Name: string(b.Event), TaskID: b.TaskID, NodeID: b.NodeInstID, Channels: b.Channels, Payload: payload,
		UserIDs: value(b.UserIds), Initiator: value(b.Initiator), StartedAt: b.StartedAt, EndedAt: b.FinishedAt, MaxMins: b.MaxDuration, Repeat: b.TimeoutRemind,
		Sign: b.Sign, Operator: b.Operator,
		Orbits: convert(value(b.Orbits), func(o api.Orbit) notify.Orbit { return notify.Orbit{No: o.OrbitNo, InTime: o.InTime} }),
	}
	outcome, err := s.notify.Take(ctx, e, exchangeOf(ctx).origin)
	if err != nil {
		return nil, err
	}
	return api.TakeEvent200JSONResponse(notificationsMade(outcome)), nil
}

// ListNotifications pages through notifications, newest first.
func (s *Server) ListNotifications(ctx context.Context, req api.ListNotificationsRequestObject) (api.ListNotificationsResponseObject, error) {
	p, err := pageOf(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, before, err := s.notify.List(ctx, notify.Filter{
		Viewer: viewer(ctx), BizType: req.Params.BizType, BizID: req.Params.BizID, Channel: req.Params.Channel,
		UserID: req.Params.UserID, Status: (*int16)(req.Params.Status), Before: p.Before, Limit: p.Limit,
	})
	if err != nil {
		return nil, err
	}
	items, next := page(rows, p.Limit-1, summaryOf, func(row dbq.NotificationListRow) string { return idText(row.ID) })
	if before > 0 {
		next = new(cursorOf(idText(before)))
	}
	return api.ListNotifications200JSONResponse{Code: ok, Message: success, Data: api.NotificationPage{Items: items, NextCursor: next}}, nil
}

// GetNotification shows a notification with its recipients.
func (s *Server) GetNotification(ctx context.Context, req api.GetNotificationRequestObject) (api.GetNotificationResponseObject, error) {
	n, err := s.notify.Get(ctx, viewer(ctx), req.ID)
	if err != nil {
		return nil, err
	}
	payload, err := object(n.Announcement.Payload)
	if err != nil {
		return nil, err
	}
	recipients := convert(n.People, func(p dbq.NotificationPeopleRow) api.NotificationRecipient {
		return api.NotificationRecipient{
			UserID: p.UserID, TaskID: p.TaskID, Address: p.Recipient, Status: api.RecipientStatus(p.Status), RetryCount: p.RetryCount,
			DueAt: p.DueAt, SentAt: p.SentAt, LastError: nonEmpty(&p.LastError), ExternalMsgid: p.ProviderNo, Times: p.Times,
		}
	})
	of := summaryOf(n.Summary)
	one := api.NotificationView{
		NotificationID: of.NotificationID, Channel: of.Channel, BizType: of.BizType, BizID: of.BizID, DedupKey: of.DedupKey,
		Status: of.Status, People: of.People, Succeeded: of.Succeeded, RetryCount: of.RetryCount, NextRunTime: of.NextRunTime,
		RepeatMinutes: of.RepeatMinutes, StartedAt: of.StartedAt, ExpiresAt: of.ExpiresAt, Sign: of.Sign, Remark: of.Remark,
		Operator: of.Operator, CreatedAt: of.CreatedAt, UpdatedAt: of.UpdatedAt,
		Payload: payload, UserIds: n.Announcement.UserIds, Recipients: &recipients,
	}
	return api.GetNotification200JSONResponse{Code: ok, Message: success, Data: one}, nil
}

func summaryOf(n dbq.NotificationListRow) api.NotificationSummary {
	return api.NotificationSummary{
		NotificationID: n.ID, Channel: n.Channel, BizType: n.BizType, BizID: n.BizID, DedupKey: n.DedupKey,
		Status: api.NotificationStatus(n.Status), People: n.People, Succeeded: n.Succeeded, RetryCount: n.Retries,
		NextRunTime: n.NextRunTime, RepeatMinutes: n.RepeatMinutes, StartedAt: n.StartedAt, ExpiresAt: n.ExpiresAt, Sign: n.Sign,
		Remark: n.Remark, Operator: n.Operator, CreatedAt: n.CreatedAt, UpdatedAt: n.UpdatedAt,
	}
}

// EndNotifications cancels or ends notifications (S1.6).
func (s *Server) EndNotifications(ctx context.Context, req api.EndNotificationsRequestObject) (api.EndNotificationsResponseObject, error) {
	expected := []int16{notify.Waiting}
	if req.Body.ExpectedStatuses != nil {
		expected = convert(*req.Body.ExpectedStatuses, func(e api.NotificationEndRequestExpectedStatuses) int16 { return int16(e) })
	}
	n, err := s.notify.End(ctx, exchangeOf(ctx).origin.CompanyID, viewer(ctx).Owner, []int16{req.Body.BizType}, req.Body.BizIds, nil,
		int16(req.Body.Status), expected, req.Body.Operator)
	if err != nil {
		return nil, err
	}
	return api.EndNotifications200JSONResponse(changed(n)), nil
}

func changed(n int) api.ChangedResponse {
	return api.ChangedResponse{Code: ok, Message: success, Data: api.Changed{Changed: n}}
}

// DeleteNotifications deletes notifications (S1.6).
func (s *Server) DeleteNotifications(ctx context.Context, req api.DeleteNotificationsRequestObject) (api.DeleteNotificationsResponseObject, error) {
	n, err := s.notify.Delete(ctx, exchangeOf(ctx).origin.CompanyID, viewer(ctx).Owner, req.Params.BizType, req.Params.BizIds, req.Params.Operator)
	if err != nil {
		return nil, err
	}
	return api.DeleteNotifications200JSONResponse(changed(n)), nil
}

// SendOnce sends a subscribe message once (S2.1).
func (s *Server) SendOnce(ctx context.Context, req api.SendOnceRequestObject) (api.SendOnceResponseObject, error) {
	b := req.Body
	text, err := member(ctx, "data")
	if err != nil {
		return nil, err
	}
	data, err := object(text)
	if err != nil {
		return nil, err
	}
	row, again, err := s.notify.SendOnce(ctx, notify.Once{
		BusinessType: b.BusinessType, BusinessID: b.BusinessID, TemplateType: b.TemplateType, ReceiverUserID: b.ReceiverUserID,
		TemplateID: b.TemplateID, OpenID: value(b.ReceiverOpenid), Data: data, Page: value(b.Page), Again: value(b.Retry),
		OnUnclear: string(orElse(b.OnUnclear, api.OnUnclearFail)),
	}, exchangeOf(ctx).origin)
	if err != nil {
		return nil, err
	}
	one := onceOf(row)
	one.Deduplicated = &again
	return api.SendOnce200JSONResponse{Code: ok, Message: success, Data: one}, nil
}

// ListOnce pages through subscribe messages, newest first (S2.4); those that failed, the latest failure first.
func (s *Server) ListOnce(ctx context.Context, req api.ListOnceRequestObject) (api.ListOnceResponseObject, error) {
	f := notify.OnceFilter{
		Viewer: viewer(ctx), BusinessType: req.Params.BusinessType, BusinessID: req.Params.BusinessID,
		ReceiverUserID: req.Params.ReceiverUserID, Status: (*int16)(req.Params.SendStatus), Limit: pageSize(req.Params.Limit) + 1,
	}
	key := func(row dbq.SubscribeListRow) string { return idText(row.ID) }
	var err error
	if f.IsOfFailures() {
		key = func(row dbq.SubscribeListRow) string {
			return value(notify.FailedAt(row)).UTC().Format(time.RFC3339Nano) + "," + idText(row.ID)
		}
		f.BeforeFailure, f.Before, err = failureCursor(req.Params.Cursor)
	} else {
		f.Before, err = idCursor(req.Params.Cursor)
	}
	if err != nil {
		return nil, err
	}
	rows, err := s.notify.SentOnce(ctx, f)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, f.Limit-1, onceOf, key)
	return api.ListOnce200JSONResponse{Code: ok, Message: success, Data: api.OncePage{Items: items, NextCursor: next}}, nil
}

// OnceStatistics counts subscribe messages by kind (S2.4).
func (s *Server) OnceStatistics(ctx context.Context, _ api.OnceStatisticsRequestObject) (api.OnceStatisticsResponseObject, error) {
	rows, err := s.notify.OnceStatistics(ctx, viewer(ctx))
	if err != nil {
		return nil, err
	}
	return api.OnceStatistics200JSONResponse{Code: ok, Message: success, Data: api.OnceCounts{
		Items: convert(rows, func(r dbq.SubscribeStatisticsRow) api.OnceCount {
			return api.OnceCount{
				TemplateType: r.TemplateType, Total: r.Total, Success: r.Success, Failed: r.Failed,
				SuccessRate: math.Round(float64(r.Success)*10000/float64(r.Total)) / 100,
			}
		}),
	}}, nil
}

func onceOf(m dbq.SubscribeListRow) api.Once {
	return api.Once{
		MessageID: m.ID, BusinessType: m.BusinessType, BusinessID: m.BusinessID, TemplateType: m.TemplateType,
		ReceiverUserID: m.ReceiverUserID, TemplateID: m.TemplateID, TaskID: m.TaskID, SendStatus: api.SendStatus(m.SendStatus),
		Sends: m.Sends, OnUnclear: api.OnUnclear(m.OnUnclear), ErrorCode: nonEmpty(&m.ErrorCode), ErrorMessage: nonEmpty(&m.ErrorMessage),
		SentAt: m.SentAt, FailedAt: notify.FailedAt(m), CreatedAt: m.CreatedAt,
	}
}

// PutContacts adds contacts and changes those that are there.
func (s *Server) PutContacts(ctx context.Context, req api.PutContactsRequestObject) (api.PutContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	// The generated type does not tell null from what was left out.
	var said struct{ Contacts []map[string]json.RawMessage }
	if err := json.Unmarshal(exchangeOf(ctx).body, &said); err != nil {
		return nil, fmt.Errorf("read contacts: %w", err)
	}
	contacts := make([]notify.Contact, len(req.Body.Contacts))
	for i, c := range req.Body.Contacts {
		given := func(field string, text *string) *string {
			if _, ok := said.Contacts[i][field]; !ok {
				return nil
			}
			return new(value(text))
		}
		contacts[i] = notify.Contact{
			UserID: c.UserID, Phone: given("phone", c.Phone), DingTalkName: given("dingtalk_name", c.DingtalkName),
			WeChatOpenID: given("wechat_openid", c.WechatOpenid), Email: given("email", c.Email),
		}
	}
	n, err := s.notify.PutContacts(ctx, company, contacts)
	if err != nil {
		return nil, err
	}
	return api.PutContacts200JSONResponse(changed(n)), nil
}

// ListContacts pages through contacts by user id.
func (s *Server) ListContacts(ctx context.Context, req api.ListContactsRequestObject) (api.ListContactsResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	after, err := textCursor(req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	limit := pageSize(req.Params.Limit)
	rows, err := s.notify.Contacts(ctx, company, after, limit+1)
	if err != nil {
		return nil, err
	}
	items, next := page(rows, limit, contactOf, func(c dbq.Contact) string { return c.UserID })
	return api.ListContacts200JSONResponse{Code: ok, Message: success, Data: api.ContactPage{Items: items, NextCursor: next}}, nil
}

func contactOf(c dbq.Contact) api.Contact {
	return api.Contact{UserID: c.UserID, Phone: c.Phone, DingtalkName: c.DingtalkName, WechatOpenid: c.WechatOpenid, Email: c.Email}
}

// GetContact shows a contact.
func (s *Server) GetContact(ctx context.Context, req api.GetContactRequestObject) (api.GetContactResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	row, err := s.notify.GetContact(ctx, company, req.UserID)
	if err != nil {
		return nil, err
	}
	return api.GetContact200JSONResponse{Code: ok, Message: success, Data: contactOf(row)}, nil
}

// DeleteContact removes a contact.
func (s *Server) DeleteContact(ctx context.Context, req api.DeleteContactRequestObject) (api.DeleteContactResponseObject, error) {
	company, err := s.companyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	if err := s.notify.DeleteContact(ctx, company, req.UserID); err != nil {
		return nil, err
	}
	return api.DeleteContact200JSONResponse{DoneJSONResponse: done()}, nil
}

// ListNotificationTemplates shows all templates of notifications.
func (s *Server) ListNotificationTemplates(ctx context.Context, _ api.ListNotificationTemplatesRequestObject) (api.ListNotificationTemplatesResponseObject, error) {
	rows, err := s.notify.Templates(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	return api.ListNotificationTemplates200JSONResponse{
		Code: ok, Message: success, Data: api.NotificationTemplates{Items: convert(rows, notificationTemplateOf)},
	}, nil
}

// PutNotificationTemplate sets a template (S1.7).
func (s *Server) PutNotificationTemplate(ctx context.Context, req api.PutNotificationTemplateRequestObject) (api.PutNotificationTemplateResponseObject, error) {
	row, err := s.notify.PutTemplate(ctx, dbq.NotificationTemplatePutParams{
		BizType: req.BizType, Channel: req.Channel, Title: req.Body.Title, Content: req.Body.Content, ExternalID: value(req.Body.ExternalID),
		Sign: req.Body.Sign, IsEnabled: orElse(req.Body.Enabled, true),
	})
	if err != nil {
		return nil, err
	}
	return api.PutNotificationTemplate200JSONResponse{Code: ok, Message: success, Data: notificationTemplateOf(row)}, nil
}

// DeleteNotificationTemplate removes a template.
func (s *Server) DeleteNotificationTemplate(ctx context.Context, req api.DeleteNotificationTemplateRequestObject) (api.DeleteNotificationTemplateResponseObject, error) {
	if err := s.notify.DeleteTemplate(ctx, req.BizType, req.Channel); err != nil {
		return nil, err
	}
	return api.DeleteNotificationTemplate200JSONResponse{DoneJSONResponse: done()}, nil
}

func notificationTemplateOf(t dbq.NotificationTemplateListRow) api.NotificationTemplate {
	return api.NotificationTemplate{
		BizType: t.BizType, Channel: t.Channel, Title: t.Title, Content: t.Content, ExternalID: t.ExternalID, Sign: t.Sign, Enabled: t.IsEnabled,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}
