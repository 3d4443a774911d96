package insight

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// CreateAlertRule adds a rule.
func (h *Handlers) CreateAlertRule(ctx context.Context, req api.CreateAlertRuleRequestObject) (api.CreateAlertRuleResponseObject, error) {
	r := alert.NewSettings(string(req.Body.Kind), string(req.Body.Level))
	r.Name, r.Threshold, r.WindowSeconds, r.SilencedUntil = req.Body.Name, req.Body.Threshold, req.Body.WindowSeconds, req.Body.SilencedUntil
	convert.Set(&r.ForSeconds, req.Body.ForSeconds)
	convert.Set(&r.ResolveSeconds, req.Body.ResolveSeconds)
	convert.Set(&r.RepeatSeconds, req.Body.RepeatSeconds)
	r.CompanyNo, r.Channel, r.SenderNo = req.Body.CompanyNo, req.Body.Channel, req.Body.SenderNo
	convert.Set(&r.Receivers, req.Body.Receivers)
	convert.Set(&r.IsEnabled, req.Body.Enabled)
	row, err := h.services.Alerts.CreateRule(ctx, string(req.Body.Kind), r)
	return api.CreateAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// ListAlertRules pages through rules, newest first.
func (h *Handlers) ListAlertRules(ctx context.Context, req api.ListAlertRulesRequestObject) (api.ListAlertRulesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Alerts.Rules(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, func(r alert.RuleRow) api.AlertRule { return alertRuleOf(ctx, r) },
		func(r alert.RuleRow) string { return paging.IDText(r.ID) })
	return api.ListAlertRules200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.AlertRulePage{Items: items, NextCursor: next}}, err
}

// GetAlertRule shows one rule.
func (h *Handlers) GetAlertRule(ctx context.Context, req api.GetAlertRuleRequestObject) (api.GetAlertRuleResponseObject, error) {
	row, err := h.services.Alerts.Rule(ctx, req.RuleNo)
	return api.GetAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// UpdateAlertRule changes a rule.
func (h *Handlers) UpdateAlertRule(ctx context.Context, req api.UpdateAlertRuleRequestObject) (api.UpdateAlertRuleResponseObject, error) {
	p := req.Body
	row, err := h.services.Alerts.UpdateRule(ctx, req.RuleNo, p.Version, func(to *alert.Settings) {
		convert.SetNullable(&to.Name, p.Name)
		convert.Set(&to.Level, (*string)(p.Level))
		convert.SetNullable(&to.Threshold, p.Threshold)
		if p.WindowSeconds != nil {
			to.WindowSeconds = p.WindowSeconds
		}
		convert.Set(&to.ForSeconds, p.ForSeconds)
		convert.Set(&to.ResolveSeconds, p.ResolveSeconds)
		convert.Set(&to.RepeatSeconds, p.RepeatSeconds)
		convert.SetNullable(&to.SilencedUntil, p.SilencedUntil)
		convert.SetNullable(&to.CompanyNo, p.CompanyNo)
		convert.SetNullable(&to.Channel, p.Channel)
		convert.SetNullable(&to.SenderNo, p.SenderNo)
		if p.Receivers.IsSpecified() {
			to.Receivers = optional.Value(convert.Given(p.Receivers))
		}
		convert.Set(&to.IsEnabled, p.Enabled)
	})
	return api.UpdateAlertRule200JSONResponse(alertRuleAnswer(ctx, row)), err
}

// DeleteAlertRule removes a rule.
func (h *Handlers) DeleteAlertRule(ctx context.Context, req api.DeleteAlertRuleRequestObject) (api.DeleteAlertRuleResponseObject, error) {
	err := h.services.Alerts.DeleteRule(ctx, req.RuleNo)
	return api.DeleteAlertRule200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func alertRuleAnswer(ctx context.Context, r alert.RuleRow) api.AlertRuleResponse {
	return api.AlertRuleResponse{Code: convert.OK, Message: convert.Success, Data: alertRuleOf(ctx, r)}
}

func alertRuleOf(ctx context.Context, r alert.RuleRow) api.AlertRule {
	return api.AlertRule{
		RuleNo: r.ID, Name: gate.Of(ctx).Text.Alerts.RuleName(r), Kind: api.AlertKind(r.Kind), Level: api.AlertLevel(r.Level), Threshold: r.Threshold,
		WindowSeconds: r.WindowSeconds, ForSeconds: r.ForSeconds, ResolveSeconds: r.ResolveSeconds, RepeatSeconds: r.RepeatSeconds,
		SilencedUntil: r.SilencedUntil, CompanyNo: r.CompanyNo, Channel: r.Channel, SenderNo: r.SenderNo, Receivers: convert.OptionalList(r.Receivers),
		Enabled: r.IsEnabled, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// CreateAlertReceiver adds a receiver.
func (h *Handlers) CreateAlertReceiver(ctx context.Context, req api.CreateAlertReceiverRequestObject) (api.CreateAlertReceiverResponseObject, error) {
	row, err := h.services.Alerts.CreateReceiver(ctx, string(req.Body.Kind), alert.Receiver{
		EscalateSeconds: optional.Or(req.Body.EscalateSeconds, alert.EscalateSeconds),
		Name:            req.Body.Name, Language: string(optional.Or(req.Body.Language, api.AlertInChinese)), CompanyNo: req.Body.CompanyNo,
		Channels: optional.Value(req.Body.Channels), UserIDs: optional.Value(req.Body.UserIds), URL: req.Body.URL,
		Authorization: req.Body.Authorization,
	})
	return api.CreateAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// ListAlertReceivers pages through receivers, newest first.
func (h *Handlers) ListAlertReceivers(ctx context.Context, req api.ListAlertReceiversRequestObject) (api.ListAlertReceiversResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Alerts.Receivers(ctx, before, limit+1)
	items, next := paging.Page(rows, limit, alertReceiverOf, func(r alert.ReceiverRow) string { return paging.IDText(r.ID) })
	return api.ListAlertReceivers200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.AlertReceiverPage{Items: items, NextCursor: next}}, err
}

// GetAlertReceiver shows one receiver.
func (h *Handlers) GetAlertReceiver(ctx context.Context, req api.GetAlertReceiverRequestObject) (api.GetAlertReceiverResponseObject, error) {
	row, err := h.services.Alerts.Receiver(ctx, req.ReceiverNo)
	return api.GetAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// UpdateAlertReceiver changes a receiver.
func (h *Handlers) UpdateAlertReceiver(ctx context.Context, req api.UpdateAlertReceiverRequestObject) (api.UpdateAlertReceiverResponseObject, error) {
	p := req.Body
	row, err := h.services.Alerts.UpdateReceiver(ctx, req.ReceiverNo, p.Version, func(to *alert.Receiver) {
		convert.Set(&to.Name, p.Name)
		convert.Set(&to.Language, (*string)(p.Language))
		if p.CompanyNo != nil {
			to.CompanyNo = p.CompanyNo
		}
		convert.Set(&to.Channels, p.Channels)
		convert.Set(&to.UserIDs, p.UserIds)
		if p.URL != nil {
			to.URL = p.URL
		}
		convert.Set(&to.EscalateSeconds, p.EscalateSeconds)
		to.Authorization, to.IsOpen = convert.Given(p.Authorization), p.Authorization.IsNull()
	})
	return api.UpdateAlertReceiver200JSONResponse(alertReceiverAnswer(row)), err
}

// DeleteAlertReceiver removes a receiver.
func (h *Handlers) DeleteAlertReceiver(ctx context.Context, req api.DeleteAlertReceiverRequestObject) (api.DeleteAlertReceiverResponseObject, error) {
	err := h.services.Alerts.DeleteReceiver(ctx, req.ReceiverNo)
	return api.DeleteAlertReceiver200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func alertReceiverAnswer(r alert.ReceiverRow) api.AlertReceiverResponse {
	return api.AlertReceiverResponse{Code: convert.OK, Message: convert.Success, Data: alertReceiverOf(r)}
}

func alertReceiverOf(r alert.ReceiverRow) api.AlertReceiver {
	return api.AlertReceiver{
		ReceiverNo: r.ID, Name: r.Name, Kind: api.AlertReceiverKind(r.Kind), Language: api.AlertLanguage(r.Language), CompanyNo: r.CompanyNo,
		Channels: convert.OptionalList(r.Channels), UserIds: convert.OptionalList(r.UserIds), URL: r.Url, HasAuthorization: r.SealedAuthorization != nil,
		EscalateSeconds: &r.EscalateSeconds,
		FailingSince:    r.FailingSince, Error: r.Error, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
