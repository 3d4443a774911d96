package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// WebhookTolerance is the maximum difference between the time of a post and now.
const WebhookTolerance = 5 * time.Minute

// ErrWebhook is wrapped in the errors of VerifyWebhook for a post that is not from LKSMS, or whose time is too far from now.
var ErrWebhook = errors.New("the webhook is not genuine")

// VerifyWebhook checks that a post comes from LKSMS. One of its signatures must be made with secret (whsec_...), and its time must be at most
// [WebhookTolerance] from now. body is the unparsed body. An event can be posted twice, so a receiver must also ignore a webhook-id that it has already
// processed.
func VerifyWebhook(secret string, header http.Header, body []byte, now time.Time) error {
	webhook, err := standardwebhooks.NewWebhook(secret)
	// An empty key would allow anyone to sign. The decoder ignores line breaks, so a secret of only line breaks is also an empty key.
	if err != nil || strings.Trim(strings.TrimPrefix(secret, "whsec_"), "\r\n") == "" {
		return errors.New("the secret of the webhook cannot be read: it begins with whsec_") // the text of err can contain the secret
	}
	if err := webhook.VerifyIgnoringTimestamp(body, header); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	seconds, err := strconv.ParseInt(header.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: read its time: %w", ErrWebhook, err)
	}
	// Compare whole seconds, because the duration to a distant time does not fit into time.Duration.
	if age := now.Unix() - seconds; age > int64(WebhookTolerance/time.Second) || age < -int64(WebhookTolerance/time.Second) {
		return fmt.Errorf("%w: its time is %d, and now it is %d", ErrWebhook, seconds, now.Unix())
	}
	return nil
}
