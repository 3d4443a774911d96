package httpapi

import (
	"context"
	"encoding/json"
	"fmt"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
	"lksms/internal/transport/inbound"
)

// PostInbound makes messages of what another program posts (B16).
func (s *Server) PostInbound(ctx context.Context, req api.PostInboundRequestObject) (api.PostInboundResponseObject, error) {
	x := gate.Of(ctx)
	submit := s.inbounds.Post
	if x.DryRun {
		submit = s.inbounds.Preview
	}
	messages, refusal := submit(ctx, req.InboundNo, x.Body.Value, x.Origin)
	data := api.InboundPosted{Items: make([]api.InboundItem, len(messages))}
	var refused []queue.Refused
	toFault := s.gate.ToFaults(ctx)
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
		refused = append(refused, queue.Refused{Raw: m.Raw, Status: item.Code, Answer: answer})
	}
	if !x.DryRun {
		if err := s.logRefused(ctx, refused); err != nil {
			return nil, err
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	x.Note("accepted", data.Accepted, "refused", data.Refused)
	return api.PostInbound200JSONResponse{Code: ok, Message: success, Data: data}, nil
}

// inboundItemOf is the answer for a message that was accepted.
func inboundItemOf(m inbound.Message) api.InboundItem {
	item := api.InboundItem{Code: ok, PhoneNumber: m.PhoneNumber}
	recipient := m.Made.Recipient
	switch {
	case m.Err != nil:
	case m.Preview != nil:
		item.FinalContent, item.Segments, item.Verdict = &m.Preview.Final, &m.Preview.Segments, new(api.InboundItemVerdict(m.Preview.Verdict))
		recipient = m.Preview.Recipient
	case m.Made.TaskID == "": // it was dropped from the history
		item.Deduplicated = new(true)
	default:
		item.TaskID, item.Status, item.FinalContent = &m.Made.TaskID, new(api.TaskStatus(m.Made.Status)), &m.Made.FinalContent
		item.Deduplicated = optional.NonZero(m.Made.Deduplicated)
	}
	item.Recipient, item.Region = optional.NonZero(recipient), optional.NonZero(phone.Region(recipient))
	return item
}

// CreateInbound adds an inbound.
func (s *Server) CreateInbound(ctx context.Context, req api.CreateInboundRequestObject) (api.CreateInboundResponseObject, error) {
	b := req.Body
	to := inbound.Settings{
		Preset: string(b.Preset), PhoneNumbers: optional.Value(b.PhoneNumbers), MessageType: inbound.MessageType(string(b.Preset)), Priority: b.Priority,
		TemplateNo: b.TemplateNo, Sign: b.Sign, RepeatSeconds: b.RepeatSeconds, IsTest: optional.Value(b.Test),
		Status: string(optional.Or(b.Status, api.StatusOn)),
	}
	if b.MessageType != nil {
		to.MessageType = messageType(b.MessageType)
	}
	if b.Description != nil {
		to.Description = descriptionOf(*b.Description)
	}
	row, err := s.inbounds.Create(ctx, b.InboundNo, b.CompanyNo, to)
	answer, err := inboundAnswer(row, err)
	return api.CreateInbound200JSONResponse(answer), err
}

// ListInbounds pages through inbounds, newest first.
func (s *Server) ListInbounds(ctx context.Context, req api.ListInboundsRequestObject) (api.ListInboundsResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.inbounds.List(ctx, ownCompany(ctx), before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, inboundOf, func(r dbq.InboundListRow) string { return paging.IDText(r.ID) })
	return api.ListInbounds200JSONResponse{Code: ok, Message: success, Data: api.InboundPage{Items: items, NextCursor: next}}, err
}

// GetInbound shows one inbound.
func (s *Server) GetInbound(ctx context.Context, req api.GetInboundRequestObject) (api.GetInboundResponseObject, error) {
	answer, err := inboundAnswer(s.inbounds.Get(ctx, ownCompany(ctx), req.InboundNo))
	return api.GetInbound200JSONResponse(answer), err
}

// UpdateInbound changes an inbound.
func (s *Server) UpdateInbound(ctx context.Context, req api.UpdateInboundRequestObject) (api.UpdateInboundResponseObject, error) {
	p := req.Body
	answer, err := inboundAnswer(s.inbounds.Update(ctx, req.InboundNo, p.Version, func(to *inbound.Settings) {
		set(&to.Preset, (*string)(p.Preset))
		if p.Description.IsSpecified() {
			to.Description = nil
			if description := given(p.Description); description != nil {
				to.Description = descriptionOf(*description)
			}
		}
		if p.PhoneNumbers.IsSpecified() {
			to.PhoneNumbers = optional.Value(given(p.PhoneNumbers))
		}
		if p.MessageType != nil {
			to.MessageType = messageType(p.MessageType)
		}
		setNullable(&to.Priority, p.Priority)
		setNullable(&to.TemplateNo, p.TemplateNo)
		setNullable(&to.Sign, p.Sign)
		setNullable(&to.RepeatSeconds, p.RepeatSeconds)
		set(&to.IsTest, p.Test)
		set(&to.Status, (*string)(p.Status))
	}))
	return api.UpdateInbound200JSONResponse(answer), err
}

// DeleteInbound removes an inbound.
func (s *Server) DeleteInbound(ctx context.Context, req api.DeleteInboundRequestObject) (api.DeleteInboundResponseObject, error) {
	err := s.inbounds.Delete(ctx, req.InboundNo)
	return api.DeleteInbound200JSONResponse{DoneJSONResponse: done()}, err
}

func descriptionOf(d api.InboundDescription) *inbound.Description {
	return &inbound.Description{
		Expect: optional.Value(d.Expect), Number: d.Number, International: d.International, Text: optional.Value(d.Text),
		Params: optional.Value(d.Params), Dedup: optional.Value(d.Dedup),
	}
}

// shownDescription is the answer for a description.
func shownDescription(d inbound.Description) *api.InboundDescription {
	shown := &api.InboundDescription{Number: d.Number, International: d.International, Text: listOf(d.Text), Dedup: listOf(d.Dedup)}
	if d.Expect != nil {
		shown.Expect = &d.Expect
	}
	if d.Params != nil {
		shown.Params = &d.Params
	}
	return shown
}

// inboundAnswer is the answer with an inbound, or the error of reading or changing it.
func inboundAnswer(row dbq.InboundListRow, err error) (api.InboundResponse, error) {
	if err != nil {
		return api.InboundResponse{}, err
	}
	one, err := inboundOf(row)
	return api.InboundResponse{Code: ok, Message: success, Data: one}, err
}

func inboundOf(row dbq.InboundListRow) (api.Inbound, error) {
	effective, err := inbound.Effective(row.Preset, row.Description)
	if err != nil {
		return api.Inbound{}, err
	}
	one := api.Inbound{
		InboundNo: row.InboundNo, CompanyNo: row.CompanyNo, Preset: api.InboundPreset(row.Preset), EffectiveDescription: shownDescription(effective),
		PhoneNumbers: listOf(row.PhoneNumbers), MessageType: messageTypes[row.MessageType], Priority: row.Priority, TemplateNo: row.TemplateNo,
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
