package carrier

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/smpp"
)

var alphabets = map[smpp.Alphabet]string{
	smpp.GSM7: "gsm7", smpp.GSM7Packed: "gsm7", smpp.ASCII: "ascii", smpp.Latin1: "latin1", smpp.UCS2: "ucs2", smpp.Octets: "latin1",
}

func (p *smppProtocol) incoming(request *smpp.PDU) (in provider.Incoming, err error) {
	m, isMessage := request.Body.(*smpp.Message)
	if !isMessage {
		return in, errUnknown
	}
	if !m.IsReceipt() && !p.looksLikeReceipt(m) {
		return p.received(m), nil
	}
	r, isReadable := smpp.ParseReceipt(m, time.UTC)
	fields := map[string]any{"ids": r.IDs, "source": m.Source.Number, "state": r.State.String(), "stat": r.Stat, "err": r.Err, "done_date": r.DoneDate}
	if !isReadable {
		text, _ := p.style.Text(m)
		fields["text"] = ofMessage.ReplaceAllString(text, "$1")
	}
	raw, _ := json.Marshal(fields) // cannot fail for texts
	in.Raw = string(raw)
	if !isReadable {
		return in, nil // without a Receipt: Tools.Take stores it as unreadable
	}
	keys := p.ids.Keys(r.IDs[0])
	for _, id := range r.IDs[1:] {
		keys = append(keys, p.ids.Keys(id)...)
	}
	in.Others = keys[1:]
	in.Receipt = &provider.Receipt{Number: keys[0], Recipient: m.Source.Phone(), Code: strings.TrimSpace(cmp.Or(r.Stat, r.State.String()) + " " + r.Err), State: stateOf(r)}
	return in, nil
}

// ofMessage matches the text of the message in a receipt, which can be secret. Some carriers write it after the last field without a name.
var ofMessage = regexp.MustCompile(`(?is)\s*\btext:.*|(\berr:\S*)\s.*`)

// looksLikeReceipt reports whether a message is a receipt by its text alone. Texts of people rarely begin with the id of a message.
func (p *smppProtocol) looksLikeReceipt(m *smpp.Message) bool {
	text, _ := p.style.Text(m)
	r, isReceipt := smpp.ParseReceiptText(text, time.UTC)
	return isReceipt && r.HasState && strings.HasPrefix(strings.ToLower(text), "id:")
}

// stateOf returns the state of a receipt. An unknown state is not final.
func stateOf(r *smpp.Receipt) int16 {
	switch {
	case !r.HasState || r.IsIntermediate || !r.State.IsFinal() || r.State == smpp.Unknown:
		return provider.OnItsWay
	case r.State == smpp.Delivered:
		return provider.Delivered
	default:
		return provider.Undelivered
	}
}

// received reads a message from a person, or a part of one.
func (p *smppProtocol) received(m *smpp.Message) provider.Incoming {
	part, octets, _ := p.style.Part(m) // a header that is cut is read as text
	alphabet := p.style.Alphabet(m.DataCoding)
	r := &provider.Received{From: m.Source.Phone(), To: m.Dest.Phone(), Content: alphabet.Decode(octets)}
	if part.IsPart() && part.Total > 1 {
		r.Part = &provider.Part{
			Reference: int(part.Reference), Nth: int(part.Part), Total: int(part.Total), Alphabet: alphabets[alphabet], Octets: octets,
		}
	}
	raw, _ := json.Marshal(map[string]any{ // cannot fail for texts and numbers
		"source": m.Source.Number, "dest": m.Dest.Number, "data_coding": m.DataCoding, "esm_class": m.ESMClass, "text": r.Content,
	})
	return provider.Incoming{Received: r, Raw: string(raw)}
}
