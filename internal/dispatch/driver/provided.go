package driver

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
)

// Providers of short messages in mainland China send no free text: they have templates that they approved, and get the values of their placeholders.
// A message has its whole text. The template is the one of which the text can be made, so that what is sent is the text, wherever it came from.

// providedTemplate is a template of a provider.
type providedTemplate struct {
	code  string // the provider's id of it
	names []string
	form  *regexp.Regexp // has a group for each of names
	fixed int            // characters outside placeholders
}

// maxProvided is how many templates a sender may have: a message is compared with each.
const maxProvided = 200

// providedTemplates reads templates, by their codes. placeholder has a group with the name.
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
	// Of several templates that fit, the one that says most of the text itself.
	slices.SortFunc(all, func(a, b providedTemplate) int {
		if a.fixed != b.fixed {
			return b.fixed - a.fixed
		}
		return strings.Compare(a.code, b.code)
	})
	return all, nil
}

// values returns the values with which a template makes a text, if it can.
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

// provided is a message as such a provider sends it.
type provided struct {
	sign      string // empty: none, which a provider bears abroad
	isOwnSign bool   // the message brought it; otherwise the configuration did
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

// provide finds the template and the signature of a message. Non-nil: it cannot be sent.
func provide(m provider.Message, templates []providedTemplate, sign string) (provided, *provider.Outcome) {
	if m.Sign != "" {
		sign = m.Sign
	}
	text := segment.Unsigned(sign, m.Content) // one that begins with another text in 【】 has no other signature
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

// blame changes the outcome of a message whose signature or template a provider refused, by its codes of each. A message is not blamed for the
// configuration of its sender. A signature of the configuration is trouble of the sender: most messages have it. A template is too if the sender has no
// other. Otherwise the message is tried again later, and the sender does not rest, because its other templates may be well.
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

// signedAddress returns a fault if the address of a provider has more than a host: the signature of each request covers its path, which is /.
func signedAddress(field, text string) error {
	if err := address(field, text); err != nil {
		return err
	}
	if u, err := url.Parse(text); err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return fault.InvalidField("config."+field, fault.WrongFormat, nil)
	}
	return nil
}
