package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
)

// Outcome is the result of one submission in a group.
type Outcome struct {
	Submitted
	Err error
}

// SubmitAll works like Submit for several submissions. The outcomes have the order of the submissions. A refused submission does not stop the others. An
// error comes from the database. In a transaction of the caller, an error means that no submission was stored. Otherwise the error means that no submission
// is known to be stored.
func (s *Service) SubmitAll(ctx context.Context, subs []Submission, origin Origin) ([]Outcome, error) {
	return s.submitAll(ctx, subs, origin.CompanyID, func(int) Origin { return origin })
}

// submitAll works like SubmitAll, but each submission has its own origin. All submissions belong to one company.
func (s *Service) submitAll(ctx context.Context, subs []Submission, companyID int64, originOf func(i int) Origin) ([]Outcome, error) {
	b := batch{
		s: s, inTx: s.db.InTx(ctx), subs: subs, originOf: originOf, outcomes: make([]Outcome, len(subs)), named: map[dedupName]bool{}, firsts: map[dedupName]int{},
	}
	rows, errs := s.prepareAll(ctx, subs, companyID, originOf)
	for i, sub := range subs {
		row, err := rows[i], errs[i]
		isReady := err == nil && !sub.isDefault()
		isNamed := sub.DedupKey != nil && b.named[b.nameOf(i)]
		switch {
		case isReady:
			b.add(i, row, false)
		case b.inTx && isNamed:
			b.repeats = append(b.repeats, i)
		case b.inTx:
			b.takeDefault(ctx, i, row, err)
		default:
			if isNamed { // another submission with the same dedup key precedes this submission and must be stored first
				b.store(ctx)
			}
			b.submit(ctx, i)
		}
	}
	b.store(ctx)
	b.repeat(ctx)
	return b.ended(ctx)
}

// prepareAll works like prepare for several submissions of a company. It decides about all recipients together.
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

// batch is a call of SubmitAll in progress.
//
// In a transaction of the caller, one statement at the end stores all tasks, because this statement locks the ranks of the company. Until the transaction
// ends, other submissions of the company wait for the lock. Submissions of other companies that were merged with waiting submissions also wait. Default
// contents are consumed before that statement. Every transaction locks default contents before ranks, so that two transactions cannot deadlock.
type batch struct {
	s        *Service
	inTx     bool // SubmitAll runs in a transaction of its caller
	subs     []Submission
	originOf func(i int) Origin // origin of the submission with index i
	outcomes []Outcome          // outcomes in the order of subs

	rows    []batchRow
	named   map[dedupName]bool // dedup keys of rows
	firsts  map[dedupName]int  // index of the submission that created the task with a dedup key in this batch
	repeats []int              // indexes of submissions whose dedup key is used by another submission of this batch or by an earlier task
	broken  error              // why the transaction must not be committed
}

// dedupName is a dedup key of one user in a company.
type dedupName struct{ user, key string }

// nameOf returns the dedup key of the submission with index i, which has one.
func (b *batch) nameOf(i int) dedupName { return dedupName{b.originOf(i).User, *b.subs[i].DedupKey} }

// submit submits one message alone.
func (b *batch) submit(ctx context.Context, i int) {
	o := &b.outcomes[i]
	if o.Submitted, o.Err = b.s.Submit(ctx, b.subs[i], b.originOf(i)); o.Err == nil && !o.Deduplicated {
		b.made(i)
	}
}

// made records that the submission with index i created a task.
func (b *batch) made(i int) {
	if b.subs[i].DedupKey != nil {
		b.firsts[b.nameOf(i)] = i
	}
}

// isRefusal reports whether the submission with index i was refused, and a later submission created the task with its dedup key: it is no repeat then.
func (b *batch) isRefusal(i int) bool {
	first, isMade := b.firsts[b.nameOf(i)]
	err := b.outcomes[i].Err
	return err != nil && !errors.Is(err, errRepeated) && isMade && i < first
}

// batchRow is a task to store.
type batchRow struct {
	newTask
	of        int  // index of its submission
	isDefault bool // the text is a default content that was consumed for this task
}

func (b *batch) add(i int, row newTask, isDefault bool) {
	b.rows = append(b.rows, batchRow{row, i, isDefault})
	if row.DedupKey != nil {
		b.named[dedupName{row.User, *row.DedupKey}] = true
	}
}

// takeDefault consumes the default content for a submission without text, unless the dedup key of the submission is used. A non-nil wrong is the reason why
// the submission must be refused.
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
	case !b.isRepeat(ctx, i): // checked a second time: the first submission with this dedup key can have consumed the default content meanwhile
		b.outcomes[i].Err = wrong
	}
}

// isRepeat reports whether the dedup key of a submission is used. If the key is used or the query fails, isRepeat sets the outcome of the submission.
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

// maxPortion is the maximum number of messages that one transaction stores for a batch without an Idempotency-Key. It is also the maximum number of repeats
// and refused messages that one statement logs for any batch. The transaction locks the ranks of its company. Other submissions of this company wait for the
// lock. Submissions of other companies that were merged with a waiting submission also wait. A large transaction also uses PostgreSQL for a long time, and
// single messages of other users wait for it.
const maxPortion = 100

// store stores rows in portions, in their order. In a transaction of the caller, all rows are one portion. Several portions would lock the ranks in a
// different order and could deadlock with other submissions. A row whose dedup key is used becomes a repeat.
func (b *batch) store(ctx context.Context) {
	maxSize := maxPortion
	if b.inTx {
		maxSize = max(1, len(b.rows))
	}
	for portion := range slices.Chunk(b.rows, maxSize) {
		for i, result := range runAllThenEach(ctx, b, portion, b.s.storeRows) {
			row := portion[i]
			switch {
			case result.Err != nil:
				b.outcomes[row.of].Err = result.Err
				b.giveBack(ctx, row)
			case result.Out == nil:
				b.outcomes[row.of].Submitted = row.submitted()
				b.made(row.of)
			case !errors.Is(result.Out, errRepeated) && row.DedupKey == nil:
				b.outcomes[row.of].Err = result.Out
				b.giveBack(ctx, row)
			default: // a repeat; a refused row can be one, too
				b.outcomes[row.of].Err = result.Out
				b.repeats = append(b.repeats, row.of)
				b.giveBack(ctx, row)
			}
		}
	}
	b.rows = nil
	clear(b.named)
}

func (s *Service) storeRows(ctx context.Context, rows []batchRow) ([]error, error) {
	tasks := make([]newTask, len(rows))
	for i, row := range rows {
		tasks[i] = row.newTask
	}
	return s.storeAll(ctx, tasks)
}

// repeat sets the outcome of each repeat to the task that has its dedup key.
func (b *batch) repeat(ctx context.Context) {
	slices.Sort(b.repeats)
	b.repeats = slices.DeleteFunc(b.repeats, b.isRefusal)
	for portion := range slices.Chunk(b.repeats, maxPortion) {
		for i, result := range runAllThenEach(ctx, b, portion, b.firstTasksOf) {
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
				o.Submitted, o.Err = *first, nil
			default: // the first submission was not stored, so this submission is submitted again; it can consume a default content although ranks are locked
				b.submit(ctx, of)
			}
		}
	}
}

// firstTasksOf returns the tasks that have the dedup keys of repeats, in the order of repeats. It also logs the repeats. Repeats of one origin are logged
// together.
func (b *batch) firstTasksOf(ctx context.Context, repeats []int) ([]merge.Result[*Submitted], error) {
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

// runAllThenEach runs all items together. If this run fails, runAllThenEach runs each item separately. Each run has its own transaction or savepoint.
func runAllThenEach[In, Out any](ctx context.Context, b *batch, items []In, run func(context.Context, []In) ([]Out, error)) []merge.Result[Out] {
	isHopeless := func(err error) bool { // a transaction keeps its locks until it ends, so another try would cause the same deadlock
		return ctx.Err() != nil || queue.IsHopeless(err) || b.inTx && postgres.IsUnavailable(err)
	}
	return merge.Apart(items, func(items []In) ([]Out, error) {
		// The retry is here and not in storeAll, because in storeAll the failed transaction cannot continue.
		return postgres.Again(ctx, b.s.db, func() (outs []Out, err error) {
			err = b.s.db.Tx(ctx, func(ctx context.Context) (err error) {
				outs, err = run(ctx, items)
				return err
			})
			return outs, err
		})
	}, isHopeless)
}

// ended returns the outcomes. If no message is known to be stored, it returns an error instead: the error of the database, or the cause of ctx if ctx has
// ended.
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
		return b.outcomes, nil // the known outcomes are more useful than one error for all submissions
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return b.outcomes, lost
}
