package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/fault"
	"lksms/internal/httpapi/jsonbody"
	"lksms/internal/httpapi/text"
	"lksms/internal/httpapi/violation"
)

// Batch is an operation that takes a list of items. Each item has its own outcome. So the validator accepts any object as an item,
// and Check applies the contract to each item.
type Batch struct {
	field  string                  // name of the list in the body
	most   uint64                  // maximum number of items
	item   *openapi3.Schema        // schema of an item
	decode func(text []byte) error // decodes an item into its generated type
}

// Item is one item of a batch.
type Item struct {
	Raw   json.RawMessage // as it was sent
	Plain json.RawMessage // in the form that the generated type can read
	Wrong error           // why the contract rejects the item; nil: it is valid
}

// relax makes the contract of a batch accept any object as an item, and returns the Batch. Item is the generated type of an item.
func relax[Item any](spec *openapi3.T, path, field string) Batch {
	list := spec.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties[field].Value
	b := Batch{field: field, item: list.Items.Value, most: *list.MaxItems, decode: func(text []byte) error { return json.Unmarshal(text, new(Item)) }}
	list.Items = &openapi3.SchemaRef{Value: openapi3.NewObjectSchema()}
	return b
}

// items returns the checked items of a body; none if the body has no such list. Fault: request.invalid if the list is too long.
func (b Batch) items(raw, plain []byte) ([]Item, error) {
	plainItems := b.split(plain)
	if uint64(len(plainItems)) > b.most {
		return nil, fault.InvalidField(b.field, fault.TooManyItems, b.most)
	}
	rawItems := plainItems
	if !bytes.Equal(raw, plain) {
		rawItems = b.split(raw) // the same items, with numbers as they were sent
	}
	items := make([]Item, len(plainItems))
	for i, text := range plainItems {
		items[i] = Item{Raw: rawItems[i], Plain: text, Wrong: b.Check(text)}
	}
	return items, nil
}

func (b Batch) split(body []byte) []json.RawMessage {
	var members map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members[b.field], &list) != nil {
		return nil
	}
	return list
}

// typed returns the body with {} instead of each wrong item: with one wrong value, the generated type could not read the body.
func (b Batch) typed(body []byte, items []Item) []byte {
	if !slices.ContainsFunc(items, func(one Item) bool { return one.Wrong != nil }) {
		return body
	}
	list := make([]json.RawMessage, len(items))
	for i, one := range items {
		list[i] = one.Plain
		if one.Wrong != nil {
			list[i] = json.RawMessage("{}")
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return body
	}
	text, err := json.Marshal(list)
	if err != nil {
		return body
	}
	members[b.field] = text
	if text, err = json.Marshal(members); err != nil {
		return body
	}
	return text
}

// Check checks an item against the contract. Its error is a fault if the contract rejects the item.
func (b Batch) Check(item []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(item))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("read item of batch: %w", err)
	}
	err := b.item.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest())
	if err == nil {
		if b.decode == nil || !jsonbody.HasNumber(item, jsonbody.IsLong) {
			return nil
		}
		return undecoded(b.decode(item))
	}
	err = violation.OfBody(err)
	if all := new(fault.Error); errors.As(err, &all) {
		all.Fields = all.Fields[:min(len(all.Fields), text.ItemFieldsMost)]
	}
	return err
}

// TaskID returns the task_id of an item, nil if the item has no valid one.
func (b Batch) TaskID(item []byte) *string {
	var named struct {
		TaskID *string `json:"task_id"`
	}
	if json.Unmarshal(item, &named) != nil || named.TaskID == nil || b.item.Properties["task_id"].Value.VisitJSON(*named.TaskID) != nil {
		return nil
	}
	return named.TaskID
}
