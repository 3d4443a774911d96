package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lksms/internal/dispatch/driver/provider"
)

// weChat sends subscribe messages of a mini program (S2.3).
type weChat struct {
	config struct {
		BaseURL          string  `json:"baseUrl"` // URL without a path; empty: the URL of WeChat
		AppID            string  `json:"appId"`
		AppSecret        string  `json:"appSecret"`
		MiniProgramState string  `json:"miniprogramState"`
		Lang             string  `json:"lang"`
		TimeoutSeconds   float64 `json:"timeoutSeconds"`
	}
	answer provider.Reply
	client *http.Client
	limit  time.Duration
	tools  provider.Tools
}

// weChatAtOnce is the default number of concurrent calls.
const weChatAtOnce = 8

func newWeChat(config []byte, t provider.Tools) (Driver, error) {
	d := &weChat{tools: t}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	if err := required(field{"appId", d.config.AppID}, field{"appSecret", d.config.AppSecret}); err != nil {
		return nil, err
	}
	if d.config.BaseURL == "" {
		d.config.BaseURL = "https://api.weixin.qq.com"
	}
	d.config.BaseURL = strings.TrimSuffix(d.config.BaseURL, "/")
	if err := address("baseUrl", d.config.BaseURL); err != nil {
		return nil, err
	}
	d.answer = provider.ErrCodes(weChatPermanent, weChatTrouble, weChatBusy)
	var err error
	d.limit, err = timeout(d.config.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

func (d *weChat) Target() string { return target(d.config.BaseURL) }

func (d *weChat) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	attempts := provider.NewAttempts(ctx, 2*d.limit, d.tools) // a stale token requires a second call
	token, err := d.tools.Token(ctx, "", d.fetch)
	attempts.Each(messages, weChatAtOnce, report, func(ctx context.Context, m provider.Message) provider.Outcome {
		if err != nil {
			return noToken(err)
		}
		o := withoutToken(d.call(ctx, m, token), token)
		if !slices.Contains(weChatStale, o.Code) {
			return o
		}
		token, err := d.tools.Token(ctx, token, d.fetch)
		switch {
		case err != nil:
			return noToken(err)
		case !attempts.MayBegin(m): // fetching the token possibly took a long time
			return provider.Untried
		}
		return withoutToken(d.call(ctx, m, token), token)
	})
}

var (
	weChatStale = []string{"40001", "40014", "42001"} // the token is invalid or expired
	// weChatPermanent are codes about the message: its recipient, template, page or data.
	weChatPermanent = []string{"40003", "40037", "41028", "41029", "41030", "43101", "43108", "43116", "47003", "47501"}
	// weChatTrouble are codes about the account: its token, secret, address, permissions or quota.
	weChatTrouble = []string{
		"40001", "40014", "42001", "40013", "40125", "40164", "41001", "41002", "41004", "43107", "48001", "50002", weChatDay, weChatMinute,
	}
)

// weChatBusy are codes of an overloaded provider.
var weChatBusy = []string{"-1"}

const (
	weChatDay    = "45009" // the daily quota is used up
	weChatMinute = "45011" // the quota per minute is used up

	weChatZone = "Asia/Shanghai" // time zone of the daily quota
)

func (d *weChat) call(ctx context.Context, m provider.Message, token string) provider.Outcome {
	message := map[string]any{"touser": m.Recipient, "template_id": m.TemplateID, "data": m.Params}
	for name, value := range map[string]string{"page": m.Page, "miniprogram_state": d.config.MiniProgramState, "lang": d.config.Lang} {
		if value != "" {
			message[name] = value
		}
	}
	body, err := json.Marshal(message)
	if err != nil {
		return provider.Unwritable
	}
	status, answer, failure := provider.Post(ctx, d.client, d.config.BaseURL+"/cgi-bin/message/subscribe/send?access_token="+url.QueryEscape(token), nil, body)
	if failure != nil {
		return *failure
	}
	return d.judge(status, answer)
}

// judge returns the outcome of an answer. If a quota is used up, the outcome contains the pause.
func (d *weChat) judge(status int, answer []byte) provider.Outcome {
	o := d.answer.Outcome(status, answer)
	switch o.Code {
	case weChatDay:
		o.Pause.DayOf = weChatZone
	case weChatMinute:
		o.Pause.For = time.Minute
	}
	return o
}

// withoutToken hides an access token in the texts of an outcome.
func withoutToken(o provider.Outcome, token string) provider.Outcome {
	m := provider.NewMask([]string{token})
	o.Answer, o.Error = m.Replace(o.Answer), m.Replace(o.Error)
	return o
}

// tokenError is an error with the outcome of a failed call for a token.
type tokenError struct{ outcome provider.Outcome }

func (e tokenError) Error() string { return "no access token: " + e.outcome.Error }

// noToken returns the outcome of a message without a token. Such a message was certainly not sent. If the database caused the error, the outcome does
// not blame the provider.
func noToken(err error) provider.Outcome {
	var refused tokenError
	if !errors.As(err, &refused) {
		return provider.Untried
	}
	of := refused.outcome
	return provider.Outcome{Trouble: true, Code: of.Code, Error: refused.Error(), IsQuoted: of.IsQuoted, Answer: of.Answer, Pause: of.Pause}
}

// fetch fetches a token and returns its validity period.
func (d *weChat) fetch(ctx context.Context) (string, time.Duration, error) {
	body, err := json.Marshal(map[string]string{
		"grant_type": "client_credential", "appid": d.config.AppID, "secret": d.config.AppSecret,
	})
	if err != nil {
		return "", 0, fmt.Errorf("write request: %w", err)
	}
	status, answer, failure := provider.Post(ctx, d.client, d.config.BaseURL+"/cgi-bin/stable_token", nil, body)
	if failure != nil {
		if *failure == provider.Untried {
			return "", 0, fmt.Errorf("fetch token: %w", ctx.Err())
		}
		failure.Answer = "" // an incomplete answer can contain the token
		return "", 0, tokenError{*failure}
	}
	var token struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if status == http.StatusOK && json.Unmarshal(answer, &token) == nil && token.AccessToken != "" {
		return token.AccessToken, time.Duration(token.ExpiresIn) * time.Second, nil
	}
	o := d.judge(status, answer)
	if o.OK {
		o = provider.Unread("unsaid", "no field `access_token`")
	}
	return "", 0, tokenError{o}
}
