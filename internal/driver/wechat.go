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
)

// weChat sends subscribe messages of a mini program (S2.3).
type weChat struct {
	config struct {
		BaseURL          string  `json:"baseUrl"` // without a path; WeChat's own if empty
		AppID            string  `json:"appId"`
		AppSecret        string  `json:"appSecret"`
		MiniProgramState string  `json:"miniprogramState"`
		Lang             string  `json:"lang"`
		TimeoutSeconds   float64 `json:"timeoutSeconds"`
	}
	client *http.Client
	token  func(ctx context.Context, stale string, fetch func(ctx context.Context) (string, time.Duration, error)) (string, error)
}

// weChatAtOnce is how many calls are under way at once.
const weChatAtOnce = 8

func newWeChat(config []byte, t Tools) (Driver, error) {
	d := &weChat{token: t.Token}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	if err := required(given{"appId", d.config.AppID}, given{"appSecret", d.config.AppSecret}); err != nil {
		return nil, err
	}
	if d.config.BaseURL == "" {
		d.config.BaseURL = "https://api.weixin.qq.com"
	}
	d.config.BaseURL = strings.TrimSuffix(d.config.BaseURL, "/")
	if err := address("baseUrl", d.config.BaseURL); err != nil {
		return nil, err
	}
	limit, err := timeout(d.config.TimeoutSeconds)
	d.client = t.Outbound.Client(limit)
	return d, err
}

func (d *weChat) Send(ctx context.Context, messages []Message) []Outcome {
	token, err := d.token(ctx, "", d.fetch)
	return each(ctx, messages, weChatAtOnce, func(ctx context.Context, m Message) Outcome {
		if err != nil {
			return noToken(err)
		}
		o := d.call(ctx, m, token)
		if !slices.Contains(weChatStale, o.Code) {
			return o
		}
		token, err := d.token(ctx, token, d.fetch)
		if err != nil {
			return noToken(err)
		}
		return d.call(ctx, m, token)
	})
}

var (
	weChatStale     = []string{"40001", "40014", "42001"} // the token is not, or no longer, good
	weChatExhausted = []string{"45009", "45011"}          // called too often, for the day or for now
	weChatPermanent = []string{
		"40003", "40037", "41028", "41029", "41030", "43101", "43107", "43108", "43116", "47003", "47501", "50002", "48001",
	}
)

// weChatQuotaWait is how long a message waits when the day's calls are used up.
const weChatQuotaWait = time.Hour

func (d *weChat) call(ctx context.Context, m Message, token string) Outcome {
	message := map[string]any{"touser": m.Recipient, "template_id": m.TemplateID, "data": m.Params}
	for name, value := range map[string]string{"page": m.Page, "miniprogram_state": d.config.MiniProgramState, "lang": d.config.Lang} {
		if value != "" {
			message[name] = value
		}
	}
	var said struct {
		ErrCode int64  `json:"errcode"`
		ErrMsg  string `json:"errmsg"`
		MsgID   any    `json:"msgid"`
	}
	body, err := json.Marshal(message)
	if err != nil {
		return unwritable
	}
	if o := post(ctx, d.client, d.config.BaseURL+"/cgi-bin/message/subscribe/send?access_token="+url.QueryEscape(token), nil, body, &said); o != nil {
		return *o
	}
	if said.ErrCode == 0 {
		return Outcome{OK: true, ProviderNo: text(said.MsgID)}
	}
	o := Outcome{Code: fmt.Sprint(said.ErrCode), Error: said.ErrMsg}
	o.Permanent = slices.Contains(weChatPermanent, o.Code)
	if slices.Contains(weChatExhausted, o.Code) {
		o.RetryAfter = weChatQuotaWait
	}
	return o
}

// errToken is why there is no token, as an outcome tells it.
type errToken struct{ Outcome }

func (e errToken) Error() string { return "no access token: " + e.Outcome.Error }

func noToken(err error) Outcome {
	var refused errToken
	if errors.As(err, &refused) {
		return Outcome{Code: refused.Code, Error: refused.Error()} // the message itself was not sent
	}
	return failed(err)
}

// fetch asks for a token.
func (d *weChat) fetch(ctx context.Context) (string, time.Duration, error) {
	var said struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
		ErrCode     int64  `json:"errcode"`
		ErrMsg      string `json:"errmsg"`
	}
	body, err := json.Marshal(map[string]string{
		"grant_type": "client_credential", "appid": d.config.AppID, "secret": d.config.AppSecret,
	})
	if err != nil {
		return "", 0, fmt.Errorf("write request: %w", err)
	}
	if o := post(ctx, d.client, d.config.BaseURL+"/cgi-bin/stable_token", nil, body, &said); o != nil {
		return "", 0, errToken{*o}
	}
	if said.ErrCode != 0 || said.AccessToken == "" {
		return "", 0, errToken{Outcome{Code: fmt.Sprint(said.ErrCode), Error: said.ErrMsg}}
	}
	return said.AccessToken, time.Duration(said.ExpiresIn) * time.Second, nil
}
