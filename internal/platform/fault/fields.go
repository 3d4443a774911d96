package fault

import (
	"errors"
	"fmt"
)

// MaxFields is the maximum number of invalid fields that an answer names. A body or query can contain any number of fields.
const MaxFields = 100

// Fields collects the invalid fields of a request, so that an answer names all of them.
type Fields []Field

// Add adds the fields of err if err is the fault request.invalid. Otherwise it returns err.
func (f *Fields) Add(err error) error {
	var wrong *Error
	if !errors.As(err, &wrong) || wrong.Reason != RequestInvalid {
		return err
	}
	f.add(wrong.Fields...)
	return nil
}

// Invalid adds a field. limit can be nil.
func (f *Fields) Invalid(name string, rule Rule, limit any) {
	f.add(Field{Name: name, Rule: rule, Limit: limit})
}

func (f *Fields) add(fields ...Field) {
	*f = append(*f, fields[:min(len(fields), MaxFields-len(*f))]...)
}

// InvalidItems adds the items of a list for which isWrong returns true, by their indexes, such as channels.0. isWrong is called in the order of the items.
func InvalidItems[T any](f *Fields, list string, items []T, rule Rule, limit any, isWrong func(T) bool) {
	for i, item := range items {
		if isWrong(item) {
			f.Invalid(fmt.Sprintf("%s.%d", list, i), rule, limit)
		}
	}
}

// RepeatedItems adds the items of a list that repeat an earlier item, by their indexes.
func RepeatedItems[T comparable](f *Fields, list string, items []T) {
	seen := map[T]bool{}
	InvalidItems(f, list, items, Duplicate, nil, func(item T) bool {
		isRepeated := seen[item]
		seen[item] = true
		return isRepeated
	})
}

// IsFull reports whether f contains MaxFields fields, so that further fields are not added.
func (f *Fields) IsFull() bool { return len(*f) >= MaxFields }

// Err returns the fault request.invalid with the fields, or nil if no field is invalid.
func (f *Fields) Err() error {
	if len(*f) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Reason: RequestInvalid, Fields: *f}
}
