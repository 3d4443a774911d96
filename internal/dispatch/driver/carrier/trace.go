package carrier

import (
	"slices"
	"sync"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/pdulink"
)

// trace records the last PDUs of a link while it is on.
type trace struct {
	mu   sync.Mutex
	isOn bool
	pdus []provider.PDU
}

// set begins or ends to record. It discards what was recorded if it changes anything.
func (t *trace) set(isOn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOn != isOn {
		t.isOn, t.pdus = isOn, nil
	}
}

// all returns the recorded PDUs, or nil if there are none.
func (t *trace) all() []provider.PDU {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.pdus)
}

// add records a PDU. It calls describe only while the trace is on.
func (t *trace) add(describe func() provider.PDU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isOn {
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
			one.Sequence, one.Text = malformed.Sequence, "cannot be read: "+malformed.Error()
			return one
		}
		one.Command, one.Status, one.Text = l.d.protocol.record(e.PDU)
		if e.Err != nil {
			one.Text = "no request waits for this response. " + one.Text
		}
		return one
	})
}
