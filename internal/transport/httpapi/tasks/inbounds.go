package tasks

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
	"lksms/internal/transport/inbound"
)

// PostInbound converts the post of another program to messages and submits them (B16).
func (h *Handlers) PostInbound(ctx context.Context, req api.PostInboundRequestObject) (api.PostInboundResponseObject, error) {
	x := gate.Of(ctx)
	post := h.services.Inbounds.Post
	if x.DryRun {
		post = h.services.Inbounds.Preview
	}
	messages, refusal := post(ctx, req.InboundNo, x.Body.Value, x.Origin)
	data := api.InboundPosted{Items: make([]api.InboundItem, len(messages))}
	var refused []submit.Refused
	toFault := h.services.Gate.ToFaults(ctx)
	for i, m := range messages {
		item := &data.Items[i]
		*item = inboundItemOf(m)
		if m.Err == nil {
			data.Accepted++
			continue
		}
		data.Refused++
		item.Code, item.Message, item.Error = gate.ItemError(x.Text, toFault(m.Err))
		answer, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("write answer for the log: %w", err)
		}
		refused = append(refused, submit.Refused{Raw: m.Raw, Status: item.Code, Answer: answer})
	}
	if !x.DryRun {
		if err := h.logRefused(ctx, refused); err != nil {
			return nil, err
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	x.AddToLog("accepted", data.Accepted, "refused", data.Refused)
	return api.PostInbound200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}

// inboundItemOf returns the item of the response for a message.
func inboundItemOf(m inbound.Message) api.InboundItem {
	item := api.InboundItem{Code: convert.OK, PhoneNumber: m.PhoneNumber}
	recipient := m.Made.Recipient
	switch {
	case m.Err != nil:
	case m.Preview != nil:
		item.FinalContent, item.Segments, item.Verdict = &m.Preview.Final, &m.Preview.Segments, new(api.InboundItemVerdict(m.Preview.Verdict))
		item.Reason, item.DueAt = optional.NonZero(api.DelayReason(m.Preview.Delay)), m.Preview.DueAt
		recipient = m.Preview.Recipient
	case m.Made.TaskID == "": // repeats a task that was dropped from the history
		item.Deduplicated = new(true)
	default:
		item.TaskID, item.Status, item.FinalContent = &m.Made.TaskID, new(api.TaskStatus(m.Made.Status)), &m.Made.FinalContent
		item.Deduplicated = optional.NonZero(m.Made.Deduplicated)
	}
	item.Recipient, item.Region = optional.NonZero(recipient), optional.NonZero(phone.Region(recipient))
	return item
}

// CreateInbound adds an inbound.
func (h *Handlers) CreateInbound(ctx context.Context, req api.CreateInboundRequestObject) (api.CreateInboundResponseObject, error) {
	b := req.Body
	to := inbound.Settings{
		Preset: string(b.Preset), PhoneNumbers: optional.Value(b.PhoneNumbers), MessageType: inbound.MessageType(string(b.Preset)), Priority: b.Priority,
		TemplateNo: b.TemplateNo, Sign: b.Sign, RepeatSeconds: b.RepeatSeconds, IsTest: optional.Value(b.Test),
		Status: string(optional.Or(b.Status, api.StatusOn)),
	}
	if b.MessageType != nil {
		to.MessageType = convert.MessageType(b.MessageType)
	}
	if b.Description != nil {
		to.Description = descriptionOf(*b.Description)
	}
	row, err := h.services.Inbounds.Create(ctx, b.InboundNo, b.CompanyNo, to)
	answer, err := inboundAnswer(row, err)
	return api.CreateInbound200JSONResponse(answer), err
}

// ListInbounds pages through inbounds, newest first.
func (h *Handlers) ListInbounds(ctx context.Context, req api.ListInboundsRequestObject) (api.ListInboundsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Inbounds.List(ctx, caller.OwnCompany(ctx), before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, inboundOf, func(r inbound.Row) string { return paging.IDText(r.ID) })
	return api.ListInbounds200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.InboundPage{Items: items, NextCursor: next}}, err
}

// GetInbound shows one inbound.
func (h *Handlers) GetInbound(ctx context.Context, req api.GetInboundRequestObject) (api.GetInboundResponseObject, error) {
	answer, err := inboundAnswer(h.services.Inbounds.Get(ctx, caller.OwnCompany(ctx), req.InboundNo))
	return api.GetInbound200JSONResponse(answer), err
}

// UpdateInbound changes an inbound.
func (h *Handlers) UpdateInbound(ctx context.Context, req api.UpdateInboundRequestObject) (api.UpdateInboundResponseObject, error) {
	p := req.Body
	answer, err := inboundAnswer(h.services.Inbounds.Update(ctx, req.InboundNo, p.Version, func(to *inbound.Settings) {
		convert.Set(&to.Preset, (*string)(p.Preset))
		if p.Description.IsSpecified() {
			to.Description = nil
			if description := convert.Given(p.Description); description != nil {
				to.Description = descriptionOf(*description)
			}
		}
		if p.PhoneNumbers.IsSpecified() {
			to.PhoneNumbers = optional.Value(convert.Given(p.PhoneNumbers))
		}
		if p.MessageType != nil {
			to.MessageType = convert.MessageType(p.MessageType)
		}
		convert.SetNullable(&to.Priority, p.Priority)
		convert.SetNullable(&to.TemplateNo, p.TemplateNo)
		convert.SetNullable(&to.Sign, p.Sign)
		convert.SetNullable(&to.RepeatSeconds, p.RepeatSeconds)
		convert.Set(&to.IsTest, p.Test)
		convert.Set(&to.Status, (*string)(p.Status))
	}))
	return api.UpdateInbound200JSONResponse(answer), err
}

// DeleteInbound removes an inbound.
func (h *Handlers) DeleteInbound(ctx context.Context, req api.DeleteInboundRequestObject) (api.DeleteInboundResponseObject, error) {
	err := h.services.Inbounds.Delete(ctx, req.InboundNo)
	return api.DeleteInbound200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func descriptionOf(d api.InboundDescription) *inbound.Description {
	return &inbound.Description{
		Expect: optional.Value(d.Expect), Number: d.Number, International: d.International, Text: optional.Value(d.Text),
		Params: optional.Value(d.Params), Dedup: optional.Value(d.Dedup),
	}
}

// shownDescription converts a description for a response.
func shownDescription(d inbound.Description) *api.InboundDescription {
	shown := &api.InboundDescription{Number: d.Number, International: d.International, Text: convert.OptionalList(d.Text), Dedup: convert.OptionalList(d.Dedup)}
	if d.Expect != nil {
		shown.Expect = &d.Expect
	}
	if d.Params != nil {
		shown.Params = &d.Params
	}
	return shown
}

// inboundAnswer returns the response with an inbound, or err if err is not nil.
func inboundAnswer(row inbound.Row, err error) (api.InboundResponse, error) {
	if err != nil {
		return api.InboundResponse{}, err
	}
	one, err := inboundOf(row)
	return api.InboundResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func inboundOf(row inbound.Row) (api.Inbound, error) {
	effective, err := inbound.Effective(row.Preset, row.Description)
	if err != nil {
		return api.Inbound{}, err
	}
	one := api.Inbound{
		InboundNo: row.InboundNo, CompanyNo: row.CompanyNo, Preset: api.InboundPreset(row.Preset), EffectiveDescription: shownDescription(effective),
		PhoneNumbers: convert.OptionalList(row.PhoneNumbers), MessageType: convert.MessageTypes[row.MessageType], Priority: row.Priority, TemplateNo: row.TemplateNo,
		Sign: row.Sign, RepeatSeconds: row.RepeatSeconds, Test: row.IsTest, Status: api.OnOff(row.Status), Version: row.Version,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.Description != nil {
		if err := json.Unmarshal(row.Description, &one.Description); err != nil {
			return one, fmt.Errorf("read description: %w", err)
		}
	}
	return one, nil
}
