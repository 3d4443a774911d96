package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/merge"
	"lksms/internal/postgres"
	"lksms/internal/template"
)

// Outcome is what became of one submission of several.
type Outcome struct {
	Submitted
	Err error
}

// SubmitAll is Submit for several: each has its own outcome, in their order, and a bad one does not hold up the others.
// An error is the database's, and means that none is known to be stored; in a transaction, that none is.
func (s *Service) SubmitAll(ctx context.Context, subs []Submission, origin Origin) ([]Outcome, error) {
	b := submitting{s: s, origin: origin, outcomes: make([]Outcome, len(subs)), named: map[string]bool{}}
	active := sync.OnceValues(func() (dbq.Template, error) { return s.templates.Active(ctx, origin.CompanyID) })
	render := func(params string) (template.Text, error) {
		t, err := active()
		if err != nil {
			return template.Text{}, err
		}
		return template.With(t, params)
	}
	asOf := time.Now()
	for i, sub := range subs {
		row, err := s.prepare(ctx, asOf, sub, origin, render)
		isReady := err == nil && row.final.Content != ""
		isNamed := sub.DedupKey != nil && b.named[*sub.DedupKey]
		switch {
		case isReady:
			b.add(i, row, false)
		case s.db.InTx(ctx) && isNamed:
			b.repeats = append(b.repeats, i)
		case s.db.InTx(ctx):
			b.takeDefault(ctx, i, sub, row, err)
		default:
			if isNamed { // the first of its name must be there before it
				b.store(ctx)
			}
			b.outcomes[i].Submitted, b.outcomes[i].Err = s.Submit(ctx, sub, origin)
		}
	}
	b.store(ctx)
	b.repeat(ctx, subs)
	return b.ended(ctx)
}

// submitting is a SubmitAll under way.
//
// In a transaction everything is stored by one statement at the end, because that locks the ranks of the company: other submissions of
// the company wait for them until the transaction ends, and with those the submissions of other companies that were merged with them.
// Default contents are consumed before; every transaction locks them before ranks, so that two do not wait for each other.
type submitting struct {
	s        *Service
	origin   Origin
	outcomes []Outcome

	rows    []stored
	named   map[string]bool // dedup keys of rows
	repeats []int           // outcomes of submissions whose dedup key one of rows has
	broken  error           // why the transaction must not be committed
}

// stored is a task that is going to be stored.
type stored struct {
	newTask
	outcome   int  // its index
	isDefault bool // its text is a default content, which was consumed for it
}

func (b *submitting) add(i int, row newTask, isDefault bool) {
	b.rows = append(b.rows, stored{row, i, isDefault})
	if row.DedupKey != nil {
		b.named[*row.DedupKey] = true
	}
}

// takeDefault consumes the default content for a submission that has no text, unless its dedup key is taken or it is wrong.
func (b *submitting) takeDefault(ctx context.Context, i int, sub Submission, row newTask, wrong error) {
	if b.isRepeat(ctx, i, sub) {
		return
	}
	if wrong == nil {
		wrong = b.s.db.Tx(ctx, func(ctx context.Context) (err error) {
			row.final, err = b.s.templates.ConsumeDefault(ctx, row.CompanyID, row.recipient)
			return err
		})
	}
	switch {
	case wrong == nil:
		b.add(i, row, true)
	case !b.isRepeat(ctx, i, sub): // asked again: the first of the name may have consumed the default content meanwhile
		b.outcomes[i].Err = wrong
	}
}

// isRepeat reports whether the outcome of a submission is known: that of the first of its name, or that it cannot be looked up.
func (b *submitting) isRepeat(ctx context.Context, i int, sub Submission) bool {
	if sub.DedupKey == nil {
		return false
	}
	first, err := b.s.repeated(ctx, sub, b.origin)
	if first != nil {
		b.outcomes[i].Submitted = *first
	}
	b.outcomes[i].Err = err
	return first != nil || err != nil
}

// giveBack lets the default content of a row be sent again, because the row was not stored.
func (b *submitting) giveBack(ctx context.Context, row stored) {
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

// portionMost is how many messages of a batch without an Idempotency-Key are stored by one transaction, and how many refused ones are
// logged. It locks the ranks of its company, and other submissions of that company wait, with those of other companies that were
// merged with them. It also keeps PostgreSQL busy, for which single messages of others wait.
const portionMost = 100

// store stores rows in portions, in their order. Inside a transaction they are one portion: several would lock the ranks in an order
// of their own, and could deadlock with other submissions.
func (b *submitting) store(ctx context.Context) {
	most := portionMost
	if b.s.db.InTx(ctx) {
		most = max(1, len(b.rows))
	}
	for portion := range slices.Chunk(b.rows, most) {
		b.storePortion(ctx, portion)
	}
	b.rows = nil
	clear(b.named)
}

// storePortion stores tasks together. A task whose dedup key is taken gets the outcome of the first one.
func (b *submitting) storePortion(ctx context.Context, rows []stored) {
	isHopeless := func(err error) bool { // what locks the transaction holds, it holds until its end: another try meets the same deadlock
		return ctx.Err() != nil || isHopeless(err) || b.s.db.InTx(ctx) && postgres.IsUnavailable(err)
	}
	var taken []stored
	for i, result := range merge.Apart(rows, func(rows []stored) (made []bool, err error) {
		tasks := make([]newTask, len(rows))
		for i, row := range rows {
			tasks[i] = row.newTask
		}
		err = b.s.db.Tx(ctx, func(ctx context.Context) (err error) {
			made, err = b.s.storeAll(ctx, tasks)
			return err
		})
		return made, err
	}, isHopeless) {
		row := rows[i]
		switch {
		case result.Err != nil:
			b.outcomes[row.outcome].Err = result.Err
			b.giveBack(ctx, row)
		case result.Out:
			b.outcomes[row.outcome].Submitted = row.submitted()
		default:
			taken = append(taken, row)
			b.giveBack(ctx, row)
		}
	}
	if len(taken) == 0 {
		return
	}
	for i, result := range merge.Apart(taken, func(taken []stored) (firsts []*Submitted, err error) {
		err = b.s.db.Tx(ctx, func(ctx context.Context) (err error) {
			firsts, err = b.firsts(ctx, taken)
			return err
		})
		return firsts, err
	}, isHopeless) {
		o := &b.outcomes[taken[i].outcome]
		switch {
		case result.Err != nil:
			o.Err = result.Err
		case result.Out == nil:
			o.Err = errRepeated // and gone since
		default:
			o.Submitted = *result.Out
		}
	}
}

// firsts gives the tasks that the dedup keys of others name.
func (b *submitting) firsts(ctx context.Context, taken []stored) ([]*Submitted, error) {
	subs := make([]Submission, len(taken))
	for i, row := range taken {
		subs[i] = row.Submission
	}
	return b.s.allRepeated(ctx, subs, b.origin)
}

// repeat gives repeats the outcomes of the first of their names.
func (b *submitting) repeat(ctx context.Context, subs []Submission) {
	if len(b.repeats) == 0 {
		return
	}
	again := make([]Submission, len(b.repeats))
	for i, of := range b.repeats {
		again[i] = subs[of]
	}
	firsts, err := b.s.allRepeated(ctx, again, b.origin)
	for i, of := range b.repeats {
		o := &b.outcomes[of]
		switch {
		case err != nil:
			o.Err = err
		case firsts[i] != nil:
			o.Submitted = *firsts[i]
		default: // the first could not be stored; this may consume a default content when ranks are locked
			o.Submitted, o.Err = b.s.Submit(ctx, subs[of], b.origin)
		}
	}
}

// ended gives the outcomes, or the error of the database if it is the only one to tell.
func (b *submitting) ended(ctx context.Context) ([]Outcome, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	var gone error
	made := 0
	for _, o := range b.outcomes {
		switch {
		case o.Err == nil:
			made++
		case postgres.IsUnavailable(o.Err):
			gone = o.Err
		}
	}
	if made > 0 && !b.s.db.InTx(ctx) {
		gone = nil // what is known is worth more than one word for all
	}
	return b.outcomes, gone
}
