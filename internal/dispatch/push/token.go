package push

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/platform/postgres"
)

// tokens shares the access token of a sender among all processes. The database stores the token encrypted. The token can be decrypted only with the
// configuration for which it was fetched: a token of one account must not be sent to a provider that was configured later.
type tokens struct {
	p        *Pusher
	senderNo string
	config   [sha256.Size]byte // digest of the driver's configuration
}

// field returns the name of the field with which the token is encrypted. The name contains the digest of the configuration.
func (t *tokens) field() string { return "token/" + hex.EncodeToString(t.config[:]) }

const (
	tokenSpare = time.Minute            // a token that expires within this time is not used; one use of a token takes less time
	fetchLease = 65 * time.Second       // lease of the right to fetch a token; longer than the longest call
	fetchPoll  = 100 * time.Millisecond // time between two checks whether another caller has fetched the token
)

// get returns a token that is valid for at least tokenSpare. If the stored token is missing, stale or about to expire, one caller among all servers leases the
// right to fetch a token. The other callers wait until the new token is stored. No transaction is open during the wait. If a server dies while it fetches a
// token, the other callers wait until the lease ends.
func (t *tokens) get(ctx context.Context, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (string, error) {
	if token, err := t.read(ctx, stale); err != nil || token != "" {
		return token, err
	}
	if err := t.p.q.TokenOpen(ctx, t.senderNo); err != nil {
		return "", fmt.Errorf("create token row: %w", err)
	}
	for {
		lease, err := t.p.q.TokenLease(ctx, pushq.TokenLeaseParams{SenderNo: t.senderNo, Seconds: fetchLease.Seconds()})
		if err == nil {
			return t.fetch(ctx, lease, stale, fetch)
		}
		if !postgres.IsNoRows(err) {
			return "", fmt.Errorf("lease token: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for token: %w", ctx.Err())
		case <-time.After(fetchPoll):
		}
		if token, err := t.read(ctx, stale); err != nil || token != "" {
			return token, err
		}
	}
}

// fetch fetches a token under a lease and stores the token. If another caller stored a token before the lease began, fetch does nothing.
func (t *tokens) fetch(ctx context.Context, lease int64, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (string, error) {
	token, err := t.read(ctx, stale)
	var lasts time.Duration
	var encrypted string
	if err == nil && token == "" {
		if token, lasts, err = fetch(ctx); err == nil {
			encrypted, err = t.p.configs.EncryptField(t.senderNo, t.field(), token)
		}
	}
	// The token is stored even if ctx has ended, because the other callers wait for the lease.
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxBackoff)
	defer cancel()
	if err != nil || encrypted == "" {
		released := t.p.q.TokenRelease(storing, pushq.TokenReleaseParams{SenderNo: t.senderNo, Fetches: lease})
		return token, errors.Join(err, postgres.Wrap("release token", released, nil))
	}
	err = t.p.q.TokenSet(storing, pushq.TokenSetParams{SenderNo: t.senderNo, Token: encrypted, Seconds: lasts.Seconds(), Fetches: lease})
	return token, postgres.Wrap("store token", err, nil)
}

// read returns the stored token. It returns an empty text if the token is missing, equals stale or expires within tokenSpare.
func (t *tokens) read(ctx context.Context, stale string) (string, error) {
	row, err := t.p.q.TokenGet(ctx, t.senderNo)
	if postgres.IsNoRows(err) || err == nil && row.Seconds < tokenSpare.Seconds() {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token, err := t.p.configs.DecryptField(t.senderNo, t.field(), row.Token)
	if err != nil || token == stale {
		return "", nil //nolint:nilerr // a token of another configuration or of a deleted key must be fetched again
	}
	return token, nil
}
