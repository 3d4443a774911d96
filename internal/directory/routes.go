package directory

import (
	"context"
	"math"
	"strconv"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// Route is a route to create. An empty CountryNo is every country that has no route of its own.
type Route struct {
	CompanyNo   string
	MessageType int16
	CountryNo   string
	SenderNo    string
	Weight      int64
	Sort        float64
	Status      string
}

// CreateRoute lets a sender send a company's messages of a type to a country (S3.9). Faults: exists, request.invalid for what
// is not there.
func (s *Service) CreateRoute(ctx context.Context, r Route) (row dbq.RouteListRow, err error) {
	var made dbq.RouteCreateRow
	err = s.Change(ctx, func(ctx context.Context) error {
		p := dbq.RouteCreateParams{MessageType: &r.MessageType, Weight: r.Weight, Sort: r.Sort, Status: r.Status}
		company, err := s.GetCompany(ctx, r.CompanyNo)
		if err != nil {
			return fault.OfField(err, ErrNoCompany, "company_no")
		}
		p.CompanyID = &company.ID
		if r.CountryNo != "" {
			country, err := s.GetCountry(ctx, r.CountryNo)
			if err != nil {
				return fault.OfField(err, ErrNoCountry, "country_no")
			}
			p.CountryID = &country.ID
		}
		found, err := s.q.SenderFind(ctx, r.SenderNo)
		if err != nil {
			return postgres.Wrap("find sender", err, fault.InvalidField("sender_no", fault.NotThere, nil))
		}
		p.SenderID, p.ChannelID = found.ID, found.ChannelID
		made, err = s.q.RouteCreate(ctx, p)
		s.moveAfter(ctx, made.PoolID)
		if postgres.Violates(err, "routes_pool_id_sender_id_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		return postgres.Wrap("create route", err, nil)
	})
	if err != nil {
		return row, err
	}
	return s.GetRoute(ctx, nil, made.ID)
}

// GetRoute returns one route, or the fault route.not_found; with a company only one of its own.
func (s *Service) GetRoute(ctx context.Context, company *int64, no int64) (dbq.RouteListRow, error) {
	rows, err := s.q.RouteList(ctx, dbq.RouteListParams{BeforeID: math.MaxInt64, RouteNo: &no, CompanyID: company, PageLimit: 1})
	return postgres.One(rows, err, "get route", ErrNoRoute)
}

// ListRoutes lists routes; companyNo and senderNo may be nil. With a company, only its own.
func (s *Service) ListRoutes(ctx context.Context, company *int64, companyNo, senderNo *string, before int64, limit int) ([]dbq.RouteListRow, error) {
	rows, err := s.q.RouteList(ctx, dbq.RouteListParams{BeforeID: before, CompanyID: company, CompanyNo: companyNo, SenderNo: senderNo, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list routes", err, nil)
}

// UpdateRoute changes a route. Faults: route.not_found, version.stale.
func (s *Service) UpdateRoute(ctx context.Context, p dbq.RouteUpdateParams) (row dbq.RouteListRow, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, p.RouteNo)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, ErrNoRoute)
		}
		s.moveAfter(ctx, pool)
		n, err := s.q.RouteUpdate(ctx, p)
		row, err = postgres.Updated(n, err, "update route "+strconv.FormatInt(p.RouteNo, 10), func() (dbq.RouteListRow, error) { return s.GetRoute(ctx, nil, p.RouteNo) })
		return err
	})
	return row, err
}

// DeleteRoute removes a route. What waits in a pool without routes goes to the company's routes for any country, if it has any, or
// to the shared senders. Fault: route.not_found.
func (s *Service) DeleteRoute(ctx context.Context, no int64) error {
	return s.Change(ctx, func(ctx context.Context) error {
		pool, err := s.q.RoutePoolLock(ctx, no)
		if err != nil {
			return postgres.Wrap("lock pool of route", err, ErrNoRoute)
		}
		s.moveAfter(ctx, pool)
		n, err := s.q.RouteDelete(ctx, no)
		if err := postgres.Deleted(n, err, "delete route", func() (dbq.RouteListRow, error) { return s.GetRoute(ctx, nil, no) }); err != nil {
			return err
		}
		return postgres.Wrap("retire pool", s.q.PoolRetire(ctx, pool), nil)
	})
}

// moveAfter lets waiting tasks follow a change of the routes of a pool, once it is committed and before it is answered, as far as
// that can be done by then. A sweep moves the others.
func (s *Service) moveAfter(ctx context.Context, pool int64) {
	s.db.AfterCommit(ctx, func() { s.routesChanged(pool) })
}

// OnRoutesChanged sets what is done when this server has changed a route of a pool, before the change is answered.
func (s *Service) OnRoutesChanged(do func(pool int64)) { s.routesChanged = do }

// ForgetPools deletes pools that were retired long ago, and returns how many.
func (s *Service) ForgetPools(ctx context.Context) (int, error) {
	n, err := s.q.PoolForget(ctx)
	return int(n), postgres.Wrap("forget retired pools", err, nil)
}
