package push

import (
	"context"

	"lksms/gen/dbq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/postgres"
)

// maxLatest is how many outcomes of a sender are kept beside it.
const maxLatest = 10

// latest has the latest outcomes of calls, the newest last.
type latest []dbq.SenderAnswer

// add adds the outcome of a message, if the provider was called.
func (l *latest) add(taskID string, o provider.Outcome) {
	if !o.IsCall() {
		return
	}
	all := append(*l, dbq.SenderAnswer{TaskID: taskID, Outcome: o.Kind(), Code: &o.Code, Error: &o.Error, Answer: &o.Answer})
	*l = all[max(0, len(all)-maxLatest):]
}

// keep stores the latest outcomes of a sender. They explain what the sender does; a message does not depend on them.
func (p *Pusher) keep(ctx context.Context, senderNo string, l latest) {
	if len(l) == 0 {
		return
	}
	k := dbq.SenderAnswersKeepParams{SenderNo: senderNo}
	for _, a := range l {
		k.TaskIds, k.Outcomes = append(k.TaskIds, a.TaskID), append(k.Outcomes, a.Outcome)
		k.Codes, k.Errors = append(k.Codes, postgres.Text(*a.Code)), append(k.Errors, postgres.Text(*a.Error))
		k.Answers = append(k.Answers, postgres.Text(*a.Answer))
	}
	if err := p.q.SenderAnswersKeep(ctx, k); err != nil {
		p.log.WarnContext(ctx, "the last answers of a provider could not be stored", "sender_no", senderNo, "error", err)
	}
}
