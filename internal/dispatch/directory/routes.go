package directory

import (
	"context"
	"math"

	"lksms/gen/directoryq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// Route is a route to create. A Route with an empty CountryNo applies to every country for which the company has no route.
type Route struct {
	CompanyNo   string
	MessageType int16
	CountryNo   string
	SenderNo    string
	Weight      int64
	Sort        float64
	Status      string
}

// CreateRoute adds a route with which a sender sends a company's messages of one type to a country (S3.9). Faults: exists; request.invalid for a company,
// country or sender that does not exist.
func (s *Service) CreateRoute(ctx context.Context, r Route) (row RouteRow, err error) {
	var created directoryq.RouteCreateRow
	err = s.Change(ctx, func(ctx context.Context) error {
		p := directoryq.RouteCreateParams{MessageType: &r.MessageType, Weight: r.Weight, Sort: r.Sort, Status: r.Status}
		company, err := s.GetCompany(ctx, r.CompanyNo)
		if err != nil {
			return fault.OfField(err, ErrNoCompany, "company_no")
		}
		p.CompanyID = &company.ID
		if r.CountryNo != "" {
			country, err := s.GetCountry(ctx, r.CountryNo)
			if err != nil {
				return fault.OfField(err, errNoCountry, "country_no")
			}
			p.CountryID = &country.ID
		}
		found, err := s.q.RouteSender(ctx, r.SenderNo)
		if err != nil {
			return postgres.Wrap("find sender", err, fault.InvalidField("sender_no", fault.NotThere, nil))
		}
		p.SenderID, p.ChannelID = found.ID, found.ChannelID
		created, err = s.q.RouteCreate(ctx, p)
		s.moveAfterCommit(ctx, created.PoolID)
		if postgres.Violates(err, "routes_pool_id_sender_id_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create route", err, nil)
	})
	if err != nil {
		return row, err
	}
	return s.GetRoute(ctx, nil, created.ID)
}

// GetRoute returns one route, or the fault route.not_found. If company is non-nil, GetRoute finds only routes of this company.
func (s *Service) GetRoute(ctx context.Context, company *int64, no int64) (RouteRow, error) {
	rows, err := s.q.RouteList(ctx, directoryq.RouteListParams{BeforeID: math.MaxInt64, RouteNo: &no, CompanyID: company, PageLimit: 1})
	return postgres.One(rows, err, "get route", errNoRoute)
}

// ListRoutes lists up to limit routes with smaller ids than `before`, newest first. A nil companyNo or senderNo matches all routes. If company is non-nil, the
// list contains only routes of this company.
func (s *Service) ListRoutes(ctx context.Context, company *int64, companyNo, senderNo *string, before int64, limit int) ([]RouteRow, error) {
	rows, err := s.q.RouteList(ctx, directoryq.RouteListParams{BeforeID: before, CompanyID: company, CompanyNo: companyNo, SenderNo: senderNo, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list routes", err, nil)
}

// RouteSettings contains the settings of a route that can be changed.
type RouteSettings struct {
	Weight int64
	Sort   float64
	Status string
}

// UpdateRoute applies change to a route. If version is not nil, the route must have this version. Faults: route.not_found, version.stale.
func (s *Service) UpdateRoute(ctx context.Context, no int64, version *int64, change func(*RouteSettings)) (row RouteRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, no)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, errNoRoute)
		}
		s.moveAfterCommit(ctx, pool)
		read := func() (RouteRow, error) { return s.GetRoute(ctx, nil, no) }
		row, err = postgres.Patch(version, read, func(r RouteRow) int64 { return r.Version }, func(was RouteRow) (int64, error) {
			to := RouteSettings{Weight: was.Weight, Sort: was.Sort, Status: was.Status}
			change(&to)
			n, err := s.q.RouteUpdate(ctx, directoryq.RouteUpdateParams{
				RouteNo: no, Weight: to.Weight, Sort: to.Sort, Status: to.Status, Version: was.Version,
			})
			return n, postgres.Wrap("update route", err, nil)
		})
		return err
	})
	return row, err
}

// DeleteRoute removes a route. If the route was the last route of its pool, the waiting tasks of the pool move to the company's routes for any country. Without
// such routes, the tasks move to the shared pool. Fault: route.not_found.
func (s *Service) DeleteRoute(ctx context.Context, no int64) error {
	return s.Change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, no)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, errNoRoute)
		}
		s.moveAfterCommit(ctx, pool)
		n, err := s.q.RouteDelete(ctx, no)
		if err := postgres.Deleted(n, err, "delete route", func() (RouteRow, error) { return s.GetRoute(ctx, nil, no) }); err != nil {
			return err
		}
		return postgres.Wrap("retire pool", s.q.PoolRetire(ctx, pool), nil)
	})
}

// moveAfterCommit moves the waiting tasks of a pool after a change of its routes. The move runs after the commit and before the response to the change, and
// its time is limited. A sweep moves the remaining tasks.
func (s *Service) moveAfterCommit(ctx context.Context, pool int64) {
	s.db.AfterCommit(ctx, func() { s.routesChanged(pool) })
	s.switchAfterCommit(ctx)
}

// OnRoutesChanged sets the function that is called after this server has changed a route of a pool, before the response to the change.
func (s *Service) OnRoutesChanged(do func(pool int64)) { s.routesChanged = do }

// DeleteRetiredPools deletes old retired pools and old empty pools of one sender. It returns the number of deleted pools.
func (s *Service) DeleteRetiredPools(ctx context.Context) (int, error) {
	retired, err := s.q.PoolDeleteRetired(ctx)
	if err != nil {
		return 0, postgres.Wrap("delete retired pools", err, nil)
	}
	unused, err := s.deleteSenderPools(ctx, senderPoolsUnused, nil, nil)
	return int(retired) + unused, err
}
