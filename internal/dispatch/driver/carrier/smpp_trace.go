package carrier

import (
	"fmt"
	"strings"
	"time"

	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/smpp"
)

func (p *smppProtocol) record(pdu *smpp.PDU) (command, status, text string) {
	command = pdu.Command.String()
	if pdu.Command.IsResponse() {
		status = pdu.Status.String()
	}
	switch body := pdu.Body.(type) {
	case *smpp.Bind:
		text = fmt.Sprintf("system_id %s, system_type %s, interface_version %#02x", body.SystemID, body.SystemType, body.InterfaceVersion)
	case *smpp.BindResp:
		text = "system_id " + body.SystemID
	case *smpp.MessageResp:
		if body.MessageID != "" {
			text = "message_id " + body.MessageID
		}
	case *smpp.Message:
		text = p.recordMessage(pdu.Command, body)
	}
	return command, status, text
}

// recordMessage describes a message without its text. The number of the person is masked: the recipient, and in messages of the carrier the sender. Some carriers write
// the person of a receipt as the recipient.
func (p *smppProtocol) recordMessage(command smpp.CommandID, m *smpp.Message) string {
	isOurs, isReceipt := command == smpp.SubmitSM, command != smpp.SubmitSM && (m.IsReceipt() || p.looksLikeReceipt(m))
	source, dest := m.Source.Number, m.Dest.Number
	if !isOurs {
		source = phone.Mask(source)
	}
	if isOurs || isReceipt {
		dest = phone.Mask(dest)
	}
	fields := []string{
		fmt.Sprintf("source_addr %d %d %s", m.Source.TON, m.Source.NPI, source), fmt.Sprintf("destination_addr %d %d %s", m.Dest.TON, m.Dest.NPI, dest),
		fmt.Sprintf("esm_class %#02x", m.ESMClass), fmt.Sprintf("data_coding %d", m.DataCoding), fmt.Sprintf("registered_delivery %d", m.RegisteredDelivery),
	}
	if m.Validity != "" {
		fields = append(fields, "validity_period "+m.Validity)
	}
	fields = append(fields, fmt.Sprintf("%d octets", len(m.Content())))
	if isReceipt {
		if r, isReadable := smpp.ParseReceipt(m, time.UTC); isReadable {
			fields = append(fields, fmt.Sprintf("receipt of %s: stat %s, err %s", strings.Join(r.IDs, " and "), r.Stat, r.Err))
		} else {
			fields = append(fields, "receipt without an id")
		}
	}
	for tag, value := range m.TLVs.All() {
		switch tag {
		case smpp.TagReceiptedMessageID:
			fields = append(fields, fmt.Sprintf("%s %s", tag, strings.TrimRight(string(value), "\x00")))
		case smpp.TagMessageState, smpp.TagNetworkErrorCode, smpp.TagSarMsgRefNum, smpp.TagSarTotalSegments, smpp.TagSarSegmentSeqnum:
			fields = append(fields, fmt.Sprintf("%s %#x", tag, value))
		default: // can contain a text or a number
			fields = append(fields, fmt.Sprintf("%s of %d octets", tag, len(value)))
		}
	}
	return strings.Join(fields, ", ")
}
