package notify

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// tokens keeps what opens a provider's interface for one sender: in the database, sealed, for every process.
type tokens struct {
	*Pusher
	senderNo string
}

// tokenSpare is how much of its time a token has left when it is no longer given: less than what it takes to use it.
const tokenSpare = time.Minute

// get gives a token that is good for a while. Where there is none, or the one there is stale, whoever locks the sender's row
// fetches one, and the others find it when they have waited.
func (t *tokens) get(ctx context.Context, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (token string, err error) {
	if token, err = t.read(ctx, stale); err != nil || token != "" {
		return token, err
	}
	if err := t.q.TokenOpen(ctx, t.senderNo); err != nil {
		return "", fmt.Errorf("open token: %w", err)
	}
	err = t.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := t.q.TokenLock(ctx, t.senderNo); err != nil {
			return fmt.Errorf("lock token: %w", err)
		}
		if token, err = t.read(ctx, stale); err != nil || token != "" {
			return err
		}
		fetched, lasts, err := fetch(ctx)
		if err != nil {
			return err
		}
		sealed, err := t.box.Seal(fetched, place(t.senderNo, "token"))
		if err != nil {
			return err
		}
		token = fetched
		return postgres.Wrap("keep token", t.q.TokenSet(ctx, dbq.TokenSetParams{SenderNo: t.senderNo, Token: sealed, Seconds: lasts.Seconds()}), nil)
	})
	return token, err
}

// read gives the token that is kept, unless it is stale or ends soon.
func (t *tokens) read(ctx context.Context, stale string) (string, error) {
	row, err := t.q.TokenGet(ctx, t.senderNo)
	if postgres.IsNoRows(err) || err == nil && row.Seconds < tokenSpare.Seconds() {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token, err := t.box.Open(row.Token, place(t.senderNo, "token"))
	if err != nil || token == stale {
		return "", nil //nolint:nilerr // where it was sealed with a key that is gone a new one is fetched
	}
	return token, nil
}
