package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/queue"
)

// batch is an operation that takes many of what another takes one of. Each item has its own outcome, so the validator lets any
// object through as an item, and what the contract says of one is checked item by item.
type batch struct {
	field  string                  // of the body: the list
	most   uint64                  // items
	item   *openapi3.Schema        // what one must be
	decode func(text []byte) error // into its generated type
}

// item is one of a batch.
type item struct {
	raw   json.RawMessage // as it was sent
	plain json.RawMessage // as the generated type reads it
	wrong error           // by the contract; nil: nothing
}

// relax takes from the contract of a batch what is each item's own business, and returns it. Item is the generated type of one.
func relax[Item any](spec *openapi3.T, path, field string) batch {
	list := spec.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties[field].Value
	b := batch{field: field, item: list.Items.Value, most: *list.MaxItems, decode: func(text []byte) error { return json.Unmarshal(text, new(Item)) }}
	list.Items = &openapi3.SchemaRef{Value: openapi3.NewObjectSchema()}
	return b
}

// items are those of a batch, each with what is wrong with it; none if the body has no such list. Fault: request.invalid for too long
// a list.
func (b batch) items(raw, plain []byte) ([]item, error) {
	plainItems := b.split(plain)
	if uint64(len(plainItems)) > b.most {
		return nil, fault.InvalidField(b.field, fault.TooManyItems, b.most)
	}
	rawItems := plainItems
	if !bytes.Equal(raw, plain) {
		rawItems = b.split(raw) // as many: they differ in how numbers are written
	}
	items := make([]item, len(plainItems))
	for i, text := range plainItems {
		items[i] = item{raw: rawItems[i], plain: text, wrong: b.check(text)}
	}
	return items, nil
}

func (b batch) split(body []byte) []json.RawMessage {
	var members map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members[b.field], &list) != nil {
		return nil
	}
	return list
}

// typed is the body of a batch as the generated type can read it, with nothing where an item is wrong: one bad value would refuse all.
func (b batch) typed(body []byte, items []item) []byte {
	if !slices.ContainsFunc(items, func(one item) bool { return one.wrong != nil }) {
		return body
	}
	list := make([]json.RawMessage, len(items))
	for i, one := range items {
		list[i] = one.plain
		if one.wrong != nil {
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

// check tells what is wrong with an item by the contract.
func (b batch) check(item []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(item))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("read item of batch: %w", err)
	}
	err := b.item.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest())
	if err == nil {
		if b.decode == nil || !hasNumber(item, isLong) {
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
	all.Fields = all.Fields[:min(len(all.Fields), itemFieldsMost)]
	return all
}

// SendSmsBatch accepts many messages.
func (s *Server) SendSmsBatch(ctx context.Context, req api.SendSmsBatchRequestObject) (api.SendSmsBatchResponseObject, error) {
	x := exchangeOf(ctx)
	wrong := wrongOf(x.items)
	var good []queue.Submission
	var places []int
	for i, m := range req.Body.Messages {
		if wrong[i] == nil {
			good, places = append(good, submissionOf(m, x.items[i].raw)), append(places, i)
		}
	}
	outcomes, err := s.tasks.SubmitAll(ctx, good, x.origin)
	if err != nil {
		return nil, err
	}
	data := api.SentBatch{Items: make([]api.SentItem, len(x.items))}
	for j, o := range outcomes {
		item := &data.Items[places[j]]
		if wrong[places[j]] = o.Err; o.Err != nil {
			continue
		}
		status := api.TaskStatus(o.Status)
		item.Code, item.TaskID, item.Status, item.FinalContent = ok, &o.TaskID, &status, &o.FinalContent
		if o.Deduplicated {
			item.Deduplicated = &o.Deduplicated
		}
		data.Accepted++
	}
	var refused []queue.Refused
	told := s.tellEach(ctx)
	for i := range data.Items {
		if wrong[i] == nil {
			continue
		}
		item, f := &data.Items[i], told(wrong[i])
		item.Code, item.Message, item.Error = x.text.tell(f)
		data.Refused++
		if ours(f.Kind) {
			continue
		}
		answer, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("write answer for the log: %w", err)
		}
		refused = append(refused, queue.Refused{Raw: x.items[i].raw, Status: item.Code, Answer: answer})
	}
	switch {
	case len(refused) == 0:
	case !x.inTransaction:
		s.storeRefusals(ctx, refused...)
	default:
		if err := s.tasks.LogRefused(ctx, x.origin, refused...); err != nil {
			return nil, err
		}
	}
	x.note("accepted", data.Accepted, "refused", data.Refused)
	return api.SendSmsBatch200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

func wrongOf(items []item) []error {
	return convert(items, func(one item) error { return one.wrong })
}

// taskID is what an item calls its task, if that can be the name of one.
func (b batch) taskID(item []byte) *string {
	var said struct {
		TaskID *string `json:"task_id"`
	}
	if json.Unmarshal(item, &said) != nil || said.TaskID == nil || b.item.Properties["task_id"].Value.VisitJSON(*said.TaskID) != nil {
		return nil
	}
	return said.TaskID
}

// ReportTasks takes the outcomes of many tasks.
func (s *Server) ReportTasks(ctx context.Context, req api.ReportTasksRequestObject) (api.ReportTasksResponseObject, error) {
	x, reports := exchangeOf(ctx), s.contract.batches["POST "+reportBatchPath]
	wrong := wrongOf(x.items)
	var good []queue.Report
	var places []int
	for i, r := range req.Body.Reports {
		if wrong[i] == nil {
			wrong[i] = s.requireApp(ctx, r.AppID)
		}
		if wrong[i] == nil {
			good, places = append(good, reportOf(r, x.items[i].raw)), append(places, i)
		}
	}
	outcomes, err := s.tasks.ReportAll(ctx, good)
	if err != nil {
		return nil, err
	}
	data := api.ReportedBatch{Items: make([]api.ReportedItem, len(x.items))}
	for i, one := range x.items {
		data.Items[i].TaskID = reports.taskID(one.plain)
	}
	for j, o := range outcomes {
		item := &data.Items[places[j]]
		wrong[places[j]] = o.Err
		if o.Effect != "" {
			effect := api.ReportEffect(o.Effect)
			item.Effect = &effect
		}
	}
	told := s.tellEach(ctx)
	for i := range data.Items {
		item := &data.Items[i]
		if wrong[i] == nil {
			item.Code = ok
			data.Accepted++
			continue
		}
		item.Code, item.Message, item.Error = x.text.tell(told(wrong[i]))
		data.Refused++
	}
	x.note("accepted", data.Accepted, "refused", data.Refused)
	return api.ReportTasks200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

// tell is a failure inside an answer that is a success as a whole.
func (c *catalogue) tell(f *fault.Error) (code int, message *string, detail *api.ErrorDetail) {
	text, d := c.reason(f), c.detail(f)
	return statuses[f.Kind], &text, &d
}
