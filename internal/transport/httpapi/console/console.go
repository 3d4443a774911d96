// Package console serves the web console from the binary. Its files are public and contain no data of the service.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"lksms/web"
)

// Prefix is the path of the console.
const Prefix = "/console/"

// policy allows the console to load its own files and to call this server, and nothing else. Inline scripts are blocked.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	index = "index.html"

	// named is the folder of files whose names contain a hash of their content.
	named = "assets/"

	// worthwhile is the minimum size in bytes of a file that is compressed.
	worthwhile = 1024
)

// types contains the media types of the console's files. The package mime would use the types configured on the machine.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon", ".jpg": "image/jpeg", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json", ".woff": "font/woff", ".woff2": "font/woff2",
}

// file is one file of the console, ready to be served.
type file struct {
	kind    string
	sum     string // hash of the content
	plain   []byte
	gzipped func() []byte // returns nil if compression does not make the file smaller
	isNamed bool
}

// Handler returns the handler of the embedded console for paths with Prefix. Browsers request the console at basePath + Prefix.
func Handler(basePath string) (http.Handler, error) {
	files, err := embedded()
	if err != nil {
		return nil, err
	}
	return handler(files, basePath), nil
}

var embedded = sync.OnceValues(func() (map[string]*file, error) {
	dist, err := fs.Sub(web.Dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	return read(dist)
})

// read reads all files and returns them by path.
func read(dist fs.FS) (map[string]*file, error) {
	files := map[string]*file{}
	err := fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dist, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		kind := types[path.Ext(name)]
		if kind == "" {
			kind = "application/octet-stream"
		}
		files[name] = newFile(kind, content)
		files[name].isNamed = strings.HasPrefix(name, named)
		return nil
	})
	if err == nil && files[index] == nil {
		err = fmt.Errorf("%s is missing", index)
	}
	if err != nil {
		return nil, fmt.Errorf("read console: %w", err)
	}
	return files, nil
}

func newFile(kind string, content []byte) *file {
	sum := sha256.Sum256(content)
	return &file{
		kind: kind, sum: base64.RawURLEncoding.EncodeToString(sum[:12]), plain: content,
		gzipped: sync.OnceValue(func() []byte { return compress(content) }),
	}
}

// compress returns content compressed with gzip. It returns nil if the compression saves less than 10 %.
func compress(content []byte) []byte {
	if len(content) < worthwhile {
		return nil
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, _ = w.Write(content) // a write to a buffer never returns an error
		err = w.Close()
	}
	if err != nil || out.Len() > len(content)*9/10 { // images and fonts are compressed already
		return nil
	}
	return out.Bytes()
}

// handler serves files. For any other path it serves the page of the console, whose script chooses the content. The page is served under many paths, so it
// refers to its files by absolute paths. Other files use relative paths.
func handler(files map[string]*file, basePath string) http.Handler {
	page := newFile(files[index].kind, bytes.ReplaceAll(files[index].plain, []byte(`="./`), []byte(`="`+basePath+Prefix)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, Prefix)
		f := files[name]
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		switch {
		case f != nil && f.isNamed:
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
		case strings.HasPrefix(name, named): // the file belongs to another version; with the page as the answer, the browser would cache the page as the script
			header.Set("Cache-Control", "no-store")
			http.NotFound(w, r)
			return
		default: // browsers ask for a new version with each request
			header.Set("Cache-Control", "no-cache")
		}
		if f == nil || name == index {
			f = page
		}
		f.serve(w, r)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	header, content, tag := w.Header(), f.plain, f.sum
	header.Set("Content-Type", f.kind)
	header.Set("Vary", "Accept-Encoding")
	if gzipped := f.gzipped(); gzipped != nil && acceptsGzip(r) {
		content, tag = gzipped, f.sum+"-gzip"
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, isWeighed := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !isWeighed || err == nil && q > 0
	}
	return false
}
