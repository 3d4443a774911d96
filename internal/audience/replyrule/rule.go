package replyrule

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"lksms/gen/replyruleq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// maxRules is the maximum number of rules of a company; a trigger of reply_rules contains the same number.
const maxRules = 100

// Row is a rule, and the number of its company.
type Row = replyruleq.ReplyRuleListRow

// Settings contains the settings of a rule. A nil field is not set; an action uses only some fields.
type Settings struct {
	Match        string
	Words        []string
	Action       string
	Content      *string   // of a reply
	TemplateNo   *string   // of a reply
	Sign         *string   // of reply and forward; nil: the signature of the template, or, without a template, of the task that the message answers
	Tag          *string   // of tag and untag
	PhoneNumbers *[]string // of forward, in any notation
	WebhookID    *int64    // of forward; the caller checks that the webhook belongs to the company
	Sort         int64
}

func settingsOf(r Row) Settings {
	to := Settings{
		Match: r.Match, Words: r.Words, Action: r.Action, Content: r.Content, TemplateNo: r.TemplateNo, Sign: r.Sign, Tag: r.Tag,
		WebhookID: r.WebhookID, Sort: r.Sort,
	}
	if r.PhoneNumbers != nil {
		to.PhoneNumbers = &r.PhoneNumbers
	}
	return to
}

// Create adds a rule of a company. Faults: request.invalid, template.not_active, limit.reached.
func (s *Service) Create(ctx context.Context, companyID int64, to Settings) (row Row, err error) {
	if err := s.check(ctx, companyID, &to); err != nil {
		return row, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		id, err := s.q.ReplyRuleCreate(ctx, replyruleq.ReplyRuleCreateParams{
			CompanyID: companyID, Match: to.Match, Words: to.Words, Action: to.Action, Content: to.Content, TemplateNo: to.TemplateNo, Sign: to.Sign,
			Tag: to.Tag, PhoneNumbers: optional.Value(to.PhoneNumbers), WebhookID: to.WebhookID, Sort: to.Sort,
		})
		if err != nil {
			return postgres.Wrap("create rule", err, nil)
		}
		row, err = s.Get(ctx, &companyID, id)
		return err
	})
	return row, err
}

// Get returns a rule of a company (nil: of any company). Fault: reply_rule.not_found.
func (s *Service) Get(ctx context.Context, companyID *int64, id int64) (Row, error) {
	rows, err := s.q.ReplyRuleList(ctx, replyruleq.ReplyRuleListParams{CompanyID: companyID, ID: &id, AfterSort: math.MinInt64, PageLimit: 1})
	return postgres.One(rows, err, "get rule", errNone)
}

// List returns the rules of a company, in the order in which they are tried.
func (s *Service) List(ctx context.Context, companyID int64) ([]Row, error) {
	rows, err := s.q.ReplyRuleList(ctx, replyruleq.ReplyRuleListParams{CompanyID: &companyID, AfterSort: math.MinInt64, PageLimit: maxRules})
	return rows, postgres.Wrap("list rules", err, nil)
}

// Update changes a rule of a company (nil: of any company). If the action changes, the fields of the former action are removed. Faults: request.invalid,
// template.not_active, reply_rule.not_found, version.stale.
func (s *Service) Update(ctx context.Context, companyID *int64, id int64, version *int64, change func(*Settings)) (row Row, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		read := func() (Row, error) { return s.Get(ctx, companyID, id) }
		row, err = postgres.Patch(version, read, func(r Row) int64 { return r.Version }, func(was Row) (int64, error) {
			before := settingsOf(was)
			to := before
			change(&to)
			to.dropUnused(before)
			if err := s.check(ctx, was.CompanyID, &to); err != nil {
				return 0, err
			}
			n, err := s.q.ReplyRuleUpdate(ctx, replyruleq.ReplyRuleUpdateParams{
				ID: id, Version: was.Version, Match: to.Match, Words: to.Words, Action: to.Action, Content: to.Content, TemplateNo: to.TemplateNo,
				Sign: to.Sign, Tag: to.Tag, PhoneNumbers: optional.Value(to.PhoneNumbers), WebhookID: to.WebhookID, Sort: to.Sort,
			})
			return n, postgres.Wrap("change rule", err, nil)
		})
		return err
	})
	return row, err
}

// Delete deletes a rule of a company (nil: of any company). Fault: reply_rule.not_found.
func (s *Service) Delete(ctx context.Context, companyID *int64, id int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.q.ReplyRuleDelete(ctx, replyruleq.ReplyRuleDeleteParams{ID: id, CompanyID: companyID})
		return postgres.DeletedOne(n, err, "delete rule", errNone)
	})
}

// field is a field of Settings that only some actions use.
type field struct {
	name, action string // action as errors name it
	isUsed       bool   // the action of the settings uses the field
	isSet        bool
	isUnchanged  bool
	drop         func()
}

// fields returns the fields that only some actions use. `before` contains the values before a change.
func (c *Settings) fields(before Settings) []field {
	isTag := c.Action == Tag || c.Action == Untag
	return []field{
		{"content", "action=reply", c.Action == Reply, c.Content != nil, c.Content == before.Content, func() { c.Content = nil }},
		{"template_no", "action=reply", c.Action == Reply, c.TemplateNo != nil, c.TemplateNo == before.TemplateNo, func() { c.TemplateNo = nil }},
		{"sign", "action=reply|forward", c.Action == Reply || c.Action == Forward, c.Sign != nil, c.Sign == before.Sign, func() { c.Sign = nil }},
		{"tag", "action=tag", isTag, c.Tag != nil, c.Tag == before.Tag, func() { c.Tag = nil }},
		{"phone_numbers", "action=forward", c.Action == Forward, c.PhoneNumbers != nil, c.PhoneNumbers == before.PhoneNumbers, func() { c.PhoneNumbers = nil }},
		{"webhook_id", "action=forward", c.Action == Forward, c.WebhookID != nil, c.WebhookID == before.WebhookID, func() { c.WebhookID = nil }},
	}
}

// dropUnused removes the fields that a change made useless: the fields of an action that the rule no longer has, the text if a template was chosen, and the
// template if a text was set.
func (c *Settings) dropUnused(before Settings) {
	for _, f := range c.fields(before) {
		if !f.isUsed && f.isUnchanged {
			f.drop()
		}
	}
	switch {
	case c.Content == nil || c.TemplateNo == nil:
	case c.Content == before.Content:
		c.Content = nil
	case c.TemplateNo == before.TemplateNo:
		c.TemplateNo = nil
	}
}

// check returns a fault for settings that are not valid, and normalises the others. Faults: request.invalid, template.not_active.
func (s *Service) check(ctx context.Context, companyID int64, to *Settings) error {
	if _, err := compile(to.Match, to.Words); err != nil {
		return err
	}
	for _, f := range to.fields(Settings{}) {
		if f.isSet && !f.isUsed {
			return fault.InvalidField(f.name, fault.OnlyTogether, f.action)
		}
	}
	switch to.Action {
	case Reply:
		return s.checkReply(ctx, companyID, to)
	case Tag, Untag:
		if to.Tag == nil {
			return fault.InvalidField("tag", fault.Required, nil)
		}
	case Forward:
		return s.checkForward(ctx, companyID, to)
	}
	return nil
}

func (s *Service) checkReply(ctx context.Context, companyID int64, to *Settings) error {
	switch {
	case to.Content == nil && to.TemplateNo == nil:
		return fault.InvalidField("content", fault.Required, nil)
	case to.Content != nil && to.TemplateNo != nil:
		return fault.InvalidField("content", fault.NotTogether, "template_no")
	case to.TemplateNo != nil:
		found, err := s.uses.Templates.Find(ctx, companyID, *to.TemplateNo)
		if err == nil && len(found.Names()) > 0 {
			err = fault.InvalidField("template_no", fault.HasPlaceholders, found.Names())
		}
		return err //nolint:wrapcheck // the error is a fault, or already wrapped
	case strings.TrimSpace(*to.Content) == "":
		return fault.InvalidField("content", fault.Blank, nil)
	}
	limits, err := s.uses.Submissions.Limits(ctx, submit.Notification)
	if err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	return limits.Check(optional.Value(to.Sign), *to.Content) //nolint:wrapcheck // the error is a fault
}

func (s *Service) checkForward(ctx context.Context, companyID int64, to *Settings) error {
	if to.PhoneNumbers == nil && to.WebhookID == nil {
		return fault.InvalidField("phone_numbers", fault.Required, nil)
	}
	if to.PhoneNumbers == nil {
		return nil
	}
	region, err := s.uses.Directory.DefaultRegion(ctx, &companyID)
	if err != nil {
		return fmt.Errorf("find region: %w", err)
	}
	var wrong fault.Fields
	numbers := []string{}
	for i, given := range *to.PhoneNumbers {
		name := fmt.Sprintf("phone_numbers.%d", i)
		number, err := phone.Normalise(name, given, region)
		isDuplicate := err == nil && slices.Contains(numbers, number)
		if err := wrong.Add(err); err != nil {
			return err //nolint:wrapcheck // the error is already wrapped
		}
		if isDuplicate {
			wrong.Invalid(name, fault.Duplicate, nil)
		}
		numbers = append(numbers, number)
	}
	to.PhoneNumbers = &numbers
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}
