package driver

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"lksms/internal/dispatch/driver/provider"
)

func request(t *testing.T, method, address, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// B16: the signatures equal the examples that the providers publish.
func TestSignaturesMatchTheExamplesOfTheProviders(t *testing.T) {
	t.Parallel()
	req := request(t, "POST", "https://ecs.cn-shanghai.aliyuncs.com/?ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai", "")
	aliyunSign(req, "YourAccessKeyId", "YourAccessKeySecret", "RunInstances", "2014-05-26", "3156853299f313e23d1673dc12e1703d",
		time.Date(2023, 10, 26, 10, 22, 32, 0, time.UTC))
	const aliyun = "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;" +
		"x-acs-version,Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
	if got := req.Header.Get("Authorization"); got != aliyun {
		t.Errorf("aliyun: %s", got)
	}
	const body = `{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}`
	req = request(t, "POST", "https://cvm.tencentcloudapi.com", body)
	tencentSign(req, "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE", "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE", "cvm", []byte(body), time.Unix(1551113065, 0))
	const tencent = "TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request, SignedHeaders=content-type;host, " +
		"Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168"
	if got := req.Header.Get("Authorization"); got != tencent {
		t.Errorf("tencent: %s", got)
	}
}

// B16: a message is sent with the template that produces its text. If several templates match, the template with the most fixed text is used.
func TestTheTemplateThatProducesATextIsFound(t *testing.T) {
	t.Parallel()
	templates, err := providedTemplates(map[string]string{
		"CODE": "您的验证码是${code}，请勿泄露", "MIN": "您的验证码是${code}，${min}分钟内有效。", "TWICE": "${name}，您好：${name}", "ANY": "通知：${text}", "PLAIN": "门店今日开业（${1+}）",
		"FIXED": "今天停水",
	}, aliyunPlaceholder)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		code, sign string
		values     map[string]string
	}{
		"【甲】您的验证码是123456，请勿泄露": {"CODE", "甲", map[string]string{"code": "123456"}},
		"您的验证码是12，5分钟内有效。":     {"MIN", "默认", map[string]string{"code": "12", "min": "5"}},
		"张三，您好：张三":             {"TWICE", "默认", map[string]string{"name": "张三"}},
		"张三，您好：李四":             {},
		"通知：第一行\n第二行【乙】":       {"ANY", "默认", map[string]string{"text": "第一行\n第二行【乙】"}},
		"门店今日开业（x）":            {"PLAIN", "默认", map[string]string{"1+": "x"}},
		"今天停水":                 {"FIXED", "默认", map[string]string{}},
		"【紧急】今天停水":             {},
		"今天停水。":                {},
		"您的验证码是，请勿泄露":          {},
		"x您的验证码是1，请勿泄露":        {},
	} {
		m := provider.Message{Content: text}
		if strings.HasPrefix(text, "【甲】") {
			m.Sign = "甲"
		}
		p, refused := findTemplate(m, templates, "默认")
		if p.code != want.code || p.sign != want.sign || !maps.Equal(p.values, want.values) || (refused == nil) != (want.code != "") {
			t.Errorf("%q: %+v, %v", text, p, refused)
		}
	}
	if _, refused := findTemplate(provider.Message{Content: "今天停水"}, templates, ""); refused == nil || refused.Code != "no_signature" {
		t.Errorf("without a signature: %v", refused)
	}
}
