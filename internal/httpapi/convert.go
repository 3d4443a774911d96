package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/httpapi/gate"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// The envelope of every success.
const (
	ok      = http.StatusOK
	success = "success"
)

func done() api.DoneJSONResponse { return api.DoneJSONResponse{Code: ok, Message: success} }

// objectMost is how many bytes an object may take of which the contract says nothing more.
const objectMost = 16 << 10

// member is an object in the request's body as it was sent, nil if it was left out. The generated types make float64 of the numbers in
// an object of which the contract says nothing more. Fault: request.invalid for one that takes more than objectMost.
func member(ctx context.Context, name string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(gate.Of(ctx).Body, &members); err != nil {
		return nil, fmt.Errorf("read members of body: %w", err)
	}
	text := members[name]
	if storedSize(text) > objectMost {
		return nil, fault.InvalidField(name, fault.TooManyBytes, objectMost)
	}
	return text, nil
}

// storedSize is how many bytes JSON takes at most as PostgreSQL writes it: without the white space of its author, and with numbers
// written out. 1e99 takes a hundred.
func storedSize(text []byte) int {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return len(text)
	}
	size := compact.Len()
	decoder := jsontext.NewDecoder(&compact)
	for token, err := decoder.ReadToken(); err == nil && size <= objectMost; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		if number := token.String(); strings.ContainsAny(number, "eE") {
			exponent, _ := strconv.Atoi(number[strings.IndexAny(number, "eE")+1:])
			size += max(exponent, -exponent)
		}
	}
	return size
}

// object reads an object, whose numbers stay as they are written; nothing and null are an empty one.
func object(text []byte) (map[string]any, error) {
	fields := map[string]any{}
	if len(text) == 0 {
		return fields, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return fields, nil
}

// payload is that of the request.
func payload(ctx context.Context) (map[string]any, error) {
	text, err := member(ctx, "payload")
	if err != nil {
		return nil, err
	}
	return object(text)
}

// value is what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// orElse is what p points to, or standard.
func orElse[T any](p *T, standard T) T {
	if p == nil {
		return standard
	}
	return *p
}

func nonEmpty(s *string) *string {
	if value(s) == "" {
		return nil
	}
	return s
}

// convert never returns nil: an empty list is written as one.
func convert[From, To any](rows []From, one func(From) To) []To {
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = one(row)
	}
	return out
}

// page cuts rows, of which one more than limit was asked for, to limit items, and gives the cursor of the next page if
// there is one.
func page[Row, Item any](rows []Row, limit int, one func(Row) Item, key func(Row) string) ([]Item, *string) {
	if len(rows) <= limit {
		return convert(rows, one), nil
	}
	rows = rows[:limit]
	next := cursorOf(key(rows[limit-1]))
	return convert(rows, one), &next
}

func cursorOf(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

var errNotACursor = fault.InvalidField("cursor", fault.NotACursor, nil)

// keyOf reads what cursorOf wrote. Anybody can write a cursor: what is no text would fail in PostgreSQL.
func keyOf(cursor string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !postgres.IsText(string(text)) {
		return "", errNotACursor
	}
	return string(text), nil
}

func taskCursor(cursor *string) (string, error) {
	if cursor == nil {
		return queue.LastID, nil
	}
	id, err := keyOf(*cursor)
	if err == nil && !strings.HasPrefix(id, "task_") {
		err = errNotACursor
	}
	return id, err
}

func idCursor(cursor *string) (int64, error) {
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

// textCursor reads a cursor of a list that is in the order of a text.
func textCursor(cursor *string) (string, error) {
	if cursor == nil {
		return "", nil
	}
	return keyOf(*cursor)
}

// failureCursor reads a cursor of a list that is in the order of a time and, at the same time, of ids.
func failureCursor(cursor *string) (at time.Time, id int64, err error) {
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

func idText(id int64) string { return strconv.FormatInt(id, 10) }

// claimSize applies the contract's default.
func claimSize(limit *int) int { return orElse(limit, 10) }

// pageSize applies the contract's default.
func pageSize(limit *int) int { return orElse(limit, 20) }

// pageOf reads what a list was asked for: rows with smaller ids than before, and how many.
func pageOf(cursor *string, limit *int) (before int64, most int, err error) {
	before, err = idCursor(cursor)
	return before, pageSize(limit), err
}

// The names of message types, by how tasks keep them.
var messageTypes = [...]api.MessageType{
	queue.Verification: api.Verification, queue.Notification: api.Notification, queue.Marketing: api.Marketing,
}

// messageType is the kept form of a name; notification if there is none.
func messageType(name *api.MessageType) int16 {
	if name != nil {
		for code, known := range messageTypes {
			if known == *name {
				return int16(code)
			}
		}
	}
	return queue.Notification
}

// nulls names the fields of a patch that are null, those of limits included: that they are to be emptied, which the
// generated type does not tell from what was left out.
func nulls(body []byte) ([]string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	names := []string{}
	for name, text := range fields {
		switch {
		case bytes.Equal(text, []byte("null")):
			names = append(names, name)
		case name == "limits":
			inner, err := nulls(text)
			if err != nil {
				return nil, err
			}
			names = append(names, inner...)
		}
	}
	return names, nil
}
