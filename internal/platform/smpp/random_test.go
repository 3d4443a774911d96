package smpp_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"lksms/internal/platform/smpp"
)

var (
	randomPDUs = flag.Int("smpp.pdus", 20_000, "number of random PDUs that are encoded, decoded, and decoded again after a change of their octets")
	randomSeed = flag.Uint64("smpp.seed", 0, "seed of the random PDUs; 0: the time")
)

const (
	drawn        = 500       // PDUs of one command in a row
	eachMeasured = 20_000    // PDUs whose allocations are measured one by one: to measure takes ten times as long as to decode. The others are measured together
	structs      = 1 << 10   // octets that a PDU may allocate for its structs, or for its error
	announced    = 4096      // octets that a PDU may allocate for octets that do not arrive
	ofElements   = 255 * 128 // octets that a PDU may allocate for its list of destinations
)

// TestRandomPDUs makes PDUs of every command. Each survives encoding and decoding. With some octets changed, cut or added, each is decoded to a PDU that survives,
// or to an error. Read allocates at most four times the length of a PDU, because it reads a long one into a growing buffer and copies texts, and a constant.
func TestRandomPDUs(t *testing.T) { // not parallel: it measures allocations
	seed := *randomSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 0))
	pdus, encoded := make([]*smpp.PDU, drawn), make([][]byte, drawn)
	for done := 0; done < *randomPDUs; done += drawn {
		together := 1
		if done >= eachMeasured {
			together = 20
		}
		command := commands[done/drawn%len(commands)]
		for i := range pdus {
			pdus[i] = randomPDU(r, command)
			encoded[i] = encode(t, pdus[i])
		}
		readAll(t, seed, together, encoded, func(i int, p *smpp.PDU, err error) {
			if err != nil || !reflect.DeepEqual(p, pdus[i]) {
				t.Fatalf("seed %d: %+v became %+v, %v", seed, pdus[i], p, err)
			}
		})
		for i := range encoded {
			encoded[i] = changed(r, encoded[i])
		}
		readAll(t, seed, together, encoded, func(i int, p *smpp.PDU, err error) {
			if e := (*smpp.Error)(nil); err != nil && !errors.As(err, &e) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("seed %d: % x: %v", seed, encoded[i], err)
			} else if err != nil {
				return
			}
			again, err := smpp.Decode(encode(t, p))
			if err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf("seed %d: %+v became %+v, %v", seed, p, again, err)
			}
		})
	}
}

// limitOf returns the number of octets that a PDU may allocate.
func limitOf(octets []byte) uint64 {
	limit := uint64(4*len(octets) + structs + announced)
	if command := smpp.CommandID(binary.BigEndian.Uint32(octets[4:])); command == smpp.SubmitMulti || command == smpp.SubmitMultiResp {
		limit += ofElements
	}
	return limit
}

// readAll reads PDUs, and checks the octets that this allocates, for as many PDUs `together`. It calls check for each.
func readAll(t *testing.T, seed uint64, together int, encoded [][]byte, check func(i int, p *smpp.PDU, err error)) {
	t.Helper()
	read, errs := make([]*smpp.PDU, len(encoded)), make([]error, len(encoded))
	stream, reader := bytes.NewReader(nil), bufio.NewReader(nil)
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	for first := 0; first < len(encoded); first += together {
		group := encoded[first : first+together]
		for try := 1; ; try++ { // another goroutine can also have allocated octets
			before := stats.TotalAlloc
			for i, octets := range group {
				stream.Reset(octets)
				reader.Reset(stream)
				read[first+i], errs[first+i] = smpp.Read(reader, smpp.MaxPDU)
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

// randomPDU returns a PDU whose fields have random values that fit.
func randomPDU(r *rand.Rand, command smpp.CommandID) *smpp.PDU {
	p := &smpp.PDU{Command: command, Sequence: r.Uint32(), Status: smpp.Status(r.Uint32()), Body: smpp.NewBody(command)}
	if p.Body != nil {
		randomise(r, reflect.ValueOf(p.Body).Elem())
	}
	normalise(p)
	return p
}

func randomise(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			randomise(r, v.Field(i))
		}
	case reflect.String:
		text := randomOctets(r, 20, smpp.MaxText)
		for i := range text {
			text[i] = max(text[i], 1) // NUL ends a text
		}
		v.SetString(string(text))
	case reflect.Uint8:
		v.SetUint(r.Uint64N(1 << 8))
	case reflect.Uint32:
		v.SetUint(r.Uint64N(1 << 32))
	case reflect.Slice:
		randomiseSlice(r, v)
	default:
		panic("a field of the kind " + v.Kind().String())
	}
}

func randomiseSlice(r *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[smpp.TLVs]() {
		var list smpp.TLVs
		for range r.IntN(4) {
			list.Add(smpp.Tag(r.Uint32()), randomOctets(r, 40, 4000))
		}
		v.Set(reflect.ValueOf(list))
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if octets := randomOctets(r, 140, 255); len(octets) > 0 {
			v.SetBytes(octets)
		}
		return
	}
	most := 5
	if r.IntN(50) == 0 {
		most = 255
	}
	for i := range r.IntN(most + 1) {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		randomise(r, v.Index(i))
	}
}

// randomOctets returns up to `usual` octets, and sometimes up to `most`.
func randomOctets(r *rand.Rand, usual, most int) []byte {
	if r.IntN(50) == 0 {
		usual = most
	}
	octets := make([]byte, r.IntN(usual+1))
	for i := 0; i < len(octets); i += 8 {
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
		octets = octets[:smpp.HeaderLength+r.IntN(len(octets)-smpp.HeaderLength+1)]
	case 1:
		octets = append(octets, randomOctets(r, 40, 4000)...)
	case 2:
		octets = append(octets[:smpp.HeaderLength], randomOctets(r, 140, 4000)...)
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
