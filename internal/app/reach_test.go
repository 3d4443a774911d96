package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
)

// recipientOf is what became of a person's message.
func recipientOf(t *testing.T, n api.NotificationView, user string) api.NotificationRecipient {
	t.Helper()
	i := slices.IndexFunc(*n.Recipients, func(r api.NotificationRecipient) bool { return r.UserID == user })
	if i < 0 {
		t.Fatalf("%s is not told by %+v", user, n)
	}
	return (*n.Recipients)[i]
}

func (b *testBundle) contacts(all ...map[string]any) {
	b.t.Helper()
	b.expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": all})
}

func (b *testBundle) country(no, prefix string, more map[string]any) {
	b.t.Helper()
	body := map[string]any{"country_no": no, "name": no, "dial_prefix": prefix}
	for k, v := range more {
		body[k] = v
	}
	b.expect(200, "", "POST", "/api/v1/admin/countries", body)
}

func (b *testBundle) smsTemplate(more map[string]any) {
	b.t.Helper()
	body := map[string]any{"title": "完成", "content": "任务${taskName}执行完成"}
	for k, v := range more {
		body[k] = v
	}
	b.expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/sms", body)
}

func TestCountriesThatShareADialPrefixAreToldApart(t *testing.T) {
	b := setup(t)
	b.country("US", "1", nil)
	b.country("1002", "1", map[string]any{"region": "CA"})
	b.country("RU", "7", nil)
	b.country("BS", "1", map[string]any{"region": nil}) // the others of +1
	b.country("toronto", "1416", nil)
	for number, want := range map[string]string{
		"+14155552671": "US", "+16045550123": "1002", "+14165550123": "toronto", "+12423591234": "BS", "+18763123456": "BS", "+79161234567": "RU",
		"+77012345678": "",
	} {
		id := b.submitted(map[string]any{"phone_number": number, "content": "x"}).TaskID
		if got := b.task(id).CountryNo; (got == nil && want != "") || (got != nil && *got != want) {
			t.Errorf("%s belongs to %v, want %q", number, got, want)
		}
	}
	b.country("KZ", "7", nil)
	b.expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"US", "KZ"}})
	b.submitted(map[string]any{"phone_number": "+77012345678", "content": "x"})
	for _, number := range []string{"+16045550123", "+79161234567"} {
		if a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number, "content": "x"}); a.fields() != "phone_number" {
			t.Errorf("%s names %s", number, a.fields())
		}
	}
}

func TestARegionIsOfItsDialPrefix(t *testing.T) {
	b := setup(t)
	const path = "/api/v1/admin/countries"
	for _, region := range []string{"CN", "ZZ", "XX"} {
		if a := b.expect(422, "request.invalid", "POST", path, map[string]any{"country_no": "n", "name": "n", "dial_prefix": "1", "region": region}); a.fields() != "region" {
			t.Errorf("%s names %s", region, a.fields())
		}
	}
	b.country("n", "1", nil)
	b.country("US", "1", nil)
	b.expect(409, "exists", "POST", path, map[string]any{"country_no": "USA", "name": "n", "dial_prefix": "1", "region": "US"})
	b.expect(409, "exists", "POST", path, map[string]any{"country_no": "m", "name": "n", "dial_prefix": "1"})
	b.expect(409, "exists", "PATCH", path+"/US", map[string]any{"region": nil})
	for _, step := range []struct {
		change map[string]any
		region string
	}{
		{map[string]any{"name": "USA"}, "US"},
		{map[string]any{"dial_prefix": "1212"}, "US"},
		{map[string]any{"dial_prefix": "44"}, ""},
		{map[string]any{"region": "JE"}, "JE"},
		{map[string]any{"dial_prefix": "1"}, "US"},
		{map[string]any{"dial_prefix": "1213", "region": nil}, ""},
	} {
		got := decode[api.Country](t, b.expect(200, "", "PATCH", path+"/US", step.change))
		if (got.Region == nil) != (step.region == "") || (got.Region != nil && *got.Region != step.region) {
			t.Errorf("%v: %+v, want the region %q", step.change, got, step.region)
		}
	}
	if a := b.expect(422, "request.invalid", "PATCH", path+"/US", map[string]any{"region": "CN"}); a.fields() != "region" {
		t.Errorf("names %s", a.fields())
	}
}

func TestCountriesConcernPhoneNumbersAlone(t *testing.T) {
	b, p := notifying(t)
	b.country("CN", "86", nil)
	b.expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries": []string{"CN"}})
	b.expect(200, "", "PATCH", "/api/v1/admin/channels/dingtalk", map[string]any{"countries": []string{"CN"}})
	b.contacts(map[string]any{"user_id": "u2", "dingtalk_name": "+14155552671", "phone": "+14155552671"}, map[string]any{"user_id": "u3"})
	b.smsTemplate(nil)
	now := b.event("task_finished", map[string]any{"channels": []string{"dingtalk", "sms"}, "user_ids": []string{"u1", "u2", "u3"}})
	planned := decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 7, "channels": []string{"sms"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1", "u2", "u3"},
		"next_run_time": time.Now().Add(time.Hour),
	}))
	b.exec("UPDATE notifications SET next_run_at = now() WHERE id = $1", planned.Items[0].NotificationID)
	b.tell()
	ding := b.notificationBecomes(now.Items[0].NotificationID, api.NotificationSomeFailed)
	if users, _, _ := told(t, p.seen()[0]); !slices.Equal(users, []string{"+14155552671", "ding-u1"}) {
		t.Errorf("told %v", users)
	}
	if got := recipientOf(t, ding, "u3"); *got.LastError != "收件人在该渠道没有地址" {
		t.Errorf("%+v", got)
	}
	for _, id := range []int64{now.Items[1].NotificationID, planned.Items[0].NotificationID} {
		n := b.notification(id)
		abroad, nowhere, home := recipientOf(t, n, "u2"), recipientOf(t, n, "u3"), recipientOf(t, n, "u1")
		if abroad.LastError == nil || !strings.Contains(*abroad.LastError, "国家") || abroad.Address != "+14155552671" {
			t.Errorf("%+v", abroad)
		}
		if nowhere.LastError == nil || !strings.Contains(*nowhere.LastError, "没有地址") || home.LastError != nil || n.Status != api.NotificationWaiting {
			t.Errorf("%+v, %+v: %+v", nowhere, home, n)
		}
	}
	if n := b.count("SELECT count(*) FROM tasks WHERE status = 0 AND recipient = '+8613800138000'"); n != 2 {
		t.Errorf("%d messages wait", n)
	}
	b.once(map[string]any{"receiver_openid": "open"})
	if !strings.Contains(b.call("GET", "/metrics", nil).raw, `lksms_notification_people_failed_total{reason="country"} 2`) {
		t.Error("the metric does not count them")
	}
}

func TestANotificationGoesOutSigned(t *testing.T) {
	b, _ := notifying(t)
	sms := newProvider(t)
	sms.says(200, `{"code":"0","id":"n"}`)
	b.sender(map[string]any{"sender_no": "texts", "kind": "http-sms", "sign": "平台", "config": sms.config()})
	finished := func(task int, more map[string]any) api.NotificationView {
		more["task_id"], more["channels"], more["user_ids"] = task, []string{"sms"}, []string{"u1"}
		return b.notificationBecomes(b.event("task_finished", more).Items[0].NotificationID, api.NotificationSuccess)
	}
	b.smsTemplate(nil)
	finished(1, map[string]any{})
	b.smsTemplate(map[string]any{"sign": "模板"})
	finished(2, map[string]any{})
	n := finished(3, map[string]any{"sign": "请求"})
	if *n.Sign != "请求" {
		t.Errorf("%+v", n)
	}
	for i, want := range []string{"【平台】任务应急成像执行完成", "【模板】任务应急成像执行完成", "【请求】任务应急成像执行完成"} {
		if got := sms.seen()[i]; !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("sent %s, want %s", got, want)
		}
	}
	// The signature counts: 70 characters are one message alone and two with it.
	b.smsTemplate(map[string]any{"content": strings.Repeat("长", 70), "sign": "模板"})
	id := recipientOf(t, finished(4, map[string]any{}), "u1").TaskID
	if got := b.task(id); got.Segments != 2 || *got.Sign != "模板" {
		t.Errorf("%+v", got)
	}
}

// Whether a country or the channel asks for the signature, its people fail alone; that of the sender is not the message's own.
func TestANotificationWithoutARequiredSignatureFails(t *testing.T) {
	b, _ := notifying(t)
	sms := newProvider(t)
	sms.says(200, `{"code":"0","id":"n"}`)
	b.sender(map[string]any{"sender_no": "texts", "kind": "http-sms", "sign": "平台", "config": sms.config()})
	b.smsTemplate(nil)
	b.country("CN", "86", map[string]any{"signature_required": true})
	b.contacts(map[string]any{"user_id": "u2", "phone": "+14155552671"})
	finished := func(task int, more map[string]any) api.NotificationView {
		more["task_id"], more["channels"], more["user_ids"] = task, []string{"sms"}, []string{"u1", "u2"}
		id := b.event("task_finished", more).Items[0].NotificationID
		eventually(t, "it is over", func() bool { return b.notification(id).Status != api.NotificationWaiting })
		return b.notification(id)
	}
	if n := finished(1, map[string]any{}); n.Status != api.NotificationSomeFailed || !strings.Contains(fmt.Sprint(*recipientOf(t, n, "u1").LastError), "签名") {
		t.Errorf("%+v", n)
	}
	if n := finished(2, map[string]any{"sign": "请求"}); n.Status != api.NotificationSuccess {
		t.Errorf("%+v", n)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"signature_required": true})
	if n := finished(3, map[string]any{}); n.Status != api.NotificationFailed || !strings.Contains(*recipientOf(t, n, "u2").LastError, "签名") {
		t.Errorf("%+v", n)
	}
	if n := len(sms.seen()); n != 3 {
		t.Errorf("sent %d messages", n)
	}
}

// A name that a caller chooses is its own; that of a business event is the company's, and nobody can take it before.
func TestANotificationsDedupKeyIsItsSubmittersOwn(t *testing.T) {
	b, p := notifying(t)
	one, two := b.user("one", "submit", nil), b.user("two", "submit", nil)
	notify := func(text string, headers []string) api.NotificationMade {
		t.Helper()
		return decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": text}, "user_ids": []string{"u1"},
			"dedup_key": "3_1001_1", // as that of the event below
		}, headers...)).Items[0]
	}
	first, second := notify("of-one", one), notify("of-two", two)
	if second.Deduplicated || second.NotificationID == first.NotificationID {
		t.Errorf("another user's is %+v, the first %+v", second, first)
	}
	for who, c := range map[string]struct {
		made    api.NotificationMade
		headers []string
	}{"one": {first, one}, "two": {second, two}} {
		if again := notify("again", c.headers); !again.Deduplicated || again.NotificationID != c.made.NotificationID {
			t.Errorf("%s again: %+v", who, again)
		}
	}
	finished := func(headers []string) api.NotificationMade {
		t.Helper()
		return decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
			"event": "task_finished", "task_id": 1001, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "payload": map[string]any{"taskName": "event"},
		}, headers...)).Items[0]
	}
	event := finished(two)
	if event.Deduplicated || b.notification(event.NotificationID).BizID != 1001 {
		t.Errorf("the event is %+v", event)
	}
	for _, headers := range [][]string{two, one} {
		if again := finished(headers); !again.Deduplicated || again.NotificationID != event.NotificationID {
			t.Errorf("the event, told again: %+v", again)
		}
	}
	for _, id := range []int64{first.NotificationID, second.NotificationID, event.NotificationID} {
		b.notificationBecomes(id, api.NotificationSuccess)
	}
	var names []string
	for _, body := range p.seen() {
		_, _, params := told(t, body)
		names = append(names, fmt.Sprint(params["taskName"]))
	}
	if slices.Sort(names); !slices.Equal(names, []string{"event", "of-one", "of-two"}) {
		t.Errorf("people were told of %v", names)
	}
}

// A colleague is neither shown another's message nor can take it over when it failed.
func TestAMessageThatIsSentOnceIsItsSubmittersOwn(t *testing.T) {
	b, p, says := weChatting(t)
	one, two := b.user("one", "submit", nil), b.user("two", "submit", nil)
	once := func(headers []string, more map[string]any) api.Once {
		t.Helper()
		return decode[api.Once](t, b.expect(200, "", "POST", "/api/v1/subscribe-messages", booking(more), headers...))
	}
	listed := func(headers []string) (ids []int64) {
		t.Helper()
		for _, m := range decode[api.OncePage](t, b.expect(200, "", "GET", "/api/v1/subscribe-messages", nil, headers...)).Items {
			ids = append(ids, m.MessageID)
		}
		return ids
	}
	says(`{"errcode":43101,"errmsg":"user refuse to accept the msg"}`)
	first := once(one, nil)
	eventually(t, "it fails", func() bool { return once(one, nil).SendStatus == api.SendStatusFailed })
	says(`{"errcode":0,"msgid":8}`)
	second := once(two, map[string]any{"retry": true})
	if *second.Deduplicated || second.MessageID == first.MessageID || second.Sends != 1 || second.ErrorMessage != nil {
		t.Errorf("another user's is %+v, the first %+v", second, first)
	}
	eventually(t, "it is sent", func() bool { return once(two, nil).SendStatus == api.SendStatusSent })
	if again := once(two, map[string]any{"retry": true}); !*again.Deduplicated || again.MessageID != second.MessageID {
		t.Errorf("again: %+v", again)
	}
	if again := once(one, nil); again.MessageID != first.MessageID || again.SendStatus != api.SendStatusFailed {
		t.Errorf("the first, again: %+v", again)
	}
	for _, c := range []struct {
		headers []string
		id      int64
	}{{one, first.MessageID}, {two, second.MessageID}} {
		if ids := listed(c.headers); !slices.Equal(ids, []int64{c.id}) {
			t.Errorf("%v are listed, want %d", ids, c.id)
		}
	}
	if n := sentToWeChat(p); n != 2 {
		t.Errorf("sent %d times", n)
	}
}
