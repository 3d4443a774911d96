package provider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ValueAt returns the value at a path of a JSON value. A path consists of names and list indexes, separated by points. ValueAt returns nil if the value does
// not exist.
func ValueAt(fields any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch at := fields.(type) {
		case map[string]any:
			fields = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			fields = at[i]
		default:
			return nil
		}
	}
	return fields
}

// TextAt returns the value at a path as text, and whether it exists. Objects, lists and null count as missing. An empty path has no value.
func TextAt(fields any, path string) (string, bool) {
	if path == "" {
		return "", false
	}
	switch value := ValueAt(fields, path).(type) {
	case nil, map[string]any, []any:
		return "", false
	default:
		return fmt.Sprint(value), true
	}
}

// NumberAt works like TextAt for the provider's id of a message, which is a text or a number: true and false count as missing. It returns the id without
// surrounding white space, because a provider can write white space in only one of its answer and its receipts.
func NumberAt(fields any, path string) (string, bool) {
	if _, isBool := ValueAt(fields, path).(bool); isBool {
		return "", false
	}
	number, exists := TextAt(fields, path)
	return strings.TrimSpace(number), exists
}

// IsOneOf reports whether a value is in a list. Some programs write whole numbers with a fraction, so 0.0 equals 0.
func IsOneOf(values []string, value string) bool {
	whole, fraction, _ := strings.Cut(value, ".")
	isWhole := fraction != "" && strings.Trim(fraction, "0") == "" && strings.Trim(whole, "-0123456789") == ""
	return slices.Contains(values, value) || isWhole && slices.Contains(values, whole)
}

// Text converts a JSON number or string to text.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprint(v)
	}
}
