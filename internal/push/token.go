package push

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// tokens keeps the access token of a provider for one sender: in the database, sealed, for every process. It can be opened only with the
// configuration that it was fetched with: one of another account must not go to the provider that was configured since.
type tokens struct {
	p        *Pusher
	senderNo string
	config   [sha256.Size]byte // digest of what the driver is made of
}

// field names the token with the configuration that it is of.
func (t *tokens) field() string { return "token/" + hex.EncodeToString(t.config[:]) }

const (
	tokenSpare = time.Minute            // of the time of a token, when it is no longer given: more than what it takes to use it
	fetchLease = 65 * time.Second       // longer than a call may take
	fetchLook  = 100 * time.Millisecond // between looks whether another has fetched it
)

// get gives a token that is good for a while. Where there is none, or the one there is stale, one caller of all servers leases the
// sender's row and fetches a token; the others wait until it is there. No transaction is open meanwhile: a server that dies while
// it fetches holds the others up until its lease ends.
func (t *tokens) get(ctx context.Context, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (string, error) {
	if token, err := t.read(ctx, stale); err != nil || token != "" {
		return token, err
	}
	if err := t.p.q.TokenOpen(ctx, t.senderNo); err != nil {
		return "", fmt.Errorf("open token: %w", err)
	}
	for {
		lease, err := t.p.q.TokenLease(ctx, dbq.TokenLeaseParams{SenderNo: t.senderNo, Seconds: fetchLease.Seconds()})
		if err == nil {
			return t.fetch(ctx, lease, stale, fetch)
		}
		if !postgres.IsNoRows(err) {
			return "", fmt.Errorf("lease token: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for token: %w", ctx.Err())
		case <-time.After(fetchLook):
		}
		if token, err := t.read(ctx, stale); err != nil || token != "" {
			return token, err
		}
	}
}

// fetch fetches a token under a lease and keeps it, unless another was kept before the lease was taken.
func (t *tokens) fetch(ctx context.Context, lease int64, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (string, error) {
	token, err := t.read(ctx, stale)
	var lasts time.Duration
	var sealed string
	if err == nil && token == "" {
		if token, lasts, err = fetch(ctx); err == nil {
			sealed, err = t.p.configs.SealField(t.senderNo, t.field(), token)
		}
	}
	// Also when ctx has ended: the token is for everybody, and the others wait for the lease.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseMost)
	defer cancel()
	if err != nil || sealed == "" {
		released := t.p.q.TokenRelease(keep, dbq.TokenReleaseParams{SenderNo: t.senderNo, Fetches: lease})
		return token, errors.Join(err, postgres.Wrap("release token", released, nil))
	}
	err = t.p.q.TokenSet(keep, dbq.TokenSetParams{SenderNo: t.senderNo, Token: sealed, Seconds: lasts.Seconds(), Fetches: lease})
	return token, postgres.Wrap("keep token", err, nil)
}

// read gives the token that is kept, unless it is stale or ends soon.
func (t *tokens) read(ctx context.Context, stale string) (string, error) {
	row, err := t.p.q.TokenGet(ctx, t.senderNo)
	if postgres.IsNoRows(err) || err == nil && row.Seconds < tokenSpare.Seconds() {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token, err := t.p.configs.OpenField(t.senderNo, t.field(), row.Token)
	if err != nil || token == stale {
		return "", nil //nolint:nilerr // where it was sealed for another configuration, or with a key that is gone, a new one is fetched
	}
	return token, nil
}
