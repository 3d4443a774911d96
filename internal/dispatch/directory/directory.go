// Package directory owns companies, channels, countries and routes, and finds the pool of a message. It caches a view of these rows in memory, so that a
// submission reads no tables of the directory.
package directory

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"lksms/gen/directoryq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/snapshot"
	"lksms/internal/platform/sweep"
)

// Service manages the directory. Every method runs in at most one transaction.
type Service struct {
	db     *postgres.DB
	q      *directoryq.Queries
	cache  snapshot.Cache[*view]
	loaded atomic.Pointer[view] // the most recently loaded view

	senderPools *expirable.LRU[senderPoolKey, int64]

	changed       []func()
	routesChanged func(pool int64)
	switched      func()
}

// New returns a Service on db.
func New(db *postgres.DB) *Service {
	s := &Service{
		db: db, q: directoryq.New(db), routesChanged: func(int64) {}, switched: func() {},
		senderPools: expirable.NewLRU[senderPoolKey, int64](maxSenderPools, nil, senderPoolsFresh),
	}
	s.cache.Load = s.load
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-retired-pools", Interval: time.Hour, Routine: true, Run: s.DeleteRetiredPools},
	}
}

// These are the channels with built-in support. SMS always exists.
const (
	SMS      = "sms"
	OA       = "oa"
	DingTalk = "dingtalk"
	WeChat   = "wechat"
	Email    = "email"
)

// These are the faults for missing rows.
var (
	ErrNoCompany = fault.New(fault.NotFound, fault.CompanyNotFound)
	ErrNoChannel = fault.New(fault.NotFound, fault.ChannelNotFound)
	errNoCountry = fault.New(fault.NotFound, fault.CountryNotFound)
	errNoRoute   = fault.New(fault.NotFound, fault.RouteRuleNotFound)
)

// Change calls fn in a transaction. After the commit, this server discards its view of the directory and calls the functions of OnChanged.
func (s *Service) Change(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		s.db.AfterCommit(ctx, func() {
			s.Invalidate()
			for _, do := range s.changed {
				do()
			}
		})
		return fn(ctx)
	})
}

// OnChanged adds a function that is called after each change of the directory by this server, before the response to the change. Call OnChanged before any
// change.
func (s *Service) OnChanged(do func()) { s.changed = append(s.changed, do) }

// OnSwitched sets the function that is called after this server has changed a switch that can hold tasks, before the response to the change.
func (s *Service) OnSwitched(do func()) { s.switched = do }

// switchAfterCommit calls the function of OnSwitched after the commit of the transaction of ctx.
func (s *Service) switchAfterCommit(ctx context.Context) {
	s.db.AfterCommit(ctx, func() { s.switched() })
}

// Invalidate discards the view, so that its next use loads it again.
func (s *Service) Invalidate() {
	s.cache.Invalidate()
	s.senderPools.Purge()
}

// Renew loads the view again, so that FindPool does not use an older view.
func (s *Service) Renew(ctx context.Context) error {
	s.senderPools.Purge()
	_, err := s.cache.Since(ctx, time.Now())
	return err
}
