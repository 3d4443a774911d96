package driver

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
)

// Providers of short messages in mainland China do not accept free text. A provider approves templates, and a request contains only a template and its
// values. But the message of a task contains the whole text, so the driver finds the template that produces exactly this text.

// providedTemplate is an approved template of a provider.
type providedTemplate struct {
	code  string // the provider's id of the template
	names []string
	form  *regexp.Regexp // has one group per entry of names
	fixed int            // characters outside placeholders
}

// maxProvided is the maximum number of templates per sender. Each message is compared with every template.
const maxProvided = 200

// providedTemplates parses templates, given by their codes. The expression placeholder has one group with the placeholder's name.
func providedTemplates(texts map[string]string, placeholder *regexp.Regexp) (all []providedTemplate, err error) {
	if len(texts) == 0 {
		return nil, fault.InvalidField("config.templates", fault.Required, nil)
	}
	if len(texts) > maxProvided {
		return nil, fault.InvalidField("config.templates", fault.TooManySelected, maxProvided)
	}
	for code, text := range texts {
		t := providedTemplate{code: code}
		var form strings.Builder
		form.WriteString(`(?s)\A`)
		rest := 0
		for _, at := range placeholder.FindAllStringSubmatchIndex(text, -1) {
			form.WriteString(regexp.QuoteMeta(text[rest:at[0]]) + `(.+?)`)
			t.fixed += utf8.RuneCountInString(text[rest:at[0]])
			t.names = append(t.names, text[at[2]:at[3]])
			rest = at[1]
		}
		form.WriteString(regexp.QuoteMeta(text[rest:]) + `\z`)
		t.fixed += utf8.RuneCountInString(text[rest:])
		if t.form, err = regexp.Compile(form.String()); err != nil || strings.TrimSpace(text) == "" || strings.TrimSpace(code) == "" {
			return nil, fault.InvalidField("config.templates", fault.WrongFormat, nil)
		}
		all = append(all, t)
	}
	// If several templates match, the template with the most fixed text is used.
	slices.SortFunc(all, func(a, b providedTemplate) int {
		if a.fixed != b.fixed {
			return b.fixed - a.fixed
		}
		return strings.Compare(a.code, b.code)
	})
	return all, nil
}

// reviewTemplates returns a fault if two templates produce the same texts. The second of them would never be used.
func reviewTemplates(all []providedTemplate) error {
	seen := map[string]bool{}
	for _, t := range all {
		text := t.form.String()
		for _, name := range t.names { // a repeated placeholder has the same value everywhere
			text += fmt.Sprint(" ", slices.Index(t.names, name))
		}
		if seen[text] {
			return fault.InvalidField("config.templates."+t.code, fault.Duplicate, nil)
		}
		seen[text] = true
	}
	return nil
}

// values returns the values with which a template produces a text. It reports false if the template cannot produce the text.
func (t providedTemplate) values(text string) (map[string]string, bool) {
	found := t.form.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	values := map[string]string{}
	for i, name := range t.names {
		if other, is := values[name]; is && other != found[i+1] {
			return nil, false
		}
		values[name] = found[i+1]
	}
	return values, true
}

// provided is a message as a template and its values.
type provided struct {
	sign      string // empty: no signature, which is allowed abroad
	isOwnSign bool   // the signature comes from the message, not from the configuration
	code      string
	values    map[string]string
}

var (
	noProvidedTemplate = provider.Outcome{
		Permanent: true, Unasked: true, Code: "no_template", Error: "no template of the provider makes this text",
	}
	noProvidedSign = provider.Outcome{
		Permanent: true, Unasked: true, Code: "no_signature", Error: "the message has no signature, and the sender no signName",
	}
)

// findTemplate finds the template and the signature of a message. A non-nil outcome means that the message cannot be sent.
func findTemplate(m provider.Message, templates []providedTemplate, sign string) (provided, *provider.Outcome) {
	if m.Sign != "" {
		sign = m.Sign
	}
	text := segment.Unsigned(sign, m.Content) // any other text in 【】 at the beginning is not a signature
	if isAbroad := strings.HasPrefix(m.Recipient, "+") && !strings.HasPrefix(m.Recipient, "+86"); sign == "" && !isAbroad {
		return provided{}, &noProvidedSign
	}
	for _, t := range templates {
		if values, fits := t.values(text); fits {
			return provided{sign: sign, isOwnSign: m.Sign != "", code: t.code, values: values}, nil
		}
	}
	return provided{}, &noProvidedTemplate
}

// blame changes the outcome of a message whose signature or template the provider refused. signs and texts contain the codes for a refused signature and a
// refused template. A message must not fail because of the configuration of its sender. A refused signature of the configuration is trouble, because most
// messages use this signature. A refused template is trouble if the sender has no other template. If the sender has other templates, the message is retried
// later and the sender continues.
func (p provided) blame(o provider.Outcome, signs, texts []string, templates int) provider.Outcome {
	switch {
	case o.OK:
	case slices.Contains(signs, o.Code):
		o.Permanent, o.Trouble, o.Outage = p.isOwnSign, !p.isOwnSign, false
	case slices.Contains(texts, o.Code):
		o.Permanent, o.Trouble, o.Outage = false, templates == 1, false
	}
	return o
}

// signedAddress returns a fault if the URL of a provider contains a path or a query: the signature of each request covers the path /.
func signedAddress(field, text string) error {
	if err := address(field, text); err != nil {
		return err
	}
	if u, err := url.Parse(text); err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return fault.InvalidField("config."+field, fault.WrongFormat, nil)
	}
	return nil
}
