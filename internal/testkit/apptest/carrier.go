package apptest

import (
	"testing"

	"lksms/internal/platform/cmpp/ismg"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp/smsc"
)

// Carrier is a simulated carrier that speaks the protocol of a kind of senders.
type Carrier interface {
	Port() int
	Seen() []simulated.Message
	Binds() (accepted, open int)
	Deliver(from, to, text string) error
	DeliverWithout(from, to, text string, without int) error
	Cut()
	Close() error
}

// NewCarrier starts a simulated carrier for senders of the kind smpp or cmpp.
func NewCarrier(t *testing.T, kind string, o simulated.Options) Carrier {
	t.Helper()
	var c Carrier
	var err error
	if kind == "cmpp" {
		c, err = ismg.Listen("127.0.0.1:0", o)
	} else {
		c, err = smsc.Listen("127.0.0.1:0", o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// CarrierConfig returns the configuration of a sender that binds to c, with changes.
func CarrierConfig(kind string, c Carrier, more map[string]any) map[string]any {
	config := map[string]any{"host": "127.0.0.1", "port": c.Port(), "response_seconds": 2}
	if kind == "cmpp" {
		config["source_addr"], config["shared_secret"], config["src_id"] = "lksms", "secret", "10690001"
	} else {
		config["system_id"], config["password"] = "lksms", "secret"
	}
	for name, value := range more {
		config[name] = value
	}
	return config
}

// NewBound starts a server with the driven sender "bound", which sends through a simulated carrier. more changes the configuration of the sender.
func NewBound(t *testing.T, kind string, o simulated.Options, more map[string]any) (*Bundle, Carrier) {
	t.Helper()
	c := NewCarrier(t, kind, o)
	b := NewWith(t, DefaultRules, WithSecrets)
	b.AddSender(map[string]any{"sender_no": "bound", "kind": kind, "config": CarrierConfig(kind, c, more)})
	b.App.Pusher.Start()
	return b, c
}
