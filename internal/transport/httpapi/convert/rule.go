package convert

import (
	"time"

	"lksms/gen/api"
	"lksms/internal/platform/optional"
)

// ReceivedRule describes what a rule did with a received message. A nil outcome means that no rule has done anything.
func ReceivedRule(ruleID *int64, action, outcome *string, refused []string, doneAt *time.Time) *api.ReceivedRule {
	if outcome == nil {
		return nil
	}
	rule := &api.ReceivedRule{RuleNo: ruleID, Action: api.ReplyAction(optional.Value(action)), Outcome: api.RuleOutcome(*outcome), DoneAt: optional.Value(doneAt)}
	if refused != nil {
		rule.Refused = &refused
	}
	return rule
}
