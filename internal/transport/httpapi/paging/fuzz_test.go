package paging

import (
	"errors"
	"testing"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// FuzzCursor reads any cursor. PostgreSQL can store the values of every accepted cursor.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"task_x", "task_\xff", "12", "2026-01-01T00:00:00.5Z,3", "9999-12-31T23:59:59-23:59,1", "u-1\nzhang\n", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, cursor := range []string{text, CursorOf(text)} {
			id, taskErr := ParseTaskID(&cursor)
			number, idErr := ParseID(&cursor)
			key, textErr := ParseText(&cursor)
			at, _, failureErr := TimeCursor(&cursor)
			place, placeErr := ParsePosition(&cursor)
			for _, err := range []error{taskErr, idErr, textErr, failureErr, placeErr} {
				var expected *fault.Error
				if err != nil && (!errors.As(err, &expected) || expected.Fields[0].Rule != fault.NotACursor) {
					t.Errorf("%q: %v", cursor, err)
				}
			}
			if taskErr == nil && !postgres.IsText(id) || textErr == nil && !postgres.IsText(key) {
				t.Errorf("%q holds %q and %q", cursor, id, key)
			}
			if placeErr == nil && (!postgres.IsText(place.Term) || !postgres.IsText(place.UserID) || *CursorOfPosition(&place) != CursorOf(place.UserID+"\n"+place.Term)) {
				t.Errorf("%q holds %+v", cursor, place)
			}
			if failureErr == nil && (at.Year() < 1 || at.Year() > 9999) {
				t.Errorf("%q holds %s", cursor, at)
			}
			again := CursorOf(IDText(number))
			if read, err := ParseID(&again); idErr == nil && (err != nil || read != number) {
				t.Errorf("%q holds %d, and then %d, %v", cursor, number, read, err)
			}
		}
	})
}
