package received_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/received"
	"lksms/internal/testkit/apptest"
)

// advertise submits a marketing message to the person, and returns the task.
func advertise(b *apptest.Bundle) string {
	b.T.Helper()
	return b.SubmitBody(map[string]any{"phone_number": person, "content": "sale", "message_type": "marketing"}).TaskID
}

// isBlocked reports whether the person gets no marketing messages.
func isBlocked(b *apptest.Bundle) bool {
	b.T.Helper()
	a := b.Call("POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": person, "content": "sale", "message_type": "marketing"})
	return a.Status == 409
}

func TestAStopMessageCancelsWaitingMarketingMessagesBeforeTheResponse(t *testing.T) {
	b := apptest.New(t)
	advertise(b)
	b.Claim("app", 1)
	waiting := advertise(b)
	code := b.SubmitBody(map[string]any{"phone_number": person, "content": "1234", "message_type": "verification"}).TaskID
	got := one(b, "app", message("Stop. Thank you", map[string]any{"message_no": "1"}))
	if got.Kind != api.ReceivedOptOut {
		t.Errorf("kind %s", got.Kind)
	}
	if task := b.Task(waiting); task.Status != api.TaskCancelled {
		t.Errorf("%+v", task)
	}
	if ids := b.ClaimIDs(10); !slices.Equal(ids, []string{code}) {
		t.Errorf("claimed %v", ids)
	}
	if !isBlocked(b) {
		t.Error("the person is not blocked")
	}
	blocks := apptest.Decode[api.BlockPage](t, b.Expect(200, "", "GET", "/api/v1/blocks?company_no=default", nil)).Items
	if len(blocks) != 1 || *blocks[0].ReceivedID != got.ReceivedID || blocks[0].CreatedBy != "system:opt_out" {
		t.Errorf("%+v", blocks)
	}
}

// R3: if a company has its own opt-out words, the usual words are ordinary texts for this company.
func TestCompaniesHaveWordsOfTheirOwn(t *testing.T) {
	b := apptest.New(t)
	rules := func(words map[string]any) {
		t.Helper()
		b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": words})
	}
	rules(map[string]any{"opt_out_words": []string{"Genug jetzt", "0"}, "opt_in_words": []string{"wieder"}})
	for _, sent := range []struct {
		text string
		kind api.ReceivedKind
	}{{"STOP", api.ReceivedText}, {"genug, JETZT!", api.ReceivedOptOut}, {"START", api.ReceivedText}, {"Wieder.", api.ReceivedOptIn}, {"0", api.ReceivedOptOut}} {
		if got := one(b, "app", message(sent.text, nil)); got.Kind != sent.kind {
			t.Errorf("%s: %s", sent.text, got.Kind)
		}
	}
	rules(map[string]any{"opt_out_words": nil, "opt_in_words": nil})
	if got := one(b, "app", message("START", nil)); got.Kind != api.ReceivedOptIn {
		t.Errorf("the usual words do not count again: %s", got.Kind)
	}
	for _, bad := range []any{[]string{}, []string{"!!"}, []string{""}} {
		b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"opt_out_words": bad}})
	}
}

// The clock of a phone or provider can be wrong by years.
func TestAnOptInEndsTheBlockOfAnOptOutWithAFutureTime(t *testing.T) {
	b := apptest.New(t)
	one(b, "app", message("STOP", map[string]any{"received_at": "2999-01-01T00:00:00Z"}))
	if !isBlocked(b) {
		t.Error("the person is not blocked")
	}
	one(b, "app", message("START", map[string]any{"received_at": time.Now().Add(time.Second)}))
	if isBlocked(b) {
		t.Error("the person is still blocked")
	}
}

// Many providers omit the + of international numbers.
func TestAStopMessageFromANumberWithoutPlusBlocksThePerson(t *testing.T) {
	b := apptest.New(t)
	ad := map[string]any{"phone_number": "+447911123456", "content": "sale", "message_type": "marketing"}
	b.SubmitBody(ad)
	got := one(b, "app", message("STOP", map[string]any{"from": "447911123456"}))
	if got.PhoneNumber != "+447911123456" || got.Kind != api.ReceivedOptOut {
		t.Errorf("%+v", got)
	}
	b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", ad)
	for _, from := range []string{"10690000123456", "95588", "6581234567", "51987654"} { // service numbers, and numbers that can be national ones
		if got := one(b, "app", message("Hello", map[string]any{"from": from})); got.PhoneNumber != from {
			t.Errorf("%s is stored as %s", from, got.PhoneNumber)
		}
	}
}

func TestATextThatOnlyContainsStopBlocksNobody(t *testing.T) {
	b := apptest.New(t)
	for _, text := range []string{"STOP 12345", "don't stop", "yes"} {
		if got := one(b, "app", message(text, nil)); got.Kind != api.ReceivedText {
			t.Errorf("%s: %s", text, got.Kind)
		}
	}
	if n := b.Count("SELECT count(*) FROM blocks"); n != 0 {
		t.Errorf("%d blocks", n)
	}
}

func TestTheLatestRequestOfAPersonDecides(t *testing.T) {
	b := apptest.New(t)
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	at := func(text string, minutes int) map[string]any {
		return message(text, map[string]any{"received_at": noon.Add(time.Duration(minutes) * time.Minute)})
	}
	for _, step := range []struct {
		name      string
		messages  []map[string]any
		isBlocked bool
	}{
		{"stop", []map[string]any{at("STOP", 1)}, true},
		{"start", []map[string]any{at("START", 2)}, false},
		{"a repeat of the first stop", []map[string]any{at("STOP", 1)}, false},
		{"stop again", []map[string]any{at("STOP", 5)}, true},
		{"a late start from before", []map[string]any{at("START", 4)}, true},
		{"a repeat of the first start", []map[string]any{at("START", 2)}, true},
		{"both in one request, the later one first", []map[string]any{at("START", 8), at("STOP", 7)}, false},
		{"both in one request", []map[string]any{at("STOP", 9), at("yes", 10)}, false},
		{"stop once more", []map[string]any{at("STOP", 20)}, true},
		{"a late stop from before", []map[string]any{at("STOP", 12)}, true},
		{"a late start from between", []map[string]any{at("START", 15)}, true},
	} {
		post(b, "app", step.messages...)
		if got := isBlocked(b); got != step.isBlocked {
			t.Errorf("after %s: blocked %v", step.name, got)
		}
	}
}

func TestTheNewestMessageOfAConversationDecidesWhetherAPersonIsBlocked(t *testing.T) {
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	numbered := func(text, no string) map[string]any {
		return message(text, map[string]any{"message_no": no, "received_at": nil})
	}
	timed := func(text string, minutes int) map[string]any {
		return message(text, map[string]any{"received_at": noon.Add(time.Duration(minutes) * time.Minute)})
	}
	ofAnother := message("STOP", map[string]any{"from": "+8613900139001", "received_at": nil})
	b := apptest.New(t)
	for name, messages := range map[string][]map[string]any{
		"stop with the higher number":         {numbered("STOP", "302"), numbered("START", "301")},
		"start with the higher number":        {numbered("START", "402"), numbered("STOP", "401")},
		"a message without a time between":    {timed("START", 2), ofAnother, timed("STOP", 1)},
		"a message without a time at the end": {numbered("STOP", "501"), timed("START", 3)},
	} {
		b.Exec("TRUNCATE blocks, received_messages CASCADE")
		post(b, "app", messages...)
		newest := apptest.Scan[string](b, "SELECT content FROM received_messages WHERE phone_number = $1 ORDER BY id DESC LIMIT 1", person)
		if got := isBlocked(b); got != (newest == "STOP") {
			t.Errorf("%s: the newest message is %s, and the person is blocked: %v", name, newest, got)
		}
	}
}

func TestAPersonCannotRemoveABlockThatAUserAdded(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": person, "scope": "marketing", "company_no": "default", "reason": "wished"})
	post(b, "app", message("STOP", nil))
	post(b, "app", message("START", nil))
	if !isBlocked(b) {
		t.Error("the person removed the block")
	}
}

func TestARepeatedStopMessageEnforcesABlockThatAKilledServerDidNotEnforce(t *testing.T) {
	b := apptest.New(t)
	stop := message("STOP", map[string]any{"message_no": "1"})
	post(b, "app", stop)
	b.Exec("DELETE FROM blocks")
	id := advertise(b)
	b.Exec(`INSERT INTO blocks (company_id, recipient, recipient_hash, scope, created_by, received_id, asked_at)
		SELECT r.company_id, $1, sha256(convert_to($1, 'UTF8')), 'marketing', 'system:opt_out', r.id + 1, now() FROM received_messages r`, person)
	post(b, "app", stop)
	if task := b.Task(id); task.Status != api.TaskCancelled {
		t.Errorf("%+v", task)
	}
}

func TestAnOptOutOutlivesATemporaryBlockByAUser(t *testing.T) {
	b := apptest.New(t)
	post(b, "app", message("STOP", nil))
	b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{
		"phone_number": person, "scope": "marketing", "company_no": "default", "expires_at": time.Now().Add(time.Hour),
	})
	b.Exec("UPDATE blocks SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL")
	if !isBlocked(b) {
		t.Error("the block of the person ended")
	}
	post(b, "app", message("START", nil))
	if isBlocked(b) {
		t.Error("the person could not end its block")
	}
}

// A network can put a + before a short code. Requests do not accept such a text as a phone number, so nobody could delete its block.
func TestAStopMessageFromAShortCodeWithAPlusBlocksNothing(t *testing.T) {
	b := apptest.New(t)
	for _, from := range []string{"+22395", "+86106912345678", "+4930"} {
		got := one(b, "app", message("STOP", map[string]any{"from": from}))
		if got.PhoneNumber != from || got.Kind != api.ReceivedText {
			t.Errorf("%s: %+v", from, got)
		}
	}
	if n := b.Count("SELECT count(*) FROM blocks"); n != 0 {
		t.Errorf("%d blocks", n)
	}
}

// requests returns one message for each text, with consecutive numbers. The entries of minutes are their network times; -1: unknown.
func requests(texts []string, minutes ...int) []map[string]any {
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	var all []map[string]any
	for i, text := range texts {
		m := message(text, map[string]any{"message_no": strconv.Itoa(700 + i)})
		if minutes[i] >= 0 {
			m["received_at"] = noon.Add(time.Duration(minutes[i]) * time.Minute)
		}
		all = append(all, m)
	}
	return all
}

// A phone posts messages that it missed after later ones.
func TestALateRequestDoesNotReplaceANewerOne(t *testing.T) {
	b := apptest.New(t)
	for _, c := range []struct {
		texts     []string
		minutes   []int
		isBlocked bool
		kinds     string // of the messages, in their order
	}{
		{[]string{"STOP", "START", "STOP."}, []int{0, 10, 5}, false, "opt_out,opt_in,opt_out"},
		{[]string{"START", "STOP"}, []int{10, 5}, false, "text,opt_out"},
		{[]string{"STOP", "START"}, []int{20, 10}, true, "opt_out,text"},
		{[]string{"STOP", "START"}, []int{-1, -1}, false, "opt_out,opt_in"},
		{[]string{"START", "STOP"}, []int{-1, -1}, true, "text,opt_out"},
		{[]string{"STOP", "START"}, []int{-1, 58}, false, "opt_out,opt_in"}, // the network time is before the time at which STOP was stored
		{[]string{"START", "STOP"}, []int{-1, 58}, true, "text,opt_out"},
		{[]string{"START", "STOP", "START."}, []int{5, 5, 5}, false, "text,opt_out,opt_in"},
	} {
		b.Exec("TRUNCATE blocks, received_messages CASCADE")
		for _, m := range requests(c.texts, c.minutes...) {
			post(b, "app", m)
		}
		kinds := apptest.Scan[string](b, "SELECT string_agg(kind, ',' ORDER BY id) FROM received_messages")
		if got := isBlocked(b); got != c.isBlocked || kinds != c.kinds {
			t.Errorf("%q at %v: blocked %v, kinds %s", c.texts, c.minutes, got, kinds)
		}
	}
}

// A user deletes the block for which a person asked. Only a request that is later than this request blocks the person again.
func TestOnlyALaterRequestBlocksAfterAUserDeletedTheBlock(t *testing.T) {
	b := apptest.New(t)
	all := requests([]string{"STOP", "STOP.", "STOP!"}, 10, 5, 20)
	post(b, "app", all[0])
	b.Expect(200, "", "DELETE", "/api/v1/blocks/"+person+"?company_no=default", nil)
	for i, want := range []bool{false, true} {
		post(b, "app", all[1+i])
		if got := isBlocked(b); got != want {
			t.Errorf("message %d: blocked %v", 1+i, got)
		}
	}
}

func TestTheLatestOfTwoConcurrentRequestsDecides(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "first"})
	b.AddSender(map[string]any{"sender_no": "second"})
	noon := time.Now().Truncate(time.Second).Add(-time.Hour)
	for round := range 20 {
		later := []string{"START", "STOP"}[round%2]
		var calls sync.WaitGroup
		for sender, m := range map[string]received.Message{
			"first":  {From: person, Content: []string{"STOP", "START"}[round%2], ReceivedAt: new(noon.Add(time.Duration(2*round) * time.Second))},
			"second": {From: person, Content: later, ReceivedAt: new(noon.Add(time.Duration(2*round+1) * time.Second))},
		} {
			calls.Go(func() {
				if _, err := b.App.Received.Take(context.Background(), sender, []received.Message{m}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if got := isBlocked(b); got != (later == "STOP") {
			t.Fatalf("round %d: the later message is %s, and the person is blocked: %v", round, later, got)
		}
	}
}

func TestAnErasureDeletesARequestForMessages(t *testing.T) {
	b := apptest.New(t)
	post(b, "app", message("STOP", nil))
	post(b, "app", message("START", nil))
	if n := b.Count("SELECT count(*) FROM block_requests WHERE NOT is_opt_out"); n != 1 {
		t.Fatalf("%d requests", n)
	}
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": person})
	apptest.Eventually(t, "the erasure has ended", func() bool {
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Count("SELECT count(*) FROM erasures WHERE finished_at IS NULL") == 0
	})
	if n := b.Count("SELECT count(*) FROM block_requests"); n != 0 {
		t.Errorf("%d requests", n)
	}
}
