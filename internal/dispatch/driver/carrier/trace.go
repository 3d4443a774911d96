package carrier

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/pdulink"
)

const maxText = 1000 // characters of provider.PDU.Text: a PDU can have thousands of parameters

// trace records the PDUs of a link until they are taken, at most the last ones.
type trace struct {
	mu   sync.Mutex
	from time.Time // names the recording; zero: no PDUs are recorded
	pdus []provider.PDU
}

func (t *trace) record(from time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.from.Equal(from) {
		t.from, t.pdus = from, nil
	}
}

func (t *trace) take() (from time.Time, pdus []provider.PDU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pdus, t.pdus = t.pdus, nil
	return t.from, pdus
}

// add records a PDU. It calls describe only during a recording.
func (t *trace) add(describe func() provider.PDU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from.IsZero() {
		return
	}
	if len(t.pdus) == provider.TraceLength {
		t.pdus = slices.Delete(t.pdus, 0, 1)
	}
	t.pdus = append(t.pdus, describe())
}

// observe records a PDU of a session.
func (l *link[P]) observe(e pdulink.Event[P]) {
	l.trace.add(func() provider.PDU {
		one := provider.PDU{At: time.Now(), IsSent: e.Sent, Sequence: e.Sequence}
		if malformed, is := e.Err.(*pdulink.Malformed[P]); is { //nolint:errorlint // see pdulink.Event
			one.Sequence, one.Text = malformed.Sequence, readable("cannot be read: "+malformed.Error())
			return one
		}
		one.Command, one.Status, one.Text = l.d.protocol.record(e.PDU)
		if e.Err != nil {
			one.Text = "no request waits for this response. " + one.Text
		}
		one.Text = readable(one.Text)
		return one
	})
}

// readable replaces the characters of a text that people cannot read, and cuts the text. Carriers can send any octets.
func readable(text string) string {
	return characters.First(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text), maxText)
}
