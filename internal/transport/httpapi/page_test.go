package httpapi_test

import (
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

func TestAnErrorLinksToItsPageOfTheManual(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*app.Options)
		language string
		want     string
		title    string // title in the page; empty: the server serves no page
	}{
		"in English":                  {func(*app.Options) {}, "en", "/docs/manual/sending.md#follow-a-task", `<h2 id="follow-a-task">Follow a task</h2>`},
		"in Chinese":                  {func(*app.Options) {}, "zh", "/docs/manual/zh-CN/sending.md#follow-a-task", `<h2 id="follow-a-task">`},
		"below a base path":           {func(o *app.Options) { o.BasePath = "/lksms" }, "en", "/lksms/docs/manual/sending.md#follow-a-task", `<h2 id="follow-a-task">`},
		"of a server without a page":  {func(o *app.Options) { o.EnableDocs = false }, "en", "docs/sending.md#follow-a-task", ""},
		"of such a server in Chinese": {func(o *app.Options) { o.EnableDocs = false }, "zh", "docs/sending.md#follow-a-task", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, c.change)
			a := b.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/task_x", nil, "Accept-Language", c.language)
			if !strings.Contains(a.Raw, `"docs":"`+c.want+`"`) {
				t.Fatalf("the answer lacks %s: %s", c.want, a.Raw)
			}
			if c.title == "" {
				b.Expect(404, "route.not_found", "GET", "/docs/manual/sending.md", nil)
				return
			}
			page, _, _ := strings.Cut(c.want, "#")
			got := b.Call("GET", page, nil, "Authorization", "")
			if got.Status != 200 || !strings.Contains(got.Raw, c.title) || !strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "default-src 'self'; ") {
				t.Errorf("the page: %d %s", got.Status, got.Header)
			}
		})
	}
}

// A page of documents can be named without the slash at its end, also below a base path.
func TestPagesOfTheManualAreFoundWithoutTrailingSlash(t *testing.T) {
	for name, base := range map[string]string{"at the root": "", "below a base path": "/lksms"} {
		t.Run(name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.BasePath = base })
			for _, page := range []string{"/docs", "/docs/manual", "/docs/manual/zh-CN"} {
				got := b.Call("GET", base+page, nil, "Authorization", "")
				if got.Status != 302 || got.Header.Get("Location") != base+page+"/" {
					t.Errorf("%s: %d %s", base+page, got.Status, got.Header.Get("Location"))
				}
				if got = b.Call("GET", base+page+"/", nil, "Authorization", ""); got.Status != 200 {
					t.Errorf("%s/: %d", base+page, got.Status)
				}
			}
		})
	}
}
