package erasure_test

import (
	"net/http"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// An SMSGate program can set a message id that contains the person's number.
func TestAnErasureDeletesMessageIDsOfSMSGatePrograms(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	w := &world{Bundle: b, acme: b.AddCompany("acme", 1)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/smsgate/3rdparty/v1/messages",
		strings.NewReader(`{"id":"order-`+number+`","message":"x","phoneNumbers":["`+number+`"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(w.acme); i += 2 {
		req.Header.Set(w.acme[i], w.acme[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d", res.StatusCode)
	}
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	if e := w.erase(map[string]any{"phone": number}, w.acme); e.Status != api.ErasureFinished || e.Counts.Tasks != 1 {
		t.Errorf("%+v", e)
	}
	if n := b.Count("SELECT count(*) FROM smsgate_messages"); n != 1 || len(w.found()) > 0 {
		t.Errorf("%d messages, and %v name the person", n, w.found())
	}
}
