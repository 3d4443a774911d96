package smpp

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Receipt reports the state of an earlier message (sections 2.11, 5.3.2.12, 5.3.2.35 and appendix B).
type Receipt struct {
	// IDs contains the ids of the message as the carrier wrote them: the id of the parameter, then the id of the text, if they differ. Carriers write some in
	// hexadecimal and others in decimal: see IDForm.
	IDs []string
	// State is the state of the message. It is Scheduled if HasState is false.
	State    State
	HasState bool
	// Stat and Err are the fields of the text as the carrier wrote them. Err is a number of the carrier, or empty.
	Stat, Err string
	// Network is the parameter network_error_code: a network (such as 3 for GSM) and its error. It is zero without the parameter.
	Network NetworkError
	// Submitted and Delivered are the counts of the text, or -1 if they are missing.
	Submitted, Delivered int
	// SubmitDate and DoneDate are the dates of the text, or zero if they are missing.
	SubmitDate, DoneDate time.Time
	// Text is the beginning of the message.
	Text string
	// IsIntermediate is true for a notification about a message that has no final state.
	IsIntermediate bool
}

// A NetworkError is the value of network_error_code (section 5.3.2.31).
type NetworkError struct {
	Network uint8
	Code    uint16
}

// IsReceipt reports whether m is a receipt: its ESMClass says so, or it has a parameter of receipts. Some carriers do neither. ParseReceiptText recognises their
// receipts, but also a text of a person that looks like a receipt.
func (m *Message) IsReceipt() bool {
	_, hasID := m.TLVs.Get(TagReceiptedMessageID)
	_, hasState := m.TLVs.Get(TagMessageState)
	return m.ESMClass&(ESMReceipt|ESMIntermediate) != 0 || hasID && hasState
}

// ParseReceipt parses a receipt in deliver_sm or data_sm. Dates of the text have no zone: they are read in zone. Parameters have precedence over the text, because
// they are not cut. The text is read as Latin-1 unless its data coding is UCS-2: carriers write the text in ASCII, also where data_coding 0 is another alphabet. It
// returns false if the message contains no id.
func ParseReceipt(m *Message, zone *time.Location) (*Receipt, bool) {
	text, _ := TextStyle{Default: Latin1}.Text(m)
	r, hasText := receiptOf(splitReceipt(text), zone)
	if !hasText {
		r = &Receipt{Submitted: -1, Delivered: -1, Text: text}
	}
	r.IsIntermediate = m.ESMClass&esmType == ESMIntermediate
	if id, exists := m.TLVs.Text(TagReceiptedMessageID); exists && IDKey(id) != "" && (len(r.IDs) == 0 || r.IDs[0] != id) {
		r.IDs = append([]string{id}, r.IDs...)
	}
	if state, exists := m.TLVs.Uint(TagMessageState); exists && state >= 1 && state < uint64(len(stateNames)) {
		r.State, r.HasState = State(state), true
	}
	if value, exists := m.TLVs.Get(TagNetworkErrorCode); exists && len(value) == 3 {
		r.Network = NetworkError{Network: value[0], Code: binary.BigEndian.Uint16(value[1:])}
	}
	return r, len(r.IDs) > 0
}

// receiptFields are the names of the fields of a text, without spaces and underscores.
var receiptFields = []string{"id", "sub", "dlvrd", "submitdate", "donedate", "stat", "err", "text"}

// ParseReceiptText parses the text of a receipt: "id:… sub:… dlvrd:… submit date:… done date:… stat:… err:… text:…", in any order and case. Fields can be missing.
// It returns false without an id, and without both a state and a date. It also returns false if the id, state or error consists of several words: a person writes so.
func ParseReceiptText(text string, zone *time.Location) (*Receipt, bool) {
	fields := splitReceipt(text)
	r, isReceipt := receiptOf(fields, zone)
	for _, name := range []string{"id", "stat", "err"} {
		isReceipt = isReceipt && firstWord(fields[name]) == fields[name]
	}
	return r, isReceipt
}

// receiptOf returns the receipt with the fields of a text. The id, state, error and counts are single words, because some carriers write the text of the message after
// them without the name of a field. Text of messages can be secret.
func receiptOf(fields map[string]string, zone *time.Location) (*Receipt, bool) {
	r := &Receipt{
		Stat: firstWord(fields["stat"]), Err: firstWord(fields["err"]), Submitted: count(firstWord(fields["sub"])), Delivered: count(firstWord(fields["dlvrd"])),
		SubmitDate: parseReceiptDate(fields["submitdate"], zone), DoneDate: parseReceiptDate(fields["donedate"], zone), Text: fields["text"],
	}
	if id := printable(fields["id"]); IDKey(id) != "" {
		r.IDs = []string{id}
	}
	r.State, r.HasState = ParseState(r.Stat)
	return r, len(r.IDs) > 0 && (r.Stat != "" || !r.DoneDate.IsZero())
}

// firstWord returns the first word of a value. A word consists of printable characters of ASCII, without a colon.
func firstWord(value string) string {
	word, _, _ := strings.Cut(printable(value), ":")
	return trimField(word)
}

// printable returns the start of a value, up to the first space or character that is not printable ASCII.
func printable(value string) string {
	if end := strings.IndexFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }); end >= 0 {
		value = value[:end]
	}
	return trimField(value)
}

// splitReceipt returns the fields of a text by their names. The first field of a name counts, so that words of the message in the field text are no fields. Any other
// field ends the field before it, except the field text.
func splitReceipt(text string) map[string]string {
	fields := make(map[string]string, len(receiptFields))
	last, start := "", 0
	for i := 0; i < len(text); i++ {
		if i > 0 && !isSeparator(text[i-1]) {
			continue
		}
		name, length := fieldAt(text[i:])
		_, seen := fields[name]
		isOther := last != "" && last != "text" && (seen || name == "" && hasName(text[i:]))
		if (name == "" || seen) && !isOther {
			continue
		}
		if last != "" {
			fields[last] = trimField(text[start:i])
		}
		if isOther {
			last = ""
			continue
		}
		fields[name] = ""
		last, start = name, i+length
		i = start - 1
	}
	if last != "" {
		fields[last] = trimField(text[start:])
	}
	return fields
}

// hasName reports whether a text begins with a name and a colon. A name begins with a letter, so that a time is no name.
func hasName(text string) bool {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	first, _ := utf8.DecodeRuneInString(text)
	return end > 0 && text[end] == ':' && unicode.IsLetter(first)
}

func isSeparator(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ';'
}

func trimField(value string) string {
	return strings.TrimFunc(value, func(r rune) bool { return r == 0 || r == ',' || r == ';' || unicode.IsSpace(r) })
}

var fieldSpaces = strings.NewReplacer(" ", "", "_", "")

// fieldAt returns the name of the field that begins at the start of text, and the length of the name with its colon.
func fieldAt(text string) (string, int) {
	colon := strings.IndexByte(text[:min(len(text), len("submit date :")+1)], ':')
	if colon < 0 {
		return "", 0
	}
	written := strings.ToLower(fieldSpaces.Replace(text[:colon]))
	for _, name := range receiptFields {
		if written == name {
			return name, colon + 1
		}
	}
	return "", 0
}

func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// ParseState returns the state with a name of receipts. Carriers cut names (DELIVR), and write some in full (DELIVERED): four letters are enough. FAILED is
// Undeliverable.
func ParseState(name string) (State, bool) {
	name = strings.ToUpper(name)
	if len(name) < 4 {
		return 0, false
	}
	if strings.HasPrefix(name, "FAIL") {
		return Undeliverable, true
	}
	for state, known := range stateNames {
		if name[:4] == known[:4] {
			return State(state), true
		}
	}
	return 0, false
}

// Format returns the text of the receipt with the first id, as the specification writes it, with dates in zone. The text of the message is cut to 20 characters.
func (r *Receipt) Format(zone *time.Location) string {
	id := ""
	if len(r.IDs) > 0 {
		id = r.IDs[0]
	}
	errorCode := r.Err
	if errorCode == "" {
		errorCode = "000"
	}
	text := []rune(r.Text)
	const layout = "0601021504"
	return fmt.Sprintf("id:%s sub:%03d dlvrd:%03d submit date:%s done date:%s stat:%s err:%s text:%s", id, max(r.Submitted, 0), max(r.Delivered, 0),
		r.SubmitDate.In(zone).Format(layout), r.DoneDate.In(zone).Format(layout), r.State, errorCode, string(text[:min(len(text), 20)]))
}

// Message returns the deliver_sm of the receipt: a copy of m with the text and the parameters of the receipt. Source of m is the recipient of the reported message,
// and Dest its sender. The text consists of octets of ASCII, in which characters outside ASCII are replaced, because receivers read it without its data coding.
// Others read it as GSM 7-bit, so ids consist of letters and digits: "_" would be read as "§".
func (r *Receipt) Message(m Message, zone *time.Location) *Message {
	m.ESMClass = m.ESMClass&^esmType | ESMReceipt
	if r.IsIntermediate {
		m.ESMClass = m.ESMClass&^esmType | ESMIntermediate
	}
	m.DataCoding = CodingDefault
	m.Short = nil
	for _, c := range r.Format(zone) {
		if c < ' ' || c > '~' {
			c = '?'
		}
		m.Short = append(m.Short, byte(c))
	}
	m.Short = m.Short[:min(len(m.Short), 254)]
	m.TLVs = append(TLVs(nil), m.TLVs...)
	if len(r.IDs) > 0 {
		m.TLVs.AddText(TagReceiptedMessageID, r.IDs[0])
	}
	m.TLVs.AddUint8(TagMessageState, uint8(r.State))
	if r.Network != (NetworkError{}) {
		m.TLVs.Add(TagNetworkErrorCode, binary.BigEndian.AppendUint16([]byte{r.Network.Network}, r.Network.Code))
	}
	return &m
}
