package callback_test

import (
	"encoding/json"
	"os"
	"testing"

	"lksms/internal/dispatch/callback"
)

// B16: the examples in docs/providers parse the receipts that the providers document.
func TestTheExampleConfigurationsParseReceiptsOfTheirProviders(t *testing.T) {
	t.Parallel()
	for file, body := range map[string]string{
		"aliyun-sms": `[{"phone_number":"13800138000","send_time":"2026-01-01 00:00:00","report_time":"2026-01-01 00:00:09","success":true,"err_code":"DELIVERED","err_msg":"用户接收成功","sms_size":"1","biz_id":"932702304080415357^0","out_id":"task_1"},` +
			`{"phone_number":"13800138001","success":false,"err_code":"MOBILE_NOT_ON_SERVICE","biz_id":"2"}]`,
		"tencent-sms": `[{"user_receive_time":"2026-01-01 08:03:04","nationcode":"86","mobile":"13800138000","report_status":"SUCCESS","errmsg":"DELIVRD","description":"用户短信送达成功","sid":"932702304080415357^0","ext":"task_1"},` +
			`{"nationcode":"86","mobile":"13800138001","report_status":"FAIL","errmsg":"MOBILE_NOT_ON_SERVICE","sid":"2"}]`,
	} {
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
		got, leftOut, err := sender.Config.Callback.Read([]byte(body))
		if err != nil || leftOut > 0 || len(got) != 2 {
			t.Fatalf("%s: %v, %d left out, %v", file, got, leftOut, err)
		}
		if r := got[0]; r.State != callback.Delivered || r.Number != "932702304080415357^0" || r.Recipient != "13800138000" {
			t.Errorf("%s: %+v", file, r)
		}
		if r := got[1]; r.State != callback.Undelivered || r.Code != "MOBILE_NOT_ON_SERVICE" {
			t.Errorf("%s: %+v", file, r)
		}
	}
}
