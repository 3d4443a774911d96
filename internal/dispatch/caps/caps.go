// Package caps counts the messages to each phone number, and decides when one more message can be sent (R6).
package caps

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"lksms/gen/capsq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Service counts messages.
type Service struct {
	q         *capsq.Queries
	inParts   *capsq.Queries // for statements that read tasks by id
	directory *directory.Service
	settings  *setting.Service
}

// New returns a Service.
func New(db *postgres.DB, directory *directory.Service, settings *setting.Service) *Service {
	return &Service{q: capsq.New(db), inParts: capsq.New(db.InPartitions()), directory: directory, settings: settings}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-caps", Interval: 10 * time.Minute, Run: s.DeleteExpired}}
}

// Message contains the data of a message that its caps depend on.
type Message struct {
	TaskID      string
	Channel     string
	CompanyID   int64
	MessageType int16
	Recipient   string
	DueAt       time.Time  // when the message is to be sent; zero: now
	ExpiresAt   *time.Time // the message cannot be sent at this time or later; nil: no limit
	Waits       bool       // if a cap is reached, the message is sent later; otherwise it is refused
	IsExempt    bool       // the message has no caps and is not counted
	Again       bool       // the message is sent again: it counts only if it is not counted yet, or was taken back
	DueBefore   time.Time  // for a waiting message that gets a new due time: its present due time
	Subjects    []Subject  // limit the message even if it is exempt

	// Allowed returns the first time, not before `at`, that other rules about the recipient allow.
	Allowed func(at time.Time) (time.Time, error)
}

// isNew reports whether the message is sent for the first time, and now unless its rules delay it.
func (m Message) isNew() bool { return !m.Again && m.DueBefore.IsZero() && m.DueAt.IsZero() }

// Subject is anything else than a recipient whose messages are limited, for example the client that requests a code. Its messages of a company and type are
// counted, even if they are taken back: otherwise a cancellation would allow one more code at once. This does not apply to a suspicion, which is about messages
// that were sent.
type Subject struct {
	Name  string // distinguishes the subject from all others
	Field string // field of the request that the fault names
	Caps  setting.Caps

	IsSuspicion bool // the fault is recipient.suspected; otherwise recipient.limited
}

// Verdict is the decision about one message.
type Verdict struct {
	DueAt     time.Time // when the message is due, if a cap delays it; zero: no cap does. If the message is refused: when a cap first allows it
	IsRefused bool
	Wait      time.Duration // if the message is refused: the time until DueAt
	Subject   Subject       // if the message is refused: the subject whose cap refuses it; zero: the recipient

	wasCounted bool // the message is sent again, and remains counted for its first due time
}

// key identifies a row of capped_recipients.
type key struct {
	hash        [sha256.Size]byte
	companyID   int64
	messageType int16
}

// The row with these values counts the messages of all companies and types.
const (
	allCompanies int64 = 0
	allTypes     int16 = -1
)

// rule names a list of counted messages, and the windows that limit it.
type rule struct {
	key
	windows []window
	subject Subject // see Verdict
}

// rulesOf returns the rules of a message. A message without caps has none.
func (s *Service) rulesOf(ctx context.Context, m Message) (rules []rule, err error) {
	for _, subject := range m.Subjects {
		if windows := windowsOf(subject.Caps); len(windows) > 0 {
			hash := sha256.Sum256([]byte("subject\n" + subject.Name)) // no recipient contains a line break
			rules = append(rules, rule{key{hash, m.CompanyID, m.MessageType}, windows, subject})
		}
	}
	if m.IsExempt || m.Channel != directory.SMS || !strings.HasPrefix(m.Recipient, "+") {
		return rules, nil
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, err
	}
	own, err := s.directory.RecipientRules(ctx, m.CompanyID)
	if err != nil {
		return nil, err
	}
	for _, r := range []struct {
		companyID   int64
		messageType int16
		caps        setting.Caps
	}{
		{m.CompanyID, m.MessageType, own.CapsOf(m.MessageType, values.Recipient)},
		{allCompanies, allTypes, setting.Caps{PerDay: values.Recipient.CapsTotalDay}},
	} {
		if windows := windowsOf(r.caps); len(windows) > 0 {
			rules = append(rules, rule{key{sha256.Sum256([]byte(m.Recipient)), r.companyID, r.messageType}, windows, Subject{}})
		}
	}
	return rules, nil
}

// IsCapped reports whether a message has caps.
func (s *Service) IsCapped(ctx context.Context, m Message) (bool, error) {
	rules, err := s.rulesOf(ctx, m)
	return len(rules) > 0, err
}

// Plan contains the decisions about messages, and the counted messages of their recipients.
type Plan struct {
	Verdicts []Verdict // in the order of the messages

	s        *Service
	messages []Message
	rules    [][]rule // of each message
	now      time.Time
	counted  map[key][]entry  // in the order of the times
	stored   map[key][]entry  // in the database
	added    map[key][]string // the tasks of this plan that stored contains, but counted only after the decision
	lasting  map[key]bool     // the keys of counted whose messages are counted even if they are taken back
}

// Reserve decides about messages. It locks the counts of their recipients until the transaction of ctx ends. The caller therefore needs a transaction, in which
// it then stores the messages and calls Commit. Each accepted message counts when Reserve decides about the next message.
func (s *Service) Reserve(ctx context.Context, messages []Message) (*Plan, error) {
	return s.plan(ctx, messages, func(p capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error) {
		return s.q.CappedRecipientsLock(ctx, p)
	})
}

// Preview decides like Reserve, but locks nothing.
func (s *Service) Preview(ctx context.Context, m Message) (Verdict, error) {
	plan, err := s.plan(ctx, []Message{m}, func(p capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error) {
		found, err := s.q.CappedRecipients(ctx, capsq.CappedRecipientsParams{RecipientHashes: p.RecipientHashes, CompanyIds: p.CompanyIds, MessageTypes: p.MessageTypes})
		rows := make([]capsq.CappedRecipientsLockRow, len(found))
		for i, row := range found {
			rows[i] = capsq.CappedRecipientsLockRow(row)
		}
		return rows, err
	})
	if err != nil {
		return Verdict{}, err
	}
	return plan.Verdicts[0], nil
}

// plan decides about messages. read returns the counts.
func (s *Service) plan(
	ctx context.Context, messages []Message, read func(capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error),
) (*Plan, error) {
	p := &Plan{
		s: s, messages: messages, rules: make([][]rule, len(messages)), Verdicts: make([]Verdict, len(messages)), now: time.Now(),
		counted: map[key][]entry{}, stored: map[key][]entry{}, added: map[key][]string{}, lasting: map[key]bool{},
	}
	var keys capsq.CappedRecipientsLockParams
	var ordered []key
	for i, m := range messages {
		rules, err := s.rulesOf(ctx, m)
		if err != nil {
			return nil, err
		}
		p.rules[i] = rules
		for _, r := range rules {
			if _, is := p.counted[r.key]; !is {
				p.counted[r.key], p.lasting[r.key] = nil, r.subject.Name != "" && !r.subject.IsSuspicion
				ordered = append(ordered, r.key)
			}
			if m.isNew() {
				p.added[r.key] = append(p.added[r.key], m.TaskID)
			}
		}
	}
	if len(ordered) == 0 {
		return p, nil
	}
	for _, k := range ordered {
		slices.Sort(p.added[k])
		keys.RecipientHashes, keys.CompanyIds, keys.MessageTypes = append(keys.RecipientHashes, k.hash[:]), append(keys.CompanyIds, k.companyID), append(keys.MessageTypes, k.messageType)
		keys.AddedTaskIds = append(keys.AddedTaskIds, strings.Join(p.added[k], " "))
	}
	rows, err := read(keys)
	if err != nil {
		return nil, postgres.Wrap("read counted messages", err, nil)
	}
	for i, row := range rows {
		k := key{[sha256.Size]byte(row.RecipientHash), row.CompanyID, row.MessageType}
		for n, id := range row.TaskIds {
			p.stored[k] = append(p.stored[k], entry{id, row.Times[n]})
		}
		p.counted[k] = slices.Clone(p.stored[k])
		if i == 0 || row.LockedAt.After(p.now) {
			p.now = row.LockedAt // the clock of PostgreSQL, so that servers with different clocks decide alike
		}
	}
	for k, ids := range p.added {
		p.counted[k] = slices.DeleteFunc(p.counted[k], func(e entry) bool { return slices.Contains(ids, e.taskID) })
	}
	if err := p.removeMoved(); err != nil {
		return nil, err
	}
	if err := p.removeTakenBack(ctx); err != nil {
		return nil, err
	}
	return p, p.decide(ctx)
}

// removeMoved stops counting the messages that get a new due time, so that they are counted for the new time instead. A message that has been due since the
// time for which it is counted, and can be sent now, remains counted for this time. If a message was held, its due time is later than the time for which it is
// counted. A message that was held for longer than the longest cap, or is older than the cap, was not counted. It is counted now.
func (p *Plan) removeMoved() error {
	var ids []string
	for i, m := range p.messages {
		if m.DueBefore.IsZero() {
			continue
		}
		if at, isCounted := p.countedFor(p.rules[i], m.TaskID); isCounted && !at.After(p.now) && !m.DueBefore.After(at) {
			allowed, err := m.Allowed(p.now)
			if err != nil {
				return err
			}
			if !allowed.After(p.now) {
				p.rules[i] = nil
				continue
			}
		}
		ids = append(ids, m.TaskID)
	}
	p.remove(ids)
	return nil
}

// removeTakenBack stops counting the messages that were taken back and are sent again, so that they are counted for their new due time.
func (p *Plan) removeTakenBack(ctx context.Context) error {
	var ids []string
	for _, m := range p.messages {
		if m.Again {
			ids = append(ids, m.TaskID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	back, err := p.s.inParts.TasksTakenBack(ctx, ids)
	if err != nil {
		return postgres.Wrap("find messages that were taken back", err, nil)
	}
	p.remove(back)
	return nil
}

// decide sets the verdicts. If a message is refused or has to wait, decide stops counting the messages that were taken back before a sender got them, except for
// lasting keys, and decides again.
func (p *Plan) decide(ctx context.Context) error {
	before := p.snapshot()
	isReached, err := p.decideAll()
	if err != nil || !isReached {
		return err
	}
	var ids []string
	for k, list := range before {
		for _, e := range list {
			if !p.lasting[k] {
				ids = append(ids, e.taskID)
			}
		}
	}
	back, err := p.s.inParts.TasksTakenBack(ctx, ids)
	if err != nil || len(back) == 0 {
		return postgres.Wrap("find counted messages that were taken back", err, nil)
	}
	p.counted = before
	p.removeFrom(back, func(k key) bool { return !p.lasting[k] })
	_, err = p.decideAll()
	return err
}

// snapshot returns a copy of the counted messages.
func (p *Plan) snapshot() map[key][]entry {
	all := make(map[key][]entry, len(p.counted))
	for k, list := range p.counted {
		all[k] = slices.Clone(list)
	}
	return all
}

// remove stops counting the messages of tasks.
func (p *Plan) remove(taskIDs []string) { p.removeFrom(taskIDs, func(key) bool { return true }) }

// removeFrom works like remove for some keys.
func (p *Plan) removeFrom(taskIDs []string, isMeant func(key) bool) {
	for k, list := range p.counted {
		if isMeant(k) {
			p.counted[k] = slices.DeleteFunc(list, func(e entry) bool { return slices.Contains(taskIDs, e.taskID) })
		}
	}
}

// decideAll sets the verdicts, and counts the messages that are not refused. isReached reports whether a cap delays or refuses a message.
func (p *Plan) decideAll() (isReached bool, err error) {
	for i, m := range p.messages {
		if len(p.rules[i]) == 0 {
			continue
		}
		v := &p.Verdicts[i]
		_, isCounted := p.countedFor(p.rules[i], m.TaskID)
		if *v = (Verdict{wasCounted: m.Again && isCounted}); v.wasCounted {
			continue
		}
		first, at, subject, err := p.first(m, p.rules[i])
		if err != nil {
			return isReached, err
		}
		if at.After(first) {
			isReached, v.DueAt = true, at
			v.IsRefused = !m.Waits || claim.CanOnlyExpire(m.ExpiresAt, at)
		}
		if v.IsRefused {
			v.Wait, v.Subject = at.Sub(p.now), subject
			continue
		}
		p.count(p.rules[i], entry{m.TaskID, at})
	}
	return isReached, nil
}

// countedFor returns the time for which a message is counted.
func (p *Plan) countedFor(rules []rule, taskID string) (at time.Time, isCounted bool) {
	for _, r := range rules {
		for _, e := range p.counted[r.key] {
			if e.taskID == taskID {
				return e.at, true
			}
		}
	}
	return at, false
}

// first returns when a message would be due without caps, and when it is due with them. subject is the subject of the last rule that delays it.
func (p *Plan) first(m Message, rules []rule) (first, at time.Time, subject Subject, err error) {
	at = p.now
	if m.DueAt.After(at) {
		at = m.DueAt.Truncate(time.Microsecond) // the precision of PostgreSQL
	}
	for isFirst := true; ; isFirst = false {
		later := at
		if m.Allowed != nil {
			if later, err = m.Allowed(at); err != nil {
				return first, at, subject, err
			}
			later = later.Truncate(time.Microsecond)
		}
		if isFirst {
			first = later
		}
		for _, r := range rules {
			if allowed := next(r.windows, p.counted[r.key], later); allowed.After(later) {
				later, subject = allowed, r.subject
			}
		}
		if later.Equal(at) {
			return first, at, subject, nil
		}
		at = later
	}
}

func (p *Plan) count(rules []rule, e entry) {
	for _, r := range rules {
		index, _ := slices.BinarySearchFunc(p.counted[r.key], e, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.taskID, b.taskID)) })
		p.counted[r.key] = slices.Insert(p.counted[r.key], index, e)
	}
}

// Commit stores the counts, without the messages that were not stored. isStored(i) reports whether message i was stored. If a counted message was not stored,
// it possibly caused the refusal of other messages. Commit then returns the indexes of the refused messages, so that the caller decides about them again.
func (p *Plan) Commit(ctx context.Context, isStored func(i int) bool) (again []int, err error) {
	var lost []string
	for i, v := range p.Verdicts {
		if len(p.rules[i]) > 0 && !v.IsRefused && !v.wasCounted && !isStored(i) {
			lost = append(lost, p.messages[i].TaskID)
		}
	}
	p.remove(lost)
	var set capsq.CappedRecipientsSetParams
	for k, list := range p.counted {
		if list = p.withoutOld(list); p.isStored(k, list) {
			continue
		}
		ids, times := make([]string, len(list)), make([]string, len(list))
		for i, e := range list {
			ids[i], times[i] = e.taskID, e.at.Format(time.RFC3339Nano)
		}
		set.RecipientHashes, set.CompanyIds, set.MessageTypes = append(set.RecipientHashes, k.hash[:]), append(set.CompanyIds, k.companyID), append(set.MessageTypes, k.messageType)
		set.TaskIds, set.Times = append(set.TaskIds, strings.Join(ids, " ")), append(set.Times, strings.Join(times, " "))
	}
	if len(set.TaskIds) > 0 {
		if err := p.s.q.CappedRecipientsSet(ctx, set); err != nil {
			return nil, postgres.Wrap("store counted messages", err, nil)
		}
	}
	for i, v := range p.Verdicts {
		if len(lost) > 0 && v.IsRefused {
			again = append(again, i)
		}
	}
	return again, nil
}

// withoutOld returns the entries of list that a cap can still count.
func (p *Plan) withoutOld(list []entry) []entry {
	for len(list) > 0 && p.now.Sub(list[0].at) >= day {
		list = list[1:]
	}
	return list
}

// isStored reports whether the database contains list for a key. A task that CappedRecipientsLock added has the time at which its row was locked: that is now.
func (p *Plan) isStored(k key, list []entry) bool {
	return slices.EqualFunc(list, p.stored[k], func(e, stored entry) bool {
		return e.taskID == stored.taskID && (e.at.Equal(stored.at) || e.at.Equal(p.now) && slices.Contains(p.added[k], e.taskID))
	})
}

// Next returns when the caps allow one more message like message i, after the messages of the plan were counted; a zero time: they allow it now. A suspicion has no
// end that a person could wait for.
func (p *Plan) Next(i int) (time.Time, error) {
	rules := slices.DeleteFunc(slices.Clone(p.rules[i]), func(r rule) bool { return r.subject.IsSuspicion })
	first, at, _, err := p.first(p.messages[i], rules)
	if !at.After(first) {
		return time.Time{}, err
	}
	return at, err
}

// CountedDueAt returns the due time for which a message is counted. It returns false if the message is not counted.
func (s *Service) CountedDueAt(ctx context.Context, m Message) (time.Time, bool, error) {
	hash := sha256.Sum256([]byte(m.Recipient))
	rows, err := s.q.CappedRecipients(ctx, capsq.CappedRecipientsParams{
		RecipientHashes: [][]byte{hash[:], hash[:]}, CompanyIds: []int64{m.CompanyID, allCompanies}, MessageTypes: []int16{m.MessageType, allTypes},
	})
	for _, row := range rows {
		if index := slices.Index(row.TaskIds, m.TaskID); index >= 0 {
			return row.Times[index], true, nil
		}
	}
	return time.Time{}, false, postgres.Wrap("read counted messages", err, nil)
}

// deleteBatch is the maximum number of rows that one statement deletes.
const deleteBatch = 1000

// DeleteExpired deletes rows whose messages no cap counts any more, in batches. It returns the number of deleted rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	return postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.CappedRecipientsDeleteExpired(ctx, deleteBatch)
		return n, postgres.Wrap("delete counted messages", err, nil)
	})
}
