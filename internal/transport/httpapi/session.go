package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/platform/access"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/gate"
)

// CreateSession signs a user in.
func (s *Server) CreateSession(ctx context.Context, req api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	x := gate.Of(ctx)
	token, begun, err := s.access.SignIn(ctx, req.Body.Username, req.Body.Password, x.Origin.SourceIP, x.Origin.UserAgent)
	if err != nil {
		return nil, err
	}
	x.Caller.User, x.Caller.SessionEnd = begun.Principal, &begun.ExpiresAt // as if the request had come with the session
	if old := x.SessionToken(); old != "" {
		if err := s.access.SignOut(ctx, old); err != nil {
			return nil, err
		}
	}
	answer, err := s.sessionAnswer(ctx, x)
	cookie := x.SessionCookie(token, begun.ExpiresAt)
	return api.CreateSession200JSONResponse{Body: answer, Headers: api.CreateSession200ResponseHeaders{SetCookie: &cookie}}, err
}

// GetSession says who the caller is.
func (s *Server) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	answer, err := s.sessionAnswer(ctx, gate.Of(ctx))
	return api.GetSession200JSONResponse(answer), err
}

// DeleteSession signs a user out.
func (s *Server) DeleteSession(ctx context.Context, req api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	x := gate.Of(ctx)
	err := s.access.SignOut(ctx, x.SessionToken())
	if err == nil && optional.Value(req.Params.Everywhere) {
		err = s.access.SignOutEverywhere(ctx, x.Caller.User.Username)
	}
	cookie := x.NoSessionCookie()
	return api.DeleteSession200JSONResponse{Body: api.DoneResponse(done()), Headers: api.DeleteSession200ResponseHeaders{SetCookie: &cookie}}, err
}

func (s *Server) sessionAnswer(ctx context.Context, x *gate.Exchange) (api.SessionResponse, error) {
	who := x.Caller.User
	data := api.Session{
		Username: who.Username, Role: api.Role(who.Role), ExpiresAt: x.Caller.SessionEnd, Operations: s.gate.OperationsOf(who),
	}
	if who.AppID != "" {
		data.AppID = &who.AppID
	}
	if !who.SeesAll && who.Role != access.RoleSend {
		no, err := s.directory.CompanyNo(ctx, who.CompanyID)
		if err != nil {
			return api.SessionResponse{}, err
		}
		data.CompanyNo = &no
	}
	return api.SessionResponse{Code: ok, Message: success, Data: data}, nil
}
