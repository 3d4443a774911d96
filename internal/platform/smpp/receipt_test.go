package smpp_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"

	"lksms/internal/platform/smpp"
)

func date(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// TestReceiptsOfCarriersAreParsed uses texts of the specification, and of the tests and issues of cloudhopper-smpp, php-smpp and jasmin.
func TestReceiptsOfCarriersAreParsed(t *testing.T) {
	t.Parallel()
	delivered := func(r smpp.Receipt) smpp.Receipt {
		r.State, r.HasState, r.Stat = smpp.Delivered, true, "DELIVRD"
		return r
	}
	for text, want := range map[string]smpp.Receipt{
		"id:0123456789 sub:002 dlvrd:001 submit date:1005232039 done date:1005242339 stat:DELIVRD err:012 text:This is a sample mes": delivered(smpp.Receipt{
			IDs: []string{"0123456789"}, Submitted: 2, Delivered: 1, SubmitDate: date("2010-05-23 20:39:00"), DoneDate: date("2010-05-24 23:39:00"), Err: "012",
			Text: "This is a sample mes",
		}),
		"id:74e02ee1-4e2f-4a6e-a78b-4b247d756a22 sub:001 dlvrd:001 submit date:110206193041 done date:110206193110 stat:DELIVRD err:000 text:": delivered(smpp.Receipt{
			IDs: []string{"74e02ee1-4e2f-4a6e-a78b-4b247d756a22"}, Submitted: 1, Delivered: 1, SubmitDate: date("2011-02-06 19:30:41"),
			DoneDate: date("2011-02-06 19:31:10"), Err: "000",
		}),
		"sub:001 id:74e0 err:000 dlvrd:001 done date:110206193110 submit date:110206193041 text: stat:DELIVRD": delivered(smpp.Receipt{
			IDs: []string{"74e0"}, Submitted: 1, Delivered: 1, SubmitDate: date("2011-02-06 19:30:41"), DoneDate: date("2011-02-06 19:31:10"), Err: "000",
		}),
		"id:2E179B310EDE971B2760C72B7F026E1B submit date:20110314181534 done date:20110314181741 stat:DELIVRD err:0": delivered(smpp.Receipt{
			IDs: []string{"2E179B310EDE971B2760C72B7F026E1B"}, Submitted: -1, Delivered: -1, SubmitDate: date("2011-03-14 18:15:34"),
			DoneDate: date("2011-03-14 18:17:41"), Err: "0",
		}),
		"ID: 98765432101, SUB: 000, DLVRD: 000, Submit_Date: 202611292015, DONE_DATE: 202611292016, Stat: DELIVRD, Err: 21b\x00": delivered(smpp.Receipt{
			IDs: []string{"98765432101"}, SubmitDate: date("2026-11-29 20:15:00"), DoneDate: date("2026-11-29 20:16:00"), Err: "21b",
		}),
		"id:7 stat:DELIVR": {IDs: []string{"7"}, Submitted: -1, Delivered: -1, State: smpp.Delivered, HasState: true, Stat: "DELIVR"},
		"id:7 stat:BUFFERED err:1": {
			IDs: []string{"7"}, Submitted: -1, Delivered: -1, Stat: "BUFFERED", Err: "1",
		},
		"id:7 sub:1 dlvrd:0 submit date:x done date:9 stat:UNDELIV err:1 text:id:8 stat:DELIVRD": {
			IDs: []string{"7"}, Submitted: 1, State: smpp.Undeliverable, HasState: true, Stat: "UNDELIV", Err: "1", Text: "id:8 stat:DELIVRD",
		},
	} {
		got, isReceipt := smpp.ParseReceiptText(text, time.UTC)
		if !isReceipt || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n%+v (%t), want\n%+v", text, *got, isReceipt, want)
		}
	}
	for _, text := range []string{
		"", "hello", "my id: 7", "stat:DELIVRD", "id: stat:DELIVRD", "rid:7 stat:DELIVRD", "ID:12345 STAT:REJECTED my parcel, what now?",
		"id:7 stat:DELIVRD err:why is this so", "id: the parcel stat:DELIVRD",
	} {
		if got, isReceipt := smpp.ParseReceiptText(text, time.UTC); isReceipt {
			t.Errorf("%q is a receipt: %+v", text, got)
		}
	}
}

func TestTextOfTheMessageIsNoFieldOfItsReceipt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"id:7 stat:DELIVRD err:000 message:Your code is 943860", "id:7 stat:DELIVRD err:000 Your code is 943860", "id:7 stat:DELIVRD message:943860 err:000",
		"id:7 err:000 stat:DELIVRD Msg-Text:943860", "id:7 err:000 stat:DELIVRD，验证码：943860", "id:7 stat:DELIVRD err:000 内容:943860", "id:7 stat:DELIVRD err:000 id:943860",
		"id:7 stat:DELIVRD err:000 text:943860", "id:7 code:943860 stat:DELIVRD err:000",
	} {
		r, isReceipt := smpp.ParseReceipt(&smpp.Message{ESMClass: smpp.ESMReceipt, DataCoding: smpp.CodingUCS2, Short: inUCS2(text)}, time.UTC)
		if !isReceipt || !slices.Equal(r.IDs, []string{"7"}) || r.Stat != "DELIVRD" || r.Err != "000" {
			t.Errorf("%s: %+v", text, r)
		}
	}
	for _, text := range []string{"id:7 stat:DELIVRD err: message:943860", "id:7 stat:DELIVRD err:内容:943860", "id:7 stat:DELIVRD err::943860", "id:7 stat:DELIVRD err: 内容：943860"} {
		if r, _ := smpp.ParseReceipt(&smpp.Message{ESMClass: smpp.ESMReceipt, DataCoding: smpp.CodingUCS2, Short: inUCS2(text)}, time.UTC); r.Stat != "DELIVRD" || r.Err != "" {
			t.Errorf("%s: %+v", text, r)
		}
	}
	withTimes := "id:7 submit date:2011-02-06 19:30:41 done date:2011-02-06 19:31:10 stat:DELIVRD err:1"
	if r, isReceipt := smpp.ParseReceiptText(withTimes, time.UTC); !isReceipt || r.Stat != "DELIVRD" || r.Err != "1" {
		t.Errorf("%s: %+v", withTimes, r)
	}
}

func inUCS2(text string) (octets []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		octets = append(octets, byte(unit>>8), byte(unit))
	}
	return octets
}

func TestIDThatContainsNothingIsMissing(t *testing.T) {
	t.Parallel()
	if r, isReceipt := smpp.ParseReceipt(&smpp.Message{TLVs: tlvs(smpp.TagReceiptedMessageID, " \t", smpp.TagMessageState, "\x02")}, time.UTC); isReceipt {
		t.Errorf("%+v", r)
	}
	r, isReceipt := smpp.ParseReceipt(&smpp.Message{TLVs: tlvs(smpp.TagReceiptedMessageID, "  "), Short: []byte("id:7 stat:DELIVRD")}, time.UTC)
	if !isReceipt || !slices.Equal(r.IDs, []string{"7"}) {
		t.Errorf("with an id in the text: %+v", r)
	}
}

func TestParametersOfReceiptsHavePrecedence(t *testing.T) {
	t.Parallel()
	r, isReceipt := smpp.ParseReceipt(receiptMessage, time.UTC)
	if !isReceipt || !slices.Equal(r.IDs, []string{"38601fa", "0059113978"}) || r.State != smpp.Delivered || r.Text != "@$#!%&/:" {
		t.Errorf("the published receipt: %+v", r)
	}
	zone := time.FixedZone("", 8*3600)
	parameters := tlvs(smpp.TagReceiptedMessageID, "7", smpp.TagMessageState, "\x08", smpp.TagNetworkErrorCode, "\x03\x00\x21")
	m := &smpp.Message{ESMClass: smpp.ESMIntermediate, Short: []byte("id:7 stat:UNKNOWN done date:2611292015"), TLVs: parameters}
	r, isReceipt = smpp.ParseReceipt(m, zone)
	if !isReceipt || len(r.IDs) != 1 || r.State != smpp.Rejected || r.Network != (smpp.NetworkError{Network: 3, Code: 33}) || !r.IsIntermediate ||
		!r.DoneDate.Equal(date("2026-11-29 12:15:00")) {
		t.Errorf("parameters and text: %+v", r)
	}
	r, isReceipt = smpp.ParseReceipt(&smpp.Message{TLVs: parameters, Short: []byte("free words")}, zone)
	if !isReceipt || r.IDs[0] != "7" || r.State != smpp.Rejected || r.Text != "free words" || r.Submitted != -1 {
		t.Errorf("parameters alone: %+v", r)
	}
	inUCS2 := &smpp.Message{ESMClass: smpp.ESMReceipt, DataCoding: smpp.CodingUCS2, Short: []byte("\x00i\x00d\x00:\x007\x00 \x00s\x00t\x00a\x00t\x00:\x00E\x00X\x00P\x00I\x00R\x00E\x00D")}
	if r, isReceipt = smpp.ParseReceipt(inUCS2, zone); !isReceipt || r.State != smpp.Expired {
		t.Errorf("in UCS-2: %+v", r)
	}
	if _, isReceipt = smpp.ParseReceipt(&smpp.Message{ESMClass: smpp.ESMReceipt, Short: []byte("stat:DELIVRD")}, zone); isReceipt {
		t.Error("a receipt without an id is accepted")
	}
}

func TestReceiptsAreDistinguishedFromMessages(t *testing.T) {
	t.Parallel()
	text := []byte("id:7 sub:001 dlvrd:001 submit date:2611292015 done date:2611292015 stat:DELIVRD err:000 text:")
	for name, c := range map[string]struct {
		m    smpp.Message
		want bool
	}{
		"by its class":       {smpp.Message{ESMClass: 0x04, Short: text}, true},
		"intermediate":       {smpp.Message{ESMClass: 0x20, Short: text}, true},
		"by its parameters":  {smpp.Message{TLVs: tlvs(smpp.TagReceiptedMessageID, "7", smpp.TagMessageState, "\x02")}, true},
		"by its text":        {smpp.Message{Short: text}, false},
		"a part of a text":   {smpp.Message{ESMClass: smpp.ESMUDHI, Short: text}, false},
		"an answer by users": {smpp.Message{ESMClass: smpp.ESMManualAck, Short: text}, false},
	} {
		if got := c.m.IsReceipt(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestStatesHaveNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]smpp.State{
		"DELIVRD": smpp.Delivered, "delivered": smpp.Delivered, "EXPIRED": smpp.Expired, "DELETED": smpp.Deleted, "UNDELIV": smpp.Undeliverable,
		"UNDELIVERABLE": smpp.Undeliverable, "ACCEPTD": smpp.Accepted, "UNKNOWN": smpp.Unknown, "REJECTD": smpp.Rejected, "ENROUTE": smpp.Enroute,
		"REJE": smpp.Rejected, "FAILED": smpp.Undeliverable,
	} {
		if got, known := smpp.ParseState(name); !known || got != want {
			t.Errorf("%s is %s, %t", name, got, known)
		}
	}
	for _, name := range []string{"", "DEL", "OK", "BUFFERED"} {
		if got, known := smpp.ParseState(name); known {
			t.Errorf("%q is %s", name, got)
		}
	}
}

func TestWrittenReceiptsAreParsed(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 8*3600)
	written := smpp.Receipt{
		IDs: []string{"task_20261129_7"}, State: smpp.Undeliverable, HasState: true, Err: "033", Network: smpp.NetworkError{Network: 3, Code: 33}, Submitted: 2,
		Delivered: 1, SubmitDate: date("2026-11-29 20:15:00"), DoneDate: date("2026-11-29 20:16:00"), Text: "您的快递 has arrived at the door",
	}
	m := written.Message(smpp.Message{Source: smpp.Address{Number: "8613800138000"}, ESMClass: 3, DataCoding: 8}, zone)
	if want := "id:task_20261129_7 sub:002 dlvrd:001 submit date:2611300415 done date:2611300416 stat:UNDELIV err:033 text:???? has arrived at "; string(m.Short) != want {
		t.Errorf("%s, want\n%s", m.Short, want)
	}
	got, isReceipt := smpp.ParseReceipt(m, zone)
	if !isReceipt || !m.IsReceipt() || got.State != written.State || got.Network != written.Network || !got.DoneDate.Equal(written.DoneDate) || m.ESMClass != 7 {
		t.Errorf("%+v, class %#x", got, m.ESMClass)
	}
}

func TestIDsMatchInTheBasesOfCarriers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		form            smpp.IDForm
		answer, receipt string
		want            int // the position of the key that matches, or -1
	}{
		"the same":                         {smpp.FormAuto, "94258431594", "94258431594", 0},
		"upper and lower case":             {smpp.FormAuto, "1A2B3C4D", "1a2b3c4d", 0},
		"leading zeros":                    {smpp.FormAuto, "94258431594", "0094258431594", 0},
		"no case in other ids":             {smpp.FormAuto, "xY7", "xy7", -1},
		"a UUID":                           {smpp.FormAuto, "74e02ee1-4e2f-4a6e-a78b-4b247d756a22", "74e02ee1-4e2f-4a6e-a78b-4b247d756a22", 0},
		"hexadecimal, then decimal":        {smpp.FormAuto, "38601fa", "0059113978", 1},
		"decimal, then hexadecimal":        {smpp.FormAuto, "59113978", "038601FA", 1},
		"digits in both bases":             {smpp.FormAuto, "536870917", "20000005", 2},
		"short ids are not converted":      {smpp.FormAuto, "64", "100", -1},
		"short ids with a form":            {smpp.FormHexDec, "64", "100", 0},
		"a form converts always":           {smpp.FormHexDec, "100", "100", -1},
		"a form of the other direction":    {smpp.FormDecHex, "100", "64", 0},
		"the same, without a conversion":   {smpp.FormSame, "38601fa", "0059113978", -1},
		"a form for an id without a base":  {smpp.FormHexDec, "task_7", "task_7", 0},
		"zero":                             {smpp.FormAuto, "0", "0000", 0},
		"above 64 bits":                    {smpp.FormAuto, "2E179B310EDE971B2760C72B7F026E1B", "2e179b310ede971b2760c72b7f026e1b", 0},
		"spaces and NUL around an id":      {smpp.FormAuto, "7", " 7\x00", 0},
		"an id that is both is first same": {smpp.FormAuto, "12345678", "12345678", 0},
	} {
		if got := slices.Index(c.form.Keys(c.receipt), smpp.IDKey(c.answer)); got != c.want {
			t.Errorf("%s: position %d, want %d of %q", name, got, c.want, c.form.Keys(c.receipt))
		}
	}
	for _, form := range []smpp.IDForm{smpp.FormAuto, smpp.FormSame, smpp.FormHexDec, smpp.FormDecHex} {
		if got, known := smpp.ParseIDForm(form.String()); !known || got != form {
			t.Errorf("%s is parsed as %s", form, got)
		}
	}
}

// TestCarriersThatCountMatchNoOtherMessage checks the rules of IDForm with carriers that number their messages one after another, in one base or in two.
func TestCarriersThatCountMatchNoOtherMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]uint64{1, 90, 0xFFF0, 10_000_000, 59_113_978, 1 << 31, 1<<40 + 9}).Draw(t, "first")
		bases := rapid.SampledFrom([][2]int{{10, 10}, {16, 16}, {16, 10}, {10, 16}}).Draw(t, "bases")
		messages := map[string]int{}
		const n = 1000
		for i := range n {
			messages[smpp.IDKey(inBase(first+uint64(i), bases[0]))] = i
		}
		i := rapid.IntRange(0, n-1).Draw(t, "message")
		for _, key := range smpp.FormAuto.Keys(inBase(first+uint64(i), bases[1])) {
			found, exists := messages[key]
			if !exists {
				continue
			}
			if isShort := first < 10_000_000 && bases[0] != bases[1]; found != i && !isShort {
				t.Fatalf("the receipt of message %d matches message %d", i, found)
			}
			return
		}
	})
}

func inBase(n uint64, base int) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	if n >= uint64(base) {
		b.WriteString(inBase(n/uint64(base), base))
	}
	b.WriteByte(digits[n%uint64(base)])
	return b.String()
}

func TestTimesSurvive(t *testing.T) {
	t.Parallel()
	now := date("2026-11-29 20:15:00")
	for text, want := range map[string]string{
		"":                 "0001-01-01 00:00:00",
		"261129201500000+": "2026-11-29 20:15:00",
		"261129201500032+": "2026-11-29 12:15:00",
		"261129201500032-": "2026-11-30 04:15:00",
		"000000010000000R": "2026-11-29 21:15:00",
		"000102030405000R": "2026-12-31 23:19:05",
	} {
		got, err := smpp.ParseTime(text, now)
		if err != nil || !got.Equal(date(want)) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"2611292015", "261329201500000+", "261129241500000+", "261129201500000*", "26112920150000xR", "-61129201500000+", "260230201500000+"} {
		if got, err := smpp.ParseTime(text, now); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := now.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "tenths")) * 100 * time.Millisecond)
		if got, err := smpp.ParseTime(smpp.FormatTime(want), now); err != nil || !got.Equal(want) {
			t.Fatalf("%s became %s, %v", want, got, err)
		}
		d := time.Duration(rapid.Int64Range(0, 99*86400).Draw(t, "seconds")) * time.Second
		if got, err := smpp.ParseTime(smpp.FormatPeriod(d), now); err != nil || !got.Equal(now.Add(d)) {
			t.Fatalf("%s became %s, %v", d, got.Sub(now), err)
		}
	})
}

// FuzzReceipt parses texts of carriers and of people. A receipt that is written and parsed again has the same state.
func FuzzReceipt(f *testing.F) {
	f.Add(string(receiptMessage.Short))
	f.Add("sub:001 id:74e0 err:000 text: stat:DELIVRD")
	f.Fuzz(func(t *testing.T, text string) {
		r, isReceipt := smpp.ParseReceiptText(text, time.UTC)
		if !isReceipt || !r.HasState {
			return
		}
		again, isReceipt := smpp.ParseReceipt(r.Message(smpp.Message{}, time.UTC), time.UTC)
		if !isReceipt || again.State != r.State {
			t.Errorf("%+v became %+v", r, again)
		}
		for _, id := range again.IDs {
			smpp.FormAuto.Keys(id)
		}
	})
}
