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

// WebhookTolerance is how far the time of a post may be from now.
const WebhookTolerance = 5 * time.Minute

// ErrWebhook is in each error of VerifyWebhook: the post is not one of LKSMS, or not of now.
var ErrWebhook = errors.New("the webhook is not genuine")

// VerifyWebhook checks that a post comes from LKSMS: one of its signatures is made with secret (whsec_...), and its time is at most
// [WebhookTolerance] from now. body is the body as it came, before it is parsed. A receiver also ignores a webhook-id that it has had, because
// an event may come twice.
func VerifyWebhook(secret string, header http.Header, body []byte, now time.Time) error {
	webhook, err := standardwebhooks.NewWebhook(secret)
	// Everybody can sign with an empty key. The decoder skips line ends, so a text that is not empty may be one.
	if err != nil || strings.Trim(strings.TrimPrefix(secret, "whsec_"), "\r\n") == "" {
		return errors.New("the secret of the webhook cannot be read: it begins with whsec_") // the text of err may show it
	}
	if err := webhook.VerifyIgnoringTimestamp(body, header); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	seconds, err := strconv.ParseInt(header.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: read its time: %w", ErrWebhook, err)
	}
	// Compared as whole seconds: a duration to a time far away does not fit into its type.
	if age := now.Unix() - seconds; age > int64(WebhookTolerance/time.Second) || age < -int64(WebhookTolerance/time.Second) {
		return fmt.Errorf("%w: its time is %d, and now it is %d", ErrWebhook, seconds, now.Unix())
	}
	return nil
}
