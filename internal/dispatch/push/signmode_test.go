package push_test

import (
	"strings"
	"testing"

	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// The sign_mode of a sender decides how its provider receives text and signature. The same rule applies to a test of the sender.
func TestSignModeDecidesTextAndSignature(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"sign": "平台"})
	config := p.SenderConfig()
	config["body"] = map[string]any{"to": "${recipient}", "all": "${content}", "text": "${text}", "sign": "${sign}"}
	for mode, wants := range map[string]struct{ own, ofSender, begins string }{
		"in_text": {
			`{"all":"【公司】a","sign":"公司","text":"a",`, `{"all":"【平台】b","sign":"平台","text":"b",`, `{"all":"【平台】c","sign":"平台","text":"c",`,
		},
		"by_provider": {`{"all":"a","sign":"公司","text":"a",`, `{"all":"b","sign":"平台","text":"b",`, `{"all":"c","sign":"平台","text":"c",`},
		"none":        {`{"all":"a","sign":"","text":"a",`, `{"all":"b","sign":"","text":"b",`, `{"all":"【平台】c","sign":"","text":"【平台】c",`},
	} {
		change := map[string]any{"sign_mode": mode, "sign": "平台", "config": config}
		if mode == "none" {
			change["sign"] = nil
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", change)
		for want, body := range map[string]map[string]any{
			wants.own: {"content": "a", "sign": "公司"}, wants.ofSender: {"content": "b"}, wants.begins: {"content": "【平台】c"},
		} {
			body["phone_number"] = apptest.Phone
			id := b.SubmitBody(body).TaskID
			b.AwaitStatus(id, queue.Success)
			if seen := p.Seen(); !strings.HasPrefix(seen[len(seen)-1], want) {
				t.Errorf("%s: the provider got %s, want %s", mode, seen[len(seen)-1], want)
			}
		}
		want := strings.NewReplacer("】b", "】a test", `"b"`, `"a test"`).Replace(wants.ofSender)
		if got := test(b); got.Request == nil || !strings.HasPrefix(got.Request.Body, want) {
			t.Errorf("%s: the test made the request %+v", mode, got.Request)
		}
	}
}

// A sender whose provider always adds a signature cannot use the mode without signatures.
func TestSignModeNoneIsRejectedIfTheProviderAlwaysSigns(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	body := map[string]any{"sender_no": "cloud", "name": "cloud", "kind": "aliyun-sms", "sign_mode": "none", "config": map[string]any{
		"accessKeyId": "a", "accessKeySecret": "b", "signName": "默认", "templates": map[string]any{"SMS_1": "x"},
	}}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", body); a.Fields() != "sign_mode" {
		t.Error(a.Raw)
	}
	body["sign_mode"] = "by_provider"
	b.Expect(200, "", "POST", "/api/v1/admin/senders", body)
	if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/cloud", map[string]any{"sign_mode": "none"}); a.Fields() != "sign_mode" {
		t.Error(a.Raw)
	}
}
