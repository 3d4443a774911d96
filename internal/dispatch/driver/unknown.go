package driver

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// unknownMember returns the path of the first member of a JSON value that the Go type t does not define, such as .received.text. It returns an empty text if t
// defines all members. The decoder of encoding/json names only the last part of this path.
func unknownMember(value any, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) { // such a type decodes its members itself
		return ""
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if t.Kind() != reflect.Slice {
				return ""
			}
			if unknown := unknownMember(item, t.Elem()); unknown != "" {
				return "." + strconv.Itoa(i) + unknown
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			of, isKnown := memberType(t, name)
			switch {
			case !isKnown:
				return "." + name
			case of != nil:
				if unknown := unknownMember(value[name], of); unknown != "" {
					return "." + name + unknown
				}
			}
		}
	}
	return ""
}

// memberType returns the type of a member of t. It returns nil if t accepts any members of any type.
func memberType(t reflect.Type, name string) (of reflect.Type, isKnown bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
	default:
		return nil, true
	}
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "" {
			tag = field.Name
		}
		if field.IsExported() && !field.Anonymous && strings.EqualFold(tag, name) {
			return field.Type, true
		}
	}
	return nil, false
}
