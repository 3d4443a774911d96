// Package conversation shows the messages between a company and a phone number in both directions, and sends replies.
package conversation

import (
	"context"
	"time"

	"lksms/gen/conversationq"
	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

const (
	maxPartitions = 32   // maximum number of partitions of messages in which one request searches tasks
	maxLength     = 200  // maximum number of characters of the last message in a list
	maxTasks      = 50   // maximum number of tasks to a number among which the last task of a conversation is searched
	maxScan       = 1000 // maximum number of tasks to a number that one page of a conversation reads, with tasks of other companies and submitters
	maxUnread     = 1000 // maximum number of unread conversations that are counted

	// skew is the maximum difference between the clock of a server, which makes ids of tasks, and the clock of the database.
	skew = time.Minute
)

// Service shows conversations and sends replies.
type Service struct {
	db          *postgres.DB
	q           *conversationq.Queries
	inParts     *conversationq.Queries // for statements that read tasks by id
	received    *received.Service
	submissions *submit.Service
	contacts    *contact.Service
}

// New returns a Service on db.
func New(db *postgres.DB, received *received.Service, submissions *submit.Service, contacts *contact.Service) *Service {
	return &Service{
		db: db, q: conversationq.New(db), inParts: conversationq.New(db.InPartitions()), received: received, submissions: submissions, contacts: contacts,
	}
}

// Key identifies a conversation. Number is in E.164; a number that cannot be parsed is as it was received.
type Key struct {
	CompanyID int64
	Number    string
}

// IsDialable reports whether tasks to the number can exist.
func (k Key) IsDialable() bool { return phone.IsE164(k.Number) }

// Head describes a conversation, its last received message and its contact.
type Head struct {
	Key
	CompanyNo string
	Unread    int64
	LastID    int64  // id of the last received message
	SenderNo  string // the sender that received the last message
	Contact   *contact.Known
	content   string // beginning of the last received message
	at        time.Time
	answers   *string // the task that the last received message answers; nil: it answers no task
}

var errNone = fault.New(fault.NotFound, fault.ConversationNotFound)

// ownerOf returns the submitter to whose tasks and answers a viewer is limited; empty: no limit.
func ownerOf(viewer task.Viewer) string { return optional.Value(viewer.Owner) }

// Find returns the key of the first conversation of a company with one of the forms of a number. Fault: conversation.not_found.
func (s *Service) Find(ctx context.Context, viewer task.Viewer, companyID int64, forms []string) (Key, error) {
	number, err := s.q.ConversationFind(ctx, conversationq.ConversationFindParams{CompanyID: companyID, Owner: ownerOf(viewer), PhoneNumbers: forms})
	return Key{companyID, number}, postgres.Wrap("find conversation", err, errNone)
}

// head returns a conversation without its contact, or the fault conversation.not_found.
func (s *Service) head(ctx context.Context, viewer task.Viewer, key Key) (Head, error) {
	row, err := s.q.ConversationGet(ctx, conversationq.ConversationGetParams{
		CompanyID: key.CompanyID, PhoneNumber: key.Number, Owner: ownerOf(viewer), MaxLength: maxLength,
	})
	return headOf(conversationq.ConversationListOfRow(row)), postgres.Wrap("get conversation", err, errNone)
}

func headOf(r conversationq.ConversationListOfRow) Head {
	return Head{
		Key: Key{r.CompanyID, r.PhoneNumber}, CompanyNo: r.CompanyNo, Unread: r.Unread, LastID: r.LastID, SenderNo: r.SenderNo,
		content: r.Content, at: r.CreatedAt, answers: r.TaskID,
	}
}

// addContacts sets the contacts of conversations.
func (s *Service) addContacts(ctx context.Context, heads []*Head) error {
	var companies []int64
	var numbers []string
	for _, h := range heads {
		companies, numbers = append(companies, h.CompanyID), append(numbers, h.Number)
	}
	found, err := s.contacts.FindByPhones(ctx, companies, numbers)
	if err != nil {
		return err
	}
	for i, h := range heads {
		h.Contact = found[i]
	}
	return nil
}

// Read marks the messages of a conversation as read by a user, up to and including the id upTo. It returns the number of messages that were unread. Fault:
// conversation.not_found.
func (s *Service) Read(ctx context.Context, viewer task.Viewer, key Key, upTo int64, username string) (int, error) {
	if _, err := s.head(ctx, viewer, key); err != nil {
		return 0, err
	}
	return s.received.ReadUpTo(ctx, viewer, key.CompanyID, key.Number, upTo, username)
}

// Unread describes the unread conversations of one company or of all companies.
type Unread struct {
	Conversations int64 // at most maxUnread
	LastID        int64 // the largest id of a received message; 0: no message
}

// Unread returns the number of conversations with unread messages. A nil company means all companies.
func (s *Service) Unread(ctx context.Context, company *int64) (u Unread, err error) {
	var row conversationq.ConversationUnreadRow
	if company == nil {
		row, err = s.q.ConversationUnread(ctx, maxUnread)
	} else {
		var of conversationq.ConversationUnreadOfCompanyRow
		of, err = s.q.ConversationUnreadOfCompany(ctx, conversationq.ConversationUnreadOfCompanyParams{CompanyID: *company, MaxRows: maxUnread})
		row = conversationq.ConversationUnreadRow(of)
	}
	return Unread{row.Conversations, row.LastID}, postgres.Wrap("count unread conversations", err, nil)
}

// partitionBefore reads the maxPartitions newest partitions before an id, and returns the first id of the oldest of these partitions. It returns an empty text
// if fewer partitions exist.
func (s *Service) partitionBefore(ctx context.Context, before string) (string, error) {
	first, err := s.q.ConversationPartition(ctx, conversationq.ConversationPartitionParams{BeforeID: before, MaxRows: maxPartitions})
	return first, postgres.Wrap("find partition of messages", err, nil)
}

// dayOf returns a text that sorts before the ids of all tasks that were submitted after the time `at`. It is the beginning of a day: for a later beginning, the
// planner could estimate that few tasks follow, and read all of them instead of the tasks to one number.
func dayOf(at time.Time) string { return taskid.Day(at.Add(-skew)) }

// endOfIDs returns a text that sorts after the ids of all tasks. With it, the planner opens no partitions of future days.
func endOfIDs() string { return taskid.Day(time.Now().Add(24*time.Hour + skew)) }
