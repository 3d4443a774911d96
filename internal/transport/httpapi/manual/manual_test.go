package manual

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"lksms/docs"
	"lksms/internal/platform/fault"
)

func TestEveryReasonHasAPageInEachLanguage(t *testing.T) {
	t.Parallel()
	pages, err := render(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range fault.Reasons {
		name, anchor, _ := strings.Cut(reason.Page(), "#")
		if name == "" || anchor == "" {
			t.Errorf("%s has no page: %q", reason, reason.Page())
			continue
		}
		for _, page := range []string{name, Chinese + name} {
			if !strings.Contains(string(pages[page]), ` id="`+anchor+`"`) {
				t.Errorf("%s is explained in %s, which has no section %s", reason, page, anchor)
			}
		}
	}
}

func TestDocumentsAreServedAsPages(t *testing.T) {
	t.Parallel()
	handler := Handler(fstest.MapFS{
		"README.md":       {Data: []byte("# Documents\n")},
		"a.md":            {Data: []byte("# A `b`!\n\n[Two](lab/c.md#two), [code](../main.go), [away](https://example.com/x.md#y), [up](#a-b)\n\n| x |\n|---|\n| <b> |\n")},
		"zh-CN/README.md": {Data: []byte("# 文档\n")},
		"zh-CN/a.md":      {Data: []byte("# 甲\n\n[上](#甲) [英](../a.md#a-b)\n")},
		"lab/c.md":        {Data: []byte("# C\n\n## Two\n\n## Two\n")},
		"lab/x.json":      {Data: []byte("{}")},
	}, http.NotFoundHandler(), func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) })
	get := func(name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Prefix+name, nil))
		return w
	}
	for name, wants := range map[string][]string{
		"": {"<h1 id=\"documents\">"},
		"a.md": {
			`<html lang="en">`, `<title>A b! · LKSMS</title>`, `<h1 id="a-b">A <code>b</code>!</h1>`, `<a href="lab/c.md#two">Two</a>, code, <a href="https://example.com/x.md#y">`,
			`<a href="#a-b">`, `<table>`,
		},
		"zh-CN/":     {`<html lang="zh-CN">`, `文档`},
		"zh-CN/a.md": {`<h1 id="a-b">甲</h1>`, `<a href="#a-b">上</a>`, `<a href="../a.md#a-b">英</a>`, `<a href="README.md">`},
		"lab/c.md":   {`<h2 id="two">`, `<h2 id="two-1">`, `<a href="../README.md">`},
		"lab/x.json": {"{}"},
	} {
		w := get(name)
		for _, want := range wants {
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d lacks %s in\n%s", name, w.Code, want, w.Body)
			}
		}
	}
	if page := get("a.md").Body.String(); strings.Contains(page, "<b>") {
		t.Errorf("HTML of a document is not left out:\n%s", page)
	}
	for _, name := range []string{"lab", "lab/", "no.md", "lab/../../go.mod"} {
		if w := get(name); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d\n%s", name, w.Code, w.Body)
		}
	}
}
