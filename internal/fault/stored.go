package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// stored is a field of a fault as it is stored.
type stored struct {
	Name  string `json:"name"`
	Rule  Rule   `json:"rule"`
	Limit any    `json:"limit,omitempty"`
	Place *Place `json:"place,omitempty"` // the limit, if it is one
}

// Encode returns the first field of a fault as JSON, for a row that says later what was wrong.
func (e *Error) Encode() []byte {
	one := e.Fields[0]
	s := stored{Name: one.Name, Rule: one.Rule, Limit: one.Limit}
	if place, is := one.Limit.(Place); is {
		s.Limit, s.Place = nil, &place
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers
	}
	return text
}

// Decode returns the fault that Encode wrote.
func Decode(text []byte) (*Error, error) {
	var s stored
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("read stored fault: %w", err)
	}
	if s.Place != nil {
		s.Limit = *s.Place
	}
	return InvalidField(s.Name, s.Rule, s.Limit), nil
}
