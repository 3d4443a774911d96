package submit_test

import (
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// sendNoTests disables the sending of test messages.
func sendNoTests(b *apptest.Bundle) {
	b.T.Helper()
	putSMS(b, map[string]any{"send_tests": false})
}

func testMessage(content string) map[string]any {
	return map[string]any{"phone_number": apptest.Phone, "content": content, "test": true}
}

func TestTestMessagesAreSentUnlessASettingDisablesThem(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	sent := b.SubmitBody(testMessage("sent")).TaskID
	sendNoTests(b)
	later := testMessage("not sent")
	later["expect_send_time"] = "2099-01-01T00:00:00Z"
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/send", later)
	delete(later, "expect_send_time")
	made := b.SubmitBody(later)
	if made.Status != 2 || made.FinalContent != "not sent" {
		t.Errorf("%+v", made)
	}
	b.Submit("no test")
	if got := b.ClaimIDs(10); len(got) != 2 || got[0] != sent {
		t.Errorf("claimed %v", got)
	}
	task := b.Task(made.TaskID)
	if task.Status != 2 || task.Result == nil || *task.Result != "测试短信，未发送" || task.ProcessingAppID != nil || task.SentAt != nil || task.RetryCount != 0 || !task.Test {
		t.Errorf("%+v", task)
	}
	b.ExpectEffects(made.TaskID, "simulated success")
	timeline := b.Timeline(made.TaskID)
	if len(timeline) != 2 || timeline[1].Event != api.EventSimulated || timeline[1].Message == nil || *timeline[1].Message != "测试短信，未发送" {
		t.Errorf("%+v", timeline)
	}
	if e := b.Explain(made.TaskID); e.Reason != api.BecauseSettled {
		t.Errorf("%+v", e)
	}
	b.Expect(409, "task.succeeded", "POST", apptest.RequeuePath(made.TaskID), nil)
	b.Expect(409, "task.not_pending", "POST", "/api/v1/sms/task/"+made.TaskID+"/cancel", nil)
	b.Expect(409, "task.not_held", "POST", "/api/v1/sms/report", apptest.ReportBody(made.TaskID, "app", 2, nil))
	b.ExpectCounts("0 new, 0 retries, 2 held, 1 sent, 0 failed")
	facts := apptest.Scan[string](b, "SELECT concat_ws(' ', sum(submitted), sum(success), sum(leases), sum(segments), bool_and(is_test), min(country_no)) FROM facts WHERE success > 0")
	if facts != "1 1 0 0 t CN" {
		t.Errorf("facts: %s", facts)
	}
	if n := b.Count("SELECT count(*) FROM send_logs WHERE task_id = $1", made.TaskID) + b.Count("SELECT count(*) FROM sender_totals WHERE succeeded > 0"); n != 0 {
		t.Errorf("%d senders did something", n)
	}
}

// S3.13: a FAILED test message is not sent again while the setting disables test messages.
func TestTestMessageIsNotRequeuedWhileTestsAreOff(t *testing.T) {
	b := apptest.New(t)
	test, other := b.SubmitBody(testMessage("x")).TaskID, b.Submit("no test")
	for _, id := range b.ClaimIDs(2) {
		b.Report(id, "app", 3, nil)
	}
	sendNoTests(b)
	b.Expect(409, "task.tests_off", "POST", apptest.RequeuePath(test), nil)
	if n, err := b.App.Tasks.RequeueAll(t.Context(), []string{test, other}, "admin", ""); err != nil || n != 1 {
		t.Errorf("%d requeued, %v", n, err)
	}
	putSMS(b, map[string]any{"send_tests": true})
	b.Expect(200, "", "POST", apptest.RequeuePath(test), nil)
}

// A test message that is not sent behaves like any other message for batches, dedup keys, default contents, templates and the dry run.
func TestAllKindsOfTestMessagesAreSimulated(t *testing.T) {
	b := apptest.New(t)
	sendNoTests(b)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{a}"}`)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{a}","send_type":"scheduled"}`)
	b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": apptest.Phone, "content": "default"})
	ofDefault := map[string]any{"phone_number": apptest.Phone, "test": true}
	named, ofTemplate := testMessage("named"), testMessage("a=x")
	named["dedup_key"], ofTemplate["use_template"] = "k", true

	dry := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", named))
	if dry.Verdict == nil || *dry.Verdict != "would_be_simulated" {
		t.Errorf("%+v", dry)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", ofDefault)
	messages := map[string]any{"messages": []any{named, ofDefault, ofTemplate, map[string]any{"phone_number": apptest.Phone, "content": "no test"}, named}}
	data := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, messages, apptest.KeyHeader, "key"))
	if data.Accepted != 5 || *data.Items[4].TaskID != *data.Items[0].TaskID || data.Items[4].Deduplicated == nil || *data.Items[4].Status != 2 {
		t.Errorf("%+v", data)
	}
	again := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", apptest.BatchPath, messages, apptest.KeyHeader, "key"))
	if *again.Items[1].TaskID != *data.Items[1].TaskID {
		t.Errorf("%+v", again)
	}
	if repeat := b.SubmitBody(named); repeat.TaskID != *data.Items[0].TaskID || repeat.Status != 2 {
		t.Errorf("%+v", repeat)
	}
	if n := b.Count("SELECT count(*) FROM default_contents WHERE is_sent"); n != 0 {
		t.Errorf("%d default contents were consumed", n)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/send", ofDefault)
	if got := b.ListIDs("test=true&status=2"); len(got) != 4 {
		t.Errorf("tests: %v", got)
	}
	if got := b.ClaimIDs(10); len(got) != 1 || got[0] != *data.Items[3].TaskID {
		t.Errorf("claimed %v", got)
	}
	if n := b.Count("SELECT count(*) FROM fair_ranks WHERE finish > 1"); n != 0 {
		t.Error("a test message that is not sent reduces the share of its company")
	}
}

// If the request sets use_template, a default content without use_template is rendered, too. The default content of another company is not changed.
func TestDefaultContentIsRenderedIfTheRequestSetsUseTemplate(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"code {a}"}`)
	for _, company := range []string{"default", "acme"} {
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"company_no": company, "phone_number": apptest.Phone, "content": "a=7"})
	}
	body := map[string]any{"phone_number": apptest.Phone, "use_template": true}
	if made := b.SubmitBody(body); made.FinalContent != "code 7" {
		t.Errorf("%+v", made)
	}
	b.Expect(409, "default_content.already_sent", "POST", "/api/v1/sms/send", body)
	delete(body, "use_template")
	if made := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, acme...)); made.FinalContent != "a=7" {
		t.Errorf("%+v", made)
	}
}
