package admin

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/paging"
)

// CreateRoute adds a route.
func (h *Handlers) CreateRoute(ctx context.Context, req api.CreateRouteRequestObject) (api.CreateRouteResponseObject, error) {
	row, err := h.services.Directory.CreateRoute(ctx, directory.Route{
		CompanyNo: req.Body.CompanyNo, MessageType: convert.MessageType(&req.Body.MessageType), CountryNo: optional.Value(req.Body.CountryNo),
		SenderNo: req.Body.SenderNo, Weight: optional.Or(req.Body.Weight, 1), Sort: optional.Value(req.Body.Sort),
		Status: string(optional.Or(req.Body.Status, api.StatusOn)),
	})
	return api.CreateRoute200JSONResponse(routeAnswer(row)), err
}

// ListRoutes pages through routes, newest first.
func (h *Handlers) ListRoutes(ctx context.Context, req api.ListRoutesRequestObject) (api.ListRoutesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	if err := h.scope.RequireCompany(ctx, req.Params.CompanyNo); err != nil {
		return nil, err
	}
	if err := h.scope.RequireSender(ctx, req.Params.SenderNo); err != nil {
		return nil, err
	}
	rows, err := h.services.Directory.ListRoutes(ctx, caller.OwnCompany(ctx), req.Params.CompanyNo, req.Params.SenderNo, before, limit+1)
	items, next := paging.Page(rows, limit, routeOf, func(r directory.RouteRow) string { return paging.IDText(r.ID) })
	return api.ListRoutes200JSONResponse{Code: convert.OK, Message: convert.Success, Data: api.RoutePage{Items: items, NextCursor: next}}, err
}

// GetRoute shows one route.
func (h *Handlers) GetRoute(ctx context.Context, req api.GetRouteRequestObject) (api.GetRouteResponseObject, error) {
	row, err := h.services.Directory.GetRoute(ctx, caller.OwnCompany(ctx), req.RouteNo)
	return api.GetRoute200JSONResponse(routeAnswer(row)), err
}

// UpdateRoute changes a route.
func (h *Handlers) UpdateRoute(ctx context.Context, req api.UpdateRouteRequestObject) (api.UpdateRouteResponseObject, error) {
	row, err := h.services.Directory.UpdateRoute(ctx, req.RouteNo, req.Body.Version, func(r *directory.RouteSettings) {
		convert.Set(&r.Weight, req.Body.Weight)
		convert.Set(&r.Sort, req.Body.Sort)
		convert.Set(&r.Status, (*string)(req.Body.Status))
	})
	return api.UpdateRoute200JSONResponse(routeAnswer(row)), err
}

// DeleteRoute removes a route.
func (h *Handlers) DeleteRoute(ctx context.Context, req api.DeleteRouteRequestObject) (api.DeleteRouteResponseObject, error) {
	err := h.services.Directory.DeleteRoute(ctx, req.RouteNo)
	return api.DeleteRoute200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func routeAnswer(r directory.RouteRow) api.RouteResponse {
	return api.RouteResponse{Code: convert.OK, Message: convert.Success, Data: routeOf(r)}
}

func routeOf(r directory.RouteRow) api.Route {
	return api.Route{
		RouteNo: r.ID, CompanyNo: r.CompanyNo, MessageType: convert.MessageTypes[r.MessageType], CountryNo: r.CountryNo, SenderNo: r.SenderNo,
		Weight: r.Weight, Sort: r.Sort, Status: api.OnOff(r.Status), Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
