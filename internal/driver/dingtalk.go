package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"unicode/utf8"
)

// dingTalkTitle is how many characters a title may have (S1.10).
const dingTalkTitle = 20

// dingTalk sends messages of one group to all their recipients in one call (S1.10).
type dingTalk struct {
	config struct {
		BaseURL        string  `json:"baseUrl"` // the whole address
		AgentID        string  `json:"agentId"`
		CorpID         string  `json:"corpId"`
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	client *http.Client
	log    *slog.Logger
}

func newDingTalk(config []byte, t Tools) (Driver, error) {
	d := &dingTalk{log: t.Log}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	if err := required(given{"baseUrl", d.config.BaseURL}, given{"agentId", d.config.AgentID}, given{"corpId", d.config.CorpID}); err != nil {
		return nil, err
	}
	if err := address("baseUrl", d.config.BaseURL); err != nil {
		return nil, err
	}
	limit, err := timeout(d.config.TimeoutSeconds)
	d.client = t.Outbound.Client(limit)
	return d, err
}

func (d *dingTalk) Send(ctx context.Context, messages []Message) []Outcome {
	outcomes := make([]Outcome, len(messages))
	groups := map[int64][]int{}
	var order []int64
	for i, m := range messages {
		key := m.Group
		if key == 0 {
			key = -int64(i) - 1 // alone
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	for _, key := range order {
		members := groups[key]
		var users []string
		for _, i := range members {
			if !slices.Contains(users, messages[i].Recipient) {
				users = append(users, messages[i].Recipient)
			}
		}
		outcome := d.call(ctx, messages[members[0]], users)
		for _, i := range members {
			outcomes[i] = outcome
		}
	}
	return outcomes
}

func (d *dingTalk) call(ctx context.Context, m Message, users []string) Outcome {
	if n := utf8.RuneCountInString(m.Title); n > dingTalkTitle {
		d.log.WarnContext(ctx, "title cut for DingTalk", "task_id", m.TaskID, "characters", n, "most", dingTalkTitle)
		m.Title = string([]rune(m.Title)[:dingTalkTitle])
	}
	params := m.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	body, err := json.Marshal(map[string]any{
		"agentId": d.config.AgentID, "corpId": d.config.CorpID, "userIds": users, "templateId": m.TemplateID,
		"title": m.Title, "content": m.Content, "template_params": params,
	})
	if err != nil {
		return unwritable
	}
	var said struct {
		ErrCode int64  `json:"errcode"`
		ErrMsg  string `json:"errmsg"`
		MsgID   any    `json:"msgid"`
	}
	if o := post(ctx, d.client, d.config.BaseURL, nil, body, &said); o != nil {
		return *o
	}
	if said.ErrCode != 0 {
		return Outcome{Code: fmt.Sprint(said.ErrCode), Error: said.ErrMsg, Permanent: slices.Contains(dingTalkPermanent, said.ErrCode)}
	}
	return Outcome{OK: true, ProviderNo: text(said.MsgID)}
}

// dingTalkPermanent are codes that say that the request is wrong: users or a template that are not there, no permission.
var dingTalkPermanent = []int64{33012, 40035, 40056, 60003, 60011, 60121, 400002}
