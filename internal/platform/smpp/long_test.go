package smpp_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smstext"
)

const gsm7 = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà\f^{}\\[~]|€"

var forms = []smpp.LongForm{smpp.UDH8, smpp.UDH16, smpp.SAR, smpp.Payload}

// useMessage calls what a receiver calls for a message of another program.
func useMessage(m *smpp.Message) {
	for _, s := range []smpp.TextStyle{{}, {Default: smpp.GSM7Packed}} {
		_, _, _ = s.Part(m)
		_, _ = s.Text(m)
	}
}

// parts contains the octets of the parts of long messages, by the reference and total of a message and the number of a part.
type parts map[smstext.Concat]map[uint8][]byte

// add adds a part. If no part of its message is missing any more, it returns the octets of all parts.
func (p parts) add(c smstext.Concat, octets []byte) (all []byte, isComplete bool) {
	number := c.Part
	c.Part = 0
	if p[c] == nil {
		p[c] = map[uint8][]byte{}
	}
	p[c][number] = octets
	if len(p[c]) < int(c.Total) {
		return nil, false
	}
	for n := range c.Total {
		all = append(all, p[c][n+1]...)
	}
	delete(p, c)
	return all, true
}

// received returns the text of the messages after their encoding, in any order, as a receiver joins it.
func received(t *rapid.T, s smpp.TextStyle, messages []*smpp.Message) string {
	waiting := parts{}
	for _, m := range rapid.Permutation(messages).Draw(t, "order") {
		b, err := smpp.Append(nil, &smpp.PDU{Command: smpp.SubmitSM, Body: m})
		if err != nil {
			t.Fatal(err)
		}
		p, err := smpp.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Body.(*smpp.Message)
		if len(got.Short) > 0 && len(got.Short) > 160 {
			t.Fatalf("a part has %d octets", len(got.Short))
		}
		c, octets, err := s.Part(got)
		if err != nil {
			t.Fatal(err)
		}
		if !c.IsPart() {
			if len(messages) > 1 {
				t.Fatalf("%+v is no part", got)
			}
			return s.Alphabet(got.DataCoding).Decode(octets)
		}
		if all, isComplete := waiting.add(c, octets); isComplete {
			return s.Alphabet(got.DataCoding).Decode(all)
		}
	}
	t.Fatal("the parts do not make a message")
	return ""
}

func TestLongTextsSurviveInEachForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := smpp.TextStyle{
			Default: rapid.SampledFrom([]smpp.Alphabet{smpp.GSM7, smpp.GSM7Packed, smpp.Latin1}).Draw(t, "alphabet"),
			Latin1:  rapid.Bool().Draw(t, "Latin-1"),
			Long:    rapid.SampledFrom(forms).Draw(t, "form"),
		}
		letters := rapid.SampledFrom([]string{gsm7, gsm7 + "短信😀é", "短信😀", "é`ÿ"}).Draw(t, "letters")
		letters = strings.ReplaceAll(letters, "\r", "") // packed, it is read as unused bits
		text := rapid.StringOfN(rapid.SampledFrom([]rune(letters)), 1, 1600, -1).Draw(t, "text")
		if s.Default == smpp.GSM7Packed && strings.HasSuffix(text, "@") {
			text += "." // also
		}
		template := smpp.Message{Source: smpp.Address{Number: "106900"}, Dest: smpp.Address{Number: "8613800138000"}, ESMClass: 1}
		messages, err := s.Messages(template, text, rapid.Uint16().Draw(t, "reference"))
		if err != nil {
			t.Fatal(err)
		}
		if got := received(t, s, messages); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestPartsHaveTheSizesOfCarriers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		style smpp.TextStyle
		text  string
		want  []int // the octets of each Short
	}{
		"one message":                    {smpp.TextStyle{}, strings.Repeat("a", 160), []int{160}},
		"GSM 7-bit with 8 bits":          {smpp.TextStyle{}, strings.Repeat("a", 161), []int{6 + 153, 6 + 8}},
		"GSM 7-bit with 16 bits":         {smpp.TextStyle{Long: smpp.UDH16}, strings.Repeat("a", 161), []int{7 + 152, 7 + 9}},
		"GSM 7-bit in parameters":        {smpp.TextStyle{Long: smpp.SAR}, strings.Repeat("a", 161), []int{153, 8}},
		"GSM 7-bit in a payload":         {smpp.TextStyle{Long: smpp.Payload}, strings.Repeat("a", 161), []int{0}},
		"packed":                         {smpp.TextStyle{Default: smpp.GSM7Packed}, strings.Repeat("a", 160), []int{140}},
		"packed parts":                   {smpp.TextStyle{Default: smpp.GSM7Packed}, strings.Repeat("a", 306), []int{140, 140}},
		"UCS-2":                          {smpp.TextStyle{}, strings.Repeat("短", 70), []int{140}},
		"UCS-2 with 8 bits":              {smpp.TextStyle{}, strings.Repeat("短", 134), []int{140, 140}},
		"UCS-2 with 16 bits":             {smpp.TextStyle{Long: smpp.UDH16}, strings.Repeat("短", 71), []int{7 + 132, 7 + 10}},
		"UCS-2, a pair is not split":     {smpp.TextStyle{Long: smpp.SAR}, strings.Repeat("短", 66) + "😀" + strings.Repeat("短", 66), []int{132, 134, 2}},
		"GSM 7-bit, escape is not split": {smpp.TextStyle{Long: smpp.SAR}, strings.Repeat("a", 152) + "€" + strings.Repeat("a", 10), []int{152, 12}},
		"Latin-1":                        {smpp.TextStyle{Default: smpp.Latin1}, strings.Repeat("ç", 141), []int{140, 6 + 7}},
	} {
		messages, err := c.style.Messages(smpp.Message{}, c.text, 0x1234)
		if err != nil || len(messages) != len(c.want) {
			t.Errorf("%s: %d messages, want %d (%v)", name, len(messages), len(c.want), err)
			continue
		}
		for i, m := range messages {
			if len(m.Short) != c.want[i] {
				t.Errorf("%s: part %d has %d octets, want %d", name, i+1, len(m.Short), c.want[i])
			}
		}
	}
}

func TestAlphabetsAreChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style  smpp.TextStyle
		text   string
		coding uint8
	}{
		{smpp.TextStyle{}, "é€", smpp.CodingDefault},
		{smpp.TextStyle{}, "ç", smpp.CodingUCS2},
		{smpp.TextStyle{Latin1: true}, "ç", smpp.CodingLatin1},
		{smpp.TextStyle{Latin1: true}, "ç€", smpp.CodingUCS2},
		{smpp.TextStyle{Default: smpp.Latin1}, "ç", smpp.CodingDefault},
		{smpp.TextStyle{Default: smpp.Latin1}, "€", smpp.CodingUCS2},
	} {
		if _, coding := c.style.Choose(c.text); coding != c.coding {
			t.Errorf("%+v: %q has the data coding %d, want %d", c.style, c.text, coding, c.coding)
		}
	}
	for coding, want := range map[uint8]smpp.Alphabet{
		0: smpp.GSM7, 1: smpp.ASCII, 2: smpp.Octets, 3: smpp.Latin1, 4: smpp.Octets, 8: smpp.UCS2, 0x10: smpp.GSM7, 0x15: smpp.Octets, 0x18: smpp.UCS2,
		0xC8: smpp.GSM7, 0xE8: smpp.UCS2, 0xF0: smpp.GSM7, 0xF1: smpp.GSM7, 0xF5: smpp.Octets, 0x88: smpp.GSM7,
	} {
		if got := (smpp.TextStyle{}).Alphabet(coding); got != want {
			t.Errorf("the alphabet of %#x is %d, want %d", coding, got, want)
		}
	}
}

func TestTextsThatAreTooLongAreRejected(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		if _, err := (smpp.TextStyle{Long: form}).Messages(smpp.Message{}, strings.Repeat("短", 40_000), 1); !errors.Is(err, smpp.ErrTooLong) {
			t.Errorf("%s: %v", form, err)
		}
	}
}

func TestFormsHaveNames(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		if got, known := smpp.ParseLongForm(form.String()); !known || got != form {
			t.Errorf("%s is parsed as %s, %t", form, got, known)
		}
	}
}

func TestForeignPartsAreRecognised(t *testing.T) {
	t.Parallel()
	sar := func(reference, total, part string) smpp.TLVs {
		return tlvs(smpp.TagSarMsgRefNum, reference, smpp.TagSarTotalSegments, total, smpp.TagSarSegmentSeqnum, part)
	}
	for name, c := range map[string]struct {
		m      smpp.Message
		concat smstext.Concat
		octets string
		err    error
	}{
		"a header in the payload": {
			smpp.Message{ESMClass: smpp.ESMUDHI, TLVs: tlvs(smpp.TagMessagePayload, "\x05\x00\x03\x07\x02\x01ab")},
			smstext.Concat{Reference: 7, Total: 2, Part: 1}, "ab", nil,
		},
		"parameters in other lengths":   {smpp.Message{Short: []byte("ab"), TLVs: sar("\x07", "\x00\x02", "\x01")}, smstext.Concat{Reference: 7, Total: 2, Part: 1}, "ab", nil},
		"a part above the total":        {smpp.Message{Short: []byte("ab"), TLVs: sar("\x00\x07", "\x02", "\x03")}, smstext.Concat{}, "ab", nil},
		"a part of zero":                {smpp.Message{Short: []byte("ab"), TLVs: sar("\x00\x07", "\x02", "\x00")}, smstext.Concat{}, "ab", nil},
		"a header that is cut":          {smpp.Message{ESMClass: smpp.ESMUDHI, Short: []byte("ab")}, smstext.Concat{}, "ab", smstext.ErrHeader},
		"a header of ports":             {smpp.Message{ESMClass: smpp.ESMUDHI, Short: []byte("\x06\x05\x04\x0b\x84\x23\xf0ab")}, smstext.Concat{}, "ab", nil},
		"text in short_message and TLV": {smpp.Message{Short: []byte("short"), TLVs: tlvs(smpp.TagMessagePayload, "payload")}, smstext.Concat{}, "short", nil},
	} {
		concat, got, err := (smpp.TextStyle{}).Part(&c.m)
		if concat != c.concat || string(got) != c.octets || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %q, %v", name, concat, got, err)
		}
	}
}
