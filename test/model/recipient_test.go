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
	return !w.isBlocked(c, kind, to)
}

// block adds a block, or changes the expiry of the block that exists. Waiting messages are cancelled. Messages that senders have can be sent once, and are returned.
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

// unblock deletes the blocks of a number with a company (nil: for all companies). An empty scope means every scope.
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
