package webhook

import (
	"encoding/json"
	"fmt"
	"time"

	"lksms/internal/events/feed"
	"lksms/internal/platform/optional"
)

// These are the forms of webhooks. A form defines the body and the signature of posts.
const (
	Standard = "standard" // Standard Webhooks
	Smsgate  = "smsgate"  // posts as the SMSGate app sends them
)

// form writes the bodies of posts.
type form interface {
	body(e feed.Rendered) ([]byte, error)
	// test returns the body of a post that tests a webhook.
	test(webhook, event int64, at time.Time) ([]byte, error)
}

// formOf returns the form with a name. externalID is the id of the webhook as its receiver knows it.
func formOf(name string, externalID *string) form {
	if name == Smsgate {
		return smsgateForm{optional.Value(externalID)}
	}
	return standardForm{}
}

// signedAs returns the signing method of a form.
func signedAs(name string) signing {
	if name == Smsgate {
		return smsgateSigning
	}
	return standardSigning
}

type standardForm struct{}

func (standardForm) body(e feed.Rendered) ([]byte, error) { return encoded(e) }

func (standardForm) test(webhook, _ int64, at time.Time) ([]byte, error) {
	data, err := encoded(map[string]int64{"webhook_id": webhook})
	if err != nil {
		return nil, err
	}
	return encoded(feed.Rendered{Type: test, Timestamp: at.UTC().Truncate(time.Microsecond), Data: data})
}

func encoded(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write event: %w", err)
	}
	return body, nil
}
