package queue_test

import (
	"encoding/json"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// claimEvent is the event of a claim in a timeline.
type claimEvent struct{ Event, Content, Sign string }

// claimOf returns the claim in the timeline of a task.
func claimOf(b *apptest.Bundle, id string) (found claimEvent) {
	b.T.Helper()
	var body struct{ Data []claimEvent }
	if err := json.Unmarshal([]byte(b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil).Raw), &body); err != nil {
		b.T.Fatal(err)
	}
	for _, e := range body.Data {
		if e.Event == "claimed" {
			found = e
		}
	}
	return found
}

// A provider that adds the signature receives the text without the signature. A provider that forbids signatures receives the text without a signature. The
// timeline contains the text and signature that the sender received. The balance is charged for the sent segments.
func TestSignModeOfTheSenderDecidesTheSentText(t *testing.T) {
	b := apptest.New(t)
	for no, more := range map[string]map[string]any{
		"front": {}, "adds": {"sign_mode": "by_provider"}, "bare": {"sign_mode": "none"},
		"own": {"sign": "平台"}, "own-adds": {"sign": "平台", "sign_mode": "by_provider"},
		"size": {"sign": "平台", "sign_mode": "by_provider", "segment_size": 3}, "bare-size": {"sign_mode": "none", "segment_size": 3},
	} {
		more["sender_no"], more["balance"] = no, 100
		b.AddSender(more)
	}
	long, ascii := strings.Repeat("长", 68), strings.Repeat("a", 160)
	for name, c := range map[string]struct {
		sender, content, sign string
		handed, apart         string // apart: the signature that the provider adds
		cost                  int64
	}{
		"before the text":                       {"front", long, "公司", "【公司】" + long, "", 2},
		"by the provider":                       {"adds", long, "公司", long, "公司", 2},
		"by the provider, none":                 {"adds", long, "", long, "", 1},
		"forbidden":                             {"bare", long, "公司", long, "", 1},
		"forbidden, of GSM 03.38":               {"bare", ascii, "公司", ascii, "", 1},
		"forbidden, of GSM 03.38, in two":       {"bare", strings.Repeat("a", 159) + "€", "公司", strings.Repeat("a", 159) + "€", "", 2},
		"forbidden, without":                    {"bare", ascii, "", ascii, "", 1},
		"forbidden, in the text already":        {"bare", "【公司】x", "公司", "x", "", 1},
		"forbidden, brackets that are no sign":  {"bare", "【通知】x", "", "【通知】x", "", 1},
		"of the sender":                         {"own", long, "", "【平台】" + long, "", 2},
		"of the sender, in the text already":    {"own", "【平台】" + strings.Repeat("长", 66), "", "【平台】" + strings.Repeat("长", 66), "", 1},
		"of the sender's provider":              {"own-adds", long, "", long, "平台", 2},
		"of the sender's provider, in the text": {"own-adds", "【平台】x", "", "x", "平台", 1},
		"of the message at such a sender":       {"own-adds", "x", "公司", "x", "公司", 1},
		"with a size":                           {"size", "12", "", "12", "平台", 2},
		"with a size, in the text already":      {"size", "【平台】12", "", "12", "平台", 2},
		"forbidden, with a size":                {"bare-size", "123", "公司", "123", "", 1},
	} {
		body := map[string]any{"phone_number": apptest.Phone, "content": c.content}
		if c.sign != "" {
			body["sign"] = c.sign
		}
		before := *b.GetSender(c.sender).Balance
		id := b.SubmitBody(body).TaskID
		taken := b.Take(c.sender, 1)
		if len(taken) != 1 {
			t.Fatalf("%s: claimed %v", name, taken)
		}
		if got := taken[0]; got.Content != c.handed || optional.Value(got.Sign) != c.apart {
			t.Errorf("%s: the sender got %q, and %q to add", name, got.Content, optional.Value(got.Sign))
		}
		if got := before - *b.GetSender(c.sender).Balance; got != c.cost {
			t.Errorf("%s: cost %d segments, want %d", name, got, c.cost)
		}
		want := claimEvent{"claimed", c.handed, c.apart}
		if got := claimOf(b, id); got != want {
			t.Errorf("%s: while it is held, the timeline says %+v", name, got)
		}
		if n := b.Count("SELECT count(*) FROM send_logs WHERE task_id = $1 AND content = $2", id, c.handed); n != 1 {
			t.Errorf("%s: send_logs has another text", name)
		}
		b.Report(id, c.sender, 2, nil)
		if got := claimOf(b, id); got != want {
			t.Errorf("%s: after the report, the timeline says %+v", name, got)
		}
		if n := b.Count("SELECT count(*) FROM send_logs WHERE task_id = $1 AND content = $2", id, c.handed); n != 1 {
			t.Errorf("%s: send_logs has another text after the report", name)
		}
	}
}

// A change of the sign mode does not change the stored text of earlier attempts. A later attempt stores its own text.
func TestChangeOfSignModeKeepsTheTextOfEarlierAttempts(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "sign": "平台", "sign_mode": "by_provider"})
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x"}).TaskID
	b.Take("app", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "in_text"})
	if got := claimOf(b, id); got.Content != "x" || got.Sign != "平台" {
		t.Errorf("after a change the timeline says %+v", got)
	}
	b.ExpireLeases()
	b.Recover()
	if got := claimOf(b, id); got.Content != "x" || got.Sign != "平台" {
		t.Errorf("after the lease expired, the timeline contains %+v", got)
	}
	b.Exec("UPDATE queue SET due_at = now()")
	if got := b.Take("app", 1); len(got) != 1 || got[0].Content != "【平台】x" {
		t.Errorf("the second attempt is %+v", got)
	}
	if got := claimOf(b, id); got.Content != "【平台】x" || got.Sign != "" {
		t.Errorf("of the second attempt the timeline says %+v", got)
	}
}

// Each attempt is signed by the rules of its sender. The sender is charged for the segments that it sends.
func TestEachAttemptIsSignedByTheRulesOfItsSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "first", "sign": "平台", "balance": 10})
	b.AddSender(map[string]any{"sender_no": "bare", "sign_mode": "none", "balance": 10})
	b.AddSender(map[string]any{"sender_no": "adds", "sign_mode": "by_provider", "balance": 10})
	long := strings.Repeat("长", 68)
	for name, c := range map[string]struct {
		sign                  string
		inFront, apart        string
		costsBare, costsAdded int64
	}{
		"of the message": {"公司", "【公司】" + long, "公司", 1, 2},
		"of the sender":  {"", "【平台】" + long, "", 1, 1}, // the signature of the first sender does not belong to the message
	} {
		body := map[string]any{"phone_number": apptest.Phone, "content": long}
		if c.sign != "" {
			body["sign"] = c.sign
		}
		id := b.SubmitBody(body).TaskID
		for _, attempt := range []struct {
			sender, handed, apart string
			cost                  int64
		}{{"first", c.inFront, "", 2}, {"bare", long, "", c.costsBare}, {"adds", long, c.apart, c.costsAdded}} {
			before := *b.GetSender(attempt.sender).Balance
			taken := b.Take(attempt.sender, 1)
			if len(taken) != 1 || taken[0].Content != attempt.handed || optional.Value(taken[0].Sign) != attempt.apart {
				t.Fatalf("%s: %s got %+v", name, attempt.sender, taken)
			}
			if cost := before - *b.GetSender(attempt.sender).Balance; cost != attempt.cost {
				t.Errorf("%s: %s paid %d", name, attempt.sender, cost)
			}
			if got := claimOf(b, id); got.Content != attempt.handed || got.Sign != attempt.apart {
				t.Errorf("%s: of %s the timeline says %+v", name, attempt.sender, got)
			}
			status := 3
			if attempt.sender == "adds" {
				status = 2
			}
			b.Report(id, attempt.sender, status, apptest.Report{"should_retry": status == 3, "retry_after_seconds": 0})
			b.Exec("UPDATE queue SET due_at = now()")
		}
		if n := b.Count("SELECT count(*) FROM send_logs WHERE task_id = $1 AND content IN ($2, $3)", id, c.inFront, long); n != 3 {
			t.Errorf("%s: %d of 3 attempts are in send_logs", name, n)
		}
	}
}

// The signature of a template becomes the signature of the message. If the rendered text already begins with the signature, the text is not signed twice.
func TestSignModeAppliesToTheSignatureOfATemplate(t *testing.T) {
	b := apptest.New(t)
	for no, mode := range map[string]string{"front": "in_text", "adds": "by_provider", "bare": "none"} {
		b.AddSender(map[string]any{"sender_no": no, "sign_mode": mode})
	}
	b.Expect(200, "", "POST", "/api/v1/admin/template", map[string]any{
		"template_no": "hi", "template_name": "n", "template_content": "{from}您好", "sign": "公司",
	})
	for from, texts := range map[string]map[string]string{
		"":     {"front": "【公司】您好", "adds": "您好|公司", "bare": "您好"},
		"【公司】": {"front": "【公司】您好", "adds": "您好|公司", "bare": "您好"},
		"【通知】": {"front": "【公司】【通知】您好", "adds": "【通知】您好|公司", "bare": "【通知】您好"},
	} {
		for no, want := range texts {
			b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "template_no": "hi", "params": map[string]any{"from": from}})
			got := b.Take(no, 1)[0]
			if text := strings.TrimSuffix(got.Content+"|"+optional.Value(got.Sign), "|"); text != want {
				t.Errorf("%q: %s got %q, want %q", from, no, text, want)
			}
		}
	}
}

// Limits and totals count the segments that a sender sends.
func TestLimitsAndTotalsCountSentSegments(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"phone_number": apptest.Phone, "content": strings.Repeat("长", 68), "sign": "公司"}
	for no, c := range map[string]struct {
		mode     string
		segments int64
	}{"front": {"in_text", 2}, "adds": {"by_provider", 2}, "bare": {"none", 1}} {
		limited := no + "-limited"
		b.AddSender(map[string]any{"sender_no": limited, "sign_mode": c.mode, "limits": map[string]any{"per_day": 1}})
		b.AddSender(map[string]any{"sender_no": no, "sign_mode": c.mode})
		id := b.SubmitBody(body).TaskID
		if got := len(b.Take(limited, 1)); got != int(2-c.segments) {
			t.Errorf("%s: %d messages of %d segments are within a limit of one", no, got, c.segments)
		} else if got == 0 {
			b.Take(no, 1)
			b.Report(id, no, 2, nil)
		} else {
			b.Report(id, limited, 2, nil)
			if used := b.GetSender(limited).Used.Day; used != 1 {
				t.Errorf("%s: used %d", no, used)
			}
			id = b.SubmitBody(body).TaskID
			b.Take(no, 1)
			b.Report(id, no, 2, nil)
		}
		if _, err := b.App.History.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := apptest.Decode[api.DailyTotalPage](t, b.Expect(200, "", "GET", "/api/v1/admin/daily-totals?sender_no="+no, nil)).Items
		if len(got) != 1 || got[0].Segments != c.segments {
			t.Errorf("%s: the totals are %+v, want %d segments", no, got, c.segments)
		}
	}
}

// The text that a sender received remains stored, however the lease ends.
func TestEndedLeaseKeepsTheTextOfTheSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "sign": "平台", "sign_mode": "by_provider"})
	id := b.Submit("x")
	for name, end := range map[string]func(lease int64){
		"given back": func(lease int64) {
			if n, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: id, LeaseID: lease}}); n != 1 || err != nil {
				t.Fatalf("released %d, %v", n, err)
			}
		},
		"not started": func(int64) {
			b.Exec("UPDATE queue SET start_until = lease_until")
			b.ExpireLeases()
			b.Recover()
		},
	} {
		lease := b.Take("app", 1)[0]
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "in_text"})
		end(lease.LeaseID)
		if got := claimOf(b, id); got != (claimEvent{"claimed", "x", "平台"}) {
			t.Errorf("%s: the timeline says %+v", name, got)
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "by_provider"})
		b.Exec("UPDATE queue SET due_at = now() WHERE lane IS NULL")
	}
	if effects := b.Effects(id); len(effects) != 2 || effects[0] == effects[1] {
		t.Errorf("the log says %v", effects)
	}
}

// A sender that forbids signatures is charged the same when the users of a company take turns.
func TestClaimOfSeveralFlowsChargesSentSegments(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app", "sign_mode": "none", "balance": 100})
	who := users(b, "anna", "bert")
	long := strings.Repeat("长", 62)
	for i, name := range []string{"anna", "bert"} {
		b.SubmitMany(name+" "+long, 10, map[string]any{"sign": "公司"}, who[i]...)
	}
	all := contents(b, "app", 4)
	if len(all) != 20 || len(of(all[:10], "bert")) < 4 {
		t.Errorf("the users do not take turns: %v", all)
	}
	if left := *b.GetSender("app").Balance; left != 80 {
		t.Errorf("20 messages of one segment left %d of 100", left)
	}
}

func TestSenderThatForbidsSignaturesCannotHaveASignature(t *testing.T) {
	b := apptest.New(t)
	body := map[string]any{"sender_no": "app", "name": "app", "sign": "平台", "sign_mode": "none"}
	if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders", body); a.Fields() != "sign" {
		t.Error(a.Raw)
	}
	b.AddSender(map[string]any{"sender_no": "app", "sign": "平台"})
	if got := b.Expect(200, "", "GET", "/api/v1/admin/senders/app", nil).Raw; !strings.Contains(got, `"sign_mode":"in_text"`) {
		t.Error(got)
	}
	if a := b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "none"}); a.Fields() != "sign" {
		t.Error(a.Raw)
	}
	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "other"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"sign_mode": "none", "sign": nil})
}

// The SQL function unsigned_segments, which the claim calls, counts each character in the same way as the submission.
func TestGoAndSQLCountSegmentsOfUnsignedTextsEqually(t *testing.T) {
	b := apptest.New(t)
	var texts []string
	var counts []int32
	for r := rune(1); r < 0x3000; r++ {
		text := strings.Repeat(string(r), 71)
		texts, counts = append(texts, text), append(counts, int32(segment.Count(text)))
	}
	texts, counts = append(texts, strings.Repeat("a", 161), strings.Repeat("a", 307), strings.Repeat("{", 81)), append(counts, 2, 3, 2)
	if differ := apptest.Scan[string](b, `SELECT coalesce(string_agg(to_hex(ascii(t.text)), ' '), '')
		FROM (SELECT unnest($1::text[]) AS text, unnest($2::integer[]) AS segments) t WHERE unsigned_segments(t.text) <> t.segments`, texts, counts); differ != "" {
		t.Errorf("other counts for texts of %s", differ)
	}
}
