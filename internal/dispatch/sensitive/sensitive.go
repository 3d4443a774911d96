// Package sensitive keeps texts such as verification codes out of the database. Tables contain only the masks of sensitive texts. While a sensitive message
// waits, its row in the queue also contains the encrypted text. The row is deleted when the task ends.
package sensitive

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/secret"
)

// Text is the text of a sensitive message.
type Text struct {
	Content string          `json:"content"`          // without the signature
	Values  json.RawMessage `json:"values,omitempty"` // values of the placeholders in the rendering; nil: the message has no rendering
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
	sealed, err := b.secrets.Encrypt(string(raw), owner(taskID))
	if errors.Is(err, secret.ErrNoKey) {
		return "", fault.InvalidField(field, fault.NoSecretsKey, nil)
	}
	return sealed, err //nolint:wrapcheck // Encrypt has no other error
}

// Open decrypts the text of a task. Its error names the missing key.
func (b Box) Open(taskID, sealed string) (text Text, err error) {
	raw, err := b.secrets.Decrypt(sealed, owner(taskID))
	if err == nil {
		err = json.Unmarshal([]byte(raw), &text)
	}
	if err != nil {
		return Text{}, fmt.Errorf("decrypt sensitive text: %w", err)
	}
	return text, nil
}

// Renew encrypts a text again if another key than the first one encrypted it.
func (b Box) Renew(taskID, sealed string) (string, error) {
	if b.secrets.IsCurrent(sealed) {
		return sealed, nil
	}
	text, err := b.Open(taskID, sealed)
	if err != nil {
		return "", err
	}
	return b.Seal(taskID, text)
}

// owner is the name under which the text of a task is encrypted, so that nobody can move it to another task.
func owner(taskID string) string { return "task " + taskID }

// Mask replaces the characters of a text, except a signature in front. The mask has as many characters and segments as the text, with any signature.
func Mask(text string) string {
	front := ""
	if end := strings.Index(text, "】"); end > 0 && strings.HasPrefix(text, "【") {
		front, text = text[:end+len("】")], text[end+len("】"):]
	}
	return front + strings.Map(segment.Same, text)
}

// MaskPart replaces each occurrence of part in a text.
func MaskPart(text, part string) string { return strings.ReplaceAll(text, part, Mask(part)) }

// Restore returns the text that a sender receives. handed is the masked text with or without a signature in front, as the function handed_text of the database
// returns it. content is the decrypted text.
func Restore(handed, content string) string {
	front, clear := []rune(handed), []rune(content)
	if n := len(front) - len(clear); n >= 0 {
		return string(front[:n]) + content
	}
	return string(clear[len(clear)-len(front):]) // handed_text removed the signature from the text
}

// minWord is the minimum length of a word in Words. Shorter words occur in every answer of a provider.
const minWord = 4

// Words returns the words and numbers of a text that its mask hides. They are hidden in logs and in answers of providers.
func Words(text, mask string) []string {
	clear, masked := []rune(text), []rune(mask)
	var words []string
	var word []rune
	end := func() {
		if len(word) >= minWord && !slices.Contains(words, string(word)) {
			words = append(words, string(word))
		}
		word = nil
	}
	isASCII := false
	for i, r := range clear {
		isHidden := i >= len(masked) || masked[i] != r
		isWord := isHidden && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !isWord || len(word) > 0 && isASCII != (r < unicode.MaxASCII) {
			end()
		}
		if isWord {
			word, isASCII = append(word, r), r < unicode.MaxASCII
		}
	}
	end()
	return words
}

// field is the field of a submission that makes a message sensitive.
const field = "sensitive"

// MaskRequest masks the texts of all sensitive messages in a request body. A body that is not valid JSON is masked completely if it can contain a sensitive
// message.
func MaskRequest(body []byte) []byte {
	if lower := strings.ToLower(string(body)); !strings.Contains(lower, field) && !strings.Contains(lower, `\u`) { // a name can be written with escapes
		return body
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return []byte(Mask(string(body)))
	}
	if !maskMessages(value) {
		return body
	}
	masked, err := json.Marshal(value)
	if err != nil {
		return []byte(Mask(string(body)))
	}
	return masked
}

// maskMessages masks the sensitive messages in a JSON value, and reports whether it contains one. A message whose field sensitive is neither false nor null is
// masked, too: its submission is refused.
func maskMessages(value any) (isChanged bool) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			isChanged = maskMessages(one) || isChanged
		}
	case map[string]any:
		isSensitive := false
		for name, one := range value {
			isSensitive = isSensitive || strings.EqualFold(name, field) && one != nil && one != false
			isChanged = maskMessages(one) || isChanged
		}
		for name, one := range value {
			if isSensitive && (strings.EqualFold(name, "content") || strings.EqualFold(name, "params")) {
				value[name], isChanged = maskTexts(one), true
			}
		}
	}
	return isChanged
}

// maskTexts masks all texts and numbers in a JSON value.
func maskTexts(value any) any {
	switch value := value.(type) {
	case string:
		return Mask(value)
	case json.Number:
		return Mask(value.String())
	case []any:
		for i, one := range value {
			value[i] = maskTexts(one)
		}
	case map[string]any:
		for name, one := range value {
			value[name] = maskTexts(one)
		}
	}
	return value
}
