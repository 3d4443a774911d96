package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Actor is who makes an administrative change, and with which request. Empty fields are unknown.
type Actor struct {
	Name      string // of a user; of the command line: cli: and the name of the user of the operating system
	Role      string
	SourceIP  string
	RequestID string
}

type actorKey struct{}

// As returns a context in which changes are those of an actor: the transactions of Tx tell PostgreSQL who it is, and the trigger audit_change
// writes it to the table audit. A statement that is run on the DB alone gets a transaction for that. Dispatch tells nobody.
//
// Give it to requests that change what administrators set, and to no others: it costs one more round trip for each transaction.
func As(ctx context.Context, who Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, &who)
}

// actorOf returns the actor of ctx, or nil.
func actorOf(ctx context.Context) *Actor {
	who, _ := ctx.Value(actorKey{}).(*Actor)
	return who
}

// setActor is local to the transaction, because a pooler in between may give the session to another client.
const setActor = `SELECT set_config('lksms.actor', $1, true), set_config('lksms.actor_role', $2, true),
	set_config('lksms.source_ip', $3, true), set_config('lksms.request_id', $4, true)`

// tellActor tells PostgreSQL who acts in a transaction, if somebody does.
func tellActor(ctx context.Context, tx pgx.Tx) error {
	who := actorOf(ctx)
	if who == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, setActor, Text(who.Name), Text(who.Role), Text(who.SourceIP), Text(who.RequestID)); err != nil {
		return fmt.Errorf("set actor: %w", err)
	}
	return nil
}

// actsAlone reports whether a statement needs a transaction of its own, because somebody acts and ctx has none.
func (db *DB) actsAlone(ctx context.Context) bool { return !db.InTx(ctx) && actorOf(ctx) != nil }

// execAlone is Exec in a transaction of its own.
func (db *DB) execAlone(ctx context.Context, sql string, args []any) (tag pgconn.CommandTag, err error) {
	err = db.Tx(ctx, func(ctx context.Context) (err error) {
		tag, err = db.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// rowAlone is the row of a statement that runs in a transaction of its own, when it is scanned.
type rowAlone struct {
	db   *DB
	ctx  context.Context // pgx.Row.Scan takes none
	sql  string
	args []any
}

// Scan implements pgx.Row.
func (r rowAlone) Scan(dest ...any) error {
	var scanned error
	err := r.db.Tx(r.ctx, func(ctx context.Context) error {
		scanned = r.db.QueryRow(ctx, r.sql, r.args...).Scan(dest...)
		if IsNoRows(scanned) {
			return nil // the statement may have changed something all the same
		}
		return scanned
	})
	if err != nil {
		return err
	}
	return scanned
}
