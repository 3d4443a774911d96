package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/contracttest"
)

// FuzzRequest sends any path, query, key and body to every operation of a complete server. The response matches the contract, has a limited size, and its status
// is never 5xx.
func FuzzRequest(f *testing.F) {
	b := apptest.Open(f, apptest.DefaultRules, func(o *app.Options) {
		apptest.WithSecrets(o)
		o.Log = slog.New(slog.DiscardHandler) // the log of millions of requests would fill the memory
	})
	for path, body := range map[string]string{
		"/api/v1/admin/template":    `{"template_name":"n","template_content":"{code} {name}"}`,
		"/api/v1/admin/default-sms": `{"phone_number":"13800138000","content":"x"}`,
		"/api/v1/admin/senders":     `{"sender_no":"s","name":"s"}`,
		"/api/v1/notifications":     `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{"a":1},"user_ids":["u"],"next_run_time":"2030-01-01T00:00:00Z"}`,
	} {
		b.Call("POST", path, body)
	}
	all, err := contracttest.Operations()
	if err != nil {
		f.Fatal(err)
	}
	const media = "application/json"
	for _, o := range all {
		f.Add(o.ID, "1", "limit=1&status=0&app_id=a&biz_type=0&biz_ids=1", "", "", []byte{})
		f.Add(o.ID, "\xff", "cursor=AA&created_from=2023-12-01T00:00:00Z&company_no=default", "", apptest.Operations[o.ID].Media(), []byte(apptest.Operations[o.ID].Body))
		for _, body := range o.Bodies {
			f.Add(o.ID, "s", "", "", media, body)
			f.Add(o.ID, "1/oa", "dry_run=true", "key-1", media, body)
		}
	}
	f.Add("sendSms", "", "", "", media, []byte(`{"phone_number":"13800138000","content":"code=1&name=2","use_template":true}`))
	f.Add("sendSms", "", "", "", media, []byte(`{"phone_number":"13800138000","template_no":"t","params":{"code":1,"name":"x"},"language":"zh-TW"}`))
	f.Add("previewTemplate", "1", "", "", media, []byte(`{"params":"1;2","message_type":"marketing"}`))
	f.Add("sendSms", "", "", "key-2", media+"; charset=utf-8", []byte(`{"phone_number":"+86 138-0013-8000","content":"x","dedup_key":"k","source":"s"}`))
	f.Add("reportTask", "", "", "", media, []byte(`{"task_id":"t","app_id":"a","status":3,"should_retry":true,"lease_id":1,"retry_after_seconds":0}`))
	f.Add("sendSmsBatch", "", "", "key-3", media, []byte(`{"messages":[{"phone_number":"13800138000","content":"x"},{"phone_number":1},1]}`))
	f.Add("reportTasks", "", "", "", media, []byte(`{"reports":[{"task_id":"t","app_id":"a","status":2,"lease_id":1},{"status":9}]}`))
	f.Add("exchangeTasks", "", "", "", media, []byte(`{"app_id":"a","reports":[{"task_id":"t","app_id":"a","status":2,"lease_id":1},{"status":9}],"limit":1}`))
	f.Add("listTasks", "", "status=0&cursor=dGFza1__&created_from=2023-12-01T00:00:00Z", "", "", []byte{})
	f.Add("updateDefaultContent", "1", "", "", "AppliCAtion/json", []byte(`{"content":"\ud83d\ude00"}`))
	f.Add("updateTemplate", "1", "", "", media, []byte(`{"is_active":null}`))
	f.Add("takeCallback", "s", "a=1", "", "json", []byte(`{"id":1}`))
	f.Add("deleteKey", "admin/99999999999999999999", "", "", "", []byte{})
	f.Add("createSender", "", "", "", media, []byte(`{"sender_no":"o","name":"o","channel":"oa","kind":"oa","config":{"url":"http://x","secret":"sealed:"}}`))
	f.Fuzz(func(t *testing.T, id, path, query, key, contentType string, body []byte) {
		o := contracttest.Pick(all, id)
		if strings.HasPrefix(o.Path, "/api/v1/admin/users") && bytes.Contains(body, []byte("password")) {
			return // hashing a password takes a hundred milliseconds
		}
		if o.ID == "streamOverview" {
			return // this operation needs a real connection
		}
		if strings.Contains(query, "wait") || bytes.Contains(body, []byte("wait")) {
			return // this request could wait
		}
		r, err := http.NewRequestWithContext(t.Context(), o.Method, "http://localhost"+o.Target(path, query), bytes.NewReader(body))
		if err != nil {
			return // not a valid request
		}
		r.RemoteAddr, r.RequestURI = "127.0.0.1:1", r.URL.RequestURI()
		r.SetBasicAuth(apptest.Username, apptest.Password)
		r.Header["Content-Type"] = []string{contentType}
		if key != "" {
			r.Header["Idempotency-Key"] = []string{key}
		}
		w := httptest.NewRecorder()
		b.App.Handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d: %s", r.Method, r.URL, w.Code, w.Body)
		}
		isRedirect := w.Code >= 300 && w.Code < 400 // redirects an address with dots to the address without dots
		if err := contracttest.Check(r, w.Code, w.Header(), w.Body.Bytes()); err != nil && !isRedirect {
			t.Error(err)
		}
		var envelope struct{ Code int }
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && (json.Unmarshal(w.Body.Bytes(), &envelope) != nil || envelope.Code != w.Code) {
			t.Errorf("%s %s: %d answers %s", r.Method, r.URL, w.Code, w.Body)
		}
		if limit := maxAnswer(o, w.Code, len(r.URL.RequestURI())+len(key)+len(contentType), body); w.Body.Len() > limit {
			t.Errorf("%s %s: an answer of %d bytes, want at most %d", r.Method, r.URL, w.Body.Len(), limit)
		}
	})
}

// maxAnswer returns the maximum size of a response in bytes.
func maxAnswer(o contracttest.Operation, status, headers int, body []byte) int {
	limit := contracttest.MaxAnswer(headers + len(body))
	isClaim := slices.Contains([]string{"claimTasks", "claimTasksNow", "exchangeTasks", "appClaimTasks"}, o.ID)
	switch {
	case status == http.StatusOK && (o.Method == http.MethodGet || isClaim):
		return 8 << 20 // a page can contain rows of other requests
	case status == http.StatusOK && slices.Contains([]string{"sendSmsBatch", "reportTasks", "receiveMessages"}, o.ID):
		return limit + 1024*(1+bytes.Count(body, []byte(","))) // each item has its own outcome
	default:
		return limit
	}
}
