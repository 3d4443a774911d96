package admin

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/setting"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// GetSettings shows every setting.
func (h *Handlers) GetSettings(ctx context.Context, _ api.GetSettingsRequestObject) (api.GetSettingsResponseObject, error) {
	values, err := h.services.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := settingsAnswer(values)
	return api.GetSettings200JSONResponse(answer), err
}

// PutSettings changes settings.
func (h *Handlers) PutSettings(ctx context.Context, _ api.PutSettingsRequestObject) (api.PutSettingsResponseObject, error) {
	values, err := h.change(ctx, gate.Of(ctx).Body.Plain)
	if err != nil {
		return nil, err
	}
	answer, err := settingsAnswer(values)
	return api.PutSettings200JSONResponse(answer), err
}

// GetSettingsCategory shows the settings of one category.
func (h *Handlers) GetSettingsCategory(ctx context.Context, req api.GetSettingsCategoryRequestObject) (api.GetSettingsCategoryResponseObject, error) {
	values, err := h.services.Settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := categoryAnswer(values, req.Category)
	return api.GetSettingsCategory200JSONResponse(answer), err
}

// PutSettingsCategory changes settings of one category. The request must match the schema that the contract defines for PutSettings.
func (h *Handlers) PutSettingsCategory(ctx context.Context, req api.PutSettingsCategoryRequestObject) (api.PutSettingsCategoryResponseObject, error) {
	body, err := json.Marshal(map[api.Category]json.RawMessage{req.Category: gate.Of(ctx).Body.Plain})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if err := h.services.Gate.CheckSettings(body); err != nil {
		return nil, err
	}
	values, err := h.change(ctx, body)
	if err != nil {
		return nil, err
	}
	answer, err := categoryAnswer(values, req.Category)
	return api.PutSettingsCategory200JSONResponse(answer), err
}

// change stores the changes of a request body that matches the contract.
func (h *Handlers) change(ctx context.Context, body []byte) (setting.Values, error) {
	var changes map[string]map[string]json.RawMessage
	if err := json.Unmarshal(body, &changes); err != nil {
		return setting.Values{}, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	return h.services.Settings.Put(ctx, changes, gate.Of(ctx).Caller.User.Username)
}

// settingsAnswer returns the response with v. setting.Values and the contract use the same names; a test compares them.
func settingsAnswer(v setting.Values) (api.SettingsResponse, error) {
	a := api.SettingsResponse{Code: convert.OK, Message: convert.Success}
	return a, copySettings(v, &a.Data)
}

func categoryAnswer(v setting.Values, category api.Category) (api.CategoryResponse, error) {
	var all map[api.Category]map[string]any
	err := copySettings(v, &all)
	return api.CategoryResponse{Code: convert.OK, Message: convert.Success, Data: all[category]}, err
}

// copySettings copies v to form, which has the same JSON names.
func copySettings(v setting.Values, form any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, form)
	}
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
