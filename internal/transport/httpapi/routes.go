package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/paging"
)

// CreateRoute adds a route.
func (s *Server) CreateRoute(ctx context.Context, req api.CreateRouteRequestObject) (api.CreateRouteResponseObject, error) {
	row, err := s.directory.CreateRoute(ctx, directory.Route{
		CompanyNo: req.Body.CompanyNo, MessageType: messageType(&req.Body.MessageType), CountryNo: optional.Value(req.Body.CountryNo),
		SenderNo: req.Body.SenderNo, Weight: optional.Or(req.Body.Weight, 1), Sort: optional.Value(req.Body.Sort),
		Status: string(optional.Or(req.Body.Status, api.StatusOn)),
	})
	return api.CreateRoute200JSONResponse(routeAnswer(row)), err
}

// ListRoutes pages through routes, newest first.
func (s *Server) ListRoutes(ctx context.Context, req api.ListRoutesRequestObject) (api.ListRoutesResponseObject, error) {
	before, limit, err := paging.Of(req.Params.Cursor, req.Params.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.requireCompany(ctx, req.Params.CompanyNo); err != nil {
		return nil, err
	}
	if err := s.requireSender(ctx, req.Params.SenderNo); err != nil {
		return nil, err
	}
	rows, err := s.directory.ListRoutes(ctx, ownCompany(ctx), req.Params.CompanyNo, req.Params.SenderNo, before, limit+1)
	items, next := paging.Page(rows, limit, routeOf, func(r dbq.RouteListRow) string { return paging.IDText(r.ID) })
	return api.ListRoutes200JSONResponse{Code: ok, Message: success, Data: api.RoutePage{Items: items, NextCursor: next}}, err
}

// GetRoute shows one route.
func (s *Server) GetRoute(ctx context.Context, req api.GetRouteRequestObject) (api.GetRouteResponseObject, error) {
	row, err := s.directory.GetRoute(ctx, ownCompany(ctx), req.RouteNo)
	return api.GetRoute200JSONResponse(routeAnswer(row)), err
}

// UpdateRoute changes a route.
func (s *Server) UpdateRoute(ctx context.Context, req api.UpdateRouteRequestObject) (api.UpdateRouteResponseObject, error) {
	row, err := s.directory.UpdateRoute(ctx, req.RouteNo, req.Body.Version, func(r *directory.RouteSettings) {
		set(&r.Weight, req.Body.Weight)
		set(&r.Sort, req.Body.Sort)
		set(&r.Status, (*string)(req.Body.Status))
	})
	return api.UpdateRoute200JSONResponse(routeAnswer(row)), err
}

// DeleteRoute removes a route.
func (s *Server) DeleteRoute(ctx context.Context, req api.DeleteRouteRequestObject) (api.DeleteRouteResponseObject, error) {
	err := s.directory.DeleteRoute(ctx, req.RouteNo)
	return api.DeleteRoute200JSONResponse{DoneJSONResponse: done()}, err
}

func routeAnswer(r dbq.RouteListRow) api.RouteResponse {
	return api.RouteResponse{Code: ok, Message: success, Data: routeOf(r)}
}

func routeOf(r dbq.RouteListRow) api.Route {
	return api.Route{
		RouteNo: r.ID, CompanyNo: r.CompanyNo, MessageType: messageTypes[r.MessageType], CountryNo: r.CountryNo, SenderNo: r.SenderNo,
		Weight: r.Weight, Sort: r.Sort, Status: api.OnOff(r.Status), Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}
