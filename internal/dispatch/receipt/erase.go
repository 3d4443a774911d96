package receipt

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"lksms/gen/receiptq"
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
		spellings = append(spellings, address, strings.TrimPrefix(address, "+"), phone.AtHome(address))
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
