package receipt

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"lksms/gen/receiptq"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks deletes each receipt of the tasks that contains the person, and masks the person in the callbacks of these receipts. A callback can also contain
// receipts of other people.
func (s *Service) EraseTasks(ctx context.Context, p *erase.Person, taskIDs []string) (erase.Counts, error) {
	rows, err := s.q.ErasureReceipts(ctx, taskIDs)
	if err != nil {
		return nil, postgres.Wrap("find receipts", err, nil)
	}
	var ids, callbackIDs []int64
	var spellings []string
	for _, address := range p.Recipients {
		spellings = append(spellings, address, strings.TrimPrefix(address, "+"), phone.NationalFormat(address))
	}
	for _, r := range rows {
		if p.Has(r.Recipient) {
			ids, callbackIDs, spellings = append(ids, r.ID), append(callbackIDs, r.CallbackID), append(spellings, r.Recipient)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	receipts, err := s.q.ErasureReceiptsDelete(ctx, ids)
	if err != nil {
		return nil, postgres.Wrap("delete receipts", err, nil)
	}
	callbacks, err := s.q.ErasureCallbacks(ctx, receiptq.ErasureCallbacksParams{Ids: callbackIDs, Pattern: patternOf(spellings)})
	return erase.Counts{erase.Receipts: receipts, erase.Callbacks: callbacks}, postgres.Wrap("erase callbacks", err, nil)
}

// dueRead is the maximum number of bodies that an erasure reads at once.
const dueRead = 50

// HasEarlier reports whether a callback that is older than the erasure contains the person, and its messages are not stored yet. One of these messages is
// possibly from the person. HasEarlier compares each value of the body, because the configuration that names the fields of the body can be unusable now.
func (s *Service) HasEarlier(ctx context.Context, p *erase.Person) (bool, error) {
	for after, n := int64(0), dueRead; len(p.Digits) > 0 && n == dueRead; {
		rows, err := s.q.ErasureCallbacksDue(ctx, receiptq.ErasureCallbacksDueParams{Since: p.Since, AfterID: after, Portion: dueRead})
		if err != nil {
			return false, postgres.Wrap("find due callbacks", err, nil)
		}
		n = len(rows)
		for _, row := range rows {
			after = row.ID
			if slices.ContainsFunc(callback.Values([]byte(row.Body)), p.Has) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Erase masks the bodies of callbacks that contain messages from the person. Package received has emptied these messages before. If it empties a message while a
// repeat of the message is being stored, either Erase finds the callback of the repeat, or endTurn masks it.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for isMore := true; isMore; {
		err := run(ctx, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.q.ErasureCallbacksOfMessages(ctx, receiptq.ErasureCallbacksOfMessagesParams{CompanyID: p.CompanyID, Most: erase.Portion})
			isMore = n == erase.Portion
			return erase.Counts{erase.Callbacks: n}, postgres.Wrap("mask callbacks with messages", err, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maskDeleted masks the bodies of callbacks with messages that package received deletes: an erasure could not find these bodies any more.
func (s *Service) maskDeleted(ctx context.Context, receivedIDs []int64) error {
	return postgres.Wrap("mask callbacks", s.q.CallbacksMask(ctx, receivedIDs), nil)
}

// notWithin returns a regular expression for a position that does not follow character, unless character ends an escape sequence of a URL or of JSON.
func notWithin(character string) string {
	return `(?:(?<!` + character + `)|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\[nrtbf]))`
}

// patternOf returns a PostgreSQL regular expression that matches the addresses in callbacks, which may be URL-encoded. It does not match parts of longer
// addresses.
func patternOf(addresses []string) string {
	var numbers, mails []string
	for _, address := range addresses {
		if address == "" {
			continue
		}
		both := regexp.QuoteMeta(address) + "|" + regexp.QuoteMeta(url.QueryEscape(address))
		if strings.Contains(address, "@") {
			mails = append(mails, both)
		} else {
			numbers = append(numbers, both)
		}
	}
	var forms []string
	if len(numbers) > 0 {
		forms = append(forms, notWithin(`[0-9]`)+`(?:00)?(?:`+strings.Join(numbers, "|")+`)(?![0-9])`)
	}
	if len(mails) > 0 {
		forms = append(forms, notWithin(`[0-9A-Za-z._+-]`)+`(?:`+strings.Join(mails, "|")+`)(?![0-9A-Za-z-]|\.[0-9A-Za-z])`)
	}
	return strings.Join(forms, "|")
}
