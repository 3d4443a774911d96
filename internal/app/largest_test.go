package app_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
	"lksms/internal/testkit/apptest"
)

// The cost of a request is limited to a multiple of its length plus a base, because even a message of ten letters needs a response and a row.
const (
	answerTimes, answerBase = 4, 64 << 10 // bytes of the response
	storedTimes, storedBase = 12, 2 << 20 // bytes in the database, with indexes; a table grows by pages
	answerPerItem           = 600         // bytes of the response, for each item of a batch
)

// known returns values for fields that refer to an object, or that must have a form that the schema does not require.
func known() map[string]any {
	soon := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	return map[string]any{
		"phone_number": "+8613800138000", "company_no": "nobody", "companies": []any{"nobody"}, "countries": []any{"nobody"},
		"country": "nobody", "kind": "app", "channel": "oa", "channels": []any{"oa"}, "expect_send_time": soon, "expires_at": nil,
		"next_run_time": soon, "in_time": soon, "out_time": soon, "started_at": soon, "senders": []any{map[string]any{"sender_no": "nobody"}},
		"sender_no": "nobody", "time_zone": "Asia/Shanghai", "use_template": false, "role": "submit", "event": "orbit_plan", "password": "a long password",
		// The largest request uses a text, so template_no, params and language are null. A template request leaves is_active null, and its translations use no
		// placeholders.
		"template_no": nil, "params": nil, "language": nil, "is_active": nil, "translations": map[string]any{"en": strings.Repeat("€", 1024)},
		"config": nil, "wait": nil, "version": nil, "phone": "+8613800138000", "finished_at": soon, "retry_minutes": nil, "dial_prefix": "86", "parent": nil,
		"any_country": nil, "countries_off": nil, // the request contains countries, which exclude these fields
	}
}

// largest returns the largest value that a schema allows. If the schema has no limits, it returns a large value.
func largest(schema *openapi3.Schema, depth int) any {
	switch {
	case len(schema.AllOf) > 0:
		whole := map[string]any{}
		for _, part := range schema.AllOf {
			if object, ok := largest(part.Value, depth).(map[string]any); ok {
				maps.Copy(whole, object)
			}
		}
		return whole
	case len(schema.OneOf) > 0:
		return largest(schema.OneOf[0].Value, depth)
	case len(schema.Enum) > 0:
		return schema.Enum[len(schema.Enum)-1]
	case schema.Type.Is("boolean"):
		return true
	case schema.Type.Is("integer"), schema.Type.Is("number"):
		if schema.Max != nil {
			return *schema.Max
		}
		return 1 << 30
	case schema.Type.Is("array"):
		most := uint64(200)
		if schema.MaxItems != nil {
			most = *schema.MaxItems
		}
		items := make([]any, most)
		for i := range items {
			items[i] = different(largest(schema.Items.Value, depth+1), i)
		}
		if schema.UniqueItems && len(schema.Items.Value.Enum) > 0 {
			return slices.Clone(schema.Items.Value.Enum)
		}
		return items
	case schema.Type.Is("string"):
		return longest(schema)
	}
	object := map[string]any{}
	for name, property := range schema.Properties {
		value, isKnown := known()[name]
		switch {
		case property.Value.ReadOnly, isKnown && value == nil:
		case isKnown:
			object[name] = value
		default:
			object[name] = largest(property.Value, depth+1)
		}
	}
	switch any := schema.AdditionalProperties.Schema; {
	case len(schema.Properties) > 0 || depth == 0:
	case any != nil:
		object["k"] = largest(any.Value, depth+1)
	default: // an object with any members
		object["k"] = strings.Repeat("值", 5000)
	}
	return object
}

// different makes the texts of a list different, because many lists reject duplicates.
func different(value any, i int) any {
	if text, ok := value.(string); ok && len(text) > 12 && !strings.Contains(text, "€") && strings.Trim(text, text[:1]) == "" {
		number := []byte("000000")
		for at := len(number) - 1; i > 0; at, i = at-1, i/10 {
			number[at] += byte(i % 10)
		}
		return text[len(number):] + string(number)
	}
	return value
}

// longest returns a text that takes as many bytes as the schema allows.
func longest(schema *openapi3.Schema) string {
	most := uint64(2000)
	if schema.MaxLength != nil {
		most = *schema.MaxLength
	}
	for _, letter := range []string{"€", "a", "1", "{x}", "/"} {
		if text := strings.Repeat(letter, int(most)/len([]rune(letter))); schema.VisitJSON(text) == nil {
			return text
		}
	}
	for _, text := range []string{"2030-01-01T00:00:00Z", "+8613800138000", "09:30", "09:30-10:30", "Asia/Shanghai", "2030-01-01"} {
		if schema.VisitJSON(text) == nil {
			return text
		}
	}
	if text, ok := schema.Example.(string); ok {
		return text
	}
	return "x"
}

// fitting encodes a value in at most maxBytes. It halves the longest lists until the body fits.
func fitting(value any, maxBytes int) []byte {
	for {
		body, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		if len(body) <= maxBytes || !halve(value) {
			return body
		}
	}
}

// halve halves the longest list in value. It returns false if value contains no list.
func halve(value any) bool {
	var longest []any
	var set func([]any)
	var visit func(value any)
	visit = func(value any) {
		object, _ := value.(map[string]any)
		for name, member := range object {
			if list, ok := member.([]any); ok && len(list) > len(longest) && len(list) > 1 {
				longest, set = list, func(shorter []any) { object[name] = shorter }
			}
			visit(member)
		}
	}
	visit(value)
	if set == nil {
		return false
	}
	set(longest[:len(longest)/2])
	return true
}

// For every operation, the response and the stored rows are at most a small multiple of the largest request that the contract allows.
func TestResponsesAndRowsOfTheLargestBodiesAreBounded(t *testing.T) {
	b := apptest.New(t)
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range [][2]string{
		{"companies", `{"company_no":"nobody","name":"x"}`}, {"countries", `{"country_no":"nobody","name":"x","dial_prefix":"86"}`},
		{"channels", `{"channel":"nobody","name":"x"}`}, {"senders", `{"sender_no":"nobody","name":"x","balance":10}`},
		{"users", `{"username":"nobody","role":"submit"}`},
	} {
		b.Expect(200, "", "POST", "/api/v1/admin/"+o[0], o[1])
	}
	accepted := 0
	for _, id := range slices.Sorted(maps.Keys(apptest.Operations)) {
		o := apptest.Operations[id]
		item := spec.Paths.Find(patternOf(spec, o.Method, o.Path))
		if item == nil || item.GetOperation(o.Method) == nil || item.GetOperation(o.Method).RequestBody == nil {
			continue
		}
		content := item.GetOperation(o.Method).RequestBody.Value.Content.Get("application/json")
		if content == nil || content.Schema == nil {
			continue
		}
		most, items := 1<<20, 0
		if strings.HasSuffix(o.Path, "-batch") || id == "receiveMessages" {
			most, items = 8<<20, 1000
		}
		value := largest(content.Schema.Value, 0)
		if object, ok := value.(map[string]any); ok && strings.HasPrefix(id, "create") {
			for _, name := range []string{"channel", "country_no", "sender_no", "username"} {
				if id != "createRoute" && object[name] != nil {
					object[name] = "another"
				}
			}
			switch id {
			case "createCompany":
				object["company_no"] = "another"
			case "createNotifications":
				delete(object, "tag") // used instead of user_ids
			}
		}
		if object, ok := value.(map[string]any); ok && object["inbox_company_no"] != nil {
			object["inbox_company_no"] = "nobody" // a company that exists
		}
		if object, ok := value.(map[string]any); ok && object["sign"] != nil {
			delete(object, "sign_mode") // sign_mode can forbid the signature
		}
		body := fitting(value, most)
		before := b.Count("SELECT pg_database_size(current_database())")
		w, _ := b.Serve(o.Method, o.Path, string(body), apptest.Basic(apptest.Username, apptest.Password)...)
		stored := b.Count("SELECT pg_database_size(current_database())") - before
		if w.Code == http.StatusOK {
			accepted++
		}
		if limit := answerBase + answerTimes*len(body) + answerPerItem*items; w.Body.Len() > limit {
			t.Errorf("%s: %d with an answer of %d bytes to a body of %d", id, w.Code, w.Body.Len(), len(body))
		}
		if stored > storedBase+storedTimes*len(body) {
			t.Errorf("%s: %d stores %d bytes for a body of %d", id, w.Code, stored, len(body))
		}
		if w.Code >= 500 {
			t.Errorf("%s: %d %.300s", id, w.Code, w.Body)
		}
		t.Logf("%-30s %d: %7d bytes, answer %7d, stored %8d %.120s", id, w.Code, len(body), w.Body.Len(), stored, w.Body)
	}
	if accepted < 20 { // a rejected request costs little
		t.Errorf("only %d requests were accepted", accepted)
	}
}

// patternOf returns the path of the contract, such as /tasks/{task_id}, that matches the path of a URL. If several paths match, it returns the path with the
// fewest parameters.
func patternOf(spec *openapi3.T, method, address string) string {
	address, _, _ = strings.Cut(address, "?")
	best := ""
	for pattern, item := range spec.Paths.Map() {
		if item.GetOperation(method) == nil {
			continue
		}
		want, got := strings.Split(pattern, "/"), strings.Split(address, "/")
		if len(want) == len(got) && !slices.ContainsFunc(slices.Collect(maps.Keys(indexed(want))), func(i int) bool {
			return !strings.HasPrefix(want[i], "{") && want[i] != got[i]
		}) && (best == "" || strings.Count(pattern, "{") < strings.Count(best, "{")) {
			best = pattern
		}
	}
	return best
}

func indexed(list []string) map[int]string {
	m := map[int]string{}
	for i, s := range list {
		m[i] = s
	}
	return m
}
