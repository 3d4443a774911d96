package smpp

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// A Tag is the tag of an optional parameter (section 5.3.2).
type Tag uint16

// These are the tags that this package or its users need. Carriers also define their own, from 0x1400 to 0x3FFF.
const (
	TagPayloadType          Tag = 0x0019
	TagAdditionalStatusInfo Tag = 0x001D
	TagReceiptedMessageID   Tag = 0x001E
	TagPrivacyIndicator     Tag = 0x0201
	TagUserMessageReference Tag = 0x0204
	TagUserResponseCode     Tag = 0x0205
	TagSourcePort           Tag = 0x020A
	TagDestinationPort      Tag = 0x020B
	TagSarMsgRefNum         Tag = 0x020C
	TagLanguageIndicator    Tag = 0x020D
	TagSarTotalSegments     Tag = 0x020E
	TagSarSegmentSeqnum     Tag = 0x020F
	TagSCInterfaceVersion   Tag = 0x0210
	TagCongestionState      Tag = 0x0428
	TagNetworkErrorCode     Tag = 0x0423
	TagMessagePayload       Tag = 0x0424
	TagDeliveryFailure      Tag = 0x0425
	TagMoreMessagesToSend   Tag = 0x0426
	TagMessageState         Tag = 0x0427
)

var tagNames = map[Tag]string{
	TagPayloadType: "payload_type", TagAdditionalStatusInfo: "additional_status_info_text", TagReceiptedMessageID: "receipted_message_id",
	TagPrivacyIndicator: "privacy_indicator", TagUserMessageReference: "user_message_reference", TagUserResponseCode: "user_response_code",
	TagSourcePort: "source_port", TagDestinationPort: "destination_port", TagSarMsgRefNum: "sar_msg_ref_num", TagLanguageIndicator: "language_indicator",
	TagSarTotalSegments: "sar_total_segments", TagSarSegmentSeqnum: "sar_segment_seqnum", TagSCInterfaceVersion: "sc_interface_version",
	TagCongestionState: "congestion_state", TagNetworkErrorCode: "network_error_code", TagMessagePayload: "message_payload",
	TagDeliveryFailure: "delivery_failure_reason", TagMoreMessagesToSend: "more_messages_to_send", TagMessageState: "message_state",
}

// String returns the name of the specification, such as message_payload, or the number in hexadecimal.
func (t Tag) String() string {
	if name, known := tagNames[t]; known {
		return name
	}
	return fmt.Sprintf("0x%04x", uint16(t))
}

// TLVs are optional parameters in their order, as the octets of a PDU (section 3.2.4.1): tag and length in two octets each, then the value. They are not parsed
// into a list, so that a PDU of empty parameters needs no more memory than its octets. Invariant: the last parameter is whole.
type TLVs []byte

// All returns the optional parameters in their order. The values are parts of t.
func (t TLVs) All() iter.Seq2[Tag, []byte] {
	return func(yield func(Tag, []byte) bool) {
		for len(t) >= 4 {
			tag, end := Tag(binary.BigEndian.Uint16(t)), 4+int(binary.BigEndian.Uint16(t[2:]))
			if end > len(t) || !yield(tag, t[4:end]) {
				return
			}
			t = t[end:]
		}
	}
}

// Get returns the value of the first parameter with a tag.
func (t TLVs) Get(tag Tag) ([]byte, bool) {
	for got, value := range t.All() {
		if got == tag {
			return value, true
		}
	}
	return nil, false
}

// Uint returns the value of the first parameter with a tag as a number. It returns false without the parameter, and if the value is empty or has more than eight
// octets. The length of the value is not checked further, because carriers send some numbers in one octet instead of two.
func (t TLVs) Uint(tag Tag) (uint64, bool) {
	value, exists := t.Get(tag)
	if !exists || len(value) == 0 || len(value) > 8 {
		return 0, false
	}
	n := uint64(0)
	for _, o := range value {
		n = n<<8 | uint64(o)
	}
	return n, true
}

// Text returns the value of the first parameter with a tag as text, without the NUL at its end, which some carriers omit.
func (t TLVs) Text(tag Tag) (string, bool) {
	value, exists := t.Get(tag)
	for len(value) > 0 && value[len(value)-1] == 0 {
		value = value[:len(value)-1]
	}
	return string(value), exists
}

// Add appends a parameter. The value has at most 65,535 octets; a longer value is cut.
func (t *TLVs) Add(tag Tag, value []byte) {
	value = value[:min(len(value), 0xFFFF)]
	*t = binary.BigEndian.AppendUint16(*t, uint16(tag))
	*t = append(binary.BigEndian.AppendUint16(*t, uint16(len(value))), value...)
}

// AddUint8 appends a parameter with a number of one octet.
func (t *TLVs) AddUint8(tag Tag, n uint8) { t.Add(tag, []byte{n}) }

// AddUint16 appends a parameter with a number of two octets.
func (t *TLVs) AddUint16(tag Tag, n uint16) { t.Add(tag, binary.BigEndian.AppendUint16(nil, n)) }

// AddText appends a parameter with a text that ends with NUL.
func (t *TLVs) AddText(tag Tag, text string) { t.Add(tag, append([]byte(text), 0)) }

// areWhole reports whether octets are optional parameters of which none is cut.
func areWhole(octets []byte) bool {
	for len(octets) >= 4 {
		end := 4 + int(binary.BigEndian.Uint16(octets[2:]))
		if end > len(octets) {
			return false
		}
		octets = octets[end:]
	}
	return len(octets) == 0
}
