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
	DueBefore   time.Time  // the due time of a message that waits, and gets a new due time
	Subjects    []Subject  // limit the message even if it is exempt

	// Allowed returns the first time, not before `at`, that other rules about the recipient allow.
	Allowed func(at time.Time) (time.Time, error)
}

// Subject is anything else than a recipient whose messages are limited, for example the client that requests a code. Its messages of a company and type are counted.
type Subject struct {
	Name  string // distinguishes the subject from all others
	Field string // field of the request that the fault recipient.limited names
	Caps  setting.Caps
}

// Verdict is the decision about one message.
type Verdict struct {
	DueAt     time.Time // when the message is due, if a cap delays it; zero: no cap does. If the message is refused: when a cap first allows it
	IsRefused bool
	Wait      time.Duration // if the message is refused: the time until DueAt
	Field     string        // if the message is refused: the field of the subject whose cap refuses it; empty: the recipient

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
	field   string // see Verdict
}

// rulesOf returns the rules of a message. A message without caps has none.
func (s *Service) rulesOf(ctx context.Context, m Message) (rules []rule, err error) {
	for _, subject := range m.Subjects {
		if windows := windowsOf(subject.Caps); len(windows) > 0 {
			hash := sha256.Sum256([]byte("subject\n" + subject.Name)) // no recipient contains a line break
			rules = append(rules, rule{key{hash, m.CompanyID, m.MessageType}, windows, subject.Field})
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
			rules = append(rules, rule{key{sha256.Sum256([]byte(m.Recipient)), r.companyID, r.messageType}, windows, ""})
		}
	}
	return rules, nil
}

// IsCapped reports whether a message has caps.
func (s *Service) IsCapped(ctx context.Context, m Message) (bool, error) {
	rules, err := s.rulesOf(ctx, m)
	return len(rules) > 0, err
}

// Plan contains the decisions about messages, and what is counted for their recipients.
type Plan struct {
	Verdicts []Verdict // in the order of the messages

	s        *Service
	messages []Message
	rules    [][]rule // of each message
	now      time.Time
	counted  map[key][]entry // in the order of the times
}

// Reserve decides about messages. It locks what is counted for their recipients until the transaction of ctx ends, so the caller runs it in a transaction, and then
// stores the messages and calls Commit. Each message that is not refused counts for the following ones.
func (s *Service) Reserve(ctx context.Context, messages []Message) (*Plan, error) {
	return s.plan(ctx, messages, func(p capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error) {
		return s.q.CappedRecipientsLock(ctx, p)
	})
}

// Preview decides like Reserve, but locks nothing.
func (s *Service) Preview(ctx context.Context, m Message) (Verdict, error) {
	plan, err := s.plan(ctx, []Message{m}, func(p capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error) {
		found, err := s.q.CappedRecipients(ctx, capsq.CappedRecipientsParams(p))
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

// plan decides about messages. read returns the rows that are to be counted.
func (s *Service) plan(
	ctx context.Context, messages []Message, read func(capsq.CappedRecipientsLockParams) ([]capsq.CappedRecipientsLockRow, error),
) (*Plan, error) {
	p := &Plan{s: s, messages: messages, rules: make([][]rule, len(messages)), Verdicts: make([]Verdict, len(messages)), now: time.Now(), counted: map[key][]entry{}}
	var keys capsq.CappedRecipientsLockParams
	for i, m := range messages {
		rules, err := s.rulesOf(ctx, m)
		if err != nil {
			return nil, err
		}
		p.rules[i] = rules
		for _, r := range rules {
			if _, is := p.counted[r.key]; !is {
				p.counted[r.key] = nil
				keys.RecipientHashes, keys.CompanyIds = append(keys.RecipientHashes, r.hash[:]), append(keys.CompanyIds, r.companyID)
				keys.MessageTypes = append(keys.MessageTypes, r.messageType)
			}
		}
	}
	if len(p.counted) == 0 {
		return p, nil
	}
	rows, err := read(keys)
	if err != nil {
		return nil, postgres.Wrap("read counted messages", err, nil)
	}
	for i, row := range rows {
		k := key{[sha256.Size]byte(row.RecipientHash), row.CompanyID, row.MessageType}
		for n, id := range row.TaskIds {
			p.counted[k] = append(p.counted[k], entry{id, row.Times[n]})
		}
		if i == 0 || row.LockedAt.After(p.now) {
			p.now = row.LockedAt // the clock of PostgreSQL, so that servers with different clocks decide alike
		}
	}
	if err := p.removeMoved(); err != nil {
		return nil, err
	}
	if err := p.removeTakenBack(ctx); err != nil {
		return nil, err
	}
	return p, p.decide(ctx)
}

// removeMoved removes messages that get a new due time from the count, so that they are counted for the new time instead. A message that has been due since the
// time for which it is counted, and can be sent now, remains counted for this time. A message that was held has become due later. A message that is not counted
// is counted now: it was held for longer than the longest cap, or it is older than the cap.
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

// removeTakenBack removes messages that are sent again, but were taken back before, from the count, so that they are counted for their new due time.
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

// decide sets the verdicts. If a message is refused or has to wait, decide drops the messages that were cancelled before they were
// sent, and decides again.
func (p *Plan) decide(ctx context.Context) error {
	before := p.snapshot()
	isReached, err := p.decideAll()
	if err != nil || !isReached {
		return err
	}
	var ids []string
	for _, list := range before {
		for _, e := range list {
			ids = append(ids, e.taskID)
		}
	}
	back, err := p.s.inParts.TasksTakenBack(ctx, ids)
	if err != nil || len(back) == 0 {
		return postgres.Wrap("find counted messages that were taken back", err, nil)
	}
	p.counted = before
	p.remove(back)
	_, err = p.decideAll()
	return err
}

// snapshot returns a copy of what is counted.
func (p *Plan) snapshot() map[key][]entry {
	all := make(map[key][]entry, len(p.counted))
	for k, list := range p.counted {
		all[k] = slices.Clone(list)
	}
	return all
}

// remove stops counting the messages of tasks.
func (p *Plan) remove(taskIDs []string) {
	for k, list := range p.counted {
		p.counted[k] = slices.DeleteFunc(list, func(e entry) bool { return slices.Contains(taskIDs, e.taskID) })
	}
}

// decideAll sets the verdicts with what is counted now, and counts the messages that are not refused. isReached reports whether a cap delays or refuses a message.
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
		first, at, field, err := p.first(m, p.rules[i])
		if err != nil {
			return isReached, err
		}
		if at.After(first) {
			isReached, v.DueAt = true, at
			v.IsRefused = !m.Waits || claim.CanOnlyExpire(m.ExpiresAt, at)
		}
		if v.IsRefused {
			v.Wait, v.Field = at.Sub(p.now), field
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

// first returns when a message would be due without caps, and when it is due with them. field is the field of the last rule that delays it.
func (p *Plan) first(m Message, rules []rule) (first, at time.Time, field string, err error) {
	at = p.now
	if m.DueAt.After(at) {
		at = m.DueAt.Truncate(time.Microsecond) // the precision of PostgreSQL
	}
	for isFirst := true; ; isFirst = false {
		later := at
		if m.Allowed != nil {
			if later, err = m.Allowed(at); err != nil {
				return first, at, field, err
			}
			later = later.Truncate(time.Microsecond)
		}
		if isFirst {
			first = later
		}
		for _, r := range rules {
			if allowed := next(r.windows, p.counted[r.key], later); allowed.After(later) {
				later, field = allowed, r.field
			}
		}
		if later.Equal(at) {
			return first, at, field, nil
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

// Commit stores what is counted, without the messages that are not stored. isStored reports whether the message with an index is stored. If counted messages
// are not stored, messages were possibly refused because of them. Commit then returns the indexes of the refused messages, so that the caller decides about
// them again.
func (p *Plan) Commit(ctx context.Context, isStored func(i int) bool) (again []int, err error) {
	var lost []string
	for i, v := range p.Verdicts {
		if len(p.rules[i]) > 0 && !v.IsRefused && !v.wasCounted && !isStored(i) {
			lost = append(lost, p.messages[i].TaskID)
		}
	}
	p.remove(lost)
	set := capsq.CappedRecipientsSetParams{}
	for k, list := range p.counted {
		for _, e := range list {
			if p.now.Sub(e.at) >= day { // no cap counts it any more
				continue
			}
			set.RecipientHashes, set.CompanyIds, set.MessageTypes = append(set.RecipientHashes, k.hash[:]), append(set.CompanyIds, k.companyID), append(set.MessageTypes, k.messageType)
			set.TaskIds, set.Times = append(set.TaskIds, e.taskID), append(set.Times, e.at)
		}
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

// CountedDueAt returns when a message is due according to what is counted. It returns false if the message is not counted.
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
