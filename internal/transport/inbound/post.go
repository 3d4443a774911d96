package inbound

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"time"

	"lksms/gen/inboundq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Message is one message of a post with its outcome.
type Message struct {
	PhoneNumber string
	Raw         []byte           // the stored submission, as JSON
	Made        submit.Submitted // an empty TaskID means that an earlier post made the task, which was dropped from the history
	Preview     *submit.Preview  // only for a dry run
	Err         error            // a fault is the reason why the message was rejected
}

// post is a parsed body before submission.
type post struct {
	messages []Message
	subs     []submit.Submission // submissions of the messages without Err
	indexes  []int               // index in messages of each submission
	origin   submit.Origin
	wrong    error // fault of the template of the inbound, which refuses all messages except repeats; nil: no fault
}

// Post submits the messages of a body that was posted to an inbound of the user's company. Each message has its own outcome. If all messages are rejected,
// Post also returns the fault of the first message. All messages are submitted in one transaction: after any other error no message is submitted, and the
// post can be repeated. Faults: inbound.not_found, also for an inbound that is off or belongs to another company; request.invalid, which names a path of
// the body; the faults of submit.Submit.
func (s *Service) Post(ctx context.Context, no string, body any, origin submit.Origin) ([]Message, error) {
	p, err := s.read(ctx, no, body, origin)
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.subs) == 1:
		of := &p.messages[p.indexes[0]]
		if of.Made, of.Err = s.submissions.Submit(ctx, p.subs[0], p.origin); of.Err != nil && !isExpected(of.Err) {
			return nil, of.Err
		}
		of.Err = unlessDropped(of.Err)
	case len(p.subs) > 1:
		err := s.db.Tx(ctx, func(ctx context.Context) error {
			outcomes, err := s.submissions.SubmitAll(ctx, p.subs, p.origin)
			if err != nil {
				return err
			}
			for i, o := range outcomes {
				if o.Err != nil && !isExpected(o.Err) {
					return o.Err
				}
				of := &p.messages[p.indexes[i]]
				of.Made, of.Err = o.Submitted, unlessDropped(o.Err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return p.answer()
}

// Preview works like Post, but stores nothing.
func (s *Service) Preview(ctx context.Context, no string, body any, origin submit.Origin) ([]Message, error) {
	p, err := s.read(ctx, no, body, origin)
	if err != nil {
		return nil, err
	}
	for i, sub := range p.subs {
		preview, err := s.submissions.Preview(ctx, sub, p.origin)
		if err != nil && !isExpected(err) {
			return nil, err
		}
		of := &p.messages[p.indexes[i]]
		if of.Preview, of.Err = &preview, unlessDropped(err); err != nil && of.Err == nil {
			preview.Verdict = submit.WouldRepeat
		}
	}
	return p.answer()
}

// unlessDropped returns nil if err means that the task of an earlier post was dropped from the history. The earlier post was accepted, and after an error the
// program would post again. unlessDropped returns any other err unchanged.
func unlessDropped(err error) error {
	if fault.Is(err, fault.TaskDropped) {
		return nil
	}
	return err
}

// answer returns the messages. If all messages were rejected, it also returns the fault of the first message. If they were rejected because of
// the template, it returns only this fault.
func (p *post) answer() ([]Message, error) {
	for _, m := range p.messages {
		if m.Err == nil {
			return p.messages, nil
		}
	}
	if p.wrong != nil {
		return nil, p.wrong
	}
	return p.messages, p.messages[0].Err
}

// read converts a body to submissions.
func (s *Service) read(ctx context.Context, no string, body any, origin submit.Origin) (*post, error) {
	row, err := s.q.InboundFind(ctx, inboundq.InboundFindParams{InboundNo: no, CompanyID: origin.CompanyID})
	if err != nil {
		return nil, postgres.Wrap("find inbound", err, errNone)
	}
	d, err := Effective(row.Preset, row.Description)
	if err != nil {
		return nil, err
	}
	if err := d.checkExpected(body); err != nil {
		return nil, err
	}
	region, err := s.directory.DefaultRegion(ctx, &row.CompanyID)
	if err != nil {
		return nil, err
	}
	all, err := recipientsOf(row, d, body, region)
	if err != nil {
		return nil, err
	}
	text, wrong, err := s.textOf(ctx, row, d, body)
	if err != nil {
		return nil, err
	}
	p := &post{origin: origin, wrong: wrong}
	if row.Priority != nil { // the priority of an inbound is set by an administrator, who is allowed to exceed the user's limit
		p.origin.TopPriority = min(p.origin.TopPriority, *row.Priority)
	}
	parts := d.dedupOf(body)
	var accepted []string // recipients of p.subs
	for _, r := range all {
		m := Message{PhoneNumber: r.number, Err: r.err}
		if m.Raw, err = json.Marshal(map[string]string{"inbound_no": no, "phone_number": r.number, "content": text.Content}); err != nil {
			return nil, fmt.Errorf("write submission: %w", err)
		}
		if r.err == nil {
			sub := submit.Submission{
				PhoneNumber: r.number, Content: text.Content, From: text.Source, Deferred: text.Deferred, Sign: text.Sign, Source: &row.InboundNo,
				Raw: m.Raw, MessageType: row.MessageType, Priority: row.Priority, Test: row.IsTest, TextError: wrong,
			}
			p.subs, p.indexes = append(p.subs, sub), append(p.indexes, len(p.messages))
			accepted = append(accepted, r.e164)
		}
		p.messages = append(p.messages, m)
	}
	if parts != nil {
		keys, err := s.dedupKeys(ctx, row, parts, accepted, origin)
		if err != nil {
			return nil, err
		}
		for i := range p.subs {
			p.subs[i].DedupKey = &keys[i]
		}
	}
	return p, nil
}

// recipientsOf returns the numbers of an inbound. If the inbound has no numbers, it returns the numbers of the body. The result is never empty.
func recipientsOf(row inboundq.Inbound, d Description, body any, region string) ([]recipient, error) {
	if row.PhoneNumbers == nil {
		if !d.hasNumber() { // a newer version of the preset possibly contains no path of numbers
			return nil, fault.InvalidField("phone_numbers", fault.Required, nil)
		}
		return d.numbersOf(body, region)
	}
	all := make([]recipient, len(row.PhoneNumbers))
	for i, number := range row.PhoneNumbers {
		all[i] = recipient{number: number, e164: number}
	}
	if len(all) == 0 {
		return nil, fault.InvalidField("phone_numbers", fault.Empty, nil)
	}
	return all, nil
}

// textOf returns the text of the messages, shortened to the maximum of their message type. wrong is a fault of the template: the template can have changed
// since an earlier post, whose repeats must not be rejected. A body without the values of the text is always rejected, with the fault err.
func (s *Service) textOf(ctx context.Context, row inboundq.Inbound, d Description, body any) (text template.Rendered, wrong, err error) {
	limits, err := s.submissions.Limits(ctx, row.MessageType)
	if err != nil {
		return text, nil, err
	}
	text.Sign = optional.Value(row.Sign)
	if row.TemplateNo == nil {
		content, err := d.textOf(body)
		text.Content = limits.Fit(text.Sign, content)
		return text, nil, err
	}
	values, err := d.paramsOf(body)
	if err != nil {
		return text, nil, err
	}
	rendered, err := s.rendered(ctx, row, values, limits)
	if isExpected(err) {
		return text, err, nil
	}
	return rendered, nil, err
}

// rendered returns the text of the template of an inbound. Faults: template.not_active, request.invalid.
func (s *Service) rendered(ctx context.Context, row inboundq.Inbound, values map[string]string, limits submit.Limits) (template.Rendered, error) {
	t, err := s.templates.Find(ctx, row.CompanyID, *row.TemplateNo)
	if err != nil {
		return template.Rendered{}, err
	}
	sign := optional.Value(row.Sign)
	text, err := fitted(t, values, func(text template.Rendered) error {
		if sign != "" {
			text.Sign = sign
		}
		return limits.Check(text.Sign, text.Content)
	})
	if sign != "" {
		text.Sign = sign
	}
	return text, err
}

// maxValue is the maximum length of a value in characters, which is the maximum of a message.
const maxValue = 1024

// fitted renders a template. If the text is too long, fitted shortens all long values to the same length. This is the greatest length with which the text
// fits.
func fitted(t template.Template, values map[string]string, check func(template.Rendered) error) (template.Rendered, error) {
	render := func(maxLength int) (template.Rendered, error) {
		cut := make(map[string]string, len(values))
		for name, value := range values {
			cut[name] = segment.Shortened(value, maxLength)
		}
		sent, err := json.Marshal(cut)
		if err != nil {
			return template.Rendered{}, fmt.Errorf("write parameters: %w", err)
		}
		params, err := template.ParseParams(sent)
		if err != nil {
			return template.Rendered{}, err
		}
		text, err := t.Render(params, "")
		if err == nil {
			err = check(text)
		}
		return text, err
	}
	text, err := render(maxValue)
	if err == nil {
		return text, nil
	}
	if fits := sort.Search(maxValue, func(n int) bool { _, err := render(n + 1); return err != nil }); fits > 0 {
		return render(fits)
	}
	return text, err
}

// dedupKeys returns the dedup keys of the messages to recipients. With RepeatSeconds, a key contains the number of the current period of this length. If the
// message of the period before is not older than RepeatSeconds, its key is returned: the post repeats this message. Two posts that arrive at the same time on
// both sides of the end of a period do not see each other.
func (s *Service) dedupKeys(ctx context.Context, row inboundq.Inbound, parts [][]string, recipients []string, origin submit.Origin) ([]string, error) {
	all := func(period int64) []string {
		keys := make([]string, len(recipients))
		for i, recipient := range recipients {
			keys[i] = dedupKey(row, parts, recipient, period)
		}
		return keys
	}
	if row.RepeatSeconds == nil {
		return all(0), nil
	}
	now := time.Now()
	period := now.Unix() / *row.RepeatSeconds
	keys, before := all(period), all(period-1)
	areRepeats, err := s.submissions.UsedSince(ctx, before, now.Add(-time.Duration(*row.RepeatSeconds)*time.Second), origin)
	for i, isRepeat := range areRepeats {
		if isRepeat {
			keys[i] = before[i]
		}
	}
	return keys, err
}

// dedupKey returns the dedup key of the message to one recipient in a period.
func dedupKey(row inboundq.Inbound, parts [][]string, recipient string, period int64) string {
	whole, err := json.Marshal([]any{row.ID, parts, recipient, period})
	if err != nil {
		panic(err) // impossible: the values are texts and numbers
	}
	sum := sha256.Sum256(whole)
	return "inbound:" + strconv.FormatInt(row.ID, 10) + ":" + base64.RawURLEncoding.EncodeToString(sum[:])
}
