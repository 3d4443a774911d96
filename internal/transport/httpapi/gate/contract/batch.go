package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/text"
	"lksms/internal/transport/httpapi/violation"
)

// Batch is an operation on a list of items, each with its own outcome. The validator accepts any object as an item. Check then applies the contract to each
// item.
type Batch struct {
	field    string                  // name of the list in the body
	maxItems uint64                  // maximum number of items
	item     *openapi3.Schema        // schema of an item
	accepts  accepter                // of item
	decode   func(text []byte) error // decodes an item into its generated type
}

// Item is one item of a batch.
type Item struct {
	Raw   json.RawMessage // original form
	Plain json.RawMessage // converted so that the generated type can decode the item
	Wrong error           // reason why the contract rejects the item; nil: the item is valid
}

// acceptAnyItems changes the contract so that a batch accepts any object as an item, and returns the Batch. Item is the generated type of an item.
func acceptAnyItems[Item any](spec *openapi3.T, path, field string) Batch {
	list := spec.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties[field].Value
	b := batchOf(list.Items.Value)
	b.field, b.maxItems, b.decode = field, *list.MaxItems, func(text []byte) error { return json.Unmarshal(text, new(Item)) }
	list.Items = &openapi3.SchemaRef{Value: openapi3.NewObjectSchema()}
	return b
}

func batchOf(item *openapi3.Schema) Batch { return Batch{item: item, accepts: accepterOf(item)} }

// Parse parses body.Plain into body.Value, as jsonbody.Parse does. It then checks and returns the items of the body, or nil if the body does not contain the
// list. It replaces invalid items by {} in body.Value and body.Plain, because the generated type cannot decode a body with a value of the wrong type. Fault:
// request.invalid if the list is too long.
func (b Batch) Parse(body *JSON) ([]Item, error) {
	value, wrong, without, err := jsonbody.ParseItems(body.Plain, b.field)
	if err != nil {
		return nil, err //nolint:wrapcheck // a fault, or ErrNotJSON
	}
	raw := body.Raw
	body.Value, body.Plain = value, without
	members, _ := value.(map[string]any)
	values, _ := members[b.field].([]any)
	if uint64(len(values)) > b.maxItems {
		return nil, fault.InvalidField(b.field, fault.TooManyItems, b.maxItems)
	}
	if len(values) == 0 {
		return nil, nil
	}
	raws := jsonbody.Items(raw, b.field)
	plain := raws // the same items, with numbers such as 1.0 converted to 1
	if !bytes.Equal(body.Plain, raw) {
		plain = jsonbody.Items(body.Plain, b.field)
	}
	items, isWrong := make([]Item, len(values)), false
	for i, value := range values {
		items[i] = Item{Raw: raws[i], Plain: plain[i], Wrong: wrong[i]}
		switch _, isObject := value.(map[string]any); {
		case items[i].Wrong != nil:
			items[i].Plain = raws[i] // plain[i] is {}
		case isObject:
			items[i].Wrong = b.check(value, plain[i])
		default: // the item has no fields that the fault could name
			items[i].Wrong = fault.InvalidField(fmt.Sprintf("%s.%d", b.field, i), fault.WrongType, "object")
		}
		if items[i].Wrong != nil {
			values[i], plain[i], isWrong = map[string]any{}, json.RawMessage("{}"), true
		}
	}
	if !isWrong {
		return items, nil
	}
	members[b.field] = plain
	text, err := json.Marshal(members)
	members[b.field] = values
	if err != nil {
		return nil, fmt.Errorf("write body without wrong items: %w", err)
	}
	body.Plain = text
	return items, nil
}

// Check checks an item against the contract. Its error is a fault if the contract rejects the item.
func (b Batch) Check(item []byte) error {
	value, err := jsonbody.Parse(item)
	if err != nil {
		return fmt.Errorf("read item: %w", err)
	}
	return b.check(value, item)
}

// check works like Check for an item that was already parsed.
func (b Batch) check(value any, item []byte) error {
	var err error
	if !b.accepts(value) {
		err = violation.OfRequest(nil, b.item.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest()))
	}
	if err == nil {
		if b.decode == nil || !jsonbody.HasNumber(item, jsonbody.IsLong) {
			return nil
		}
		return violation.OfDecoding(b.decode(item))
	}
	if all := new(fault.Error); errors.As(err, &all) {
		all.Fields = all.Fields[:min(len(all.Fields), text.MaxItemFields)]
	}
	return err
}

// TaskID returns the task_id of an item. It returns nil if the task_id is missing or invalid.
func (b Batch) TaskID(item []byte) *string {
	var named struct {
		TaskID *string `json:"task_id"`
	}
	if json.Unmarshal(item, &named) != nil || named.TaskID == nil || b.item.Properties["task_id"].Value.VisitJSON(*named.TaskID) != nil {
		return nil
	}
	return named.TaskID
}
