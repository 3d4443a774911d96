package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"lksms/internal/platform/characters"
	"lksms/internal/platform/secret"
)

// MaxAnswer is the maximum number of stored characters of an answer.
const MaxAnswer = 2000

const (
	maxAnswerBytes = 16 << 10 // bytes of an answer that are searched for secrets; more than MaxAnswer characters
	minToken       = 16       // minimum length of a path segment that is treated as a token
	minSecret      = 4        // minimum length of a secret in bytes: shorter texts occur in every answer
)

// httpAnswer returns an answer in its stored form: status and body.
func httpAnswer(status int, body []byte) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, body[:min(len(body), maxAnswerBytes)]))
}

// Mask hides the secrets of a sender in texts. The zero value hides nothing.
type Mask struct{ forms []string }

// MaskOf returns a mask for the secret fields of a configuration, the secret parts of its URLs (the fields in addresses), and the secrets in more.
func MaskOf(secrets, addresses []string, config []byte, more []string) Mask {
	fields := map[string]any{}
	_ = json.Unmarshal(config, &fields) // errors are reported when the driver decodes the configuration
	all := slices.Clone(more)
	for _, name := range secrets {
		all = append(all, Texts(fields[name])...)
	}
	for _, name := range addresses {
		if address, is := fields[name].(string); is {
			all = append(all, hiddenIn(address)...)
		}
	}
	return NewMask(all)
}

// NewMask returns a mask for secrets. The mask finds each secret in plain form and as encoded in URLs, JSON and headers.
func NewMask(secrets []string) (m Mask) {
	for _, text := range secrets {
		if len(text) >= minSecret {
			m.forms = append(m.forms, text, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "="))
		}
		if inForm := strings.ReplaceAll(text, " ", "+"); len(text) >= minSecret && inForm != text {
			m.forms = append(m.forms, inForm)
		}
	}
	return m
}

// PlaceholderForm matches a placeholder ${key} in a configuration.
var PlaceholderForm = regexp.MustCompile(`\$\{([^}]*)\}`)

// Texts returns all texts in a JSON value.
func Texts(value any) (all []string) {
	switch value := value.(type) {
	case string:
		all = append(all, value)
	case []any:
		for _, one := range value {
			all = append(all, Texts(one)...)
		}
	case map[string]any:
		for _, one := range value {
			all = append(all, Texts(one)...)
		}
	}
	return all
}

// hiddenIn returns the parts of a URL that are possibly secret: credentials, values of the query, and long segments of the path. A placeholder is not
// secret.
func hiddenIn(address string) (all []string) {
	to, err := url.Parse(PlaceholderForm.ReplaceAllString(address, "/"))
	if err != nil {
		return nil
	}
	if password, is := to.User.Password(); is {
		all = append(all, password)
	}
	all = append(all, to.User.Username())
	for _, values := range to.Query() {
		all = append(all, values...)
	}
	for pair := range strings.SplitSeq(to.RawQuery, "&") {
		_, encoded, _ := strings.Cut(pair, "=")
		all = append(all, encoded) // an error message shows the configured encoding, for example %2f instead of %2F
	}
	for encoded := range strings.SplitSeq(to.EscapedPath(), "/") {
		if part, err := url.PathUnescape(encoded); err == nil && len(part) >= minToken {
			all = append(all, part, encoded)
		}
	}
	return slices.DeleteFunc(all, func(part string) bool { return strings.Trim(part, "/") == "" })
}

// Replace returns a text without secrets. It also hides the beginning of a secret at the end, because an answer can break off within a secret.
func (m Mask) Replace(text string) string {
	if len(m.forms) == 0 {
		return text
	}
	isHidden := make([]bool, len(text))
	for _, v := range viewsOf(text) {
		for _, form := range m.forms {
			v.mark(form, isHidden)
		}
	}
	var shown strings.Builder
	for i := range isHidden {
		switch {
		case !isHidden[i]:
			shown.WriteByte(text[i])
		case i == 0 || !isHidden[i-1]:
			shown.WriteString(secret.Hidden)
		}
	}
	return shown.String()
}

// mark marks the bytes of the original text that belong to a secret.
func (v view) mark(form string, isHidden []bool) {
	hide := func(start, end int) {
		for i := v.from[start]; i < v.from[end]; i++ {
			isHidden[i] = true
		}
	}
	end := 0
	for {
		i := strings.Index(v.text[end:], form)
		if i < 0 {
			break
		}
		start := end + i
		end = start + len(form)
		hide(start, end)
	}
	for n := min(len(form)-1, len(v.text)-end); n >= minSecret; n-- {
		if strings.HasSuffix(v.text, form[:n]) {
			hide(len(v.text)-n, len(v.text))
			return
		}
	}
}

// hide hides the secrets in a text and then cuts it to MaxAnswer characters. In this order, no part of a secret remains at the end.
func (m Mask) hide(text string) string {
	return characters.First(m.Replace(text), MaxAnswer)
}

// hideIn hides secrets in all texts of an outcome.
func (m Mask) hideIn(o Outcome) Outcome {
	o.Answer, o.Error, o.Code = m.hide(o.Answer), m.hide(o.Error), m.hide(o.Code)
	return o
}
