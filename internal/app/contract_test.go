package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lksms/gen/dbq"
)

// Every status that the contract has for an operation is the answer to something. TestMain looks for those that no test saw; what all
// operations have in common is called for here.

// do calls an operation of the table.
func (b *testBundle) do(id string, headers ...string) answer {
	b.t.Helper()
	o := operations[id]
	var body any
	if o.body != "" {
		body = o.body
	}
	return b.call(o.method, o.path, body, headers...)
}

// all calls every operation that has a status in the contract, and sees that status.
func (b *testBundle) all(status int, call func(id string) answer) {
	b.t.Helper()
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.call("GET", "/openapi.json", nil).raw), &contract); err != nil {
		b.t.Fatal(err)
	}
	for _, methods := range contract.Paths {
		for _, raw := range methods {
			var o struct {
				OperationID string
				Responses   map[string]json.RawMessage
			}
			if json.Unmarshal(raw, &o) != nil || o.Responses[fmt.Sprint(status)] == nil || o.OperationID == "takeCallback" && status < 500 {
				continue // a provider calls as it likes
			}
			if a := call(o.OperationID); a.status != status {
				b.t.Errorf("%s: %d, want %d: %s", o.OperationID, a.status, status, a.raw)
			}
		}
	}
}

func TestEveryOperationAnswersBadRequestsAsTheContractSays(t *testing.T) {
	b := setup(t)
	raw := func(id, body string, headers ...string) answer {
		o := operations[id]
		return b.call(o.method, o.path, body, headers...)
	}
	for id := range operations { // also those that have no body: what they answer is held against the contract
		raw(id, strings.Repeat("[", 100))
		raw(id, `{"a":"`+strings.Repeat("x", 2<<20)+`"}`)
	}
	b.all(http.StatusBadRequest, func(id string) answer { return raw(id, `{"a":`) })
	b.all(http.StatusUnsupportedMediaType, func(id string) answer { return raw(id, `{}`, "Content-Type", "text/csv") })
	b.all(http.StatusRequestEntityTooLarge, func(id string) answer { return raw(id, `{"a":"`+strings.Repeat("x", 9<<20)+`"}`) })
	b.all(http.StatusUnprocessableEntity, func(id string) answer {
		o := operations[id]
		sign := "?"
		if strings.Contains(o.path, "?") {
			sign = "&"
		}
		return b.call(o.method, o.path+sign+"colour=1", nil)
	})
}

func TestEveryOperationAnswersStrangersAsTheContractSays(t *testing.T) {
	b := setup(t)
	b.all(http.StatusUnauthorized, func(id string) answer { return b.do(id, "Authorization", "") })
	users := map[string][]string{}
	for _, role := range []string{"submit", "send", "read"} {
		users[role] = b.user("role-"+role, role, nil)
	}
	b.all(http.StatusForbidden, func(id string) answer {
		for role, headers := range users {
			if !strings.Contains(" "+operations[id].roles+" ", " "+role+" ") {
				return b.do(id, headers...)
			}
		}
		return b.do(id)
	})
	guesses := 0
	guess := func() []string {
		guesses++
		return basic("role-read", fmt.Sprint("wrong", guesses))
	}
	for range 6 { // one more than is free
		b.do("listTasks", guess()...)
	}
	b.all(http.StatusTooManyRequests, func(id string) answer {
		a := b.do(id, guess()...)
		if a.status == http.StatusUnauthorized { // the wait was just over, and is twice as long now
			a = b.do(id, guess()...)
		}
		return a
	})
}

// A database that is not there, and one that is not as it should be.
func TestEveryOperationAnswersATroubledDatabaseAsTheContractSays(t *testing.T) {
	b := setup(t)
	stranger := basic("stranger", "password") // who has to be looked up
	each := func() {
		for id := range operations {
			b.do(id, stranger...)
		}
	}
	b.exec("ALTER SCHEMA public RENAME TO elsewhere")
	each()
	b.all(http.StatusInternalServerError, func(id string) answer { return b.do(id, stranger...) })
	b.app.DB.Close()
	each()
	b.all(http.StatusServiceUnavailable, func(id string) answer { return b.do(id, stranger...) })
}

// What takes an Idempotency-Key answers 409 while another request works under it.
func TestEveryOperationWithAKeyAnswersThatItIsInFlight(t *testing.T) {
	b := setup(t)
	bodies := map[string]string{ // that keep to the contract
		"createCompany": `{"company_no":"c","name":"c"}`, "createChannel": `{"channel":"c","name":"c"}`,
		"createCountry": `{"country_no":"c","name":"c","dial_prefix":"1"}`, "createSender": `{"sender_no":"s","name":"s"}`,
		"createRoute":   `{"company_no":"default","message_type":"notification","sender_no":"s"}`,
		"changeBalance": `{"change":1}`,
	}
	tx, err := b.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.call("GET", "/openapi.json", nil).raw), &contract); err != nil {
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
			free, err := dbq.New(tx).IdempotencyLock(t.Context(), dbq.IdempotencyLockParams{
				Username: username, Operation: strings.ToUpper(method) + " " + operations[o.OperationID].path, Key: "key",
			})
			if err != nil || !free {
				t.Fatalf("%t %v", free, err)
			}
			body := bodies[o.OperationID]
			if body == "" {
				body = operations[o.OperationID].body
			}
			b.expect(http.StatusConflict, "idempotency.in_flight", operations[o.OperationID].method, operations[o.OperationID].path, body, keyHeader, "key")
		}
	}
	if calls != 13 {
		t.Errorf("%d operations take a key", calls)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	b := setup(t)
	b.expect(404, "company.not_found", "PUT", "/api/v1/admin/contacts", `{"company_no":"none","contacts":[{"user_id":"u"}]}`)
	b.expect(404, "channel.not_found", "PUT", "/api/v1/admin/notification-templates/1/none", `{"title":"t","content":"c"}`)
	b.expect(200, "", "PUT", "/api/v1/admin/settings/queue", `{"register_unknown_senders":false}`)
	for _, id := range []string{"claimTasks", "claimTasksNow", "appClaimTasks"} {
		if a := b.do(id); a.status != 404 || a.body.Error.Reason != "sender.not_found" {
			t.Errorf("%s: %s", id, a.raw)
		}
	}
}
