package template

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"lksms/internal/platform/fault"
)

// maxContent is the maximum length in characters of a rendered message that the database can store. Package queue checks the configured limits, which can be
// lower.
const maxContent = 1024

// placeholder matches a name in braces. A name can be in any script, with combining marks and joiners. Braces around any other text are plain text.
var placeholder = regexp.MustCompile(`\{([\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-]+)\}`)

// spaced matches a name in braces with spaces around or in it: probably a mistyped placeholder.
var spaced = regexp.MustCompile(`\{([\s\p{Z}]*[\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-][\p{L}\p{M}\p{N}_.\x{200C}\x{200D}\s\p{Z}-]*)\}`)

// Text is a parsed text with placeholders, which can be rendered many times.
type Text struct {
	literals []string // texts before, between and after the placeholders: one more than places
	places   []int    // indexes of names, one per placeholder
	names    []string // names of the placeholders in NFC, without duplicates, in the order in which they first appear
}

// Parse parses a text with placeholders. It rejects a spaced placeholder with a fault of field, because the message would contain the name of a parameter
// instead of its value.
func Parse(field, content string) (Text, error) {
	for _, found := range spaced.FindAllString(content, -1) {
		if !placeholder.MatchString(found) {
			return Text{}, fault.InvalidField(field, fault.SpacedPlaceholder, found)
		}
	}
	return parse(content), nil
}

func parse(content string) Text {
	var t Text
	end := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(content, -1) {
		name := norm.NFC.String(content[at[2]:at[3]]) // a name can contain precomposed characters or combining marks
		place := slices.Index(t.names, name)
		if place < 0 {
			place, t.names = len(t.names), append(t.names, name)
		}
		t.literals, t.places = append(t.literals, content[end:at[0]]), append(t.places, place)
		end = at[1]
	}
	t.literals = append(t.literals, content[end:])
	return t
}

// Placeholders returns the names of the placeholders in a content, as Text.Names does.
func Placeholders(content string) []string { return parse(content).Names() }

// Names returns the names of the placeholders in NFC, without duplicates, in the order in which they first appear. The caller must not change them.
func (t Text) Names() []string { return t.names }

// String returns the text with its placeholders.
func (t Text) String() string {
	return t.Rewrite(func(part string) string { return part }, func(name string) string { return "{" + name + "}" })
}

// Rewrite returns the text in another notation: literal converts the texts between the placeholders, and place converts the names of the placeholders.
func (t Text) Rewrite(literal, place func(string) string) string {
	var out strings.Builder
	for i, at := range t.places {
		out.WriteString(literal(t.literals[i]) + place(t.names[at]))
	}
	return out.String() + literal(t.literals[len(t.places)])
}

// Render replaces each placeholder by the value of its name (S0.8). A value can be blank but not missing. Placeholders in a value are not replaced. Render
// stops at the maximum length. All errors are faults of the field content.
func (t Text) Render(value func(name string) (string, bool)) (string, error) {
	values := make([]string, len(t.names))
	var missing []string
	for i, name := range t.names {
		var ok bool
		if values[i], ok = value(name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return "", fault.InvalidField("content", fault.MissingParameters, strings.Join(missing, ", "))
	}
	var out strings.Builder
	length := 0
	write := func(s string) {
		if length += utf8.RuneCountInString(s); length <= maxContent {
			out.WriteString(s)
		}
	}
	for i, place := range t.places {
		write(t.literals[i])
		write(values[place])
	}
	write(t.literals[len(t.places)])
	switch {
	case length > maxContent:
		return "", fault.InvalidField("content", fault.RenderedTooLong, fault.Lengths{Has: int64(length), Most: maxContent})
	case strings.TrimSpace(out.String()) == "":
		return "", fault.InvalidField("content", fault.RenderedBlank, nil)
	}
	return out.String(), nil
}
