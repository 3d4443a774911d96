package tasks

import (
	"context"
	"strconv"
	"time"

	"lksms/gen/api"
	"lksms/internal/events/feed"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// PullEvents returns events after a cursor. Without such events, PullEvents waits for new events (B13).
func (h *Handlers) PullEvents(ctx context.Context, req api.PullEventsRequestObject) (api.PullEventsResponseObject, error) {
	p, x := req.Params, gate.Of(ctx)
	seen := caller.Viewer(ctx)
	if p.CompanyNo != nil {
		company, err := h.scope.CompanyID(ctx, p.CompanyNo)
		if err != nil {
			return nil, err
		}
		seen.CompanyID = &company
	}
	who := x.Caller.User
	stillMay := func(context.Context) error { // during the wait, the user can have been disabled or moved to another company
		if err := x.Caller.Authorise(); err != nil {
			return err
		}
		if now := x.Caller.User; now.CompanyID != who.CompanyID || now.SeesAll != who.SeesAll || now.Role != who.Role {
			return fault.New(fault.Forbidden, fault.AuthOtherCompany)
		}
		return nil
	}
	pull := feed.Pull{
		Viewer: seen, Limit: optional.Or(p.Limit, 100), Wait: time.Duration(optional.Value(p.Wait)) * time.Second, // 100 is the default in the contract
		StillMay: stillMay,
	}
	if p.After != nil && *p.After == "" {
		pull.IsFirst = true
	} else if p.After != nil {
		after, err := strconv.ParseInt(*p.After, 10, 64)
		if err != nil {
			return nil, err // impossible: the contract allows at most 18 digits
		}
		pull.After = &after
	}
	if p.Type != nil {
		pull.Types = convert.List(*p.Type, func(t api.EventType) string { return string(t) })
	}
	events, next, err := h.services.Feed.Pull(ctx, pull)
	return api.PullEvents200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.EventFeed{
		Items: convert.List(events, eventOfFeed), NextCursor: strconv.FormatInt(next, 10),
	}}, err
}

func eventOfFeed(e feed.Rendered) api.EventOfFeed {
	return api.EventOfFeed{ID: feed.IDText(e.ID), Type: api.EventType(e.Type), Timestamp: e.Timestamp, Data: e.Data}
}
