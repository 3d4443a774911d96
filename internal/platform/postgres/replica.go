package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Replicas configures standbys for reads that are allowed to be stale.
type Replicas struct {
	URL    string        // can contain several hosts; reads skip a host that is the primary; empty: no standbys
	MaxLag time.Duration // the maximum age of the state that a read sees
}

type staleKey struct{}

// MayBeStale returns a context whose reads can see an older state, up to Replicas.MaxLag old. Outside transactions, Query, QueryRow, ByKey and InPartitions then
// read from a replica that is not older. Without such a replica, they read from the primary. Use this context for requests that decide nothing, and whose
// callers do not expect to see their own latest change.
func MayBeStale(ctx context.Context) context.Context { return context.WithValue(ctx, staleKey{}, true) }

// mayBeStale reports whether a read with ctx can run on a standby, if one is fresh.
func (db *DB) mayBeStale(ctx context.Context) bool {
	return db.replicas != nil && ctx.Value(staleKey{}) != nil && !db.InTx(ctx)
}

const (
	// sampleEvery is the interval at which the WAL positions of the primary and of the replicas are read.
	sampleEvery = time.Second
	// sampleLimit is the time limit for reading one position.
	sampleLimit = 2 * time.Second
)

// replicas chooses the standby for a read.
//
// A standby cannot report how old its state is: its last transaction may be old because no transaction followed. Instead, this server reads the WAL position of
// the primary every second, and stores it with the local time. A standby that has replayed this position contains everything that was committed at the stored
// time. This method needs no common clock, and no writes.
type replicas struct {
	db       *DB
	standbys []*standby
	maxLag   time.Duration
	next     atomic.Uint32 // counter for choosing the standbys in rotation
	primary  atomic.Int64  // reads that could be stale, but that the primary served

	mu      sync.Mutex
	from    origin
	samples []sample // oldest first

	stop context.CancelFunc
	wait sync.WaitGroup
}

// origin identifies positions that can be compared: positions of one cluster on one timeline.
type origin struct {
	system   string
	timeline int64
}

// sample is a WAL position of the primary. position includes every commit before the time in `at`.
type sample struct {
	at       time.Time
	position int64
}

// standby is one host of the URL. Each standby has a separate pool, because standbys differ in how fresh they are.
type standby struct {
	name  string
	pool  *pgxpool.Pool
	eye   *pgxpool.Pool             // used only by probe, so that the standby does not seem dead while reads use all connections of pool
	fresh atomic.Pointer[time.Time] // the standby contains everything that was committed before this time; nil: unknown
	reads atomic.Int64              // reads that the standby served
	alive atomic.Pointer[life]

	missed int // consecutive probes without an answer; used only by probe
}

// life is a period in which a standby answers. The end of the period cancels all reads on the standby, because a machine that vanished closes no connection.
type life struct {
	ctx context.Context //nolint:containedctx // its end cancels the reads of many requests
	end context.CancelFunc
}

// revive starts a new life of a standby, and ends the previous life.
func (s *standby) revive() {
	ctx, end := context.WithCancel(context.Background())
	if old := s.alive.Swap(&life{ctx, end}); old != nil {
		old.end()
	}
}

// openReplicas opens the pools, and starts to read positions.
func (db *DB) openReplicas(ctx context.Context, r Replicas) error {
	cfg, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		return fmt.Errorf("read replica URL: %w", redactAs("DATABASE_REPLICA_URL", err))
	}
	setCommonSettings(cfg)
	all := &replicas{db: db, maxLag: r.MaxLag}
	db.replicas = all
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	all.stop = stop
	for _, ways := range hostsOf(&cfg.ConnConfig.Config) {
		own := cfg.Copy()
		own.MinConns = 0
		c := own.ConnConfig
		c.Host, c.Port, c.TLSConfig, c.Fallbacks = ways[0].Host, ways[0].Port, ways[0].TLSConfig, ways[1:]
		c.ValidateConnect = nil // the positions show whether the host is a standby
		s := &standby{name: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
		s.revive()
		eye := own.Copy()
		eye.MaxConns = 1
		if s.pool, err = pgxpool.NewWithConfig(ctx, own); err == nil {
			all.standbys = append(all.standbys, s)
			s.eye, err = pgxpool.NewWithConfig(ctx, eye)
		}
		if err != nil {
			return fmt.Errorf("open pool of replica: %w", redactAs("DATABASE_REPLICA_URL", err))
		}
		all.wait.Go(func() { every(watching, func(ctx context.Context) { all.probe(ctx, s) }) })
	}
	all.wait.Go(func() { every(watching, all.sample) })
	return nil
}

func (r *replicas) close() {
	r.stop()
	r.wait.Wait()
	for _, s := range r.standbys {
		s.alive.Load().end()
		s.pool.Close()
		if s.eye != nil { // openReplicas failed before it created this pool
			s.eye.Close()
		}
	}
}

// every calls do at the interval sampleEvery, until ctx ends.
func every(ctx context.Context, do func(context.Context)) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, sampleLimit)
		do(bounded)
		cancel()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// On the primary, the timeline is the start of the name of the WAL file. A standby has no WAL file name, but its control file contains the timeline, a new one
// after the next restart point. A standby that did not follow a promotion stays on the old timeline, and is not used again.
const (
	primarySample = `SELECT pg_wal_lsn_diff(l.lsn, '0/0')::bigint, ('x' || left(pg_walfile_name(l.lsn), 8))::bit(32)::bigint,
		(SELECT system_identifier FROM pg_control_system())::text FROM (SELECT pg_current_wal_lsn() AS lsn) l`
	standbySample = `SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint,
		(SELECT greatest(c.timeline_id, r.min_recovery_end_timeline) FROM pg_control_checkpoint() c, pg_control_recovery() r)::bigint,
		(SELECT system_identifier FROM pg_control_system())::text, pg_is_in_recovery()`
)

// sample reads the WAL position of the primary.
func (r *replicas) sample(ctx context.Context) {
	now := sample{at: time.Now()}
	var from origin
	if err := r.db.outside.QueryRow(ctx, primarySample).Scan(&now.position, &from.timeline, &from.system); err != nil {
		return // without a new sample, the known state of the standbys becomes older
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if from != r.from {
		r.from, r.samples = from, nil
		for _, s := range r.standbys {
			s.fresh.Store(nil)
		}
	}
	for len(r.samples) > 0 && now.at.Sub(r.samples[0].at) > r.maxLag+sampleEvery {
		r.samples = r.samples[1:]
	}
	r.samples = append(r.samples, now)
}

// probe reads the WAL position of a standby, and computes how fresh its state is.
func (r *replicas) probe(ctx context.Context, s *standby) {
	var position int64
	var from origin
	var isStandby bool
	if err := s.eye.QueryRow(ctx, standbySample).Scan(&position, &from.timeline, &from.system, &isStandby); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return
		}
		s.fresh.Store(nil)
		if errors.As(err, new(*pgconn.PgError)) {
			s.missed = 0 // the standby answers
		} else if s.missed++; s.missed > 1 { // one missed probe possibly reached a busy server
			s.revive()
		}
		return
	}
	s.missed = 0
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isStandby || from != r.from {
		s.fresh.Store(nil)
		return
	}
	for i := len(r.samples) - 1; i >= 0; i-- {
		if r.samples[i].position <= position {
			at := r.samples[i].at
			s.fresh.Store(&at)
			return
		}
	}
}

// lag returns the maximum age of the state of a standby. It is infinite if the age is unknown.
func (s *standby) lag() time.Duration {
	at := s.fresh.Load()
	if at == nil {
		return math.MaxInt64
	}
	return time.Since(*at)
}

// standbyFor returns the standby that serves a read with ctx. nil means that the primary serves it.
func (db *DB) standbyFor(ctx context.Context) *standby {
	if !db.mayBeStale(ctx) {
		return nil
	}
	r := db.replicas
	first := int(r.next.Add(1))
	for i := range r.standbys {
		if s := r.standbys[(first+i)%len(r.standbys)]; s.lag() <= r.maxLag {
			return s
		}
	}
	r.primary.Add(1)
	return nil
}

// read runs a read on a standby, and reports whether its result is valid. If not, the caller must read from the primary. Possible reasons: the standby
// cancelled the read in favour of the replay, stopped answering, has not yet replayed a migration, or refused the statement as a write.
func (db *DB) read(ctx context.Context, s *standby, do func(ctx context.Context) error) (bool, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	if deadline, isSet := ctx.Deadline(); isSet {
		var end context.CancelFunc
		within, end = context.WithTimeout(within, time.Until(deadline)/2) // the rest of the time is for the primary
		defer end()
	}
	isGone := s.alive.Load().ctx
	defer context.AfterFunc(isGone, cancel)()
	err := do(within)
	var refused *pgconn.PgError
	if err != nil && ctx.Err() == nil && (errors.As(err, &refused) || IsUnavailable(err) || isGone.Err() != nil) {
		db.replicas.primary.Add(1)
		return false, nil
	}
	s.reads.Add(1)
	return true, err
}

// queryStale runs Query on a standby. It reads all rows before it returns, because the standby can cancel the statement while it sends rows.
func (db *DB) queryStale(ctx context.Context, s *standby, sql string, args []any) (pgx.Rows, bool, error) {
	rows := &heldRows{types: pgtype.NewMap()}
	registerTypes(rows.types)
	isDone, err := db.read(ctx, s, func(ctx context.Context) error { return rows.read(s.pool.Query(ctx, sql, args...)) })
	return rows, isDone, err
}

// byKeyStale runs ByKey on a standby.
func (db *DB) byKeyStale(ctx context.Context, s *standby, fn func(tx Runner) error) (bool, error) {
	return db.read(ctx, s, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: byKeyBegin}, func(tx pgx.Tx) error { return fn(bound{tx, ctx}) })
	})
}

// bound runs statements with its own ctx, which has an earlier deadline than the ctx of the caller.
type bound struct {
	tx  pgx.Tx
	ctx context.Context
}

func (b bound) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return b.tx.Exec(b.ctx, sql, args...)
}

func (b bound) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	return b.tx.Query(b.ctx, sql, args...)
}

func (b bound) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	return b.tx.QueryRow(b.ctx, sql, args...)
}

// staleRow is the result of a statement that Scan runs, on a standby or on the primary.
type staleRow struct {
	db   Runner
	ctx  context.Context // a field, because pgx.Row.Scan has no parameter for a context
	sql  string
	args []any
}

// Scan implements pgx.Row.
func (r staleRow) Scan(dest ...any) error {
	rows, err := r.db.Query(r.ctx, r.sql, r.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// heldRows are rows that were read completely.
type heldRows struct {
	fields []pgconn.FieldDescription
	values [][][]byte
	at     int // number of calls of Next that returned a row
	tag    pgconn.CommandTag
	err    error // error of Scan
	types  *pgtype.Map
}

// read reads all rows of a query.
func (h *heldRows) read(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		row := make([][]byte, len(raw))
		for i, value := range raw { // RawValues is overwritten by the next row
			if value != nil {
				row[i] = append(make([]byte, 0, len(value)), value...)
			}
		}
		h.values = append(h.values, row)
	}
	rows.Close()
	h.fields, h.tag = append(h.fields, rows.FieldDescriptions()...), rows.CommandTag()
	return rows.Err()
}

func (h *heldRows) Close()                                       { h.at = len(h.values) + 1 }
func (h *heldRows) Err() error                                   { return h.err }
func (h *heldRows) CommandTag() pgconn.CommandTag                { return h.tag }
func (h *heldRows) FieldDescriptions() []pgconn.FieldDescription { return h.fields }
func (h *heldRows) Conn() *pgx.Conn                              { return nil }
func (h *heldRows) TypeMap() *pgtype.Map                         { return h.types }
func (h *heldRows) RawValues() [][]byte                          { return h.values[h.at-1] }

func (h *heldRows) Next() bool {
	if h.at >= len(h.values) {
		h.Close()
		return false
	}
	h.at++
	return true
}

func (h *heldRows) Scan(dest ...any) error {
	err := pgx.ScanRow(h.types, h.fields, h.RawValues(), dest...)
	if err != nil {
		h.err = err
		h.Close()
	}
	return err
}

func (h *heldRows) Values() ([]any, error) {
	return nil, errors.New("rows of a replica are read by Scan")
}
