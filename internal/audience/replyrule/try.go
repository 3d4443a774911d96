package replyrule

import (
	"context"
	"fmt"

	"lksms/internal/dispatch/received"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// Trial describes what a message with a text would cause.
type Trial struct {
	Kind    string  // kind of the message
	Rule    *Row    // the rule that would match; nil: none
	Content *string // text of the reply; nil: no reply
	Skipped string  // outcome of an action that would not be performed; empty: it would be performed
}

// Try returns what a text from an ordinary number in the region of a company would cause. It does nothing. Guards that need the number are not tried.
func (s *Service) Try(ctx context.Context, companyID int64, content string) (t Trial, err error) {
	rules, err := s.uses.Directory.RecipientRules(ctx, companyID)
	if err != nil {
		return t, fmt.Errorf("read opt-out words: %w", err)
	}
	region, err := s.uses.Directory.DefaultRegion(ctx, &companyID)
	if err != nil {
		return t, fmt.Errorf("find region: %w", err)
	}
	if region == "" {
		region = "CN" // the region of numbers without a country code, see package phone
	}
	t.Kind = received.KindOf(content, region, rules)
	if t.Kind == received.KindOptOut && rules.OptOutReply != nil {
		t.Content = rules.OptOutReply
		return t, nil
	}
	set, err := s.rulesOf(ctx, companyID)
	if err != nil {
		return t, err
	}
	if t.Rule = set.find(content); t.Rule == nil {
		return t, nil
	}
	switch {
	case t.Rule.Action == Reply && t.Kind == received.KindAutoReply:
		t.Skipped = FromProgram
	case t.Rule.Action == OptIn && t.Kind == received.KindOptOut:
		t.Skipped = AsksForNone
	}
	if t.Kind == received.KindText {
		t.Kind = received.KindKeyword
	}
	switch {
	case t.Rule.Action == Reply && t.Skipped == "":
		err = s.addReply(ctx, companyID, &t)
	case t.Rule.Action == OptOut && t.Kind != received.KindAutoReply:
		t.Content = rules.OptOutReply
	}
	return t, err
}

// addReply sets the text of the reply. A template that cannot be used any more makes the reply impossible.
func (s *Service) addReply(ctx context.Context, companyID int64, t *Trial) error {
	if t.Content = t.Rule.Content; t.Content != nil {
		return nil
	}
	found, err := s.uses.Templates.Find(ctx, companyID, optional.Value(t.Rule.TemplateNo))
	if fault.Is(err, fault.TemplateNotActive) || fault.Is(err, fault.RequestInvalid) || err == nil && len(found.Names()) > 0 {
		t.Skipped = Refused
		return nil
	}
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	text, _ := found.In("")
	t.Content = new(text.String())
	return nil
}
