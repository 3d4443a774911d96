package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/platform/access"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// CreateSession signs a user in and returns the cookie of the session.
func (h *Handlers) CreateSession(ctx context.Context, req api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	x := gate.Of(ctx)
	token, begun, err := h.services.Access.SignIn(ctx, req.Body.Username, req.Body.Password, x.Origin.SourceIP, x.Origin.UserAgent)
	if err != nil {
		return nil, err
	}
	x.Caller.User, x.Caller.SessionEnd = begun.Principal, &begun.ExpiresAt // the same values as in a request with the new session
	if old := x.SessionToken(); old != "" {
		if err := h.services.Access.SignOut(ctx, old); err != nil {
			return nil, err
		}
	}
	answer, err := h.sessionAnswer(ctx, x)
	cookie := x.SessionCookie(token, begun.ExpiresAt)
	return api.CreateSession200JSONResponse{Body: answer, Headers: api.CreateSession200ResponseHeaders{SetCookie: &cookie}}, err
}

// GetSession shows the caller and its session.
func (h *Handlers) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	answer, err := h.sessionAnswer(ctx, gate.Of(ctx))
	return api.GetSession200JSONResponse(answer), err
}

// DeleteSession signs the user out, on request from all sessions.
func (h *Handlers) DeleteSession(ctx context.Context, req api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	x := gate.Of(ctx)
	err := h.services.Access.SignOut(ctx, x.SessionToken())
	if err == nil && optional.Value(req.Params.Everywhere) {
		err = h.services.Access.SignOutEverywhere(ctx, x.Caller.User.Username)
	}
	cookie := x.NoSessionCookie()
	return api.DeleteSession200JSONResponse{Body: api.DoneResponse(convert.Done()), Headers: api.DeleteSession200ResponseHeaders{SetCookie: &cookie}}, err
}

func (h *Handlers) sessionAnswer(ctx context.Context, x *gate.Exchange) (api.SessionResponse, error) {
	who := x.Caller.User
	data := api.Session{
		Username: who.Username, Role: api.Role(who.Role), ExpiresAt: x.Caller.SessionEnd, Operations: h.services.Gate.OperationsOf(who),
	}
	if who.AppID != "" {
		data.AppID = &who.AppID
	}
	if !who.SeesAll && who.Role != access.RoleSend {
		no, err := h.services.Directory.CompanyNo(ctx, who.CompanyID)
		if err != nil {
			return api.SessionResponse{}, err
		}
		data.CompanyNo = &no
	}
	return api.SessionResponse{Code: convert.OK, Message: convert.Success, Data: data}, nil
}
