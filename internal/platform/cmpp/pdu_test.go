package cmpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fill sets all fields of a PDU to random values that fit.
func fill(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Field(i)
		switch field.Kind() {
		case reflect.Struct:
			fill(t, field)
		case reflect.String:
			field.SetString(rapid.StringMatching(`[!-~]{0,2}`).Draw(t, "text"))
		case reflect.Slice:
			if field.Type().Elem().Kind() == reflect.String {
				field.Set(reflect.ValueOf(rapid.SliceOfN(rapid.StringMatching(`[0-9]{0,21}`), 1, maxDestinations).Draw(t, "texts")))
			} else {
				field.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 255).Draw(t, "octets"))
			}
		case reflect.Array:
			reflect.Copy(field, reflect.ValueOf(rapid.SliceOfN(rapid.Byte(), field.Len(), field.Len()).Draw(t, "digest")))
		case reflect.Uint8:
			field.SetUint(uint64(rapid.Uint8().Draw(t, "octet")))
		case reflect.Uint32:
			// A Status of CMPP 2.0 has one octet.
			field.SetUint(uint64(rapid.Uint32Range(0, 255).Draw(t, "number")))
		case reflect.Uint64:
			field.SetUint(rapid.Uint64().Draw(t, "identifier"))
		default:
			t.Fatalf("unknown kind %s", field.Kind())
		}
	}
}

// dropV3 removes the values that CMPP 2.0 does not have.
func dropV3(p PDU) {
	switch p := p.(type) {
	case *Submit:
		p.FeeTerminalType, p.DestinationType, p.LinkID = 0, 0, ""
	case *Deliver:
		p.SourceType, p.LinkID = 0, ""
	}
}

func TestEveryPDURoundTrips(t *testing.T) {
	for command, empty := range newPDU {
		for _, version := range []Version{V20, V21, V30} {
			t.Run(command.String()+" "+version.String(), rapid.MakeCheck(func(t *rapid.T) {
				frame := Frame{Sequence: rapid.Uint32().Draw(t, "sequence"), PDU: empty()}
				fill(t, reflect.ValueOf(frame.PDU).Elem())
				if !version.isV3() {
					dropV3(frame.PDU)
				}
				encoded, err := Append(nil, version, frame)
				if err != nil {
					t.Fatal(err)
				}
				if length := binary.BigEndian.Uint32(encoded); int(length) != len(encoded) {
					t.Fatalf("the header says %d octets: there are %d", length, len(encoded))
				}
				got, err := Read(bytes.NewReader(encoded), version)
				if err != nil || !reflect.DeepEqual(got, frame) {
					t.Fatalf("decoded %+v, %v; want %+v", got.PDU, err, frame.PDU)
				}
			}))
		}
	}
}

func TestCutPDUsAndOtherVersionsAreRejected(t *testing.T) {
	for name, v := range vectors(t) {
		whole := octets(t, v.octets)
		for length := headerLength; length < len(whole); length++ {
			if name == "response to connect 3.0" && length == headerLength+connectRespLength {
				continue // it has the length of CMPP 2.0
			}
			cut := bytes.Clone(whole[:length])
			binary.BigEndian.PutUint32(cut, uint32(length))
			_, err := Read(bytes.NewReader(cut), v.version)
			if decode := (*DecodeError)(nil); !errors.As(err, &decode) || decode.Command != CommandOf(v.frame.PDU) || decode.Sequence != v.frame.Sequence {
				t.Fatalf("%s cut to %d octets: %v", name, length, err)
			}
		}
		other := V20
		if v.version != V30 {
			other = V30
		}
		if encoded, err := Append(nil, other, v.frame); err == nil && len(encoded) != len(whole) && !strings.Contains(name, "connect") {
			if _, err := Read(bytes.NewReader(whole), other); err == nil {
				t.Errorf("%s was read as a PDU of CMPP %s", name, other)
			}
		}
	}
}

func TestReadStopsAtWrongLengths(t *testing.T) {
	for _, length := range []uint32{0, headerLength - 1, MaxLength + 1, 1<<32 - 1} {
		header := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, length), 8<<32)
		r := bytes.NewReader(append(header, make([]byte, 100)...))
		var wrong *LengthError
		allocated := testing.AllocsPerRun(10, func() {
			r.Reset(header)
			if _, err := Read(r, V20); !errors.As(err, &wrong) || wrong.Length != length {
				t.Fatalf("length %d: %v", length, err)
			}
		})
		if allocated > 2 { // the header and the error
			t.Errorf("length %d: %v allocations", length, allocated)
		}
	}
}

func TestReadTellsEndsBetweenFramesFromCutFrames(t *testing.T) {
	encoded, _ := Append(nil, V20, Frame{1, &Cancel{MessageID: 7}})
	if _, err := Read(bytes.NewReader(nil), V20); !errors.Is(err, io.EOF) {
		t.Errorf("between frames: %v", err)
	}
	for length := 1; length < len(encoded); length++ {
		if _, err := Read(bytes.NewReader(encoded[:length]), V20); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d octets: %v", length, err)
		}
	}
}

func TestReadContinuesAfterUnknownAndMalformedPDUs(t *testing.T) {
	unknown := octets(t, "00000010 00000042 00000001 00000000")
	malformed := octets(t, "0000000e 00000004 00000002 0000")
	good, _ := Append(nil, V20, Frame{3, &ActiveTest{}})
	r := bytes.NewReader(bytes.Join([][]byte{unknown, malformed, good}, nil))
	for sequence := uint32(1); sequence <= 2; sequence++ {
		_, err := Read(r, V20)
		if decode := (*DecodeError)(nil); !errors.As(err, &decode) || decode.Sequence != sequence {
			t.Fatalf("PDU %d: %v", sequence, err)
		}
	}
	if frame, err := Read(r, V20); err != nil || frame.Sequence != 3 {
		t.Errorf("the PDU behind them: %+v, %v", frame, err)
	}
}

// The octets in a PDU can claim lengths and numbers: only octets that arrived may cost memory.
func TestReadAllocatesInProportionToTheLength(t *testing.T) {
	for name, v := range vectors(t) {
		encoded := octets(t, v.octets)
		for claimed := headerLength; claimed < len(encoded); claimed++ {
			pdu := bytes.Clone(encoded)
			pdu[claimed] = 0xFF
			if got := allocated(func() { _, _ = Read(bytes.NewReader(pdu), v.version) }); got > 3*uint64(len(pdu))+1024 {
				t.Fatalf("%s with a wrong octet %d: %d octets are allocated for a PDU of %d", name, claimed, got, len(pdu))
			}
		}
	}
}

// allocated returns the octets that a call of f allocates.
func allocated(f func()) uint64 {
	const calls = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls
}

func TestTooManyDestinationsAreRejected(t *testing.T) {
	p := vectorSubmit(t)
	p.Destinations = make([]string, maxDestinations+1)
	if _, err := Append(nil, V20, Frame{1, p}); err == nil {
		t.Error("100 destinations were encoded")
	}
	p.Destinations = []string{"13800138000"}
	encoded, _ := Append(nil, V20, Frame{1, p})
	count := bytes.Index(encoded, []byte("\x0113800138000"))
	for _, n := range []byte{3, 99, 100, 255} {
		encoded[count] = n
		var decode *DecodeError
		if _, err := Read(bytes.NewReader(encoded), V20); !errors.As(err, &decode) || decode.Field != "DestUsr_tl" {
			t.Errorf("%d destinations: %v", n, err)
		}
	}
}

func TestValuesThatDoNotFitAreRejected(t *testing.T) {
	for field, frame := range map[string]Frame{
		"Source_Addr":      {1, &Connect{SourceAddr: "1234567"}},
		"Service_Id":       {1, &Submit{ServiceID: strings.Repeat("s", 11)}},
		"Dest_terminal_Id": {1, &Submit{Destinations: []string{"1", strings.Repeat("2", 22)}}},
		"Msg_Content":      {1, &Submit{Content: make([]byte, 256)}},
		"Result":           {1, &SubmitResp{Result: 256}},
		"Src_terminal_Id":  {1, &Deliver{Source: "1\x002"}},
	} {
		dst := []byte("before")
		got, err := Append(dst, V20, frame)
		if wrong := (*FieldError)(nil); !errors.As(err, &wrong) || wrong.Field != field || !bytes.Equal(got, dst) {
			t.Errorf("%s: %q, %v", field, got, err)
		}
	}
}

func TestAuthentication(t *testing.T) {
	request := vectorConnect()
	if !request.IsAuthentic("888888") || request.IsAuthentic("888889") || request.IsAuthentic("") {
		t.Error("the secret of the SP is not checked")
	}
	for _, version := range []Version{V20, V30} {
		request.Version = version
		response := NewConnectResp(request, ConnectOK, "888888", version)
		if !response.IsAuthentic(request, "888888") || response.IsAuthentic(request, "888889") {
			t.Errorf("CMPP %s: the secret of the ISMG is not checked", version)
		}
		response.Status = ConnectBadSecret
		if response.IsAuthentic(request, "888888") {
			t.Errorf("CMPP %s: the digest does not prove the status", version)
		}
	}
}

func TestTimestampsHaveTenDigits(t *testing.T) {
	timestamp := NewTimestamp(time.Date(2026, time.January, 21, 8, 5, 10, 0, time.UTC))
	if timestamp != 121080510 || timestamp.String() != "0121080510" {
		t.Errorf("got %d, %s", timestamp, timestamp)
	}
}

func TestMessageIDs(t *testing.T) {
	id := MessageID(0xb2b9da8000010000)
	want := MessageIDParts{Month: 11, Day: 5, Hour: 14, Minute: 29, Second: 42, Gateway: 1}
	if id.Parts() != want || want.MessageID() != id || id.String() != "12878564852733378560" {
		t.Errorf("got %+v, %s", id.Parts(), id)
	}
	if NewMessageID(time.Date(2015, time.November, 5, 14, 29, 42, 0, time.UTC), 1, 0) != id {
		t.Error("the time has another identifier")
	}
	rapid.Check(t, func(t *rapid.T) {
		id := MessageID(rapid.Uint64().Draw(t, "id"))
		parsed, err := ParseMessageID(id.String())
		if id.Parts().MessageID() != id || parsed != id || err != nil {
			t.Fatalf("%d: %+v, %d, %v", id, id.Parts(), parsed, err)
		}
	})
}

func TestReportsOfBothVersionsAreDecoded(t *testing.T) {
	want := &Report{MessageID: 7, Stat: "DELIVRD", SubmitTime: "2611292015", DoneTime: "2611292016", Destination: "13800138000", SMSCSequence: 9}
	for _, version := range []Version{V20, V30} {
		content, err := want.Encode(version)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeReport(content); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("CMPP %s: %+v, %v", version, got, err)
		}
		if _, err := DecodeReport(content[:reportV2Length-1]); err == nil {
			t.Errorf("CMPP %s: a cut report was decoded", version)
		}
	}
	zone := time.FixedZone("CST", 8*3600)
	if at, ok := want.DoneAt(zone); !ok || !at.Equal(time.Date(2026, time.November, 29, 12, 16, 0, 0, time.UTC)) {
		t.Errorf("done at %s, %v", at, ok)
	}
	if _, ok := (&Report{DoneTime: "0000000000"}).DoneAt(zone); ok {
		t.Error("zeros are a time")
	}
}

func TestOutcomes(t *testing.T) {
	for stat, want := range map[string]Outcome{
		"DELIVRD": OutcomeDelivered, "delivrd": OutcomeDelivered, "EXPIRED": OutcomeFailed, "DELETED": OutcomeFailed, "UNDELIV": OutcomeFailed,
		"REJECTD": OutcomeFailed, "ACCEPTD": OutcomePending, "ENROUTE": OutcomePending, "UNKNOWN": OutcomeUnknown, "": OutcomeUnknown, " ": OutcomeUnknown,
		"MA:0001": OutcomeFailed, "MA:0054": OutcomeUnknown, "MB:0054": OutcomeFailed, "CA:0051": OutcomeFailed, "CB:0007": OutcomeFailed, "DB:0101": OutcomeFailed,
		"IB:0008": OutcomeFailed, "IC:0154": OutcomeUnknown, "MK:0001": OutcomeFailed, "ML:0000": OutcomePending, "MM:0000": OutcomeUnknown,
		"MBBLACK": OutcomeFailed, "AF:4": OutcomeFailed, "MA": OutcomeFailed,
	} {
		if got := (&Report{Stat: stat}).Outcome(); got != want {
			t.Errorf("%q: got %d, want %d", stat, got, want)
		}
	}
	if (&Report{Stat: "MK:0001"}).Explanation() == "" || (&Report{Stat: "DELIVRD"}).Explanation() != "" {
		t.Error("wrong explanation")
	}
}

func TestNamesOfCodes(t *testing.T) {
	for got, want := range map[string]string{
		ResultThrottled.String(): "8 (flow control)", Result(77).String(): "77 (other error)", ConnectBadSecret.String(): "3 (authentication failed)",
		CommandSubmit.Response().String(): "CMPP_SUBMIT_RESP", Command(0x99).String(): "command 0x00000099", V21.String(): "2.1", FormatGBK.String(): "GBK",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
