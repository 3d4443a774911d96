// Package sensitive masks and encrypts the texts of sensitive messages, for example messages with codes. Tables contain only the masks of sensitive texts.
// While a sensitive message waits, its row in the queue also contains the encrypted text. The row is deleted when the task ends.
package sensitive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/secret"
)

// Text is the text of a sensitive message.
type Text struct {
	Content string          `json:"content"`          // without the signature of the message
	Values  json.RawMessage `json:"values,omitempty"` // values of the placeholders in the rendering; nil: the message has no rendering
}

// Handed returns the text that a sender receives. It is computed like the function handed_text of the database.
func (t Text) Handed(sign string, isInText bool) string {
	if isInText {
		return segment.Signed(sign, t.Content)
	}
	return segment.Unsigned(sign, t.Content)
}

// Box encrypts the texts of tasks.
type Box struct{ secrets *secret.Box }

// NewBox returns a Box that uses the keys of secrets.
func NewBox(secrets *secret.Box) Box { return Box{secrets} }

// Seal encrypts the text of a task. Fault: request.invalid for the field sensitive if the server has no key.
func (b Box) Seal(taskID string, text Text) (string, error) {
	raw, err := json.Marshal(text)
	if err != nil {
		return "", fmt.Errorf("write sensitive text: %w", err)
	}
	sealed, err := b.secrets.Encrypt(string(raw), Owner(taskID))
	if errors.Is(err, secret.ErrNoKey) {
		return "", fault.InvalidField(field, fault.NoSecretsKey, nil)
	}
	return sealed, err //nolint:wrapcheck // Encrypt has no other error
}

// Open decrypts the text of a task. Its error names the missing key.
func (b Box) Open(taskID, sealed string) (text Text, err error) {
	raw, err := b.secrets.Decrypt(sealed, Owner(taskID))
	if err == nil {
		err = json.Unmarshal([]byte(raw), &text)
	}
	if err != nil {
		return Text{}, fmt.Errorf("decrypt sensitive text: %w", err)
	}
	return text, nil
}

// Owner returns the name under which the text of a task is encrypted, so that nobody can move it to another task.
func Owner(taskID string) string { return "task " + taskID }

// Mask replaces all characters of a text. The mask has as many characters and segments as the text, with any signature in front.
func Mask(text string) string { return strings.Map(segment.Same, text) }

// field is the field of a submission that makes a message sensitive.
const field = "sensitive"

// MaskRequest masks the texts of sensitive messages in the log of a request. If the body is not valid JSON, and can contain a sensitive message, all of it is
// masked.
func MaskRequest(body []byte) []byte {
	if !logtext.CanHaveField(body, field) {
		return body
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	value, isSensitive, err := decode(d)
	if err != nil || d.More() {
		return []byte(Mask(string(body)))
	}
	if !isSensitive {
		return body
	}
	masked, err := json.Marshal(value)
	if err != nil {
		return []byte(Mask(string(body)))
	}
	return masked
}

// visible contains the fields of a submission that are no text of the message.
var visible = map[string]bool{
	"phone_number": true, "default_region": true, "use_template": true, "template_no": true, "language": true, "source": true, "dedup_key": true,
	"message_type": true, "priority": true, "expect_send_time": true, "expires_at": true, "sign": true, "test": true, field: true,
}

// decode reads a JSON value. If an object has a field sensitive that is neither false nor null, decode masks all fields of the object that are not visible,
// because any of them can contain the text. The field counts even if it is repeated.
func decode(d *json.Decoder) (value any, isSensitive bool, err error) {
	token, err := d.Token()
	if err != nil {
		return nil, false, err //nolint:wrapcheck // only compared with nil
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			one, is, err := decode(d)
			if err != nil {
				return nil, false, err
			}
			list, isSensitive = append(list, one), isSensitive || is
		}
		value = list
	case json.Delim('{'):
		object, isMessage := map[string]any{}, false
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, false, err //nolint:wrapcheck // only compared with nil
			}
			one, is, err := decode(d)
			if err != nil {
				return nil, false, err
			}
			key, _ := name.(string)
			isMessage = isMessage || strings.EqualFold(key, field) && one != nil && one != false
			object[key], isSensitive = one, isSensitive || is
		}
		if isMessage {
			isSensitive, object = true, maskObject(object)
		}
		value = object
	default:
		return token, false, nil
	}
	_, err = d.Token() // the end of the list or object
	return value, isSensitive, err
}

// maskObject masks the fields of an object that are not visible.
func maskObject(object map[string]any) map[string]any {
	masked := map[string]any{}
	for name, value := range object {
		if visible[name] {
			masked[name] = value
		} else {
			masked[name] = maskTexts(value)
		}
	}
	return masked
}

// maskTexts masks all texts, numbers and names in a JSON value.
func maskTexts(value any) any {
	switch value := value.(type) {
	case string:
		return Mask(value)
	case json.Number:
		return Mask(value.String())
	case []any:
		masked := make([]any, len(value))
		for i, one := range value {
			masked[i] = maskTexts(one)
		}
		return masked
	case map[string]any:
		masked := map[string]any{}
		for name, one := range value {
			if !visible[name] && name != "content" && name != "params" && name != "messages" {
				name = Mask(name)
			}
			masked[name] = maskTexts(one)
		}
		return masked
	default:
		return value
	}
}
