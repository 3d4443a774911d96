package receipt_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/standardwebhooks"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// callBack sends a callback of the provider, without a user.
func callBack(b *apptest.Bundle, status int, query, contentType, body string, headers ...string) string {
	b.T.Helper()
	return callBackTo(b, "pushed", status, query, contentType, body, headers...)
}

func callBackTo(b *apptest.Bundle, senderNo string, status int, query, contentType, body string, headers ...string) string {
	b.T.Helper()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodPost, b.URL+"/api/v1/callbacks/"+senderNo+query, strings.NewReader(body))
	if err != nil {
		b.T.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || (status == 429) != (res.Header.Get("Retry-After") != "") {
		b.T.Fatalf("callback %s: %d %s, want %d: %v", body, res.StatusCode, answer, status, err)
	}
	return string(answer)
}

func deliveryOf(b *apptest.Bundle, id string) string {
	b.T.Helper()
	got := b.Task(id)
	if got.Delivery == nil {
		return ""
	}
	return string(*got.Delivery)
}

func TestS3_11_AReceiptSettlesTheDeliveryOfItsMessage(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	first := b.Submit("x")
	b.AwaitStatus(first, queue.Success)
	second := b.Submit("y")
	b.AwaitStatus(second, queue.Success)
	if got := callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", `[{"msgid":"n-1","status":"ENROUTE"},{"msgid":"n-2","mobile":"13800138000","status":"UNDELIV","err":"MK:0001"}]`); got != `{"ok":1}` {
		t.Errorf("answered %s", got)
	}
	if got := b.Task(second); deliveryOf(b, first) != "" || *got.Delivery != "undelivered" || *got.DeliveryCode != "MK:0001" || got.DeliveredAt != nil {
		t.Errorf("%+v", got)
	}
	// Repeated and reordered callbacks change nothing: a delivered message stays delivered.
	for _, status := range []string{"DELIVRD", "DELIVRD", "ENROUTE", "UNDELIV", "DELIVRD"} {
		callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", fmt.Sprintf(`{"msgid":"n-1","status":%q}`, status))
	}
	if got := b.Task(first); *got.Delivery != "delivered" || got.DeliveredAt == nil || int16(got.Status) != queue.Success {
		t.Errorf("%+v", got)
	}
	events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+first+"/timeline", nil))
	n := 0
	for _, e := range events {
		if e.Event == api.EventReceipt {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d receipts in the timeline", n)
	}
	if n, repeats := b.Count("SELECT count(*) FROM callbacks WHERE body LIKE '%msgid%'"), b.Count("SELECT sum(repeats)::bigint FROM callbacks"); n != 4 || repeats != 2 {
		t.Errorf("%d callbacks are stored, %d were repeats", n, repeats)
	}
}

func TestCallbacksReachASenderWithASlashInItsNumber(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	for _, no := range []string{"app/1", "app/"} {
		b.AddSender(map[string]any{"sender_no": no, "kind": "http-sms", "config": apptest.ReceiverConfig(p, nil)})
		if got := callBackTo(b, url.PathEscape(no), 200, "?token="+apptest.CallbackKey, "application/json", `{"msgid":"n-1","status":"DELIVRD"}`); got != `{"ok":1}` {
			t.Errorf("%s: answered %s", no, got)
		}
	}
}

// A body is stored once per sender, but parsed and answered each time.
func TestARepeatedCallbackIsStoredOnce(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	b.AddSender(map[string]any{"sender_no": "another", "kind": "http-sms", "config": apptest.ReceiverConfig(p, nil)})
	body := `[{"msgid":"n-1","status":"DELIVRD"},` + strings.Repeat(" ", 900_000) + `{}]`
	for range 5 {
		if got := callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", body); got != `{"ok":1}` {
			t.Errorf("answered %s", got)
		}
	}
	apptest.Together(5, func(int) { callBackTo(b, "another", 200, "?token="+apptest.CallbackKey, "application/json", body) })
	for range 3 {
		callBack(b, 422, "?token="+apptest.CallbackKey, "application/json", `[{"status":"DELIVRD"}]`)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(concat(sender_no, ' ', repeats, ' ', left_out, ' ', refused), ', ' ORDER BY sender_no, repeats) FROM callbacks"); got !=
		"another 4 1 , pushed 2 0 request.invalid, pushed 4 1 " {
		t.Errorf("stored: %s", got)
	}
	if got := deliveryOf(b, id); got != "delivered" {
		t.Errorf("the delivery is %q", got)
	}
	if n := b.Count("SELECT count(*) FROM receipts WHERE sender_no = 'pushed'"); n != 1 {
		t.Errorf("%d receipts, want 1", n)
	}
	// If a crash lost the receipts of a stored callback, a repeat of the callback stores them.
	b.Exec("DELETE FROM receipts")
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", body)
	if n := b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL"); n != 1 {
		t.Errorf("%d matched receipts, want 1", n)
	}
}

// Many concurrent callbacks need only a few commits, so that other requests are not delayed. Each callback gets its own answer.
func TestConcurrentCallbacksAreStoredTogether(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	ids := make([]string, 10)
	for i := range ids {
		ids[i] = b.Submit(fmt.Sprint(i))
		b.AwaitStatus(ids[i], queue.Success)
	}
	b.AddSender(map[string]any{"sender_no": "another", "kind": "http-sms", "config": apptest.ReceiverConfig(p, nil)})
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE callbacks IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	call := func(senderNo string, status int, body string) {
		calls.Go(func() { callBackTo(b, senderNo, status, "?token="+apptest.CallbackKey, "application/json", body) })
	}
	for n := range 60 {
		switch n % 6 {
		case 0: // the same body each time
			call("pushed", 200, `{"msgid":"n-1","status":"DELIVRD"}`)
		case 1:
			call("pushed", 422, fmt.Sprintf(`{"status":"DELIVRD","n":%d}`, n))
		case 2: // the same body, also for another sender
			call("another", 200, `{"msgid":"n-1","status":"DELIVRD"}`)
		case 3: // a body whose receipt is also in another body
			call("pushed", 200, fmt.Sprintf(`[{"msgid":"n-2","status":"UNDELIV"},{"n":%d}]`, n))
		case 4:
			call("pushed", 200, fmt.Sprintf(`[{"msgid":"n-%d","status":"DELIVRD"},{"n":%d}]`, 3+n%8, n))
		case 5: // too large to be stored together with other callbacks
			call("pushed", 200, fmt.Sprintf(`{"msgid":"n-2","status":"DELIVRD","n":%d}`, n)+strings.Repeat(" ", 100_000))
		}
	}
	apptest.Eventually(t, "callbacks wait", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") >= 5
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	stored := apptest.Scan[string](b, `SELECT string_agg(concat(c.n, ' of ', c.calls, ' ', c.refused), ', ' ORDER BY c.calls, c.n, c.refused NULLS FIRST) FROM (
		SELECT sender_no, refused, count(*) AS n, count(*) + sum(repeats) AS calls FROM callbacks GROUP BY sender_no, refused, length(body) > 1000, length(body) = 34
	) c`)
	if stored != "1 of 10 , 1 of 10 , 10 of 10 , 10 of 10 request.invalid, 20 of 20 " {
		t.Errorf("stored: %s", stored)
	}
	if n := b.Count("SELECT count(DISTINCT xmin::text) FROM callbacks WHERE length(body) < 1000"); n > 10 {
		t.Errorf("%d commits for 50 callbacks", n)
	}
	for i, id := range ids {
		want := "delivered"
		if n := i + 1; n > 2 && (n-3)%2 == 1 {
			want = ""
		}
		if got := deliveryOf(b, id); got != want {
			t.Errorf("message %d: %q, want %q", i+1, got, want)
		}
	}
}

// An erasure deletes receipts before it changes their callbacks. A repeated callback locks the same rows in the reverse order, so both can deadlock.
func TestACallbackIsRepeatedAfterADeadlock(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	const body = `{"msgid":"n-1","status":"DELIVRD"}`
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", body)
	b.Deadlock(func() (string, string, func() string) {
		return "DELETE FROM receipts", "UPDATE callbacks SET body = body", func() string {
			if a := b.Call("POST", "/api/v1/callbacks/pushed?token="+apptest.CallbackKey, body); a.Status != 200 {
				return a.Raw
			}
			return ""
		}
	})
	if n := b.Count("SELECT count(*) FROM receipts"); n != 1 {
		t.Errorf("%d receipts", n)
	}
}

func TestCallbacksAreDeletedAfterAMonth(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	const old, recent = `{"msgid":"n-1","status":"DELIVRD"}`, `{"msgid":"n-2","status":"DELIVRD"}`
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", old)
	b.Exec("UPDATE callbacks SET created_at = now() - interval '31 days'")
	b.Exec("UPDATE receipts SET created_at = now() - interval '31 days'")
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", recent)
	if n, err := b.App.Receipts.DeleteExpired(t.Context()); n != 2 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(body, '') FROM callbacks"); got != recent || b.Count("SELECT count(*) FROM receipts") != 1 {
		t.Errorf("left: %s", got)
	}
	before := b.Task(id)
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", old) // a repeated callback changes nothing, although the stored callback was deleted
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", `{"msgid":"n-1","status":"UNDELIV"}`)
	if got := b.Task(id); deliveryOf(b, id) != "delivered" || !got.DeliveredAt.Equal(*before.DeliveredAt) {
		t.Errorf("%+v", got)
	}
}

// A secret that can be guessed is rejected when it is set. A short secret that was set earlier still works, but an empty secret does not.
func TestAShortCallbackSecretIsRefused(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	const path = "/api/v1/admin/senders/pushed"
	for i, c := range []struct {
		verify, secret string
		status         int
	}{
		{"token", "", 422}, {"token", "x", 422}, {"token", strings.Repeat("x", 15), 422}, {"token", strings.Repeat("x", 16), 200},
		{"hmac", "x", 422}, {"standard-webhooks", "whsec_", 422}, {"standard-webhooks", "whsec_c2hvcnQ=", 422},
		{"standard-webhooks", "whsec_" + strings.Repeat("!", 24), 422}, {"standard-webhooks", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", 200},
		{"standard-webhooks", "whsec_MDEyMzQ1Njc4OWFiY2Rl", 422}, {"hmac", "whsec_MDEyMzQ1N", 422},
	} {
		proof := map[string]any{"verify": c.verify}
		if c.verify == "hmac" {
			proof["header"] = "X-Sig"
		}
		config := apptest.ReceiverConfig(p, proof)
		config["callbackSecret"] = c.secret
		reason := "request.invalid"
		if c.status == 200 {
			reason = ""
		}
		created := map[string]any{"sender_no": fmt.Sprint("made_", i), "name": "x", "kind": "http-sms", "config": config}
		a, changed := b.Expect(c.status, reason, "POST", "/api/v1/admin/senders", created), b.Expect(c.status, reason, "PATCH", path, map[string]any{"config": config})
		if c.status != 200 && (a.Fields() != "config.callbackSecret" || changed.Fields() != "config.callbackSecret") {
			t.Errorf("%s %q: wrong fields %s, %s", c.verify, c.secret, a.Fields(), changed.Fields())
		}
	}
	config := apptest.ReceiverConfig(p, nil)
	b.Expect(200, "", "PATCH", path, map[string]any{"config": config})
	setShortSecret(b, "abc")
	callBack(b, 200, "?token=abc", "application/json", `{"msgid":"n","status":"DELIVRD"}`)
	delete(config, "callbackSecret")
	config["timeoutSeconds"] = 5
	b.Expect(200, "", "PATCH", path, map[string]any{"config": config})
	callBack(b, 200, "?token=abc", "application/json", `{"msgid":"n","status":"DELIVRD"}`)
	setShortSecret(b, "")
	callBack(b, 403, "?token=", "application/json", `{"msgid":"n","status":"DELIVRD"}`)
	callBack(b, 403, "", "application/json", `{"msgid":"n","status":"DELIVRD"}`)
}

// setShortSecret stores a secret that only earlier versions accepted, without the check of its length.
func setShortSecret(b *apptest.Bundle, text string) {
	b.T.Helper()
	encrypted, err := b.Options.Secrets.Encrypt(fmt.Sprintf("%q", text), "pushed/callbackSecret")
	if err != nil {
		b.T.Fatal(err)
	}
	b.Exec("UPDATE senders SET config = config || jsonb_build_object('callbackSecret', $1::text) WHERE sender_no = 'pushed'", encrypted)
	b.App.Receipts.InvalidateReceivers()
}

// After some wrong proofs, a caller has to wait. The provider does not have to wait, even if it uses the same address.
func TestOnlyCallbacksWithWrongProofsAreThrottled(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	body := func(i int) string { return fmt.Sprintf(`{"msgid":"n-%d","status":"DELIVRD"}`, i) }
	for i := range 50 {
		if i%2 == 0 {
			callBack(b, 403, fmt.Sprint("?token=guess", i), "application/json", body(i))
		} else {
			callBackTo(b, fmt.Sprint("nobody", i), 403, "?token="+apptest.CallbackKey, "application/json", body(i))
		}
	}
	for i := range 20 {
		callBack(b, 429, fmt.Sprint("?token=guess", i), "application/json", body(i))
		callBackTo(b, fmt.Sprint("nobody", i), 429, "?token="+apptest.CallbackKey, "application/json", body(i))
		callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", body(i))
	}
	if n := b.Count("SELECT count(*) FROM callbacks"); n != 20 {
		t.Errorf("%d callbacks are stored", n)
	}
	// A short secret is not compared while the address of the caller has to wait.
	setShortSecret(b, "abc")
	callBack(b, 429, "?token=abc", "application/json", body(1))
}

// Providers choose the numbers of messages, so that a number can contain any printable character. The code of a receipt can be a text that repeats the message.
func TestAReceiptOfASensitiveMessageIsMatched(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	for i, number := range []string{"900619746936498440^0", "a+/=~@#-1", "4938"} {
		p.Says(200, fmt.Sprintf(`{"code":"0","id":%q}`, number))
		id := b.SubmitBody(map[string]any{"phone_number": fmt.Sprint(13900139000 + i), "content": "code Kx7Qz9", "sensitive": true}).TaskID
		b.AwaitStatus(id, queue.Success)
		callBack(b, 200, proof, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"REJECTD","err":"rejected: code Kx7Qz9"}`, number))
		callBack(b, 200, proof, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD","err":"MK:0001"}`, number))
		if task := b.Task(id); task.Delivery == nil || *task.Delivery != api.TaskDelivered || task.DeliveryCode == nil || *task.DeliveryCode != "MK:0001" {
			t.Errorf("%s: the task is %+v", number, task)
		}
	}
	if n := b.Count("SELECT count(*) FROM report_logs l WHERE l::text LIKE '%Kx7Qz9%'"); n != 0 {
		t.Errorf("%d events contain the text", n)
	}
}

// A receipt can arrive before the provider's response to the message.
func TestS3_11_AReceiptCanArriveBeforeTheResponse(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	release := make(chan struct{})
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"code":"0","id":"early"}`)
	})
	id := b.Submit("x")
	apptest.Eventually(t, "the message is being sent", func() bool { return len(p.Seen()) == 1 })
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", `{"msgid":"early","status":"DELIVRD"}`)
	close(release)
	b.AwaitStatus(id, queue.Success)
	apptest.Eventually(t, "the receipt is matched", func() bool { return deliveryOf(b, id) == "delivered" })
}

// The sweep matches receipts that neither the callback nor the report has matched, because both happened at the same moment or the server died.
func TestAnUnmatchedReceiptIsTriedAgainForThreeDays(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	match := func(want int) {
		t.Helper()
		if n, err := b.App.Receipts.Match(t.Context()); n != want || err != nil {
			t.Fatalf("matched %d, %v", n, err)
		}
	}
	for _, number := range []string{"soon", "never", "other"} {
		callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD"}`, number))
	}
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	b.Exec("UPDATE deliveries SET provider_no = 'soon'")
	nextTries := func() []time.Time {
		return apptest.Scan[[]time.Time](b, "SELECT array_agg(look_at ORDER BY provider_no) FROM receipts WHERE look_at IS NOT NULL")
	}
	b.Exec("UPDATE receipts SET look_at = now() + interval '1 hour'")
	before := nextTries()
	match(0)
	if after := nextTries(); !slices.EqualFunc(before, after, time.Time.Equal) {
		t.Errorf("tried too early: %v, then %v", before, after)
	}
	b.Exec("UPDATE receipts SET look_at = now(), created_at = now() - interval '1 hour'")
	b.Exec("UPDATE receipts SET created_at = now() - interval '73 hours' WHERE provider_no = 'never'")
	match(1)
	if left := nextTries(); deliveryOf(b, id) != "delivered" || len(left) != 1 || time.Until(left[0]) < 50*time.Minute {
		t.Errorf("the delivery is %q, receipts to try again at %v", deliveryOf(b, id), left)
	}
	// After three days, a receipt is not tried again.
	if n := b.Count("SELECT count(*) FROM receipts WHERE look_at IS NULL AND matched_at IS NULL AND provider_no = 'never'"); n != 1 {
		t.Errorf("%d receipts were given up, want 1", n)
	}
}

func TestAReceiptMatchesItsRecipientInAnyNotation(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	p.Does(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"code":"0","id":"n"}`) })
	ids := map[string]string{}
	for _, number := range []string{"+6591234567", "+4791234567", "+6581234567", "+14155552671", "+8613800138000", "+393471234567", "+886912345678"} {
		ids[number] = b.SubmitBody(map[string]any{"phone_number": number, "content": "x"}).TaskID
		b.AwaitStatus(ids[number], queue.Success)
	}
	for _, c := range []struct{ said, means string }{
		{"6591234567", "+6591234567"}, {"004791234567", "+4791234567"}, {"81234567", "+6581234567"}, {"(415) 555-2671", "+14155552671"},
		{"13800138000", "+8613800138000"}, {"+39 347 123 4567", "+393471234567"}, {"0912345678", "+886912345678"},
		{"１３８００１３８０００", "+8613800138000"}, {"13800138000.0", "+8613800138000"}, {"٨٦١٣٨٠٠١٣٨٠٠٠", "+8613800138000"},
		{"91234567", ""}, // the national number belongs to two recipients
		{"1234567", ""}, {"0000013800138000", ""}, {"x", ""},
	} {
		b.Exec("UPDATE tasks SET delivery = NULL")
		b.Exec("DELETE FROM receipts")
		callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", fmt.Sprintf(`{"msgid":"n","mobile":%q,"status":"DELIVRD"}`, c.said))
		for number, id := range ids {
			if got := deliveryOf(b, id); (got == "delivered") != (number == c.means) {
				t.Errorf("%q: the delivery to %s is %q", c.said, number, got)
			}
		}
	}
}

func TestAnInvalidItemOfACallbackIsSkipped(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", `[{"msgid":"","status":"DELIVRD"},"x",null,{"msgid":"n-1"},{"msgid":"n-1","status":"DELIVRD"}]`)
	if got := deliveryOf(b, id); got != "delivered" {
		t.Errorf("the delivery is %q", got)
	}
	if n := b.Count("SELECT left_out FROM callbacks WHERE refused IS NULL"); n != 4 {
		t.Errorf("%d items were left out, want 4", n)
	}
}

func TestAnUnreadableCallbackOfTheProviderIsStored(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	long := `{"msgid":"` + strings.Repeat("x", 1<<20) + `","status":"DELIVRD"}`
	for _, c := range []struct {
		status       int
		body, reason string
	}{
		{400, `{"reports":`, "request.malformed"}, {422, `[{"status":"DELIVRD"}]`, "request.invalid"}, {413, long, "request.too_large"},
		{400, strings.Repeat("[", 50), "request.too_deep"}, {413, "[" + strings.Repeat("1,", 1000) + "1]", "request.too_large"},
	} {
		b.Exec("DELETE FROM callbacks")
		callBack(b, c.status, "?token="+apptest.CallbackKey, "application/json", c.body)
		if got := apptest.Scan[string](b, "SELECT refused FROM callbacks"); got != c.reason {
			t.Errorf("%.20s: stored as %s", c.body, got)
		}
		kept := apptest.Scan[string](b, "SELECT body FROM callbacks")
		if !strings.HasPrefix(c.body, kept) || len(kept) > 1<<20 || kept == "" {
			t.Errorf("%.20s: stored %d bytes", c.body, len(kept))
		}
	}
	b.Exec("DELETE FROM callbacks")
	callBack(b, 403, "?token=guess", "application/json", `{"msgid":"n-1","status":"DELIVRD"}`)
	callBack(b, 403, "?token=guess", "application/json", long)
	if n := b.Count("SELECT count(*) FROM callbacks"); n != 0 {
		t.Errorf("%d callbacks without a proof are stored", n)
	}
}

func TestCallbackWithoutProofIsRefused(t *testing.T) {
	const body = `{"msgid":"n-1","status":"DELIVRD"}`
	sum := hmac.New(sha256.New, []byte(apptest.CallbackKey))
	sum.Write([]byte(body))
	hexed := hex.EncodeToString(sum.Sum(nil))
	now := fmt.Sprint(time.Now().Unix())
	old := fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	signed := func(at string) []string {
		return []string{"Webhook-Id", "m", "Webhook-Timestamp", at, "Webhook-Signature", "v1,x v1," + standardwebhooks.Sign([]byte(apptest.CallbackKey), "m", at, []byte(body))}
	}
	for _, c := range []struct {
		name     string
		callback map[string]any
		query    string
		headers  []string
		status   int
	}{
		{"the token", nil, "?token=" + apptest.CallbackKey, nil, 200},
		{"another token", nil, "?token=" + apptest.CallbackKey[1:], nil, 403},
		{"no token", nil, "", nil, 403},
		{"from another address", map[string]any{"addresses": []string{"10.0.0.0/8"}}, "?token=" + apptest.CallbackKey, nil, 403},
		{"from a permitted address", map[string]any{"addresses": []string{"127.0.0.1", "::1"}}, "?token=" + apptest.CallbackKey, nil, 200},
		{"a signature", map[string]any{"verify": "hmac", "header": "X-Sig"}, "", []string{"X-Sig", "sha256=" + hexed}, 200},
		{"a signature of another body", map[string]any{"verify": "hmac", "header": "X-Sig"}, "", []string{"X-Sig", strings.Repeat("0", 64)}, 403},
		{"a webhook", map[string]any{"verify": "standard-webhooks"}, "", signed(now), 200},
		{"a webhook of an hour ago", map[string]any{"verify": "standard-webhooks"}, "", signed(old), 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := apptest.NewReceiving(t, c.callback)
			callBack(b, c.status, c.query, "application/json", body, c.headers...)
			if n := b.Count("SELECT count(*) FROM receipts"); (n == 1) != (c.status == 200) {
				t.Errorf("%d receipts", n)
			}
		})
	}
}

// A callback that no body can prove is rejected before its body is read. Otherwise unknown callers could keep the server busy with bodies.
func TestAnUnprovableCallbackIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	for no, callback := range map[string]map[string]any{
		"signed": {"verify": "hmac", "header": "X-Sig"}, "webhook": {"verify": "standard-webhooks"},
		"elsewhere": {"verify": "hmac", "header": "X-Sig", "addresses": []string{"10.0.0.0/8"}},
	} {
		b.AddSender(map[string]any{"sender_no": no, "kind": "http-sms", "config": apptest.ReceiverConfig(p, callback)})
	}
	address := strings.TrimPrefix(b.URL, "http://")
	old := fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	for _, head := range []string{
		"nobody?token=" + apptest.CallbackKey + " HTTP/1.1\r\n",
		"pushed?token=guess HTTP/1.1\r\n",
		"signed HTTP/1.1\r\n",
		"elsewhere HTTP/1.1\r\nX-Sig: abc\r\n",
		"webhook HTTP/1.1\r\nWebhook-Id: m\r\nWebhook-Signature: v1,x\r\nWebhook-Timestamp: " + old + "\r\n",
	} {
		conn := apptest.DialSlowly(t, address, "POST /api/v1/callbacks/"+head)
		if status, err := apptest.ReadStatus(conn, 4*time.Second); status != 403 {
			t.Errorf("%q: %d %v", head, status, err)
		}
	}
}

func TestFormsAndListsAreParsedAsConfigured(t *testing.T) {
	b, _ := apptest.NewReceiving(t, map[string]any{"format": "form"})
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/x-www-form-urlencoded", "msgid=n-1&status=DELIVRD&mobile=%2B8613800138000")
	if got := deliveryOf(b, id); got != "delivered" {
		t.Errorf("the delivery is %q", got)
	}
	callBack(b, 422, "?token="+apptest.CallbackKey, "application/x-www-form-urlencoded", "status=DELIVRD")
	callBack(b, 422, "?token="+apptest.CallbackKey, "application/x-www-form-urlencoded", "msgid=%00&status=DELIVRD")
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/x-www-form-urlencoded", "msgid=n%00%ff&status=%00%ff&mobile=%00%ff&code=%ff%00")
	b, _ = receivingList(t)
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", `{"reports":{"items":[{"msgid":7,"status":"DELIVRD"}]}}`)
	callBack(b, 200, "?token="+apptest.CallbackKey, "application/json", "{\"reports\":{\"items\":[{\"msgid\":\"a\\u0000\xff\",\"status\":\"\\ud800\"}]}}")
	callBack(b, 400, "?token="+apptest.CallbackKey, "application/json", `{"reports":`)
	callBack(b, 422, "?token="+apptest.CallbackKey, "application/json", `{"msgid":7,"status":"DELIVRD"}`)
	if n := b.Count("SELECT count(*) FROM receipts WHERE provider_no = '7'"); n != 1 {
		t.Errorf("%d receipts, want 1", n)
	}
	var shown map[string]any
	if err := json.Unmarshal([]byte(b.Call("GET", "/api/v1/admin/senders/pushed", nil).Raw), &shown); err != nil {
		t.Fatal(err)
	}
	if config := shown["data"].(map[string]any)["config"].(map[string]any); config["callbackSecret"] != "***" {
		t.Errorf("shown: %v", config)
	}
}

func receivingList(t *testing.T) (*apptest.Bundle, *apptest.Provider) {
	t.Helper()
	b := apptest.Open(t, apptest.DefaultRules, apptest.WithSecrets)
	p := apptest.NewProvider(t)
	config := p.SenderConfig()
	config["callback"], config["callbackSecret"] = map[string]any{
		"verify": "token", "list": "reports.items", "number": "msgid", "state": "status", "delivered": []string{"DELIVRD"},
	}, apptest.CallbackKey
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": config})
	for field, change := range map[string]map[string]any{
		"config.callback.verify":    {"verify": "trust"},
		"config.callback.number":    {"verify": "token", "state": "s", "delivered": []string{"d"}},
		"config.callback.delivered": {"verify": "token", "number": "n", "state": "s"},
		"config.callback.header":    {"verify": "hmac"},
		"config.callback.addresses": {"verify": "token", "number": "n", "state": "s", "delivered": []string{"d"}, "addresses": []string{"everywhere"}},
		"config.callback.verrify":   {"verrify": "token"},
		"config.callback.list":      {"verify": "token", "list": []string{"reports"}},
	} {
		wrong := p.SenderConfig()
		wrong["callback"] = change
		if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": wrong}); a.Fields() != field {
			t.Errorf("%v: wrong fields %s", change, a.Fields())
		}
	}
	return b, p
}
