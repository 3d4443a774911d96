// Package directory owns companies, channels, countries and routes, and finds the pool to which a message belongs. It keeps what a
// submission asks in memory.
package directory

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/snapshot"
)

// Service manages the directory. Every method is at most one transaction.
type Service struct {
	db     *postgres.DB
	q      *dbq.Queries
	cache  snapshot.Cache[*view]
	loaded atomic.Pointer[view] // last

	changed       []func()
	routesChanged func(pool int64)
}

// New returns a Service on db.
func New(db *postgres.DB) *Service {
	s := &Service{db: db, q: dbq.New(db), routesChanged: func(int64) {}}
	s.cache.Load = s.load
	return s
}

// The channels that the server knows something of. SMS always exists.
const (
	SMS      = "sms"
	OA       = "oa"
	DingTalk = "dingtalk"
	WeChat   = "wechat"
	Email    = "email"
)

// The faults of what is missing.
var (
	ErrNoCompany = fault.New(fault.NotFound, fault.CompanyNotFound)
	ErrNoChannel = fault.New(fault.NotFound, fault.ChannelNotFound)
	ErrNoCountry = fault.New(fault.NotFound, fault.CountryNotFound)
	ErrNoRoute   = fault.New(fault.NotFound, fault.RouteRuleNotFound)
)

// Change runs fn in a transaction, after which this server reads the directory anew.
func (s *Service) Change(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		s.db.AfterCommit(ctx, func() {
			s.Forget()
			for _, do := range s.changed {
				do()
			}
		})
		return fn(ctx)
	})
}

// OnChanged adds what is done when this server has changed the directory, before the change is answered. Call it before any change.
func (s *Service) OnChanged(do func()) { s.changed = append(s.changed, do) }

// Forget makes the next question read the directory anew.
func (s *Service) Forget() { s.cache.Forget() }

// Renew makes Place go by the directory as it is now.
func (s *Service) Renew(ctx context.Context) error {
	_, err := s.cache.Since(ctx, time.Now())
	return err
}

// checkCountries makes sure that all are there.
func (s *Service) checkCountries(ctx context.Context, countries []string) error {
	if len(countries) == 0 {
		return nil
	}
	unknown, err := s.q.CountriesUnknown(ctx, countries)
	if err != nil {
		return fmt.Errorf("check countries: %w", err)
	}
	if len(unknown) > 0 {
		return fault.InvalidField("countries", fault.NotThere, nil)
	}
	return nil
}
