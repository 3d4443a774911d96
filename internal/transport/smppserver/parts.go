package smppserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/smppserverq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smstext"
)

const (
	partsWait   = 10 * time.Minute // time that a long message waits for its missing parts
	maxWaiting  = 10_000           // incomplete messages of one user
	maxOctets   = 255              // of one part
	maxContent  = 1024             // characters of the text of an incomplete message
	endBatch    = 100              // maximum number of incomplete messages that one sweep ends
	missingPart = "[…]"            // stands for missing parts
)

// stored is the column message of smpp_long_messages.
type stored struct {
	Draft  draft
	Origin submit.Origin
}

// submitPart answers a part of a long message after the part was stored. All parts have the same message_id. The last missing part makes the message a
// task. If the message is refused, this part gets the error.
func (c *call) submitPart(ctx context.Context, d draft, part smstext.Concat, octets []byte) *smpp.PDU {
	if len(octets) > maxOctets {
		return c.refuse(ctx, &refusal{smpp.RInvMsgLen, "short_message: a part has at most 255 octets"}, d.raw(""))
	}
	sub, err := c.submission(ctx, &d, "-") // the other parts can be missing, so the text is not checked
	if err != nil {
		return c.refuse(ctx, err, sub.Raw)
	}
	checked, err := c.s.services.Submissions.Check(ctx, time.Now(), sub, c.origin)
	if err != nil {
		return c.refuse(ctx, err, sub.Raw)
	}
	messageID, err := c.keepPart(ctx, d, sub.TaskID, checked.Recipient, part, octets)
	if rejected := (*partsRefused)(nil); errors.As(err, &rejected) {
		return c.refuse(ctx, rejected.err, rejected.raw)
	}
	if err != nil {
		return c.refuse(ctx, err, sub.Raw)
	}
	return c.request.Response(smpp.OK, &smpp.MessageResp{MessageID: messageID})
}

// partsRefused is the error of a whole message that was refused. Its parts are deleted.
type partsRefused struct {
	err error
	raw []byte
}

func (p *partsRefused) Error() string { return p.err.Error() }

// keepPart stores a part, and submits the message if it was the last missing part. It returns the message id.
func (c *call) keepPart(ctx context.Context, d draft, taskID, recipient string, part smstext.Concat, octets []byte) (messageID string, err error) {
	message, err := json.Marshal(stored{d, c.origin})
	if err != nil {
		return "", fmt.Errorf("write long message: %w", err)
	}
	parts := make([][]byte, part.Total)
	parts[part.Part-1] = append([]byte{}, octets...) // not nil, even if the part is empty
	p := smppserverq.SmppPartKeepParams{
		CompanyID: c.origin.CompanyID, Username: c.origin.User, Source: d.Source.Number, Recipient: recipient, Reference: int64(part.Reference),
		Total: int16(part.Total), TaskID: taskID, Parts: parts, Message: message, Nth: int32(part.Part),
	}
	var refused *partsRefused
	err = c.s.db.Tx(ctx, func(ctx context.Context) error {
		row, err := c.s.q.SmppPartKeep(ctx, p)
		if postgres.IsNoRows(err) {
			if err = c.s.endEarlier(ctx, p); err == nil {
				row, err = c.s.q.SmppPartKeep(ctx, p)
			}
		}
		if err != nil {
			return fmt.Errorf("store part: %w", err)
		}
		missing := countMissing(row.Parts)
		if missing == len(row.Parts)-1 { // the first part
			if err := c.s.checkRoom(ctx, p); err != nil {
				return err
			}
		}
		var first stored
		if err := json.Unmarshal(row.Message, &first); err != nil {
			return fmt.Errorf("read long message: %w", err)
		}
		if c.s.style.Alphabet(first.Draft.DataCoding) != c.s.style.Alphabet(d.DataCoding) {
			return &refusal{smpp.RInvDCS, "data_coding differs from that of another part"}
		}
		messageID = first.Draft.messageID(row.TaskID)
		if missing > 0 {
			return nil
		}
		if _, err := c.s.q.SmppLongMessageTake(ctx, row.ID); err != nil {
			return fmt.Errorf("take long message: %w", err)
		}
		refused, err = c.submitWhole(ctx, first.Draft, row.TaskID, slices.Concat(row.Parts...))
		return err
	})
	if err == nil && refused != nil {
		return "", refused
	}
	return messageID, err
}

func countMissing(parts [][]byte) (n int) {
	for _, octets := range parts {
		if octets == nil {
			n++
		}
	}
	return n
}

// checkRoom refuses the first part of a message if the user has too many incomplete messages.
func (s *Server) checkRoom(ctx context.Context, p smppserverq.SmppPartKeepParams) error {
	areMany, err := s.q.SmppLongMessagesAreMany(ctx, smppserverq.SmppLongMessagesAreManyParams{
		CompanyID: p.CompanyID, Username: p.Username, MaxRows: maxWaiting,
	})
	if err == nil && areMany {
		err = &refusal{smpp.RMsgQFul, "too many long messages wait for their parts"}
	}
	return err
}

// submitWhole submits a message whose parts have all arrived, in the transaction that deletes the parts.
func (c *call) submitWhole(ctx context.Context, d draft, taskID string, octets []byte) (*partsRefused, error) {
	text := c.s.text(d.DataCoding, octets)
	sub, err := c.prioritised(ctx, &d, d.submission(taskID, text))
	if err == nil {
		err = checkText(text)
	}
	if isTemporary(statusOf(err)) {
		return nil, err // the program sends the part again
	}
	if err != nil {
		return &partsRefused{err, sub.Raw}, nil
	}
	outcomes, err := c.s.services.Submissions.SubmitAll(ctx, []submit.Submission{sub}, c.origin)
	if err != nil {
		return nil, fmt.Errorf("submit long message: %w", err)
	}
	if err = outcomes[0].Err; isTemporary(statusOf(err)) {
		return nil, err
	}
	if err != nil {
		return &partsRefused{err, sub.Raw}, nil
	}
	return nil, nil //nolint:nilnil // the message was not refused
}

// endEarlier ends the incomplete message that has other octets in this part.
func (s *Server) endEarlier(ctx context.Context, p smppserverq.SmppPartKeepParams) error {
	id, err := s.q.SmppLongMessageFind(ctx, smppserverq.SmppLongMessageFindParams{
		CompanyID: p.CompanyID, Username: p.Username, Source: p.Source, Recipient: p.Recipient, Reference: p.Reference, Total: p.Total,
	})
	if err != nil {
		return fmt.Errorf("find long message: %w", err)
	}
	return s.endMessage(ctx, id)
}

// endMessage replaces a message with missing parts by a FAILED task, so that people and the program see the failure. It runs in the transaction of its caller.
func (s *Server) endMessage(ctx context.Context, id int64) error {
	row, err := s.q.SmppLongMessageTake(ctx, id)
	if postgres.IsNoRows(err) { // the last part arrived meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("take long message: %w", err)
	}
	var m stored
	if err := json.Unmarshal(row.Message, &m); err != nil {
		return fmt.Errorf("read long message: %w", err)
	}
	var text strings.Builder
	for _, octets := range row.Parts {
		if octets == nil {
			text.WriteString(missingPart)
			continue
		}
		text.WriteString(s.text(m.Draft.DataCoding, octets))
	}
	sub := m.Draft.submission(row.TaskID, characters.First(postgres.Text(text.String()), maxContent))
	err = s.services.Submissions.RefuseAccepted(ctx, submit.Accepted{TaskID: row.TaskID, Submission: sub, Origin: m.Origin}, result.PartsMissing)
	return postgres.Wrap("end long message", err, nil)
}

// EndIncomplete ends long messages whose parts did not all arrive in time. It returns their number.
func (s *Server) EndIncomplete(ctx context.Context) (int, error) {
	ended, after := 0, int64(0)
	var failure error // of the first message that could not be ended. It does not stop the others
	for {
		ids, err := s.q.SmppLongMessagesExpired(ctx, smppserverq.SmppLongMessagesExpiredParams{MaxAge: partsWait, AfterID: after, MaxRows: endBatch})
		if err != nil {
			return ended, fmt.Errorf("find incomplete messages: %w", err)
		}
		for _, id := range ids {
			after = id
			err := s.db.Tx(ctx, func(ctx context.Context) error { return s.endMessage(ctx, id) })
			if err == nil {
				ended++
			} else if failure == nil {
				failure = err
			}
		}
		if len(ids) < endBatch || ctx.Err() != nil {
			return ended, failure
		}
	}
}

// Erase deletes the incomplete messages to a person.
func (s *Server) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	n, err := s.q.ErasureSmppMessages(ctx, smppserverq.ErasureSmppMessagesParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	return erase.Counts{erase.Submissions: n}, postgres.Wrap("erase long messages", err, nil)
}

// These are the times for which rows are kept.
const (
	numbersKept   = 45 * 24 * time.Hour
	receiversKept = 100 * 24 * time.Hour // longer than the feed can keep events
	deleteBatch   = 10_000
)

// DeleteExpired deletes old short message ids, and users that did not bind for a long time. It returns the number of deleted rows.
func (s *Server) DeleteExpired(ctx context.Context) (int, error) {
	n, err := s.q.SmppNumbersDeleteExpired(ctx, smppserverq.SmppNumbersDeleteExpiredParams{MaxAge: numbersKept, MaxRows: deleteBatch})
	if err != nil {
		return 0, fmt.Errorf("delete short message ids: %w", err)
	}
	m, err := s.q.SmppReceiversDeleteExpired(ctx, receiversKept)
	return int(n + m), postgres.Wrap("delete users that do not bind", err, nil)
}
