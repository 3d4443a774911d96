package cmpp

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// FuzzRead checks that no octets break the decoder, that the decoder stays within one PDU, and that each decoded PDU survives encoding.
func FuzzRead(f *testing.F) {
	for _, v := range vectors(&testing.T{}) {
		encoded, _ := Append(nil, v.version, v.frame)
		f.Add(byte(v.version), encoded)
	}
	f.Fuzz(func(t *testing.T, version byte, stream []byte) {
		v, r := Version(version), bytes.NewReader(stream)
		for {
			before := r.Len()
			frame, err := Read(r, v)
			if before-r.Len() > MaxLength {
				t.Fatalf("read %d octets", before-r.Len())
			}
			if decode := (*DecodeError)(nil); errors.As(err, &decode) {
				continue
			}
			if err != nil {
				return
			}
			checkRoundTrip(t, v, frame)
		}
	})
}

func checkRoundTrip(t *testing.T, version Version, frame Frame) {
	// The length of a ConnectResp decides its version.
	if p, ok := frame.PDU.(*ConnectResp); ok && p.Status > 0xFF {
		version = V30
	}
	encoded, err := Append(nil, version, frame)
	if err != nil {
		t.Fatalf("%+v cannot be encoded: %v", frame.PDU, err)
	}
	again, err := Read(bytes.NewReader(encoded), version)
	if err != nil || !reflect.DeepEqual(again, frame) {
		t.Fatalf("%+v became %+v, %v", frame.PDU, again.PDU, err)
	}
}

func FuzzDecodeReport(f *testing.F) {
	f.Add(bytes.Repeat([]byte("1"), 60))
	f.Add(bytes.Repeat([]byte("1"), 71))
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := DecodeReport(content)
		if err != nil {
			return
		}
		encoded, err := r.Encode(V30)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeReport(encoded); err != nil || *again != *r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if outcome := r.Outcome(); outcome < OutcomeUnknown || outcome > OutcomeFailed {
			t.Fatalf("outcome %d", outcome)
		}
	})
}

func FuzzContent(f *testing.F) {
	f.Add(byte(8), byte(1), []byte("\x05\x00\x03\x01\x02\x01\x6c\x49"))
	f.Add(byte(15), byte(0), []byte("\xd6\xd0"))
	f.Fuzz(func(_ *testing.T, format, udhi byte, content []byte) {
		if _, body, err := SplitContent(udhi, content); err == nil {
			DecodeText(Format(format), body)
		}
	})
}
