package cmpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
)

var (
	randomPDUs = flag.Int("cmpp.pdus", 20_000, "number of random PDUs that are encoded, decoded, and decoded again after a change of their octets")
	randomSeed = flag.Uint64("cmpp.seed", 0, "seed of the random PDUs; 0: the time")
)

const (
	drawn        = 500     // PDUs of one command in a row
	eachMeasured = 20_000  // PDUs whose allocations are measured one by one: to measure takes ten times as long as to decode. The others are measured together
	structs      = 1 << 10 // octets that a PDU may allocate for its structs, or for its error
)

// TestRandomPDUs makes PDUs of every command and version. Each survives encoding and decoding. With some octets changed, cut or added, each is decoded to a PDU that
// survives, or to an error. Read allocates at most three times the length of a PDU, for its octets, its texts and the list of its recipients, and a constant for
// structs.
func TestRandomPDUs(t *testing.T) { // not parallel: it measures allocations
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 0))
	commands := slices.Sorted(maps.Keys(newPDU))
	frames, encoded := make([]Frame, drawn), make([][]byte, drawn)
	for done := 0; done < *randomPDUs; done += drawn {
		together := 1
		if done >= eachMeasured {
			together = 20
		}
		command := commands[done/drawn%len(commands)]
		version := []Version{V20, V21, V30}[r.IntN(3)]
		for i := range frames {
			frames[i] = Frame{Sequence: r.Uint32(), PDU: newPDU[command]()}
			randomise(r, version, reflect.ValueOf(frames[i].PDU).Elem())
			if !version.isV3() {
				dropV3(frames[i].PDU)
			}
			var err error
			if encoded[i], err = Append(nil, version, frames[i]); err != nil {
				t.Fatalf("seed %d: %+v: %v", seed, frames[i].PDU, err)
			}
		}
		readAll(t, seed, version, together, encoded, func(i int, frame Frame, err error) {
			if err != nil || !reflect.DeepEqual(frame, frames[i]) {
				t.Fatalf("seed %d: %+v became %+v, %v", seed, frames[i].PDU, frame.PDU, err)
			}
		})
		for i := range encoded {
			encoded[i] = changed(r, encoded[i])
		}
		readAll(t, seed, version, together, encoded, func(i int, frame Frame, err error) {
			decode, length := (*DecodeError)(nil), (*LengthError)(nil)
			switch {
			case err == nil:
				checkRoundTrip(t, version, frame)
			case !errors.As(err, &decode) && !errors.As(err, &length) && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Fatalf("seed %d: % x: %v", seed, encoded[i], err)
			}
		})
	}
}

// limitOf returns the number of octets that a PDU may allocate.
func limitOf(octets []byte) uint64 {
	limit := uint64(3*len(octets) + structs)
	if length := binary.BigEndian.Uint32(octets); length <= MaxLength {
		limit += uint64(length) // octets that do not arrive
	}
	return limit
}

// readAll reads PDUs, and checks the octets that this allocates, for as many PDUs `together`. It calls check for each.
func readAll(t *testing.T, seed uint64, version Version, together int, encoded [][]byte, check func(i int, frame Frame, err error)) {
	t.Helper()
	read, errs := make([]Frame, len(encoded)), make([]error, len(encoded))
	stream := bytes.NewReader(nil)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	for first := 0; first < len(encoded); first += together {
		group := encoded[first : first+together]
		for try := 1; ; try++ { // another goroutine can also have allocated octets
			before := stats.TotalAlloc
			for i, octets := range group {
				stream.Reset(octets)
				read[first+i], errs[first+i] = Read(stream, version)
			}
			runtime.ReadMemStats(&stats)
			limit := uint64(0)
			for _, octets := range group {
				limit += limitOf(octets)
			}
			if got := stats.TotalAlloc - before; got <= limit {
				break
			} else if try == 3 {
				t.Fatalf("seed %d: %d PDUs allocate %d octets, at most %d: % x", seed, together, got, limit, group)
			}
		}
	}
	for i := range encoded {
		check(i, read[i], errs[i])
	}
}

// randomise sets all fields of a PDU to random values that fit into the version.
func randomise(r *rand.Rand, version Version, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Field(i)
		switch field.Kind() {
		case reflect.Struct:
			randomise(r, version, field)
		case reflect.String:
			field.SetString(randomText(r, 2)) // the shortest fields
		case reflect.Slice:
			if field.Type().Elem().Kind() != reflect.String {
				field.SetBytes(randomOctets(r, 1+r.IntN(255)))
				continue
			}
			for range 1 + r.IntN([]int{5, 5, 5, maxDestinations}[r.IntN(4)]) {
				field.Set(reflect.Append(field, reflect.ValueOf(randomText(r, 21))))
			}
		case reflect.Array:
			reflect.Copy(field, reflect.ValueOf(randomOctets(r, field.Len())))
		case reflect.Uint8:
			field.SetUint(r.Uint64N(1 << 8))
		case reflect.Uint32:
			bits := 8 // a status of CMPP 2.0 has one octet
			if version.isV3() {
				bits = 32
			}
			field.SetUint(r.Uint64N(1 << bits))
		case reflect.Uint64:
			field.SetUint(r.Uint64())
		default:
			panic("a field of the kind " + field.Kind().String())
		}
	}
}

// randomText returns up to `most` octets without zero.
func randomText(r *rand.Rand, most int) string {
	text := randomOctets(r, r.IntN(most+1))
	for i := range text {
		text[i] = max(text[i], 1)
	}
	return string(text)
}

func randomOctets(r *rand.Rand, n int) []byte {
	octets := make([]byte, n)
	for i := 0; i < n; i += 8 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], r.Uint64())
		copy(octets[i:], eight[:])
	}
	return octets
}

// changed returns the octets of a PDU with some octets changed, cut or added. Most have the right length, so that their fields are read.
func changed(r *rand.Rand, pdu []byte) []byte {
	octets := bytes.Clone(pdu)
	switch r.IntN(6) {
	case 0:
		octets = octets[:headerLength+r.IntN(len(octets)-headerLength+1)]
	case 1:
		octets = append(octets, randomOctets(r, r.IntN(40))...)
	case 2:
		octets = append(octets[:headerLength], randomOctets(r, r.IntN(400))...)
	default:
		for range 1 + r.IntN(8) {
			octets[r.IntN(len(octets))] = byte(r.Uint32())
		}
	}
	if r.IntN(20) > 0 {
		binary.BigEndian.PutUint32(octets, uint32(len(octets)))
	}
	return octets
}
