package provider

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MaxAnswer is the number of characters of an answer that are kept.
const MaxAnswer = 2000

// hidden stands for a secret in what is kept of a request or an answer.
const hidden = "***"

const (
	maxAnswerBytes = 16 << 10 // bytes of an answer in which secrets are looked for; more than MaxAnswer characters have
	minToken       = 16       // characters of a part of a path that may be a token
	minSecret      = 4        // bytes of a secret: a shorter one is in every answer
)

// httpAnswer returns an answer as it is kept: the status and the body.
func httpAnswer(status int, body []byte) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, body[:min(len(body), maxAnswerBytes)]))
}

// Mask hides the secrets of a sender in texts. The zero value knows none.
type Mask struct{ replacer *strings.Replacer }

// MaskOf returns a mask for the secrets of a configuration, what its URLs (addresses) may hide, and more secrets.
func MaskOf(secrets, addresses []string, config []byte, more []string) Mask {
	fields := map[string]any{}
	_ = json.Unmarshal(config, &fields) // the driver reads it again, and says what is wrong
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

// NewMask returns a mask for secrets as they are, and as URLs, JSON and headers write them.
func NewMask(secrets []string) Mask {
	var forms []string
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		quoted, _ := json.Marshal(secret) // cannot fail for a text
		forms = append(forms, secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`),
			strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="))
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // a secret may begin with another one
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, hidden)
	}
	return Mask{strings.NewReplacer(pairs...)}
}

// PlaceholderForm is the form of a placeholder ${key} in a configuration.
var PlaceholderForm = regexp.MustCompile(`\$\{([^}]*)\}`)

// Texts returns the texts in a JSON value.
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

// hiddenIn returns the parts of a URL that may be tokens: credentials, the values of the query, and long parts of the path. A placeholder
// is no token.
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
		all = append(all, encoded) // an error shows it as it is configured, such as with %2f where others write %2F
	}
	for encoded := range strings.SplitSeq(to.EscapedPath(), "/") {
		if part, err := url.PathUnescape(encoded); err == nil && len(part) >= minToken {
			all = append(all, part, encoded)
		}
	}
	return slices.DeleteFunc(all, func(part string) bool { return strings.Trim(part, "/") == "" })
}

// Replace returns a text without secrets.
func (m Mask) Replace(text string) string {
	if m.replacer == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// hide returns a text without secrets, and at most MaxAnswer characters of it. It hides first: the beginning of a secret is not shown.
func (m Mask) hide(text string) string {
	text = m.Replace(text)
	if len(text) <= MaxAnswer {
		return text
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), MaxAnswer)])
}

// hideIn hides secrets in the texts of an outcome.
func (m Mask) hideIn(o Outcome) Outcome {
	o.Answer, o.Error, o.Code = m.hide(o.Answer), m.hide(o.Error), m.hide(o.Code)
	return o
}
