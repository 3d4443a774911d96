package received

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lksms/gen/receivedq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smstext"
)

const (
	partsWait   = time.Hour     // time that a long message waits for its missing parts
	partsKnown  = 2 * partsWait // time for which a repeated part is recognised: at least an hour after its message was stored
	missingPart = "[…]"         // stands for missing parts
	joinBatch   = 100           // maximum number of incomplete messages that one query returns
)

var decoders = map[string]func(octets []byte) string{
	"ascii": smstext.DecodeASCII, "gbk": smstext.DecodeGBK, "gsm7": smstext.DecodeGSM7, "latin1": smstext.DecodeLatin1, "ucs2": smstext.DecodeUCS2,
}

// TakePart stores a part of a long message. With the last missing part, it stores the whole message as Take does. If parts are still missing after an hour,
// JoinExpired stores the message without them. A part that the sender hands over again is not stored again. Fault: sender.not_found.
func (s *Service) TakePart(ctx context.Context, senderNo string, m Message, part provider.Part) error {
	m = Fitting(m)
	if decoders[part.Alphabet] == nil {
		part.Alphabet = "latin1" // the characters of octets without a known alphabet
	}
	identity := hash(senderNo, m.From, m.To, strconv.Itoa(part.Reference), strconv.Itoa(part.Total), strconv.Itoa(part.Nth), part.Alphabet, string(part.Octets))
	return s.endParts(ctx, senderNo, m, part, func(ctx context.Context) error {
		err := s.q.ReceivedPartKeep(ctx, receivedq.ReceivedPartKeepParams{
			SenderNo: senderNo, FromNo: m.From, ToNo: m.To, Reference: int64(part.Reference), Total: int16(part.Total), Nth: int16(part.Nth),
			Alphabet: part.Alphabet, Octets: part.Octets, Identity: identity, Known: partsKnown,
		})
		return postgres.Wrap("store part of a received message", err, nil)
	})
}

// forgetParts deletes the identities of parts that are not recognised any more.
func (s *Service) forgetParts(ctx context.Context) (int, error) {
	return postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.ReceivedPartsForget(ctx, receivedq.ReceivedPartsForgetParams{BatchSize: deleteBatch, Known: partsKnown})
		return n, postgres.Wrap("delete identities of parts", err, nil)
	})
}

// endParts does `before`, and stores the message of a part if all its parts are there or if it has waited for an hour.
func (s *Service) endParts(ctx context.Context, senderNo string, m Message, part provider.Part, before func(ctx context.Context) error) error {
	var all []Stored
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if err := s.q.ReceivedLock(ctx, senderNo); err != nil { // two parts that arrive at once see each other
			return fmt.Errorf("wait for other parts: %w", err)
		}
		if err := before(ctx); err != nil {
			return err
		}
		rows, err := s.q.ReceivedPartsEnd(ctx, receivedq.ReceivedPartsEndParams{
			SenderNo: senderNo, FromNo: m.From, ToNo: m.To, Reference: int64(part.Reference), Total: int16(part.Total), MaxAge: partsWait,
		})
		if err != nil || len(rows) == 0 {
			return postgres.Wrap("join parts of a received message", err, nil)
		}
		m.Content, m.ReceivedAt = joined(rows, part.Total), &rows[0].CreatedAt
		all, err = s.Store(ctx, senderNo, []Message{Fitting(m)})
		return err
	})
	if err != nil {
		return err
	}
	return s.Enforce(ctx, all)
}

// joined returns the text of a long message. Parts that follow each other in one alphabet are decoded together, because a character can begin in one part and end
// in the next.
func joined(rows []receivedq.ReceivedPartsEndRow, total int) string {
	var text strings.Builder
	var octets []byte
	next := int16(1)
	for i, row := range rows {
		if row.Nth > next {
			text.WriteString(missingPart)
		}
		octets, next = append(octets, row.Octets...), row.Nth+1
		if i+1 == len(rows) || rows[i+1].Nth != next || rows[i+1].Alphabet != row.Alphabet {
			text.WriteString(decoders[row.Alphabet](octets))
			octets = nil
		}
	}
	if int(next) <= total {
		text.WriteString(missingPart)
	}
	return text.String()
}

// JoinExpired stores the long messages whose parts did not all arrive within an hour. It returns their number.
func (s *Service) JoinExpired(ctx context.Context) (int, error) {
	rows, err := s.q.ReceivedPartsExpired(ctx, receivedq.ReceivedPartsExpiredParams{MaxAge: partsWait, MaxRows: joinBatch})
	if err != nil {
		return 0, fmt.Errorf("find incomplete messages: %w", err)
	}
	nothing := func(context.Context) error { return nil }
	for i, row := range rows {
		m, part := Message{From: row.FromNo, To: row.ToNo}, provider.Part{Reference: int(row.Reference), Total: int(row.Total)}
		if err := s.endParts(ctx, row.SenderNo, m, part, nothing); err != nil {
			return i, err
		}
	}
	return len(rows), nil
}
