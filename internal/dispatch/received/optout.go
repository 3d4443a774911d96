package received

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/received/autoreply"
	"lksms/internal/dispatch/received/optout"
	"lksms/internal/platform/optional"
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
// again is an ordinary text if the person has not asked for a block before: many people answer "yes" to a question.
func (s *Service) setKinds(ctx context.Context, rows []row) error {
	var asksAgain []*row
	hasAsked := map[personOf]bool{}
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
			hasAsked[personOf{r.company, r.number}] = true
		case KindOptIn:
			asksAgain = append(asksAgain, r)
		}
	}
	for _, r := range asksAgain {
		isBlocked, err := s.blocks.HasOfPerson(ctx, r.company, r.number)
		if err != nil {
			return err
		}
		if isBlocked || hasAsked[personOf{r.company, r.number}] {
			r.kind = KindOptIn
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

// follow adds and removes the blocks for which new messages ask, in the order of their ids. So the newest message of a conversation decides. It runs in the
// transaction that stores the messages.
func (s *Service) follow(ctx context.Context, rows []row, all []Stored) error {
	var asked []int
	for i, r := range rows {
		if (r.kind == KindOptOut || r.kind == KindOptIn) && !all[i].Deduplicated {
			asked = append(asked, i)
		}
	}
	slices.SortFunc(asked, func(a, b int) int { return cmp.Compare(all[a].ID, all[b].ID) })
	for _, i := range asked {
		r := rows[i]
		var err error
		if r.kind == KindOptIn {
			_, err = s.blocks.DeleteOfPerson(ctx, r.company, r.number, r.ReceivedAt)
		} else {
			_, err = s.blocks.Put(ctx, block.Block{
				CompanyID: &r.company, Scope: block.Marketing, By: byOptOut, Asked: &block.Asked{ReceivedID: all[i].ID, At: r.ReceivedAt},
			}, []string{r.number})
		}
		if err != nil {
			return fmt.Errorf("follow received message: %w", err)
		}
	}
	return nil
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
