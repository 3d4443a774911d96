package conversation

import (
	"context"
	"math"
	"time"

	"lksms/gen/conversationq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/postgres"
)

// Position is a position in a conversation. The page after a position contains messages with smaller ids.
type Position struct {
	ReceivedID int64
	TaskID     string
}

// Newest is the position of the first page.
var Newest = Position{math.MaxInt64, taskid.Last}

// Item is a message of a conversation: either a received message or a task.
type Item struct {
	Received *conversationq.ConversationReceivedRow
	Task     *Task
}

// At returns the time at which the message was stored or submitted.
func (i Item) At() time.Time {
	if i.Task != nil {
		return i.Task.CreatedAt
	}
	return i.Received.CreatedAt
}

// Thread is a page of the messages of a conversation, newest first. Next is the position of the next page; nil: no page follows.
type Thread struct {
	Head
	Sign  *string // the signature of a reply that names no signature; nil: no signature
	Items []Item
	Next  *Position
}

// Thread returns up to limit messages of a conversation. It can return fewer messages although a page follows, because it searches tasks in at most
// maxPartitions partitions. Fault: conversation.not_found.
func (s *Service) Thread(ctx context.Context, viewer task.Viewer, key Key, before Position, limit int) (t Thread, err error) {
	if t.Head, err = s.head(ctx, viewer, key); err != nil {
		return t, err
	}
	if t.Sign, err = s.signOf(ctx, t.answers); err != nil {
		return t, err
	}
	if err := s.addContacts(ctx, []*Head{&t.Head}); err != nil {
		return t, err
	}
	received, err := s.q.ConversationReceived(ctx, conversationq.ConversationReceivedParams{
		CompanyID: key.CompanyID, PhoneNumber: key.Number, Owner: ownerOf(viewer), BeforeID: before.ReceivedID, MaxRows: int32(limit + 1),
	})
	if err != nil {
		return t, postgres.Wrap("read messages of conversation", err, nil)
	}
	var found tasks
	if key.IsDialable() {
		from := ""
		if len(received) > limit { // the page is full before it reaches older tasks
			from = dayOf(received[limit].CreatedAt)
		}
		if found, err = s.tasksOf(ctx, viewer, key, from, before.TaskID, limit+1); err != nil {
			return t, err
		}
	}
	t.Items, t.Next = merge(received, found, before, limit)
	return t, nil
}

// Task is a task of a conversation.
type Task struct {
	conversationq.ConversationTasksRow
	conversationq.ConversationStatesRow
}

// tasks contains the newest tasks of a conversation before a position.
type tasks struct {
	rows     []Task // newest first
	searched string // the search covered all tasks with ids from this id on, and no older tasks; empty: no older task exists
}

// tasksOf returns up to limit tasks with ids before an id, newest first. It searches no ids before `from`.
func (s *Service) tasksOf(ctx context.Context, viewer task.Viewer, key Key, from, before string, limit int) (found tasks, err error) {
	before = min(before, endOfIDs())
	first, err := s.partitionBefore(ctx, before)
	if err != nil {
		return found, err
	}
	err = s.db.ByKey(ctx, func(tx postgres.Runner) (err error) {
		q := conversationq.New(tx)
		found, err = ownTasks(ctx, q, conversationq.ConversationTasksParams{
			CompanyID: key.CompanyID, Owner: ownerOf(viewer), PhoneNumber: key.Number, FromID: max(from, first), BeforeID: before, MaxRows: int32(limit),
		})
		if err != nil || len(found.rows) == 0 {
			return err
		}
		return addStates(ctx, q, found.rows)
	})
	return found, postgres.Wrap("read tasks of conversation", err, nil)
}

// ownTasks returns the newest p.MaxRows tasks of a conversation without their states.
func ownTasks(ctx context.Context, q *conversationq.Queries, p conversationq.ConversationTasksParams) (found tasks, err error) {
	limit := int(p.MaxRows)
	for scanned := 0; scanned < maxScan; {
		rows, err := q.ConversationTasks(ctx, p)
		if err != nil {
			return found, err
		}
		for _, row := range rows {
			if !row.IsOwn {
				continue
			}
			if found.rows = append(found.rows, Task{ConversationTasksRow: row}); len(found.rows) == limit {
				found.searched = row.TaskID
				return found, nil
			}
		}
		if len(rows) < int(p.MaxRows) {
			found.searched = p.FromID
			return found, nil
		}
		scanned += len(rows)
		p.BeforeID, p.MaxRows = rows[len(rows)-1].TaskID, maxScan
	}
	found.searched = p.BeforeID
	return found, nil
}

// addStates adds the states of tasks.
func addStates(ctx context.Context, q *conversationq.Queries, all []Task) error {
	ids := make([]string, len(all))
	for i, t := range all {
		ids[i] = t.TaskID
	}
	states, err := q.ConversationStates(ctx, ids)
	if err != nil {
		return err
	}
	for i, state := range states { // in the same order
		all[i].ConversationStatesRow = state
	}
	return nil
}

// merge returns the newest limit messages, and the position of the next page. Received messages that are older than the searched tasks belong to later pages,
// because older tasks can precede them.
func merge(received []conversationq.ConversationReceivedRow, found tasks, before Position, limit int) (items []Item, next *Position) {
	oldest, isKnown := timeOf(found.searched)
	at := before
	r, t := 0, 0
	for len(items) < limit {
		isReceived := r < len(received) && (!isKnown || !received[r].CreatedAt.Before(oldest))
		if t < len(found.rows) && (!isReceived || received[r].CreatedAt.Before(found.rows[t].CreatedAt)) {
			items, at.TaskID = append(items, Item{Task: &found.rows[t]}), found.rows[t].TaskID
			t++
			continue
		}
		if !isReceived {
			break
		}
		items, at.ReceivedID = append(items, Item{Received: &received[r]}), received[r].ID
		r++
	}
	if t == len(found.rows) {
		at.TaskID = found.searched
	}
	if r == len(received) && t == len(found.rows) && found.searched == "" {
		return items, nil
	}
	return items, &at
}

// timeOf returns a time before which no task with this id or a greater id was submitted. It reports false if the id is empty or has another form.
func timeOf(id string) (time.Time, bool) {
	if at, isTask := taskid.Time(id); isTask {
		return at, true
	}
	at, err := time.Parse("task_20060102", taskid.DayOf(id+"_"))
	return at, err == nil
}
