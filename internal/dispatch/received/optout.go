package received

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/received/autoreply"
	"lksms/internal/dispatch/received/optout"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// These are the kinds of messages.
const (
	KindText      = "text"
	KindOptOut    = "opt_out"    // the person asks for no more messages
	KindOptIn     = "opt_in"     // the person asks for messages again, after it had asked for none
	KindKeyword   = "keyword"    // a rule matched the message
	KindAutoReply = "auto_reply" // a phone or a program sent the message by itself
)

// byOptOut is the user who adds the blocks for which people ask.
const byOptOut = "system:opt_out"

// setKinds finds the messages by which people ask for no more messages, or for messages again, and the messages of programs. A message that asks for messages
// again is an ordinary text until follow ends a block: many people answer "yes" to a question.
func (s *Service) setKinds(ctx context.Context, rows []row) error {
	for i := range rows {
		r := &rows[i]
		r.kind = ordinaryKind(r.Content)
		if !phone.IsE164(r.number) { // a short code or a name
			continue
		}
		rules, err := s.directory.RecipientRules(ctx, r.company)
		if err != nil {
			return err
		}
		switch KindOf(r.Content, phone.Region(r.number), rules) {
		case KindOptOut:
			r.kind = KindOptOut
		case KindOptIn:
			r.asksAgain = true
		}
	}
	return nil
}

// KindOf returns the kind of a text from a number of a region, by the words of a company. For KindOptIn, it is not known whether the person asked for a block before.
func KindOf(content, region string, rules directory.RecipientRules) string {
	switch optout.Of(content, region, optout.Words{Out: optional.Value(rules.OptOutWords), In: optional.Value(rules.OptInWords)}) {
	case optout.Out:
		return KindOptOut
	case optout.In:
		return KindOptIn
	case optout.Neither:
	}
	return ordinaryKind(content)
}

// ordinaryKind returns the kind of a text that asks for nothing.
func ordinaryKind(content string) string {
	if autoreply.Is(content) {
		return KindAutoReply
	}
	return KindText
}

// personOf is a person from the view of a company.
type personOf struct {
	company int64
	number  string
}

// follow adds and removes the blocks for which new messages ask, in the order of their ids. It runs in the transaction that stores the messages.
func (s *Service) follow(ctx context.Context, rows []row, all []Stored) error {
	var asked []int
	for i, r := range rows {
		if (r.kind == KindOptOut || r.asksAgain) && !all[i].Deduplicated {
			asked = append(asked, i)
		}
	}
	slices.SortFunc(asked, func(a, b int) int { return cmp.Compare(all[a].ID, all[b].ID) })
	for _, i := range asked {
		follow := s.optOut
		if rows[i].asksAgain {
			follow = s.optIn
		}
		if err := follow(ctx, all[i].ID); err != nil {
			return fmt.Errorf("follow received message: %w", err)
		}
	}
	return nil
}

func (s *Service) optOut(ctx context.Context, id int64) error {
	return s.blocks.OptOut(ctx, id, byOptOut) //nolint:wrapcheck // the error is already wrapped
}

// optIn ends the blocks of a person. The message gets its kind here, because a request that ends no block is an ordinary text.
func (s *Service) optIn(ctx context.Context, id int64) error {
	if n, err := s.blocks.OptIn(ctx, id); err != nil || n == 0 {
		return err //nolint:wrapcheck // the error is already wrapped
	}
	return postgres.Wrap("record opt-in", s.q.ReceivedOptedIn(ctx, id), nil)
}

// Enforce takes back the waiting messages that people forbid in messages that Store has returned, and calls the function of OnStored. The caller calls it after
// the transaction of Store is committed, because submissions do not see the blocks earlier. If the caller does not call it, the sweep enforce-blocks enforces
// the blocks. A repeated message enforces the block, too: the server that stored the first one can have stopped before it enforced the block.
func (s *Service) Enforce(ctx context.Context, all []Stored) error {
	var numbers []string
	var companies, added []int64
	for _, one := range all {
		if !one.Deduplicated {
			added = append(added, one.ID)
		}
		if one.optOut != (personOf{}) {
			numbers, companies = append(numbers, one.optOut.number), append(companies, one.optOut.company)
		}
	}
	err := s.blocks.EnforceOfPeople(ctx, numbers, companies)
	if len(added) > 0 && s.onStored != nil {
		s.onStored(ctx, added)
	}
	return err
}
