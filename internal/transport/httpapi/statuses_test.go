package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lksms/gen/idempotencyq"
	"lksms/internal/testkit/apptest"
)

// For each operation, at least one test must receive each status in the contract. `make test` lists the statuses that no test received. The tests of this
// file receive the statuses that all operations share.

// callOperation calls an operation of apptest.Operations.
func callOperation(b *apptest.Bundle, id string, headers ...string) apptest.Answer {
	b.T.Helper()
	o := apptest.Operations[id]
	body, headers := o.Content(headers...)
	return b.Call(o.Method, o.Path, body, headers...)
}

// expectOfAll calls every operation for which the contract contains status, and fails the test unless the response has this status.
func expectOfAll(b *apptest.Bundle, status int, call func(id string) apptest.Answer) {
	b.T.Helper()
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		b.T.Fatal(err)
	}
	for _, methods := range contract.Paths {
		for _, raw := range methods {
			var o struct {
				OperationID string
				Responses   map[string]json.RawMessage
			}
			if json.Unmarshal(raw, &o) != nil || o.Responses[fmt.Sprint(status)] == nil || o.OperationID == "takeCallback" && status < 500 {
				continue // callbacks are checked less strictly
			}
			if a := call(o.OperationID); a.Status != status {
				b.T.Errorf("%s: %d, want %d: %s", o.OperationID, a.Status, status, a.Raw)
			}
		}
	}
}

func TestBadRequestsGetStatusesOfContract(t *testing.T) {
	b := apptest.New(t)
	raw := func(id, body string, headers ...string) apptest.Answer {
		o := apptest.Operations[id]
		_, headers = o.Content(headers...)
		return b.Call(o.Method, o.Path, body, headers...)
	}
	for id := range apptest.Operations { // includes operations without a body: each response is checked against the contract
		raw(id, strings.Repeat("[", 100))
		raw(id, `{"a":"`+strings.Repeat("x", 2<<20)+`"}`)
	}
	expectOfAll(b, http.StatusBadRequest, func(id string) apptest.Answer { return raw(id, `{"a":`) })
	expectOfAll(b, http.StatusUnsupportedMediaType, func(id string) apptest.Answer { return raw(id, `{}`, "Content-Type", "text/csv") })
	expectOfAll(b, http.StatusRequestEntityTooLarge, func(id string) apptest.Answer {
		if o := apptest.Operations[id]; o.Media() == apptest.FormType {
			boundary, _, _ := strings.Cut(o.Body, "\r\n")
			return raw(id, boundary+"\r\nX: "+strings.Repeat("x", 9<<20))
		}
		return raw(id, `{"a":"`+strings.Repeat("x", 9<<20)+`"}`)
	})
	expectOfAll(b, http.StatusUnprocessableEntity, func(id string) apptest.Answer {
		o := apptest.Operations[id]
		sign := "?"
		if strings.Contains(o.Path, "?") {
			sign = "&"
		}
		return b.Call(o.Method, o.Path+sign+"colour=1", nil)
	})
}

func TestRejectedCallersGetStatusesOfContract(t *testing.T) {
	b := apptest.New(t)
	expectOfAll(b, http.StatusUnauthorized, func(id string) apptest.Answer { return callOperation(b, id, "Authorization", "") })
	users := map[string][]string{}
	for _, role := range []string{"submit", "send", "read"} {
		users[role] = b.AddUser("role-"+role, role, nil)
	}
	expectOfAll(b, http.StatusForbidden, func(id string) apptest.Answer {
		for role, headers := range users {
			if id != "createSession" && !strings.Contains(" "+apptest.Operations[id].Roles+" ", " "+role+" ") {
				return callOperation(b, id, headers...)
			}
		}
		return callOperation(b, id, "Sec-Fetch-Site", "cross-site") // these credentials are allowed to call all operations
	})
	guesses := 0
	guess := func() []string {
		guesses++
		return apptest.Basic("role-read", fmt.Sprint("wrong", guesses))
	}
	for range 6 { // one more than the server checks without a delay
		callOperation(b, "listTasks", guess()...)
	}
	expectOfAll(b, http.StatusTooManyRequests, func(id string) apptest.Answer {
		if id == "createSession" { // the credentials are in the body
			guesses++
			return b.Call("POST", "/api/v1/session", map[string]string{"username": "role-read", "password": fmt.Sprint("wrong", guesses)}, "Authorization", "")
		}
		a := callOperation(b, id, guess()...)
		if a.Status == http.StatusUnauthorized { // the delay had just ended and is now twice as long
			a = callOperation(b, id, guess()...)
		}
		return a
	})
}

// First the schema of the database is missing, and then the database is unreachable.
func TestDatabaseErrorsGetStatusesOfContract(t *testing.T) {
	b := apptest.New(t)
	stranger := apptest.Basic("stranger", "password") // an unknown user, which requires a query
	each := func() {
		for id := range apptest.Operations {
			callOperation(b, id, stranger...)
		}
	}
	b.Exec("ALTER SCHEMA public RENAME TO elsewhere")
	each()
	expectOfAll(b, http.StatusInternalServerError, func(id string) apptest.Answer { return callOperation(b, id, stranger...) })
	b.App.DB.Close()
	each()
	expectOfAll(b, http.StatusServiceUnavailable, func(id string) apptest.Answer { return callOperation(b, id, stranger...) })
}

// An operation with an Idempotency-Key returns 409 while another request with the same key is in progress.
func TestConcurrentRequestWithSameKeyIsRejected(t *testing.T) {
	b := apptest.New(t)
	bodies := map[string]string{ // valid according to the contract
		"createCompany": `{"company_no":"c","name":"c"}`, "createChannel": `{"channel":"c","name":"c"}`,
		"createCountry": `{"country_no":"c","name":"c","dial_prefix":"1"}`, "createSender": `{"sender_no":"s","name":"s"}`,
		"createRoute":   `{"company_no":"default","message_type":"notification","sender_no":"s"}`,
		"changeBalance": `{"change":1}`,
	}
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, methods := range contract.Paths {
		for method, raw := range methods {
			var o struct {
				OperationID string
				Parameters  []map[string]any
			}
			if json.Unmarshal(raw, &o) != nil || !slices.ContainsFunc(o.Parameters, func(p map[string]any) bool { return fmt.Sprint(p["$ref"]) == "#/components/parameters/IdempotencyKey" }) {
				continue
			}
			calls++
			free, err := idempotencyq.New(tx).IdempotencyLock(t.Context(), idempotencyq.IdempotencyLockParams{
				Username: apptest.Username, Operation: strings.ToUpper(method) + " " + apptest.Operations[o.OperationID].Path, Key: "key",
			})
			if err != nil || !free {
				t.Fatalf("%t %v", free, err)
			}
			body, headers := apptest.Operations[o.OperationID].Content(apptest.KeyHeader, "key")
			if valid := bodies[o.OperationID]; valid != "" {
				body = valid
			}
			b.Expect(http.StatusConflict, "idempotency.in_flight", apptest.Operations[o.OperationID].Method, apptest.Operations[o.OperationID].Path, body, headers...)
		}
	}
	if calls != 29 {
		t.Errorf("%d operations take a key", calls)
	}
}

func TestUnknownResourcesAreAnsweredWith404(t *testing.T) {
	b := apptest.New(t)
	b.Expect(404, "company.not_found", "PUT", "/api/v1/admin/contacts", `{"company_no":"none","contacts":[{"user_id":"u"}]}`)
	b.Expect(404, "channel.not_found", "PUT", "/api/v1/admin/notification-templates/1/none", `{"title":"t","content":"c"}`)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", `{"register_unknown_senders":false}`)
	b.Expect(404, "company.not_found", "GET", "/api/v1/received?company_no=none", nil)
	for _, path := range []string{"/api/v1/blocks", "/api/v1/blocks/export.csv", "/api/v1/conversations"} {
		b.Expect(404, "company.not_found", "GET", path+"?company_no=none", nil)
	}
	b.Expect(404, "company.not_found", "POST", "/api/v1/blocks", `{"company_no":"none","phone_number":"13800138000","scope":"all"}`)
	list := apptest.Form("file", "blocks.csv", "phone_number\n13800138000\n", "scope", "all", "company_no", "none")
	b.Expect(404, "company.not_found", "POST", "/api/v1/blocks/import", list, "Content-Type", apptest.FormType)
	for _, id := range []string{"claimTasks", "claimTasksNow", "exchangeTasks", "appClaimTasks", "receiveMessages"} {
		if a := callOperation(b, id); a.Status != 404 || a.Body.Error.Reason != "sender.not_found" {
			t.Errorf("%s: %s", id, a.Raw)
		}
	}
}
