package model

import (
	"slices"
	"time"
)

// This file contains the rules about recipients: which messages a person gets, and when. They are the promises of docs/receiving.md and docs/dispatch.md.

// block forbids messages of a company (nil: all companies) to a number.
type block struct {
	company *company
	to      number
	scope   string
	expires *time.Time
}

// forbids reports whether a block forbids messages of a company and type to a number, unless it has expired.
func (b *block) forbids(c *company, kind string, to number) bool {
	return b.to == to && (b.company == nil || b.company == c) && (b.scope == "all" || b.scope == kind)
}

func (w *world) isExpired(b *block) bool { return b.expires != nil && !b.expires.After(w.now) }

// isBlocked reports whether a block forbids messages of a company and type to a number.
func (w *world) isBlocked(c *company, kind string, to number) bool {
	return slices.ContainsFunc(w.blocks, func(b *block) bool { return !w.isExpired(b) && b.forbids(c, kind, to) })
}

// isFree reports whether no rule about recipients concerns messages of a company and type to a number.
func (w *world) isFree(c *company, kind string, to number) bool {
	return !w.isBlocked(c, kind, to) && c.caps[kind] == (caps{})
}

// block adds a block, or changes the expiry of the block that exists. It cancels waiting messages, and returns the messages that senders have leased: each of
// them can still be sent once.
func (w *world) block(b *block) (cancelled int, held []*task) {
	w.blocks = append(slices.DeleteFunc(w.blocks, func(o *block) bool { return o.company == b.company && o.to == b.to && o.scope == b.scope }), b)
	for _, t := range w.tasks {
		switch {
		case !b.forbids(t.company, t.kind, t.to):
		case t.status == pending:
			cancelled++
			w.cancel(t)
		case t.status == processing:
			held = append(held, t)
			if t.lastsUntil(w.now) {
				now := w.now
				t.stopped = &now
			}
		}
	}
	return cancelled, held
}

// unblock deletes the blocks of a number that a company has; nil: the blocks that apply to all companies. An empty scope means every scope.
func (w *world) unblock(c *company, to number, scope string) (deleted int) {
	before := len(w.blocks)
	w.blocks = slices.DeleteFunc(w.blocks, func(b *block) bool { return b.company == c && b.to == to && (scope == "" || b.scope == scope) })
	return before - len(w.blocks)
}

// deleteExpiredBlocks deletes the blocks that have expired, and returns their number.
func (w *world) deleteExpiredBlocks() int {
	before := len(w.blocks)
	w.blocks = slices.DeleteFunc(w.blocks, w.isExpired)
	return before - len(w.blocks)
}

// caps are the maximum numbers of messages within a minute, an hour and 24 hours; 0: no maximum.
type caps [3]int

var periods = [3]time.Duration{time.Minute, time.Hour, 24 * time.Hour}

// capped identifies one list of counted messages: the messages of a company and type to a number.
type capped struct {
	company *company
	kind    string
	to      number
}

// counted is a counted message. isSure is false if the service possibly does not count the message, or counts it for another time.
type counted struct {
	task   *task
	at     time.Time
	isSure bool
}

func (t *task) capped() capped { return capped{t.company, t.kind, t.to} }

// isTakenBack reports whether a task was cancelled, or has expired, before a sender had it. Caps do not count such a message.
func (t *task) isTakenBack() bool {
	return (t.status == cancelled || t.status == failed) && len(t.leasedTo) == 0
}

// wouldExceed reports whether one more message at a time would exceed a cap: more messages than the cap allows would be due within its minute, hour or 24
// hours. Messages that are possibly not counted are included only if withUncertain is true.
func (w *world) wouldExceed(k capped, at time.Time, withUncertain bool) bool {
	times := []time.Time{at}
	for _, e := range w.counted[k] {
		if !e.task.isTakenBack() && (e.isSure || withUncertain) {
			times = append(times, e.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	own := slices.IndexFunc(times, at.Equal)
	for u, most := range k.company.caps[k.kind] {
		for first := max(0, own-most); most > 0 && first <= own && first+most < len(times); first++ {
			if times[first+most].Sub(times[first]) < periods[u] {
				return true
			}
		}
	}
	return false
}

// isLimited reports how certain it is that a cap refuses one more message that is due at a time.
func (w *world) isLimited(k capped, at time.Time) degree {
	switch {
	case w.wouldExceed(k, at, false):
		return yes
	case w.wouldExceed(k, at, true):
		return maybe
	default:
		return no
	}
}

// allowedFrom returns the first time from at on at which caps allow one more message. isSure is false if it depends on messages that are possibly not counted.
func (w *world) allowedFrom(k capped, at time.Time) (first time.Time, isSure bool) {
	candidates := []time.Time{at}
	isSure = true
	for _, e := range w.counted[k] {
		isSure = isSure && e.isSure
		for _, period := range periods {
			candidates = append(candidates, e.at.Add(period))
		}
	}
	slices.SortFunc(candidates, time.Time.Compare)
	for _, c := range candidates {
		if !c.Before(at) && w.isLimited(k, c) == no {
			return c, isSure
		}
	}
	return at, false
}

// count counts a message for a time, if caps apply to the message. A message that was counted before is counted only for the new time.
func (w *world) count(t *task, at time.Time) {
	k := t.capped()
	if t.company.caps[t.kind] == (caps{}) {
		return
	}
	w.counted[k] = append(slices.DeleteFunc(w.counted[k], func(e *counted) bool { return e.task == t }), &counted{t, at, true})
}

// countOf returns the entry of a counted message, or nil.
func (w *world) countOf(t *task) *counted {
	for _, e := range w.counted[t.capped()] {
		if e.task == t {
			return e
		}
	}
	return nil
}

// requeueLimited reports how certain it is that a cap refuses the requeue of a task. A message that a sender has leased before is still counted, so its requeue
// is not refused.
func (w *world) requeueLimited(t *task) degree {
	e := w.countOf(t)
	switch {
	case t.company.caps[t.kind] == (caps{}):
		return no
	case e == nil || t.isTakenBack():
		return w.isLimited(t.capped(), t.dueAgain(w.now))
	case e.isSure:
		return no
	default:
		return maybe
	}
}

// recount updates the count of a task that the service has requeued. Call recount before the model requeues the task. If the task was taken back, and its
// company has no caps any more, it is uncertain whether the service counts the message.
func (w *world) recount(t *task) {
	switch e := w.countOf(t); {
	case e != nil && !t.isTakenBack() && e.isSure:
	case e != nil && (t.company.caps[t.kind] == (caps{}) || !t.isTakenBack()):
		e.isSure = false
	default:
		w.count(t, t.dueAgain(w.now))
	}
}

// dueReleased returns when a task is due that a switch no longer holds, before caps delay it. Caps can have delayed a task without an attempt before.
func (w *world) dueReleased(t *task) time.Time {
	due := t.due
	if len(t.leasedTo) == 0 {
		due = t.created
		if t.asked != nil {
			due = *t.asked
		}
	}
	if due.Before(w.now) {
		return w.now
	}
	return due
}

// uncount removes a released task from the count, and reports how certain it is that the service counts the task for its new due time. The service does so if no
// sender has tried to send it.
func (w *world) uncount(t *task) degree {
	if t.company.caps[t.kind] == (caps{}) {
		return no
	}
	e := w.countOf(t)
	w.counted[t.capped()] = slices.DeleteFunc(w.counted[t.capped()], func(o *counted) bool { return o == e })
	if len(t.leasedTo) == 0 && (e == nil || e.isSure) {
		return yes
	}
	return maybe
}
