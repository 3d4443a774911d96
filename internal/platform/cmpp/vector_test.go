package cmpp

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// zeros returns the hexadecimal digits of n octets of zero.
func zeros(n int) string { return strings.Repeat("00", n) }

// padded returns the hexadecimal digits of an Octet String of a length.
func padded(text string, length int) string {
	return hex.EncodeToString([]byte(text)) + zeros(length-len(text))
}

func octets(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	digest   = "90d00c1d517abd0b4f65f6bcf8535d16"
	digestV2 = "6c0b846e25bab6daa4ed1c466e0f4bd8"
	digestV3 = "7942977274098cf210ab0c16c367bc8d"
	content  = "6d4b8bd50067006f0063006d00700070002000730075 0062006d00690074"
)

func vectorConnect() *Connect { return NewConnect("900001", "888888", V21, 1021080510) }

func vectorSubmit(t *testing.T) *Submit {
	return &Submit{
		Total: 1, Number: 1, RegisteredDelivery: 1, Level: 1, ServiceID: "test", FeeUserType: 2, FeeTerminalID: "13500002696", Format: FormatUCS2,
		Source: "900001", FeeType: "02", FeeCode: "10", ValidTime: "151105131555101+", SourceNumber: "900001", Destinations: []string{"13500002696"},
		Content: octets(t, content),
	}
}

// The first vectors are the facts of the tests of github.com/bigwhite/gocmpp. The last two are captures of live gateways in the tests of
// github.com/Lihuanghe/SMSGate, with other phone numbers.
func vectors(t *testing.T) map[string]struct {
	version Version
	frame   Frame
	octets  string
} {
	const header = "00000017"
	submitted, received, receivedV2 := MessageID(12878564852733378560), MessageID(13025908756704198656), MessageID(13052947396898652160)
	mo, moText := []byte("This is a test MO."), hex.EncodeToString([]byte("This is a test MO."))
	return map[string]struct {
		version Version
		frame   Frame
		octets  string
	}{
		"connect":                 {V21, Frame{0x17, vectorConnect()}, "00000027 00000001" + header + padded("900001", 6) + digest + "213cdc73be"},
		"response to connect 2.0": {V20, Frame{0x17, NewConnectResp(vectorConnect(), ConnectOK, "888888", V21)}, "0000001e 80000001" + header + "00" + digestV2 + "21"},
		"response to connect 3.0": {V30, Frame{0x17, connectRespV30()}, "00000021 80000001" + header + "00000000" + digestV3 + "30"},
		"terminate":               {V20, Frame{0x17, &Terminate{}}, "0000000c 00000002" + header},
		"response to terminate":   {V30, Frame{0x17, &TerminateResp{}}, "0000000c 80000002" + header},
		"active test":             {V20, Frame{0x17, &ActiveTest{}}, "0000000c 00000008" + header},
		"response to active test": {V30, Frame{0x17, &ActiveTestResp{}}, "0000000d 80000008" + header + "00"},
		"submit 2.0": {V20, Frame{0x17, vectorSubmit(t)}, "000000bd 00000004" + header + zeros(8) + "01010101" + padded("test", 10) + "02" +
			padded("13500002696", 21) + "000008" + padded("900001", 6) + padded("02", 2) + padded("10", 6) + padded("151105131555101+", 17) + zeros(17) +
			padded("900001", 21) + "01" + padded("13500002696", 21) + "1e" + content + zeros(8)},
		"submit 3.0": {V30, Frame{0x17, vectorSubmit(t)}, "000000e1 00000004" + header + zeros(8) + "01010101" + padded("test", 10) + "02" +
			padded("13500002696", 32) + "00000008" + padded("900001", 6) + padded("02", 2) + padded("10", 6) + padded("151105131555101+", 17) + zeros(17) +
			padded("900001", 21) + "01" + padded("13500002696", 32) + "001e" + content + zeros(20)},
		"response to submit 2.0": {V20, Frame{0x17, &SubmitResp{MessageID: submitted}}, "00000015 80000004" + header + "b2b9da8000010000" + "00"},
		"response to submit 3.0": {V30, Frame{0x17, &SubmitResp{MessageID: submitted}}, "00000018 80000004" + header + "b2b9da8000010000" + "00000000"},
		"deliver 2.0": {V20, Frame{5, &Deliver{MessageID: receivedV2, Destination: "900001", Source: "13412340000", Content: mo}}, "00000067 00000005 00000005" +
			"b525628000010000" + padded("900001", 21) + zeros(13) + padded("13412340000", 21) + "0012" + moText + zeros(8)},
		"deliver 3.0": {V30, Frame{1, &Deliver{MessageID: received, Destination: "900001", Source: "13412340000", Content: mo}}, "0000007f 00000005 00000001" +
			"b4c5530000010000" + padded("900001", 21) + zeros(13) + padded("13412340000", 32) + "000012" + moText + zeros(20)},
		"response to deliver 2.0": {V20, Frame{5, &DeliverResp{MessageID: receivedV2}}, "00000015 80000005 00000005 b525628000010000 00"},
		"response to deliver 3.0": {V30, Frame{1, &DeliverResp{MessageID: received}}, "00000018 80000005 00000001 b4c5530000010000 00000000"},
		"captured part of a long text": {V20, Frame{0x55c51d4e, &Submit{
			MessageID: 0x43c0ee40261c1d50, Total: 4, Number: 1, Level: 9, ServiceID: "10086", FeeUserType: 2, UDHI: 1, Format: FormatUCS2, FeeCode: "000000",
			FeeType: "01", SourceNumber: "10086", Destinations: []string{"13800138000"}, Content: octets(t, captured),
		}}, "0000012b 00000004 55c51d4e 43c0ee40261c1d50 04010009" + padded("10086", 10) + "02" + zeros(21) + "000108" + zeros(6) + padded("01", 2) +
			padded("000000", 6) + zeros(34) + padded("10086", 21) + "01" + padded("13800138000", 21) + "8c" + captured + zeros(8)},
		"captured report": {V30, Frame{0, &Deliver{
			MessageID: 0x522a4980002aa6ce, Destination: "10085101", ServiceID: "cmccz_sms", Source: "13800138000", IsReport: 1, Content: octets(t, capturedReport),
		}}, "000000b4 00000005 00000000 522a4980002aa6ce" + padded("10085101", 21) + padded("cmccz_sms", 10) + "000000" + padded("13800138000", 32) + "000147" +
			capturedReport + zeros(20)},
	}
}

const (
	captured = "050003e404015c0a656c76845ba26237002c60a8597dff0160a84e8e0032003000310036002d00300033002d00320033002000310034003a00350031003a00330036901a8fc7" +
		"4e2d56fd79fb52a8003100300030003800359500552e4e137ebf8ba28d2d768430104e0052a0624b673a9ad86e059632522e4fdd62a4819c3011ff0c8bf770b951fb652f4ed8"
	// The report has the error "AF:4" and times that are no times.
	capturedReport = "522a4980002aa6cd" + "41463a34000000" + "30303031303130303030" + "30303031303130303030" +
		"3133383030313338303030000000000000000000000000000000000000000000" + "00000000"
)

func connectRespV30() *ConnectResp {
	request := vectorConnect()
	request.Version = V30
	return NewConnectResp(request, ConnectOK, "888888", V30)
}

func TestPublishedVectors(t *testing.T) {
	for name, v := range vectors(t) {
		t.Run(name, func(t *testing.T) {
			want := octets(t, v.octets)
			got, err := Append(nil, v.version, v.frame)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("encoded\n%x, %v; want\n%x", got, err, want)
			}
			frame, err := Read(bytes.NewReader(want), v.version)
			if err != nil || !reflect.DeepEqual(frame, v.frame) {
				t.Errorf("decoded\n%+v, %v; want\n%+v", frame.PDU, err, v.frame.PDU)
			}
		})
	}
}

func TestPublishedReport(t *testing.T) {
	want := &Report{
		MessageID: 13025908756704198656, Stat: "DELIVRD", SubmitTime: "1511120955", DoneTime: "1511120957", Destination: "13412340000", SMSCSequence: 0x12345678,
	}
	encoded := octets(t, "b4c5530000010000"+padded("DELIVRD", 7)+padded("1511120955", 10)+padded("1511120957", 10)+padded("13412340000", 21)+"12345678")
	if got, err := want.Encode(V20); err != nil || !bytes.Equal(got, encoded) {
		t.Errorf("encoded %x, %v; want %x", got, err, encoded)
	}
	if got, err := DecodeReport(encoded); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, %v; want %+v", got, err, want)
	}
	got, err := DecodeReport(octets(t, capturedReport))
	if err != nil || got.Stat != "AF:4" || got.Destination != "13800138000" || got.MessageID != 0x522a4980002aa6cd || got.Outcome() != OutcomeFailed {
		t.Errorf("decoded the captured report as %+v, %v", got, err)
	}
}
