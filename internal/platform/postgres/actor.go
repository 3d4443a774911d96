package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Actor is the person or program that makes an administrative change, and the request that makes it. Empty fields are unknown.
type Actor struct {
	Name      string // user name; for the command line: "cli:" and the name of the operating system user
	Role      string
	SourceIP  string
	RequestID string
}

type actorKey struct{}

// As returns a context whose changes belong to an actor. Transactions of Tx pass the actor to PostgreSQL, and the trigger audit_change writes it to the table
// audit. A statement outside a transaction therefore runs in a transaction of its own. Dispatch does not pass the actor.
//
// Use As only for requests that change what administrators set: each transaction costs one more round trip.
func As(ctx context.Context, who Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, &who)
}

// actorOf returns the actor of ctx, or nil.
func actorOf(ctx context.Context) *Actor {
	who, _ := ctx.Value(actorKey{}).(*Actor)
	return who
}

// setActorSQL sets parameters that end with the transaction, because a pooler can assign the session to another client.
const setActorSQL = `SELECT set_config('lksms.actor', $1, true), set_config('lksms.actor_role', $2, true),
	set_config('lksms.source_ip', $3, true), set_config('lksms.request_id', $4, true)`

// setActor passes the actor of ctx to PostgreSQL for the transaction tx. It does nothing if ctx has no actor.
func setActor(ctx context.Context, tx pgx.Tx) error {
	who := actorOf(ctx)
	if who == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, setActorSQL, Text(who.Name), Text(who.Role), Text(who.SourceIP), Text(who.RequestID)); err != nil {
		return fmt.Errorf("set actor: %w", err)
	}
	return nil
}

// actsAlone reports whether a statement needs its own transaction, because ctx has an actor and no transaction.
func (db *DB) actsAlone(ctx context.Context) bool { return !db.InTx(ctx) && actorOf(ctx) != nil }

// execAlone runs Exec in a new transaction.
func (db *DB) execAlone(ctx context.Context, sql string, args []any) (tag pgconn.CommandTag, err error) {
	err = db.Tx(ctx, func(ctx context.Context) (err error) {
		tag, err = db.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// rowAlone is a row whose statement runs only when Scan is called. Scan runs it in a new transaction.
type rowAlone struct {
	db   *DB
	ctx  context.Context // a field, because pgx.Row.Scan has no parameter for a context
	sql  string
	args []any
}

// Scan implements pgx.Row.
func (r rowAlone) Scan(dest ...any) error {
	var scanned error
	err := r.db.Tx(r.ctx, func(ctx context.Context) error {
		scanned = r.db.QueryRow(ctx, r.sql, r.args...).Scan(dest...)
		if IsNoRows(scanned) {
			return nil // the statement possibly has changed rows
		}
		return scanned
	})
	if err != nil {
		return err
	}
	return scanned
}
