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
	answer reply
	client *http.Client
	limit  time.Duration
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
	d.answer = errCodes(weChatPermanent, weChatTrouble, weChatBusy)
	var err error
	d.limit, err = timeout(d.config.TimeoutSeconds)
	d.client = t.Outbound.Client(d.limit)
	return d, err
}

func (d *weChat) Target() string { return target(d.config.BaseURL) }

func (d *weChat) Send(ctx context.Context, messages []Message, tell func(int, Outcome)) {
	attempts := begin(ctx, 2*d.limit) // a stale token costs a second call
	token, err := d.token(ctx, "", d.fetch)
	attempts.each(messages, weChatAtOnce, tell, func(m Message) Outcome {
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
	weChatStale = []string{"40001", "40014", "42001"} // the token is not, or no longer, good
	// weChatPermanent are codes about this message: who receives it, its template, its page, its data.
	weChatPermanent = []string{"40003", "40037", "41028", "41029", "41030", "43101", "43108", "43116", "47003", "47501"}
	// weChatTrouble are codes about the account: its token, its secret, its address, its permissions, its quota.
	weChatTrouble = []string{
		"40001", "40014", "42001", "40013", "40125", "40164", "41001", "41002", "41004", "43107", "48001", "50002", weChatDay, weChatMinute,
	}
)

// weChatBusy are codes that say that there is too much to do, for anybody.
var weChatBusy = []string{"-1"}

const (
	weChatDay    = "45009" // the calls of the day are used up
	weChatMinute = "45011" // those of the minute

	weChatZone = "Asia/Shanghai" // in which the quota's day begins
)

func (d *weChat) call(ctx context.Context, m Message, token string) Outcome {
	message := map[string]any{"touser": m.Recipient, "template_id": m.TemplateID, "data": m.Params}
	for name, value := range map[string]string{"page": m.Page, "miniprogram_state": d.config.MiniProgramState, "lang": d.config.Lang} {
		if value != "" {
			message[name] = value
		}
	}
	body, err := json.Marshal(message)
	if err != nil {
		return unwritable
	}
	status, answer, unanswered := post(ctx, d.client, d.config.BaseURL+"/cgi-bin/message/subscribe/send?access_token="+url.QueryEscape(token), nil, body)
	if unanswered != nil {
		return *unanswered
	}
	return d.judge(status, answer)
}

// judge is the outcome of an answer, with the rest that a used up quota asks for.
func (d *weChat) judge(status int, answer []byte) Outcome {
	o := d.answer.outcome(status, answer)
	switch o.Code {
	case weChatDay:
		o.Rest.DayOf = weChatZone
	case weChatMinute:
		o.Rest.For = time.Minute
	}
	return o
}

// errToken is why there is no token, as an outcome tells it.
type errToken struct{ Outcome }

func (e errToken) Error() string { return "no access token: " + e.Outcome.Error }

// noToken is the outcome of a message for which there is no token: it was not sent, whatever became of the call for the token.
// Where the database could not be asked, the provider is not to blame.
func noToken(err error) Outcome {
	var refused errToken
	if !errors.As(err, &refused) {
		return untried
	}
	return Outcome{Trouble: true, Code: refused.Code, Error: refused.Error(), Rest: refused.Rest}
}

// fetch asks for a token.
func (d *weChat) fetch(ctx context.Context) (string, time.Duration, error) {
	body, err := json.Marshal(map[string]string{
		"grant_type": "client_credential", "appid": d.config.AppID, "secret": d.config.AppSecret,
	})
	if err != nil {
		return "", 0, fmt.Errorf("write request: %w", err)
	}
	status, answer, unanswered := post(ctx, d.client, d.config.BaseURL+"/cgi-bin/stable_token", nil, body)
	if unanswered != nil {
		if *unanswered == untried {
			return "", 0, fmt.Errorf("fetch token: %w", ctx.Err())
		}
		return "", 0, errToken{*unanswered}
	}
	var said struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	if status == http.StatusOK && json.Unmarshal(answer, &said) == nil && said.AccessToken != "" {
		return said.AccessToken, time.Duration(said.ExpiresIn) * time.Second, nil
	}
	o := d.judge(status, answer)
	if o.OK {
		o = unsaid
	}
	return "", 0, errToken{o}
}
