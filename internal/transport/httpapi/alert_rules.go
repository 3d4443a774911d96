package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// CreateAlertRule adds a rule.
func (s *Server) CreateAlertRule(ctx context.Context, req api.CreateAlertRuleRequestObject) (api.CreateAlertRuleResponseObject, error) {
	r := alert.NewSettings(string(req.Body.Kind), string(req.Body.Level))
	r.Name, r.Threshold, r.WindowSeconds, r.SilencedUntil = req.Body.Name, req.Body.Threshold, req.Body.WindowSeconds, req.Body.SilencedUntil
	set(&r.ForSeconds, req.Body.ForSeconds)
	set(&r.ResolveSeconds, req.Body.ResolveSeconds)
	set(&r.RepeatSeconds, req.Body.RepeatSeconds)
	r.CompanyNo, r.Channel, r.SenderNo = req.Body.CompanyNo, req.Body.Channel, req.Body.SenderNo
	set(&r.Receivers, req.Body.Receivers)
	set(&r.IsEnabled, req.Body.Enabled)
	row, err := s.alerts.CreateRule(ctx, string(req.Body.Kind), r)
	return api.CreateAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// ListAlertRules pages through rules, newest first.
func (s *Server) ListAlertRules(ctx context.Context, req api.ListAlertRulesRequestObject) (api.ListAlertRulesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.alerts.Rules(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, func(r dbq.AlertRuleListRow) api.AlertRule { return alertRuleOf(ctx, r) },
		func(r dbq.AlertRuleListRow) string { return paging.IDText(r.ID) })
	return api.ListAlertRules200JSONResponse{Code: ok, Message: success, Data: api.AlertRulePage{Items: items, NextCursor: next}}, err
}

// GetAlertRule shows one rule.
func (s *Server) GetAlertRule(ctx context.Context, req api.GetAlertRuleRequestObject) (api.GetAlertRuleResponseObject, error) {
	row, err := s.alerts.Rule(ctx, req.RuleNo)
	return api.GetAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// UpdateAlertRule changes a rule.
func (s *Server) UpdateAlertRule(ctx context.Context, req api.UpdateAlertRuleRequestObject) (api.UpdateAlertRuleResponseObject, error) {
	p := req.Body
	row, err := s.alerts.UpdateRule(ctx, req.RuleNo, p.Version, func(to *alert.Settings) {
		setNullable(&to.Name, p.Name)
		set(&to.Level, (*string)(p.Level))
		setNullable(&to.Threshold, p.Threshold)
		if p.WindowSeconds != nil {
			to.WindowSeconds = p.WindowSeconds
		}
		set(&to.ForSeconds, p.ForSeconds)
		set(&to.ResolveSeconds, p.ResolveSeconds)
		set(&to.RepeatSeconds, p.RepeatSeconds)
		setNullable(&to.SilencedUntil, p.SilencedUntil)
		setNullable(&to.CompanyNo, p.CompanyNo)
		setNullable(&to.Channel, p.Channel)
		setNullable(&to.SenderNo, p.SenderNo)
		if p.Receivers.IsSpecified() {
			to.Receivers = optional.Value(given(p.Receivers))
		}
		set(&to.IsEnabled, p.Enabled)
	})
	return api.UpdateAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// DeleteAlertRule removes a rule.
func (s *Server) DeleteAlertRule(ctx context.Context, req api.DeleteAlertRuleRequestObject) (api.DeleteAlertRuleResponseObject, error) {
	err := s.alerts.DeleteRule(ctx, req.RuleNo)
	return api.DeleteAlertRule200JSONResponse{DoneJSONResponse: done()}, err
}

func alertRuleAnswer(ctx context.Context, r dbq.AlertRuleListRow) api.AlertRuleResponse {
	return api.AlertRuleResponse{Code: ok, Message: success, Data: alertRuleOf(ctx, r)}
}

func alertRuleOf(ctx context.Context, r dbq.AlertRuleListRow) api.AlertRule {
	return api.AlertRule{
		RuleNo: r.ID, Name: gate.Of(ctx).Text.Alerts.RuleName(r), Kind: api.AlertKind(r.Kind), Level: api.AlertLevel(r.Level), Threshold: r.Threshold,
		WindowSeconds: r.WindowSeconds, ForSeconds: r.ForSeconds, ResolveSeconds: r.ResolveSeconds, RepeatSeconds: r.RepeatSeconds,
		SilencedUntil: r.SilencedUntil, CompanyNo: r.CompanyNo, Channel: r.Channel, SenderNo: r.SenderNo, Receivers: listOf(r.Receivers),
		Enabled: r.IsEnabled, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// listOf makes null of a list that is not set.
func listOf[T any](list []T) *[]T {
	if list == nil {
		return nil
	}
	return &list
}

// CreateAlertReceiver adds a receiver.
func (s *Server) CreateAlertReceiver(ctx context.Context, req api.CreateAlertReceiverRequestObject) (api.CreateAlertReceiverResponseObject, error) {
	row, err := s.alerts.CreateReceiver(ctx, string(req.Body.Kind), alert.Receiver{
		EscalateSeconds: optional.Or(req.Body.EscalateSeconds, alert.EscalateSeconds),
		Name:            req.Body.Name, Language: string(optional.Or(req.Body.Language, api.AlertInChinese)), CompanyNo: req.Body.CompanyNo,
		Channels: optional.Value(req.Body.Channels), UserIDs: optional.Value(req.Body.UserIds), URL: req.Body.URL,
		Authorization: req.Body.Authorization,
	})
	return api.CreateAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// ListAlertReceivers pages through receivers, newest first.
func (s *Server) ListAlertReceivers(ctx context.Context, req api.ListAlertReceiversRequestObject) (api.ListAlertReceiversResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.alerts.Receivers(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, alertReceiverOf, func(r dbq.AlertReceiverListRow) string { return paging.IDText(r.ID) })
	return api.ListAlertReceivers200JSONResponse{Code: ok, Message: success, Data: api.AlertReceiverPage{Items: items, NextCursor: next}}, err
}

// GetAlertReceiver shows one receiver.
func (s *Server) GetAlertReceiver(ctx context.Context, req api.GetAlertReceiverRequestObject) (api.GetAlertReceiverResponseObject, error) {
	row, err := s.alerts.Receiver(ctx, req.ReceiverNo)
	return api.GetAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// UpdateAlertReceiver changes a receiver.
func (s *Server) UpdateAlertReceiver(ctx context.Context, req api.UpdateAlertReceiverRequestObject) (api.UpdateAlertReceiverResponseObject, error) {
	p := req.Body
	row, err := s.alerts.UpdateReceiver(ctx, req.ReceiverNo, p.Version, func(to *alert.Receiver) {
		set(&to.Name, p.Name)
		set(&to.Language, (*string)(p.Language))
		if p.CompanyNo != nil {
			to.CompanyNo = p.CompanyNo
		}
		set(&to.Channels, p.Channels)
		set(&to.UserIDs, p.UserIds)
		if p.URL != nil {
			to.URL = p.URL
		}
		set(&to.EscalateSeconds, p.EscalateSeconds)
		to.Authorization, to.IsOpen = given(p.Authorization), p.Authorization.IsNull()
	})
	return api.UpdateAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// DeleteAlertReceiver removes a receiver.
func (s *Server) DeleteAlertReceiver(ctx context.Context, req api.DeleteAlertReceiverRequestObject) (api.DeleteAlertReceiverResponseObject, error) {
	err := s.alerts.DeleteReceiver(ctx, req.ReceiverNo)
	return api.DeleteAlertReceiver200JSONResponse{DoneJSONResponse: done()}, err
}

func alertReceiverAnswer(r dbq.AlertReceiverListRow) api.AlertReceiverResponse {
	return api.AlertReceiverResponse{Code: ok, Message: success, Data: alertReceiverOf(r)}
}

func alertReceiverOf(r dbq.AlertReceiverListRow) api.AlertReceiver {
	return api.AlertReceiver{
		ReceiverNo: r.ID, Name: r.Name, Kind: api.AlertReceiverKind(r.Kind), Language: api.AlertLanguage(r.Language), CompanyNo: r.CompanyNo,
		Channels: listOf(r.Channels), UserIds: listOf(r.UserIds), URL: r.Url, HasAuthorization: r.SealedAuthorization != nil,
		EscalateSeconds: &r.EscalateSeconds,
		FailingSince:    r.FailingSince, Error: r.Error, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
