package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/replyrule"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// ListReplyRules lists the rules of a company, in the order in which they are tried.
func (h *Handlers) ListReplyRules(ctx context.Context, req api.ListReplyRulesRequestObject) (api.ListReplyRulesResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.ReplyRules.List(ctx, company)
	return api.ListReplyRules200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ReplyRuleList{Items: convert.List(rows, replyRuleOf)}}, err
}

// CreateReplyRule adds a rule.
func (h *Handlers) CreateReplyRule(ctx context.Context, req api.CreateReplyRuleRequestObject) (api.CreateReplyRuleResponseObject, error) {
	body := req.Body
	company, err := h.scope.CompanyID(ctx, body.CompanyNo)
	if err != nil {
		return nil, err
	}
	if err := h.checkWebhook(ctx, company, body.WebhookID); err != nil {
		return nil, err
	}
	row, err := h.services.ReplyRules.Create(ctx, company, replyrule.Settings{
		Match: string(body.Match), Words: body.Words, Action: string(body.Action), Content: body.Content, TemplateNo: body.TemplateNo, Sign: body.Sign,
		Tag: body.Tag, PhoneNumbers: body.PhoneNumbers, WebhookID: body.WebhookID, Sort: optional.Value(body.Sort),
	})
	return api.CreateReplyRule200JSONResponse(replyRuleAnswer(row)), err
}

// UpdateReplyRule changes a rule.
func (h *Handlers) UpdateReplyRule(ctx context.Context, req api.UpdateReplyRuleRequestObject) (api.UpdateReplyRuleResponseObject, error) {
	p, own := req.Body, caller.OwnCompany(ctx)
	if id := convert.Given(p.WebhookID); id != nil {
		was, err := h.services.ReplyRules.Get(ctx, own, req.RuleNo)
		if err != nil {
			return nil, err
		}
		if err := h.checkWebhook(ctx, was.CompanyID, id); err != nil {
			return nil, err
		}
	}
	row, err := h.services.ReplyRules.Update(ctx, own, req.RuleNo, p.Version, func(to *replyrule.Settings) {
		convert.Set(&to.Match, (*string)(p.Match))
		convert.Set(&to.Words, p.Words)
		convert.Set(&to.Action, (*string)(p.Action))
		convert.SetNullable(&to.Content, p.Content)
		convert.SetNullable(&to.TemplateNo, p.TemplateNo)
		convert.SetNullable(&to.Sign, p.Sign)
		convert.SetNullable(&to.Tag, p.Tag)
		convert.SetNullable(&to.PhoneNumbers, p.PhoneNumbers)
		convert.SetNullable(&to.WebhookID, p.WebhookID)
		convert.Set(&to.Sort, p.Sort)
	})
	return api.UpdateReplyRule200JSONResponse(replyRuleAnswer(row)), err
}

// DeleteReplyRule deletes a rule.
func (h *Handlers) DeleteReplyRule(ctx context.Context, req api.DeleteReplyRuleRequestObject) (api.DeleteReplyRuleResponseObject, error) {
	err := h.services.ReplyRules.Delete(ctx, caller.OwnCompany(ctx), req.RuleNo)
	return api.DeleteReplyRule200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// TryReplyRules returns the rule that a text would match, and does nothing.
func (h *Handlers) TryReplyRules(ctx context.Context, req api.TryReplyRulesRequestObject) (api.TryReplyRulesResponseObject, error) {
	company, err := h.scope.CompanyID(ctx, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	t, err := h.services.ReplyRules.Try(ctx, company, req.Body.Content)
	data := api.ReplyTrial{Kind: api.ReceivedKind(t.Kind), Content: t.Content, Skipped: optional.NonZero(t.Skipped)}
	if t.Rule != nil {
		data.Rule = new(replyRuleOf(*t.Rule))
	}
	return api.TryReplyRules200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// checkWebhook returns the fault request.invalid if the caller cannot read a webhook, or if the webhook gets no events of the company. A nil id is accepted.
func (h *Handlers) checkWebhook(ctx context.Context, company int64, id *int64) error {
	if id == nil {
		return nil
	}
	var user *string
	if who := gate.Of(ctx).Caller.User; who.Role != access.RoleAdmin {
		user = &who.Username
	}
	w, err := h.services.Webhooks.Get(ctx, user, *id)
	none := fault.InvalidField("webhook_id", fault.NotThere, nil)
	switch {
	case fault.Is(err, fault.WebhookNotFound):
		return none
	case err == nil && w.CompanyID != nil && *w.CompanyID != company:
		return none
	default:
		return err
	}
}

func replyRuleAnswer(r replyrule.Row) api.ReplyRuleResponse {
	return api.ReplyRuleResponse{Code: convert.OK, Message: convert.Success, Data: replyRuleOf(r)}
}

func replyRuleOf(r replyrule.Row) api.ReplyRule {
	one := api.ReplyRule{
		RuleNo: r.ID, CompanyNo: r.CompanyNo, Match: api.ReplyMatch(r.Match), Words: r.Words, Action: api.ReplyAction(r.Action), Content: r.Content,
		TemplateNo: r.TemplateNo, Sign: r.Sign, Tag: r.Tag, WebhookID: r.WebhookID, Sort: r.Sort, Version: r.Version, CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt,
	}
	if r.PhoneNumbers != nil {
		one.PhoneNumbers = &r.PhoneNumbers
	}
	return one
}
