package received

import (
	"cmp"
	"strings"

	"lksms/internal/platform/bom"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/postgres"
)

// These are the maximum lengths of columns, in characters.
const (
	maxNumber    = 50
	maxContent   = 20000
	maxMessageNo = 200
	maxRaw       = 20000
	maxSIM       = 10
)

// maxYear is the last year whose times have four-digit years in every time zone. JSON times need four digits.
const maxYear = 9998

// Unknown is the number of a person whose number a phone or provider did not pass on.
const Unknown = "unknown"

// Fitting returns a message of another program in a form that Take can store: texts that are too long are cut, and a byte order mark and a slot out of range are removed. A program that
// repeats a rejected message would otherwise repeat it until it gives up, and the message would be lost.
func Fitting(m Message) Message {
	m.From, m.To = cmp.Or(cutNumber(m.From), Unknown), cutNumber(m.To)
	m.Content = cut(strings.TrimPrefix(m.Content, bom.Mark), maxContent)
	m.MessageNo, m.Raw = cut(m.MessageNo, maxMessageNo), cut(m.Raw, maxRaw)
	if m.ReceivedAt != nil && (m.ReceivedAt.UTC().Year() < 1 || m.ReceivedAt.UTC().Year() > maxYear) {
		m.ReceivedAt = nil
	}
	if m.SIM < 1 || m.SIM > maxSIM {
		m.SIM = 0
	}
	return m
}

// cutNumber returns a number without spaces around it. The result for a result is the same.
func cutNumber(number string) string {
	return strings.TrimSpace(cut(strings.TrimSpace(postgres.Text(number)), maxNumber))
}

// cut returns at most the first limit characters of a text, without characters that PostgreSQL cannot store.
func cut(text string, limit int) string { return characters.First(postgres.Text(text), limit) }
