package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/paging"
)

// ListConversations pages through conversations. The conversation with the newest received message is first.
func (h *Handlers) ListConversations(ctx context.Context, req api.ListConversationsRequestObject) (api.ListConversationsResponseObject, error) {
	p := req.Params
	before, err := paging.ParseID(p.Cursor)
	if err != nil {
		return nil, err
	}
	if err := h.scope.RequireSender(ctx, p.SenderNo); err != nil {
		return nil, err
	}
	viewer := caller.Viewer(ctx)
	if p.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return nil, err
		}
		viewer.CompanyID = &company
	}
	page, err := h.services.Conversations.List(ctx, conversation.Filter{
		Viewer: viewer, Unread: p.Unread, SenderNo: p.SenderNo, BeforeID: before, Limit: paging.Size(p.Limit),
	})
	data := api.ConversationPage{Items: convert.List(page.Rows, conversationOf)}
	if page.Before != 0 {
		data.NextCursor = new(paging.CursorOf(paging.IDText(page.Before)))
	}
	return api.ListConversations200JSONResponse{Code: convert.OK, Message: convert.Success, Data: data}, err
}

// GetConversation pages through the messages of a conversation in both directions, newest first.
func (h *Handlers) GetConversation(ctx context.Context, req api.GetConversationRequestObject) (api.GetConversationResponseObject, error) {
	before, err := paging.ParseConversation(req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	key, err := h.conversation(ctx, req.PhoneNumber, req.Params.CompanyNo)
	if err != nil {
		return nil, err
	}
	t, err := h.services.Conversations.Thread(ctx, caller.Viewer(ctx), key, before, paging.Size(req.Params.Limit))
	return api.GetConversation200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.ConversationThread{
		CompanyNo: t.CompanyNo, PhoneNumber: t.Number, IsDialable: t.IsDialable(), Unread: t.Unread, LastReceivedID: t.LastID, SenderNo: t.SenderNo, Contact: knownOf(t.Contact), Sign: t.Sign,
		Items: convert.List(t.Items, conversationItemOf), NextCursor: paging.CursorOfConversation(t.Next),
	}}, err
}

// ReplyConversation submits a reply.
func (h *Handlers) ReplyConversation(ctx context.Context, req api.ReplyConversationRequestObject) (api.ReplyConversationResponseObject, error) {
	x := gate.Of(ctx)
	x.AddToLog("phone", phone.Mask(req.PhoneNumber))
	key, err := h.conversation(ctx, req.PhoneNumber, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	origin := x.Origin
	origin.CompanyID = key.CompanyID
	made, err := h.services.Conversations.Reply(ctx, caller.Viewer(ctx), key, conversation.Reply{
		Content: req.Body.Content, ByAny: optional.Value(req.Body.Sender) == api.ReplyByAny, Sign: req.Body.Sign, DedupKey: req.Body.DedupKey, Raw: x.Body.Raw,
	}, origin)
	if err != nil {
		return nil, err
	}
	x.AddToLog("task_id", made.TaskID)
	return api.ReplyConversation200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.Reply{
		TaskID: made.TaskID, Status: api.TaskStatus(made.Status), FinalContent: made.FinalContent, SenderNo: optional.NonZero(made.SenderNo),
		Deduplicated: optional.NonZero(made.Deduplicated),
	}}, nil
}

// ReadConversation marks the messages of a conversation as read.
func (h *Handlers) ReadConversation(ctx context.Context, req api.ReadConversationRequestObject) (api.ReadConversationResponseObject, error) {
	key, err := h.conversation(ctx, req.PhoneNumber, req.Body.CompanyNo)
	if err != nil {
		return nil, err
	}
	n, err := h.services.Conversations.Read(ctx, caller.Viewer(ctx), key, req.Body.UpTo, gate.Of(ctx).Caller.User.Username)
	answer := api.ReadConversation200JSONResponse{Code: convert.OK, Message: convert.Success}
	answer.Data.Read = int64(n)
	return answer, err
}

// conversation returns the key of the conversation with a number, in any notation and any reading, in the company with number companyNo or in the caller's company.
func (h *Handlers) conversation(ctx context.Context, number string, companyNo *string) (key conversation.Key, err error) {
	if key.CompanyID, err = h.scope.CompanyID(ctx, companyNo); err != nil {
		return key, err
	}
	region, err := h.services.Directory.DefaultRegion(ctx, &key.CompanyID)
	if err != nil {
		return key, err
	}
	return h.services.Conversations.Find(ctx, caller.Viewer(ctx), key.CompanyID, received.FormsOf(number, region))
}

func conversationOf(c conversation.Conversation) api.Conversation {
	return api.Conversation{
		CompanyNo: c.CompanyNo, PhoneNumber: c.Number, IsDialable: c.IsDialable(), Unread: c.Unread, LastReceivedID: c.LastID, SenderNo: c.SenderNo, Contact: knownOf(c.Contact),
		LastMessage: api.ConversationMessage{Direction: directionOf(c.Last.IsOut), Content: c.Last.Content, At: c.Last.At},
	}
}

func conversationItemOf(i conversation.Item) api.ConversationItem {
	if t := i.Task; t != nil {
		return api.ConversationItem{
			Direction: directionOf(true), TaskID: &t.TaskID, Content: t.Content, At: t.CreatedAt, Status: &t.Status, SenderNo: optional.NonZero(t.SenderNo),
			Delivery: optional.NonZero(api.TaskDelivery(t.Delivery)),
		}
	}
	r := i.Received
	return api.ConversationItem{
		Direction: directionOf(false), ReceivedID: &r.ID, Content: r.Content, At: r.CreatedAt, ReceivedAt: r.ReceivedAt, SenderNo: &r.SenderNo, Sim: r.Sim,
		ReadAt: r.ReadAt, Rule: convert.ReceivedRule(r.RuleID, r.RuleAction, r.RuleOutcome, r.RuleRefused, r.RuleDoneAt),
	}
}

func directionOf(isOut bool) api.Direction {
	if isOut {
		return api.DirectionOut
	}
	return api.DirectionIn
}

func knownOf(c *contact.Known) *api.ConversationContact {
	if c == nil {
		return nil
	}
	return &api.ConversationContact{UserID: c.UserID, Name: c.Name, Tags: c.Tags}
}
