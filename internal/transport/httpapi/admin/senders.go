package admin

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/api"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/paging"
)

// CreateSender adds a sender.
func (h *Handlers) CreateSender(ctx context.Context, req api.CreateSenderRequestObject) (api.CreateSenderResponseObject, error) {
	config, err := convert.SentObject(ctx, "config")
	if err != nil {
		return nil, err
	}
	limits := optional.Value(req.Body.Limits)
	kind := optional.Or(req.Body.Kind, sender.KindApp)
	status, isShared := startOf(kind)
	row, err := h.services.Senders.Create(ctx, sender.Params{
		SenderNo: req.Body.SenderNo, Name: req.Body.Name, Channel: optional.Or(req.Body.Channel, directory.SMS),
		Kind: kind, Status: string(optional.Or(req.Body.Status, status)),
		Sort: optional.Value(req.Body.Sort), IsShared: optional.Or(req.Body.IsShared, isShared), IntervalMs: optional.Value(req.Body.IntervalMs),
		PerMinute: limits.PerMinute, PerHour: limits.PerHour, PerDay: limits.PerDay, PerMonth: limits.PerMonth,
		TimeZone: optional.Or(req.Body.TimeZone, "Asia/Shanghai"), Hours: req.Body.Hours, LeaseSeconds: req.Body.LeaseSeconds, Sign: req.Body.Sign,
		SignMode:    string(optional.Or(req.Body.SignMode, api.SignInText)),
		SegmentSize: req.Body.SegmentSize, LowWarning: req.Body.LowWarning, LowSwitch: req.Body.LowSwitch, SegmentPrice: req.Body.SegmentPrice, InboxCompanyNo: req.Body.InboxCompanyNo, Config: config,
		OnUnclear: string(optional.Or(req.Body.OnUnclear, api.OnUnclearRetry)), Balance: req.Body.Balance, Username: gate.Of(ctx).Caller.User.Username,
	})
	answer, err := h.senderAnswer(row, err)
	return api.CreateSender200JSONResponse(answer), err
}

// startOf returns the initial status of a sender of a kind, and whether the sender is shared. A request can override both. A driven sender starts switched
// off: with a wrong configuration it would claim all waiting tasks and fail to send them.
func startOf(kind string) (status api.SenderStatus, isShared bool) {
	if kind == sender.KindApp {
		return api.SenderOn, true
	}
	return api.SenderOff, false
}

// ListSenders pages through senders, newest first.
func (h *Handlers) ListSenders(ctx context.Context, req api.ListSendersRequestObject) (api.ListSendersResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Senders.List(ctx, sender.Filter{CompanyID: caller.OwnCompany(ctx), Status: (*string)(req.Params.Status), Part: req.Params.Q}, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, h.senderOf, func(row sender.Row) string { return paging.IDText(row.ID) })
	for _, one := range items {
		hideCompanies(ctx, one)
	}
	return api.ListSenders200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.SenderPage{Items: items, NextCursor: next}}, err
}

// GetSender shows one sender.
func (h *Handlers) GetSender(ctx context.Context, req api.GetSenderRequestObject) (api.GetSenderResponseObject, error) {
	row, err := h.services.Senders.Get(ctx, caller.OwnCompany(ctx), req.SenderNo)
	answer, err := h.senderAnswer(row, err)
	hideCompanies(ctx, answer.Data)
	return api.GetSender200JSONResponse(answer), err
}

// hideCompanies removes the names of companies from the configuration of a sender if the caller belongs to a company: it must not learn which others exist.
func hideCompanies(ctx context.Context, one api.Sender) {
	if caller.OwnCompany(ctx) != nil {
		delete(one.Config, "extensions")
	}
}

// UpdateSender changes a sender.
func (h *Handlers) UpdateSender(ctx context.Context, req api.UpdateSenderRequestObject) (api.UpdateSenderResponseObject, error) {
	config, err := convert.SentObject(ctx, "config")
	if err != nil {
		return nil, err
	}
	p := req.Body
	row, err := h.services.Senders.Update(ctx, req.SenderNo, p.Version, gate.Of(ctx).Caller.User.Username, func(to *sender.Settings) {
		if kind := optional.Or(p.Kind, to.Kind); kind != to.Kind && kind != sender.KindApp { // the sender now belongs to another provider
			to.IsShared = false
			if to.Status == string(api.SenderOn) {
				to.Status = string(api.SenderOff)
			}
		}
		convert.Set(&to.Name, p.Name)
		convert.Set(&to.Kind, p.Kind)
		convert.Set(&to.Status, (*string)(p.Status))
		convert.Set(&to.Sort, p.Sort)
		convert.Set(&to.IsShared, p.IsShared)
		convert.Set(&to.IntervalMs, p.IntervalMs)
		limits := optional.Value(p.Limits)
		convert.SetNullable(&to.PerMinute, limits.PerMinute)
		convert.SetNullable(&to.PerHour, limits.PerHour)
		convert.SetNullable(&to.PerDay, limits.PerDay)
		convert.SetNullable(&to.PerMonth, limits.PerMonth)
		convert.Set(&to.TimeZone, p.TimeZone)
		convert.SetNullable(&to.Hours, p.Hours)
		convert.SetNullable(&to.LeaseSeconds, p.LeaseSeconds)
		convert.SetNullable(&to.Sign, p.Sign)
		convert.Set(&to.SignMode, (*string)(p.SignMode))
		convert.SetNullable(&to.SegmentSize, p.SegmentSize)
		convert.SetNullable(&to.LowWarning, p.LowWarning)
		convert.SetNullable(&to.LowSwitch, p.LowSwitch)
		convert.SetNullable(&to.SegmentPrice, p.SegmentPrice)
		convert.SetNullable(&to.InboxCompanyNo, p.InboxCompanyNo)
		convert.Set(&to.OnUnclear, (*string)(p.OnUnclear))
		to.Config = config
		to.IsMended = config != nil || p.Kind != nil || p.Status != nil
	})
	answer, err := h.senderAnswer(row, err)
	return api.UpdateSender200JSONResponse(answer), err
}

// DeleteSender removes a sender.
func (h *Handlers) DeleteSender(ctx context.Context, req api.DeleteSenderRequestObject) (api.DeleteSenderResponseObject, error) {
	err := h.services.Senders.Delete(ctx, req.SenderNo)
	return api.DeleteSender200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// ChangeBalance tops up or corrects a balance.
func (h *Handlers) ChangeBalance(ctx context.Context, req api.ChangeBalanceRequestObject) (api.ChangeBalanceResponseObject, error) {
	entry, err := h.services.Senders.ChangeBalance(ctx, req.SenderNo, req.Body.Change, convert.NonEmpty(req.Body.Remark), gate.Of(ctx).Caller.User.Username)
	return api.ChangeBalance200JSONResponse{Code: convert.OK, Message: convert.Success, Data: entryOf(entry)}, err
}

// ListLedger pages through the changes of a balance, newest first.
func (h *Handlers) ListLedger(ctx context.Context, req api.ListLedgerRequestObject) (api.ListLedgerResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Senders.Ledger(ctx, caller.OwnCompany(ctx), req.SenderNo, before, limit+1)
	items, next := paging.Page(rows, limit, entryOf, func(e sender.LedgerRow) string { return paging.IDText(e.ID) })
	return api.ListLedger200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.LedgerPage{Items: items, NextCursor: next}}, err
}

// senderAnswer returns the response with a sender, or err if err is not nil.
func (h *Handlers) senderAnswer(row sender.Row, err error) (api.SenderResponse, error) {
	if err != nil {
		return api.SenderResponse{}, err
	}
	one, err := h.senderOf(row)
	return api.SenderResponse{Code: convert.OK, Message: convert.Success, Data: one}, err
}

func (h *Handlers) senderOf(row sender.Row) (api.Sender, error) {
	one := api.Sender{
		SenderNo: row.SenderNo, Name: row.Name, Channel: row.Channel, Kind: row.Kind, Status: api.SenderStatus(row.Status), Sort: row.Sort,
		IsShared: row.IsShared, IntervalMs: row.IntervalMs,
		Limits: api.Limits{PerMinute: row.PerMinute, PerHour: row.PerHour, PerDay: row.PerDay, PerMonth: row.PerMonth},
		Used:   api.Used{Minute: row.MinuteUsed, Hour: row.HourUsed, Day: row.DayUsed, Month: row.MonthUsed}, TimeZone: row.TimeZone,
		Hours: row.Hours, LeaseSeconds: row.LeaseSeconds, Sign: row.Sign, SignMode: api.SignMode(row.SignMode), SegmentSize: row.SegmentSize,
		Balance: row.Balance, LowWarning: row.LowWarning,
		LowSwitch: row.LowSwitch, InboxCompanyNo: row.InboxCompanyNo, SegmentPrice: row.SegmentPrice, OnUnclear: api.OnUnclear(row.OnUnclear), IsReady: row.IsReady, IsSilent: &row.IsSilent, NextAvailableAt: row.NextAvailableAt, SeenAt: row.SeenAt, SentAt: row.SentAt,
		Attempts: row.Attempts, TotalSent: row.Succeeded, Unreported: &row.Unreported, Version: row.Version, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.Balance != nil {
		one.Consumed = new(row.Granted - *row.Balance)
	}
	if row.Openings > 0 {
		one.Pause = &api.SenderPause{State: api.PauseHalfOpen, Reason: optional.Value(row.RestReason), Until: optional.Value(row.RestUntil), Openings: row.Openings}
		if row.IsOpen {
			one.Pause.State = api.PauseOpen
		}
	}
	if reported := row.Succeeded + row.Failed; reported > 0 {
		one.AverageResponseMs = new(row.ResponseMs / reported)
	}
	if attempted := row.Succeeded + row.Failed + row.Unreported; attempted > 0 {
		rate := float64(row.Succeeded) / float64(attempted)
		one.SuccessRate, one.AttemptSuccessRate = &rate, &rate
	}
	if ended := row.Succeeded + row.FailedTasks; ended > 0 {
		one.TaskSuccessRate = new(float64(row.Succeeded) / float64(ended))
	}
	one.ConfigGaps = h.services.Configs.MissingFields(row.Kind, row.SenderNo, row.Config)
	config, err := h.services.Configs.Mask(row.Kind, row.SenderNo, row.Config)
	if err == nil {
		one.Config, err = jsonbody.Fields(config)
	}
	if err != nil {
		return one, fmt.Errorf("read config of sender: %w", err)
	}
	return one, nil
}

func entryOf(e sender.LedgerRow) api.LedgerEntry {
	return api.LedgerEntry{
		ID: e.ID, Change: e.Change, Balance: e.Balance, LeaseID: e.LeaseID, Remark: e.Remark, By: e.Username, CreatedAt: e.CreatedAt,
		LowWarning: e.LowWarning, LowSwitch: e.LowSwitch,
	}
}

// ListSenderAnswers shows the last responses of a sender's provider.
func (h *Handlers) ListSenderAnswers(ctx context.Context, req api.ListSenderAnswersRequestObject) (api.ListSenderAnswersResponseObject, error) {
	rows, err := h.services.Senders.Answers(ctx, req.SenderNo)
	return api.ListSenderAnswers200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, answerOf)}, err
}

func answerOf(a sender.Answer) api.SenderAnswer {
	return api.SenderAnswer{TaskID: a.TaskID, At: a.CreatedAt, Outcome: api.SenderOutcome(a.Outcome), Code: a.Code, Error: a.Error, Answer: a.Answer}
}

// ListSenderLinks shows the links of a sender to its carrier.
func (h *Handlers) ListSenderLinks(ctx context.Context, req api.ListSenderLinksRequestObject) (api.ListSenderLinksResponseObject, error) {
	rows, err := h.services.Senders.Links(ctx, req.SenderNo)
	return api.ListSenderLinks200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, func(l sender.Link) api.SenderLink {
		return api.SenderLink{
			Link: l.Nth, Host: l.Host, BoundAt: l.BoundAt, InFlight: l.InFlight, Sent: l.Sent, Received: l.Received, Error: l.Error, FailedAt: l.FailedAt,
		}
	})}, err
}

// GetSenderTrace shows the recorded PDUs of a sender's links.
func (h *Handlers) GetSenderTrace(ctx context.Context, req api.GetSenderTraceRequestObject) (api.GetSenderTraceResponseObject, error) {
	trace, err := h.services.Senders.Trace(ctx, req.SenderNo)
	return api.GetSenderTrace200JSONResponse{Code: convert.OK, Message: convert.Success, Data: traceOf(trace)}, err
}

// RecordSenderTrace records the PDUs of a sender's links for some minutes.
func (h *Handlers) RecordSenderTrace(ctx context.Context, req api.RecordSenderTraceRequestObject) (api.RecordSenderTraceResponseObject, error) {
	trace, err := h.services.Senders.Record(ctx, req.SenderNo, time.Duration(req.Body.Minutes)*time.Minute)
	return api.RecordSenderTrace200JSONResponse{Code: convert.OK, Message: convert.Success, Data: traceOf(trace)}, err
}

func traceOf(t sender.Trace) api.SenderTrace {
	return api.SenderTrace{TracedUntil: t.Until, Pdus: convert.List(t.PDUs, func(one sender.LinkPDU) api.SenderPDU {
		return api.SenderPDU{
			Link: one.Nth, At: one.At, IsSent: one.IsSent, Command: one.Command, Sequence: int64(one.Sequence), Status: optional.NonZero(one.Status), Text: optional.NonZero(one.Text),
		}
	})}
}

// TestSender sends one message through exactly one sender.
func (h *Handlers) TestSender(ctx context.Context, req api.TestSenderRequestObject) (api.TestSenderResponseObject, error) {
	trial, err := h.services.Pusher.Test(ctx, req.SenderNo, push.TrialMessage{
		PhoneNumber: req.Body.PhoneNumber, Content: req.Body.Content, Sign: optional.Value(req.Body.Sign),
	}, gate.Of(ctx).Origin)
	if err != nil {
		return nil, err
	}
	o := trial.Outcome
	made := api.SenderTested{
		TaskID: trial.TaskID, Outcome: api.SenderOutcome(o.Kind()), ProviderNo: optional.NonZero(o.ProviderNo), Code: optional.NonZero(o.Code),
		Error: optional.NonZero(o.Error), Answer: optional.NonZero(o.Answer), DurationMs: trial.Took.Milliseconds(),
	}
	if r := trial.Request; r != nil {
		made.Request = &api.ProviderRequest{Method: r.Method, URL: r.URL, Headers: r.Headers, Body: r.Body}
	}
	return api.TestSender200JSONResponse{Code: convert.OK, Message: convert.Success, Data: made}, nil
}

// ListSims shows the SIMs of a sender.
func (h *Handlers) ListSims(ctx context.Context, req api.ListSimsRequestObject) (api.ListSimsResponseObject, error) {
	rows, err := h.services.Senders.Sims(ctx, req.SenderNo)
	return api.ListSims200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, simOf)}, err
}

// ReplaceSims sets the SIMs of a sender.
func (h *Handlers) ReplaceSims(ctx context.Context, req api.ReplaceSimsRequestObject) (api.ReplaceSimsResponseObject, error) {
	sims := convert.List(req.Body.Sims, func(r api.SimRequest) sender.Sim {
		return sender.Sim{
			Slot: r.Slot, PhoneNumber: r.PhoneNumber, IsOn: optional.Or(r.IsOn, true),
			PerDay: r.PerDay, PerMonth: r.PerMonth, RecipientsPerMonth: r.RecipientsPerMonth,
		}
	})
	if err := h.services.Senders.PutSims(ctx, req.SenderNo, sims); err != nil {
		return nil, err
	}
	rows, err := h.services.Senders.Sims(ctx, req.SenderNo)
	return api.ReplaceSims200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, simOf)}, err
}

func simOf(r sender.SimRow) api.Sim {
	isZero := func(left *int64) bool { return left != nil && *left == 0 }
	return api.Sim{
		Slot: r.Slot, PhoneNumber: optional.NonZero(r.PhoneNumber), IsOn: r.IsOn, PerDay: r.PerDay, PerMonth: r.PerMonth,
		RecipientsPerMonth: r.RecipientsPerMonth, Used: api.SimUsed{Day: r.DayUsed, Month: r.MonthUsed, Recipients: r.RecipientsUsed},
		SegmentsLeft: r.SegmentsLeft, RecipientsLeft: r.RecipientsLeft, IsUsedUp: isZero(r.SegmentsLeft) || isZero(r.RecipientsLeft),
	}
}
