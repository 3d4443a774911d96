package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/platform/access"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/paging"
)

// CreateUser adds a user.
func (s *Server) CreateUser(ctx context.Context, req api.CreateUserRequestObject) (api.CreateUserResponseObject, error) {
	row, err := s.access.Create(ctx, access.User{
		Username: req.Body.Username, Password: optional.Value(req.Body.Password), Role: string(req.Body.Role), AppID: req.Body.AppID,
		CompanyNo: req.Body.CompanyNo, TopPriority: req.Body.TopPriority,
	})
	answer, err := s.userAnswer(ctx, row, err)
	return api.CreateUser200JSONResponse(answer), err
}

// ListUsers pages through users, newest first.
func (s *Server) ListUsers(ctx context.Context, req api.ListUsersRequestObject) (api.ListUsersResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := s.access.List(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(u dbq.User) (api.User, error) { return s.userOf(ctx, u) },
		func(u dbq.User) string { return paging.IDText(u.ID) })
	return api.ListUsers200JSONResponse{Code: ok, Message: success, Data: api.UserPage{Items: items, NextCursor: next}}, err
}

// GetUser shows one user.
func (s *Server) GetUser(ctx context.Context, req api.GetUserRequestObject) (api.GetUserResponseObject, error) {
	row, err := s.access.Get(ctx, req.Username)
	answer, err := s.userAnswer(ctx, row, err)
	return api.GetUser200JSONResponse(answer), err
}

// UpdateUser changes, disables or enables a user.
func (s *Server) UpdateUser(ctx context.Context, req api.UpdateUserRequestObject) (api.UpdateUserResponseObject, error) {
	row, err := s.access.Update(ctx, access.Patch{
		Username: req.Username, Password: req.Body.Password, Role: (*string)(req.Body.Role), AppID: req.Body.AppID,
		IsDisabled: req.Body.IsDisabled, CompanyNo: given(req.Body.CompanyNo), TopPriority: req.Body.TopPriority, Version: req.Body.Version,
		WithoutCompany: req.Body.CompanyNo.IsNull(),
	})
	answer, err := s.userAnswer(ctx, row, err)
	return api.UpdateUser200JSONResponse(answer), err
}

// CreateKey makes an API key.
func (s *Server) CreateKey(ctx context.Context, req api.CreateKeyRequestObject) (api.CreateKeyResponseObject, error) {
	row, key, err := s.access.CreateKey(ctx, req.Username, req.Body.Name)
	return api.CreateKey200JSONResponse{Code: ok, Message: success, Data: api.NewKey{
		ID: row.ID, Name: row.Name, Key: key, CreatedAt: row.CreatedAt,
	}}, err
}

// ListKeys lists the API keys of a user.
func (s *Server) ListKeys(ctx context.Context, req api.ListKeysRequestObject) (api.ListKeysResponseObject, error) {
	rows, err := s.access.ListKeys(ctx, req.Username)
	return api.ListKeys200JSONResponse{Code: ok, Message: success, Data: convert(rows, func(k dbq.KeyListRow) api.Key {
		return api.Key{ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt}
	})}, err
}

// DeleteKey ends an API key.
func (s *Server) DeleteKey(ctx context.Context, req api.DeleteKeyRequestObject) (api.DeleteKeyResponseObject, error) {
	err := s.access.DeleteKey(ctx, req.Username, req.ID)
	return api.DeleteKey200JSONResponse{DoneJSONResponse: done()}, err
}

// userAnswer is the answer with a user, or the error of reading or changing the user.
func (s *Server) userAnswer(ctx context.Context, row dbq.User, err error) (api.UserResponse, error) {
	if err != nil {
		return api.UserResponse{}, err
	}
	u, err := s.userOf(ctx, row)
	return api.UserResponse{Code: ok, Message: success, Data: u}, err
}

func (s *Server) userOf(ctx context.Context, u dbq.User) (api.User, error) {
	companyNo, err := s.directory.CompanyNo(ctx, u.CompanyID)
	return api.User{
		Username: u.Username, Role: api.Role(u.Role), AppID: u.AppID, CompanyNo: companyNo, AllCompanies: access.SeesAll(u), TopPriority: u.TopPriority,
		IsDisabled: u.IsDisabled, Version: u.Version, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}, err
}
