package driver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
)

// aliyun sends short messages through Aliyun (SendSms of Dysmsapi, 2017-05-25). Each message is one call (B16).
type aliyun struct {
	config struct {
		AccessKeyID     string            `json:"accessKeyId"`
		AccessKeySecret string            `json:"accessKeySecret"`
		SignName        string            `json:"signName"`  // signature of messages that have no signature; can be empty
		Templates       map[string]string `json:"templates"` // text of each approved template, with placeholders ${name}, by TemplateCode
		BaseURL         string            `json:"baseUrl"`   // empty: https://dysmsapi.aliyuncs.com
		AtOnce          int               `json:"atOnce"`
		TimeoutSeconds  float64           `json:"timeoutSeconds"`
	}
	templates []providedTemplate
	tools     provider.Tools
	client    *http.Client
	limit     time.Duration
}

const (
	aliyunURL     = "https://dysmsapi.aliyuncs.com"
	aliyunVersion = "2017-05-25"
)

var aliyunPlaceholder = regexp.MustCompile(`\$\{([^{}]+)\}`)

var aliyunReply = provider.Reply{
	Success: "Code", Equals: []string{"OK"}, Number: "BizId", Code: "Code", Error: "Message",
	Permanent: []string{
		"isv.MOBILE_NUMBER_ILLEGAL", "isv.TEMPLATE_PARAMS_ILLEGAL", "isv.INVALID_PARAMETERS", "isv.PARAM_LENGTH_LIMIT",
		"isv.PARAM_NOT_SUPPORT_URL", "isv.BLACK_KEY_CONTROL_LIMIT", "isv.SMS_CONTENT_ILLEGAL", "isv.INVALID_JSON_PARAM",
		"isv.MOBILE_COUNT_OVER_LIMIT",
	},
	Trouble: []string{
		"isv.AMOUNT_NOT_ENOUGH", "isv.OUT_OF_SERVICE", "isv.ACCOUNT_NOT_EXISTS", "isv.ACCOUNT_ABNORMAL", "isv.PRODUCT_UN_SUBSCRIPT",
		"isv.PRODUCT_UNSUBSCRIBE", "isv.DENY_IP_RANGE", "isv.DAY_LIMIT_CONTROL", "isv.MONTH_LIMIT_CONTROL", "isp.RAM_PERMISSION_DENY",
		"InvalidAccessKeyId.NotFound", "InvalidAccessKeyId.Inactive", "SignatureDoesNotMatch", "Forbidden.RAM", "InvalidTimeStamp.Expired",
	},
	Unclear: []string{"isp.GATEWAY_ERROR", "isp.SYSTEM_ERROR", "InternalError"}, // the provider possibly sends the message
	Busy:    []string{"Throttling", "Throttling.User", "Throttling.Api", "ServiceUnavailable"},
}

// aliyunSigns are codes about the signature. aliyunTemplates are codes about the template, which always comes from the configuration.
var (
	aliyunSigns     = []string{"isv.SMS_SIGNATURE_ILLEGAL"}
	aliyunTemplates = []string{"isv.SMS_TEMPLATE_ILLEGAL", "isv.TEMPLATE_MISSING_PARAMETERS"}
)

func newAliyun(config []byte, t provider.Tools) (Driver, error) {
	d := &aliyun{tools: t}
	c := &d.config
	if err := read(config, c); err != nil {
		return nil, err
	}
	if err := required(field{"accessKeyId", c.AccessKeyID}, field{"accessKeySecret", c.AccessKeySecret}); err != nil {
		return nil, err
	}
	if c.BaseURL == "" {
		c.BaseURL = aliyunURL
	}
	if err := signedAddress("baseUrl", c.BaseURL); err != nil {
		return nil, err
	}
	var err error
	if d.templates, err = providedTemplates(c.Templates, aliyunPlaceholder); err != nil {
		return nil, err
	}
	if err := atOnce(&c.AtOnce); err != nil {
		return nil, err
	}
	d.limit, err = timeout(c.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

func (d *aliyun) review(bool) error { return reviewTemplates(d.templates) }

func (d *aliyun) Target() string { return target(d.config.BaseURL) }

func (d *aliyun) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	provider.NewAttempts(ctx, d.limit, d.tools).Each(messages, d.config.AtOnce, report, d.call)
}

func (d *aliyun) call(ctx context.Context, m provider.Message) provider.Outcome {
	if refused := provider.ReadAsChinese(m.Recipient); refused != nil {
		return *refused
	}
	p, refused := findTemplate(m, d.templates, d.config.SignName)
	if refused != nil {
		return *refused
	}
	query := url.Values{
		"PhoneNumbers": {strings.TrimPrefix(strings.TrimPrefix(m.Recipient, "+86"), "+")}, "TemplateCode": {p.code}, "OutId": {m.TaskID},
	}
	if p.sign != "" {
		query.Set("SignName", p.sign)
	}
	if len(p.values) > 0 {
		params, err := json.Marshal(p.values)
		if err != nil {
			return provider.Unwritable
		}
		query.Set("TemplateParam", string(params))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(d.config.BaseURL, "/")+"/?"+aliyunQuery(query), nil)
	if err != nil {
		return provider.Unwritable
	}
	nonce := make([]byte, 16)
	rand.Read(nonce)
	aliyunSign(req, d.config.AccessKeyID, d.config.AccessKeySecret, "SendSms", aliyunVersion, hex.EncodeToString(nonce), time.Now())
	status, answer, failure := provider.Call(d.client, req)
	if failure != nil {
		return *failure
	}
	return p.blame(aliyunReply.Outcome(status, answer), aliyunSigns, aliyunTemplates, len(d.templates))
}

// aliyunQuery encodes a query in the way that the signature of Aliyun requires: a space becomes %20.
func aliyunQuery(query url.Values) string { return strings.ReplaceAll(query.Encode(), "+", "%20") }

// aliyunSign adds the headers of the signature ACS3-HMAC-SHA256 to a request. The request has no body, and its query must be encoded by aliyunQuery.
func aliyunSign(req *http.Request, id, secret, action, version, nonce string, at time.Time) {
	headers := map[string]string{
		"host": req.URL.Host, "x-acs-action": action, "x-acs-content-sha256": hashed(nil), "x-acs-date": at.UTC().Format("2006-01-02T15:04:05Z"),
		"x-acs-signature-nonce": nonce, "x-acs-version": version,
	}
	names := make([]string, 0, len(headers))
	for name, value := range headers {
		names = append(names, name)
		if name != "host" {
			req.Header.Set(name, value)
		}
	}
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(name + ":" + headers[name] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{req.Method, "/", req.URL.RawQuery, lines.String(), signed, headers["x-acs-content-sha256"]}, "\n")
	const algorithm = "ACS3-HMAC-SHA256"
	signature := hex.EncodeToString(hmacOf([]byte(secret), algorithm+"\n"+hashed([]byte(canonical))))
	req.Header.Set("Authorization", algorithm+" Credential="+id+",SignedHeaders="+signed+",Signature="+signature)
}

func hashed(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func hmacOf(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
