package template

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Params contains the values for the placeholders of a template that a submission chose by its number (S3.10). The values are given by name, or in the order
// in which the placeholders first appear.
type Params struct {
	named   map[string]string // by name in NFC
	inOrder []string          // nil: the values are named
}

// ParseParams parses params. params is either an object of texts and numbers, or a text of values separated by ;. A value that contains ; must be in an
// object. Missing JSON and null contain no values. All errors are faults of the field params.
func ParseParams(sent json.RawMessage) (Params, error) {
	sent = bytes.TrimSpace(sent)
	wrong := func(field string) error { return fault.InvalidField(field, fault.NothingElseIsKnown, nil) }
	switch {
	case len(sent) == 0 || string(sent) == "null":
		return Params{}, nil
	case sent[0] == '"':
		var joined string
		if json.Unmarshal(sent, &joined) != nil {
			return Params{}, wrong("params")
		}
		if !postgres.IsText(joined) {
			return Params{}, fault.InvalidField("params", fault.BadCharacters, nil)
		}
		return Params{inOrder: strings.Split(joined, ";")}, nil
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(sent))
	decoder.UseNumber() // a number keeps its original notation
	if decoder.Decode(&members) != nil {
		return Params{}, wrong("params")
	}
	p := Params{named: make(map[string]string, len(members))}
	for name, value := range members {
		var text string
		switch value := value.(type) {
		case string:
			text = value
		case json.Number:
			text = value.String()
		default:
			return Params{}, fault.InvalidField("params."+name, fault.WrongType, "string")
		}
		key := norm.NFC.String(name)
		if _, taken := p.named[key]; taken {
			return Params{}, fault.InvalidField("params."+name, fault.Duplicate, nil)
		}
		if !postgres.IsText(text) {
			return Params{}, fault.InvalidField("params."+name, fault.BadCharacters, nil)
		}
		p.named[key] = text
	}
	return p, nil
}

// valuesOf returns the values for placeholders. Each placeholder must have exactly one value, and no other value is allowed.
func (p Params) valuesOf(names []string) (map[string]string, error) {
	if p.inOrder != nil {
		values := p.inOrder
		if len(names) == 0 && slices.Equal(values, []string{""}) {
			values = nil
		}
		if len(values) != len(names) {
			return nil, fault.InvalidField("params", fault.WrongCount, joined(names))
		}
		named := make(map[string]string, len(names))
		for i, name := range names {
			named[name] = values[i]
		}
		return named, nil
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	var missing, unknown []string
	for _, name := range names {
		if _, ok := p.named[name]; !ok {
			missing = append(missing, name)
		}
	}
	for name := range p.named {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	if len(missing) > 0 {
		all.Fields = append(all.Fields, fault.Field{Name: "params", Rule: fault.MissingParameters, Limit: joined(missing)})
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		all.Fields = append(all.Fields, fault.Field{Name: "params", Rule: fault.UnknownParameters, Limit: joined(unknown)})
	}
	if len(all.Fields) > 0 {
		return nil, all
	}
	return p.named, nil
}

// maxNames is the maximum number of characters of names in an error.
const maxNames = 500

// joined lists names for an error.
func joined(names []string) string {
	return segment.Shortened(strings.Join(names, ", "), maxNames)
}

// parseForm parses a form body as browsers write it (S0.8): + is a space, %XX is UTF-8, and the first of two equal names counts. It splits pairs at & only, so
// that ; is text. url.ParseQuery would reject the whole body because of a ;.
func parseForm(form string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(form, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := unescape(rawName)
		if err != nil {
			return nil, err
		}
		name = norm.NFC.String(name)
		value, err := unescape(rawValue)
		if err != nil {
			return nil, err
		}
		if _, taken := values[name]; !taken {
			values[name] = value
		}
	}
	return values, nil
}

func unescape(s string) (string, error) {
	text, err := url.QueryUnescape(s)
	if err != nil || !postgres.IsText(text) {
		return "", fault.InvalidField("content", fault.NotFormEncoded, nil)
	}
	return text, nil
}
