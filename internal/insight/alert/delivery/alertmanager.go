package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lksms/internal/platform/outbound"
)

// managerAlert is an alert in the format of POST /api/v2/alerts.
type managerAlert struct {
	Labels      map[string]string `json:"labels"` // the labels identify the alert; no label is empty
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt,omitzero"` // zero while the alert fires; Alertmanager ends an alert that is not sent again for some minutes
}

// callLimit is the timeout of one call.
const callLimit = 10 * time.Second

// managerClient calls Alertmanagers.
type managerClient struct{ http *http.Client }

// newManagerClient returns a client whose connections obey policy.
func newManagerClient(policy outbound.Policy) *managerClient {
	return &managerClient{policy.Client(callLimit)}
}

// maxRefusal is the maximum number of bytes of a response body that an error contains.
const maxRefusal = 200

// post sends alerts to the program at the address base. Every 2xx status is a success, and a redirect is an error. The body of the response is ignored.
func (c *managerClient) post(ctx context.Context, base, authorization string, alerts []managerAlert) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if alerts == nil {
		alerts = []managerAlert{}
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return fmt.Errorf("write alerts: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(base, "/")+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	status, answer, err := outbound.Do(c.http, req)
	switch {
	case err != nil && status == 0:
		return fmt.Errorf("call receiver: %w", err)
	case status < 200 || status > 299:
		return fmt.Errorf("the receiver answered %d: %s", status, answer[:min(len(answer), maxRefusal)])
	case err != nil:
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}
