package notification_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// An admin can read the notifications of every company. A request of an admin that ends or deletes notifications must name the company, because two companies
// can use the same business ids.
func TestAnAdminEndsAndDeletesNotificationsOfANamedCompany(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	create := map[string]any{
		"biz_type": 2, "biz_id": 7, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"of-acme"},
		"next_run_time": time.Now().Add(24 * time.Hour),
	}
	for _, headers := range [][]string{w.Acme, w.Beta, nil} {
		w.Expect(200, "", "POST", "/api/v1/notifications", create, headers...)
	}
	statuses := func() string {
		t.Helper()
		var all []string
		for _, no := range []string{"acme", "beta", "default"} {
			for _, n := range apptest.Decode[api.NotificationPage](t, w.Expect(200, "", "GET", "/api/v1/notifications?biz_id=7&company_no="+no, nil)).Items {
				if n.CompanyNo != no {
					t.Errorf("a notification of %s in the list of %s", n.CompanyNo, no)
				}
				all = append(all, fmt.Sprint(no, " ", n.Status))
			}
		}
		return strings.Join(all, ", ")
	}
	act := func(method, path string, body any, want string) {
		t.Helper()
		if n := apptest.Decode[api.Changed](t, w.Expect(200, "", method, path, body)).Changed; n != 1 {
			t.Errorf("%s %s changed %d notifications", method, path, n)
		}
		if got := statuses(); got != want {
			t.Errorf("after %s %s: %s, want %s", method, path, got, want)
		}
	}
	end := map[string]any{"biz_type": 2, "biz_ids": []int{7}, "status": 3, "company_no": "acme"}
	const status, all = "/api/v1/notifications/status", "/api/v1/notifications?biz_type=2&biz_ids=7"
	act("POST", status, end, "acme 3, beta 0, default 0")
	act("DELETE", all+"&company_no=acme", nil, "beta 0, default 0")
	act("DELETE", all, nil, "beta 0")

	end["company_no"] = "beta"
	w.Expect(403, "auth.other_company", "POST", status, end, w.Acme...)
	w.Expect(403, "auth.other_company", "DELETE", all+"&company_no=beta", nil, w.Acme...)
	w.Expect(403, "auth.other_company", "GET", "/api/v1/notifications?company_no=beta", nil, w.Acme...)
	end["company_no"] = "nobody"
	if a := w.Expect(422, "request.invalid", "POST", status, end); a.Fields() != "company_no" {
		t.Errorf("wrong fields %s", a.Fields())
	}
	w.Expect(404, "company.not_found", "DELETE", all+"&company_no=nobody", nil)
	w.Expect(404, "company.not_found", "GET", "/api/v1/notifications?company_no=nobody", nil)
}

// A task contains its company, channel and notification.
func TestATaskNamesItsCompanyChannelAndNotification(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	origin := func(task api.Task) string {
		number := int64(0)
		if task.NotificationID != nil {
			number = *task.NotificationID
		}
		return fmt.Sprint(optional.Or(task.CompanyNo, "none"), " ", optional.Or(task.Channel, "none"), " ", number)
	}
	list := func() (all []string) {
		t.Helper()
		for _, task := range apptest.Decode[api.TaskPage](t, w.Expect(200, "", "GET", "/api/v1/sms/tasks?company_no=acme", nil)).Items {
			one := apptest.Decode[api.Task](t, w.Expect(200, "", "GET", "/api/v1/sms/task/"+task.TaskID, nil))
			if origin(one) != origin(task) {
				t.Errorf("%s in the list, %s alone", origin(task), origin(one))
			}
			all = append(all, origin(task))
		}
		return all
	}
	want := []string{"acme wechat 0", "acme dingtalk " + w.IDs["notification"], "acme sms 0", "acme sms 0"}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, act := range []string{"cancel", "requeue"} {
		if got := origin(apptest.Decode[api.Task](t, w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.IDs["task"]+"/"+act, nil))); got != "acme sms 0" {
			t.Errorf("after %s: %s", act, got)
		}
	}
	// A task is kept longer than the pool of its deleted route.
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.IDs["task"]+"/cancel", nil)
	w.Expect(200, "", "DELETE", "/api/v1/admin/routes/"+w.IDs["route"], nil)
	w.Exec("UPDATE pools SET retired_at = now() - interval '31 days' WHERE retired_at IS NOT NULL")
	if n, err := w.App.Directory.DeleteRetiredPools(t.Context()); n != 1 || err != nil {
		t.Fatalf("deleted %d pools, %v", n, err)
	}
	if got := list(); !slices.Contains(got, "acme none 0") {
		t.Errorf("without the pool: %v", got)
	}
}

// Only the submitter sees the recipients and texts of a notification.
func TestASubmitUserSeesOnlyItsOwnNotifications(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	colleague := w.AddUser("colleague", "submit", map[string]any{"company_no": "acme"})
	id := "/api/v1/notifications/" + w.IDs["notification"]
	later := map[string]any{
		"biz_type": 2, "biz_id": 7, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"of-acme"},
		"next_run_time": time.Now().Add(24 * time.Hour),
	}
	w.Expect(200, "", "POST", "/api/v1/notifications", later, w.Acme...)
	w.Expect(200, "", "GET", id, nil, w.Acme...)
	w.Expect(404, "notification.not_found", "GET", id, nil, colleague...)
	none := func(path string) {
		t.Helper()
		var page struct{ Items []any }
		if page = apptest.Decode[struct{ Items []any }](t, w.Expect(200, "", "GET", path, nil, colleague...)); len(page.Items) != 0 {
			t.Errorf("%s shows %v", path, page.Items)
		}
	}
	for _, path := range []string{"/api/v1/notifications", "/api/v1/notifications?biz_id=1001", "/api/v1/subscribe-messages", "/api/v1/subscribe-messages?business_id=1", "/api/v1/subscribe-messages/statistics"} {
		none(path)
		if a := w.Expect(200, "", "GET", path, nil, w.Acme...); !strings.Contains(a.Raw, "acme") && !strings.Contains(a.Raw, `"notification_id":`+w.IDs["notification"]+",") {
			t.Errorf("%s shows the submitter %s", path, a.Raw)
		}
	}
	end := func(headers []string) int {
		return apptest.Decode[api.Changed](t, w.Expect(200, "", "POST", "/api/v1/notifications/status", `{"biz_type":2,"biz_ids":[7],"status":3}`, headers...)).Changed
	}
	remove := func(headers []string) int {
		return apptest.Decode[api.Changed](t, w.Expect(200, "", "DELETE", "/api/v1/notifications?biz_type=2&biz_ids=7", nil, headers...)).Changed
	}
	if n := end(colleague) + remove(colleague); n != 0 {
		t.Errorf("a colleague ended or deleted %d notifications", n)
	}
	if end(w.Acme) != 1 || remove(w.Acme) != 1 {
		t.Error("the submitter could not end or delete the notification")
	}
	// A business event belongs to the company: the end of a node ends its reminder, even if another user reported the start.
	event := func(name string, headers []string) api.NotificationsMade {
		return apptest.Decode[api.NotificationsMade](t, w.Expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
			"event": name, "task_id": 5, "node_inst_id": 50, "channels": []string{"dingtalk"}, "user_ids": []string{"of-acme"}, "max_duration": 60,
			"payload": map[string]any{"taskName": "x", "nodeName": "y"},
		}, headers...))
	}
	event("node_started", w.Acme)
	if n := event("node_finished", colleague).Ended; n != 1 {
		t.Errorf("the end of the node ended %d reminders", n)
	}
}
