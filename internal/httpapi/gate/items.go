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
)

// Batch is an operation that takes many of what another takes one of. Each item has its own outcome, so the validator lets any
// object through as an item, and what the contract says of one is checked item by item.
type Batch struct {
	field  string                  // of the body: the list
	most   uint64                  // items
	item   *openapi3.Schema        // what one must be
	decode func(text []byte) error // into its generated type
}

// Item is one of a batch.
type Item struct {
	Raw   json.RawMessage // as it was sent
	Plain json.RawMessage // as the generated type reads it
	Wrong error           // by the contract; nil: nothing
}

// relax takes from the contract of a batch what is each item's own business, and returns it. Item is the generated type of one.
func relax[Item any](spec *openapi3.T, path, field string) Batch {
	list := spec.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties[field].Value
	b := Batch{field: field, item: list.Items.Value, most: *list.MaxItems, decode: func(text []byte) error { return json.Unmarshal(text, new(Item)) }}
	list.Items = &openapi3.SchemaRef{Value: openapi3.NewObjectSchema()}
	return b
}

// items are those of a batch, each with what is wrong with it; none if the body has no such list. Fault: request.invalid for too long
// a list.
func (b Batch) items(raw, plain []byte) ([]Item, error) {
	plainItems := b.split(plain)
	if uint64(len(plainItems)) > b.most {
		return nil, fault.InvalidField(b.field, fault.TooManyItems, b.most)
	}
	rawItems := plainItems
	if !bytes.Equal(raw, plain) {
		rawItems = b.split(raw) // as many: they differ in how numbers are written
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

// typed is the body of a batch as the generated type can read it, with nothing where an item is wrong: one bad value would refuse all.
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

// Check tells what is wrong with an item by the contract.
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
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	for _, e := range flatten(err) {
		var schema *openapi3.SchemaError
		if !errors.As(e, &schema) {
			return err
		}
		all.Fields = append(all.Fields, schemaField("body", true, schema))
	}
	all = sorted(all)
	all.Fields = all.Fields[:min(len(all.Fields), text.ItemFieldsMost)]
	return all
}

// TaskID is what an item calls its task, if that can be the name of one.
func (b Batch) TaskID(item []byte) *string {
	var said struct {
		TaskID *string `json:"task_id"`
	}
	if json.Unmarshal(item, &said) != nil || said.TaskID == nil || b.item.Properties["task_id"].Value.VisitJSON(*said.TaskID) != nil {
		return nil
	}
	return said.TaskID
}
