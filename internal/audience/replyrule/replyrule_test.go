package replyrule_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	path   = "/api/v1/reply-rules"
	person = "+8613712345678"
)

// add adds a rule for the company of the caller.
func add(b *apptest.Bundle, match, words, action string, more map[string]any, headers ...string) api.ReplyRule {
	b.T.Helper()
	body := map[string]any{"match": match, "words": strings.Split(words, "|"), "action": action}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.ReplyRule](b.T, b.Expect(200, "", "POST", path, body, headers...))
}

// receive hands over messages of a number as a sender app, waits until the rules were applied, and returns the id of the last message.
func receive(b *apptest.Bundle, app, from string, contents ...string) int64 {
	b.T.Helper()
	var messages []map[string]any
	for _, content := range contents {
		messages = append(messages, map[string]any{"from": from, "content": content})
	}
	return hand(b, app, messages...)
}

func hand(b *apptest.Bundle, app string, messages ...map[string]any) int64 {
	b.T.Helper()
	items := apptest.Decode[api.ReceivedBatch](b.T, b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": app, "messages": messages})).Items
	b.App.ReplyRules.Wait()
	return *items[len(items)-1].ReceivedID
}

func read(b *apptest.Bundle, id int64) api.Received {
	b.T.Helper()
	return apptest.Decode[api.Received](b.T, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/received/", id), nil))
}

// replies returns the texts of the waiting tasks to a number.
func replies(b *apptest.Bundle, number string) []string {
	b.T.Helper()
	var all []string
	for _, task := range apptest.Decode[api.TaskPage](b.T, b.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=100&phone_number="+strings.ReplaceAll(number, "+", "%2B"), nil)).Items {
		all = append(all, task.Content)
	}
	slices.Reverse(all)
	return all
}

// outcome returns the outcome of the rule that matched a message; empty: no rule matched.
func outcome(b *apptest.Bundle, id int64) string {
	b.T.Helper()
	return apptest.Scan[string](b, "SELECT coalesce((SELECT outcome FROM reply_actions WHERE received_id = "+fmt.Sprint(id)+"), '')")
}

func expectOutcome(b *apptest.Bundle, id int64, want string) {
	b.T.Helper()
	if got := outcome(b, id); got != want {
		b.T.Errorf("outcome %q, want %q", got, want)
	}
}

// R7: the sender that received the message sends the reply. The reply is sent only once, even if the server crashes or the message is handed over again.
func TestARuleRepliesOnceThroughTheSenderOfTheMessage(t *testing.T) {
	b := apptest.New(t)
	b.Claim("other", 1)
	rule := add(b, "prefix", "info", "reply", map[string]any{"content": "We are open"})
	message := map[string]any{"from": person, "content": "ＩＮＦＯ, please", "message_no": "1"}
	id := hand(b, "phone", message)
	hand(b, "phone", message)
	if got := read(b, id); got.Kind != api.ReceivedKeyword {
		t.Errorf("kind %s", got.Kind)
	}
	b.Exec("UPDATE reply_actions SET outcome = NULL, done_at = NULL, rule_id = NULL") // simulates a server that stopped after it stored the reply, and before it recorded the outcome
	if n, err := b.App.ReplyRules.Apply(t.Context()); n != 1 || err != nil {
		t.Errorf("applied %d, %v", n, err)
	}
	if got := replies(b, person); !slices.Equal(got, []string{"We are open"}) {
		t.Fatalf("replies %q", got)
	}
	if got := b.Claim("other", 10); len(got) != 0 {
		t.Errorf("another sender claimed %v", got)
	}
	got := b.Claim("phone", 10)
	if len(got) != 1 {
		t.Fatalf("the sender claimed %v", got)
	}
	if task := b.Task(got[0].TaskID); task.Priority != 3 || task.ExpiresAt == nil || task.MessageType != api.Notification {
		t.Errorf("%+v", task)
	}
	expectOutcome(b, id, "repeated")
	if n := b.Count("SELECT count(*) FROM reply_actions WHERE rule_id = $1", rule.RuleNo); n != 1 {
		t.Errorf("%d actions of the rule", n)
	}
}

// R7: an automatic reply is not held because the user is disabled whose message the person answers.
func TestARuleRepliesForADisabledUser(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": "hello"}, b.AddUser("gone", "submit", map[string]any{"company_no": "default"})...)
	sent := b.Claim("phone", 1)
	b.Report(sent[0].TaskID, "phone", 2, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/gone", map[string]any{"is_disabled": true})
	add(b, "prefix", "info", "reply", map[string]any{"content": "We are open"})
	hand(b, "phone", map[string]any{"from": person, "content": "info", "message_no": "1"})
	if got := b.Claim("phone", 10); len(got) != 1 || got[0].Content != "We are open" {
		t.Errorf("the sender got %v", got)
	}
}

// R7: the server that stored a message stops before it applies the rules. The sweep applies them.
func TestTheSweepAppliesRulesThatAStoppedServerDidNotApply(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "info", "reply", map[string]any{"content": "open"})
	b.App.ReplyRules.Close() // nothing runs in the background any more
	id := receive(b, "phone", person, "info")
	if got := replies(b, person); len(got) != 0 {
		t.Fatalf("replies %q", got)
	}
	for want := range 2 {
		if n, err := b.App.ReplyRules.Apply(t.Context()); n != 1-want || err != nil {
			t.Errorf("applied %d, %v", n, err)
		}
	}
	if got := replies(b, person); !slices.Equal(got, []string{"open"}) || outcome(b, id) != "done" {
		t.Errorf("replies %q", got)
	}
}

// R7: if storing the reply fails, the message keeps its kind, and is tried again.
func TestAFailedActionIsTriedAgainAsAWhole(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "info", "reply", map[string]any{"content": "open"})
	b.Exec("ALTER TABLE reply_actions ADD CONSTRAINT broken CHECK (outcome IS NULL)")
	id := receive(b, "phone", person, "info")
	if n := b.Count("SELECT count(*) FROM reply_actions WHERE tries = 1 AND due_at > now()"); n != 1 || read(b, id).Kind != api.ReceivedText || len(replies(b, person)) != 0 {
		t.Errorf("%d postponed messages, %+v, %q", n, read(b, id), replies(b, person))
	}
	b.Exec("ALTER TABLE reply_actions DROP CONSTRAINT broken; UPDATE reply_actions SET due_at = now()")
	if n, err := b.App.ReplyRules.Apply(t.Context()); n != 1 || err != nil || len(replies(b, person)) != 1 || read(b, id).Kind != api.ReceivedKeyword {
		t.Errorf("applied %d, %v, %q", n, err, replies(b, person))
	}
}

func TestTheFirstRuleThatMatchesActs(t *testing.T) {
	b := apptest.New(t)
	add(b, "contains", "price", "reply", map[string]any{"content": "contains", "sort": 5})
	add(b, "exact", "price", "reply", map[string]any{"content": "exact", "sort": -1})
	add(b, "exact", "price", "reply", map[string]any{"content": "too late", "sort": -1})
	add(b, "regexp", `^order\s*(\d+)$|#\d{3}`, "reply", map[string]any{"content": "regexp"})
	add(b, "prefix", "价格|Précio", "reply", map[string]any{"content": "prefix"})
	for i, c := range []struct{ text, want string }{
		{"Price!", "exact"}, {"the price", "contains"}, {"ORDER 17", "regexp"}, {"see #123.", "regexp"}, {"order x", ""}, {"价格？多少", "prefix"}, {"precio hoy", "prefix"}, {"no", ""},
	} {
		number := fmt.Sprint("+861371234000", i)
		receive(b, "phone", number, c.text)
		if got := strings.Join(replies(b, number), ","); got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
	if n := b.Count("SELECT count(*) FROM reply_actions WHERE outcome IS NULL"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

// R7: at most five automatic replies to a number within an hour; other numbers and companies are not affected.
func TestANumberGetsAtMostFiveRepliesWithinAnHour(t *testing.T) {
	b := apptest.New(t)
	add(b, "contains", "hello", "reply", map[string]any{"content": "hello"})
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "of-acme", "inbox_company_no": "acme"})
	add(b, "contains", "hello", "reply", map[string]any{"content": "acme", "company_no": "acme"})
	var last int64
	for i := range 7 {
		last = receive(b, "phone", person, fmt.Sprint("hello ", i))
	}
	if got := replies(b, person); len(got) != 5 {
		t.Errorf("%d replies", len(got))
	}
	expectOutcome(b, last, "too_many")
	receive(b, "phone", "+8613712345679", "hello")
	receive(b, "of-acme", person, "hello")
	if got := replies(b, "+8613712345679"); len(got) != 1 {
		t.Errorf("another number got %q", got)
	}
	if got := replies(b, person); len(got) != 6 || got[5] != "acme" {
		t.Errorf("replies %q", got)
	}
	b.Exec("UPDATE reply_actions SET created_at = created_at - interval '61 minutes'")
	expectOutcome(b, receive(b, "phone", person, "hello again"), "done")
}

// R7: two tenants whose rules answer each other stop after five messages each, as two servers of LKSMS do. Neither knows that the other number is one of LKSMS.
func TestAutomaticRepliesBetweenTwoCompaniesEnd(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "phone-1", "inbox_company_no": "acme"})
	apps, numbers := []string{"phone-0", "phone-1"}, []string{"+8613712345670", "+8613712345671"}
	for _, company := range []string{"default", "acme"} {
		add(b, "contains", "hello", "reply", map[string]any{"content": "hello", "company_no": company})
	}
	receive(b, apps[0], numbers[1], "hello 0")
	sent := 0
	for at := 0; sent < 100; at = 1 - at {
		tasks := b.Claim(apps[at], 10)
		if len(tasks) == 0 {
			break
		}
		for _, task := range tasks {
			sent++
			receive(b, apps[1-at], numbers[at], fmt.Sprint(task.Content, " ", sent))
		}
	}
	if sent != 10 {
		t.Errorf("%d messages were sent, want 10", sent)
	}
}

func TestNoReplyIsSentToProgramsAndOwnNumbers(t *testing.T) {
	b := apptest.New(t)
	add(b, "contains", "hello", "reply", map[string]any{"content": "hello"})
	hand(b, "phone", map[string]any{"from": "+8613900139000", "content": "no rule", "to": "138-0013 8000"})
	old := time.Now().Add(-25 * time.Hour)
	for name, c := range map[string]struct {
		message map[string]any
		outcome string
	}{
		"a short code":         {map[string]any{"from": "10690", "content": "hello"}, "no_phone_number"},
		"a name":               {map[string]any{"from": "MyBank", "content": "hello"}, "no_phone_number"},
		"a name with a plus":   {map[string]any{"from": "+22395", "content": "hello"}, "no_phone_number"},
		"a number of our own":  {map[string]any{"from": "+8613800138000", "content": "hello"}, "own_number"},
		"an automatic message": {map[string]any{"from": person, "content": "[Auto-Reply] hello, I am away"}, "auto_reply"},
		"an old message":       {map[string]any{"from": person, "content": "hello", "received_at": old}, "too_old"},
		"a person":             {map[string]any{"from": "+8613900139000", "content": "hello"}, "done"},
	} {
		id := hand(b, "phone", c.message)
		if got := outcome(b, id); got != c.outcome {
			t.Errorf("%s: %s, want %s", name, got, c.outcome)
		}
		if kind := read(b, id).Kind; (kind == api.ReceivedAutoReply) != (c.outcome == "auto_reply") {
			t.Errorf("%s: kind %s", name, kind)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d replies", n)
	}
}

// R7: a block of notifications forbids automatic replies, a block of marketing messages does not.
func TestABlockForbidsAutomaticReplies(t *testing.T) {
	b := apptest.New(t)
	add(b, "contains", "hello", "reply", map[string]any{"content": "hello"})
	for scope, want := range map[string]string{"marketing": "done", "notification": "blocked", "all": "blocked"} {
		b.Exec("DELETE FROM blocks")
		b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": person, "scope": scope, "company_no": "default"})
		id := receive(b, "phone", person, "hello "+scope)
		if got := outcome(b, id); got != want {
			t.Errorf("%s: %s, want %s", scope, got, want)
		}
		if read(b, id).Kind != api.ReceivedKeyword {
			t.Errorf("%s: kind %s", scope, read(b, id).Kind)
		}
	}
}

// R7: STOP is always an opt-out. A rule can add a reply, but not undo the block.
func TestOptOutWordsTakePrecedenceOverRules(t *testing.T) {
	b := apptest.New(t)
	blocked := func() bool {
		t.Helper()
		return b.Call("POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": person, "content": "x", "message_type": "marketing"}).Status == 409
	}
	back := add(b, "exact", "stop", "opt_in", nil)
	id := receive(b, "phone", person, "STOP")
	if got := read(b, id); got.Kind != api.ReceivedOptOut || !blocked() {
		t.Errorf("kind %s, blocked %v", got.Kind, blocked())
	}
	expectOutcome(b, id, "opted_out")
	b.Expect(200, "", "PATCH", fmt.Sprint(path, "/", back.RuleNo), map[string]any{"action": "reply", "content": "You get no more advertisements"})
	receive(b, "phone", person, "stop it", "Stop.")
	if got := replies(b, person); !slices.Equal(got, []string{"You get no more advertisements"}) || !blocked() {
		t.Errorf("replies %q, blocked %v", got, blocked())
	}
}

func TestARuleAddsAndEndsABlock(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "no ads", "opt_out", nil)
	add(b, "exact", "ads again", "opt_in", nil)
	waiting := b.SubmitBody(map[string]any{"phone_number": person, "content": "sale", "message_type": "marketing"}).TaskID
	id := receive(b, "phone", person, "No ads!")
	blocks := apptest.Decode[api.BlockPage](t, b.Expect(200, "", "GET", "/api/v1/blocks?company_no=default", nil)).Items
	if len(blocks) != 1 || *blocks[0].ReceivedID != id || blocks[0].CreatedBy != "system:reply_rules" || blocks[0].Scope != api.BlockMarketing {
		t.Errorf("%+v", blocks)
	}
	if task := b.Task(waiting); task.Status != api.TaskCancelled {
		t.Errorf("%+v", task)
	}
	receive(b, "phone", person, "ads again")
	if n := b.Count("SELECT count(*) FROM blocks"); n != 0 {
		t.Errorf("%d blocks", n)
	}
}

func TestAnOptInEndsABlockThatARuleAddedForAMessageWithAFutureTime(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "no ads", "opt_out", nil)
	hand(b, "phone", map[string]any{"from": person, "content": "No ads!", "received_at": time.Now().AddDate(9, 0, 0)})
	if n := b.Count("SELECT count(*) FROM blocks"); n != 1 {
		t.Fatalf("%d blocks", n)
	}
	hand(b, "phone", map[string]any{"from": person, "content": "START", "received_at": time.Now().Add(time.Second)})
	if n := b.Count("SELECT count(*) FROM blocks"); n != 0 {
		t.Errorf("%d blocks", n)
	}
}

// The messages are applied in different orders, also after all of them were stored. The latest request decides.
func TestTheLatestRequestDecidesForAnyOrderOfRulesAndMessages(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "bye", "opt_out", nil)
	add(b, "exact", "back", "opt_in", nil)
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	messages := func(texts []string, minutes []int) (all []map[string]any) {
		for i, text := range texts {
			m := map[string]any{"from": person, "content": text, "message_no": fmt.Sprint(800 + i)}
			if minutes != nil {
				m["received_at"] = noon.Add(time.Duration(minutes[i]) * time.Minute)
			}
			all = append(all, m)
		}
		return all
	}
	for _, c := range []struct {
		texts     []string
		minutes   []int // nil: the network times are unknown
		isBlocked bool
	}{
		{[]string{"bye", "START"}, nil, false},
		{[]string{"bye", "START"}, []int{1, 2}, false},
		{[]string{"START", "bye"}, []int{2, 1}, false},
		{[]string{"STOP", "back"}, nil, false},
		{[]string{"STOP", "back"}, []int{2, 1}, true},
		{[]string{"back", "STOP"}, nil, true},
		{[]string{"back", "STOP"}, []int{2, 1}, false},
		{[]string{"bye", "back"}, nil, false},
		{[]string{"bye", "back"}, []int{1, 2}, false},
		{[]string{"back", "bye"}, nil, true},
		{[]string{"back", "bye"}, []int{1, 2}, true},
		{[]string{"START", "bye", "back", "STOP"}, nil, true},
	} {
		for way, hand := range map[string]func(all []map[string]any){
			"in one post":   func(all []map[string]any) { hand(b, "phone", all...) },
			"in many posts": func(all []map[string]any) { handEach(b, all) },
			"backwards":     func(all []map[string]any) { applyBackwards(b, all, handEach) },
			"one, backwards": func(all []map[string]any) {
				applyBackwards(b, all, func(b *apptest.Bundle, all []map[string]any) { hand(b, "phone", all...) })
			},
		} {
			b.Exec("TRUNCATE blocks, received_messages, reply_actions CASCADE")
			hand(messages(c.texts, c.minutes))
			if n := b.Count("SELECT count(*) FROM reply_actions WHERE outcome IS NULL"); n != 0 {
				t.Fatalf("%d messages wait", n)
			}
			if got := b.Count("SELECT count(*) FROM blocks") == 1; got != c.isBlocked {
				t.Errorf("%q at %v, %s: blocked %v", c.texts, c.minutes, way, got)
			}
		}
	}
}

// handEach hands over each message in a request of its own.
func handEach(b *apptest.Bundle, all []map[string]any) {
	b.T.Helper()
	for _, m := range all {
		hand(b, "phone", m)
	}
}

// applyBackwards hands over messages, and then applies the rules to the newest message first.
func applyBackwards(b *apptest.Bundle, all []map[string]any, hand func(b *apptest.Bundle, all []map[string]any)) {
	b.T.Helper()
	b.Exec("ALTER TABLE reply_actions ALTER due_at SET DEFAULT now() + interval '1 day'")
	hand(b, all)
	b.Exec("ALTER TABLE reply_actions ALTER due_at SET DEFAULT now()")
	for range all {
		b.Exec("UPDATE reply_actions SET due_at = now() WHERE received_id = (SELECT max(received_id) FROM reply_actions WHERE outcome IS NULL)")
		applyAgain(b)
	}
}

// The text "yes" is an opt-in, unless a rule makes it an opt-out.
func TestARuleCanMakeAnOptInWordAnOptOut(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "yes", "opt_out", nil)
	receive(b, "phone", person, "yes")
	if n := b.Count("SELECT count(*) FROM blocks"); n != 1 {
		t.Errorf("%d blocks", n)
	}
}

func TestAnOptOutBeforeAnOptInIsNotConfirmed(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	add(b, "exact", "bye", "opt_out", nil)
	receive(b, "phone", person, "bye", "START")
	if got := replies(b, person); len(got) != 0 {
		t.Errorf("replies %q", got)
	}
}

func TestARuleTagsTheContactsOfANumber(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "join", "tag", map[string]any{"tag": "members"})
	add(b, "exact", "leave", "untag", map[string]any{"tag": "members"})
	members := func() string {
		t.Helper()
		var all []string
		for _, c := range apptest.Decode[api.ContactPage](t, b.Expect(200, "", "GET", "/api/v1/contacts?tag=members", nil)).Items {
			all = append(all, c.UserID)
		}
		return strings.Join(all, ",")
	}
	b.PutContacts(map[string]any{"user_id": "zhang", "phone": person})
	expectOutcome(b, receive(b, "phone", person, "JOIN"), "done")
	receive(b, "phone", "+8613712345679", "join")
	if got := members(); got != "8613712345679,zhang" {
		t.Errorf("members %s", got)
	}
	expectOutcome(b, receive(b, "phone", person, "leave"), "done")
	if got := members(); got != "8613712345679" {
		t.Errorf("members %s", got)
	}
	expectOutcome(b, receive(b, "phone", "10690", "join"), "no_phone_number")
	expectOutcome(b, receive(b, "phone", "+4930", "join"), "no_phone_number")
}

func TestARuleForwardsAndAcknowledges(t *testing.T) {
	b := apptest.New(t)
	add(b, "prefix", "help", "forward", map[string]any{"phone_numbers": []string{"138 0013 8001", "+8613800138002"}})
	add(b, "exact", "ok", "acknowledge", nil)
	id := receive(b, "phone", person, "Help me", "help "+strings.Repeat("x", 1000))
	for _, number := range []string{"+8613800138001", "+8613800138002"} {
		got := replies(b, number)
		if len(got) != 2 || got[0] != person+": Help me" || !strings.HasSuffix(got[1], "...") {
			t.Errorf("%s got %q", number, got)
		}
	}
	if read(b, id).ReadAt != nil {
		t.Error("a forwarded message counts as read")
	}
	expectOutcome(b, receive(b, "phone", "+8613800138001", "help"), "own_number")
	if got := read(b, receive(b, "phone", person, "OK")); got.ReadAt == nil || *got.ReadBy != "system:reply_rules" {
		t.Errorf("%+v", got)
	}
}

// R7: no reply goes to the number of a SIM, even if its sender has received no message on this number.
func TestNoReplyGoesToANumberOfASim(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "other", "name": "other"})
	b.Expect(200, "", "PUT", "/api/v1/admin/senders/other/sims", map[string]any{"sims": []map[string]any{{"slot": 2, "phone_number": "139 0013 0002"}}})
	add(b, "exact", "info", "reply", map[string]any{"content": "An answer"})
	expectOutcome(b, receive(b, "phone", "+8613900130002", "info"), "own_number")
	expectOutcome(b, receive(b, "phone", person, "info"), "done")
}

// R7: only forwarded messages are posted to a webhook that does not subscribe to received messages, and each is posted once.
func TestARuleForwardsToAWebhook(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	posts := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- string(body)
	}))
	t.Cleanup(receiver.Close)
	hook := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", "/api/v1/webhooks", map[string]any{
		"url": receiver.URL, "events": []string{"message.sent"}, "company_no": "default",
	}))
	add(b, "prefix", "help", "forward", map[string]any{"webhook_id": hook.WebhookID})
	id := receive(b, "phone", person, "nothing", "help me")
	deliver := func() {
		t.Helper()
		if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Exec("UPDATE reply_actions SET due_at = now()")
		if _, err := b.App.ReplyRules.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.App.Webhooks.Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	deliver()
	deliver()
	expectOutcome(b, id, "done")
	if len(posts) != 1 {
		t.Fatalf("%d posts", len(posts))
	}
	var posted struct {
		Type string
		Data struct {
			ReceivedID int64 `json:"received_id"`
			Content    string
		}
	}
	if err := json.Unmarshal([]byte(<-posts), &posted); err != nil || posted.Type != "message.received" || posted.Data.ReceivedID != id || posted.Data.Content != "help me" {
		t.Errorf("%+v, %v", posted, err)
	}
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/webhooks/", hook.WebhookID), nil)
	expectOutcome(b, receive(b, "phone", person, "help again"), "refused")
}

// R7: a template is the text of a reply, with its own signature.
func TestARuleRepliesWithATemplate(t *testing.T) {
	b := apptest.New(t)
	create := func(no, content string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": no, "template_name": "n", "template_content": content, "sign": "Shop"})
	}
	create("plain", "We are open")
	create("code", "Code {code}")
	rule := add(b, "exact", "info", "reply", map[string]any{"template_no": "plain"})
	a := b.Expect(422, "request.invalid", "POST", path, map[string]any{"match": "exact", "words": []string{"x"}, "action": "reply", "template_no": "code"})
	if a.Fields() != "template_no" || !strings.Contains(a.Raw, "code") {
		t.Errorf("%s", a.Raw)
	}
	b.Expect(422, "request.invalid", "POST", path, map[string]any{"match": "exact", "words": []string{"x"}, "action": "reply", "template_no": "none"})
	receive(b, "phone", person, "info")
	if got := b.Claim("phone", 1); len(got) != 1 || !strings.Contains(got[0].Content, "Shop") || !strings.Contains(got[0].Content, "We are open") {
		t.Errorf("%+v", got)
	}
	if got := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", `{"content":"Info."}`)); *got.Content != "We are open" || got.Rule.RuleNo != rule.RuleNo {
		t.Errorf("%+v", got)
	}
	b.Exec("UPDATE templates SET status = 'disabled' WHERE template_no = 'plain'")
	expectOutcome(b, receive(b, "phone", person, "info once more", "info"), "refused")
}

// R7: the reply to an answer belongs to the submitter of the answered task, so that this user sees what the person replies.
func TestAReplyBelongsToTheSubmitterOfTheAnsweredTask(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	add(b, "exact", "where", "reply", map[string]any{"content": "At the gate"}, acme...)
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": "Your parcel"}, acme...)
	task := b.Claim("phone", 1)[0].TaskID
	b.Report(task, "phone", 2, nil)
	receive(b, "phone", person, "Where?")
	thread := apptest.Decode[api.ConversationThread](t, b.Expect(200, "", "GET", "/api/v1/conversations/"+person, nil, acme...))
	if len(thread.Items) != 3 || thread.Items[0].Content != "At the gate" {
		t.Errorf("%+v", thread.Items)
	}
}

func TestWrongRulesAreRejectedByField(t *testing.T) {
	b := apptest.New(t)
	for name, c := range map[string]struct {
		body   map[string]any
		fields string
	}{
		"no words":              {map[string]any{"words": []string{}}, "words"},
		"a word without letter": {map[string]any{"words": []string{"a", "!!"}}, "words.1"},
		"a word too long":       {map[string]any{"words": []string{"a", strings.Repeat("长", 167)}}, "words.1"},
		"a broken expression":   {map[string]any{"match": "regexp", "words": []string{"ok", "(a"}}, "words.1"},
		"a huge expression":     {map[string]any{"match": "regexp", "words": []string{"((a{1,100}){1,100}){1,100}"}}, "words.0"},
		"a long expression":     {map[string]any{"match": "regexp", "words": []string{strings.Repeat("a", 201)}}, "words.0"},
		"many expressions":      {map[string]any{"match": "regexp", "words": strings.Split(strings.Repeat("a ", 10)+"a", " ")}, "words"},
		"a reply without text":  {map[string]any{"action": "reply"}, "content"},
		"a blank reply":         {map[string]any{"action": "reply", "content": " "}, "content"},
		"a long reply":          {map[string]any{"action": "reply", "content": strings.Repeat("x", 1000)}, "content"},
		"two texts":             {map[string]any{"action": "reply", "content": "x", "template_no": "y"}, "content"},
		"a tag without name":    {map[string]any{"action": "tag"}, "tag"},
		"a forward to nobody":   {map[string]any{"action": "forward"}, "phone_numbers"},
		"a wrong number":        {map[string]any{"action": "forward", "phone_numbers": []string{"13800138000", "12"}}, "phone_numbers.1"},
		"a number twice":        {map[string]any{"action": "forward", "phone_numbers": []string{"13800138000", "+8613800138000"}}, "phone_numbers.1"},
		"an unknown webhook":    {map[string]any{"action": "forward", "webhook_id": 99}, "webhook_id"},
		"a field of another":    {map[string]any{"action": "tag", "tag": "x", "content": "x"}, "content"},
		"a signature of a tag":  {map[string]any{"action": "tag", "tag": "x", "sign": "Shop"}, "sign"},
		"a long signature":      {map[string]any{"action": "forward", "phone_numbers": []string{"13800138000"}, "sign": strings.Repeat("x", 21)}, "sign"},
		"an unknown action":     {map[string]any{"action": "call"}, "action"},
	} {
		body := map[string]any{"match": "exact", "words": []string{"x"}, "action": "acknowledge"}
		for k, v := range c.body {
			body[k] = v
		}
		if a := b.Expect(422, "request.invalid", "POST", path, body); a.Fields() != c.fields {
			t.Errorf("%s: %s, want %s: %s", name, a.Fields(), c.fields, a.Raw)
		}
	}
	if a := b.Call("POST", path, map[string]any{"match": "exact", "words": []string{"😀"}, "action": "acknowledge"}); !strings.Contains(a.Raw, "must contain a letter or digit") {
		t.Errorf("a word of an emoji: %s", a.Raw)
	}
	a := b.Call("POST", path, map[string]any{"match": "regexp", "words": []string{"(a"}, "action": "acknowledge"}, "Accept-Language", "zh")
	if !strings.Contains(a.Raw, "missing closing )") || !strings.Contains(a.Raw, "正则表达式") {
		t.Errorf("%s", a.Raw)
	}
}

func TestRulesAreChangedAndListed(t *testing.T) {
	b := apptest.New(t)
	acme, reader := b.AddCompany("acme", 1), b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	rule := add(b, "exact", "info", "reply", map[string]any{"content": "open"}, acme...)
	add(b, "exact", "first", "acknowledge", map[string]any{"sort": -5}, acme...)
	own := add(b, "exact", "default", "acknowledge", nil)
	of := fmt.Sprint(path, "/", rule.RuleNo)
	patch := func(body string, headers ...string) api.ReplyRule {
		t.Helper()
		return apptest.Decode[api.ReplyRule](t, b.Expect(200, "", "PATCH", of, body, headers...))
	}
	if got := patch(`{"sign":"Shop"}`, acme...); *got.Sign != "Shop" {
		t.Errorf("%+v", got)
	}
	if got := patch(`{"action":"tag","tag":"vip"}`, acme...); got.Content != nil || got.Sign != nil || *got.Tag != "vip" || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	if got := patch(`{"action":"reply","content":"x","words":["hours"],"sort":7}`); got.Tag != nil || *got.Content != "x" || got.Words[0] != "hours" || got.Sort != 7 {
		t.Errorf("%+v", got)
	}
	b.Expect(422, "request.invalid", "PATCH", of, `{"content":null}`)
	b.Expect(422, "request.invalid", "PATCH", of, `{"tag":"vip"}`)
	b.Expect(409, "version.stale", "PATCH", of, `{"sort":1,"version":1}`)
	words := func(query string, headers ...string) string {
		t.Helper()
		var all []string
		for _, r := range apptest.Decode[api.ReplyRuleList](t, b.Expect(200, "", "GET", path+query, nil, headers...)).Items {
			all = append(all, r.CompanyNo+" "+strings.Join(r.Words, " "))
		}
		return strings.Join(all, ", ")
	}
	for query, want := range map[string]string{"": "default default", "?company_no=acme": "acme first, acme hours"} {
		if got := words(query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got := words("", reader...); got != "acme first, acme hours" {
		t.Errorf("the reader sees %s", got)
	}
	other := fmt.Sprint(path, "/", own.RuleNo)
	b.Expect(404, "reply_rule.not_found", "PATCH", other, `{"sort":1}`, acme...)
	b.Expect(404, "reply_rule.not_found", "DELETE", other, nil, acme...)
	b.Expect(403, "auth.other_company", "GET", path+"?company_no=default", nil, acme...)
	b.Expect(403, "auth.forbidden", "PATCH", of, `{"sort":1}`, reader...)
	b.Expect(404, "company.not_found", "GET", path+"?company_no=none", nil)
	for _, to := range []string{"", "/try"} {
		body := map[string]any{"company_no": "none", "content": "x"}
		if to == "" {
			body = map[string]any{"company_no": "none", "match": "exact", "words": []string{"x"}, "action": "acknowledge"}
		}
		b.Expect(404, "company.not_found", "POST", path+to, body)
	}
	b.Expect(200, "", "DELETE", of, nil, acme...)
	b.Expect(404, "reply_rule.not_found", "DELETE", of, nil)
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'reply_rule' AND entity_key = $1 AND company_no = 'acme' AND actor IS NOT NULL", fmt.Sprint(rule.RuleNo)); n != 5 {
		t.Errorf("%d changes are recorded, want 5", n)
	}
}

// R7: the console tries a text. Nothing is sent or stored.
func TestATextIsTriedWithoutEffects(t *testing.T) {
	b := apptest.New(t)
	add(b, "prefix", "info", "reply", map[string]any{"content": "open"})
	add(b, "exact", "stop", "opt_in", nil)
	add(b, "contains", "t", "acknowledge", map[string]any{"sort": 9})
	for content, want := range map[string]string{
		"INFO!": "keyword reply open ", "STOP": "opt_out opt_in  opted_out", "info: auto-reply": "auto_reply reply  auto_reply", "wait": "keyword acknowledge  ", "no": "text   ", "TD": "opt_out acknowledge  ",
	} {
		got := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": content}))
		var action, text, skipped string
		if got.Rule != nil {
			action = string(got.Rule.Action)
		}
		if got.Content != nil {
			text = *got.Content
		}
		if got.Skipped != nil {
			skipped = *got.Skipped
		}
		if got := fmt.Sprintf("%s %s %s %s", got.Kind, action, text, skipped); got != want {
			t.Errorf("%s: %q, want %q", content, got, want)
		}
	}
	if n := b.Count("SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM blocks) + (SELECT count(*) FROM reply_actions) + (SELECT count(*) FROM received_messages)"); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
}

func TestAnErasureRemovesAPersonFromRules(t *testing.T) {
	b := apptest.New(t)
	add(b, "prefix", "help", "forward", map[string]any{"phone_numbers": []string{person}})
	receive(b, "phone", "+8613800138001", "help")
	b.App.ReplyRules.Close()
	receive(b, "phone", person, "help")
	if _, err := b.App.ReplyRules.Erase(t.Context(), &erase.Person{CompanyID: 1, Recipients: []string{person, "+8613800138001"}}); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM reply_actions"); n != 0 {
		t.Errorf("%d actions remain", n)
	}
	if n := b.Count("SELECT count(*) FROM reply_rules WHERE phone_numbers = '{}'"); n != 1 {
		t.Error("the rule still has the number")
	}
}

// What a rule did is kept as long as the message.
func TestActionsAreDeletedWithTheirMessages(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "ok", "acknowledge", nil)
	id := receive(b, "phone", person, "ok")
	sweepAfter := func(days int) {
		t.Helper()
		b.Exec("UPDATE reply_actions SET created_at = now() - make_interval(days => $1), done_at = now() - make_interval(days => $1)", days)
		b.Exec("UPDATE received_messages SET created_at = now() - make_interval(days => $1)", days)
		for _, job := range append(b.App.ReplyRules.Sweeps(), b.App.Received.Sweeps()...) {
			if _, err := job.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweepAfter(179)
	if rule := read(b, id).Rule; rule == nil || rule.Outcome != api.RuleDone {
		t.Errorf("rule %+v", rule)
	}
	sweepAfter(181)
	if n := b.Count("SELECT count(*) FROM reply_actions"); n != 0 {
		t.Errorf("%d actions of deleted messages", n)
	}
}

// R3: a company confirms an opt-out once for each block, whether a usual word or a rule added it. The block stays, even if the confirmation is not possible.
func TestAnOptOutIsConfirmedOnce(t *testing.T) {
	b := apptest.New(t)
	set := func(text any) {
		t.Helper()
		b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": text}})
	}
	receive(b, "phone", person, "STOP")
	if got := replies(b, person); len(got) != 0 {
		t.Errorf("replies %q, although the company confirms nothing", got)
	}
	receive(b, "phone", person, "START")
	for _, bad := range []string{"", "  "} {
		if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": bad}}); a.Fields() != "recipient.opt_out_reply" {
			t.Errorf("%q: fields %s", bad, a.Fields())
		}
	}
	set("No more offers")
	first := receive(b, "phone", person, "STOP")
	receive(b, "phone", person, "Stop.", "退订")
	expectReplies := func(want ...string) {
		t.Helper()
		if got := replies(b, person); !slices.Equal(got, want) {
			t.Errorf("replies %q, want %q", got, want)
		}
	}
	expectReplies("No more offers")
	expectOutcome(b, first, "done")
	receive(b, "phone", person, "START")
	receive(b, "phone", person, "STOP")
	expectReplies("No more offers", "No more offers")

	receive(b, "phone", person, "START")
	add(b, "exact", "enough", "opt_out", nil)
	receive(b, "phone", person, "ENOUGH", "enough!")
	expectReplies("No more offers", "No more offers", "No more offers")
	tried := func(text string) api.ReplyTrial {
		t.Helper()
		return apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": text}))
	}
	for _, text := range []string{"STOP", "enough"} {
		if got := tried(text); got.Content == nil || *got.Content != "No more offers" {
			t.Errorf("%s would cause %+v", text, got)
		}
	}

	const other = "+8613712345679"
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": other, "scope": "all"})
	expectOutcome(b, receive(b, "phone", other, "STOP"), "blocked")
	for _, number := range []string{person, other} {
		if n := b.Count("SELECT count(*) FROM blocks WHERE received_id IS NOT NULL AND recipient = '" + number + "'"); n != 1 {
			t.Errorf("%d blocks for which %s asked", n, number)
		}
	}

	set(nil)
	receive(b, "phone", person, "START", "STOP")
	expectReplies("No more offers", "No more offers", "No more offers")
}

// R3: a program that opts out and in without end gets at most five confirmations in an hour.
func TestConfirmationsDoNotLoop(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	var last int64
	for range 7 {
		last = receive(b, "phone", person, "STOP")
		receive(b, "phone", person, "START")
	}
	if got := replies(b, person); len(got) != 5 {
		t.Errorf("%d confirmations", len(got))
	}
	expectOutcome(b, last, "too_many")
}

// A contact that a rule adds gets a user id that no contact has. Otherwise the phone number of the existing contact would change.
func TestARuleThatTagsChangesNoOtherContact(t *testing.T) {
	b := apptest.New(t)
	b.PutContacts(map[string]any{"user_id": strings.TrimPrefix(person, "+"), "name": "Zhang", "phone": "+8613799999999"})
	add(b, "exact", "join", "tag", map[string]any{"tag": "members"})
	expectOutcome(b, receive(b, "phone", person, "join"), "done")
	got := apptest.Scan[string](b, "SELECT string_agg(user_id || ' ' || phone, ', ' ORDER BY user_id) FROM contacts")
	if want := "8613712345678 +8613799999999, 8613712345678-2 " + person; got != want {
		t.Errorf("contacts %s, want %s", got, want)
	}
}

// A block is confirmed once, even if several users wrote to the person before.
func TestAnOptOutIsConfirmedOnceIfSeveralUsersWroteToThePerson(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	for _, user := range []string{"u1", "u2"} {
		b.Expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": user, "password": "password-of-" + user, "role": "submit", "company_no": "default"})
		b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": person, "content": "code", "message_type": "verification"},
			apptest.Basic(user, "password-of-"+user)...)
		for _, task := range b.Claim("phone", 10) {
			b.Report(task.TaskID, "phone", 2, nil)
		}
		receive(b, "phone", person, "STOP")
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE content = 'No more offers'"); n != 1 {
		t.Errorf("%d confirmations", n)
	}
}

// An erasure keeps the block of a person, and a block is confirmed once.
func TestAnOptOutIsNotConfirmedAgainAfterAnErasure(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	expectOutcome(b, receive(b, "phone", person, "STOP"), "done")
	b.Report(b.Claim("phone", 1)[0].TaskID, "phone", 2, nil)
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": person})
	apptest.Eventually(t, "the erasure has ended", func() bool {
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Count("SELECT count(*) FROM erasures WHERE finished_at IS NULL") == 0
	})
	expectOutcome(b, receive(b, "phone", person, "STOP."), "repeated")
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d confirmations", n)
	}
}

// A confirmation has the limits of a notification: a longer one would never be sent.
func TestATooLongOptOutReplyIsRejected(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"recipient": map[string]any{"opt_out_reply": strings.Repeat("x", 1001)}}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"sms": map[string]any{"max_content_notification": 1000}})
	if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", body); a.Fields() != "recipient.opt_out_reply" {
		t.Errorf("fields %s", a.Fields())
	}
	body["company_no"], body["name"] = "acme", "ACME"
	b.Expect(422, "request.invalid", "POST", "/api/v1/admin/companies", body)
}

// A rule forwards a message to its numbers even if its webhook is off, and caps do not hold forwarded messages back.
func TestAMessageIsForwardedToNumbersWhileTheWebhookIsOff(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"recipient": map[string]any{"caps_notification_per_minute": 1}})
	hook := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", "/api/v1/webhooks", map[string]any{"url": "https://example.com/hook", "events": []string{"message.received"}}))
	add(b, "prefix", "help", "forward", map[string]any{"phone_numbers": []string{"+8613900139000"}, "webhook_id": hook.WebhookID})
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/webhooks/", hook.WebhookID), map[string]any{"status": "off"})
	for i := range 3 {
		expectOutcome(b, receive(b, "phone", person, fmt.Sprint("help ", i)), "partly")
	}
	if got := replies(b, "+8613900139000"); len(got) != 3 {
		t.Errorf("forwarded %q", got)
	}
}

// Each post of an event has the same body, because the event contains the kind that the message had before the rules were applied.
func TestTheEventOfAMessageDoesNotChangeWhenARuleMatches(t *testing.T) {
	b := apptest.New(t)
	start := apptest.Decode[api.EventFeed](t, b.Expect(200, "", "GET", "/api/v1/events", nil)).NextCursor // from now on, events are recorded
	add(b, "prefix", "info", "acknowledge", nil)
	id := receive(b, "phone", person, "info")
	if got := read(b, id); got.Kind != api.ReceivedKeyword {
		t.Errorf("kind %s", got.Kind)
	}
	if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := b.Expect(200, "", "GET", "/api/v1/events?type=message.received&after="+start, nil).Raw
	if !strings.Contains(events, `"kind":"text"`) || strings.Contains(events, "keyword") {
		t.Errorf("events %s", events)
	}
}

func setCompany(b *apptest.Bundle, status string) {
	b.T.Helper()
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": status})
}

// applyAgain applies the rules to the messages that were postponed.
func applyAgain(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.ReplyRules.Apply(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// outcomes returns the number of rules of each outcome.
func outcomes(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT coalesce(string_agg(n, ', ' ORDER BY n), '')
		FROM (SELECT coalesce(outcome, 'waiting') || ' ' || count(*) AS n FROM reply_actions GROUP BY outcome) o`)
}

// The limits of an hour count messages by the time at which they arrived. So messages that arrived over a long time while their company was off do not exceed a
// limit when the company is on again. Messages that arrived together exceed it.
func TestMessagesThatWaitedForTheirCompanyAreCountedByTheTimeOfTheirArrival(t *testing.T) {
	for name, c := range map[string]struct {
		action  string
		rule    map[string]any
		number  int
		spread  string // time between two messages
		outcome string
	}{
		"replies":           {"reply", map[string]any{"content": "open"}, 8, "15 minutes", "done 8"},
		"replies at once":   {"reply", map[string]any{"content": "open"}, 8, "1 second", "done 5, too_many 3"},
		"forwards":          {"forward", map[string]any{"phone_numbers": []string{"+8613800138001"}}, 70, "2 minutes", "done 70"},
		"forwards, at once": {"forward", map[string]any{"phone_numbers": []string{"+8613800138001"}}, 70, "1 second", "done 60, too_many 10"},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			add(b, "contains", "info", c.action, c.rule)
			setCompany(b, "off")
			var texts []string
			for i := range c.number {
				texts = append(texts, fmt.Sprint("info ", i))
			}
			receive(b, "phone", person, texts...)
			b.Exec("UPDATE reply_actions SET created_at = now() - $1::interval * ($2 - received_id)", c.spread, c.number)
			for range 3 {
				applyAgain(b)
			}
			if got, want := outcomes(b), fmt.Sprint("waiting ", c.number); got != want {
				t.Fatalf("while the company is off: %s, want %s", got, want)
			}
			setCompany(b, "on")
			applyAgain(b) // without a wait after the switch
			if got := outcomes(b); got != c.outcome {
				t.Errorf("%s, want %s", got, c.outcome)
			}
		})
	}
}

// Replies and forwards of rules wait while their company is off, like all its messages. Blocks and tags do not wait.
func TestRulesSendNothingWhileTheirCompanyIsOff(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	add(b, "exact", "info", "reply", map[string]any{"content": "open"})
	add(b, "exact", "help", "forward", map[string]any{"phone_numbers": []string{"+8613800138001"}})
	add(b, "exact", "enough", "opt_out", nil)
	add(b, "exact", "ok", "acknowledge", nil)
	const other = "+8613712345679"
	setCompany(b, "off")
	reply := receive(b, "phone", person, "info")
	forward := receive(b, "phone", person, "help")
	stop := receive(b, "phone", person, "STOP")
	enough := receive(b, "phone", other, "enough")
	expectOutcome(b, receive(b, "phone", person, "ok"), "done")
	waiting := []int64{reply, forward, stop, enough}
	for _, id := range waiting {
		expectOutcome(b, id, "")
	}
	b.Exec("UPDATE reply_actions SET created_at = now() - interval '25 hours' WHERE received_id = $1", forward) // the wait has no end
	applyAgain(b)
	if n := b.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages while the company is off", n)
	}
	if n := b.Count("SELECT count(*) FROM blocks"); n != 2 {
		t.Errorf("%d blocks, want 2", n)
	}
	receive(b, "phone", other, "START") // ends the block before it is confirmed
	setCompany(b, "on")
	applyAgain(b)
	for _, id := range waiting {
		expectOutcome(b, id, "done")
	}
	if got := replies(b, person); !slices.Equal(got, []string{"open", "No more offers"}) {
		t.Errorf("replies %q", got)
	}
	if got := replies(b, "+8613800138001"); !slices.Equal(got, []string{person + ": help"}) {
		t.Errorf("forwarded %q", got)
	}
	if n := b.Count("SELECT count(*) FROM blocks"); n != 1 {
		t.Errorf("%d blocks, want 1", n)
	}
}

// R7: a trial says that the country of an ordinary number requires a signature, which a rule does not have, and that the company is off.
func TestATrialReportsSwitchesAndMissingSignatures(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_reply": "No more offers"}})
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "signed", "template_name": "n", "template_content": "signed", "sign": "Shop"})
	add(b, "exact", "info", "reply", map[string]any{"content": "open"})
	add(b, "exact", "shop", "reply", map[string]any{"template_no": "signed"})
	add(b, "exact", "help", "forward", map[string]any{"phone_numbers": []string{"+8613800138001"}})
	add(b, "exact", "enough", "opt_out", nil)
	add(b, "exact", "ok", "acknowledge", nil)
	expect := func(want map[string]string) {
		t.Helper()
		for text, want := range want {
			got := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": text}))
			var content, skipped string
			if got.Content != nil {
				content = *got.Content
			}
			if got.Skipped != nil {
				skipped = *got.Skipped
			}
			if is := content + "/" + skipped; is != want {
				t.Errorf("%s: %s, want %s", text, is, want)
			}
		}
	}
	expect(map[string]string{"info": "open/", "shop": "signed/", "help": "/", "enough": "No more offers/", "STOP": "No more offers/"})
	setCompany(b, "off")
	expect(map[string]string{
		"info": "open/company_off", "shop": "signed/company_off", "help": "/company_off", "enough": "No more offers/company_off", "STOP": "No more offers/company_off", "ok": "/",
	})
	setCompany(b, "on")
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	expect(map[string]string{"info": "/refused", "shop": "signed/", "help": "/refused", "enough": "/", "STOP": "/", "ok": "/"})
}

// A forward has the signature of the task that the message answers. Where a signature is required, other messages are not forwarded, and a trial says so.
func TestAForwardHasTheSignatureOfTheAnsweredTask(t *testing.T) {
	b := apptest.New(t)
	add(b, "prefix", "help", "forward", map[string]any{"phone_numbers": []string{"+8613800138001"}})
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	tried := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": "help"}))
	if tried.Skipped == nil || *tried.Skipped != "refused" {
		t.Errorf("trial %+v", tried)
	}
	expectOutcome(b, receive(b, "phone", person, "help me"), "refused")
	b.SubmitBody(map[string]any{"phone_number": person, "content": "Your parcel", "sign": "Shop"})
	b.Report(b.Claim("phone", 1)[0].TaskID, "phone", 2, nil)
	expectOutcome(b, receive(b, "phone", person, "help: where is it?"), "done")
	if got := b.Claim("phone", 1); len(got) != 1 || got[0].Content != "【Shop】"+person+": help: where is it?" {
		t.Errorf("forwarded %+v", got)
	}
}

// Replies and forwards have the signature of their rule, also if the message answers a task with another signature. A trial uses the signature, too.
func TestRepliesAndForwardsHaveTheSignatureOfTheirRule(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_no": "hours", "template_name": "n", "template_content": "9 to 18", "sign": "Shop"})
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	b.SubmitBody(map[string]any{"phone_number": "+8613712345600", "content": "Your parcel", "sign": "Parcels"})
	b.Report(b.Claim("phone", 1)[0].TaskID, "phone", 2, nil)
	const receiver = "+8613800138001"
	rules := []struct {
		word, action string
		more         map[string]any
		to, want     string
	}{
		{"help", "forward", map[string]any{"phone_numbers": []string{receiver}}, receiver, "【Rules】%s: help"},
		{"info", "reply", map[string]any{"content": "open"}, "", "【Rules】open"},
		{"hours", "reply", map[string]any{"template_no": "hours"}, "", "【Rules】9 to 18"},
	}
	for _, rule := range rules {
		rule.more["sign"] = "Rules"
		if got := add(b, "exact", rule.word, rule.action, rule.more); optional.Value(got.Sign) != "Rules" {
			t.Errorf("%s: the rule has the signature %v", rule.word, got.Sign)
		}
		tried := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": rule.word}))
		if tried.Skipped != nil {
			t.Errorf("%s: the trial is skipped: %s", rule.word, *tried.Skipped)
		}
		for _, from := range []string{"+8613712345600", "+8613712345601"} { // only the first number answers a task
			expectOutcome(b, receive(b, "phone", from, rule.word), "done")
			want := rule.want
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, from)
			}
			if got := b.Claim("phone", 2); len(got) != 1 || got[0].Content != want || got[0].PhoneNumber != cmp.Or(rule.to, from) {
				t.Errorf("%s from %s: claimed %+v, want %q", rule.word, from, got, want)
			}
		}
	}
}

// A forward that some receivers did not get names them, and counts towards the limit of an hour. An erasure removes their numbers.
func TestAForwardNamesTheReceiversThatDidNotGetIt(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	const refused = "+8613800138002"
	hook := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", "/api/v1/webhooks", map[string]any{"url": "https://example.com/hook", "events": []string{"message.received"}}))
	add(b, "prefix", "help", "forward", map[string]any{"phone_numbers": []string{"+8613800138001", refused}, "webhook_id": hook.WebhookID})
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/webhooks/", hook.WebhookID), map[string]any{"status": "off"})
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": refused, "scope": "all"})
	id := receive(b, "phone", person, "help 0")
	expectRefused := func(want ...string) {
		t.Helper()
		thread := apptest.Decode[api.ConversationThread](t, b.Expect(200, "", "GET", "/api/v1/conversations/"+person, nil)).Items
		for _, rule := range []*api.ReceivedRule{read(b, id).Rule, thread[len(thread)-1].Rule} {
			if rule == nil || rule.Outcome != api.RulePartly || rule.Refused == nil || !slices.Equal(*rule.Refused, want) {
				t.Errorf("rule %+v, want refused %v", rule, want)
			}
		}
	}
	expectRefused("webhook", refused)
	var texts []string
	for i := range 60 {
		texts = append(texts, fmt.Sprint("help ", i+1))
	}
	receive(b, "phone", person, texts...)
	if got := outcomes(b); got != "partly 60, too_many 1" {
		t.Errorf("outcomes %s", got)
	}
	if _, err := b.App.ReplyRules.Erase(t.Context(), &erase.Person{CompanyID: apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = 'default'"), Recipients: []string{refused}}); err != nil {
		t.Fatal(err)
	}
	expectRefused("webhook")
}

// A trial of a forward reports that some of its numbers would not get it.
func TestATrialReportsThatSomeNumbersWouldNotGetAForward(t *testing.T) {
	b := apptest.New(t)
	add(b, "exact", "help", "forward", map[string]any{"phone_numbers": []string{"+8613800138001", "+14155550100"}})
	b.AddCountry("CN", "86", map[string]any{"signature_required": true})
	tried := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": "help"}))
	if tried.Skipped == nil || *tried.Skipped != "partly" {
		t.Errorf("trial %+v", tried)
	}
	expectOutcome(b, receive(b, "phone", person, "help"), "partly")
}

// A trial of a forward considers blocked numbers, and webhooks that do not exist any more or are off.
func TestATrialReportsReceiversThatWouldNotGetAForward(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	const blocked, open = "+8613800138001", "+8613800138002"
	var hooks []int64
	for _, url := range []string{"https://example.com/on", "https://example.com/off", "https://example.com/deleted"} {
		hooks = append(hooks, apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", "/api/v1/webhooks", map[string]any{"url": url, "events": []string{"message.sent"}})).WebhookID)
	}
	on, off, deleted := hooks[0], hooks[1], hooks[2]
	rules := []struct {
		word, want string
		receivers  map[string]any
	}{
		{"one", "refused", map[string]any{"phone_numbers": []string{blocked}}},
		{"two", "partly", map[string]any{"phone_numbers": []string{blocked, open}}},
		{"three", "refused", map[string]any{"webhook_id": deleted}},
		{"four", "refused", map[string]any{"webhook_id": off}},
		{"five", "partly", map[string]any{"webhook_id": deleted, "phone_numbers": []string{open}}},
		{"six", "partly", map[string]any{"webhook_id": on, "phone_numbers": []string{blocked}}},
		{"seven", "", map[string]any{"webhook_id": on, "phone_numbers": []string{open}}},
	}
	for _, rule := range rules {
		add(b, "exact", rule.word, "forward", rule.receivers)
	}
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/webhooks/", off), map[string]any{"status": "off"})
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/webhooks/", deleted), nil)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": blocked, "scope": "all"})
	for _, rule := range rules {
		tried := apptest.Decode[api.ReplyTrial](t, b.Expect(200, "", "POST", path+"/try", map[string]any{"content": rule.word}))
		if got := optional.Value(tried.Skipped); got != rule.want {
			t.Errorf("the trial of %s says %q, want %q", rule.word, got, rule.want)
		}
	}
}

// What a rule did is shown at the message, in the answer for one message and in lists. A metric counts the outcomes.
func TestAMessageShowsWhatItsRuleDid(t *testing.T) {
	b := apptest.New(t)
	rule := add(b, "contains", "hello", "reply", map[string]any{"content": "hello"})
	ids := []int64{receive(b, "phone", person, "hello"), receive(b, "phone", "10690", "hello"), receive(b, "phone", person, "no rule")}
	outcomes := []api.RuleOutcome{api.RuleDone, api.RuleNoNumber, ""}
	page := apptest.Decode[api.ReceivedPage](t, b.Expect(200, "", "GET", "/api/v1/received", nil)).Items
	slices.Reverse(page)
	for i, id := range ids {
		for _, got := range []api.Received{read(b, id), page[i]} {
			switch {
			case (got.Rule == nil) != (outcomes[i] == ""):
				t.Errorf("message %d: rule %+v", i, got.Rule)
			case got.Rule != nil && (*got.Rule.RuleNo != rule.RuleNo || got.Rule.Action != api.ReplyActionReply || got.Rule.Outcome != outcomes[i] || got.Rule.DoneAt.IsZero()):
				t.Errorf("message %d: rule %+v", i, got.Rule)
			}
		}
	}
	metrics := b.Call("GET", "/metrics", nil).Raw
	for _, line := range []string{`lksms_rules_applied_total{outcome="done"} 1`, `lksms_rules_applied_total{outcome="no_phone_number"} 1`, `lksms_rules_applied_total{outcome="partly"} 0`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
	thread := apptest.Decode[api.ConversationThread](t, b.Expect(200, "", "GET", "/api/v1/conversations/"+person, nil)).Items
	i := slices.IndexFunc(thread, func(item api.ConversationItem) bool { return item.ReceivedID != nil && *item.ReceivedID == ids[0] })
	if i < 0 || thread[i].Rule == nil || *thread[i].Rule.RuleNo != rule.RuleNo || thread[i].Rule.Outcome != api.RuleDone {
		t.Errorf("conversation %+v", thread)
	}
}

// The messages of a company do not delay the replies of other companies.
func TestCompaniesWithReceivedMessagesTakeTurns(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	w.App.ReplyRules.Close() // nothing runs in the background any more
	for _, no := range []string{"acme", "beta"} {
		w.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+no+"_sender", map[string]any{"inbox_company_no": no})
	}
	var all []map[string]any
	for i := range 60 {
		all = append(all, map[string]any{"from": person, "content": "rule of acme", "message_no": fmt.Sprint(i)})
	}
	hand(w.Bundle, "acme_sender", all...)
	last := hand(w.Bundle, "beta_sender", map[string]any{"from": apptest.BetaPhone, "content": "rule of beta"})
	if n := w.Count("SELECT count(*) FROM reply_actions a WHERE a.outcome IS NULL"); n != 61 {
		t.Fatalf("%d messages wait", n)
	}
	if n, err := w.App.ReplyRules.Apply(t.Context()); n != 61 || err != nil {
		t.Errorf("applied %d, %v", n, err)
	}
	if n := w.Count("SELECT count(*) FROM reply_actions a WHERE a.done_at < (SELECT b.done_at FROM reply_actions b WHERE b.received_id = $1)", last); n > 20 {
		t.Errorf("rules were applied to %d messages of the other company first", n)
	}
}
