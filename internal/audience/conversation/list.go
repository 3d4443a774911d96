package conversation

import (
	"context"
	"slices"
	"time"

	"lksms/gen/conversationq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/scan"
)

// Filter selects conversations of a list. A nil field matches all. The page contains conversations whose last received messages have ids smaller than BeforeID.
type Filter struct {
	Viewer   task.Viewer // only conversations of its company, and only tasks of its owner with their answers
	Unread   *bool
	SenderNo *string // the sender that received the last message
	BeforeID int64
	Limit    int
}

// Last is the last message of a conversation.
type Last struct {
	IsOut   bool   // the message is a task
	Content string // the first maxLength characters
	At      time.Time
}

// Conversation is a conversation in a list.
type Conversation struct {
	Head
	Last Last
}

// List lists the matching conversations. The conversation with the newest received message is first.
func (s *Service) List(ctx context.Context, f Filter) (p scan.Page[Conversation], err error) {
	rows, err := scan.List[conversationq.ConversationListOfRow]{
		IDs: s.idsOf(ctx, f), ID: func(r conversationq.ConversationListOfRow) int64 { return r.LastID },
		Rows: func(ids []int64) ([]conversationq.ConversationListOfRow, error) {
			return s.q.ConversationListOf(ctx, conversationq.ConversationListOfParams{
				Ids: ids, CompanyID: f.Viewer.CompanyID, Owner: ownerOf(f.Viewer), SenderNo: f.SenderNo, IsUnread: f.Unread, MaxLength: maxLength,
			})
		},
	}.Page(f.BeforeID, f.Limit)
	if err != nil {
		return p, postgres.Wrap("list conversations", err, nil)
	}
	p.Before = rows.Before
	p.Rows = make([]Conversation, len(rows.Rows))
	heads := make([]*Head, len(rows.Rows))
	for i, row := range rows.Rows {
		p.Rows[i].Head = headOf(row)
		heads[i] = &p.Rows[i].Head
	}
	if err := s.addContacts(ctx, heads); err != nil {
		return p, err
	}
	return p, s.addLast(ctx, ownerOf(f.Viewer), p.Rows)
}

// idsOf returns the statement that reads ids of last received messages by the index of the most selective filter.
func (s *Service) idsOf(ctx context.Context, f Filter) func(before int64, limit int32) ([]int64, error) {
	owner, isUnread := ownerOf(f.Viewer), optional.Value(f.Unread)
	switch company := f.Viewer.CompanyID; {
	case isUnread && company != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ConversationIDsUnreadOfCompany(ctx, conversationq.ConversationIDsUnreadOfCompanyParams{CompanyID: *company, Owner: owner, BeforeID: before, MaxRows: limit})
		}
	case isUnread:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ConversationIDsUnread(ctx, conversationq.ConversationIDsUnreadParams{Owner: owner, BeforeID: before, MaxRows: limit})
		}
	case f.SenderNo != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ConversationIDsOfSender(ctx, conversationq.ConversationIDsOfSenderParams{SenderNo: *f.SenderNo, BeforeID: before, MaxRows: limit})
		}
	case company != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ConversationIDsOfCompany(ctx, conversationq.ConversationIDsOfCompanyParams{CompanyID: *company, Owner: owner, BeforeID: before, MaxRows: limit})
		}
	default:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ConversationIDs(ctx, conversationq.ConversationIDsParams{Owner: owner, BeforeID: before, MaxRows: limit})
		}
	}
}

// addLast sets the last messages of conversations: the last received message, or a later task among the maxPartitions newest partitions.
func (s *Service) addLast(ctx context.Context, owner string, all []Conversation) error {
	p := conversationq.ConversationLastTasksParams{Owner: owner, MaxTasks: maxTasks, MaxLength: maxLength, EndID: endOfIDs()}
	var of []int // indexes of the numbers of p
	for i := range all {
		c := &all[i]
		c.Last = Last{Content: c.content, At: c.at}
		if c.IsDialable() {
			of = append(of, i)
			p.CompanyIds, p.PhoneNumbers, p.FromIds = append(p.CompanyIds, c.CompanyID), append(p.PhoneNumbers, c.Number), append(p.FromIds, dayOf(c.at))
		}
	}
	if len(of) == 0 {
		return nil
	}
	first, err := s.partitionBefore(ctx, p.EndID)
	if err != nil {
		return err
	}
	p.MinID = max(slices.Min(p.FromIds), first)
	var tasks []conversationq.ConversationLastTasksRow
	err = s.db.ByKey(ctx, func(tx postgres.Runner) (err error) {
		tasks, err = conversationq.New(tx).ConversationLastTasks(ctx, p)
		return err
	})
	for _, t := range tasks {
		if c := &all[of[t.Nth-1]]; t.CreatedAt.After(c.at) {
			c.Last = Last{IsOut: true, Content: t.Content, At: t.CreatedAt}
		}
	}
	return postgres.Wrap("find last tasks of conversations", err, nil)
}
