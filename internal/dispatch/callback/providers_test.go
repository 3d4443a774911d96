package callback_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"lksms/internal/dispatch/callback"
)

// The messages are examples of the providers' public pages. The pages contradict each other about the types of fields.
func TestTheExampleConfigurationsParseMessagesOfTheirProviders(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 1, 2, 3, 4, 0, time.UTC)
	reply := callback.Message{From: "13800138000", To: "1234", Content: "退订 T", MessageNo: "1234567890", ReceivedAt: &at}
	foreign := callback.Message{From: "81234567", Region: "SG", Content: "", ReceivedAt: &at}
	withCode, withPlus := foreign, foreign
	withCode.From, withPlus.From = "6581234567", "+6581234567"
	for file, bodies := range map[string]map[string][]callback.Message{
		"aliyun-sms": {
			`[{"phone_number":"13800138000","send_time":"2026-09-01 10:03:04","content":"退订 T","sign_name":"签名","dest_code":"1234","sequence_id":1234567890}]`: {reply},
			`{"phone_number":"13800138000","content":"退订 T","send_time":"2026-09-01 10:03:04","dest_code":"1234","sequence_id":"1234567890"}`:                  {reply},
			`[{"phone_number":13800138000,"send_time":"2026-09-01 10:03:04","content":"退订 T","dest_code":1234,"sequence_id":1234567890},` +
				`{"phone_number":"13800138001","success":true,"err_code":"DELIVERED","biz_id":"1^0"}]`: {reply},
		},
		"tencent-sms": {
			`{"extend":"1234","mobile":"13800138000","nationcode":"86","sign":"短信签名","text":"退订 T","time":1788228184}`: {
				{From: "13800138000", Region: "CN", To: "1234", Content: "退订 T", ReceivedAt: &at},
			},
			`[{"extend":"","mobile":"81234567","nationcode":65,"sign":"s","text":"","time":"1788228184"}]`: {foreign},
			`[{"extend":"","mobile":"6581234567","nationcode":"65","sign":"s","text":"","time":1788228184},` +
				`{"extend":"","mobile":"+6581234567","nationcode":"+65","sign":"s","text":"","time":1788228184}]`: {withCode, withPlus},
			`{"extend":"1234","mobile":"10086","nationcode":"86","sign":"短信签名","text":"余额","time":1788228184}`: {
				{From: "10086", Region: "CN", To: "1234", Content: "余额", ReceivedAt: &at}, // a short code
			},
		},
		"json-api": {
			`{"events":[{"type":"inbound","id":"m-1","status":"received","from":"+6581234567","to":"+6560000000","text":"hi","received_at":"2026-09-01T10:03:04+08:00"},` +
				`{"type":"status","id":"7","status":"delivered"}]}`: {
				{From: "+6581234567", To: "+6560000000", Content: "hi", MessageNo: "m-1", ReceivedAt: &at},
			},
		},
		"channel-product": {
			"mobile=13800138000&destcode=1234&msg=%E9%80%80%E8%AE%A2+T&motime=20260901100304": {{From: "13800138000", To: "1234", Content: "退订 T", ReceivedAt: &at}},
		},
	} {
		c := configOf(t, file)
		for body, want := range bodies {
			read, err := c.Read([]byte(body))
			if err != nil || read.LeftOut > 0 || len(read.Messages) != len(want) {
				t.Errorf("%s: %+v, %v", file, read, err)
				continue
			}
			for i, m := range read.Messages {
				if m.Raw == "" || m.ReceivedAt == nil || !m.ReceivedAt.Equal(*want[i].ReceivedAt) {
					t.Errorf("%s: %+v", file, m)
				}
				m.Raw, m.ReceivedAt = "", want[i].ReceivedAt
				if m != want[i] {
					t.Errorf("%s: %+v, want %+v", file, m, want[i])
				}
			}
		}
	}
}

func configOf(t *testing.T, file string) callback.Config {
	t.Helper()
	text, err := os.ReadFile("../../../docs/providers/" + file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var sender struct {
		Config struct{ Callback callback.Config }
	}
	if err := json.Unmarshal(text, &sender); err != nil {
		t.Fatal(err)
	}
	return sender.Config.Callback
}

// B16: the examples in docs/providers parse the receipts that the providers document.
func TestTheExampleConfigurationsParseReceiptsOfTheirProviders(t *testing.T) {
	t.Parallel()
	for file, body := range map[string]string{
		"aliyun-sms": `[{"phone_number":"13800138000","send_time":"2026-01-01 00:00:00","report_time":"2026-01-01 00:00:09","success":true,"err_code":"DELIVERED","err_msg":"用户接收成功","sms_size":"1","biz_id":"932702304080415357^0","out_id":"task_1"},` +
			`{"phone_number":"13800138001","success":false,"err_code":"MOBILE_NOT_ON_SERVICE","biz_id":"2"}]`,
		"tencent-sms": `[{"user_receive_time":"2026-01-01 08:03:04","nationcode":"86","mobile":"13800138000","report_status":"SUCCESS","errmsg":"DELIVRD","description":"用户短信送达成功","sid":"932702304080415357^0","ext":"task_1"},` +
			`{"nationcode":"86","mobile":"13800138001","report_status":"FAIL","errmsg":"MOBILE_NOT_ON_SERVICE","sid":"2"}]`,
	} {
		c := configOf(t, file)
		read, err := c.Read([]byte(body))
		got := read.Receipts
		if err != nil || read.LeftOut > 0 || len(got) != 2 || len(read.Messages) > 0 {
			t.Fatalf("%s: %+v, %v", file, read, err)
		}
		if r := got[0]; r.State != callback.Delivered || r.Number != "932702304080415357^0" || r.Recipient != "13800138000" {
			t.Errorf("%s: %+v", file, r)
		}
		if r := got[1]; r.State != callback.Undelivered || r.Code != "MOBILE_NOT_ON_SERVICE" {
			t.Errorf("%s: %+v", file, r)
		}
	}
}
