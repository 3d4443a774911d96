package replyrule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/replyruleq"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/sweep"
)

const (
	portion     = 20             // maximum number of messages of a company to which rules are applied before those of the next company
	readAgain   = time.Second    // a company without further due messages is read again after this time, while those of others are processed
	maxReplies  = 5              // maximum number of automatic replies of a company to the messages of a number within an hour: it also ends a loop of two programs
	maxForwards = 60             // maximum number of messages from a number within an hour that are forwarded
	maxAge      = 24 * time.Hour // maximum age of a message that gets an automatic reply: a phone can hand over old messages
)

// These are the outcomes of actions, as stored.
const (
	Done        = "done"
	Partly      = "partly"          // some receivers of a forward got the message
	NoNumber    = "no_phone_number" // the message came from a short code or a name
	FromProgram = "auto_reply"      // the message is automatic: a phone or program sent it by itself
	FromOwn     = "own_number"      // the message came from a number of a sender, or from a number to which the rule forwards
	TooMany     = "too_many"        // maxReplies or maxForwards is reached
	TooOld      = "too_old"
	AsksForNone = "opted_out" // the message asks for no more messages, and a rule does not undo this
	IsBlocked   = "blocked"   // a block forbids the reply
	Refused     = "refused"   // the reply or change is not possible, for example because no sender serves the number any more
	Failed      = "failed"    // the action failed for a day
	Repeated    = "repeated"  // the person has already got this reply
)

var outcomes = []string{Done, Partly, NoNumber, FromProgram, FromOwn, TooMany, TooOld, AsksForNone, IsBlocked, Refused, Failed, Repeated}

// waits is the outcome of an action that performs a part later, when the company is on. It is not stored.
const waits = ""

// ruleSet contains the compiled rules of a company, in the order in which they are tried.
type ruleSet []compiled

type compiled struct {
	Row
	matches matcher
}

// rulesOf reads the rules of a company. It skips a rule that cannot be compiled any more.
func (s *Service) rulesOf(ctx context.Context, companyID int64) (ruleSet, error) {
	rows, err := s.List(ctx, companyID)
	if err != nil {
		return nil, err
	}
	var set ruleSet
	for _, row := range rows {
		if m, err := compile(row.Match, row.Words); err == nil {
			set = append(set, compiled{row, m})
		}
	}
	return set, nil
}

// find returns the first rule that matches a text; nil: no rule matches.
func (set ruleSet) find(content string) *Row {
	t := textOf(content)
	for i := range set {
		if set[i].matches(t) {
			return &set[i].Row
		}
	}
	return nil
}

// Apply applies the rules to received messages, one portion of each company in turn, and returns the number of messages. The caller holds the lock of the sweep, so
// that the replies to a number are counted exactly. Each message has its own transaction: its action and the record of the action are stored together, or neither
// is. If an action fails because of the database, the message is tried again later, and the others continue.
func (s *Service) Apply(ctx context.Context) (done int, failures error) {
	after := map[int64]int64{}    // the last message of each company that was tried
	next := map[int64]time.Time{} // the earliest time of the next query for a company: a query also reads all waiting messages that are not due
	for isOver := false; !isOver && ctx.Err() == nil; {
		companies, err := s.q.ReplyActionCompanies(ctx) // queried in each round, so that a new company waits for one round at most
		if err != nil {
			return done, errors.Join(failures, fmt.Errorf("find companies for rules: %w", err))
		}
		isOver = true
		for _, company := range companies {
			if time.Now().Before(next[company]) {
				continue
			}
			ids, err := s.q.ReplyActionsDue(ctx, replyruleq.ReplyActionsDueParams{CompanyID: company, AfterID: after[company], MaxRows: portion})
			if err != nil {
				return done, errors.Join(failures, fmt.Errorf("find messages for rules: %w", err))
			}
			if len(ids) < portion {
				next[company] = time.Now().Add(readAgain)
			}
			if len(ids) == 0 {
				continue
			}
			isOver, after[company] = false, ids[len(ids)-1]
			n, failed, err := s.applyPortion(ctx, ids)
			done, failures = done+n, errors.Join(failures, failed)
			if err != nil {
				return done, errors.Join(failures, err)
			}
		}
	}
	return done, errors.Join(failures, ctx.Err())
}

// applyPortion applies the rules to messages of a company, and returns the number of messages. failures contains the errors of messages that are tried again
// later. err is not nil if the other messages cannot be tried now.
func (s *Service) applyPortion(ctx context.Context, ids []int64) (done int, failures, err error) {
	sets := map[int64]ruleSet{}
	for _, id := range ids {
		err := s.applyOne(ctx, id, sets)
		if err == nil {
			done++
			continue
		}
		if ctx.Err() != nil {
			return done, failures, ctx.Err()
		}
		postpone := s.q.ReplyActionPostpone
		switch {
		case errors.Is(err, errCompanyOff):
			postpone = s.q.ReplyActionAwaitCompany
		case !errors.Is(err, errLater):
			failures = errors.Join(failures, fmt.Errorf("apply rules to received message %d: %w", id, err))
		}
		if err := postpone(ctx, id); err != nil {
			return done, failures, fmt.Errorf("postpone rules: %w", err)
		}
	}
	return done, failures, nil
}

// errLater means that an action cannot be performed yet. errCompanyOff means that it waits until its company is on.
var (
	errLater      = errors.New("not possible yet")
	errCompanyOff = fmt.Errorf("%w: the company is off", errLater)
)

// applyOne applies the rules to one message. sets contains the rules of companies that were read already.
func (s *Service) applyOne(ctx context.Context, id int64, sets map[int64]ruleSet) (err error) {
	defer sweep.Recovered(&err)
	var blocked *received.Row
	isWaiting := false
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		held, err := s.q.ReplyActionHold(ctx, id)
		if postgres.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return postgres.Wrap("lock message for rules", err, nil)
		}
		m, rule, err := s.matched(ctx, id, sets)
		if err != nil {
			return err
		}
		if rule == nil {
			return postgres.Wrap("remove message from rules", s.q.ReplyActionDelete(ctx, id), nil)
		}
		if err := s.uses.Received.RecordMatch(ctx, id); err != nil {
			return fmt.Errorf("record rule: %w", err)
		}
		var refused []string
		outcome, err := s.tried(ctx, func(ctx context.Context) (outcome string, err error) {
			outcome, refused, err = s.perform(ctx, m, rule)
			return outcome, err
		})
		switch {
		case err != nil && held.IsOld && !errors.Is(err, errLater) && !postgres.IsUnavailable(err):
			outcome = Failed
		case err != nil:
			return err
		}
		if rule.Action == OptOut && (outcome == Done || outcome == waits) {
			blocked = &m
		}
		if isWaiting = outcome == waits; isWaiting {
			return nil
		}
		s.db.AfterCommit(ctx, func() { s.applied.WithLabelValues(outcome).Inc() })
		return postgres.Wrap("record action of rule", s.q.ReplyActionDone(ctx, replyruleq.ReplyActionDoneParams{
			ReceivedID: id, RuleID: optional.NonZero(rule.ID), Action: rule.Action, Outcome: outcome, Refused: refused,
		}), nil)
	})
	if err == nil && blocked != nil { // only after the commit do submissions see the block. If this call fails, the sweep enforce-blocks enforces the block
		_ = s.uses.Blocks.EnforceOfPeople(ctx, []string{blocked.PhoneNumber}, []int64{blocked.CompanyID})
	}
	if err == nil && isWaiting {
		return errCompanyOff
	}
	return err
}

// matched returns a message and the rule that matches it. The rule is nil if none does, or if the message was deleted or erased. A message that opts out by a
// usual word needs no rule. If the company confirms opt-outs, matched returns the rule confirming for such a message.
func (s *Service) matched(ctx context.Context, id int64, sets map[int64]ruleSet) (m received.Row, rule *Row, err error) {
	m, err = s.uses.Received.Get(ctx, task.Viewer{}, id)
	if fault.Is(err, fault.ReceivedNotFound) {
		return m, nil, nil
	}
	if err != nil {
		return m, nil, fmt.Errorf("read message: %w", err)
	}
	own, err := s.uses.Directory.RecipientRules(ctx, m.CompanyID)
	if err != nil {
		return m, nil, fmt.Errorf("read rules about recipients: %w", err)
	}
	if m.Kind == received.KindOptOut && own.OptOutReply != nil {
		return m, &confirming, nil
	}
	set, isKnown := sets[m.CompanyID]
	if !isKnown {
		if set, err = s.rulesOf(ctx, m.CompanyID); err != nil {
			return m, nil, err
		}
		sets[m.CompanyID] = set
	}
	return m, set.find(m.Content), nil
}

// confirming confirms that a message opted out. It is not stored.
var confirming = Row{Action: OptOut}

// tried performs an action, and returns its outcome. If the action is refused, none of its changes remain. An error means that the action is to be tried again.
func (s *Service) tried(ctx context.Context, perform func(ctx context.Context) (string, error)) (outcome string, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) { // a savepoint
		outcome, err = perform(ctx)
		return err
	})
	var wrong *fault.Error
	switch {
	case err == nil:
		return outcome, nil
	case !errors.As(err, &wrong) || wrong.Kind == fault.Unavailable:
		return "", err
	case wrong.Reason == fault.RecipientBlocked:
		return IsBlocked, nil
	default:
		return Refused, nil
	}
}

// perform performs the action of a rule. If some receivers of a forward got the message, refused contains the receivers that did not get it.
func (s *Service) perform(ctx context.Context, m received.Row, rule *Row) (outcome string, refused []string, err error) {
	switch rule.Action {
	case Reply:
		outcome, err = s.reply(ctx, m, rule)
	case Forward:
		return s.forwardMessage(ctx, m, rule)
	case Tag, Untag:
		outcome, err = s.tag(ctx, m, rule)
	case OptOut, OptIn:
		outcome, err = s.opt(ctx, m, rule.Action)
	default: // Acknowledge
		outcome = Done
		_, err = s.uses.Received.Read(ctx, task.Viewer{}, m.ID, By)
	}
	return outcome, nil, err //nolint:wrapcheck // the error is already wrapped
}

// reply sends the text of a rule.
func (s *Service) reply(ctx context.Context, m received.Row, rule *Row) (string, error) {
	return s.answer(ctx, m, conversation.Answer{
		Content: optional.Value(rule.Content), TemplateNo: optional.Value(rule.TemplateNo), Sign: rule.Sign, DedupKey: dedupKey(m), By: By,
	})
}

// answer sends an automatic reply, unless a guard forbids it.
func (s *Service) answer(ctx context.Context, m received.Row, a conversation.Answer) (string, error) {
	switch {
	case !isNumber(m):
		return NoNumber, nil
	case m.Kind == received.KindAutoReply:
		return FromProgram, nil
	case time.Since(optional.Or(m.ReceivedAt, m.CreatedAt)) > maxAge:
		return TooOld, nil
	}
	if err := s.checkOpen(ctx, m.CompanyID); err != nil {
		return "", err
	}
	if why, err := s.guard(ctx, m, []string{Reply, OptOut}, maxReplies); err != nil || why != "" { // an opt-out can be confirmed
		return why, err
	}
	made, err := s.uses.Conversations.Answer(ctx, m, a)
	if err == nil && made.Deduplicated {
		return Repeated, nil
	}
	return Done, err //nolint:wrapcheck // the error is a fault, or already wrapped
}

// checkOpen returns errCompanyOff while a company is off, because its messages, including the messages of its rules, are held.
func (s *Service) checkOpen(ctx context.Context, companyID int64) error {
	err := s.uses.Directory.CheckOpen(ctx, companyID)
	if fault.Is(err, fault.CompanyOff) {
		return errCompanyOff
	}
	return err //nolint:wrapcheck // the error is already wrapped
}

// guard returns the outcome of an action that is forbidden: FromOwn if the message came from a number of a sender, and TooMany if the limit of an hour is
// reached. An empty outcome means that the action is allowed.
func (s *Service) guard(ctx context.Context, m received.Row, actions []string, limit int64) (string, error) {
	if isNumber(m) {
		isOwn, err := s.q.ReplyNumberIsOwn(ctx, m.PhoneNumber)
		if err != nil || isOwn {
			return FromOwn, postgres.Wrap("find number of sender", err, nil)
		}
	}
	n, err := s.q.ReplyActionsOfNumber(ctx, replyruleq.ReplyActionsOfNumberParams{ReceivedID: m.ID, Actions: actions})
	if err != nil || n >= limit {
		return TooMany, postgres.Wrap("count actions of number", err, nil)
	}
	return "", nil
}

// isNumber reports whether a message came from a phone number, and not from a short code or a name.
func isNumber(m received.Row) bool { return phone.IsE164(m.PhoneNumber) }

// dedupKey returns the dedup key of the task that a rule submits because of a message.
func dedupKey(m received.Row) string { return fmt.Sprint("reply_rule:", m.ID) }

// toWebhook stands for the webhook of a rule in a list of refused receivers.
const toWebhook = "webhook"

// forwardMessage sends a message to the numbers and the webhook of a rule. If one receiver cannot get the message, the other receivers still get it.
func (s *Service) forwardMessage(ctx context.Context, m received.Row, rule *Row) (outcome string, refused []string, err error) {
	if slices.Contains(rule.PhoneNumbers, m.PhoneNumber) {
		return FromOwn, nil, nil
	}
	if err := s.checkOpen(ctx, m.CompanyID); err != nil {
		return "", nil, err
	}
	if why, err := s.guard(ctx, m, []string{Forward}, maxForwards); err != nil || why != "" {
		return why, nil, err
	}
	if rule.WebhookID != nil {
		isDone, err := s.uses.Forward(ctx, *rule.WebhookID, m)
		switch isPossible, err := isAccepted(err); {
		case err != nil:
			return "", nil, err
		case !isPossible:
			refused = []string{toWebhook}
		case !isDone:
			return "", nil, errLater
		}
	}
	if len(rule.PhoneNumbers) > 0 {
		numbers, err := s.uses.Conversations.Forward(ctx, m, conversation.Forward{Numbers: rule.PhoneNumbers, Sign: rule.Sign, DedupKey: dedupKey(m), By: By})
		if err != nil {
			return "", nil, err //nolint:wrapcheck // the error is already wrapped
		}
		refused = append(refused, numbers...)
	}
	outcome, refused = forwarded(rule, refused)
	return outcome, refused, nil
}

// forwarded returns the outcome of a forward. It returns the refused receivers only if other receivers got the message.
func forwarded(rule *Row, refused []string) (string, []string) {
	receivers := len(rule.PhoneNumbers)
	if rule.WebhookID != nil {
		receivers++
	}
	switch len(refused) {
	case receivers:
		return Refused, nil
	case 0:
		return Done, nil
	default:
		return Partly, refused
	}
}

// tag adds the contacts of a number to a tag, or removes them. A number without a contact gets one, whose user id consists of the digits of the number.
func (s *Service) tag(ctx context.Context, m received.Row, rule *Row) (string, error) {
	if !isNumber(m) {
		return NoNumber, nil
	}
	people, err := s.uses.Contacts.FindByPerson(ctx, m.CompanyID, []string{}, []string{m.PhoneNumber})
	if err != nil {
		return "", err //nolint:wrapcheck // the error is already wrapped
	}
	ids := make([]string, len(people))
	for i, one := range people {
		ids[i] = one.UserID
	}
	tag := optional.Value(rule.Tag)
	if rule.Action == Untag {
		_, err := s.uses.Contacts.ChangeTag(ctx, m.CompanyID, tag, []string{}, ids)
		if fault.Is(err, fault.TagNotFound) {
			return Done, nil
		}
		return Done, err //nolint:wrapcheck // the error is a fault, or already wrapped
	}
	if len(ids) == 0 {
		id, err := s.newUserID(ctx, m)
		if err != nil {
			return "", err
		}
		if _, err := s.uses.Contacts.Put(ctx, m.CompanyID, "", []contact.Contact{{UserID: id, Phone: &m.PhoneNumber}}); err != nil {
			return "", err //nolint:wrapcheck // the error is a fault, or already wrapped
		}
		ids = []string{id}
	}
	if _, err := s.uses.Contacts.PutTag(ctx, m.CompanyID, tag); err != nil {
		return "", err //nolint:wrapcheck // the error is a fault, or already wrapped
	}
	_, err = s.uses.Contacts.ChangeTag(ctx, m.CompanyID, tag, ids[:1], []string{})
	return Done, err //nolint:wrapcheck // the error is a fault, or already wrapped
}

// newUserID returns a free user id for the contact of a number: its digits, and a further number if another contact has this id. It locks the contacts of the company.
func (s *Service) newUserID(ctx context.Context, m received.Row) (string, error) {
	if err := contact.Lock(ctx, s.db, m.CompanyID); err != nil {
		return "", err //nolint:wrapcheck // the error is already wrapped
	}
	digits := strings.TrimPrefix(m.PhoneNumber, "+")
	for id, n := digits, 2; ; id, n = fmt.Sprint(digits, "-", n), n+1 {
		_, err := s.uses.Contacts.Get(ctx, m.CompanyID, id)
		if fault.Is(err, fault.ContactNotFound) {
			return id, nil
		}
		if err != nil {
			return "", err //nolint:wrapcheck // the error is already wrapped
		}
	}
}

// opt adds and confirms the block for which a person asks (OptOut), or deletes it (OptIn). The usual words of opt-outs take precedence over a rule: the service
// has already added a block for a text with these words.
func (s *Service) opt(ctx context.Context, m received.Row, action string) (string, error) {
	switch {
	case !isNumber(m):
		return NoNumber, nil
	case action == OptOut && m.Kind == received.KindOptOut:
		return s.confirm(ctx, m)
	case action == OptOut:
		return s.optOut(ctx, m)
	case m.Kind == received.KindOptOut:
		return AsksForNone, nil
	}
	_, err := s.uses.Blocks.OptIn(ctx, m.ID)
	return Done, err //nolint:wrapcheck // the error is already wrapped
}

// optOut adds a block, and confirms it. The block stays, even if the confirmation waits or is refused. If the confirmation waited, the block already exists.
func (s *Service) optOut(ctx context.Context, m received.Row) (string, error) {
	if err := s.uses.Blocks.OptOut(ctx, m.ID, By); err != nil {
		return "", err //nolint:wrapcheck // the error is already wrapped
	}
	_, err := s.confirm(ctx, m)
	if errors.Is(err, errCompanyOff) {
		return waits, nil
	}
	return Done, err
}

// confirm sends the text by which a company confirms an opt-out, once for each block.
func (s *Service) confirm(ctx context.Context, m received.Row) (string, error) {
	own, err := s.uses.Directory.RecipientRules(ctx, m.CompanyID)
	if err != nil || own.OptOutReply == nil {
		return Done, err //nolint:wrapcheck // the error is already wrapped
	}
	blocks, err := s.uses.Blocks.ListByRecipient(ctx, &m.CompanyID, m.PhoneNumber, new(block.Marketing))
	if err != nil {
		return "", err //nolint:wrapcheck // the error is already wrapped
	}
	index := slices.IndexFunc(blocks, func(b block.Row) bool { return b.ReceivedID != nil })
	switch {
	case index < 0: // the block has ended meanwhile
		return Refused, nil
	case blocks[index].IsConfirmed:
		return Repeated, nil
	}
	return s.tried(ctx, func(ctx context.Context) (string, error) {
		outcome, err := s.answer(ctx, m, conversation.Answer{Content: *own.OptOutReply, DedupKey: dedupKey(m), By: By})
		if err == nil && outcome == Done {
			err = s.uses.Blocks.RecordConfirmation(ctx, blocks[index].ID)
		}
		return outcome, err
	})
}
