package driver

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
)

// FuzzNew creates a driver for any configuration. Every error must be a fault that names the wrong field.
func FuzzNew(f *testing.F) {
	f.Add("http-sms", []byte(`{"url":"http://x/${content}","headers":{"a":"${values.b}"},"values":{"b":"c"},"format":"form","body":{"a":[1]},"answer":{"pattern":"(?P<a>.)"}}`))
	f.Add("email", []byte(`{"host":"x","from":"\"a\" <a@b.example>","port":65536,"timeoutSeconds":1e-9}`))
	f.Add("oa", []byte(`{"url":"https://[::1]:0/%zz","secret":"whsec_!"}`))
	f.Add("wechat", []byte(`{"baseUrl":"http://x","appId":"a","appSecret":"s","lang":1}`))
	f.Add("dingtalk", []byte(`{"baseUrl":"http://x","agentId":"a","corpId":"c","answer":{"equals":[]}}`))
	f.Add("log", []byte(`{"a\u0000":1}`))
	kinds := Kinds()
	f.Fuzz(func(t *testing.T, kind string, config []byte) {
		if len(kinds) > 0 && Secrets(kind) == nil {
			kind = kinds[len(kind)%len(kinds)]
		}
		_, err := New(kind, config, provider.Tools{Log: slog.New(slog.DiscardHandler)})
		var expected *fault.Error
		if err != nil && !errors.As(err, &expected) {
			t.Errorf("not a fault: %v", err)
		}
	})
}

// FuzzHTTPRequest builds a request with any text in every place that allows a template. The text must not change other parts of the request.
func FuzzHTTPRequest(f *testing.F) {
	made, err := New("http-sms", []byte(`{"url":"https://provider.example/v1/${recipient}/send?a=${content}&b=1","query":{"q":"${content}"},"headers":{"X-Text":"${content}"},
		"body":{"text":"${content}","to":["${recipient}"],"${content}":1}}`), provider.Tools{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	d, ok := made.(*httpSMS)
	if !ok {
		f.Fatalf("a %T", made)
	}
	for _, seed := range []string{"你好", "a\r\nX-Evil: 1", `","to":["x`, "&b=2#", "../..", "${values.x}", "@evil.example/", "%2F%00", "?", "\xff"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, content, recipient string) {
		req, err := d.request(t.Context(), provider.Message{Content: content, Recipient: recipient})
		if err != nil {
			return
		}
		if req.URL.Scheme != "https" || req.URL.Host != "provider.example" || req.URL.User != nil || strings.Count(req.URL.EscapedPath(), "/") != 3 {
			t.Errorf("the URL is %s", req.URL)
		}
		query, err := url.ParseQuery(req.URL.RawQuery)
		if err != nil || len(query) != 3 || query.Get("q") != content || query.Get("a") != content || query.Get("b") != "1" {
			t.Errorf("the query is %q, %v", query, err)
		}
		if header := req.Header.Get("X-Text"); header != content || strings.ContainsAny(header, "\r\n\x00") || len(req.Header) != 2 {
			t.Errorf("the headers are %q", req.Header)
		}
		body, err := io.ReadAll(req.Body)
		var said map[string]any
		if err == nil {
			err = json.Unmarshal(body, &said)
		}
		if list, _ := said["to"].([]any); err != nil || len(said) != 3 || len(list) != 1 || utf8.ValidString(content) && said["text"] != content {
			t.Errorf("the body is %s, %v", body, err)
		}
	})
}
