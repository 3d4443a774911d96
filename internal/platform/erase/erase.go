// Package erase contains the types that the rooms share to erase the data of a person: the person, the counts, and the transaction of one portion.
package erase

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Portion is the maximum number of rows that one transaction changes.
const Portion = 500

// Person is a person to erase from the data of a company.
type Person struct {
	CompanyID       int64
	UserIDs         []string  // ids of the person; an erasure adds the ids of contacts that it finds
	Recipients      []string  // addresses of the person in the form that tasks contain: phone numbers in E.164, e-mail addresses, and names in other channels
	AskedRecipients []string  // the addresses of Recipients that the request named; the other addresses come from contacts
	Since           time.Time // when the erasure was requested

	Pseudonym string   // replaces the user ids; the index of each user id is appended
	Digits    []string // the last digits of the phone numbers: statements compare these digits, and Has then compares the whole number
	AtHome    []string // the phone numbers in their national formats

	Recent []string // ids of the tasks of the current portion, if stored responses can still contain these ids
	Jobs   []string // ids of the task jobs that this transaction erased, for the audit

	// Has reports whether an address, in any notation, is one of Recipients.
	Has func(address string) bool
}

// Lowered returns the addresses and user ids in lower case.
func (p *Person) Lowered() (all []string) {
	for _, one := range slices.Concat(p.Recipients, p.UserIDs) {
		all = append(all, strings.ToLower(one))
	}
	return all
}

// Kind is a kind of erased rows. Its value is the name in the stored counts of an erasure.
type Kind string

// These are the kinds of rows that an erasure counts.
const (
	Contacts        Kind = "contacts"
	Tags            Kind = "tags"      // tags from which contacts were removed
	Cancelled       Kind = "cancelled" // cancelled tasks
	Tasks           Kind = "tasks"
	Reports         Kind = "reports"
	Attempts        Kind = "attempts"
	Receipts        Kind = "receipts"
	Received        Kind = "received"
	Blocks          Kind = "blocks" // blocks that lost their number
	Callbacks       Kind = "callbacks"
	Texts           Kind = "texts" // rendered texts
	Notifications   Kind = "notifications"
	SentOnce        Kind = "sent_once"
	BatchRows       Kind = "batch_rows"
	DefaultContents Kind = "default_contents"
	Submissions     Kind = "submissions" // submissions without a task
	DedupKeys       Kind = "dedup_keys"
	Answers         Kind = "answers" // stored responses of idempotency keys
	TaskJobs        Kind = "jobs"
	Changes         Kind = "changes" // rows of the audit
)

// Counts contains the number of erased rows, by kind. A missing kind has no rows.
type Counts map[Kind]int64

// Add adds the counts in added.
func (c Counts) Add(added Counts) {
	for kind, n := range added {
		if n != 0 {
			c[kind] += n
		}
	}
}

// Runner calls do in a transaction, and stores the returned counts in this transaction.
type Runner func(ctx context.Context, do func(ctx context.Context) (Counts, error)) error

// Candidate is a row that possibly belongs to the person.
type Candidate struct {
	ID      int64
	Matches bool // the row belongs to the person
}

// Matching erases the rows that belong to the person, in portions. `next` returns the next candidates after an id: at most Portion, in the order of their ids.
func (run Runner) Matching(
	ctx context.Context, next func(ctx context.Context, after int64) ([]Candidate, error), eraseRows func(ctx context.Context, ids []int64) (Counts, error),
) error {
	for after, n := int64(0), Portion; n == Portion; {
		candidates, err := next(ctx, after)
		if err != nil {
			return err
		}
		n = len(candidates)
		var ids []int64
		for _, c := range candidates {
			if after = c.ID; c.Matches {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if err := run(ctx, func(ctx context.Context) (Counts, error) { return eraseRows(ctx, ids) }); err != nil {
			return err
		}
	}
	return nil
}
