package submit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
)

// Outcome is the result of one submission of several.
type Outcome struct {
	Submitted
	Err error
}

// SubmitAll is Submit for several. Each submission has its own outcome, in their order; a bad one does not hold up the others. An
// error is the database's, and means that none is known to be stored; in a transaction, that none is.
func (s *Service) SubmitAll(ctx context.Context, subs []Submission, origin Origin) ([]Outcome, error) {
	return s.submitAll(ctx, subs, origin.CompanyID, func(int) Origin { return origin })
}

// submitAll is SubmitAll for submissions of a company with an origin each.
func (s *Service) submitAll(ctx context.Context, subs []Submission, companyID int64, originOf func(i int) Origin) ([]Outcome, error) {
	b := batch{
		s: s, inTx: s.db.InTx(ctx), subs: subs, originOf: originOf, outcomes: make([]Outcome, len(subs)), named: map[dedupName]bool{},
	}
	rows, errs := s.prepareAll(ctx, subs, companyID, originOf)
	for i, sub := range subs {
		origin, row, err := originOf(i), rows[i], errs[i]
		isReady := err == nil && !sub.isDefault()
		isNamed := sub.DedupKey != nil && b.named[dedupName{origin.User, *sub.DedupKey}]
		switch {
		case isReady:
			b.add(i, row, false)
		case b.inTx && isNamed:
			b.repeats = append(b.repeats, i)
		case b.inTx:
			b.takeDefault(ctx, i, row, err)
		default:
			if isNamed { // the first submission with this dedup key must be stored before
				b.store(ctx)
			}
			b.outcomes[i].Submitted, b.outcomes[i].Err = s.Submit(ctx, sub, origin)
		}
	}
	b.store(ctx)
	b.repeat(ctx)
	return b.ended(ctx)
}

// prepareAll is prepare for several submissions of a company. It decides about all recipients together.
func (s *Service) prepareAll(ctx context.Context, subs []Submission, companyID int64, originOf func(i int) Origin) ([]newTask, []error) {
	rows, errs := make([]newTask, len(subs)), make([]error, len(subs))
	templates, asOf := s.templates.Finder(companyID), time.Now()
	var ready []*newTask
	var indexes []int
	for i, sub := range subs {
		if rows[i], errs[i] = s.read(ctx, asOf, sub, originOf(i), templates); errs[i] == nil && !sub.isDefault() {
			ready, indexes = append(ready, &rows[i]), append(indexes, i)
		}
	}
	for n, err := range s.putAll(ctx, ready) {
		errs[indexes[n]] = err
	}
	return rows, errs
}

// batch is a SubmitAll in progress.
//
// In a transaction everything is stored by one statement at the end, because that locks the ranks of the company: other submissions of
// the company wait for them until the transaction ends, and with those the submissions of other companies that were merged with them.
// Default contents are consumed before; every transaction locks them before ranks, so that two do not wait for each other.
type batch struct {
	s        *Service
	inTx     bool // SubmitAll is part of a transaction of its caller
	subs     []Submission
	originOf func(i int) Origin // of subs
	outcomes []Outcome          // of subs

	rows    []batchRow
	named   map[dedupName]bool // dedup keys of rows
	repeats []int              // submissions whose dedup key another one has taken, in this batch or before
	broken  error              // why the transaction must not be committed
}

// dedupName is a dedup key of a user of a company.
type dedupName struct{ user, key string }

// batchRow is a task to store.
type batchRow struct {
	newTask
	of        int  // index of its submission
	isDefault bool // its text is a default content, which was consumed for it
}

func (b *batch) add(i int, row newTask, isDefault bool) {
	b.rows = append(b.rows, batchRow{row, i, isDefault})
	if row.DedupKey != nil {
		b.named[dedupName{row.User, *row.DedupKey}] = true
	}
}

// takeDefault consumes the default content for a submission without text, unless its dedup key is taken. wrong is why the submission
// must be refused, if so.
func (b *batch) takeDefault(ctx context.Context, i int, row newTask, wrong error) {
	if b.isRepeat(ctx, i) {
		return
	}
	if wrong == nil {
		wrong = b.s.db.Tx(ctx, func(ctx context.Context) error {
			return b.s.consumeDefault(ctx, &row)
		})
	}
	switch {
	case wrong == nil:
		b.add(i, row, !row.isSimulated())
	case !b.isRepeat(ctx, i): // again: the first submission with this dedup key may have consumed the default content meanwhile
		b.outcomes[i].Err = wrong
	}
}

// isRepeat reports whether the dedup key of a submission is taken, and sets its outcome if so. An error of the look-up is an outcome too.
func (b *batch) isRepeat(ctx context.Context, i int) bool {
	if b.subs[i].DedupKey == nil {
		return false
	}
	first, err := b.s.repeated(ctx, b.subs[i], b.originOf(i))
	if first != nil {
		b.outcomes[i].Submitted = *first
	}
	b.outcomes[i].Err = err
	return first != nil || err != nil
}

// giveBack returns the default content of a row that was not stored, so that it can be sent again.
func (b *batch) giveBack(ctx context.Context, row batchRow) {
	if !row.isDefault {
		return
	}
	err := b.s.db.Tx(ctx, func(ctx context.Context) error {
		return b.s.templates.ReturnDefault(ctx, row.CompanyID, row.recipient)
	})
	if err != nil {
		b.broken = err
	}
}

// maxPortion bounds how many messages of a batch without an Idempotency-Key one transaction stores, and how many repeats and refused
// messages of any batch one statement logs. The transaction locks the ranks of its company: other submissions of that company wait, and
// those of other companies that were merged with them. It also keeps PostgreSQL busy, for which single messages of others wait.
const maxPortion = 100

// store stores rows in portions, in their order. In a transaction they are one portion: several would lock the ranks in an order
// of their own, and could deadlock with other submissions. A row whose dedup key is taken becomes a repeat.
func (b *batch) store(ctx context.Context) {
	most := maxPortion
	if b.inTx {
		most = max(1, len(b.rows))
	}
	for portion := range slices.Chunk(b.rows, most) {
		for i, result := range apart(ctx, b, portion, b.s.storeRows) {
			row := portion[i]
			switch {
			case result.Err != nil:
				b.outcomes[row.of].Err = result.Err
				b.giveBack(ctx, row)
			case result.Out:
				b.outcomes[row.of].Submitted = row.submitted()
			default:
				b.repeats = append(b.repeats, row.of)
				b.giveBack(ctx, row)
			}
		}
	}
	b.rows = nil
	clear(b.named)
}

func (s *Service) storeRows(ctx context.Context, rows []batchRow) ([]bool, error) {
	tasks := make([]newTask, len(rows))
	for i, row := range rows {
		tasks[i] = row.newTask
	}
	return s.storeAll(ctx, tasks)
}

// repeat gives repeats the tasks that have their dedup keys.
func (b *batch) repeat(ctx context.Context) {
	for portion := range slices.Chunk(b.repeats, maxPortion) {
		for i, result := range apart(ctx, b, portion, b.firstsOf) {
			of := portion[i]
			o := &b.outcomes[of]
			first := result.Out.Out
			switch {
			case result.Err != nil:
				o.Err = result.Err
			case result.Out.Err != nil:
				o.Err = fmt.Errorf("read task by dedup key: %w", result.Out.Err)
			case first != nil && first.isDropped:
				o.Err = errDropped
			case first != nil:
				o.Submitted = *first
			default: // the first submission was not stored; this one may consume a default content although ranks are locked
				o.Submitted, o.Err = b.s.Submit(ctx, b.subs[of], b.originOf(of))
			}
		}
	}
}

// firstsOf returns the tasks that have the dedup keys of repeats, in their order, and logs the repeats, those of one origin together.
func (b *batch) firstsOf(ctx context.Context, repeats []int) ([]merge.Result[*Submitted], error) {
	firsts := make([]merge.Result[*Submitted], len(repeats))
	isDone := make([]bool, len(repeats))
	for i, of := range repeats {
		if isDone[i] {
			continue
		}
		origin := b.originOf(of)
		var subs []Submission
		var indexes []int
		for j := i; j < len(repeats); j++ {
			if !isDone[j] && b.originOf(repeats[j]) == origin {
				subs, indexes, isDone[j] = append(subs, b.subs[repeats[j]]), append(indexes, j), true
			}
		}
		found, err := b.s.allRepeated(ctx, subs, origin)
		if err != nil {
			return nil, err
		}
		for n, index := range indexes {
			firsts[index] = found[n]
		}
	}
	return firsts, nil
}

// apart runs items together, and apart if that fails, each time in a transaction or a savepoint of its own.
func apart[In, Out any](ctx context.Context, b *batch, items []In, run func(context.Context, []In) ([]Out, error)) []merge.Result[Out] {
	isHopeless := func(err error) bool { // a transaction keeps its locks to its end: another try would meet the same deadlock
		return ctx.Err() != nil || queue.IsHopeless(err) || b.inTx && postgres.IsUnavailable(err)
	}
	return merge.Apart(items, func(items []In) ([]Out, error) {
		// Not in storeAll: there, the transaction is broken.
		return postgres.Again(ctx, b.s.db, func() (outs []Out, err error) {
			err = b.s.db.Tx(ctx, func(ctx context.Context) (err error) {
				outs, err = run(ctx, items)
				return err
			})
			return outs, err
		})
	}, isHopeless)
}

// ended returns the outcomes, or an error if nothing is known to be stored: that of the database, or the cause of ctx if ctx has ended.
func (b *batch) ended(ctx context.Context) ([]Outcome, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	var lost error
	made := 0
	for _, o := range b.outcomes {
		switch {
		case o.Err == nil:
			made++
		case postgres.IsUnavailable(o.Err):
			lost = o.Err
		}
	}
	switch {
	case made > 0 && !b.inTx:
		return b.outcomes, nil // the outcomes that are known are worth more than one error for all
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return b.outcomes, lost
}
