package driver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/outbound"
)

// cloud is the driver of a cloud provider with sample answers of this provider.
type cloud struct {
	kind, accepted, refused, denied, limited, unclear string
	config                                            map[string]any
}

var clouds = []cloud{
	{
		"aliyun-sms", `{"Message":"OK","RequestId":"r","Code":"OK","BizId":"biz-1"}`,
		`{"Message":"invalid number","RequestId":"r","Code":"isv.MOBILE_NUMBER_ILLEGAL"}`,
		`{"Message":"no such key","RequestId":"r","Code":"InvalidAccessKeyId.NotFound"}`,
		`{"Message":"too many for this number","RequestId":"r","Code":"isv.BUSINESS_LIMIT_CONTROL"}`,
		`{"Message":"no answer from the gateway","RequestId":"r","Code":"isp.GATEWAY_ERROR"}`,
		map[string]any{"accessKeyId": "id", "accessKeySecret": "a secret key", "signName": "示例", "templates": map[string]string{"SMS_1": "验证码${code}"}},
	},
	{
		"tencent-sms", `{"Response":{"SendStatusSet":[{"SerialNo":"biz-1","PhoneNumber":"+8613800138000","Fee":1,"Code":"Ok","Message":"send success"}],"RequestId":"r"}}`,
		`{"Response":{"SendStatusSet":[{"SerialNo":"","Code":"InvalidParameterValue.IncorrectPhoneNumber","Message":"invalid number"}],"RequestId":"r"}}`,
		`{"Response":{"Error":{"Code":"AuthFailure.SecretIdNotFound","Message":"no such key"},"RequestId":"r"}}`,
		`{"Response":{"SendStatusSet":[{"SerialNo":"","Code":"LimitExceeded.PhoneNumberThirtySecondLimit","Message":"too many for this number"}],"RequestId":"r"}}`,
		`{"Response":{"Error":{"Code":"InternalError.Timeout","Message":"no answer from the gateway"},"RequestId":"r"}}`,
		map[string]any{"secretId": "id", "secretKey": "a secret key", "sdkAppId": "1400000000", "signName": "示例", "templates": map[string]string{"SMS_1": "验证码{1}"}},
	},
}

// B16: the drivers send template and values, and read the provider's answers.
func TestCloudDriversSendTemplateAndValues(t *testing.T) {
	t.Parallel()
	for _, c := range clouds {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			answers := []string{c.accepted, c.refused, c.denied, c.limited, c.unclear, "<html>", `{}`}
			p := newProvider(t, func(n int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, answers[n-1]) })
			config := maps.Clone(c.config)
			config["baseUrl"] = p.URL
			d, err := tryDriver(c.kind, config, outbound.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			try := func(content string) provider.Outcome {
				return send(t.Context(), d, []provider.Message{{TaskID: "task_1", Recipient: "+8613800138000", Content: content, Sign: map[bool]string{true: "甲"}[strings.HasPrefix(content, "【甲】")]}})[0]
			}
			if o := try("【甲】验证码1+2 3"); !o.OK || o.ProviderNo != "biz-1" {
				t.Errorf("accepted: %+v", o)
			}
			if o := try("验证码1"); o.OK || !o.Permanent || o.Trouble || o.Unknown || o.Error != "invalid number" {
				t.Errorf("a wrong number: %+v", o)
			}
			if o := try("验证码1"); !o.Trouble || o.Error != "no such key" {
				t.Errorf("a wrong key: %+v", o)
			}
			if o := try("验证码1"); o.OK || o.Permanent || o.Trouble || o.Unknown {
				t.Errorf("a limit of the number: %+v", o)
			}
			for _, nonsense := range answers[4:] {
				if o := try("验证码1"); !o.Unknown {
					t.Errorf("%s: %+v", nonsense, o)
				}
			}
			if o := try("another text"); !o.Permanent || !o.Unasked || o.Code != "no_template" || len(p.calls) != len(answers) {
				t.Errorf("no template: %+v", o)
			}
			checkCall(t, c.kind, p.calls[0])
			for _, sent := range p.calls {
				if strings.Contains(sent.path+sent.body+strings.Join(sent.header["Authorization"], ""), "a secret key") {
					t.Error("the key was sent")
				}
			}
		})
	}
}

// A message does not fail if its provider refuses the configured signature or template of the sender. If a code does not show whether the message was sent, the
// outcome is unclear.
func TestCodeOfACloudProviderFailsTheMessageOrTheSender(t *testing.T) {
	t.Parallel()
	answerOf := map[string]string{
		"aliyun-sms": `{"Message":"m","Code":"%s"}`, "tencent-sms": `{"Response":{"SendStatusSet":[{"SerialNo":"","Code":"%s","Message":"m"}]}}`,
	}
	const one, other = `验证码%s`, `余额%s`
	for _, c := range []struct {
		kind, code, sign                    string
		templates                           int
		permanent, trouble, unclear, outage bool
	}{
		{"aliyun-sms", "isv.SMS_SIGNATURE_ILLEGAL", "", 2, false, true, false, false},
		{"aliyun-sms", "isv.SMS_SIGNATURE_ILLEGAL", "甲", 2, true, false, false, false},
		{"aliyun-sms", "isv.SMS_TEMPLATE_ILLEGAL", "甲", 1, false, true, false, false},
		{"aliyun-sms", "isv.SMS_TEMPLATE_ILLEGAL", "甲", 2, false, false, false, false},
		{"aliyun-sms", "isp.SYSTEM_ERROR", "", 1, false, false, true, true},
		{"aliyun-sms", "InternalError", "", 1, false, false, true, true},
		{"tencent-sms", "FailedOperation.SignatureIncorrectOrUnapproved", "", 2, false, true, false, false},
		{"tencent-sms", "FailedOperation.SignatureIncorrectOrUnapproved", "甲", 2, true, false, false, false},
		{"tencent-sms", "FailedOperation.TemplateIncorrectOrUnapproved", "甲", 1, false, true, false, false},
		{"tencent-sms", "FailedOperation.TemplateParamSetNotMatchApprovedTemplate", "甲", 2, false, false, false, false},
		{"tencent-sms", "InternalError.OtherError", "", 1, false, false, true, true},
		{"tencent-sms", "InternalError", "", 1, false, false, true, true},
		{"tencent-sms", "LimitExceeded.DeliveryFrequencyLimit", "", 1, false, false, false, false}, // the code concerns one phone number
	} {
		t.Run(c.kind+" "+c.code, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, func(_ int, _ call, w http.ResponseWriter) { _, _ = fmt.Fprintf(w, answerOf[c.kind], c.code) })
			placeholder := map[string]string{"aliyun-sms": "${code}", "tencent-sms": "{1}"}[c.kind]
			templates := map[string]string{"1": fmt.Sprintf(one, placeholder)}
			if c.templates == 2 {
				templates["2"] = fmt.Sprintf(other, placeholder)
			}
			d := cloudDriver(t, c.kind, p.URL, map[string]any{"templates": templates})
			o := send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: "+8613800138000", Content: "验证码1", Sign: c.sign}})[0]
			if o.OK || o.Permanent != c.permanent || o.Trouble != c.trouble || o.Unknown != c.unclear || o.Outage != c.outage {
				t.Errorf("%+v", o)
			}
		})
	}
}

// cloudDriver returns a driver of a cloud provider. Its configuration comes from clouds, with the fields of more replaced.
func cloudDriver(t *testing.T, kind, baseURL string, more map[string]any) driver.Driver {
	t.Helper()
	for _, c := range clouds {
		if c.kind == kind {
			config := maps.Clone(c.config)
			maps.Copy(config, more)
			config["baseUrl"] = baseURL
			d, err := tryDriver(kind, config, outbound.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal(kind)
	return nil
}

// Providers require a signature only in mainland China.
func TestMessageToANumberOutsideMainlandChinaNeedsNoSignature(t *testing.T) {
	t.Parallel()
	for _, c := range clouds {
		p := newProvider(t, func(_ int, _ call, w http.ResponseWriter) { _, _ = io.WriteString(w, c.accepted) })
		d := cloudDriver(t, c.kind, p.URL+"/", map[string]any{"signName": ""})
		for recipient, isSent := range map[string]bool{"+12015550123": true, "+85251234567": true, "+8613800138000": false} {
			if o := send(t.Context(), d, []provider.Message{{TaskID: "1", Recipient: recipient, Content: "验证码1"}})[0]; o.OK != isSent || !isSent && o.Code != "no_signature" {
				t.Errorf("%s to %s: %+v", c.kind, recipient, o)
			}
		}
	}
}

func checkCall(t *testing.T, kind string, sent call) {
	t.Helper()
	if kind == "aliyun-sms" {
		to, err := url.Parse(sent.path)
		if err != nil {
			t.Fatal(err)
		}
		q := to.Query()
		if q.Get("PhoneNumbers") != "13800138000" || q.Get("SignName") != "甲" || q.Get("TemplateCode") != "SMS_1" ||
			q.Get("TemplateParam") != `{"code":"1+2 3"}` || q.Get("OutId") != "task_1" || sent.header.Get("X-Acs-Action") != "SendSms" {
			t.Errorf("sent %v", q)
		}
		return
	}
	var body struct {
		PhoneNumberSet, TemplateParamSet                  []string
		SmsSdkAppId, SignName, TemplateId, SessionContext string
	}
	if err := json.Unmarshal([]byte(sent.body), &body); err != nil {
		t.Fatal(err)
	}
	if body.PhoneNumberSet[0] != "+8613800138000" || body.SignName != "甲" || body.TemplateId != "SMS_1" || body.TemplateParamSet[0] != "1+2 3" ||
		body.SmsSdkAppId != "1400000000" || body.SessionContext != "task_1" || sent.header.Get("X-Tc-Region") != "ap-guangzhou" {
		t.Errorf("sent %+v", body)
	}
}

func TestCloudDriversRejectWrongConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range clouds {
		for field, wrong := range map[string]any{
			"templates": map[string]string{}, "baseUrl": "ftp://x", "atOnce": 65, "timeoutSeconds": 61, "sign": "x",
		} {
			config := maps.Clone(c.config)
			config[field] = wrong
			if _, err := tryDriver(c.kind, config, outbound.Policy{}); err == nil || !strings.Contains(err.Error(), "config."+field) {
				t.Errorf("%s %s: %v", c.kind, field, err)
			}
		}
	}
	for _, c := range clouds {
		for _, wrong := range []string{"https://proxy/sms", "https://proxy/?to=sms", "https://user@proxy"} { // the signature of a request covers its path
			config := maps.Clone(c.config)
			config["baseUrl"] = wrong
			if _, err := tryDriver(c.kind, config, outbound.Policy{}); err == nil || !strings.Contains(err.Error(), "config.baseUrl") {
				t.Errorf("%s at %s: %v", c.kind, wrong, err)
			}
		}
	}
	gap := map[string]any{"secretId": "i", "secretKey": "k", "sdkAppId": "1", "templates": map[string]string{"1": "{1} {3}"}}
	if _, err := tryDriver("tencent-sms", gap, outbound.Policy{}); err == nil || !strings.Contains(err.Error(), "config.templates") {
		t.Errorf("a gap: %v", err)
	}
}
