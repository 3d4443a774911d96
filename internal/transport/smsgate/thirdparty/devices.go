package thirdparty

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"lksms/internal/events/webhook"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/gate"
)

// device is a sender that the caller's company can choose.
type device struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	LastSeen  time.Time `json:"lastSeen"`
}

// devices lists the senders of the caller's company.
func (s *server) devices(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.Messages.Devices(r.Context(), gate.Of(r.Context()).Origin)
	if err != nil {
		return err
	}
	all := make([]device, len(rows))
	for i, row := range rows {
		all[i] = device{ID: row.SenderNo, Name: row.SenderNo, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, LastSeen: row.LastSeen}
	}
	write(w, http.StatusOK, all)
	return nil
}

// deleteDevice always returns an error: a sender serves all companies, so only administrators can delete it.
func (s *server) deleteDevice(_ http.ResponseWriter, r *http.Request) error {
	isThere, err := s.Messages.HasDevice(r.Context(), gate.Of(r.Context()).Origin, r.PathValue("id"))
	switch {
	case err != nil:
		return err
	case !isThere:
		return fault.New(fault.NotFound, fault.SenderNotFound)
	}
	return &refusal{http.StatusNotImplemented, "an administrator removes devices, with DELETE /api/v1/admin/senders/{sender_no}"}
}

// hook is a webhook in the format of SMSGate.
type hook struct {
	ID       string  `json:"id"`
	DeviceID *string `json:"deviceId"`
	URL      string  `json:"url"`
	Event    string  `json:"event"`

	SigningKey string `json:"signingKey,omitempty"` // extension of SMSGate: returned once, with the first webhook of a user
}

func hookOf(row webhook.Row) hook {
	return hook{ID: optional.Value(row.ExternalID), URL: row.Url, Event: webhook.SmsgateEvent(row)}
}

// listWebhooks lists the webhooks of the caller.
func (s *server) listWebhooks(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.Webhooks.ListSmsgate(r.Context(), gate.Of(r.Context()).Caller.User.Username)
	if err != nil {
		return err
	}
	all := make([]hook, len(rows))
	for i, row := range rows {
		all[i] = hookOf(row)
	}
	write(w, http.StatusOK, all)
	return nil
}

// registerWebhook adds a webhook of the caller, or replaces the webhook with the same id.
func (s *server) registerWebhook(w http.ResponseWriter, r *http.Request) error {
	var asked hook
	if err := read(r, &asked); err != nil {
		return err
	}
	if optional.Value(asked.DeviceID) != "" {
		return refuse("deviceId: webhooks for one device are not supported: leave deviceId out")
	}
	who := gate.Of(r.Context()).Caller.User
	row, key, err := s.Webhooks.Register(r.Context(), who.Username, who.CompanyID, webhook.Registration{
		ID: asked.ID, URL: asked.URL, Event: asked.Event,
	})
	if isForbidden(err) {
		return errNoOwner
	}
	if err != nil {
		return err
	}
	answer := hookOf(row)
	answer.SigningKey = key
	write(w, http.StatusCreated, answer)
	return nil
}

// errNoOwner rejects webhooks of the admin of the server configuration, because this admin is not stored in the database.
var errNoOwner = &refusal{http.StatusForbidden, "webhooks belong to a user: add a user with the role submit, and register with its credentials"}

func isForbidden(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Kind == fault.Forbidden
}

// deleteWebhook deletes a webhook of the caller. Like SMSGate, it also succeeds for an unknown webhook.
func (s *server) deleteWebhook(w http.ResponseWriter, r *http.Request) error {
	err := s.Webhooks.Unregister(r.Context(), gate.Of(r.Context()).Caller.User.Username, r.PathValue("id"))
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.NotFound {
		err = nil
	}
	if err != nil {
		return err
	}
	write(w, http.StatusNoContent, nil)
	return nil
}

// getSettings returns an empty object. This server has no settings of devices, and like SMSGate it does not return keys.
func (s *server) getSettings(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, struct{}{})
	return nil
}

// putSettings sets the key that signs webhooks. The server has no other settings of this API.
func (s *server) putSettings(w http.ResponseWriter, r *http.Request) error {
	sections := map[string]json.RawMessage{}
	if err := read(r, &sections); err != nil {
		return err
	}
	var key *string
	for section, raw := range sections {
		values := map[string]json.RawMessage{}
		if isNull(raw) {
			continue
		}
		if json.Unmarshal(raw, &values) != nil {
			return fault.InvalidField(section, fault.WrongFormat, nil)
		}
		for name, value := range values {
			switch {
			case isNull(value):
			case section == "webhooks" && (name == "signing_key" || name == "signingKey"): // signingKey is the name in the npm client
				if json.Unmarshal(value, &key) != nil {
					return fault.InvalidField("webhooks."+name, fault.WrongFormat, nil)
				}
			default:
				return &refusal{http.StatusNotImplemented, "settings: only webhooks.signing_key is supported; administrators configure senders"}
			}
		}
	}
	if key != nil {
		who := gate.Of(r.Context()).Caller.User
		err := s.Webhooks.SetSigningKey(r.Context(), who.Username, who.CompanyID, *key)
		var f *fault.Error
		switch {
		case isForbidden(err):
			return errNoOwner
		case errors.As(err, &f) && f.Kind == fault.NotFound:
			return &refusal{http.StatusConflict, "webhooks.signing_key: register a webhook first"}
		case err != nil:
			return err
		}
	}
	write(w, http.StatusOK, struct{}{})
	return nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }
