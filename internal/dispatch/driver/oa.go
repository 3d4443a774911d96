package driver

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/standardwebhooks"
)

// oa posts each message as JSON, with a signature of Standard Webhooks (S1.11).
type oa struct {
	config struct {
		URL            string         `json:"url"`
		Secret         string         `json:"secret"` // base64 with the prefix whsec_, or any text
		Answer         provider.Reply `json:"answer"` // if Answer defines no success, 2xx means success, as in Standard Webhooks
		TimeoutSeconds float64        `json:"timeoutSeconds"`
	}
	key    []byte
	tools  provider.Tools
	client *http.Client
	limit  time.Duration
}

// oaAtOnce is the maximum number of concurrent calls.
const oaAtOnce = 8

func newOA(config []byte, t provider.Tools) (Driver, error) {
	d := &oa{tools: t}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	if err := required(field{"url", d.config.URL}, field{"secret", d.config.Secret}); err != nil {
		return nil, err
	}
	if err := address("url", d.config.URL); err != nil {
		return nil, err
	}
	var err error
	if d.key, err = standardwebhooks.Key(d.config.Secret); err != nil {
		return nil, fault.InvalidField("config.secret", fault.WrongFormat, nil)
	}
	if len(d.key) == 0 { // anyone can sign with an empty key
		return nil, fault.InvalidField("config.secret", fault.Empty, nil)
	}
	if err := d.config.Answer.Check(); err != nil {
		return nil, err
	}
	d.limit, err = timeout(d.config.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

func (d *oa) review(hasReceipts bool) error { return d.config.Answer.Review(hasReceipts) } //nolint:wrapcheck // the error is a fault

func (d *oa) Target() string { return target(d.config.URL) }

func (d *oa) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	provider.NewAttempts(ctx, d.limit, d.tools).Each(messages, oaAtOnce, report, d.call)
}

// call posts a message. The webhook-id is the task id, so that the receiver can recognise a repeated message.
func (d *oa) call(ctx context.Context, m provider.Message) provider.Outcome {
	body, err := json.Marshal(map[string]any{
		"id": m.TaskID, "attempt": m.Attempt, "lease_id": m.LeaseID, "entered_at": m.EnteredAt, "to": m.Recipient, "user_id": m.UserID,
		"title": m.Title, "content": m.Content, "template_id": m.TemplateID, "params": m.Params,
	})
	if err != nil {
		return provider.Unwritable
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	header := http.Header{}
	header.Set("Webhook-Id", m.TaskID)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", "v1,"+standardwebhooks.Sign(d.key, m.TaskID, at, body))
	status, answer, failure := provider.Post(ctx, d.client, d.config.URL, header, body)
	if failure != nil {
		return *failure
	}
	return d.config.Answer.Outcome(status, answer)
}
