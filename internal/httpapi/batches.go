package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/task"
)

// batch is an operation that takes many of what another takes one of. Each item has its own outcome, so the validator lets
// items through that keep to the types of the contract, and the rest of it is checked item by item.
type batch struct {
	field string           // of the body: the list
	item  *openapi3.Schema // what one must be
}

// relax takes from the contract of a batch what is each item's own business, and returns it.
func relax(spec *openapi3.T, path, field string) batch {
	list := spec.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties[field].Value
	item := list.Items.Value
	loose := &openapi3.Schema{Type: item.Type, Properties: openapi3.Schemas{}}
	for name, property := range item.Properties {
		p := property.Value
		loose.Properties[name] = &openapi3.SchemaRef{Value: &openapi3.Schema{Type: p.Type, Format: p.Format, Nullable: p.Nullable}}
	}
	list.Items = &openapi3.SchemaRef{Value: loose}
	return batch{field: field, item: item}
}

// items returns each item as it was sent, and what is wrong with it by the contract, if anything is.
func (b batch) items(body []byte) ([]json.RawMessage, []error, error) {
	var lists map[string][]json.RawMessage
	if err := json.Unmarshal(body, &lists); err != nil {
		return nil, nil, fmt.Errorf("split batch: %w", err)
	}
	raw := lists[b.field]
	wrong := make([]error, len(raw))
	for i, item := range raw {
		wrong[i] = b.check(item)
	}
	return raw, wrong, nil
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
		return nil
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	for _, e := range flatten(err) {
		var schema *openapi3.SchemaError
		if !errors.As(e, &schema) {
			return err
		}
		all.Fields = append(all.Fields, schemaField("body", true, schema))
	}
	return sorted(all)
}

// SendSmsBatch accepts many messages.
func (s *Server) SendSmsBatch(ctx context.Context, req api.SendSmsBatchRequestObject) (api.SendSmsBatchResponseObject, error) {
	x := exchangeOf(ctx)
	raw, wrong, err := s.contract.sends.items(x.body)
	if err != nil {
		return nil, err
	}
	var good []task.Submission
	var places []int
	for i, m := range req.Body.Messages {
		if wrong[i] == nil {
			good, places = append(good, submissionOf(m, raw[i])), append(places, i)
		}
	}
	outcomes, err := s.tasks.SubmitAll(ctx, good, x.origin)
	if err != nil {
		return nil, err
	}
	data := api.SentBatch{Items: make([]api.SentItem, len(raw))}
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
	for i := range data.Items {
		if wrong[i] == nil {
			continue
		}
		item, f := &data.Items[i], s.told(ctx, wrong[i])
		item.Code, item.Message, item.Error = x.text.tell(f)
		data.Refused++
		if ours(f.Kind) {
			continue
		}
		answer, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("write answer for the log: %w", err)
		}
		if !x.inTransaction {
			s.storeRefusal(ctx, raw[i], refusal{item.Code, answer})
		} else if err := s.tasks.LogRefused(ctx, raw[i], x.origin, item.Code, answer); err != nil {
			return nil, err
		}
	}
	x.note("accepted", data.Accepted, "refused", data.Refused)
	return api.SendSmsBatch200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

// ReportTasks takes the outcomes of many tasks.
func (s *Server) ReportTasks(ctx context.Context, req api.ReportTasksRequestObject) (api.ReportTasksResponseObject, error) {
	x := exchangeOf(ctx)
	raw, wrong, err := s.contract.reports.items(x.body)
	if err != nil {
		return nil, err
	}
	var good []task.Report
	var places []int
	for i, r := range req.Body.Reports {
		if wrong[i] == nil {
			wrong[i] = s.requireApp(ctx, r.AppID)
		}
		if wrong[i] == nil {
			good, places = append(good, reportOf(r, raw[i])), append(places, i)
		}
	}
	outcomes, err := s.tasks.ReportAll(ctx, good)
	if err != nil {
		return nil, err
	}
	data := api.ReportedBatch{Items: make([]api.ReportedItem, len(raw))}
	for i, r := range req.Body.Reports {
		if r.TaskID != "" {
			data.Items[i].TaskID = &r.TaskID
		}
	}
	for j, o := range outcomes {
		item := &data.Items[places[j]]
		wrong[places[j]] = o.Err
		if o.Effect != "" {
			effect := api.ReportEffect(o.Effect)
			item.Effect = &effect
		}
	}
	for i := range data.Items {
		item := &data.Items[i]
		if wrong[i] == nil {
			item.Code = ok
			data.Accepted++
			continue
		}
		item.Code, item.Message, item.Error = x.text.tell(s.told(ctx, wrong[i]))
		data.Refused++
	}
	x.note("accepted", data.Accepted, "refused", data.Refused)
	return api.ReportTasks200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

// tell is a failure inside an answer that is a success as a whole.
func (c *catalogue) tell(f *fault.Error) (code int, message *string, detail *api.ErrorDetail) {
	text, d := c.reason(f.Reason), c.detail(f)
	return statuses[f.Kind], &text, &d
}
