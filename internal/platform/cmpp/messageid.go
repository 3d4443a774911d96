package cmpp

import (
	"strconv"
	"time"
)

// MessageIDParts are the parts of a MessageID (7.4.3.2, Msg_Id). Many gateways fill the parts in other ways, so an identifier of another side is compared, and
// its parts are not interpreted.
type MessageIDParts struct {
	Month, Day, Hour, Minute, Second int
	Gateway                          uint32 // the code of the ISMG, 22 bits
	Sequence                         uint16
}

// NewMessageID returns the identifier of a message that the ISMG gateway received at a time, in the zone of the time.
func NewMessageID(t time.Time, gateway uint32, sequence uint16) MessageID {
	return MessageIDParts{
		Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(), Second: t.Second(), Gateway: gateway, Sequence: sequence,
	}.MessageID()
}

// MessageID returns the identifier with these parts. Bits that exceed the width of a part are lost.
func (p MessageIDParts) MessageID() MessageID {
	return MessageID(uint64(p.Month&0xF)<<60 | uint64(p.Day&0x1F)<<55 | uint64(p.Hour&0x1F)<<50 | uint64(p.Minute&0x3F)<<44 | uint64(p.Second&0x3F)<<38 |
		uint64(p.Gateway&0x3FFFFF)<<16 | uint64(p.Sequence))
}

// Parts returns the parts of the identifier.
func (id MessageID) Parts() MessageIDParts {
	return MessageIDParts{
		Month: int(id >> 60), Day: int(id >> 55 & 0x1F), Hour: int(id >> 50 & 0x1F), Minute: int(id >> 44 & 0x3F), Second: int(id >> 38 & 0x3F),
		Gateway: uint32(id >> 16 & 0x3FFFFF), Sequence: uint16(id),
	}
}

// String returns the identifier as a decimal number without leading zeros.
func (id MessageID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseMessageID parses the text of String.
func ParseMessageID(text string) (MessageID, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	return MessageID(id), err
}
