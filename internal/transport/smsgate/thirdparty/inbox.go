package thirdparty

import (
	"context"
	"net/http"
	"slices"
	"time"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgate/mobile"
)

const typeSMS = "SMS"

// refresh asks phones to post the messages of a period that their app has not posted yet.
func (s *server) refresh(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		DeviceID     *string    `json:"deviceId"`
		Since        *time.Time `json:"since"`
		Until        *time.Time `json:"until"`
		MessageTypes []string   `json:"messageTypes"`
	}
	if err := read(r, &asked); err != nil {
		return err
	}
	switch {
	case asked.Since == nil:
		return fault.InvalidField("since", fault.Required, nil)
	case asked.Until == nil:
		return fault.InvalidField("until", fault.Required, nil)
	case asked.Since.After(*asked.Until):
		return refuse("since: must not be after until")
	case asked.MessageTypes != nil && !slices.Contains(asked.MessageTypes, typeSMS):
		return &refusal{http.StatusNotImplemented, "messageTypes: this server receives only SMS"}
	}
	devices, err := s.devicesOf(r.Context(), gate.Of(r.Context()).Origin, asked.DeviceID)
	if err != nil {
		return err
	}
	phones, err := s.Phones.AskExport(r.Context(), devices, mobile.Export{Since: *asked.Since, Until: *asked.Until})
	if err != nil {
		return err
	}
	if phones == 0 {
		return &refusal{http.StatusNotImplemented, "no device is a phone with the app of SMSGate that posts to this server"}
	}
	write(w, http.StatusAccepted, nil)
	return nil
}

// devicesOf returns the sender that a caller names, or all senders of its company. Fault: sender.not_found.
func (s *server) devicesOf(ctx context.Context, origin submit.Origin, deviceID *string) (all []string, err error) {
	if deviceID != nil && *deviceID != "" {
		isThere, err := s.Messages.HasDevice(ctx, origin, *deviceID)
		if err == nil && !isThere {
			err = fault.New(fault.NotFound, fault.SenderNotFound)
		}
		return []string{*deviceID}, err
	}
	rows, err := s.Messages.Devices(ctx, origin)
	for _, row := range rows {
		all = append(all, row.SenderNo)
	}
	return all, err
}
