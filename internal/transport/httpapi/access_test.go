package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

func TestEveryOperationAllowsOnlyTheRolesOfTheContract(t *testing.T) {
	b := apptest.New(t)
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		t.Fatal(err)
	}
	for path, methods := range contract.Paths {
		for method, raw := range methods {
			var o struct{ OperationID string }
			if method != "parameters" && json.Unmarshal(raw, &o) == nil {
				if _, ok := apptest.Operations[o.OperationID]; !ok {
					t.Errorf("%s %s (%s) is in the contract and not in this table", method, path, o.OperationID)
				}
			}
		}
	}
	callers := map[string][]string{"": {"Authorization", ""}, "admin": nil, "wrong": apptest.Basic("r-read", "not the password")}
	for _, role := range []string{"submit", "send", "read"} {
		callers[role] = b.AddUser("r-"+role, role, nil)
	}
	callers["other admin"] = b.AddUser("r-admin", "admin", nil)
	callers["disabled"] = b.AddUser("r-disabled", "admin", nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/r-disabled", `{"is_disabled":true}`)
	for id, o := range apptest.Operations {
		for role, headers := range callers {
			if role == "wrong" && id != "listTasks" { // one wrong password is enough: after several wrong passwords, the server delays all further requests
				continue
			}
			body, headers := o.Content(headers...)
			a := b.Call(o.Method, o.Path, body, headers...)
			got := "in"
			switch a.Status {
			case 401, 403:
				got = fmt.Sprint(a.Status)
			}
			want := "in"
			switch {
			case o.Roles == "callback": // only a provider's own credentials are accepted
				want = "403"
			case o.Roles == "password": // the password in the body is wrong
				want = "401"
			case o.Roles == "public" || strings.HasSuffix(role, "admin") || slices.Contains(strings.Fields(o.Roles), role):
			case role == "" || role == "wrong" || role == "disabled":
				want = "401"
			default:
				want = "403"
			}
			if role == "disabled" && a.Status == 429 { // requests of a disabled user count as wrong passwords
				got = "401"
			}
			if got != want {
				t.Errorf("%s as %q: %s, want %s: %s", id, role, got, want, a.Raw)
			}
		}
	}
}

// Every operation either uses a query parameter or rejects it.
func TestUndeclaredQueryParametersAreRejected(t *testing.T) {
	b := apptest.New(t)
	for id, o := range apptest.Operations {
		if o.Roles == "callback" { // providers can add parameters
			continue
		}
		sep := "?"
		if strings.Contains(o.Path, "?") {
			sep = "&"
		}
		body, headers := o.Content()
		a := b.Call(o.Method, o.Path+sep+"page=2&Limit=1&%00=", body, headers...)
		named := strings.Split(a.Fields(), ",") // the response can also name fields of the invalid body
		for _, field := range []string{"", "Limit", "page"} {
			if a.Status != 422 || !slices.Contains(named, field) {
				t.Errorf("%s: %d, fields %q: %s", id, a.Status, a.Fields(), a.Raw)
			}
		}
	}
	if n := b.Count("SELECT count(*) FROM tasks") + b.Count("SELECT count(*) FROM users") + b.Count("SELECT count(*) FROM contacts"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	if a := b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/contacts?company_no=default", `{"contacts":[{"user_id":"u"}]}`); a.Fields() != "company_no" {
		t.Errorf("wrong fields %q", a.Fields())
	}
	b.Expect(200, "", "GET", "/api/v1/admin/contacts?company_no=default", nil)
	b.Expect(404, "contact.not_found", "GET", "/api/v1/admin/contacts/u?company_no=default", nil)
	for _, query := range []string{"limit=1;status=0", "limit=%zz"} {
		if a := b.Expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?"+query, nil); a.Fields() != "query" {
			t.Errorf("%s: wrong fields %q", query, a.Fields())
		}
	}
}
