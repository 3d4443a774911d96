package verification

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
)

// These are the placeholders of the texts with a code. minutes is the time until the code expires.
const (
	codeKey    = "code"
	minutesKey = "minutes"
)

const maxText = 1000 // characters; the texts of this package are much shorter

// texts contains the texts of messages without a template, by language.
var texts = map[string]struct{ title, content string }{
	"zh": {"验证码", "您的验证码是${code}，${minutes}分钟内有效。请勿告诉他人。"},
	"en": {"Your verification code", "Your code is ${code}. It expires in ${minutes} minutes. Do not share it."},
}

// languageOf returns the language of a text without a template: zh or en. An empty wanted language means that of the country.
func languageOf(wanted string, to recipient) string {
	base, _, _ := strings.Cut(strings.ToLower(cmp.Or(wanted, languageOfCountry(to))), "-")
	if texts[base].content != "" {
		return base
	}
	return "en"
}

// languageOfCountry returns the language of the country of a phone number. It returns an empty string on other channels than sms.
func languageOfCountry(to recipient) string {
	if to.channel != directory.SMS {
		return ""
	}
	base, _ := language.Make("und-" + cmp.Or(phone.Region(to.address), phone.UnknownRegion)).Base()
	return base.String()
}

// languageIn returns the language of a message in which a template is rendered. If the start named none, this is the language of the country, or else English,
// if the template has a text in it. An empty string means the original text.
func (m *message) languageIn(t template.Template) string {
	if m.Language != "" || m.to.channel != directory.SMS {
		return m.Language
	}
	for _, wanted := range []string{languageOfCountry(m.to), "en"} {
		_, got := t.In(wanted)
		if base, _, _ := strings.Cut(got, "-"); base == wanted {
			return wanted
		}
	}
	return ""
}

// placeOfCode stands for each digit of the code in a text, until the code or its mask is filled in. The character is for private use, so that no other part of the
// text contains it.
const placeOfCode = "\uE000"

// write sets the text of the message with a code, and its masked form. Faults: request.invalid, template.not_active.
func (s *Service) write(ctx context.Context, sub *submit.Submission, m *message) error {
	place := strings.Repeat(placeOfCode, len(m.code))
	values := map[string]string{codeKey: place, minutesKey: strconv.Itoa(int((m.ttl + time.Minute - 1) / time.Minute))}
	text := template.Rendered{}
	textLanguage := languageOf(m.Language, m.to)
	if m.TemplateNo != "" {
		rendered, err := s.render(ctx, m, values)
		if err != nil {
			return err
		}
		text = rendered
		textLanguage = languageOf(cmp.Or(rendered.Source.Language, m.Language), m.to)
	} else {
		text.Content, _ = placeholder.Fill(texts[textLanguage].content, map[string]any{codeKey: values[codeKey], minutesKey: values[minutesKey]}, maxText, nil)
	}
	sub.From, sub.Sign = text.Source, cmp.Or(m.Sign, text.Sign) // a code is never deferred, even if its template is scheduled
	content := text.Content + m.lastLine(place)
	mask := sensitive.Mask(m.code)
	sub.Content = submit.StoredBeginning(m.to.channel, strings.ReplaceAll(content, place, m.code))
	sub.Masked = submit.StoredBeginning(m.to.channel, strings.ReplaceAll(content, place, mask))
	if m.to.channel == directory.SMS {
		return nil
	}
	content = strings.ReplaceAll(placeholder.Literal(content), place, placeholder.Placeholder(codeKey))
	id, err := s.Notifications.StoreText(ctx, m.to.channel, placeholder.NewText(texts[textLanguage].title, content, ""))
	if err != nil {
		return err
	}
	sub.RenderingID = id
	sub.Values, _ = json.Marshal(map[string]string{codeKey: m.code}) // a map of texts can always be encoded
	sub.MaskedValues, _ = json.Marshal(map[string]string{codeKey: mask})
	return nil
}

// render renders the template of a message, which must contain the code.
func (s *Service) render(ctx context.Context, m *message, values map[string]string) (template.Rendered, error) {
	found, err := s.Templates.Find(ctx, m.origin.CompanyID, m.TemplateNo)
	if err != nil {
		return template.Rendered{}, err
	}
	names := found.Names()
	if !slices.Contains(names, codeKey) {
		return template.Rendered{}, fault.InvalidField("template_no", fault.LacksCode, nil)
	}
	params := map[string]string{}
	for _, name := range names {
		if value, isKnown := values[name]; isKnown {
			params[name] = value
		}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return template.Rendered{}, err //nolint:wrapcheck // a map of texts can always be encoded
	}
	parsed, err := template.ParseParams(raw)
	if err != nil {
		return template.Rendered{}, err
	}
	return found.Render(parsed, m.languageIn(found))
}

// lastLine returns the line by which an app or a browser finds the code: that of Android's SMS Retriever, or that of WebOTP.
func (o Options) lastLine(code string) string {
	switch {
	case o.AppHash != "":
		return "\n" + o.AppHash
	case o.Domain != "":
		return "\n\n@" + o.Domain + " #" + code
	}
	return ""
}
