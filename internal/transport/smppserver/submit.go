package smppserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smstext"
)

// source is the value of the field source in messages of SMPP programs.
const source = "smpp"

// asked contains the fields of a message that its receipts need. It is stored under the key smpp of the request of the task.
type asked struct {
	ID         string       `json:"id,omitempty"` // the message_id of the answer; empty: the id of the task
	Source     smpp.Address `json:"source"`
	Dest       smpp.Address `json:"dest"`
	Registered uint8        `json:"registered_delivery"`
}

// draft is a submitted message without its text.
type draft struct {
	asked
	ServiceType       string
	Priority          uint8
	DataCoding        uint8
	SendAt, ExpiresAt *time.Time
}

// messageTypes contains the message types of service types. All other messages are notifications.
var messageTypes = map[string]int16{"CODE": submit.Verification, "PROMO": submit.Marketing}

func (d *draft) messageType() int16 {
	if messageType, has := messageTypes[d.ServiceType]; has {
		return messageType
	}
	return submit.Notification
}

// maxUrgency is the greatest value of priority_flag (section 5.2.14).
const maxUrgency = 3

const (
	esmType       = 0x3C // the bits of esm_class that describe acknowledgements, which programs cannot send
	silentMessage = 0x40 // protocol_id of a message that the phone does not show
)

// submit answers submit_sm and data_sm, after the message was stored.
func (c *call) submit(ctx context.Context, m *smpp.Message) *smpp.PDU {
	d, part, octets, err := c.read(m)
	if err == nil && part.IsPart() && part.Total > 1 {
		return c.submitPart(ctx, d, part, octets)
	}
	text := c.s.text(m.DataCoding, octets)
	if err == nil {
		err = checkText(text)
	}
	if err != nil {
		return c.refuse(ctx, err, d.raw(text))
	}
	sub, err := c.submission(ctx, &d, text)
	if err == nil {
		_, err = c.s.services.Submissions.Submit(ctx, sub, c.origin)
	}
	if err != nil {
		return c.refuse(ctx, err, sub.Raw)
	}
	return c.request.Response(smpp.OK, &smpp.MessageResp{MessageID: d.messageID(sub.TaskID)})
}

// checkText checks that a text was read completely, and is not empty: for an empty text, package submit would send the default content of the number.
func checkText(text string) error {
	switch {
	case strings.ContainsRune(text, utf8.RuneError):
		return &refusal{smpp.RSubmitFail, "short_message contains characters that are not in the alphabet of data_coding"}
	case strings.TrimSpace(text) == "":
		return fault.InvalidField("content", fault.Blank, nil)
	default:
		return nil
	}
}

// messageID returns the message_id of the answer.
func (d *draft) messageID(taskID string) string {
	if d.ID != "" {
		return d.ID
	}
	return taskID
}

// read reads a message, and rejects unsupported fields. With an error, it also returns the fields that it has read.
func (c *call) read(m *smpp.Message) (d draft, part smstext.Concat, octets []byte, err error) {
	d = draft{
		asked:       asked{Source: written(m.Source), Dest: written(m.Dest), Registered: m.RegisteredDelivery},
		ServiceType: m.ServiceType, Priority: m.Priority, DataCoding: m.DataCoding,
	}
	part, octets, broken := c.s.style.Part(m)
	now := time.Now()
	schedule, wrongSchedule := smpp.ParseTime(m.Schedule, now)
	validity, wrongValidity := smpp.ParseTime(m.Validity, now)
	if !schedule.IsZero() {
		d.SendAt = &schedule
	}
	if !validity.IsZero() {
		d.ExpiresAt = &validity
	}
	isFlash := m.DataCoding&0xF3 == 0xF0 || m.DataCoding&0xD3 == 0x10
	switch {
	case c.kind == smpp.BindReceiver:
		err = &refusal{smpp.RInvBndSts, "a receiver cannot submit"}
	case !c.boundTo().mayBegin(1):
		err = &refusal{smpp.RThrottled, "too many messages per second"}
	case m.ESMClass&esmType != 0:
		err = &refusal{smpp.RInvEsmClass, "esm_class: acknowledgements are not supported"}
	case broken != nil:
		err = &refusal{smpp.RInvEsmClass, "short_message: " + broken.Error()}
	case m.ESMClass&smpp.ESMUDHI != 0 && !part.IsPart():
		err = &refusal{smpp.RInvEsmClass, "esm_class: a user data header is supported only for parts of long messages"}
	case m.ProtocolID == silentMessage:
		err = &refusal{smpp.RSubmitFail, "protocol_id: silent messages are not supported"}
	case m.ReplaceIfPresent != 0:
		err = &refusal{smpp.RInvRepFlag, "replace_if_present_flag is not supported"}
	case m.DefaultMessage != 0:
		err = &refusal{smpp.RInvDftMsgID, "sm_default_msg_id is not supported"}
	case isFlash:
		err = &refusal{smpp.RInvDCS, "data_coding: flash messages are not supported"}
	case c.s.style.Alphabet(m.DataCoding) == smpp.Octets:
		err = &refusal{smpp.RInvDCS, "data_coding: only texts in GSM 7-bit, ASCII, Latin-1 and UCS-2 are supported"}
	case m.Priority > maxUrgency:
		err = &refusal{smpp.RInvPrtFlg, "priority_flag is greater than 3"}
	case wrongSchedule != nil:
		err = &refusal{smpp.RInvSched, "schedule_delivery_time: " + wrongSchedule.Error()}
	case wrongValidity != nil:
		err = &refusal{smpp.RInvExpiry, "validity_period: " + wrongValidity.Error()}
	case !postgres.IsText(m.Source.Number) || !postgres.IsText(m.Dest.Number) || !postgres.IsText(m.ServiceType):
		err = &refusal{smpp.RInvDstAdr, "addresses and service_type must be text"}
	}
	return d, part, octets, err
}

// text decodes the text of a message. Some programs begin UCS-2 with a byte order mark, which is no part of the text.
func (s *Server) text(coding uint8, octets []byte) string {
	return strings.TrimPrefix(s.style.Alphabet(coding).Decode(octets), bom.Mark)
}

// written returns an address in a form that PostgreSQL can store.
func written(a smpp.Address) smpp.Address {
	a.Number = logtext.Text(a.Number)
	return a
}

// raw returns the request of a message as JSON, for the log and for receipts.
func (d *draft) raw(text string) []byte {
	raw, err := json.Marshal(map[string]any{"phone_number": d.Dest.Phone(), "content": postgres.Text(text), "smpp": d.asked})
	if err != nil {
		return nil // impossible: all values are texts and numbers
	}
	return raw
}

// submission returns the submission of a message with a new task id, and sets the short message id if the server uses such ids. With an error, it also returns the
// fields that are set.
func (c *call) submission(ctx context.Context, d *draft, text string) (submit.Submission, error) {
	taskID := taskid.New()
	if c.s.options.HasShortIDs && d.ID == "" {
		n, err := c.s.q.SmppNumberAdd(ctx, taskID)
		if err != nil {
			return d.submission(taskID, text), fmt.Errorf("add short message id: %w", err)
		}
		d.ID = strconv.FormatInt(n, 10)
	}
	return c.prioritised(ctx, d, d.submission(taskID, text))
}

// prioritised returns a submission with the priority that the program requested.
func (c *call) prioritised(ctx context.Context, d *draft, sub submit.Submission) (_ submit.Submission, err error) {
	sub.Priority, err = c.s.services.Submissions.PriorityOf(ctx, sub.MessageType, float64(d.Priority)/maxUrgency, c.origin)
	return sub, err
}

// submission returns the submission of the message without its priority.
func (d *draft) submission(taskID, text string) submit.Submission {
	return submit.Submission{
		PhoneNumber: d.Dest.Phone(), Content: text, Source: new(source), MessageType: d.messageType(), ExpectSendTime: d.SendAt, ExpiresAt: d.ExpiresAt,
		TaskID: taskID, Raw: d.raw(text),
	}
}

// submitMulti answers submit_multi. Its message_id is the id of the first recipient's message. All receipts have this id, and each names its
// recipient.
func (c *call) submitMulti(ctx context.Context, m *smpp.Multi) *smpp.PDU {
	d, part, octets, err := c.read(&m.Message)
	text := c.s.text(m.Message.DataCoding, octets)
	switch {
	case err != nil:
	case part.IsPart() && part.Total > 1:
		err = &refusal{smpp.RInvEsmClass, "submit_multi does not accept parts of long messages: use message_payload"}
	case len(m.Dests) == 0:
		err = &refusal{smpp.RInvNumDests, "number_of_dests is zero"}
	case !c.boundTo().mayBegin(len(m.Dests) - 1):
		err = &refusal{smpp.RThrottled, "too many messages per second"}
	default:
		err = checkText(text)
	}
	if err != nil {
		return c.refuse(ctx, err, d.raw(text))
	}
	answer := &smpp.MultiResp{}
	var subs []submit.Submission
	var dests []smpp.Address
	for _, dest := range m.Dests {
		if dest.List != "" {
			answer.Unsuccessful = append(answer.Unsuccessful, smpp.Unsuccessful{Address: smpp.Address{Number: dest.List}, Status: smpp.RInvDLName})
			continue
		}
		d.Dest = written(dest.Address)
		sub, err := c.submission(ctx, &d, text)
		if err != nil { // concerns all recipients
			return c.refuse(ctx, err, sub.Raw)
		}
		if answer.MessageID == "" {
			d.ID = d.messageID(sub.TaskID)
			answer.MessageID = d.ID
		}
		subs, dests = append(subs, sub), append(dests, dest.Address)
	}
	outcomes, err := c.s.services.Submissions.SubmitAll(ctx, subs, c.origin)
	if err != nil {
		return c.refuse(ctx, err)
	}
	accepted := 0
	for i, o := range outcomes {
		if o.Err == nil {
			accepted++
			continue
		}
		c.storeRefused(ctx, o.Err, [][]byte{subs[i].Raw})
		answer.Unsuccessful = append(answer.Unsuccessful, smpp.Unsuccessful{Address: dests[i], Status: statusOf(o.Err)})
	}
	if accepted == 0 {
		return c.request.Response(worst(answer.Unsuccessful), nil)
	}
	return c.request.Response(smpp.OK, answer)
}

// worst returns the status of a request of which nothing was accepted: a temporary status if one exists.
func worst(all []smpp.Unsuccessful) smpp.Status {
	for _, u := range all {
		if isTemporary(u.Status) {
			return u.Status
		}
	}
	return all[0].Status
}

// isTemporary reports whether programs send a message again after a status.
func isTemporary(status smpp.Status) bool {
	return status == smpp.RMsgQFul || status == smpp.RThrottled
}
