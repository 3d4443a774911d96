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

// Replicas are standbys that answer reads which may be stale.
type Replicas struct {
	URL    string        // may name several hosts, of which one that leads is skipped; empty: none
	MaxLag time.Duration // the oldest state that a read may see
}

type staleKey struct{}

// MayBeStale returns a context whose reads may see a state that is up to Replicas.MaxLag old: outside transactions, those of Query, QueryRow, ByKey
// and InPartitions run on a replica if one is fresh. Give it to requests that decide nothing, and of which nobody expects its own last change.
func MayBeStale(ctx context.Context) context.Context { return context.WithValue(ctx, staleKey{}, true) }

// mayBeStale reports whether a read with ctx can run on a standby, if one is fresh.
func (db *DB) mayBeStale(ctx context.Context) bool {
	return db.replicas != nil && ctx.Value(staleKey{}) != nil && !db.InTx(ctx)
}

const (
	// sampleEvery is how often the positions of the primary and of the replicas are read.
	sampleEvery = time.Second
	// sampleLimit bounds one reading.
	sampleLimit = 2 * time.Second
)

// replicas chooses the standby for a read.
//
// How old the state of a standby is cannot be read from it: its last transaction may be old because none followed. Instead the primary's position
// in the WAL is read every second, together with the time here. A standby that has replayed a position has all that was committed before the
// primary was asked, and is as fresh as that time says. This needs no common clock, and no writes.
type replicas struct {
	db       *DB
	standbys []*standby
	maxLag   time.Duration
	next     atomic.Uint32 // standbys take turns
	primary  atomic.Int64  // reads that might have been stale, and that the primary served

	mu      sync.Mutex
	from    origin
	samples []sample // oldest first

	stop context.CancelFunc
	wait sync.WaitGroup
}

// origin says whose positions can be compared: those of one cluster on one timeline.
type origin struct {
	system   string
	timeline int64
}

// sample is a position of the primary. All that it had committed at the time is before it.
type sample struct {
	at       time.Time
	position int64
}

// standby is one host of the URL. Each has a pool of its own, because each has a state of its own.
type standby struct {
	name  string
	pool  *pgxpool.Pool
	eye   *pgxpool.Pool             // of look alone: reads that take all connections of pool do not make the standby look dead
	fresh atomic.Pointer[time.Time] // all that was committed until then is there; nil: not known
	reads atomic.Int64              // which it served
	alive atomic.Pointer[life]

	missed int // looks in a row that got no answer; of look alone
}

// life is the time in which a standby answers. Reads on it end with it: a machine that vanished closes no connection.
type life struct {
	ctx context.Context //nolint:containedctx // the end of many reads of different requests
	end context.CancelFunc
}

// revive begins a life of a standby, and ends the one before.
func (s *standby) revive() {
	ctx, end := context.WithCancel(context.Background())
	if old := s.alive.Swap(&life{ctx, end}); old != nil {
		old.end()
	}
}

// openReplicas opens the pools, and begins to read positions.
func (db *DB) openReplicas(ctx context.Context, r Replicas) error {
	cfg, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		return fmt.Errorf("read replica URL: %w", redactAs("DATABASE_REPLICA_URL", err))
	}
	usual(cfg)
	all := &replicas{db: db, maxLag: r.MaxLag}
	db.replicas = all
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	all.stop = stop
	for _, ways := range hostsOf(&cfg.ConnConfig.Config) {
		own := cfg.Copy()
		own.MinConns = 0
		c := own.ConnConfig
		c.Host, c.Port, c.TLSConfig, c.Fallbacks = ways[0].Host, ways[0].Port, ways[0].TLSConfig, ways[1:]
		c.ValidateConnect = nil // the positions say whether it is a standby
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
		all.wait.Go(func() { every(watching, func(ctx context.Context) { all.look(ctx, s) }) })
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
		if s.eye != nil { // openReplicas failed before it
			s.eye.Close()
		}
	}
}

// every calls do each second until ctx ends.
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

// The name of a WAL file begins with the timeline that the primary writes; a standby has no such name. The control file of a standby knows a new
// timeline from the next restart point on. A standby that went on after another one was promoted stays on the old timeline, and is not used again.
const (
	primarySample = `SELECT pg_wal_lsn_diff(l.lsn, '0/0')::bigint, ('x' || left(pg_walfile_name(l.lsn), 8))::bit(32)::bigint,
		(SELECT system_identifier FROM pg_control_system())::text FROM (SELECT pg_current_wal_lsn() AS lsn) l`
	standbySample = `SELECT coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint,
		(SELECT greatest(c.timeline_id, r.min_recovery_end_timeline) FROM pg_control_checkpoint() c, pg_control_recovery() r)::bigint,
		(SELECT system_identifier FROM pg_control_system())::text, pg_is_in_recovery()`
)

// sample reads the position of the primary.
func (r *replicas) sample(ctx context.Context) {
	now := sample{at: time.Now()}
	var from origin
	if err := r.db.outside.QueryRow(ctx, primarySample).Scan(&now.position, &from.timeline, &from.system); err != nil {
		return // the samples grow old, and with them the standbys
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

// look reads the position of a standby, and how fresh that is.
func (r *replicas) look(ctx context.Context, s *standby) {
	var position int64
	var from origin
	var isStandby bool
	if err := s.eye.QueryRow(ctx, standbySample).Scan(&position, &from.timeline, &from.system, &isStandby); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return
		}
		s.fresh.Store(nil)
		if errors.As(err, new(*pgconn.PgError)) {
			s.missed = 0 // it answers
		} else if s.missed++; s.missed > 1 { // one may have come to a busy server
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

// lag returns how old the state of a standby may be; infinite if nobody knows.
func (s *standby) lag() time.Duration {
	at := s.fresh.Load()
	if at == nil {
		return math.MaxInt64
	}
	return time.Since(*at)
}

// standbyFor returns the standby that serves a read with ctx; nil: the primary does.
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

// read runs a read on a standby, and reports whether its result stands. If not, the primary must be asked: the standby cancelled the read because
// it had to replay something else, answers nothing any more, has not replayed a migration, or refused the statement because it writes.
func (db *DB) read(ctx context.Context, s *standby, do func(ctx context.Context) error) (bool, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	if deadline, isSet := ctx.Deadline(); isSet {
		var end context.CancelFunc
		within, end = context.WithTimeout(within, time.Until(deadline)/2) // the primary needs time too
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

// queryStale is Query on a standby. It reads all rows at once: the standby may cancel a statement while they come.
func (db *DB) queryStale(ctx context.Context, s *standby, sql string, args []any) (pgx.Rows, bool, error) {
	rows := &heldRows{types: pgtype.NewMap()}
	registerTypes(rows.types)
	isDone, err := db.read(ctx, s, func(ctx context.Context) error { return rows.read(s.pool.Query(ctx, sql, args...)) })
	return rows, isDone, err
}

// byKeyStale is ByKey on a standby.
func (db *DB) byKeyStale(ctx context.Context, s *standby, fn func(tx Runner) error) (bool, error) {
	return db.read(ctx, s, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: byKeyBegin}, func(tx pgx.Tx) error { return fn(bound{tx, ctx}) })
	})
}

// bound runs statements within a deadline of its own, which is before that of the ctx that fn passes.
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

// staleRow is the row of a statement that runs when it is scanned, on a standby or on the primary.
type staleRow struct {
	db   Runner
	ctx  context.Context // pgx.Row.Scan takes none
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
	at     int // one behind the row of Next
	tag    pgconn.CommandTag
	err    error // of Scan
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
		for i, value := range raw { // which the next row overwrites
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
