package driver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
)

// dingTalkTitle is the maximum length of a title in characters (S1.10).
const dingTalkTitle = 20

// dingTalk sends the messages of one group to all their recipients in one call (S1.10).
type dingTalk struct {
	config struct {
		BaseURL        string          `json:"baseUrl"` // complete URL
		AgentID        string          `json:"agentId"`
		CorpID         string          `json:"corpId"`
		Answer         *provider.Reply `json:"answer"` // nil: errcode 0 or a msgid means success
		TimeoutSeconds float64         `json:"timeoutSeconds"`
	}
	answer provider.Reply
	client *http.Client
	limit  time.Duration
	tools  provider.Tools
}

func newDingTalk(config []byte, t provider.Tools) (Driver, error) {
	d := &dingTalk{tools: t}
	if err := read(config, &d.config); err != nil {
		return nil, err
	}
	if err := required(field{"baseUrl", d.config.BaseURL}, field{"agentId", d.config.AgentID}, field{"corpId", d.config.CorpID}); err != nil {
		return nil, err
	}
	if err := address("baseUrl", d.config.BaseURL); err != nil {
		return nil, err
	}
	d.answer = provider.ErrCodes(dingTalkPermanent, dingTalkTrouble, dingTalkBusy)
	if d.config.Answer != nil {
		d.answer = *d.config.Answer
		d.answer.Busy = dingTalkBusy
	}
	if err := d.answer.Check(); err != nil {
		return nil, err
	}
	if !d.answer.SaysSuccess() {
		return nil, fault.InvalidField("config.answer.success", fault.Required, nil)
	}
	var err error
	d.limit, err = timeout(d.config.TimeoutSeconds)
	d.client = t.Client(d.limit)
	return d, err
}

func (d *dingTalk) review(hasReceipts bool) error { return d.answer.Review(hasReceipts) } //nolint:wrapcheck // the error is a fault

func (d *dingTalk) Target() string { return target(d.config.BaseURL) }

func (d *dingTalk) Send(ctx context.Context, messages []provider.Message, report func(int, provider.Outcome)) {
	attempts := provider.NewAttempts(ctx, d.limit, d.tools)
	groups := map[int64][]person{}
	var order []int64
	for i, m := range messages {
		key := m.Group
		if key == 0 {
			key = -int64(i) - 1 // a message without a group is sent alone
		}
		people, known := groups[key]
		if !known {
			order = append(order, key)
		}
		at := slices.IndexFunc(people, func(p person) bool { return p.name == m.Recipient })
		if at < 0 {
			at, people = len(people), append(people, person{name: m.Recipient})
		}
		people[at].indexes = append(people[at].indexes, i)
		groups[key] = people
	}
	for _, key := range order {
		people := groups[key]
		d.deliver(attempts, messages, people, report)
	}
}

// person is one user of a call, with the indexes of the user's messages.
type person struct {
	name    string
	indexes []int
}

// deliver sends a message to people in one call. If one name is wrong, the provider refuses the call, and nobody gets the message. deliver then repeats the
// call for each half of the people, until each wrong name is alone in its call.
func (d *dingTalk) deliver(attempts *provider.Attempts, messages []provider.Message, people []person, report func(int, provider.Outcome)) {
	if people = allowedPeople(attempts, messages, people); len(people) == 0 || !attempts.CanStart() {
		return
	}
	m := messages[people[0].indexes[0]]
	o := attempts.Begin(m, func(ctx context.Context) provider.Outcome { return d.call(ctx, m, people) })
	if len(people) > 1 && isRetriedInHalves(o) {
		half := len(people) / 2
		d.deliver(attempts, messages, people[:half], report)
		d.deliver(attempts, messages, people[half:], report)
		return
	}
	if !attempts.Record(o) {
		return
	}
	for _, p := range people {
		for _, i := range p.indexes {
			report(i, o)
			o.SameCall = true
		}
	}
}

// allowedPeople returns the people whose messages are still allowed to be sent.
func allowedPeople(attempts *provider.Attempts, messages []provider.Message, people []person) (left []person) {
	for _, p := range people {
		p.indexes = slices.DeleteFunc(slices.Clone(p.indexes), func(i int) bool { return !attempts.MayBegin(messages[i]) })
		if len(p.indexes) > 0 {
			left = append(left, p)
		}
	}
	return left
}

// isRetriedInHalves reports whether one wrong user can be the reason for a refusal: the provider has read the call, and is neither broken nor overloaded.
func isRetriedInHalves(o provider.Outcome) bool {
	return !o.OK && !o.Unknown && !o.Trouble && !o.Outage && !o.Unasked && o != provider.Untried
}

func (d *dingTalk) call(ctx context.Context, m provider.Message, people []person) provider.Outcome {
	if n := utf8.RuneCountInString(m.Title); n > dingTalkTitle {
		d.tools.Log.WarnContext(ctx, "title truncated for DingTalk", "task_id", m.TaskID, "characters", n, "most", dingTalkTitle)
		m.Title = segment.Beginning(m.Title, dingTalkTitle)
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
		return provider.Unwritable
	}
	status, answer, failure := provider.Post(ctx, d.client, d.config.BaseURL, nil, body)
	if failure != nil {
		return *failure
	}
	return d.answer.Outcome(status, answer)
}

var (
	// dingTalkPermanent are codes of messages that cannot be sent: the users, departments or template do not exist.
	dingTalkPermanent = []string{"33012", "40035", "60003", "60121", "400002"}
	// dingTalkTrouble are codes about the sender: its token, agent, address or permission.
	dingTalkTrouble = []string{"88", "40001", "40014", "40056", "41001", "42001", "60011", "60020"}
	// dingTalkBusy are codes of an overloaded provider.
	dingTalkBusy = []string{"-1", "90002", "90003", "90004", "90005", "90006", "90018"}
)
