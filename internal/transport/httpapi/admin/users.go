package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/platform/access"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// CreateUser adds a user.
func (h *Handlers) CreateUser(ctx context.Context, req api.CreateUserRequestObject) (api.CreateUserResponseObject, error) {
	row, err := h.services.Access.Create(ctx, access.User{
		Username: req.Body.Username, Password: optional.Value(req.Body.Password), Role: string(req.Body.Role), AppID: req.Body.AppID,
		CompanyNo: req.Body.CompanyNo, TopPriority: req.Body.TopPriority,
	})
	answer, err := h.userAnswer(ctx, row, err)
	return api.CreateUser200JSONResponse(answer), err
}

// ListUsers pages through users, newest first.
func (h *Handlers) ListUsers(ctx context.Context, req api.ListUsersRequestObject) (api.ListUsersResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Access.List(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	items, next, err := paging.TryPage(rows, limit, func(u access.UserRow) (api.User, error) { return h.userOf(ctx, u) },
		func(u access.UserRow) string { return paging.IDText(u.ID) })
	return api.ListUsers200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.UserPage{Items: items, NextCursor: next}}, err
}

// GetUser shows one user.
func (h *Handlers) GetUser(ctx context.Context, req api.GetUserRequestObject) (api.GetUserResponseObject, error) {
	row, err := h.services.Access.Get(ctx, req.Username)
	answer, err := h.userAnswer(ctx, row, err)
	return api.GetUser200JSONResponse(answer), err
}

// UpdateUser changes, disables or enables a user.
func (h *Handlers) UpdateUser(ctx context.Context, req api.UpdateUserRequestObject) (api.UpdateUserResponseObject, error) {
	row, err := h.services.Access.Update(ctx, access.Patch{
		Username: req.Username, Password: req.Body.Password, Role: (*string)(req.Body.Role), AppID: req.Body.AppID,
		IsDisabled: req.Body.IsDisabled, CompanyNo: convert.Given(req.Body.CompanyNo), TopPriority: req.Body.TopPriority, Version: req.Body.Version,
		WithoutCompany: req.Body.CompanyNo.IsNull(),
	})
	answer, err := h.userAnswer(ctx, row, err)
	return api.UpdateUser200JSONResponse(answer), err
}

// CreateKey creates an API key.
func (h *Handlers) CreateKey(ctx context.Context, req api.CreateKeyRequestObject) (api.CreateKeyResponseObject, error) {
	row, key, err := h.services.Access.CreateKey(ctx, req.Username, req.Body.Name)
	return api.CreateKey200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.NewKey{
		ID: row.ID, Name: row.Name, Key: key, CreatedAt: row.CreatedAt,
	}}, err
}

// ListKeys lists the API keys of a user.
func (h *Handlers) ListKeys(ctx context.Context, req api.ListKeysRequestObject) (api.ListKeysResponseObject, error) {
	rows, err := h.services.Access.ListKeys(ctx, req.Username)
	return api.ListKeys200JSONResponse{Code: convert.OK, Message: convert.Success, Data: convert.List(rows, func(k access.KeyRow) api.Key {
		return api.Key{ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt}
	})}, err
}

// DeleteKey deletes an API key.
func (h *Handlers) DeleteKey(ctx context.Context, req api.DeleteKeyRequestObject) (api.DeleteKeyResponseObject, error) {
	err := h.services.Access.DeleteKey(ctx, req.Username, req.ID)
	return api.DeleteKey200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// CreateSmppPassword creates the SMPP password of a user.
func (h *Handlers) CreateSmppPassword(ctx context.Context, req api.CreateSmppPasswordRequestObject) (api.CreateSmppPasswordResponseObject, error) {
	password, err := h.services.Access.CreateSMPPPassword(ctx, req.Username)
	return api.CreateSmppPassword200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.NewSmppPassword{Password: password}}, err
}

// DeleteSmppPassword deletes the SMPP password of a user.
func (h *Handlers) DeleteSmppPassword(ctx context.Context, req api.DeleteSmppPasswordRequestObject) (api.DeleteSmppPasswordResponseObject, error) {
	err := h.services.Access.DeleteSMPPPassword(ctx, req.Username)
	return api.DeleteSmppPassword200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

// userAnswer returns the response with a user, or err if err is not nil.
func (h *Handlers) userAnswer(ctx context.Context, row access.UserRow, err error) (api.UserResponse, error) {
	if err != nil {
		return api.UserResponse{}, err
	}
	u, err := h.userOf(ctx, row)
	return api.UserResponse{Code: convert.OK, Message: convert.Success, Data: u}, err
}

func (h *Handlers) userOf(ctx context.Context, u access.UserRow) (api.User, error) {
	companyNo, err := h.services.Directory.CompanyNo(ctx, u.CompanyID)
	return api.User{
		Username: u.Username, Role: api.Role(u.Role), AppID: u.AppID, CompanyNo: companyNo, AllCompanies: access.SeesAll(u), TopPriority: u.TopPriority,
		IsDisabled: u.IsDisabled, Version: u.Version, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}, err
}
