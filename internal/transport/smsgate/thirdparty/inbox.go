package thirdparty

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgate/mobile"
)

// These are the limits of a page of the inbox, as in SMSGate.
const defaultInbox, maxInbox = 50, 500

// incomingTypes contains the types of messages in the inbox. This server stores only text messages.
var incomingTypes = []string{typeSMS, "DATA_SMS", "MMS", "MMS_DOWNLOADED"}

const typeSMS = "SMS"

// incoming is a received message in the format of SMSGate.
type incoming struct {
	ID             string    `json:"id"`
	Type           string    `json:"type"`
	Sender         string    `json:"sender"`
	Recipient      *string   `json:"recipient,omitempty"`
	SimNumber      *int16    `json:"simNumber,omitempty"`
	ContentPreview string    `json:"contentPreview"` // the whole text
	CreatedAt      time.Time `json:"createdAt"`
}

// inbox lists the answers to messages of the caller, newest first.
func (s *server) inbox(w http.ResponseWriter, r *http.Request) error {
	query, origin := r.URL.Query(), gate.Of(r.Context()).Origin
	f := received.InboxFilter{CompanyID: origin.CompanyID, Owner: &origin.User, Limit: defaultInbox}
	page, err := pageOf(query, f.Limit)
	if err != nil {
		return err
	}
	f.Limit, f.Offset, f.From, f.To, f.SenderNo = page.limit, page.offset, page.from, page.to, page.deviceID
	switch kind := query.Get("type"); {
	case f.Limit < 1:
		return fault.InvalidField("limit", fault.TooSmall, 1)
	case f.Limit > maxInbox:
		return fault.InvalidField("limit", fault.TooBig, maxInbox)
	case f.Offset < 0:
		return fault.InvalidField("offset", fault.TooSmall, 0)
	case kind != "" && !slices.Contains(incomingTypes, kind):
		return fault.InvalidField("type", fault.NotAllowed, incomingTypes)
	case kind != "" && kind != typeSMS:
		f.Limit = 0
	}
	rows, total, err := s.Received.Inbox(r.Context(), f)
	if err != nil {
		return err
	}
	all := make([]incoming, len(rows))
	for i, row := range rows {
		all[i] = incoming{
			ID: strconv.FormatInt(row.ID, 10), Type: typeSMS, Sender: row.PhoneNumber, Recipient: row.OwnNumber, SimNumber: row.Sim,
			ContentPreview: row.Content, CreatedAt: row.At,
		}
	}
	w.Header().Set("X-Total-Count", strconv.FormatInt(total, 10))
	write(w, http.StatusOK, all)
	return nil
}

// refresh asks phones to post the messages of a period that their app has not posted yet.
func (s *server) refresh(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		DeviceID     *string  `json:"deviceId"`
		Since        *instant `json:"since"`
		Until        *instant `json:"until"`
		MessageTypes []string `json:"messageTypes"`
	}
	if err := read(r, &asked); err != nil {
		return err
	}
	switch {
	case asked.Since == nil:
		return fault.InvalidField("since", fault.Required, nil)
	case asked.Until == nil:
		return fault.InvalidField("until", fault.Required, nil)
	case time.Time(*asked.Since).After(time.Time(*asked.Until)):
		return refuse("since: must not be after until")
	case asked.MessageTypes != nil && !slices.Contains(asked.MessageTypes, typeSMS):
		return &refusal{http.StatusNotImplemented, "messageTypes: this server receives only SMS"}
	}
	devices, err := s.devicesOf(r.Context(), gate.Of(r.Context()).Origin, asked.DeviceID)
	if err != nil {
		return err
	}
	phones, err := s.Phones.AskExport(r.Context(), devices, mobile.Export{Since: time.Time(*asked.Since), Until: time.Time(*asked.Until)})
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
