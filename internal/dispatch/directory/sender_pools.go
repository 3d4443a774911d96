package directory

import (
	"context"
	"time"

	"lksms/gen/directoryq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// senderPoolKey identifies a pool of one sender.
type senderPoolKey struct {
	channel     string
	companyID   int64
	messageType int16
	senderNo    string
}

// These constants are the maximum number of cached pools of one sender, and the lifetime of cached pools. This lifetime equals the lifetime of the view, so
// that a change by another server affects both at the same time.
const (
	maxSenderPools   = 10_000
	senderPoolsFresh = 2 * time.Second
)

// FindPoolOfSender finds the pool of a message that only one sender is allowed to send. Routes do not affect the result. Faults: those of FindPool;
// request.invalid for the field sender_no if the sender does not exist, belongs to another channel, or does not serve the company. A sender serves a company
// if a route of the company names the sender, or if the sender is shared and no route names it.
func (s *Service) FindPoolOfSender(ctx context.Context, asOf time.Time, channel string, companyID int64, messageType int16, recipient string, signed bool, senderNo string) (Pool, error) {
	pool, refused := s.FindPool(ctx, asOf, channel, companyID, messageType, recipient, signed)
	if Held(refused) != nil {
		return pool, refused
	}
	id, err := s.SenderPool(ctx, channel, companyID, messageType, senderNo)
	if err != nil {
		return pool, err
	}
	pool.ID = id
	return pool, refused
}

// SenderPool returns the pool of one sender for a company's messages of a type. It creates a missing pool, in the transaction of ctx if ctx has one. Before
// adding tasks to the pool, the caller must lock the pool with LockSenderPools. Fault: request.invalid for the field sender_no, as in FindPoolOfSender.
func (s *Service) SenderPool(ctx context.Context, channel string, companyID int64, messageType int16, senderNo string) (int64, error) {
	key := senderPoolKey{channel, companyID, messageType, senderNo}
	if pool, isKnown := s.senderPools.Get(key); isKnown {
		return pool, nil
	}
	found, err := s.q.SenderPoolFind(ctx, directoryq.SenderPoolFindParams{Channel: channel, CompanyID: companyID, MessageType: messageType, SenderNo: senderNo})
	if err != nil {
		return 0, postgres.Wrap("find pool of sender", err, fault.InvalidField("sender_no", fault.NotServing, nil))
	}
	if found.PoolID != nil {
		s.senderPools.Add(key, *found.PoolID)
		return *found.PoolID, nil
	}
	var pool int64
	err = s.Change(ctx, func(ctx context.Context) (err error) {
		pool, err = s.q.SenderPoolMake(ctx, directoryq.SenderPoolMakeParams{
			ChannelID: found.ChannelID, CompanyID: companyID, MessageType: messageType, SenderID: found.SenderID,
		})
		if err == nil {
			err = s.q.SenderPoolRoute(ctx, directoryq.SenderPoolRouteParams{PoolID: pool, SenderID: found.SenderID})
		}
		return postgres.Wrap("make pool of sender", err, nil)
	})
	return pool, err
}

// ServingSender returns the id of a sender that serves a company. It creates no pool. Fault: request.invalid for the field sender_no, as in FindPoolOfSender.
func (s *Service) ServingSender(ctx context.Context, channel string, companyID int64, messageType int16, senderNo string) (int64, error) {
	found, err := s.q.SenderPoolFind(ctx, directoryq.SenderPoolFindParams{Channel: channel, CompanyID: companyID, MessageType: messageType, SenderNo: senderNo})
	return found.SenderID, postgres.Wrap("find sender", err, fault.InvalidField("sender_no", fault.NotServing, nil))
}

// LockSenderPools locks pools of one sender against deletion until the end of the transaction of ctx, and reports whether all of them exist.
func (s *Service) LockSenderPools(ctx context.Context, pools []int64) (bool, error) {
	held, err := s.q.SenderPoolsHold(ctx, pools)
	return len(held) == len(pools), postgres.Wrap("hold pools of senders", err, nil)
}

// senderPoolsUnused is the age after which an empty pool of one sender is deleted. If the pool is needed again, it is created again.
const senderPoolsUnused = 24 * time.Hour

// deleteSenderPools deletes pools of one sender that have no tasks and have existed longer than older. senderNo and companyNo, if not nil, restrict the pools.
// It returns the number of deleted pools.
func (s *Service) deleteSenderPools(ctx context.Context, older time.Duration, senderNo, companyNo *string) (deleted int, err error) {
	err = s.Change(ctx, func(ctx context.Context) error {
		ids, err := s.q.SenderPoolsLock(ctx, directoryq.SenderPoolsLockParams{Older: older, SenderNo: senderNo, CompanyNo: companyNo})
		if err != nil || len(ids) == 0 {
			return postgres.Wrap("lock pools of senders", err, nil)
		}
		n, err := s.q.SenderPoolsDelete(ctx, ids)
		deleted = int(n)
		return postgres.Wrap("delete pools of senders", err, nil)
	})
	return deleted, err
}

// DeletePoolsOfSender deletes the pools of a sender that have no tasks.
func (s *Service) DeletePoolsOfSender(ctx context.Context, senderNo string) error {
	_, err := s.deleteSenderPools(ctx, 0, &senderNo, nil)
	return err
}
