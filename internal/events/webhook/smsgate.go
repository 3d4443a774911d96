package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"lksms/gen/webhookq"
	"lksms/internal/events/feed"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// smsgateEvent describes an event of SMSGate: its name, the corresponding types of the feed, and the name of the payload field with its time.
type smsgateEvent struct {
	name  string
	types []string
	time  string
}

// smsgateEvents contains the SMSGate events of messages.
var smsgateEvents = []smsgateEvent{
	{"sms:sent", []string{feed.MessageSent}, "sentAt"},
	{"sms:delivered", []string{feed.MessageDelivered}, "deliveredAt"},
	{"sms:failed", []string{feed.MessageFailed, feed.MessageExpired, feed.MessageUndelivered}, "failedAt"},
	{"sms:cancelled", []string{feed.MessageCancelled}, "cancelledAt"},
	{smsgateReceived, []string{feed.MessageReceived}, "receivedAt"},
}

// smsgateReceived is the name of the event of received messages.
const smsgateReceived = "sms:received"

// smsgatePing is the name of the event that tests a webhook.
const smsgatePing = "system:ping"

// smsgateEventOf returns the SMSGate event that corresponds to a type of the feed.
func smsgateEventOf(ofType string) smsgateEvent {
	for _, e := range smsgateEvents {
		if slices.Contains(e.types, ofType) {
			return e
		}
	}
	return smsgateEvent{} // impossible: Register and Update reject all other types
}

// smsgateForm renders the posts of a webhook. webhookID is the id of the webhook in SMSGate.
type smsgateForm struct{ webhookID string }

type smsgateBody struct {
	ID        string         `json:"id"`
	WebhookID string         `json:"webhookId"`
	Event     string         `json:"event"`
	DeviceID  string         `json:"deviceId"`
	Payload   map[string]any `json:"payload"`
}

func (f smsgateForm) body(event feed.Rendered) ([]byte, error) {
	if event.Type == feed.MessageReceived {
		return f.received(event)
	}
	var m struct {
		TaskID          string  `json:"task_id"`
		PhoneNumber     string  `json:"phone_number"`
		Result          *string `json:"result"`
		DeliveryCode    *string `json:"delivery_code"`
		ProcessingAppID string  `json:"processing_app_id"`
		Segments        int     `json:"segments"`
	}
	if err := json.Unmarshal(event.Data, &m); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	e := smsgateEventOf(event.Type)
	messageID := event.SmsgateID
	if messageID == "" {
		messageID = m.TaskID
	}
	payload := map[string]any{
		"messageId": messageID, "phoneNumber": m.PhoneNumber, "recipient": m.PhoneNumber, "sender": "", e.time: event.Timestamp,
	}
	switch e.name {
	case "sms:sent":
		payload["partsCount"] = m.Segments
	case "sms:failed": // the app sends the field reason, but the npm client of SMSGate reads the field error
		reason := optional.Or(m.Result, optional.Or(m.DeliveryCode, strings.TrimPrefix(event.Type, "message.")))
		payload["reason"], payload["error"] = reason, reason
	}
	return encoded(smsgateBody{ID: feed.IDText(event.ID), WebhookID: f.webhookID, Event: e.name, DeviceID: m.ProcessingAppID, Payload: payload})
}

// received renders the event of a received message. If the message was deleted, only its id remains.
func (f smsgateForm) received(event feed.Rendered) ([]byte, error) {
	var m struct {
		ReceivedID  int64      `json:"received_id"`
		SenderNo    string     `json:"sender_no"`
		SIM         *int16     `json:"sim"`
		PhoneNumber string     `json:"phone_number"`
		OwnNumber   *string    `json:"own_number"`
		Content     string     `json:"content"`
		ReceivedAt  *time.Time `json:"received_at"`
		CreatedAt   *time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(event.Data, &m); err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	at := event.Timestamp
	if m.ReceivedAt != nil {
		at = *m.ReceivedAt
	} else if m.CreatedAt != nil {
		at = *m.CreatedAt
	}
	return encoded(smsgateBody{ID: feed.IDText(event.ID), WebhookID: f.webhookID, Event: smsgateReceived, DeviceID: m.SenderNo, Payload: map[string]any{
		"messageId": strconv.FormatInt(m.ReceivedID, 10), "phoneNumber": m.PhoneNumber, "sender": m.PhoneNumber, "recipient": m.OwnNumber, "simNumber": m.SIM,
		"message": m.Content, "receivedAt": at,
	}})
}

func (f smsgateForm) test(_, event int64, _ time.Time) ([]byte, error) {
	return encoded(smsgateBody{ID: feed.IDText(event), WebhookID: f.webhookID, Event: smsgatePing, Payload: map[string]any{}})
}

// Registration is a webhook as an SMSGate program registers it.
type Registration struct {
	ID    string // empty: Register creates an id
	URL   string
	Event string
}

// SmsgateEvent returns the name of the SMSGate event of a webhook.
func SmsgateEvent(row Row) string { return smsgateEventOf(row.Events[0]).name }

const maxExternalID = 36

func (r Registration) check() (types []string, err error) {
	var names []string
	for _, e := range smsgateEvents {
		names = append(names, e.name)
		if e.name == r.Event {
			types = e.types
		}
	}
	switch {
	case r.Event == "":
		return nil, fault.InvalidField("event", fault.Required, nil)
	case types == nil:
		return nil, fault.InvalidField("event", fault.NotAllowed, names)
	case len([]rune(r.ID)) > maxExternalID:
		return nil, fault.InvalidField("id", fault.TooLong, maxExternalID)
	case strings.Contains(r.ID, "/"): // the id is part of a path of the API, and cannot contain a slash
		return nil, fault.InvalidField("id", fault.BadCharacters, nil)
	case len([]rune(r.URL)) > maxURL:
		return nil, fault.InvalidField("url", fault.TooLong, maxURL)
	}
	return types, nil
}

// maxURL is the maximum length of an address. The contract has the same maximum.
const maxURL = 2000

// Register adds a webhook of a user in the form of SMSGate, or replaces the webhook with the same id. All such webhooks of a user have the same signing key,
// because a phone also has one key. If the user has no key yet, Register creates a key and returns it; the key is shown only once. Otherwise key is empty.
// Faults: request.invalid, limit.reached; auth.forbidden for the configured admin, because this user has no row in the database and cannot own webhooks.
func (s *Service) Register(ctx context.Context, username string, company int64, r Registration) (row Row, key string, err error) {
	types, err := r.check()
	if err != nil {
		return row, "", err
	}
	settings := Settings{URL: r.URL, Events: types, Status: On}
	if err := settings.check(); err != nil {
		return row, "", err
	}
	if r.ID == "" {
		r.ID = ulid.MustNew(ulid.Now(), rand.Reader).String()
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		all, err := s.holdSmsgate(ctx, username, company)
		if err != nil {
			return err
		}
		_, last, err := s.feed.Listen(ctx, &company, true)
		if err != nil {
			return err
		}
		var secret string // secret of the replaced webhook
		for _, was := range all {
			if optional.Value(was.ExternalID) != r.ID {
				continue
			}
			if slices.Equal(was.Events, types) { // keep the waiting events, because a program can register its webhook at each start
				if was.Url == r.URL && was.Status == On { // skip the update, because it would end the pause of the webhook
					row = was
					return nil
				}
				row, err = s.Update(ctx, nil, was.ID, nil, func(to *Settings) { to.URL, to.Status = r.URL, On })
				return err
			}
			if secret, _, err = s.smsgateKey(ctx, all); err != nil {
				return err
			}
			if _, err := s.q.WebhookDelete(ctx, was.ID); err != nil {
				return postgres.Wrap("replace webhook", err, nil)
			}
		}
		id, err := s.q.WebhookCreate(ctx, webhookq.WebhookCreateParams{
			CompanyID: &company, Username: &username, Url: r.URL, Events: types, CreatedBy: username, AfterID: last, Form: Smsgate, ExternalID: r.ID,
		})
		if err != nil {
			return postgres.Wrap("create webhook", err, nil)
		}
		if secret == "" {
			var isNew bool
			if secret, isNew, err = s.smsgateKey(ctx, all); err != nil {
				return err
			}
			if isNew {
				key = secret
			}
		}
		row, err = s.complete(ctx, id, secret)
		return err
	})
	return row, key, err
}

// holdSmsgate returns the webhooks of a user in the form of SMSGate, newest first. It locks the user, so that no other transaction can add or delete such
// webhooks.
func (s *Service) holdSmsgate(ctx context.Context, username string, company int64) ([]Row, error) {
	if _, err := s.q.WebhookUserHold(ctx, webhookq.WebhookUserHoldParams{Username: username, CompanyID: company}); err != nil {
		return nil, postgres.Wrap("lock user", err, fault.New(fault.Forbidden, fault.AuthForbidden))
	}
	return s.ListSmsgate(ctx, username)
}

// smsgateKey returns the signing key of a user's webhooks. If no webhook has a key that can be decrypted, smsgateKey returns a new key.
func (s *Service) smsgateKey(ctx context.Context, all []Row) (key string, isNew bool, err error) {
	for _, w := range all {
		keys, err := s.secretsOf(ctx, w.ID)
		if err != nil {
			return "", false, err
		}
		if len(keys) > 0 {
			return keys[0], false, nil
		}
	}
	return newSecret(), true, nil
}

// maxList is the maximum number of webhooks of an owner. The trigger webhooks_rows_bound enforces this limit.
const maxList = 20

// ListSmsgate returns the webhooks of a user in the form of SMSGate, newest first.
func (s *Service) ListSmsgate(ctx context.Context, username string) ([]Row, error) {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{BeforeID: math.MaxInt64, Username: &username, Form: new(Smsgate), PageLimit: maxList})
	return rows, postgres.Wrap("list webhooks", err, nil)
}

// Unregister deletes a webhook of a user in the form of SMSGate by its external id. Fault: webhook.not_found.
func (s *Service) Unregister(ctx context.Context, username, externalID string) error {
	rows, err := s.q.WebhookList(ctx, webhookq.WebhookListParams{
		BeforeID: math.MaxInt64, Username: &username, Form: new(Smsgate), ExternalID: &externalID, PageLimit: 1,
	})
	row, err := postgres.One(rows, err, "get webhook", errNone)
	if err != nil {
		return err
	}
	n, err := s.q.WebhookDelete(ctx, row.ID)
	return postgres.DeletedOne(n, err, "delete webhook", errNone)
}

// minSigningKey and maxSigningKey are the minimum and maximum length of a key that a program sets.
const minSigningKey, maxSigningKey = 8, 200

// SetSigningKey sets the signing key of all webhooks of a user in the form of SMSGate, because a receiver of SMSGate expects one key. Faults: request.invalid;
// webhook.not_found if the user has no such webhook; auth.forbidden for the configured admin, as in Register.
func (s *Service) SetSigningKey(ctx context.Context, username string, company int64, key string) error {
	switch length := len([]rune(key)); {
	case length < minSigningKey:
		return fault.InvalidField("webhooks.signing_key", fault.TooShort, minSigningKey)
	case length > maxSigningKey:
		return fault.InvalidField("webhooks.signing_key", fault.TooLong, maxSigningKey)
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		all, err := s.holdSmsgate(ctx, username, company)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errNone
		}
		slices.Reverse(all) // all servers lock webhooks in the order of their ids
		for _, w := range all {
			if keys, err := s.secretsOf(ctx, w.ID); err != nil {
				return err
			} else if len(keys) == 1 && keys[0] == key { // nothing changes: a program can set the same key at each start
				continue
			}
			if err := s.replaceSecret(ctx, w.ID, key, 0); err != nil {
				return err
			}
		}
		return nil
	})
}
