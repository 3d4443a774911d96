// Package received stores the messages that people send to the numbers of senders. It finds the task that a message answers, and the company that can read the
// message.
package received

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/gen/receivedq"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

const (
	maxTasks    = 500             // maximum number of tasks to one number among which the answered task is searched
	deleteBatch = 1000            // maximum number of rows that one statement deletes
	tries       = 3               // maximum number of attempts to store messages: an attempt fails if the retention deletes one of them at the same time
	clockSkew   = 2 * time.Minute // maximum difference between the clocks of the network and of the database
)

// Service stores received messages.
type Service struct {
	db        *postgres.DB
	q         *receivedq.Queries
	inParts   *receivedq.Queries // PostgreSQL plans each run for its parameters, see DB.InPartitions
	directory *directory.Service
	settings  *setting.Service
	blocks    *block.Service

	onDelete func(ctx context.Context, ids []int64) error
	onStored func(ctx context.Context, ids []int64)
}

// New returns a Service on db.
func New(db *postgres.DB, directory *directory.Service, settings *setting.Service, blocks *block.Service) *Service {
	return &Service{
		db: db, q: receivedq.New(db), inParts: receivedq.New(db.InPartitions()), directory: directory, settings: settings, blocks: blocks,
	}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-received", Interval: 10 * time.Minute, Run: s.DeleteExpired},
		{Roles: servers.Roles{servers.Sweep}, Name: "join-received-parts", Interval: time.Minute, Routine: true, Run: s.JoinExpired},
	}
}

// Message is a message from a person, as a sender app or a provider handed it over. Empty fields are unknown.
type Message struct {
	From, To   string
	Content    string
	SIM        int16
	ReceivedAt *time.Time // the time that the network gave to the message
	MessageNo  string     // the id that the phone or the provider gave to the message
	Raw        string     // the message as another program posted it; empty: the message came through the API
	Region     string     // the region of From, if From is a national number; empty: the region of the inbox company; phone.UnknownRegion: none
}

// Stored is a message in the database.
type Stored struct {
	ID           int64
	Deduplicated bool // the message was already stored

	optOut personOf // the person who asks for no more messages; zero: the message does not ask for this
}

// Take stores messages like Store. If a person asks for no more messages, Take also takes back the marketing messages that wait, before it returns.
func (s *Service) Take(ctx context.Context, senderNo string, messages []Message) ([]Stored, error) {
	all, err := s.Store(ctx, senderNo, messages)
	if err != nil {
		return nil, err
	}
	return all, s.Enforce(ctx, all)
}

// Store stores up to 100 messages to a sender in one transaction, and returns them in their order. A message that is already stored is not stored again. Two
// messages of a sender are the same if SIM, number, content and the second of ReceivedAt are equal, or if number, content and MessageNo are equal. A stored
// message keeps its first MessageNo. A message without ReceivedAt and MessageNo is always new. If a person asks for no more messages, Store blocks marketing
// messages of the company to the number. A message to the extension of a company belongs to this company. Store can be part of a larger transaction; the caller calls Enforce after the commit. Fault: sender.not_found.
func (s *Service) Store(ctx context.Context, senderNo string, messages []Message) ([]Stored, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	rows, err := s.rowsOf(ctx, senderNo, messages)
	if err != nil {
		return nil, err
	}
	if err := s.setKinds(ctx, rows); err != nil {
		return nil, err
	}
	for range tries {
		stored, isWhole, err := s.store(ctx, senderNo, rows)
		if err != nil {
			return nil, err
		}
		if isWhole {
			return stored, nil
		}
	}
	return nil, &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: time.Second}
}

// companyOf returns the company to whose number a message was sent, or 0.
func companyOf(to string, extensions []receivedq.ReceivedExtensionsRow) int64 {
	for _, e := range extensions {
		if strings.HasPrefix(to, e.OwnNumber) {
			return e.CompanyID
		}
	}
	return 0
}

// rowsOf returns the rows of messages to a sender, with their companies and the tasks that they answer.
func (s *Service) rowsOf(ctx context.Context, senderNo string, messages []Message) ([]row, error) {
	owner, err := s.q.ReceivedSender(ctx, senderNo)
	if err != nil {
		return nil, postgres.Wrap("find receiving sender", err, fault.New(fault.NotFound, fault.SenderNotFound))
	}
	extensions, err := s.q.ReceivedExtensions(ctx, senderNo)
	if err != nil {
		return nil, fmt.Errorf("find the numbers of companies: %w", err)
	}
	rows := make([]row, len(messages))
	for i, m := range messages {
		rows[i] = rowOf(senderNo, m, cmp.Or(m.Region, owner.DefaultRegion))
		rows[i].toCompany = companyOf(m.To, extensions)
		rows[i].company = cmp.Or(rows[i].toCompany, owner.InboxCompanyID)
	}
	return rows, s.findTasks(ctx, senderNo, owner.InboxCompanyID, rows)
}

// row is a Message with the columns by which a repeated message is recognised, and with the task that it answers.
type row struct {
	Message
	readings          []string // the numbers that From can be; From itself if it is no phone number
	number            string   // the reading that applies, or From as it was received
	identity, numbers []byte   // the columns identity and message_identity; nil: unknown
	company           int64
	toCompany         int64  // the company to whose number the message was sent; 0: the number belongs to no company
	task, submitter   string // empty: the message answers no task
	kind              string
	asksAgain         bool // the person asks for messages again
}

// rowOf returns a row with the first reading of the number. The identities always contain this reading, so that a repeat is found although another reading
// applies.
func rowOf(senderNo string, m Message, region string) row {
	r := row{Message: m, readings: readings(m.From, region)}
	r.number = r.readings[0]
	if m.ReceivedAt != nil {
		at := m.ReceivedAt.Truncate(time.Second)
		r.ReceivedAt = &at
		r.identity = hash(senderNo, strconv.Itoa(int(m.SIM)), r.number, m.Content, strconv.FormatInt(at.Unix(), 10))
	}
	if m.MessageNo != "" {
		r.numbers = hash(senderNo, r.number, m.Content, m.MessageNo)
	}
	if r.identity == nil && r.numbers == nil {
		r.numbers = []byte(rand.Text())
	}
	return r
}

// FormsOf returns each form in which a number can be stored, the most probable first: its readings, and the number as it was received.
func FormsOf(from, region string) []string {
	return slices.Compact(append(phone.Readings(from, region), from)) // a number in E.164 has only itself as reading
}

// NumbersOf returns each form in which a number can be stored: its readings in each of the regions, and the number as it was received.
func NumbersOf(from string, regions []string) []string {
	all := []string{from}
	for _, region := range regions {
		all = append(all, phone.Readings(from, region)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readings returns the readings of a number. A text that is no phone number has itself as its only reading.
func readings(from, region string) []string {
	if all := phone.Readings(from, region); len(all) > 0 {
		return all
	}
	return []string{from}
}

// hash returns the SHA-256 of texts, with their lengths, so that different texts never form the same input.
func hash(texts ...string) []byte {
	var all []byte
	for _, text := range texts {
		all = append(append(strconv.AppendInt(all, int64(len(text)), 10), ':'), text...)
	}
	sum := sha256.Sum256(all)
	return sum[:]
}

// findTasks finds the task that each row answers, and sets the task, its submitter and its company. It also sets the number of the row: of several readings,
// the reading to which the sender, or else another sender of the inbox company, has sent a task. A row never answers a task that was leased after ReceivedAt,
// because a phone can hand over a message long after its arrival. While an old partition is locked, because it is being moved to another tablespace, the
// database counts as unavailable: the caller hands over the messages again.
func (s *Service) findTasks(ctx context.Context, senderNo string, inboxCompany int64, rows []row) error {
	values, err := s.settings.Get(ctx)
	if err != nil || values.Recipient.ReplyDays == 0 {
		return err
	}
	p := receivedq.ReceivedAnswersParams{
		SenderNo: senderNo, CompanyID: inboxCompany, MaxTasks: maxTasks, FromID: taskid.First(time.Now().Add(-values.Recipient.ReplyTime())),
	}
	for i, r := range rows {
		until := time.Now().Add(clockSkew)
		if r.ReceivedAt != nil && r.ReceivedAt.Before(until) {
			until = r.ReceivedAt.Add(clockSkew)
		}
		for _, number := range r.readings {
			p.Nths, p.PhoneNumbers, p.Untils = append(p.Nths, int32(i)), append(p.PhoneNumbers, number), append(p.Untils, until)
			p.ToCompanies = append(p.ToCompanies, r.toCompany)
		}
	}
	var found []receivedq.ReceivedAnswersRow
	err = s.db.Briefly(ctx, func(ctx context.Context) error {
		found, err = s.inParts.ReceivedAnswers(ctx, p)
		return err
	})
	if postgres.IsLockTimeout(err) {
		return &fault.Error{Kind: fault.Unavailable, Reason: fault.ServiceUnavailable, RetryAfter: 5 * time.Second}
	}
	for _, task := range found {
		r := &rows[task.Nth]
		r.number = task.PhoneNumber
		if task.IsAnswered {
			r.company, r.task, r.submitter = task.CompanyID, task.TaskID, task.SubmittedBy
		}
	}
	return postgres.Wrap("find answered tasks", err, nil)
}

// store stores rows. isWhole is false if another transaction deleted a message that was already stored.
func (s *Service) store(ctx context.Context, senderNo string, rows []row) (all []Stored, isWhole bool, err error) {
	p := paramsOf(senderNo, rows)
	_, err = postgres.Again(ctx, s.db, func() (struct{}, error) { // opt-outs of the same people through other senders can cause a deadlock
		return struct{}{}, s.db.Tx(ctx, func(ctx context.Context) error {
			if err := s.q.ReceivedLock(ctx, senderNo); err != nil {
				return fmt.Errorf("wait for other messages to the sender: %w", err)
			}
			added, err := s.q.ReceivedAdd(ctx, p)
			if err != nil {
				return fmt.Errorf("store received messages: %w", err)
			}
			found, err := s.q.ReceivedIdentified(ctx, receivedq.ReceivedIdentifiedParams{Identities: p.Identities, MessageIdentities: p.MessageIdentities})
			if err != nil {
				return fmt.Errorf("find received messages: %w", err)
			}
			if all, isWhole = identify(rows, added, found); !isWhole {
				return errNotWhole
			}
			return s.follow(ctx, rows, all)
		})
	})
	if errors.Is(err, errNotWhole) {
		return nil, false, nil
	}
	return all, isWhole, err
}

// errNotWhole rolls back a transaction that does not store all messages. The new messages are stored again, and still count as new.
var errNotWhole = errors.New("a stored message was deleted")

// identify returns the stored messages of rows, in their order. added contains the ids of new messages. isWhole is false if a row is not found.
func identify(rows []row, added []int64, found []receivedq.ReceivedIdentifiedRow) (all []Stored, isWhole bool) {
	isNew := map[int64]bool{}
	for _, id := range added {
		isNew[id] = true
	}
	ids := map[string]int64{} // by identity
	for _, one := range found {
		ids[string(one.Identity)], ids[string(one.MessageIdentity)] = one.ID, one.ID
	}
	delete(ids, "") // of rows with only one identity
	all = make([]Stored, len(rows))
	for i, r := range rows {
		id, isKnown := ids[string(r.numbers)]
		if !isKnown {
			id, isKnown = ids[string(r.identity)]
		}
		if !isKnown {
			return nil, false
		}
		all[i] = Stored{ID: id, Deduplicated: !isNew[id]}
		if r.kind == KindOptOut {
			all[i].optOut = personOf{r.company, r.number}
		}
		delete(isNew, id) // a repeat in the same call
	}
	return all, true
}

// paramsOf returns the parameters of ReceivedAdd. It sorts the rows by ReceivedAt, the time of the network. Rows without a time come last: by MessageNo if all
// of these rows have numbers, because numbers ascend. Other rows keep their order, so that a conversation shows them as the sender got them.
func paramsOf(senderNo string, rows []row) receivedq.ReceivedAddParams {
	p := receivedq.ReceivedAddParams{SenderNo: senderNo}
	isNumbered := !slices.ContainsFunc(rows, func(r row) bool { return r.ReceivedAt == nil && !characters.IsDigits(r.MessageNo) })
	ordered := slices.SortedStableFunc(slices.Values(rows), func(a, b row) int {
		switch {
		case a.ReceivedAt != nil && b.ReceivedAt != nil:
			return a.ReceivedAt.Compare(*b.ReceivedAt)
		case a.ReceivedAt != nil:
			return -1
		case b.ReceivedAt != nil:
			return 1
		case isNumbered:
			return cmp.Or(cmp.Compare(len(a.MessageNo), len(b.MessageNo)), cmp.Compare(a.MessageNo, b.MessageNo))
		default:
			return 0
		}
	})
	for _, r := range ordered {
		p.CompanyIds, p.TaskIds, p.Submitters = append(p.CompanyIds, r.company), append(p.TaskIds, r.task), append(p.Submitters, r.submitter)
		p.Sims, p.PhoneNumbers, p.OwnNumbers = append(p.Sims, r.SIM), append(p.PhoneNumbers, r.number), append(p.OwnNumbers, r.To)
		p.Contents, p.ReceivedAts, p.MessageNos = append(p.Contents, r.Content), append(p.ReceivedAts, r.ReceivedAt), append(p.MessageNos, r.MessageNo)
		p.Kinds = append(p.Kinds, r.kind)
		p.Identities, p.MessageIdentities = append(p.Identities, r.identity), append(p.MessageIdentities, r.numbers)
		p.Raws = append(p.Raws, r.Raw)
	}
	return p
}

// OnDelete sets a function that is called with the ids of deleted messages, in the transaction that deletes them. Other tables can repeat these messages.
func (s *Service) OnDelete(do func(ctx context.Context, ids []int64) error) { s.onDelete = do }

// OnStored sets a function that is called with the ids of new messages, after the transaction that stores them is committed. If the server stops before, the
// function is not called.
func (s *Service) OnStored(do func(ctx context.Context, ids []int64)) { s.onStored = do }

// RecordMatch records that a rule matched a message. A message that is not an ordinary text keeps its kind.
func (s *Service) RecordMatch(ctx context.Context, id int64) error {
	return postgres.Wrap("record matched message", s.q.ReceivedMatched(ctx, id), nil)
}

// DeleteExpired deletes messages that are older than the setting history.received_days, and old identities of parts, in batches. It returns the number of deleted
// rows.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	forgotten, err := s.forgetParts(ctx)
	if err != nil {
		return forgotten, err
	}
	values, err := s.settings.Get(ctx)
	if err != nil || values.History.ReceivedDays == 0 {
		return forgotten, err
	}
	deleted, err := postgres.InBatches(deleteBatch, func() (n int64, err error) {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			ids, err := s.q.ReceivedDeleteExpired(ctx, receivedq.ReceivedDeleteExpiredParams{BatchSize: deleteBatch, Keep: values.History.ReceivedKept()})
			n = int64(len(ids))
			if err != nil || n == 0 || s.onDelete == nil {
				return err
			}
			return s.onDelete(ctx, ids)
		})
		return n, postgres.Wrap("delete received messages", err, nil)
	})
	return forgotten + deleted, err
}
