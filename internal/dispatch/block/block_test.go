package block_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/result"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

const (
	path   = "/api/v1/blocks"
	number = "+8613800138000"
)

// add blocks the number of the tests.
func add(b *apptest.Bundle, scope string, more map[string]any, headers ...string) api.BlockAdded {
	b.T.Helper()
	body := map[string]any{"phone_number": number, "scope": scope}
	for k, v := range more {
		body[k] = v
	}
	return apptest.Decode[api.BlockAdded](b.T, b.Expect(200, "", "POST", path, body, headers...))
}

func message(messageType string, more map[string]any) map[string]any {
	m := map[string]any{"phone_number": number, "content": "x", "message_type": messageType}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func list(b *apptest.Bundle, query string, headers ...string) string {
	b.T.Helper()
	var all []string
	for cursor := ""; ; {
		page := apptest.Decode[api.BlockPage](b.T, b.Expect(200, "", "GET", path+"?limit=2&"+query+cursor, nil, headers...))
		for _, one := range page.Items {
			company := "all"
			if one.CompanyNo != nil {
				company = *one.CompanyNo
			}
			all = append(all, fmt.Sprint(*one.PhoneNumber, " ", one.Scope, " ", company))
		}
		if page.NextCursor == nil {
			return strings.Join(all, ", ")
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}

func TestABlockStopsMessagesOfItsScope(t *testing.T) {
	for scope, stopped := range map[string]string{"marketing": "marketing", "notification": "notification", "all": "verification notification marketing"} {
		t.Run(scope, func(t *testing.T) {
			b := apptest.New(t)
			add(b, scope, nil)
			for _, messageType := range []string{"verification", "notification", "marketing"} {
				if !strings.Contains(stopped, messageType) {
					b.SubmitBody(message(messageType, nil))
					continue
				}
				for _, query := range []string{"", "?dry_run=true"} {
					a := b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send"+query, message(messageType, nil))
					if a.Fields() != "phone_number" {
						t.Errorf("fields %s", a.Fields())
					}
				}
			}
			b.SubmitBody(message("marketing", map[string]any{"phone_number": "13800138001"}))
		})
	}
}

func TestABlockCancelsWaitingMessagesAndListsClaimedOnes(t *testing.T) {
	b := apptest.New(t)
	held := b.SubmitBody(message("marketing", nil)).TaskID
	b.Claim("app", 1)
	due := b.SubmitBody(message("marketing", nil)).TaskID
	scheduled := b.SubmitBody(message("marketing", map[string]any{"expect_send_time": time.Now().Add(time.Hour)})).TaskID
	code := b.SubmitBody(message("verification", nil)).TaskID
	b.SubmitBody(message("marketing", nil))
	stranger := b.SubmitBody(message("marketing", map[string]any{"phone_number": "13800138001"})).TaskID
	got := add(b, "marketing", map[string]any{"company_no": "default"})
	if got.CancelledTasks != 3 || len(got.HeldTasks) != 1 || got.HeldTasks[0].TaskID != held || got.HeldTasks[0].SenderNo != "app" {
		t.Errorf("%+v", got)
	}
	for _, id := range []string{due, scheduled} {
		if task := b.Task(id); task.Status != api.TaskCancelled || task.Result == nil || *task.Result != "收件人已退订或被屏蔽" {
			t.Errorf("%+v", task)
		}
	}
	if ids := b.ClaimIDs(10); len(ids) != 2 || ids[0] != code || ids[1] != stranger {
		t.Errorf("claimed %v, want %s and %s", ids, code, stranger)
	}
	b.Report(held, "app", 3, apptest.Report{"should_retry": true})
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids := b.ClaimIDs(10); len(ids) != 0 {
		t.Errorf("a message that its sender could not send is sent again: %v", ids)
	}
}

func TestABlockEndsClaimedMessagesLikeWaitingMessages(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(b *apptest.Bundle, claimed api.ClaimedTask)
		effects []string
	}{
		"retry": {func(b *apptest.Bundle, claimed api.ClaimedTask) {
			b.Report(claimed.TaskID, "app", 3, apptest.Report{"should_retry": true})
		}, []string{"reported retry", "cancelled cancelled"}},
		"release": {func(b *apptest.Bundle, claimed api.ClaimedTask) {
			if n, err := b.App.Queue.Release(b.T.Context(), "app", []queue.Unused{{TaskID: claimed.TaskID, LeaseID: claimed.LeaseID}}); n != 1 || err != nil {
				b.T.Error(n, err)
			}
		}, []string{"released untried", "cancelled cancelled"}},
		"no report": {func(b *apptest.Bundle, _ api.ClaimedTask) {
			b.Exec("UPDATE queue SET expires_at = expires_at - interval '1 hour', lease_until = now() - interval '1 hour'")
			b.Recover()
		}, []string{"recovered retry", "cancelled cancelled"}},
		"an unknown outcome": {func(b *apptest.Bundle, claimed api.ClaimedTask) {
			b.Exec("UPDATE queue SET lease_until = now()")
			if b.Recover(); b.Task(claimed.TaskID).Status != api.TaskProcessing {
				b.T.Error("the sender had no time to report")
			}
			err := b.App.Queue.RecordUnclear(b.T.Context(), "app", []queue.Unclear{{TaskID: claimed.TaskID, LeaseID: claimed.LeaseID, Error: "no answer"}})
			if err != nil {
				b.T.Error(err)
			}
			b.Recover()
		}, []string{"recovered retry", "cancelled cancelled"}},
		"no report about the last attempt": {func(b *apptest.Bundle, _ api.ClaimedTask) {
			b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", `{"max_retry_count":0}`)
			b.Exec("UPDATE queue SET expires_at = expires_at - interval '1 hour', lease_until = now() - interval '1 hour'")
			b.Recover()
		}, []string{"recovered retry", "cancelled cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			id := b.SubmitBody(message("marketing", nil)).TaskID
			claimed := b.Claim("app", 1)[0]
			add(b, "marketing", nil)
			c.end(b, claimed)
			if n, err := b.App.Queue.Expire(t.Context()); n != 1 || err != nil {
				t.Error(n, err)
			}
			b.ExpectEffects(id, c.effects...)
			if task := b.Task(id); task.Status != api.TaskCancelled || task.Result == nil || *task.Result != result.Blocked {
				t.Errorf("%+v", task)
			}
			events := b.Timeline(id)
			if last := events[len(events)-1]; last.Event != "cancelled" || last.By == nil || *last.By != "admin" {
				t.Errorf("%+v", last)
			}
		})
	}
}

// The time of a block is not the expiry that the submitter set.
func TestABlockDoesNotChangeTheExpiryOfAClaimedMessage(t *testing.T) {
	expiry := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, want := range map[string]*time.Time{"none": nil, "in an hour": &expiry} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			id := b.SubmitBody(message("marketing", map[string]any{"expires_at": want})).TaskID
			b.Claim("app", 1)
			add(b, "marketing", nil)
			expect := func(status api.TaskStatus, reason api.ExplanationReason) {
				t.Helper()
				list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", fmt.Sprintf("/api/v1/sms/tasks?status=%d", status), nil))
				if len(list.Items) != 1 {
					t.Fatalf("listed %+v", list.Items)
				}
				e := b.Explain(id)
				for _, at := range []*time.Time{b.Task(id).ExpiresAt, list.Items[0].ExpiresAt, e.ExpiresAt} {
					if (at == nil) != (want == nil) || at != nil && !at.Equal(*want) {
						t.Errorf("expires at %v, want %v", at, want)
					}
				}
				if b.Task(id).Status != status || e.Reason != reason {
					t.Errorf("status %d, explained by %s", b.Task(id).Status, e.Reason)
				}
			}
			expect(api.TaskProcessing, api.BecauseProcessing)
			b.Report(id, "app", 3, apptest.Report{"should_retry": true})
			expect(api.TaskPending, api.BecauseExpiring)
			if _, err := b.App.Queue.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect(api.TaskCancelled, api.BecauseSettled)
		})
	}
}

func TestReportsStillCountAfterABlockStopsAClaimedMessage(t *testing.T) {
	b := apptest.New(t)
	sent, failed := b.SubmitBody(message("marketing", nil)).TaskID, b.SubmitBody(message("marketing", nil)).TaskID
	b.Claim("app", 2)
	add(b, "marketing", nil)
	for id, status := range map[string]int{sent: 2, failed: 3} {
		b.Report(id, "app", status, nil)
		if task := b.Task(id); int(task.Status) != status {
			t.Errorf("report %d: %+v", status, task)
		}
	}
}

func TestABlockOfOneCompanyDoesNotStopAnotherCompany(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	add(w.Bundle, "all", nil, w.Acme...)
	w.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", message("notification", nil), w.Acme...)
	w.Expect(200, "", "POST", "/api/v1/sms/send", message("notification", nil), w.Beta...)
	if got := list(w.Bundle, "phone_number="+url.QueryEscape(number), w.Beta...); got != "" {
		t.Errorf("another company sees %s", got)
	}
	w.Expect(404, "block.not_found", "DELETE", path+"/13800138000", nil, w.Beta...)
	w.Expect(403, "auth.other_company", "POST", path, map[string]any{"phone_number": number, "scope": "all", "company_no": "acme"}, w.Beta...)
	add(w.Bundle, "all", nil) // an admin blocks the number for all companies
	w.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", message("notification", nil), w.Beta...)
	if got := list(w.Bundle, "phone_number="+url.QueryEscape(number), w.Beta...); got != number+" all all" {
		t.Errorf("another company sees %s", got)
	}
	w.Expect(404, "block.not_found", "DELETE", path+"/13800138000", nil, w.Beta...)
	w.Expect(200, "", "DELETE", path+"/13800138000", nil)
	w.Expect(200, "", "POST", "/api/v1/sms/send", message("notification", nil), w.Beta...)
	w.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", message("notification", nil), w.Acme...)
	w.Expect(200, "", "DELETE", path+"/13800138000?scope=all", nil, w.Acme...)
	w.Expect(200, "", "POST", "/api/v1/sms/send", message("notification", nil), w.Acme...)
}

func TestABlockEndsAtItsExpiry(t *testing.T) {
	b := apptest.New(t)
	b.Expect(422, "request.invalid", "POST", path, map[string]any{"phone_number": number, "scope": "all", "expires_at": time.Now().Add(-time.Minute)})
	add(b, "all", map[string]any{"expires_at": time.Now().Add(time.Hour)})
	b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", message("notification", nil))
	b.Exec("UPDATE blocks SET expires_at = now() - interval '1 second'")
	b.SubmitBody(message("notification", nil))
	if n, err := b.App.Blocks.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestTheAuditNamesTheUserOfABlock(t *testing.T) {
	b := apptest.New(t)
	add(b, "all", nil)
	b.Expect(200, "", "DELETE", path+"/13800138000", nil)
	got := apptest.Scan[string](b, "SELECT string_agg(concat_ws(' ', action, actor), ', ' ORDER BY id) FROM audit WHERE entity = 'block'")
	if got != "created admin, deleted admin" {
		t.Error(got)
	}
}

func TestASecondBlockOfANumberChangesTheFirst(t *testing.T) {
	b := apptest.New(t)
	first := add(b, "all", map[string]any{"reason": "a"})
	again := add(b, "all", map[string]any{"reason": "b"})
	if again.Block.BlockID != first.Block.BlockID || *again.Block.Reason != "b" {
		t.Errorf("%+v, then %+v", first, again)
	}
}

func TestBlocksAreListedAndExported(t *testing.T) {
	b := apptest.New(t)
	for _, one := range []map[string]any{
		{"scope": "all"}, {"scope": "marketing"}, {"scope": "marketing", "company_no": "default"}, {"scope": "all", "phone_number": "13800138001"},
	} {
		add(b, "", one)
	}
	for query, want := range map[string]string{
		"":                                   "+8613800138001 all all, " + number + " marketing default, " + number + " marketing all, " + number + " all all",
		"scope=marketing":                    number + " marketing default, " + number + " marketing all",
		"company_no=default":                 number + " marketing default",
		"phone_number=138%20001-38000":       number + " marketing default, " + number + " marketing all, " + number + " all all",
		"phone_number=13800138000&scope=all": number + " all all",
	} {
		if got := list(b, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	file := b.Call("GET", path+"/export.csv", nil).Raw
	if lines := strings.Split(strings.TrimSpace(file), "\n"); len(lines) != 5 || !strings.Contains(lines[1], "'+8613800138001,all,,,admin,") {
		t.Errorf("%s", file)
	}
}

func TestABlockStopsASubmissionThatBeganBefore(t *testing.T) {
	b := apptest.New(t)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 20 {
				b.Call("POST", "/api/v1/sms/send", message("marketing", map[string]any{"content": fmt.Sprint(i, " ", n)}))
			}
		})
	}
	add(b, "marketing", nil)
	if n := b.Count("SELECT count(*) FROM queue"); n != 0 {
		t.Errorf("%d messages wait after the block", n)
	}
	wait.Wait()
	if n := b.Count("SELECT count(*) FROM queue"); n != 0 {
		t.Errorf("%d messages wait at the end", n)
	}
}

func TestTheSweepEnforcesABlockThatAStoppedServerDidNotEnforce(t *testing.T) {
	b := apptest.New(t)
	b.SubmitBody(message("marketing", nil))
	b.Exec(`INSERT INTO blocks (recipient, recipient_hash, scope, created_by) VALUES ($1, sha256(convert_to($1, 'UTF8')), 'marketing', 'u')`, number)
	if n, err := b.App.Blocks.EnforceAll(t.Context()); n != 1 || err != nil {
		t.Error(n, err)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

func TestBlocksApplyToRequeuesBatchesAndNotifications(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/sms", map[string]any{"title": "t", "content": "${taskName}"})
	b.PutContacts(map[string]any{"user_id": "u1", "phone": number})
	failed := b.SubmitBody(message("notification", nil)).TaskID
	b.Claim("app", 1)
	b.Report(failed, "app", 3, nil)
	add(b, "all", nil)
	a := b.Expect(409, "recipient.blocked", "POST", apptest.RequeuePath(failed), nil)
	if a.Fields() != "phone_number" {
		t.Errorf("the requeue answers %s", a.Raw)
	}
	made := apptest.Decode[api.BatchCreated](t, b.Call("POST", "/api/v1/batches", apptest.Form("file", "list.csv", "phone\n"+number+"\n13800138001\n", "name", "n",
		"phone_column", "phone", "content", "x"), "Content-Type", apptest.FormType))
	if _, err := b.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch := apptest.Decode[api.Batch](t, b.Expect(200, "", "GET", fmt.Sprint("/api/v1/batches/", made.BatchID), nil))
	if batch.Counts.Blocked != 1 || batch.Counts.Valid != 1 {
		t.Errorf("counts %+v", batch.Counts)
	}
	notified := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"sms"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
	}))
	if n := b.Notification(notified.Items[0].NotificationID); n.Status != api.NotificationFailed {
		t.Errorf("%+v", n)
	}
	if n := b.Count("SELECT count(*) FROM queue"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

func TestAnErasedPersonStaysBlocked(t *testing.T) {
	b := apptest.New(t)
	add(b, "all", map[string]any{"company_no": "default", "reason": "x"})
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": number})
	for range 3 {
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.Expect(409, "recipient.blocked", "POST", "/api/v1/sms/send", message("notification", nil))
	if n := b.Count("SELECT count(*) FROM blocks WHERE recipient IS NOT NULL OR reason IS NOT NULL"); n != 0 {
		t.Errorf("%d blocks keep data of the person", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'block' AND (before <> '{}' OR after <> '{}')"); n != 0 {
		t.Errorf("%d rows of the audit keep data of the person", n)
	}
}
