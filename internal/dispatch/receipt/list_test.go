package receipt_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

const (
	callbacksPath = "/api/v1/admin/callbacks"
	receiptsPath  = "/api/v1/admin/receipts"
	proof         = "?token=" + apptest.CallbackKey
)

// numbersOf returns the provider numbers on all pages of a list of receipts.
func numbersOf(b *apptest.Bundle, query string) string {
	b.T.Helper()
	var numbers []string
	for cursor := ""; ; {
		page := apptest.Decode[api.ReceiptPage](b.T, b.Expect(200, "", "GET", receiptsPath+"?"+query+cursor, nil))
		for _, r := range page.Items {
			numbers = append(numbers, r.SenderNo+" "+r.ProviderNo)
		}
		if page.NextCursor == nil {
			return strings.Join(numbers, ",")
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

func bodiesOf(b *apptest.Bundle, query string) string {
	b.T.Helper()
	var bodies []string
	for cursor := ""; ; {
		page := apptest.Decode[api.CallbackPage](b.T, b.Expect(200, "", "GET", callbacksPath+"?"+query+cursor, nil))
		for _, c := range page.Items {
			bodies = append(bodies, c.SenderNo+" "+c.Body)
		}
		if page.NextCursor == nil {
			return strings.Join(bodies, "\n")
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

func TestReceiptsThatMatchNoMessageAreListed(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	b.AddSender(map[string]any{"sender_no": "another", "kind": "http-sms", "is_shared": false, "config": apptest.ReceiverConfig(p, nil)})
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	number := *b.Task(id).ProviderNo
	callBack(b, 200, proof, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD"}`, number))
	apptest.Eventually(t, "the receipt is matched", func() bool {
		b.Exec("UPDATE receipts SET look_at = now() WHERE matched_at IS NULL") // without this statement, the receipts would be due later after each try
		if _, err := b.App.Receipts.Match(t.Context()); err != nil {
			t.Log(err)
		}
		return deliveryOf(b, id) == "delivered"
	})
	callBack(b, 200, proof, "application/json", `{"msgid":"stray","mobile":"13800138000","status":"UNDELIV","err":"MK:0001"}`)
	callBackTo(b, "another", 200, proof, "application/json", `[{"msgid":"a","status":"DELIVRD"},{"msgid":"b","status":"ENROUTE"}]`)
	for query, want := range map[string]string{
		"":                               "another b,another a,pushed stray,pushed " + number,
		"matched=false":                  "another b,another a,pushed stray",
		"matched=false&limit=1":          "another b,another a,pushed stray",
		"matched=true":                   "pushed " + number,
		"matched=false&sender_no=pushed": "pushed stray",
		"sender_no=pushed&limit=1":       "pushed stray,pushed " + number,
		"provider_no=a":                  "another a",
		"provider_no=a&sender_no=pushed": "",
		"provider_no=" + number + "&matched=false": "",
		"sender_no=nobody":                         "",
		"to=2020-01-01T00:00:00Z":                  "",
		"from=2020-01-01T00:00:00Z&matched=true":   "pushed " + number,
		"from=2099-01-01T00:00:00Z&matched=false":  "",
		"to=2099-01-01T00:00:00Z&sender_no=pushed": "pushed stray,pushed " + number,
	} {
		if got := numbersOf(b, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	stray := apptest.Decode[api.ReceiptPage](t, b.Expect(200, "", "GET", receiptsPath+"?provider_no=stray", nil)).Items[0]
	if stray.State != api.ReceiptUndelivered || *stray.Code != "MK:0001" || *stray.Recipient != "13800138000" || stray.MatchedAt != nil || stray.LookAt == nil {
		t.Errorf("%+v", stray)
	}
	detail := apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", fmt.Sprint(callbacksPath, "/", stray.CallbackID), nil))
	if len(detail.Receipts) != 1 || *detail.Receipts[0].ReceiptID != stray.ReceiptID || detail.Unread != nil || !strings.Contains(detail.Body, "MK:0001") {
		t.Errorf("%+v", detail)
	}
	b.Expect(404, "callback.not_found", "GET", callbacksPath+"/999999", nil)
}

func TestReceiptsAreListedBetweenTwoTimes(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO callbacks (sender_no, source_ip, body, body_hash, created_at)
		SELECT 's', '', g::text, sha256(g::text::bytea), now() - make_interval(hours => 100 - g) FROM generate_series(1, 99) g`)
	b.Exec(`INSERT INTO receipts (callback_id, sender_no, provider_no, state, created_at, matched_at)
		SELECT c.id, c.sender_no, c.body, 1, c.created_at, CASE WHEN c.body::int % 2 = 0 THEN now() END FROM callbacks c ORDER BY c.id`)
	b.Exec("DELETE FROM receipts WHERE provider_no IN ('40', '50', '60')") // the ids then have gaps
	at := func(hour float64) string {
		return url.QueryEscape(time.Now().Add(time.Duration((hour - 100) * float64(time.Hour))).UTC().Format(time.RFC3339))
	}
	if got := numbersOf(b, "from="+at(57.5)+"&to="+at(61.5)); got != "s 61,s 59,s 58" {
		t.Error(got)
	}
	if got := numbersOf(b, "matched=false&limit=1&from="+at(56.5)+"&to="+at(61.5)); got != "s 61,s 59,s 57" {
		t.Error(got)
	}
	if got := bodiesOf(b, "limit=2&from="+at(57.5)+"&to="+at(60.5)); got != "s 60\ns 59\ns 58" {
		t.Error(got)
	}
}

// A page ends after a maximum number of receipts, and the next page continues.
func TestAPageOfReceiptsReadsABoundedNumberOfRows(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`INSERT INTO callbacks (sender_no, source_ip, body) VALUES ('s', '', '')`)
	b.Exec(`INSERT INTO receipts (callback_id, sender_no, provider_no, state, matched_at)
		SELECT 1, 's', g::text, 1, CASE WHEN g = 1 THEN now() END FROM generate_series(1, 11000) g`)
	page := apptest.Decode[api.ReceiptPage](t, b.Expect(200, "", "GET", receiptsPath+"?matched=true", nil))
	if len(page.Items) != 0 || page.NextCursor == nil {
		t.Errorf("%d items, cursor %v", len(page.Items), page.NextCursor)
	}
	if got := numbersOf(b, "matched=true"); got != "s 1" {
		t.Error(got)
	}
}

func TestCallbacksAreListedWithTheirBodiesAndResults(t *testing.T) {
	b, _ := apptest.NewReceiving(t, map[string]any{"recipient": "pswd"})
	callBack(b, 200, proof, "application/json", `{"msgid":"n-1","status":"DELIVRD","pswd":"`+apptest.CallbackKey+`"}`)
	callBack(b, 400, proof, "application/json", `no JSON`)
	callBack(b, 200, proof, "application/json", `[{"msgid":"n-2","status":"DELIVRD"},{}]`)
	long := `{"msgid":"n-3","status":"DELIVRD","x":"` + strings.Repeat("长", 1950) + apptest.CallbackKey + strings.Repeat("y", 100) + `"}`
	callBack(b, 200, proof, "application/json", long)
	masked := `pushed {"msgid":"n-1","status":"DELIVRD","pswd":"***"}`
	if got := bodiesOf(b, "unreadable=true"); got != "pushed [{\"msgid\":\"n-2\",\"status\":\"DELIVRD\"},{}]\npushed no JSON" {
		t.Error(got)
	}
	if got := bodiesOf(b, "unreadable=true&sender_no=another"); got != "" {
		t.Error(got)
	}
	if got := bodiesOf(b, "provider_no=n-1"); got != masked {
		t.Error(got)
	}
	all := bodiesOf(b, "")
	if !strings.HasSuffix(all, masked) || strings.Contains(all, "s3cret") {
		t.Error(all)
	}
	last := apptest.Decode[api.CallbackPage](t, b.Expect(200, "", "GET", callbacksPath+"?limit=1", nil)).Items[0]
	if int(last.BodyLength) != len([]rune(long)) || len([]rune(last.Body)) != 1000 {
		t.Errorf("%d of %d characters", len([]rune(last.Body)), last.BodyLength)
	}
	detail := b.Expect(200, "", "GET", fmt.Sprint(callbacksPath, "/", last.CallbackID), nil)
	if strings.Contains(detail.Raw, apptest.CallbackKey) || !strings.Contains(detail.Raw, strings.Repeat("长", 1950)+"***") {
		t.Error("the secret is shown, or the body is cut")
	}
}

// Providers post the secret of the sender in the notations of JSON and URLs.
func TestTheSecretInACallbackIsMaskedInEachNotation(t *testing.T) {
	b, p := apptest.NewReceiving(t, nil)
	config := apptest.ReceiverConfig(p, nil)
	config["callbackSecret"] = "at/least+sixteen=characters"
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"version": b.GetSender("pushed").Version, "config": config})
	const token = "?token=at%2Fleast%2Bsixteen%3Dcharacters"
	for _, written := range []string{`at\/least+sixteen=characters`, `at\u002fleast\u002bsixteen=characters`, `at%2fleast%2Bsixteen%3dcharacters`} {
		callBack(b, 200, token, "application/json", `{"msgid":"n-1","status":"DELIVRD","key":"`+written+`"}`)
		last := apptest.Decode[api.CallbackPage](t, b.Expect(200, "", "GET", callbacksPath+"?limit=1", nil)).Items[0]
		detail := apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", fmt.Sprint(callbacksPath, "/", last.CallbackID), nil))
		const want = `{"msgid":"n-1","status":"DELIVRD","key":"***"}`
		if last.Body != want || detail.Body != want {
			t.Errorf("%s is shown as %s and %s", written, last.Body, detail.Body)
		}
	}
}

// The body is parsed with the current configuration of the sender, so that an admin who corrects the configuration sees its effect on stored bodies.
func TestACallbackIsShownWithTheCurrentConfiguration(t *testing.T) {
	b, p := apptest.NewReceiving(t, map[string]any{"number": "msgId"})
	callBack(b, 422, proof, "application/json", `{"msgid":"n-1","status":"DELIVRD"}`)
	path := fmt.Sprint(callbacksPath, "/", apptest.Decode[api.CallbackPage](t, b.Expect(200, "", "GET", callbacksPath, nil)).Items[0].CallbackID)
	detail := apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", path, nil))
	if detail.Unread == nil || *detail.Unread != "request.invalid" || *detail.Refused != "request.invalid" || len(detail.Receipts) != 0 {
		t.Errorf("%+v", detail)
	}
	if detail.UnreadFields == nil || len(*detail.UnreadFields) != 1 || (*detail.UnreadFields)[0].Field != "body.0.msgId" || (*detail.UnreadFields)[0].Message == "" {
		t.Errorf("the wrong fields are %+v", detail.UnreadFields)
	}
	sender := b.GetSender("pushed")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"version": sender.Version, "config": apptest.ReceiverConfig(p, nil)})
	detail = apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", path, nil))
	if detail.Unread != nil || len(detail.Receipts) != 1 || detail.Receipts[0].ProviderNo != "n-1" || detail.Receipts[0].ReceiptID != nil {
		t.Errorf("%+v", detail)
	}
}

func TestOnlyAdminsCanReadCallbacksAndReceipts(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	for _, role := range []string{"submit", "read", "send"} {
		auth := b.AddUser(role+"-user", role, nil)
		for _, path := range []string{callbacksPath, callbacksPath + "/1", receiptsPath} {
			b.Expect(403, "auth.forbidden", "GET", path, nil, auth...)
		}
	}
}

// Receipts can arrive for days after a message. The receipts of a sender that is off or retired count. A receipt with an unknown number matches no message.
func TestLateReceiptsOfDisabledOrRetiredSendersCount(t *testing.T) {
	for _, status := range []string{"off", "retired"} {
		t.Run(status, func(t *testing.T) {
			b, _ := apptest.NewReceiving(t, nil)
			first, second := b.Submit("x"), b.Submit("y")
			b.AwaitStatus(first, queue.Success)
			b.AwaitStatus(second, queue.Success)
			number := func(id string) string {
				return apptest.Scan[string](b, "SELECT provider_no FROM deliveries WHERE task_id = $1", id)
			}
			sender := b.GetSender("pushed")
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"version": sender.Version, "status": status})
			callBack(b, 200, proof, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD"}`, number(first)))
			if got := deliveryOf(b, first); got != "delivered" {
				t.Errorf("%s: the delivery is %q", status, got)
			}
			callBack(b, 403, "?token=wrong-token-of-a-stranger", "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD"}`, number(second)))
			b.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/pushed", nil)
			b.Expect(409, "exists", "POST", "/api/v1/admin/senders", map[string]any{"sender_no": "pushed", "name": "stranger", "kind": "app"})
			b.Exec("UPDATE senders SET updated_at = now() - interval '31 days'")
			b.App.Receipts.InvalidateReceivers()
			wanted := map[string]int{"off": 200, "retired": 403}[status]
			callBack(b, wanted, proof, "application/json", fmt.Sprintf(`{"msgid":%q,"status":"DELIVRD"}`, number(second)))
		})
	}
}

func TestTheProviderNumberIsShownInTheTaskAndCanBeFiltered(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	first, second := b.Submit("x"), b.Submit("y")
	b.AwaitStatus(first, queue.Success)
	b.AwaitStatus(second, queue.Success)
	task := b.Task(first)
	if task.ProviderNo == nil {
		t.Fatal("the task has no provider_no")
	}
	list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?provider_no="+*task.ProviderNo, nil)).Items
	if len(list) != 1 || list[0].TaskID != first || *list[0].ProviderNo != *task.ProviderNo {
		t.Errorf("%+v", list)
	}
	for query, want := range map[string]int{"&sender_no=pushed": 1, "&sender_no=another": 0, "&status=3": 0, "x": 0} {
		if got := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?provider_no="+*task.ProviderNo+query, nil)).Items; len(got) != want {
			t.Errorf("%s: %d tasks, want %d", query, len(got), want)
		}
	}
	events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+first+"/timeline", nil))
	shown := ""
	for _, e := range events {
		if e.ProviderNo != nil {
			shown += string(e.Event) + " " + *e.ProviderNo
		}
	}
	if shown != "reported "+*task.ProviderNo {
		t.Errorf("the timeline shows %q", shown)
	}
}

// A company cannot use a provider number to find tasks of other companies.
func TestACompanyFindsOnlyItsOwnTasksByProviderNumber(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	stranger := b.AddCompany("acme", 1)
	list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?provider_no="+*b.Task(id).ProviderNo, nil, stranger...)).Items
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
