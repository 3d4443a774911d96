// Package paging reads what a list was asked for, and writes the cursor of the next page.
package paging

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Page cuts rows, of which one more than limit was asked for, to limit items, and gives the cursor of the next page if
// there is one.
func Page[Row, Item any](rows []Row, limit int, one func(Row) Item, key func(Row) string) ([]Item, *string) {
	items, next, _ := TryPage(rows, limit, func(row Row) (Item, error) { return one(row), nil }, key)
	return items, next
}

// TryPage is Page for rows of which not every one can be made an item.
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

// CursorOf returns the cursor after a key.
func CursorOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

var errNotACursor = fault.InvalidField("cursor", fault.NotACursor, nil)

// keyOf reads what CursorOf wrote. Anybody can write a cursor: what is no text would fail in PostgreSQL.
func keyOf(cursor string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !postgres.IsText(string(text)) {
		return "", errNotACursor
	}
	return string(text), nil
}

// TaskCursor reads a cursor of a list of tasks, newest first: a task id. A row that was made by hand may have an id of any shape.
func TaskCursor(cursor *string) (string, error) {
	if cursor == nil {
		return taskid.Last, nil
	}
	return keyOf(*cursor)
}

// IDCursor reads a cursor of a list that is in the order of ids, newest first.
func IDCursor(cursor *string) (int64, error) {
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

// TextCursor reads a cursor of a list that is in the order of a text.
func TextCursor(cursor *string) (string, error) {
	if cursor == nil {
		return "", nil
	}
	return keyOf(*cursor)
}

// PositionCursor reads a cursor of a search of contacts.
func PositionCursor(cursor *string) (contact.Place, error) {
	if cursor == nil {
		return contact.Place{}, nil
	}
	key, err := keyOf(*cursor)
	if err != nil {
		return contact.Place{}, err
	}
	id, term, isPlace := strings.Cut(key, positionSeparator)
	if !isPlace {
		return contact.Place{}, errNotACursor
	}
	return contact.Place{Term: term, UserID: id}, nil
}

// positionSeparator is in no user id.
const positionSeparator = "\n"

// CursorOfPosition returns the cursor after a position of a search; nil for nil.
func CursorOfPosition(p *contact.Place) *string {
	if p == nil {
		return nil
	}
	return new(CursorOf(p.UserID + positionSeparator + p.Term))
}

// TimeCursor reads a cursor of a list that is in the order of a time and, at the same time, of ids.
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

// farFuture is after every time in the database.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// IDText returns the key of an id.
func IDText(id int64) string { return strconv.FormatInt(id, 10) }

// Size applies the contract's default.
func Size(limit *int) int { return optional.Or(limit, 20) }

// Of reads what a list was asked for: rows with smaller ids than before, and how many.
func Of(cursor *string, limit *int) (before int64, most int, err error) {
	before, err = IDCursor(cursor)
	return before, Size(limit), err
}
