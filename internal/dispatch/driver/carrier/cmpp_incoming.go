package carrier

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/smstext"
)

// cmppAlphabets contains the alphabets of parts, as provider.Part names them. Octets of other formats are read as Latin-1.
var cmppAlphabets = map[cmpp.Format]string{cmpp.FormatASCII: "gbk", cmpp.FormatGBK: "gbk", cmpp.FormatUCS2: "ucs2"} // some gateways send GBK as ASCII

func (*cmppProtocol) incoming(request cmpp.PDU) (in provider.Incoming, err error) {
	m, isDeliver := request.(*cmpp.Deliver)
	switch {
	case !isDeliver:
		return in, errUnknown
	case m.IsReport == 0:
		return receivedOverCMPP(m), nil
	}
	r, err := cmpp.DecodeReport(m.Content)
	if err != nil {
		r = &cmpp.Report{}
	}
	fields := map[string]any{
		"msg_id": r.MessageID.String(), "stat": r.Stat, "explanation": r.Explanation(), "done_time": r.DoneTime, "dest_terminal_id": r.Destination,
	}
	if err != nil {
		fields["content"] = hex.EncodeToString(m.Content)
	}
	raw, _ := json.Marshal(fields) // cannot fail for texts
	in.Raw = string(raw)
	if err != nil || r.MessageID == 0 {
		return in, nil //nolint:nilerr // without a Receipt, Tools.Take stores it as unreadable
	}
	in.Receipt = &provider.Receipt{Number: r.MessageID.String(), Recipient: fromChina(r.Destination), Code: strings.TrimSpace(r.Stat), State: provider.OnItsWay}
	switch r.Outcome() {
	case cmpp.OutcomeDelivered:
		in.Receipt.State = provider.Delivered
	case cmpp.OutcomeFailed:
		in.Receipt.State = provider.Undelivered
	case cmpp.OutcomePending, cmpp.OutcomeUnknown:
	}
	return in, nil
}

// receivedOverCMPP reads a message from a person, or a part of one.
func receivedOverCMPP(m *cmpp.Deliver) provider.Incoming {
	part, octets, _ := cmpp.SplitContent(m.UDHI, m.Content) // a header that is cut is read as text
	alphabet, isText := cmppAlphabets[m.Format]
	text, _ := cmpp.DecodeText(m.Format, octets)
	if !isText {
		alphabet, text = "latin1", smstext.DecodeLatin1(octets)
	}
	r := &provider.Received{From: fromChina(m.Source), To: m.Destination, Content: text}
	if part.IsPart() && part.Total > 1 {
		r.Part = &provider.Part{Reference: int(part.Reference), Nth: int(part.Part), Total: int(part.Total), Alphabet: alphabet, Octets: octets}
	} else if m.MessageID != 0 {
		r.MessageNo = m.MessageID.String() // a gateway that repeats a message repeats the number
	}
	raw, _ := json.Marshal(map[string]any{ // cannot fail for texts and numbers
		"msg_id": m.MessageID.String(), "src_terminal_id": m.Source, "dest_id": m.Destination, "msg_fmt": m.Format, "link_id": m.LinkID, "text": r.Content,
	})
	return provider.Incoming{Received: r, Raw: string(raw)}
}

func (*cmppProtocol) respond(request cmpp.PDU, r reaction) cmpp.PDU {
	m, isDeliver := request.(*cmpp.Deliver)
	switch {
	case !isDeliver:
		return nil
	case r == notTaken:
		return &cmpp.DeliverResp{MessageID: m.MessageID, Result: cmpp.ResultThrottled}
	default:
		return &cmpp.DeliverResp{MessageID: m.MessageID}
	}
}

// china is the country code of China.
const china = "86"

// destination returns a recipient as gateways expect it. The queue writes international numbers with +.
func (p *cmppProtocol) destination(recipient string) string {
	number := strings.TrimPrefix(recipient, "+")
	if national, isChinese := strings.CutPrefix(recipient, "+"+china); isChinese && !p.config.CountryCode {
		return national
	}
	return number
}

// fromChina returns the number of a mobile phone as the queue writes it. Gateways write Chinese numbers with and without 86, and other numbers with + or 00.
func fromChina(number string) string {
	const mobile = 11
	if abroad, isFull := strings.CutPrefix(number, "00"); isFull {
		number = "+" + abroad
	}
	if strings.HasPrefix(number, "+") && !strings.HasPrefix(number, "+"+china) {
		return number
	}
	national := strings.TrimPrefix(strings.TrimPrefix(number, "+"), china)
	if len(national) == mobile && national[0] == '1' && characters.IsDigits(national) {
		return "+" + china + national
	}
	return number
}
