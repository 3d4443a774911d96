package smsc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smpp/smsc"
)

// The server tells which receipts a client accepted. A receipt that is sent twice is two receipts, and a rejected one is sent again.
func TestReceiptsAreCountedWhenAClientAcceptsThem(t *testing.T) {
	t.Parallel()
	type told struct {
		to string
		r  simulated.Receipt
		is bool
	}
	receipted := make(chan told, 2)
	server, err := smsc.Listen("127.0.0.1:0", simulated.Options{
		Answer: func(simulated.Message) simulated.Answer {
			return simulated.Answer{ID: "a", Receipts: []simulated.Receipt{{Stat: simulated.Delivered, Early: true}, {Stat: simulated.Delivered}}}
		},
		Receipted: func(m simulated.Message, r simulated.Receipt, isAccepted bool) {
			receipted <- told{m.To, r, isAccepted}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var received atomic.Int64
	session := smpp.Start(conn, smpp.Config{Handler: func(_ context.Context, _ *smpp.Session, request *smpp.PDU) *smpp.PDU {
		if received.Add(1) == 1 {
			return request.Response(smpp.RXTAppn, nil)
		}
		return request.Response(smpp.OK, &smpp.MessageResp{})
	}})
	defer session.Close()
	for _, request := range []*smpp.PDU{
		{Command: smpp.BindTransceiver, Body: &smpp.Bind{SystemID: "acme"}},
		{Command: smpp.SubmitSM, Body: &smpp.Message{Dest: smpp.Address{Number: "123"}, Short: []byte("x")}},
	} {
		if response, err := session.Request(t.Context(), request); err != nil || response.Status != smpp.OK {
			t.Fatalf("%+v, %v", response, err)
		}
	}
	for range 2 {
		if got := <-receipted; got.to != "123" || got.r.ID != "a" || got.r.Stat != simulated.Delivered || !got.is {
			t.Errorf("%+v", got)
		}
	}
	if n := received.Load(); n != 3 {
		t.Errorf("the client received %d receipts, want 3", n)
	}
}
