package push

import (
	"context"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/postgres"
)

// maxLatest is the maximum number of outcomes that are stored per sender.
const maxLatest = 10

// called contains the outcome of one call.
type called struct{ taskID, outcome, code, err, answer string }

// latest contains the latest outcomes of calls, oldest first.
type latest []called

// add appends the outcome of a message, if the provider was called. The other messages of the same call are not added.
func (l *latest) add(taskID string, o provider.Outcome) {
	if !o.IsCall() || o.SameCall {
		return
	}
	all := append(*l, called{taskID, o.Kind(), o.Code, o.Error, o.Answer})
	*l = all[max(0, len(all)-maxLatest):]
}

// keep stores the latest outcomes of a sender. Operators read these outcomes; deliveries do not use them. An error is only logged.
func (p *Pusher) keep(ctx context.Context, senderNo string, l latest) {
	if len(l) == 0 {
		return
	}
	k := pushq.SenderAnswersKeepParams{SenderNo: senderNo}
	for _, a := range l {
		k.TaskIds, k.Outcomes = append(k.TaskIds, a.taskID), append(k.Outcomes, a.outcome)
		k.Codes, k.Errors = append(k.Codes, postgres.Text(a.code)), append(k.Errors, postgres.Text(a.err))
		k.Answers = append(k.Answers, postgres.Text(a.answer))
	}
	if err := p.q.SenderAnswersKeep(ctx, k); err != nil {
		p.log.WarnContext(ctx, "the last answers of a provider could not be stored", "sender_no", senderNo, "error", err)
	}
}
