package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/httpapi/gate"
	"lksms/internal/setting"
)

// GetSettings shows every setting.
func (s *Server) GetSettings(ctx context.Context, _ api.GetSettingsRequestObject) (api.GetSettingsResponseObject, error) {
	values, err := s.settings.Get(ctx)
	return api.GetSettings200JSONResponse(settingsAnswer(values)), err
}

// PutSettings changes settings.
func (s *Server) PutSettings(ctx context.Context, _ api.PutSettingsRequestObject) (api.PutSettingsResponseObject, error) {
	values, err := s.change(ctx, gate.Of(ctx).Body.Plain)
	return api.PutSettings200JSONResponse(settingsAnswer(values)), err
}

// GetSettingsCategory shows the settings of one category.
func (s *Server) GetSettingsCategory(ctx context.Context, req api.GetSettingsCategoryRequestObject) (api.GetSettingsCategoryResponseObject, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := categoryAnswer(values, req.Category)
	return api.GetSettingsCategory200JSONResponse(answer), err
}

// PutSettingsCategory changes settings of one category. Which there are the contract says of PutSettings.
func (s *Server) PutSettingsCategory(ctx context.Context, req api.PutSettingsCategoryRequestObject) (api.PutSettingsCategoryResponseObject, error) {
	body, err := json.Marshal(map[api.Category]json.RawMessage{req.Category: gate.Of(ctx).Body.Plain})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if err := s.gate.CheckSettings(body); err != nil {
		return nil, err
	}
	values, err := s.change(ctx, body)
	if err != nil {
		return nil, err
	}
	answer, err := categoryAnswer(values, req.Category)
	return api.PutSettingsCategory200JSONResponse(answer), err
}

// change makes the changes of a body that keeps to the contract.
func (s *Server) change(ctx context.Context, body []byte) (setting.Values, error) {
	var changes map[string]map[string]json.RawMessage
	if err := json.Unmarshal(body, &changes); err != nil {
		return setting.Values{}, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	return s.settings.Put(ctx, changes, gate.Of(ctx).Caller.User.Username)
}

func settingsAnswer(v setting.Values) api.SettingsResponse {
	return api.SettingsResponse{Code: ok, Message: success, Data: api.Settings{
		Queue: api.QueueSettings{
			PriorityMaxWaitSeconds: &v.Queue.PriorityMaxWait, SenderSilentAfterSeconds: &v.Queue.SenderSilentAfter,
			RegisterUnknownSenders: &v.Queue.RegisterUnknownSenders,
		},
		Sms: api.SmsSettings{
			PriorityVerification: &v.SMS.PriorityVerification, PriorityNotification: &v.SMS.PriorityNotification,
			PriorityMarketing: &v.SMS.PriorityMarketing, ScheduledEverySeconds: &v.SMS.ScheduledEvery,
		},
		Monitoring: api.MonitoringSettings{
			WaitWarningSeconds: &v.Monitoring.WaitWarning, WaitCriticalSeconds: &v.Monitoring.WaitCritical,
			WaitEmergencySeconds: &v.Monitoring.WaitEmergency, TimeZone: &v.Monitoring.TimeZone,
		},
		History: api.HistorySettings{
			PartitionWidth: (*api.HistorySettingsPartitionWidth)(&v.History.PartitionWidth), AfterDays: &v.History.AfterDays,
			Tablespace: &v.History.Tablespace, KeepDays: &v.History.KeepDays, Export: &v.History.Export, LogDays: &v.History.LogDays,
			FeedDays: &v.History.FeedDays,
		},
		Access: api.AccessSettings{SessionIdleMinutes: &v.Access.SessionIdleMinutes, SessionMaxHours: &v.Access.SessionMaxHours},
	}}
}

func categoryAnswer(v setting.Values, category api.Category) (api.CategoryResponse, error) {
	text, err := json.Marshal(v)
	var all map[api.Category]map[string]any
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return api.CategoryResponse{}, fmt.Errorf("write settings: %w", err)
	}
	return api.CategoryResponse{Code: ok, Message: success, Data: all[category]}, nil
}
