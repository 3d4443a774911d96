package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func get(t *testing.T, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestConsoleFilesAreServedWithCacheHeaders(t *testing.T) {
	t.Parallel()
	page, script := "<!doctype html><title>x</title>", strings.Repeat("f();\n", 1000)
	files, err := read(fstest.MapFS{
		"index.html": {Data: []byte(page)}, "assets/main-1a2b.js": {Data: []byte(script)}, "favicon.svg": {Data: []byte("<svg/>")},
		"assets/a.bin": {Data: []byte("x")},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := handler(files, "")
	const forever = "public, max-age=31536000, immutable"
	for path, want := range map[string]struct {
		status            int
		kind, cache, body string
	}{
		"/console/":                    {200, "text/html; charset=utf-8", "no-cache", page},
		"/console/index.html":          {200, "text/html; charset=utf-8", "no-cache", page},
		"/console/senders/phone.7":     {200, "text/html; charset=utf-8", "no-cache", page},
		"/console/../../etc/passwd":    {200, "text/html; charset=utf-8", "no-cache", page},
		"/console/assets/main-1a2b.js": {200, "text/javascript; charset=utf-8", forever, script},
		"/console/favicon.svg":         {200, "image/svg+xml", "no-cache", "<svg/>"},
		"/console/assets/a.bin":        {200, "application/octet-stream", forever, "x"},
		"/console/assets/old.js":       {404, "text/plain; charset=utf-8", "no-store", "404 page not found\n"},
		"/console/assets/":             {404, "text/plain; charset=utf-8", "no-store", "404 page not found\n"},
	} {
		w := get(t, h, path)
		header := w.Header()
		if w.Code != want.status || header.Get("Content-Type") != want.kind || header.Get("Cache-Control") != want.cache || w.Body.String() != want.body ||
			header.Get("Content-Encoding") != "" || header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d %v %.100s", path, w.Code, header, w.Body)
		}
		if want.status != 200 {
			continue
		}
		if again := get(t, h, path, "If-None-Match", header.Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s again: %d", path, again.Code)
		}
		if other := get(t, h, path, "If-None-Match", `"x"`); other.Code != 200 {
			t.Errorf("%s of another version: %d", path, other.Code)
		}
	}
	for accepted, isGzipped := range map[string]bool{
		"gzip": true, "gzip, deflate, br, zstd": true, "br;q=1.0, GZIP;q=0.8": true, "br": false, "gzip;q=0": false, "gzip;q=x": false, "": false, "gzipped": false,
	} {
		w := get(t, h, "/console/assets/main-1a2b.js", "Accept-Encoding", accepted)
		body := w.Body.Bytes()
		if (w.Header().Get("Content-Encoding") == "gzip") != isGzipped || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v", accepted, w.Header())
		}
		if isGzipped {
			unzipped, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(unzipped); err != nil {
				t.Fatal(err)
			}
			if plain := get(t, h, "/console/assets/main-1a2b.js"); plain.Header().Get("ETag") == w.Header().Get("ETag") {
				t.Error("two encodings have the same ETag")
			}
		}
		if string(body) != script {
			t.Errorf("%q: %.100s", accepted, body)
		}
	}
	if w := get(t, h, "/console/", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a short file is compressed")
	}
	if _, err := read(fstest.MapFS{"assets/main.js": {Data: []byte(script)}}); err == nil {
		t.Error("a console without a page is served")
	}
}

// The policy forbids inline scripts and styles, so the embedded page must not contain them.
func TestConsolePageObeysContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	h, err := Handler("")
	if err != nil {
		t.Fatal(err)
	}
	page := get(t, h, Prefix).Body.String()
	for _, inline := range []string{`<script(\s[^>]*)?>[^<]`, `<style`, `\sstyle=`, `\son\w+=`, `javascript:`, `(src|href)="(https?:)?//`} {
		if found := regexp.MustCompile(inline).FindString(page); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, asset := range regexp.MustCompile(`(?:src|href)="(/console/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if w := get(t, h, asset[1]); w.Code != 200 || strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s", asset[1], w.Code, w.Header().Get("Content-Type"))
		}
	}
}
