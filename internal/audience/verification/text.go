package verification

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
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

// languageOf returns the language of the text of a request: zh or en.
func (r Request) languageOf(to recipient) string {
	language, _, _ := strings.Cut(r.Language, "-")
	switch {
	case texts[language].content != "":
		return language
	case language == "" && slices.Contains([]string{"CN", "TW", "HK", "MO"}, phone.Region(to.address)):
		return "zh"
	default:
		return "en"
	}
}

// write sets the text of the message with a code. Faults: request.invalid, template.not_active.
func (s *Service) write(ctx context.Context, sub *submit.Submission, companyID int64, r Request, to recipient, c coded) error {
	values := map[string]string{codeKey: c.code, minutesKey: strconv.Itoa(int((c.ttl + time.Minute - 1) / time.Minute))}
	text := template.Rendered{}
	language := r.languageOf(to)
	if r.TemplateNo != "" {
		rendered, err := s.render(ctx, companyID, r, values)
		if err != nil {
			return err
		}
		text = rendered
	} else {
		text.Content, _ = placeholder.Fill(texts[language].content, map[string]any{codeKey: values[codeKey], minutesKey: values[minutesKey]}, maxText, nil)
	}
	sub.From, sub.Deferred, sub.Sign = text.Source, text.Deferred, cmp.Or(r.Sign, text.Sign)
	sub.Content = text.Content + r.lastLine(c.code)
	if to.channel == directory.SMS {
		return nil
	}
	content := strings.ReplaceAll(placeholder.Literal(sub.Content), c.code, placeholder.Placeholder(codeKey))
	id, err := s.Notifications.StoreText(ctx, to.channel, placeholder.NewText(texts[language].title, content, ""))
	if err != nil {
		return err
	}
	sub.RenderingID, sub.Content = id, submit.StoredBeginning(to.channel, sub.Content)
	sub.Values, err = json.Marshal(map[string]string{codeKey: c.code})
	return err //nolint:wrapcheck // a map of texts can always be encoded
}

// render renders the template of a request, which must contain the code.
func (s *Service) render(ctx context.Context, companyID int64, r Request, values map[string]string) (template.Rendered, error) {
	found, err := s.Templates.Find(ctx, companyID, r.TemplateNo)
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
	return found.Render(parsed, r.Language)
}

// lastLine returns the line by which an app or a browser finds the code: that of Android's SMS Retriever, or that of WebOTP.
func (r Request) lastLine(code string) string {
	switch {
	case r.AppHash != "":
		return "\n" + r.AppHash
	case r.Domain != "":
		return "\n\n@" + r.Domain + " #" + code
	}
	return ""
}
