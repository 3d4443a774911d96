package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzRequest sends anything to any operation. Whatever comes, the answer is an envelope, and never a 5xx.
func FuzzRequest(f *testing.F) {
	b := newBundle(f, defaultRules, nil)
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"{code} {name}"}`)
	f.Add("POST", "/api/v1/sms/send", "", "application/json", []byte(`{"phone_number":"13800138000","content":"code=1&name=2","use_template":true}`))
	f.Add("POST", "/api/v1/sms/send", "key-1", "application/json", []byte(`{"phone_number":"+86 138-0013-8000","content":"x","dedup_key":"k","source":"s"}`))
	f.Add("POST", "/api/v1/sms/report", "", "application/json", []byte(`{"task_id":"t","app_id":"a","status":3,"should_retry":true,"lease_id":1,"retry_after_seconds":0}`))
	f.Add("POST", "/api/v1/sms/send-batch", "", "application/json", []byte(`{"messages":[{"phone_number":"13800138000","content":"x"},{"phone_number":1}]}`))
	f.Add("POST", "/api/v1/sms/report-batch", "", "application/json", []byte(`{"reports":[{"task_id":"t","app_id":"a","status":2,"lease_id":1},{"status":9}]}`))
	f.Add("POST", "/api/v1/sms/tasks/claim", "", "application/json", []byte(`{"app_id":"a","limit":1000}`))
	f.Add("GET", "/api/v1/sms/tasks/pending?app_id=a&limit=1", "", "", []byte{})
	f.Add("GET", "/api/v1/sms/tasks?status=0&cursor=AA&created_from=2023-12-01T00:00:00Z", "", "", []byte{})
	f.Add("POST", "/api/v1/admin/default-sms", "", "application/json; charset=utf-8", []byte(`{"phone_number":"13800138000","content":"x"}`))
	f.Add("PATCH", "/api/v1/admin/default-sms/1", "", "application/json", []byte(`{"content":"\ud83d\ude00"}`))
	f.Add("PATCH", "/api/v1/admin/template/1", "", "application/json", []byte(`{"is_active":null}`))
	f.Add("POST", "/api/v1/sms/task/t/cancel", "", "", []byte{})
	f.Add("DELETE", "/api/v1/admin/users/admin/keys/99999999999999999999", "", "", []byte{})
	for _, o := range operations {
		f.Add(o.method, o.path, "", "application/json", []byte(o.body))
	}
	f.Fuzz(func(t *testing.T, method, target, key, contentType string, body []byte) {
		if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/api/v1/admin/users") && method == http.MethodPost {
			return // not an address; or a password to hash for a hundred milliseconds
		}
		if strings.Contains(target, "wait") || bytes.Contains(body, []byte("wait")) {
			return // it might
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+target, bytes.NewReader(body))
		if err != nil {
			return // no request
		}
		r.RemoteAddr, r.RequestURI = "127.0.0.1:1", r.URL.RequestURI()
		r.SetBasicAuth(username, password)
		r.Header["Idempotency-Key"], r.Header["Content-Type"] = []string{key}, []string{contentType}
		if key == "" {
			r.Header.Del("Idempotency-Key")
		}
		w := httptest.NewRecorder()
		b.app.Handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
		var envelope struct{ Code int }
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && r.URL.Path != "/openapi.json" && method != http.MethodHead &&
			(json.Unmarshal(w.Body.Bytes(), &envelope) != nil || envelope.Code != w.Code) {
			t.Errorf("%d answers %s", w.Code, w.Body)
		}
	})
}
