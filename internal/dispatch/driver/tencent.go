package driver

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
)

// tencent sends short messages through Tencent Cloud (SendSms, 2021-01-11). Each message is one call (B16).
type tencent struct {
	config struct {
		SecretID       string            `json:"secretId"`
		SecretKey      string            `json:"secretKey"`
		SDKAppID       string            `json:"sdkAppId"`
		Region         string            `json:"region"`    // empty: ap-guangzhou
		SignName       string            `json:"signName"`  // signature of messages that have no signature; can be empty
		Templates      map[string]string `json:"templates"` // text of each approved template, with placeholders {1}, {2}, by TemplateId
		BaseURL        string            `json:"baseUrl"`   // empty: https://sms.tencentcloudapi.com
		AtOnce         int               `json:"atOnce"`
		TimeoutSeconds float64           `json:"timeoutSeconds"`
	}
	templates []providedTemplate
	tools     provider.Tools
	client    *http.Client
	limit     time.Duration
}

const (
	tencentURL     = "https://sms.tencentcloudapi.com"
	tencentVersion = "2021-01-11"
	tencentRegion  = "ap-guangzhou"
)

var tencentPlaceholder = regexp.MustCompile(`\{([1-9][0-9]?)\}`)

// These are codes of Tencent Cloud. A code is about one message or about the whole request.
var (
	tencentPermanent = []string{
		"InvalidParameterValue.IncorrectPhoneNumber", "InvalidParameterValue.TemplateParameterFormatError",
		"InvalidParameterValue.TemplateParameterLengthLimit", "InvalidParameterValue.ContentLengthLimit",
		"InvalidParameterValue.ProhibitedUseUrlInTemplateParameter", "FailedOperation.ContainSensitiveWord", "FailedOperation.PhoneNumberInBlacklist",
		"UnsupportedOperation.ContainDomesticAndInternationalPhoneNumber",
	}
	tencentTrouble = []string{
		"AuthFailure.SecretIdNotFound", "AuthFailure.SignatureFailure", "AuthFailure.SignatureExpire", "AuthFailure.InvalidSecretId",
		"AuthFailure.UnauthorizedOperation", "AuthFailure.TokenFailure", "UnauthorizedOperation.SmsSdkAppIdVerifyFail",
		"UnauthorizedOperation.RequestIpNotInWhitelist", "UnauthorizedOperation.ServiceSuspendDueToArrears", "UnauthorizedOperation.SdkAppIdIsDisabled",
		"UnauthorizedOperation.RequestPermissionDeny", "FailedOperation.InsufficientBalanceInSmsPackage", "FailedOperation.OtherError.BalanceNotEnough",
		"InvalidParameterValue.SdkAppIdNotExist", "LimitExceeded.AppDailyLimit", "LimitExceeded.AppMainlandChinaDailyLimit", "LimitExceeded.AppGlobalDailyLimit",
	}
	tencentBusy = []string{
		"InternalError.RequestTimeException", // the request was refused before it was read
		"RequestLimitExceeded", "LimitExceeded", "ResourceUnavailable",
	}
	tencentUnclear = []string{ // the provider possibly sends the message
		"InternalError", "InternalError.OtherError", "InternalError.UnknownError", "InternalError.ParseBackendResponseFail", "InternalError.Timeout",
		"InternalError.SendAndRecvFail",
	}
	// tencentSigns are codes about the signature. tencentTemplates are codes about the template, which always comes from the configuration.
	tencentSigns     = []string{"FailedOperation.SignatureIncorrectOrUnapproved"}
	tencentTemplates = []string{
		"FailedOperation.TemplateIncorrectOrUnapproved", "FailedOperation.TemplateUnapprovedOrNotExist", "FailedOperation.TemplateIdNotExist",
		"FailedOperation.TemplateParamSetNotMatchApprovedTemplate",
	}
	tencentReply = provider.Reply{
		Success: "Response.SendStatusSet.0.Code", Equals: []string{"Ok"}, Number: "Response.SendStatusSet.0.SerialNo",
		Code: "Response.SendStatusSet.0.Code", Error: "Response.SendStatusSet.0.Message",
		Permanent: tencentPermanent, Trouble: tencentTrouble, Busy: tencentBusy, Unclear: tencentUnclear,
	}
	// tencentRefusal reads the answer to a request that is refused as a whole. Such an answer never contains a code of success.
	tencentRefusal = provider.Reply{
		Success: "Response.Error.Code", Equals: []string{}, Code: "Response.Error.Code", Error: "Response.Error.Message",
		Permanent: tencentPermanent, Trouble: tencentTrouble, Busy: tencentBusy, Unclear: tencentUnclear,
	}
)

func newTencent(config []byte, t provider.Tools) (Driver, error) {
	d := &tencent{tools: t}
	c := &d.config
	if err := read(config, c); err != nil {
		return nil, err
	}
	if err := required(field{"secretId", c.SecretID}, field{"secretKey", c.SecretKey}, field{"sdkAppId", c.SDKAppID}); err != nil {
		return nil, err
	}
	if c.BaseURL == "" {
		c.BaseURL = tencentURL
	}
	if c.Region == "" {
		c.Region = tencentRegion
	}
	if err := signedAddress("baseUrl", c.BaseURL); err != nil {
		return nil, err
	}
	var err error
	if d.templates, err = providedTemplates(c.Templates, tencentPlaceholder); err != nil {
		return nil, err
	}
	for _, t := range d.templates { // the values are a list, so {1} and {3} need {2}
		for i := range len(slices.Compact(slices.Sorted(slices.Values(t.names)))) {
			if !slices.Contains(t.names, strconv.Itoa(i+1)) {
				return nil, fault.InvalidField("config.templates", fault.WrongFormat, nil)
			}
		}
	}
	if err := atOnce(&c.AtOnce); err != nil {
		return nil, err
	}
	d.limit, err = timeout(c.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

func (d *tencent) review(bool) error { return reviewTemplates(d.templates) }

func (d *tencent) Target() string { return target(d.config.BaseURL) }

func (d *tencent) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	provider.NewAttempts(ctx, d.limit, d.tools).Each(messages, d.config.AtOnce, report, d.call)
}

func (d *tencent) call(ctx context.Context, m provider.Message) provider.Outcome {
	p, refused := findTemplate(m, d.templates, d.config.SignName)
	if refused != nil {
		return *refused
	}
	values := make([]string, len(p.values))
	for i := range values {
		values[i] = p.values[strconv.Itoa(i+1)]
	}
	body, err := json.Marshal(map[string]any{
		"PhoneNumberSet": []string{m.Recipient}, "SmsSdkAppId": d.config.SDKAppID, "SignName": p.sign, "TemplateId": p.code, "TemplateParamSet": values,
		"SessionContext": m.TaskID,
	})
	if err != nil {
		return provider.Unwritable
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(d.config.BaseURL, "/")+"/", bytes.NewReader(body))
	if err != nil {
		return provider.Unwritable
	}
	req.Header.Set("X-TC-Action", "SendSms")
	req.Header.Set("X-TC-Version", tencentVersion)
	req.Header.Set("X-TC-Region", d.config.Region)
	tencentSign(req, d.config.SecretID, d.config.SecretKey, "sms", body, time.Now())
	status, answer, failure := provider.Call(d.client, req)
	if failure != nil {
		return *failure
	}
	if fields, readable := tencentRefusal.Read(answer); readable {
		if _, isRefused := provider.TextAt(fields, tencentRefusal.Code); isRefused {
			return p.blame(tencentRefusal.Outcome(status, answer), tencentSigns, tencentTemplates, len(d.templates))
		}
	}
	return p.blame(tencentReply.Outcome(status, answer), tencentSigns, tencentTemplates, len(d.templates))
}

// tencentSign adds the headers of the signature TC3-HMAC-SHA256 to a request with a JSON body.
func tencentSign(req *http.Request, id, key, service string, body []byte, at time.Time) {
	const algorithm, signed, media = "TC3-HMAC-SHA256", "content-type;host", "application/json; charset=utf-8"
	req.Header.Set("Content-Type", media)
	req.Header.Set("X-TC-Timestamp", strconv.FormatInt(at.Unix(), 10))
	canonical := strings.Join([]string{
		req.Method, "/", "", "content-type:" + media + "\nhost:" + req.URL.Host + "\n", signed, hashed(body),
	}, "\n")
	day := at.UTC().Format(time.DateOnly)
	scope := day + "/" + service + "/tc3_request"
	toSign := strings.Join([]string{algorithm, strconv.FormatInt(at.Unix(), 10), scope, hashed([]byte(canonical))}, "\n")
	derived := hmacOf(hmacOf(hmacOf([]byte("TC3"+key), day), service), "tc3_request")
	req.Header.Set("Authorization", algorithm+" Credential="+id+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(hmacOf(derived, toSign)))
}
