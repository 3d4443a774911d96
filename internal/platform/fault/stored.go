package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// storedField is the stored form of a Field. The JSON type of Limit determines its Go type. An object with the members of Lengths is a Lengths. Any other
// object is a Place.
type storedField struct {
	Name  string          `json:"name"`
	Rule  Rule            `json:"rule"`
	Limit json.RawMessage `json:"limit,omitempty"`
	Place *Place          `json:"place,omitempty"` // earlier imports of contacts stored a Limit of type Place here
}

// Encode returns the stored form of a field. Its limit must be nil, a number, a string, a list of strings, a Place or a Lengths.
func Encode(f Field) ([]byte, error) {
	stored := storedField{Name: f.Name, Rule: f.Rule}
	var err error
	if f.Limit != nil {
		stored.Limit, err = json.Marshal(f.Limit)
	}
	if err != nil {
		return nil, fmt.Errorf("write limit of fault: %w", err)
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return nil, fmt.Errorf("write fault: %w", err)
	}
	return text, nil
}

// Decode parses a stored field. The limit has its original type, except that a whole number is an int64.
func Decode(text []byte) (f Field, err error) {
	var stored storedField
	if err := json.Unmarshal(text, &stored); err != nil {
		return f, fmt.Errorf("read fault: %w", err)
	}
	f = Field{Name: stored.Name, Rule: stored.Rule}
	if stored.Place != nil {
		f.Limit = *stored.Place
		return f, nil
	}
	f.Limit, err = decodeLimit(stored.Limit)
	return f, err
}

func decodeLimit(text json.RawMessage) (limit any, err error) {
	switch {
	case len(text) == 0:
		return nil, nil //nolint:nilnil // a rule without a limit
	case text[0] == '{':
		var members struct {
			Place

			Has *int64
		}
		if err := json.Unmarshal(text, &members); err != nil {
			return nil, fmt.Errorf("read limit of fault: %w", err)
		}
		if members.Has == nil {
			return members.Place, nil
		}
		return Lengths{Has: *members.Has, Most: int64(members.Most)}, nil
	case text[0] == '[':
		var list []string
		if json.Unmarshal(text, &list) == nil {
			return list, nil
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&limit); err != nil {
		return nil, fmt.Errorf("read limit of fault: %w", err)
	}
	if number, is := limit.(json.Number); is {
		if whole, err := number.Int64(); err == nil {
			return whole, nil
		}
	}
	return limit, nil
}
