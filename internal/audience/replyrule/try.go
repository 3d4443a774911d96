package replyrule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// Trial describes what a message with a text would cause.
type Trial struct {
	Kind    string  // kind of the message
	Rule    *Row    // the rule that would match; nil: no rule
	Content *string // text of the reply; nil: no reply
	Skipped string  // outcome of an action that would not be performed now; empty: it would be performed
}

// CompanyOff is the Skipped of a Trial whose action waits until the company is on.
const CompanyOff = "company_off"

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
	region = cmp.Or(region, phone.Home)
	t.Kind = received.KindOf(content, region, rules)
	to := trialTo{companyID, region}
	if t.Kind == received.KindOptOut && rules.OptOutReply != nil {
		return t, s.addConfirmation(ctx, to, *rules.OptOutReply, &t)
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
	case t.Rule.Action == Reply:
		err = s.addReply(ctx, to, &t)
	case t.Rule.Action == OptOut && t.Kind != received.KindAutoReply && rules.OptOutReply != nil:
		err = s.addConfirmation(ctx, to, *rules.OptOutReply, &t)
	case t.Rule.Action == Forward:
		t.Skipped, err = s.tryForward(ctx, companyID, t.Rule)
	}
	if t.Kind == received.KindText {
		t.Kind = received.KindKeyword
	}
	return t, err
}

// trialTo is the receiver of a text in a Trial: an ordinary number of a region.
type trialTo struct {
	companyID int64
	region    string
}

// addReply sets the text of the reply. A template that cannot be used any more makes the reply impossible.
func (s *Service) addReply(ctx context.Context, to trialTo, t *Trial) error {
	if t.Rule.Content != nil {
		return s.addText(ctx, to, optional.Value(t.Rule.Sign), *t.Rule.Content, t)
	}
	found, err := s.uses.Templates.Find(ctx, to.companyID, optional.Value(t.Rule.TemplateNo))
	if fault.Is(err, fault.TemplateNotActive) || fault.Is(err, fault.RequestInvalid) || err == nil && len(found.Names()) > 0 {
		t.Skipped = Refused
		return nil
	}
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	text, _ := found.In("")
	return s.addText(ctx, to, optional.Or(t.Rule.Sign, found.Sign), text.String(), t)
}

// addConfirmation sets the text that confirms an opt-out. The block is added even if the confirmation is not possible.
func (s *Service) addConfirmation(ctx context.Context, to trialTo, text string, t *Trial) error {
	err := s.addText(ctx, to, "", text, t)
	if t.Skipped == Refused {
		t.Skipped = ""
	}
	return err
}

// addText sets the text that would be sent, unless it would be refused, for example because the country requires a signature.
func (s *Service) addText(ctx context.Context, to trialTo, sign, text string, t *Trial) (err error) {
	number := phone.Example(to.region)
	if t.Skipped, err = s.whileOff(ctx, to.companyID); err != nil || t.Skipped != "" || number == "" {
		t.Content = &text
		return err
	}
	isPossible, err := s.canSend(ctx, to.companyID, submit.Submission{
		PhoneNumber: number, Content: text, Sign: sign, MessageType: submit.Notification, IsReply: true,
	})
	switch {
	case err != nil:
		return err
	case isPossible:
		t.Content = &text
	default:
		t.Skipped = Refused
	}
	return nil
}

// tryForward returns why a forward would not reach all its receivers, or would wait. Without a signature of the rule, a message that answers a task is forwarded
// with the signature of the task; the message of a trial answers none.
func (s *Service) tryForward(ctx context.Context, companyID int64, rule *Row) (string, error) {
	if skipped, err := s.whileOff(ctx, companyID); err != nil || skipped != "" {
		return skipped, err
	}
	var refused []string
	if rule.WebhookID != nil {
		isPossible, err := isAccepted(s.uses.CheckForward(ctx, *rule.WebhookID, companyID))
		if err != nil {
			return "", fmt.Errorf("check webhook: %w", err)
		}
		if !isPossible {
			refused = append(refused, toWebhook)
		}
	}
	blocked, err := s.uses.Submissions.Blocked(ctx, companyID, submit.Notification, rule.PhoneNumbers)
	if err != nil {
		return "", fmt.Errorf("find blocks of receivers: %w", err)
	}
	for i, number := range rule.PhoneNumbers {
		isPossible, err := s.canSend(ctx, companyID, submit.Submission{
			PhoneNumber: number, Content: number, Sign: optional.Value(rule.Sign), MessageType: submit.Notification, IsUncapped: true,
		})
		if err != nil {
			return "", err
		}
		if !isPossible || blocked[i] {
			refused = append(refused, number)
		}
	}
	if outcome, _ := forwarded(rule, refused); outcome != Done {
		return outcome, nil
	}
	return "", nil
}

// canSend reports whether a message could be submitted for a company if no block forbids it.
func (s *Service) canSend(ctx context.Context, companyID int64, sub submit.Submission) (bool, error) {
	_, err := s.uses.Submissions.Check(ctx, time.Now(), sub, submit.Origin{User: By, CompanyID: companyID})
	isPossible, err := isAccepted(err)
	if err != nil {
		return false, fmt.Errorf("check text: %w", err)
	}
	return isPossible, nil
}

// isAccepted reports whether err is nil. It returns false for a fault, and an error after which the decision is unknown.
func isAccepted(err error) (bool, error) {
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Kind != fault.Unavailable {
		return false, nil
	}
	return err == nil, err
}

// whileOff returns CompanyOff if a company is off, because messages of its rules wait until the company is on.
func (s *Service) whileOff(ctx context.Context, companyID int64) (string, error) {
	err := s.checkOpen(ctx, companyID)
	if errors.Is(err, errCompanyOff) {
		return CompanyOff, nil
	}
	return "", err
}
