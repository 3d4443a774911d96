package crowds

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "lksms/gen/client"
	"lksms/test/soak/load"
)

// smsgatePath is the path of the API for phones with the SMSGate app.
const smsgatePath = "/smsgate/mobile/v1"

// phone hands over received messages like the SMSGate app: it posts each to the webhook that the server lists, signed with the key from the server's settings.
type phone struct{ id, hook, key string }

// pair registers a phone as a sender.
func pair(ctx context.Context, client *api.ClientWithResponses, senderNo string) (*phone, error) {
	paired, err := client.PairPhoneWithResponse(ctx, senderNo, api.PairingRequest{})
	if err := load.CheckCreated("pairing", err, paired); err != nil {
		return nil, err
	}
	var device struct{ ID, Token string }
	if err := callAs(ctx, client, "POST", "/device", "Code "+paired.JSON200.Data.Code, map[string]string{"name": "samsung/a52q"}, &device); err != nil {
		return nil, err
	}
	var hooks []struct{ URL, Event string }
	if err := callAs(ctx, client, "GET", "/webhooks", "Bearer "+device.Token, nil, &hooks); err != nil {
		return nil, err
	}
	var settings struct {
		Webhooks struct {
			Key string `json:"signing_key"`
		}
	}
	if err := callAs(ctx, client, "GET", "/settings", "Bearer "+device.Token, nil, &settings); err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if _, path, found := strings.Cut(h.URL, smsgatePath); found && h.Event == "sms:received" {
			return &phone{device.ID, smsgatePath + path, settings.Webhooks.Key}, nil
		}
	}
	return nil, fmt.Errorf("a phone gets no webhook for received messages: %v", hooks)
}

// baseOf returns the address of the server of a client.
func baseOf(client *api.ClientWithResponses) (string, error) {
	c, is := client.ClientInterface.(*api.Client)
	if !is {
		return "", errors.New("the client has no address")
	}
	return strings.TrimSuffix(c.Server, "/"), nil
}

// callAs calls an operation for phones, and decodes the response.
func callAs(ctx context.Context, client *api.ClientWithResponses, method, path, authorization string, body, into any) error {
	base, err := baseOf(client)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode body: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, base+smsgatePath+path, bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Header.Set("Authorization", authorization)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close() //nolint:errcheck // the body was read
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s %w", method, path, res.StatusCode, raw, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: decode %s: %w", method, path, raw, err)
	}
	return nil
}

// post posts a received message to the server of a client, and returns the status of the response.
func (p *phone) post(ctx context.Context, client *api.ClientWithResponses, messageNo, from, content string, at time.Time) (status int, err error) {
	base, err := baseOf(client)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{
		"deviceId": p.id, "event": "sms:received", "id": messageNo, "webhookId": "lksms-text",
		"payload": map[string]any{"messageId": messageNo, "sender": from, "message": content, "simNumber": 1, "receivedAt": at.Format("2006-01-02T15:04:05.000Z07:00")},
	})
	if err != nil {
		return 0, err
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(p.key))
	mac.Write([]byte(string(body) + stamp))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+p.hook, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Timestamp", stamp)
	r.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection is used again
	_ = res.Body.Close()
	return res.StatusCode, nil
}
