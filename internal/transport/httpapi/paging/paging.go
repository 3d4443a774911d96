// Package paging reads the cursor and limit of list requests, and writes the cursor of the next page.
package paging

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Page converts at most limit rows to items, and returns the cursor of the next page. The cursor is nil if the page is the last page. The caller must query
// limit + 1 rows.
func Page[Row, Item any](rows []Row, limit int, one func(Row) Item, key func(Row) string) ([]Item, *string) {
	items, next, _ := TryPage(rows, limit, func(row Row) (Item, error) { return one(row), nil }, key)
	return items, next
}

// TryPage works like Page, for a conversion that can fail.
func TryPage[Row, Item any](rows []Row, limit int, one func(Row) (Item, error), key func(Row) string) (items []Item, next *string, err error) {
	if len(rows) > limit {
		rows = rows[:limit]
		next = new(CursorOf(key(rows[limit-1])))
	}
	items = make([]Item, len(rows))
	for i, row := range rows {
		if items[i], err = one(row); err != nil {
			return nil, nil, err
		}
	}
	return items, next, nil
}

// CursorOf returns the cursor of the page after key.
func CursorOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

var errNotACursor = fault.InvalidField("cursor", fault.NotACursor, nil)

// keyOf decodes a cursor of CursorOf. A client can send any cursor, so keyOf rejects text that PostgreSQL cannot store.
func keyOf(cursor string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !postgres.IsText(string(text)) {
		return "", errNotACursor
	}
	return string(text), nil
}

// ParseTaskID reads a cursor of a list of tasks, newest first. Its key is a task id, which can have any format, because operators can insert rows by hand.
func ParseTaskID(cursor *string) (string, error) {
	if cursor == nil {
		return taskid.Last, nil
	}
	return keyOf(*cursor)
}

// ParseID reads a cursor of a list that is sorted by id, newest first.
func ParseID(cursor *string) (int64, error) {
	if cursor == nil {
		return math.MaxInt64, nil
	}
	text, err := keyOf(*cursor)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errNotACursor
	}
	return id, nil
}

// ParseText reads a cursor of a list that is sorted by a text.
func ParseText(cursor *string) (string, error) {
	if cursor == nil {
		return "", nil
	}
	return keyOf(*cursor)
}

// ParsePosition reads a cursor of a search of contacts.
func ParsePosition(cursor *string) (contact.Position, error) {
	if cursor == nil {
		return contact.Position{}, nil
	}
	key, err := keyOf(*cursor)
	if err != nil {
		return contact.Position{}, err
	}
	id, term, isPosition := strings.Cut(key, positionSeparator)
	if !isPosition {
		return contact.Position{}, errNotACursor
	}
	return contact.Position{Term: term, UserID: id}, nil
}

// positionSeparator cannot occur in a user id or a number.
const positionSeparator = "\n"

// CursorOfPosition returns the cursor of the page after a position of a search. It returns nil if p is nil.
func CursorOfPosition(p *contact.Position) *string {
	if p == nil {
		return nil
	}
	return new(CursorOf(p.UserID + positionSeparator + p.Term))
}

// ParseConversation reads a cursor of the messages of a conversation.
func ParseConversation(cursor *string) (conversation.Position, error) {
	if cursor == nil {
		return conversation.Newest, nil
	}
	key, err := keyOf(*cursor)
	if err != nil {
		return conversation.Position{}, err
	}
	id, taskID, isPosition := strings.Cut(key, positionSeparator)
	received, err := strconv.ParseInt(id, 10, 64)
	if err != nil || !isPosition {
		return conversation.Position{}, errNotACursor
	}
	return conversation.Position{ReceivedID: received, TaskID: taskID}, nil
}

// CursorOfConversation returns the cursor of the messages before a position. It returns nil if p is nil.
func CursorOfConversation(p *conversation.Position) *string {
	if p == nil {
		return nil
	}
	return new(CursorOf(IDText(p.ReceivedID) + positionSeparator + p.TaskID))
}

// TimeCursor reads a cursor of a list that is sorted by time and then by id, newest first.
func TimeCursor(cursor *string) (at time.Time, id int64, err error) {
	if cursor == nil {
		return farFuture, math.MaxInt64, nil
	}
	text, err := keyOf(*cursor)
	if err == nil {
		first, second, _ := strings.Cut(text, ",")
		at, err = time.Parse(time.RFC3339Nano, first)
		if err == nil {
			id, err = strconv.ParseInt(second, 10, 64)
		}
	}
	if err != nil || at.Year() < 1970 || at.After(farFuture) {
		return at, 0, errNotACursor
	}
	return at, id, nil
}

// farFuture is later than every time in the database.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// IDText returns an id as the key of a cursor.
func IDText(id int64) string { return strconv.FormatInt(id, 10) }

// Size returns the page size of a request, or the default of the contract.
func Size(limit *int) int { return optional.Or(limit, 20) }

// Of reads the cursor and limit of a list that is sorted by id, newest first. The page contains up to size rows with ids smaller than beforeID.
func Of(cursor *string, limit *int) (beforeID int64, size int, err error) {
	beforeID, err = ParseID(cursor)
	return beforeID, Size(limit), err
}
