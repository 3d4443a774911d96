package smpp_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lksms/internal/platform/smpp"
)

func octets(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func encode(t testing.TB, p *smpp.PDU) []byte {
	t.Helper()
	b, err := smpp.Append(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tlvs(pairs ...any) smpp.TLVs {
	var list smpp.TLVs
	for i := 0; i < len(pairs); i += 2 {
		list.Add(pairs[i].(smpp.Tag), []byte(pairs[i+1].(string)))
	}
	return list
}

// receiptMessage is the deliver_sm with a receipt among the published PDUs.
var receiptMessage = &smpp.Message{
	Source: smpp.Address{TON: 1, NPI: 1, Number: "44951361920"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "40404"}, ESMClass: 4,
	Short: []byte("id:0059113978 sub:001 dlvrd:001 submit date:1002101730 done date:1002101731 stat:DELIVRD err:000 text:@$#!%&/:"),
	TLVs:  tlvs(smpp.Tag(0x0E), "\x01", smpp.Tag(0x06), "\x01", smpp.TagReceiptedMessageID, "38601fa\x00", smpp.TagMessageState, "\x02"),
}

// published contains the example of the specification, and PDUs of the tests of cloudhopper-smpp, which recorded them from carriers.
var published = map[string]struct {
	digits string
	want   *smpp.PDU
}{
	"bind_transmitter of the specification": {
		"0000002f000000020000000000000001534d50503354455354007365637265743038005355424d4954310000010100",
		&smpp.PDU{Command: smpp.BindTransmitter, Sequence: 1, Body: &smpp.Bind{
			SystemID: "SMPP3TEST", Password: "secret08", SystemType: "SUBMIT1", AddressRange: smpp.Address{TON: 1, NPI: 1},
		}},
	},
	"bind_transceiver": {
		"00000023000000090000000000039951414c4c5f545700414c4c5f5457000034010200",
		&smpp.PDU{Command: smpp.BindTransceiver, Sequence: 235857, Body: &smpp.Bind{
			SystemID: "ALL_TW", Password: "ALL_TW", InterfaceVersion: smpp.Version34, AddressRange: smpp.Address{TON: 1, NPI: 2},
		}},
	},
	"bind_receiver": {
		"00000025000000010000000000039961747769747465720074776974746572000034000000",
		&smpp.PDU{Command: smpp.BindReceiver, Sequence: 235873, Body: &smpp.Bind{
			SystemID: "twitter", Password: "twitter", InterfaceVersion: smpp.Version34,
		}},
	},
	"bind_transceiver_resp": {
		"0000001d800000090000000000039943536d7363204757000210000134",
		&smpp.PDU{Command: smpp.BindTransceiverResp, Sequence: 235843, Body: &smpp.BindResp{
			SystemID: "Smsc GW", TLVs: tlvs(smpp.TagSCInterfaceVersion, "\x34"),
		}},
	},
	"bind_transceiver_resp with an error": {
		"00000015800000090000000e00004db3534d534300",
		&smpp.PDU{Command: smpp.BindTransceiverResp, Status: smpp.RInvPaswd, Sequence: 19891, Body: &smpp.BindResp{SystemID: "SMSC"}},
	},
	"enquire_link":      {"0000001000000015000000000a342ee7", &smpp.PDU{Command: smpp.EnquireLink, Sequence: 171192039}},
	"enquire_link_resp": {"0000001080000015000000000a342eed", &smpp.PDU{Command: smpp.EnquireLinkResp, Sequence: 171192045}},
	"unbind":            {"00000010000000060000000000000001", &smpp.PDU{Command: smpp.Unbind, Sequence: 1}},
	"unbind_resp":       {"00000010800000060000000000000001", &smpp.PDU{Command: smpp.UnbindResp, Sequence: 1}},
	"generic_nack":      {"00000010800000000000000100082a77", &smpp.PDU{Command: smpp.GenericNack, Status: smpp.RInvMsgLen, Sequence: 535159}},
	"submit_sm": {
		"00000039000000040000000000004fe80001013430343034000101343439353133363139323000000000000001000000084024232125262f3a",
		&smpp.PDU{Command: smpp.SubmitSM, Sequence: 20456, Body: &smpp.Message{
			Source: smpp.Address{TON: 1, NPI: 1, Number: "40404"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "44951361920"},
			RegisteredDelivery: 1, Short: []byte("@$#!%&/:"),
		}},
	},
	"submit_sm_resp": {
		"0000001c80000004000000000a342ee1393432353834333135393400",
		&smpp.PDU{Command: smpp.SubmitSMResp, Sequence: 171192033, Body: &smpp.MessageResp{MessageID: "94258431594"}},
	},
	"deliver_sm_resp": {
		"00000011800000050000000000116ac700", &smpp.PDU{Command: smpp.DeliverSMResp, Sequence: 1141447, Body: &smpp.MessageResp{}},
	},
	"deliver_sm with a receipt": {
		"000000ba00000005000000000000000200010134343935313336313932300001013430343034000400000000000000006e69643a30303539313133393738207375623a3030" +
			"3120646c7672643a303031207375626d697420646174653a3130303231303137333020646f6e6520646174653a3130303231303137333120737461743a44454c4956524420" +
			"6572723a30303020746578743a4024232125262f3a000e0001010006000101001e000833383630316661000427000102",
		&smpp.PDU{Command: smpp.DeliverSM, Sequence: 2, Body: receiptMessage},
	},
	"deliver_sm with message_payload": {
		"00000040000000050000000000657e4e0002013434393531333631393200040934303430340000000000000000000000000e0001010006000101042400024f6b",
		&smpp.PDU{Command: smpp.DeliverSM, Sequence: 6651470, Body: &smpp.Message{
			Source: smpp.Address{TON: 2, NPI: 1, Number: "4495136192"}, Dest: smpp.Address{TON: 4, NPI: 9, Number: "40404"},
			TLVs: tlvs(smpp.Tag(0x0E), "\x01", smpp.Tag(0x06), "\x01", smpp.TagMessagePayload, "Ok"),
		}},
	},
	"deliver_sm with a sequence number above the greatest, and an address of 16 digits": {
		"000000400000000500000000a2859f22313030310001013434393531333631393230000001343034303430343034303430343034300000000000000000080000",
		&smpp.PDU{Command: smpp.DeliverSM, Sequence: 0xA2859F22, Body: &smpp.Message{
			ServiceType: "1001", Source: smpp.Address{TON: 1, NPI: 1, Number: "44951361920"},
			Dest: smpp.Address{TON: 0, NPI: 1, Number: "4040404040404040"}, DataCoding: 8,
		}},
	},
	"data_sm": {
		"000000300000010300000000000000000001013535353237313030303000000139363935000001000424000454657374",
		&smpp.PDU{Command: smpp.DataSM, Body: &smpp.Message{
			Source: smpp.Address{TON: 1, NPI: 1, Number: "5552710000"}, Dest: smpp.Address{NPI: 1, Number: "9695"}, RegisteredDelivery: 1,
			TLVs: tlvs(smpp.TagMessagePayload, "Test"),
		}},
	},
	"cancel_sm": {
		"0000002d000000080000000000004fe80031323334350001013430343034000101343439353133363139323000",
		&smpp.PDU{Command: smpp.CancelSM, Sequence: 20456, Body: &smpp.Cancel{
			MessageID: "12345", Source: smpp.Address{TON: 1, NPI: 1, Number: "40404"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "44951361920"},
		}},
	},
	"cancel_sm_resp": {"00000010800000080000000000004fe8", &smpp.PDU{Command: smpp.CancelSMResp, Sequence: 20456}},
	"query_sm": {
		"0000001e000000030000000000004fe83132333435000101343034303400",
		&smpp.PDU{Command: smpp.QuerySM, Sequence: 20456, Body: &smpp.Query{MessageID: "12345", Source: smpp.Address{TON: 1, NPI: 1, Number: "40404"}}},
	},
	"query_sm_resp": {
		"00000019800000030000000000004fe8313233343500000600",
		&smpp.PDU{Command: smpp.QuerySMResp, Sequence: 20456, Body: &smpp.QueryResp{MessageID: "12345", State: smpp.Accepted}},
	},
	"replace_sm": {
		"00000050000000070000000000004fe86d73672d313233343500010135353532373130303030003135303230333034303530363730382b003031303230333034303530363030305200" +
			"01020474657874",
		&smpp.PDU{Command: smpp.ReplaceSM, Sequence: 20456, Body: &smpp.Replace{
			MessageID: "msg-12345", Source: smpp.Address{TON: 1, NPI: 1, Number: "5552710000"}, Schedule: "150203040506708+", Validity: "010203040506000R",
			RegisteredDelivery: 1, DefaultMessage: 2, Short: []byte("text"),
		}},
	},
}

func TestPublishedPDUsAreDecodedAndEncoded(t *testing.T) {
	t.Parallel()
	for name, c := range published {
		got, err := smpp.Decode(octets(t, c.digits))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: decoded\n%+v %+v, want\n%+v %+v", name, got, got.Body, c.want, c.want.Body)
		}
		if again := hex.EncodeToString(encode(t, c.want)); again != c.digits {
			t.Errorf("%s: encoded\n%s, want\n%s", name, again, c.digits)
		}
	}
}

func TestWhatCarriersSendAgainstTheSpecificationIsDecoded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		digits string
		want   smpp.Body
	}{
		"a response without a body": {"0000001080000004000000000a342ee1", &smpp.MessageResp{}},
		"an error without a body":   {"00000010800000090000000e00004db3", &smpp.BindResp{}},
		"an error without a list":   {"00000010800000210000000800000001", &smpp.MultiResp{}},
		"an id without NUL":         {"0000001180000004000000000a342ee139", &smpp.MessageResp{MessageID: "9"}},
		"parameters instead of a body": {
			"00000015800000090000000000000001" + "0210000134", &smpp.BindResp{TLVs: tlvs(smpp.TagSCInterfaceVersion, "\x34")},
		},
		"a parameter with tag 0x00xx instead of a body": {
			"00000016800000040000000800000001" + "001d0002" + "6100", &smpp.MessageResp{TLVs: tlvs(smpp.TagAdditionalStatusInfo, "a\x00")},
		},
		"an id and zeros":                   {"00000014800000040000000000000001" + "61000000", &smpp.MessageResp{MessageID: "a"}},
		"an error with a broken body":       {"00000013800000040000000800000001" + "610001", &smpp.MessageResp{}},
		"a list of failures that is absent": {"00000012800000210000000000000001" + "6100", &smpp.MultiResp{MessageID: "a"}},
		"a query without a state":           {"00000012800000030000000000000001" + "6100", &smpp.QueryResp{MessageID: "a"}},
	} {
		got, err := smpp.Decode(octets(t, c.digits))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got.Body, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got.Body, c.want)
		}
	}
}

func TestBrokenPDUsAreAnsweredWithTheirStatus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("61", smpp.MaxText+1)
	for name, c := range map[string]struct {
		digits  string
		command smpp.CommandID
		status  smpp.Status
		isFatal bool
	}{
		"shorter than a header":          {"000000", smpp.GenericNack, smpp.RInvCmdLen, true},
		"another length":                 {"0000001100000015000000000a342ee7", smpp.GenericNack, smpp.RInvCmdLen, true},
		"an unknown request":             {"0000001000000110000000000a342ee7", smpp.GenericNack, smpp.RInvCmdID, false},
		"an unknown response":            {"0000001080000110000000000a342ee7", smpp.GenericNack, smpp.RInvCmdID, false},
		"a request without a body":       {"00000010000000040000000000000001", smpp.SubmitSMResp, smpp.RInvSerTyp, false},
		"a system id without end":        {"00000012000000090000000000000001" + "6161", smpp.BindTransceiverResp, smpp.RInvSysID, false},
		"a system id that is too long":   {"00000118000000090000000000000001" + long + "0000000000000000", smpp.BindTransceiverResp, smpp.RInvSysID, false},
		"a PDU that ends in the content": {"00000016000000040000000000000001" + "000000000000", smpp.SubmitSMResp, smpp.RInvDstAdr, false},
		"a cut short message":            {"00000039000000050000000000000001000101393939393139393134353933000000363436340000000000000000080010c1e1e9edf3faf1fc", smpp.DeliverSMResp, smpp.RInvMsgLen, false},
		"cut parameters":                 {"00000020000001030000000000000001" + "00" + "000000" + "000000" + "000000" + "042400ff6162", smpp.DataSMResp, smpp.RInvOptParStream, false},
		"an unknown kind of destination": {"00000016000000210000000000000001" + "00" + "000000" + "01" + "03", smpp.SubmitMultiResp, smpp.RInvDestFlag, false},
		"a list without a name":          {"00000017000000210000000000000001" + "00" + "000000" + "01" + "0200", smpp.SubmitMultiResp, smpp.RInvDLName, false},
		"destinations that are missing":  {"00000015000000210000000000000001" + "00" + "000000" + "ff", smpp.SubmitMultiResp, smpp.RInvCmdLen, false},
	} {
		_, err := smpp.Decode(octets(t, c.digits))
		var e *smpp.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if answer := e.Response(); answer.Command != c.command || answer.Status != c.status || e.IsFatal != c.isFatal {
			t.Errorf("%s: answered with %s %s, fatal %t (%v)", name, answer.Command, answer.Status, e.IsFatal, e)
		}
	}
	_, err := smpp.Decode(octets(t, "00000013800000040000000000000001"+"610001"))
	var e *smpp.Error
	if !errors.As(err, &e) || e.Response() != nil {
		t.Errorf("a broken response is answered: %v", err)
	}
}

func TestFieldsThatDoNotFitAreNotEncoded(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]smpp.Body{
		"short_message":       &smpp.Message{Short: make([]byte, 256)},
		"source_addr":         &smpp.Message{Source: smpp.Address{Number: "1\x002"}},
		"service_type":        &smpp.Message{ServiceType: strings.Repeat("a", smpp.MaxText+1)},
		"number_of_dests":     &smpp.Multi{Dests: make([]smpp.Dest, 256)},
		"optional parameters": &smpp.Message{TLVs: smpp.TLVs{0, 1, 0, 9, 1}},
	} {
		command := smpp.SubmitSM
		if name == "number_of_dests" {
			command = smpp.SubmitMulti
		}
		before := []byte("before")
		after, err := smpp.Append(before, &smpp.PDU{Command: command, Sequence: 7, Body: body})
		var e *smpp.Error
		if !errors.As(err, &e) || e.Field != name || e.Command != command || e.Sequence != 7 || string(after) != "before" {
			t.Errorf("%s: %v, %q", name, err, after)
		}
	}
}

var commands = []smpp.CommandID{
	smpp.GenericNack, smpp.BindReceiver, smpp.BindTransmitter, smpp.BindTransceiver, smpp.QuerySM, smpp.SubmitSM, smpp.DeliverSM, smpp.Unbind, smpp.ReplaceSM,
	smpp.CancelSM, smpp.Outbind, smpp.EnquireLink, smpp.SubmitMulti, smpp.AlertNotification, smpp.DataSM, smpp.BindReceiverResp, smpp.BindTransmitterResp,
	smpp.BindTransceiverResp, smpp.QuerySMResp, smpp.SubmitSMResp, smpp.DeliverSMResp, smpp.UnbindResp, smpp.ReplaceSMResp, smpp.CancelSMResp,
	smpp.EnquireLinkResp, smpp.SubmitMultiResp, smpp.DataSMResp,
}

func TestCommandsHaveNamesAndResponses(t *testing.T) {
	t.Parallel()
	for _, c := range commands {
		if !c.IsKnown() || strings.HasPrefix(c.String(), "0x") {
			t.Errorf("%s is unknown", c)
		}
		if r := c.Response(); !r.IsResponse() || !r.IsKnown() {
			t.Errorf("the response to %s is %s", c, r)
		}
	}
	for c, want := range map[smpp.CommandID]string{
		smpp.SubmitSMResp: "submit_sm_resp", smpp.GenericNack: "generic_nack", 0x111: "0x00000111", 0x80000102: "alert_notification_resp",
	} {
		if c.String() != want {
			t.Errorf("%s, want %s", c, want)
		}
	}
	if smpp.CommandID(0x8000000B).IsKnown() {
		t.Error("outbind has a response")
	}
	if status, known := smpp.ParseStatus(smpp.RThrottled.String()); !known || status != smpp.RThrottled {
		t.Errorf("ESME_RTHROTTLED is %s", status)
	}
}

// fill draws the fields of a body by reflection, so that a new field is drawn too.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.String:
		v.SetString(rapid.StringOfN(rapid.RuneFrom([]rune("aZ0é短")), 0, 20, smpp.MaxText).Draw(t, "text"))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(rapid.Uint64Max(0xFF).Draw(t, "number"))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[smpp.TLVs]() {
			var list smpp.TLVs
			for range rapid.IntRange(0, 3).Draw(t, "parameters") {
				list.Add(smpp.Tag(rapid.Uint16().Draw(t, "tag")), rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value"))
			}
			v.Set(reflect.ValueOf(list))
			return
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "elements") {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			fill(t, v.Index(i))
		}
	default:
		t.Fatalf("a field of the kind %s", v.Kind())
	}
}

func TestPDUsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		command := rapid.SampledFrom(commands).Draw(t, "command")
		p := &smpp.PDU{Command: command, Sequence: rapid.Uint32().Draw(t, "sequence"), Status: smpp.Status(rapid.Uint32().Draw(t, "status")), Body: smpp.NewBody(command)}
		if p.Body != nil {
			fill(t, reflect.ValueOf(p.Body))
		}
		normalise(p)
		once, err := smpp.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := smpp.Read(bufio.NewReader(bytes.NewReader(once)), smpp.MaxPDU)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v became %+v, %v", p.Body, got.Body, err)
		}
	})
}

// normalise removes the fields of a drawn PDU that its command does not contain.
func normalise(p *smpp.PDU) {
	switch body := p.Body.(type) {
	case *smpp.Message:
		if p.Command == smpp.DataSM {
			body.ProtocolID, body.Priority, body.Schedule, body.Validity, body.ReplaceIfPresent, body.DefaultMessage, body.Short = 0, 0, "", "", 0, 0, nil
		}
	case *smpp.Multi:
		body.Message.Dest = smpp.Address{}
		for i := range body.Dests {
			if body.Dests[i].List != "" {
				body.Dests[i].Address = smpp.Address{}
			}
		}
	}
}

func TestReadReturnsPDUAfterPDU(t *testing.T) {
	t.Parallel()
	var stream []byte
	for range 3 {
		stream = append(stream, encode(t, &smpp.PDU{Command: smpp.SubmitSM, Sequence: 1, Body: &smpp.Message{Short: []byte("a")}})...)
		stream = append(stream, octets(t, "0000001100000110000000000a342ee70f")...)
	}
	r := bufio.NewReader(iotestOneByte{bytes.NewReader(stream)})
	for range 3 {
		if p, err := smpp.Read(r, smpp.MaxPDU); err != nil || p.Command != smpp.SubmitSM {
			t.Fatalf("%+v, %v", p, err)
		}
		var e *smpp.Error
		if _, err := smpp.Read(r, smpp.MaxPDU); !errors.As(err, &e) || e.IsFatal {
			t.Fatal(err)
		}
	}
	if _, err := smpp.Read(r, smpp.MaxPDU); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for _, cut := range []int{1, 15, 16, len(stream) / 3 / 2} {
		if _, err := smpp.Read(bufio.NewReader(bytes.NewReader(stream[:cut])), smpp.MaxPDU); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d octets: %v", cut, err)
		}
	}
}

type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(b []byte) (int, error) { return o.r.Read(b[:min(len(b), 1)]) }

func TestReadRejectsLengthsOutsideTheLimit(t *testing.T) {
	t.Parallel()
	for _, digits := range []string{"00000000000000040000000000000007", "0000000f000000040000000000000007", "00000400000000040000000000000007", "ffffffff000000040000000000000007"} {
		_, err := smpp.Read(bufio.NewReader(bytes.NewReader(octets(t, digits))), 1023)
		var e *smpp.Error
		if !errors.As(err, &e) || !e.IsFatal || e.Response().Status != smpp.RInvCmdLen || e.Response().Sequence != 7 {
			t.Errorf("%s: %v", digits, err)
		}
	}
}

func TestReadAllocatesNoMoreThanWhatArrives(t *testing.T) {
	header := octets(t, "00ffffff000000040000000000000007")
	r := bufio.NewReader(nil)
	if got := allocated(func() {
		for range 100 {
			r.Reset(bytes.NewReader(header))
			if _, err := smpp.Read(r, 1<<24); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
		}
	}); got > 100*5000 {
		t.Errorf("%d octets for 100 headers", got)
	}
}

// allocated returns the octets that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzDecode decodes any octets. What is decoded survives encoding and decoding.
func FuzzDecode(f *testing.F) {
	for _, c := range published {
		f.Add(octets(f, c.digits))
	}
	multi := &smpp.Multi{Message: *receiptMessage, Dests: []smpp.Dest{{List: "list"}, {Address: smpp.Address{TON: 1, NPI: 1, Number: "123"}}}}
	multi.Message.Dest = smpp.Address{}
	f.Add(encode(f, &smpp.PDU{Command: smpp.SubmitMulti, Body: multi}))
	f.Add(encode(f, &smpp.PDU{Command: smpp.SubmitMultiResp, Body: &smpp.MultiResp{Unsuccessful: []smpp.Unsuccessful{{Status: 1}}}}))
	f.Add(encode(f, &smpp.PDU{Command: smpp.AlertNotification, Body: &smpp.Alert{}}))
	f.Fuzz(func(t *testing.T, octets []byte) {
		if len(octets) >= 4 { // nearly all drawn lengths are wrong
			octets[0], octets[1], octets[2], octets[3] = 0, byte(len(octets)>>16), byte(len(octets)>>8), byte(len(octets))
		}
		p, err := smpp.Decode(octets)
		if err != nil {
			var e *smpp.Error
			if !errors.As(err, &e) || e.Error() == "" {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := smpp.Append(nil, p)
		if err != nil {
			t.Fatalf("%+v is not encoded: %v", p.Body, err)
		}
		same, err := smpp.Decode(again)
		if err != nil || !reflect.DeepEqual(same, p) {
			t.Fatalf("%+v became %+v, %v", p.Body, same, err)
		}
		if m, isMessage := p.Body.(*smpp.Message); isMessage {
			useMessage(m)
		}
	})
}

// FuzzRead reads PDUs from a stream until it ends.
func FuzzRead(f *testing.F) {
	for _, c := range published {
		f.Add(octets(f, c.digits))
	}
	f.Fuzz(func(_ *testing.T, stream []byte) {
		r := bufio.NewReader(bytes.NewReader(stream))
		for {
			_, err := smpp.Read(r, 1024)
			var e *smpp.Error
			if err != nil && (!errors.As(err, &e) || e.IsFatal) {
				return
			}
		}
	})
}

// TestDecodeAllocatesNoMoreThanTheLength allows a constant beside the length, for structs: 255 destinations of submit_multi are the most.
func TestDecodeAllocatesNoMoreThanTheLength(t *testing.T) {
	for name, p := range map[string]*smpp.PDU{
		"empty parameters": {Command: smpp.DataSM, Body: &smpp.Message{TLVs: make(smpp.TLVs, 60_000)}},
		"a payload":        {Command: smpp.DataSM, Body: &smpp.Message{TLVs: tlvs(smpp.TagMessagePayload, strings.Repeat("a", 60_000))}},
		"destinations":     {Command: smpp.SubmitMulti, Body: &smpp.Multi{Dests: make([]smpp.Dest, 255)}},
	} {
		b := encode(t, p)
		if got := allocated(func() {
			if _, err := smpp.Decode(b); err != nil {
				t.Fatal(err)
			}
		}); got > uint64(len(b))+64<<10 {
			t.Errorf("%s: %d octets for a PDU of %d", name, got, len(b))
		}
	}
}
