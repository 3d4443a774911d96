package access_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestASubmitUserSeesOnlyItsOwnTasks(t *testing.T) {
	b := apptest.New(t)
	mine, other := b.AddUser("mine", "submit", nil), b.AddUser("other", "submit", nil)
	send := func(headers []string) string {
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, headers...)).TaskID
	}
	own, theirs, admins := send(mine), send(other), b.Submit("x")
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+own, nil, mine...)
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+own+"/timeline", nil, mine...)
	for _, id := range []string{theirs, admins} {
		b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id, nil, mine...)
		b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id+"/timeline", nil, mine...)
		b.Expect(404, "task.not_found", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, mine...)
	}
	page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, mine...))
	if len(page.Items) != 1 || page.Items[0].TaskID != own {
		t.Errorf("listed %+v", page.Items)
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+own+"/cancel", nil, mine...)
	if page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, b.AddUser("reader", "read", nil)...)); len(page.Items) != 3 {
		t.Errorf("a reader sees %d tasks, want 3", len(page.Items))
	}
}

// The tasks and notifications that a user submitted before it moved stay with its former company.
func TestAMovedSubmitUserSeesNothingOfItsFormerCompany(t *testing.T) {
	b, _, _ := apptest.NewWeChat(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", `{"company_no":"new","name":"new"}`)
	user := b.AddUser("mover", "submit", nil)
	id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, user...)).TaskID
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
	}, user...)).Items[0]
	b.Expect(200, "", "POST", "/api/v1/subscribe-messages", apptest.SendOnceBody(nil), user...)
	b.AwaitNotification(made.NotificationID, api.NotificationSuccess)

	lists := []string{
		"/api/v1/sms/tasks", "/api/v1/sms/tasks?phone_number=" + apptest.Phone, "/api/v1/notifications", fmt.Sprint("/api/v1/notifications?status=", api.NotificationSuccess),
		"/api/v1/subscribe-messages", "/api/v1/subscribe-messages/statistics",
	}
	sees := func(want bool) {
		t.Helper()
		for _, path := range lists {
			page := apptest.Decode[struct{ Items []any }](t, b.Expect(200, "", "GET", path, nil, user...))
			if got := len(page.Items) > 0; got != want {
				t.Errorf("%s shows %v", path, page.Items)
			}
		}
	}
	sees(true)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/mover", `{"company_no":"new"}`)
	sees(false)
	for _, path := range []string{"", "/timeline", "/explain"} {
		b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id+path, nil, user...)
	}
	b.Expect(404, "task.not_found", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, user...)
	b.Expect(404, "notification.not_found", "GET", fmt.Sprint("/api/v1/notifications/", made.NotificationID), nil, user...)
	if got := b.Task(id).Status; got != 0 {
		t.Errorf("the user's former task has status %d", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/mover", `{"company_no":"default"}`)
	sees(true)
}

func TestABoundUserActsOnlyAsItsApp(t *testing.T) {
	b := apptest.New(t)
	bound := b.AddUser("phone", "send", map[string]any{"app_id": "app_1"})
	id := b.Submit("x")
	for _, prefix := range []string{"", "/app"} {
		b.Expect(403, "auth.other_app", "GET", prefix+"/api/v1/sms/tasks/pending?app_id=app_2", nil, bound...)
		b.Expect(403, "auth.other_app", "POST", prefix+"/api/v1/sms/report", apptest.ReportBody(id, "app_2", 2, nil), bound...)
	}
	if n := b.Count("SELECT count(*) FROM send_logs") + b.Count("SELECT count(*) FROM report_logs"); n != 0 {
		t.Errorf("%d log rows of another app", n)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=app_1", nil, bound...)
	b.Expect(200, "", "POST", "/api/v1/sms/report", apptest.ReportBody(id, "app_1", 2, nil), bound...)
	// Without a bound app, the user can act as any app.
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/phone", `{"app_id":""}`)
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=app_2", nil, bound...)
}

func TestAChangeOfAUserTakesEffectAtOnce(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.PasswordCost = nil })
	headers := b.AddUser("系统 a", "submit", nil)
	got := apptest.Decode[api.User](t, b.Expect(200, "", "GET", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", nil))
	if got.Username != "系统 a" || got.Role != "submit" || got.AppID != nil || got.IsDisabled {
		t.Errorf("got %+v", got)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, headers...)
	// Each change takes effect at once.
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"role":"send","app_id":"a"}`)
	b.Expect(403, "auth.forbidden", "GET", "/api/v1/sms/tasks", nil, headers...)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"password":"another password"}`)
	b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, apptest.Basic("系统 a", "another password")...)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"is_disabled":true}`)
	b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, apptest.Basic("系统 a", "another password")...)

	b.Expect(409, "user.exists", "POST", "/api/v1/admin/users", `{"username":"系统 a","role":"read"}`)
	b.Expect(409, "user.exists", "POST", "/api/v1/admin/users", map[string]any{"username": apptest.Username, "role": "read"})
	b.Expect(404, "user.not_found", "PATCH", "/api/v1/admin/users/nobody", `{"role":"read"}`)
	for body, field := range map[string]string{
		`{"username":"a:b","role":"read"}`:                                                  "username",
		`{"username":"","role":"read"}`:                                                     "username",
		`{"username":"n","role":"king"}`:                                                    "role",
		`{"username":"n","role":"read","password":"short"}`:                                 "password",
		`{"username":"n","role":"read","app_id":"a"}`:                                       "app_id",
		`{"username":"n","role":"read","password":"lksms_` + strings.Repeat("A", 43) + `"}`: "password",
		`{"username":"n"}`:                                                                  "role",
		`{"username":"n","role":"read","password":"a\u0000bbbbbbbbbbbbbb"}`:                 "password",
	} {
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/admin/users", body); a.Fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.Fields(), field)
		}
	}
	hash := apptest.Scan[string](b, "SELECT password_hash FROM users")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the password is stored as %.40s", hash)
	}
	if list := apptest.Decode[api.UserPage](t, b.Expect(200, "", "GET", "/api/v1/admin/users?limit=1", nil)); len(list.Items) != 1 {
		t.Errorf("listed %+v", list)
	}
}

// Send and admin users reach all companies, so a company of such a user would have no effect.
func TestSendAndAdminUsersCannotHaveACompany(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	const path = "/api/v1/admin/users"
	refused := func(method, path, body string) {
		t.Helper()
		if a := b.Expect(422, "request.invalid", method, path, body); a.Fields() != "company_no" || !strings.Contains(a.Raw, "submit or read") {
			t.Errorf("%s %s: %s", method, body, a.Raw)
		}
	}
	expect := func(name, role, companyNo string, seesAll bool) {
		t.Helper()
		u := apptest.Decode[api.User](t, b.Expect(200, "", "GET", path+"/"+name, nil))
		if string(u.Role) != role || u.CompanyNo != companyNo || u.AllCompanies != seesAll {
			t.Errorf("%s is %+v", name, u)
		}
	}
	for _, role := range []string{"send", "admin"} {
		name := "new-" + role
		for _, company := range []string{"acme", "default"} {
			refused("POST", path, fmt.Sprintf(`{"username":%q,"role":%q,"company_no":%q}`, name, role, company))
		}
		b.AddUser(name, role, nil)
		refused("PATCH", path+"/"+name, `{"company_no":"acme"}`)
		refused("PATCH", path+"/user-of-acme", fmt.Sprintf(`{"role":%q}`, role))
		refused("PATCH", path+"/user-of-acme", fmt.Sprintf(`{"role":%q,"company_no":"acme"}`, role))
		expect(name, role, "default", role == "admin")
		expect("user-of-acme", "submit", "acme", false)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, acme...)
	// A user leaves its company when its role changes to a role without a company, and can join a company again in another role. Removing the company of a
	// user without a company is allowed.
	b.Expect(200, "", "PATCH", path+"/user-of-acme", `{"role":"send","company_no":null}`)
	expect("user-of-acme", "send", "default", false)
	b.Expect(200, "", "PATCH", path+"/user-of-acme", `{"role":"read","company_no":"acme"}`)
	expect("user-of-acme", "read", "acme", false)
	b.AddUser("nobodys", "submit", nil)
	b.Expect(200, "", "PATCH", path+"/nobodys", `{"role":"admin"}`)
	b.Expect(200, "", "PATCH", path+"/nobodys", `{"company_no":null}`)
	expect("nobodys", "admin", "default", true)
}

// An admin can have a company since a version that allowed this. The admin continues to submit for this company, and sees only this company if its role is
// changed to submit or read.
func TestAnAdminWithACompanySubmitsForThatCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	admin := b.AddUser("boss", "admin", nil)
	b.Exec("UPDATE users SET company_id = (SELECT id FROM companies WHERE company_no = 'acme') WHERE username = 'boss'")
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/boss", `{"top_priority":2}`) // this change takes effect at once
	b.SubmitMany("x", 1, nil, admin...)
	if n := b.Count("SELECT count(*) FROM tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no = 'acme'"); n != 1 {
		t.Errorf("%d messages of the admin's company, want 1", n)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/boss", `{"role":"read"}`)
	if u := apptest.Decode[api.User](t, b.Expect(200, "", "GET", "/api/v1/admin/users/boss", nil)); u.CompanyNo != "acme" || u.AllCompanies {
		t.Errorf("as a reader the user is %+v", u)
	}
}

func TestAnAPIKeyAuthenticatesUntilItsDeletion(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/users", `{"username":"system","role":"submit"}`)
	made := apptest.Decode[api.NewKey](t, b.Expect(200, "", "POST", "/api/v1/admin/users/system/keys", `{"name":"production"}`))
	if !strings.HasPrefix(made.Key, "lksms_") || len(made.Key) != len("lksms_")+43 {
		t.Errorf("the key has %d characters", len(made.Key))
	}
	asBearer, asPassword := []string{"Authorization", "Bearer " + made.Key}, apptest.Basic("system", made.Key)
	for _, headers := range [][]string{asBearer, asPassword} {
		b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, headers...)
	}
	b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, apptest.Basic("another", made.Key)...)
	b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, apptest.Basic("system", "")...) // this user has no password
	b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, "Authorization", "Bearer lksms_"+strings.Repeat("A", 43))
	a := b.Expect(200, "", "GET", "/api/v1/admin/users/system/keys", nil)
	if keys := apptest.Decode[[]api.Key](t, a); len(keys) != 1 || keys[0].Name != "production" || strings.Contains(a.Raw, made.Key) {
		t.Errorf("listed %s", a.Raw)
	}
	if n := b.Count("SELECT count(*) FROM api_keys WHERE encode(key_hash, 'escape') LIKE '%lksms%' OR octet_length(key_hash) <> 32"); n != 0 {
		t.Error("the key itself is stored")
	}
	path := fmt.Sprintf("/api/v1/admin/users/system/keys/%d", made.ID)
	b.Expect(404, "key.not_found", "DELETE", strings.Replace(path, "system", "nobody", 1), nil)
	b.Expect(200, "", "DELETE", path, nil)
	b.Expect(404, "key.not_found", "DELETE", path, nil)
	for _, headers := range [][]string{asBearer, asPassword} {
		b.Expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, headers...)
	}
	b.Expect(404, "user.not_found", "POST", "/api/v1/admin/users/nobody/keys", `{"name":"x"}`)
	b.Expect(404, "user.not_found", "GET", "/api/v1/admin/users/nobody/keys", nil)
	if strings.Contains(b.Log.String(), made.Key) {
		t.Error("the key is in the log")
	}
}

func TestGuessingIsSlowedDownWithoutLockingOtherUsersOut(t *testing.T) {
	b := apptest.New(t)
	good := b.AddUser("sender", "send", nil)
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, good...)
	var last apptest.Answer
	for i := range 10 {
		last = b.Call("GET", "/api/v1/sms/tasks/pending?app_id=a", nil, apptest.Basic("sender", fmt.Sprint("guess ", i))...)
		if last.Status == 429 {
			break
		}
		if last.Status != 401 {
			t.Fatalf("guess %d: %d", i, last.Status)
		}
	}
	if last.Status != 429 || last.Body.Error.Reason != "auth.too_many_failures" || last.Header.Get("Retry-After") == "" {
		t.Errorf("ten guesses end with %d %v", last.Status, last.Header)
	}
	// The server still accepts the sender, which it verified a moment ago. It also accepts another user at the same address.
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, good...)
	b.Expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, b.AddUser("other", "send", nil)...)
	b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
}

func TestWrongPasswordsFromTheSameNetworkLockNoUserOut(t *testing.T) {
	var late atomic.Int64 // how far the clock is ahead, in seconds
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Second) }
	})
	user := b.AddUser("system", "submit", nil)
	b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...)
	refused := 0
	for n := range 60 {
		if b.Call("GET", "/api/v1/sms/tasks", nil, apptest.Basic(fmt.Sprint("guessed ", n), "a wrong password")...).Status == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("60 guesses from one address were all compared")
	}
	for range 50 { // another client guesses for five minutes
		b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...)
		b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
		b.Call("GET", "/api/v1/sms/tasks", nil, apptest.Basic(fmt.Sprint("guessed ", late.Add(6)), "a wrong password")...)
	}
}

// A user remains a known user of a network while it calls from there, although the server compares its password only once.
func TestAUserThatCallsRegularlyRemainsKnownAtItsNetwork(t *testing.T) {
	var late atomic.Int64 // how far the clock is ahead, in hours
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Hour) }
	})
	user := b.AddUser("system", "submit", nil)
	poll := func() { b.Expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...) }
	age := func() time.Duration {
		return time.Duration(apptest.Scan[float64](b, "SELECT extract(epoch FROM now() - seen_at)::float8 FROM user_addresses WHERE username = 'system'") * float64(time.Second))
	}
	poll()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	t.Cleanup(func() {
		stop()
		<-served
	})
	b.Exec("UPDATE user_addresses SET seen_at = now() - interval '29 days'")
	late.Add(1)
	poll() // the visit is not stored again within a day
	if got := age(); got < 28*24*time.Hour {
		t.Errorf("the visit was stored again after an hour")
	}
	for range 2 {
		late.Add(25)
		poll()
		apptest.Eventually(t, "the visit is stored again", func() bool { return age() < 24*time.Hour })
		b.Exec("UPDATE user_addresses SET seen_at = now() - interval '29 days'")
	}
}
