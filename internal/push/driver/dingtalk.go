package driver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"lksms/internal/fault"
)

// dingTalkTitle is how many characters a title may have (S1.10).
const dingTalkTitle = 20

// dingTalk sends messages of one group to all their recipients in one call (S1.10).
type dingTalk struct {
	config struct {
		BaseURL        string  `json:"baseUrl"` // the whole address
		AgentID        string  `json:"agentId"`
		CorpID         string  `json:"corpId"`
		Answer         *reply  `json:"answer"` // nil: errcode 0 or a msgid is success
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	answer reply
	client *http.Client
	limit  time.Duration
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
	d.answer = errCodes(dingTalkPermanent, dingTalkTrouble, dingTalkBusy)
	if d.config.Answer != nil {
		d.answer = *d.config.Answer
		d.answer.busy = dingTalkBusy
		if !d.answer.isNamed() {
			return nil, fault.InvalidField("config.answer.success", fault.Required, nil)
		}
	}
	if err := d.answer.check(); err != nil {
		return nil, err
	}
	var err error
	d.limit, err = timeout(d.config.TimeoutSeconds)
	d.client = t.Outbound.Client(d.limit)
	return d, err
}

func (d *dingTalk) Target() string { return target(d.config.BaseURL) }

func (d *dingTalk) Send(ctx context.Context, messages []Message, tell func(int, Outcome)) {
	attempts := begin(ctx, d.limit)
	groups := map[int64][]person{}
	var order []int64
	for i, m := range messages {
		key := m.Group
		if key == 0 {
			key = -int64(i) - 1 // alone
		}
		people, known := groups[key]
		if !known {
			order = append(order, key)
		}
		at := slices.IndexFunc(people, func(p person) bool { return p.name == m.Recipient })
		if at < 0 {
			at, people = len(people), append(people, person{name: m.Recipient})
		}
		people[at].places = append(people[at].places, i)
		groups[key] = people
	}
	for _, key := range order {
		people := groups[key]
		d.deliver(ctx, attempts, messages[people[0].places[0]], people, tell)
	}
}

// person is one user of a call, and the places of the messages for them.
type person struct {
	name   string
	places []int
}

// deliver sends a message to people in one call. A refused call reached nobody, and may have been refused for one name only: it is
// repeated for each half of them, until the names that are refused stand alone.
func (d *dingTalk) deliver(ctx context.Context, attempts *attempts, m Message, people []person, tell func(int, Outcome)) {
	if !attempts.more() {
		return
	}
	o := d.call(ctx, m, people)
	if len(people) > 1 && mayBeAboutOneName(o) {
		half := len(people) / 2
		d.deliver(ctx, attempts, m, people[:half], tell)
		d.deliver(ctx, attempts, m, people[half:], tell)
		return
	}
	if !attempts.took(o) {
		return
	}
	for _, p := range people {
		for _, i := range p.places {
			tell(i, o)
		}
	}
}

// mayBeAboutOneName reports whether a call may have been refused for one of its users: the provider looked at it, and does not say
// that it is broken or too busy.
func mayBeAboutOneName(o Outcome) bool {
	return !o.OK && !o.Unknown && !o.Trouble && !o.Outage && !o.Unasked && o != untried
}

func (d *dingTalk) call(ctx context.Context, m Message, people []person) Outcome {
	if n := utf8.RuneCountInString(m.Title); n > dingTalkTitle {
		d.log.WarnContext(ctx, "title cut for DingTalk", "task_id", m.TaskID, "characters", n, "most", dingTalkTitle)
		m.Title = string([]rune(m.Title)[:dingTalkTitle])
	}
	params := m.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	users := make([]string, len(people))
	for i, p := range people {
		users[i] = p.name
	}
	body, err := json.Marshal(map[string]any{
		"agentId": d.config.AgentID, "corpId": d.config.CorpID, "userIds": users, "templateId": m.TemplateID,
		"title": m.Title, "content": m.Content, "template_params": params,
	})
	if err != nil {
		return unwritable
	}
	status, answer, unanswered := post(ctx, d.client, d.config.BaseURL, nil, body)
	if unanswered != nil {
		return *unanswered
	}
	return d.answer.outcome(status, answer)
}

var (
	// dingTalkPermanent are codes that say that this message cannot be sent: its users, departments or template are not there.
	dingTalkPermanent = []string{"33012", "40035", "60003", "60121", "400002"}
	// dingTalkTrouble are codes about the caller: its token, its agent, its address, its permission.
	dingTalkTrouble = []string{"88", "40001", "40014", "40056", "41001", "42001", "60011", "60020"}
	// dingTalkBusy are codes that say that there is too much to do, for anybody.
	dingTalkBusy = []string{"-1", "90002", "90003", "90004", "90005", "90006", "90018"}
)
