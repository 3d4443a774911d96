package contract

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
)

// accepter reports whether a schema accepts a value of a request. False means that the accepter is not certain: the validator, which is slower, then decides, and
// names what is wrong.
type accepter func(value any) bool

// accepterOf returns the accepter of a schema. Schemas with keywords that it does not know, and objects and lists within objects and lists, use the validator.
func accepterOf(s *openapi3.Schema) accepter {
	switch {
	case !hasOnlyKnownKeywords(s):
	case s.Type.Is(openapi3.TypeObject):
		return acceptObject(s)
	case s.Type.Is(openapi3.TypeArray) && s.Items != nil:
		return acceptArray(s)
	}
	return memberAccepterOf(s)
}

// memberAccepterOf returns the accepter of a schema within an object or a list.
func memberAccepterOf(s *openapi3.Schema) accepter {
	if hasOnlyKnownKeywords(s) {
		switch {
		case s.Type.Is(openapi3.TypeString) && s.Format == "":
			return orNull(s, acceptString(s))
		case s.Type.Is(openapi3.TypeInteger):
			return orNull(s, acceptInteger(s))
		case s.Type.Is(openapi3.TypeBoolean) && len(s.Enum) == 0:
			return orNull(s, func(value any) bool { _, is := value.(bool); return is })
		case s.Type.Is(openapi3.TypeObject) && len(s.Properties) == 0 && len(s.Required) == 0 && s.AdditionalProperties == (openapi3.AdditionalProperties{}):
			return func(value any) bool { _, is := value.(map[string]any); return is }
		}
	}
	return func(value any) bool { return s.VisitJSON(value, openapi3.VisitAsRequest()) == nil }
}

// hasOnlyKnownKeywords reports whether a schema contains only keywords that the accepters apply, and keywords that reject no value.
func hasOnlyKnownKeywords(s *openapi3.Schema) bool {
	rest := *s
	rest.Extensions, rest.Origin, rest.Title, rest.Description, rest.Default, rest.Example, rest.Deprecated = nil, nil, "", "", nil, nil, false
	rest.Type, rest.Nullable, rest.Format, rest.Enum, rest.Min, rest.Max = nil, false, "", nil, nil, nil
	rest.MinLength, rest.MaxLength, rest.Pattern = 0, nil, ""
	rest.MinItems, rest.MaxItems, rest.Items = 0, nil, nil
	rest.Required, rest.Properties, rest.AdditionalProperties = nil, nil, openapi3.AdditionalProperties{}
	return reflect.ValueOf(rest).IsZero()
}

func orNull(s *openapi3.Schema, accepts accepter) accepter {
	return func(value any) bool { return value == nil && s.Nullable || accepts(value) }
}

func acceptObject(s *openapi3.Schema) accepter {
	members := make(map[string]accepter, len(s.Properties))
	for name, p := range s.Properties {
		if p.Value.ReadOnly {
			continue // the validator rejects it
		}
		members[name] = memberAccepterOf(p.Value)
	}
	return func(value any) bool {
		object, is := value.(map[string]any)
		if !is {
			return false
		}
		for name, member := range object {
			if accepts, isKnown := members[name]; !isKnown || !accepts(member) {
				return false
			}
		}
		for _, name := range s.Required {
			if _, is := object[name]; !is {
				return false
			}
		}
		return true
	}
}

func acceptArray(s *openapi3.Schema) accepter {
	accepts := memberAccepterOf(s.Items.Value)
	return func(value any) bool {
		list, is := value.([]any)
		if !is || uint64(len(list)) < s.MinItems || s.MaxItems != nil && uint64(len(list)) > *s.MaxItems {
			return false
		}
		return !slices.ContainsFunc(list, func(item any) bool { return !accepts(item) })
	}
}

// codePoint matches a code point in the notation of the contract, which is the notation of ECMAScript.
var codePoint = regexp.MustCompile(`\\u([0-9A-F]{4})`)

func acceptString(s *openapi3.Schema) accepter {
	matches := func(string) bool { return true }
	if s.Pattern == `^[^\u0000]*$` {
		matches = func(text string) bool { return strings.IndexByte(text, 0) < 0 }
	} else if s.Pattern != "" {
		pattern, err := regexp.Compile(codePoint.ReplaceAllString(s.Pattern, `\x{$1}`))
		if err != nil {
			return func(any) bool { return false }
		}
		matches = pattern.MatchString
	}
	return func(value any) bool {
		text, is := value.(string)
		if !is || len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
			return false
		}
		if length := uint64(utf8.RuneCountInString(text)); length < s.MinLength || s.MaxLength != nil && length > *s.MaxLength {
			return false
		}
		return matches(text)
	}
}

// acceptInteger accepts numbers without a fraction or an exponent.
func acceptInteger(s *openapi3.Schema) accepter {
	bits := 64
	if width, found := strings.CutPrefix(s.Format, "int"); found {
		bits, _ = strconv.Atoi(width) // 0 means 64, too
	}
	return func(value any) bool {
		number, _ := value.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, bits)
		if err != nil || s.Min != nil && float64(n) < *s.Min || s.Max != nil && float64(n) > *s.Max {
			return false
		}
		return len(s.Enum) == 0 || slices.ContainsFunc(s.Enum, func(allowed any) bool { return allowed == float64(n) })
	}
}
