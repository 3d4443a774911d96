// Package manual serves the documents as web pages. Errors contain links to these pages.
package manual

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Prefix is the path below which the pages are served. The path of a page ends with the name of its document.
const Prefix = "/docs/manual/"

// Chinese is the folder of the documents in Chinese.
const Chinese = "zh-CN/"

// Handler serves the documents below Prefix. It serves Markdown documents as web pages, and other files unchanged. If no document has the requested name,
// notFound answers the request. fail writes an error response.
func Handler(documents fs.FS, notFound http.Handler, fail func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	pages := sync.OnceValues(func() (map[string][]byte, error) { return render(documents) })
	files := http.StripPrefix(Prefix, http.FileServerFS(documents))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := pages()
		if err != nil {
			fail(w, r, err)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, Prefix)
		if name == "" || name == Chinese {
			name += "README.md"
		}
		if page, isPage := all[name]; isPage {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(page) // the write fails only if the client disconnected
			return
		}
		if !isFile(documents, name) {
			notFound.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
}

func isFile(documents fs.FS, name string) bool {
	info, err := fs.Stat(documents, name)
	return err == nil && info.Mode().IsRegular()
}

// document is a parsed document.
type document struct {
	name    string
	source  []byte
	root    ast.Node
	heads   []*ast.Heading
	anchors []string // anchors of the headings, in the form that GitHub creates
}

// render returns the web page of each Markdown document, by document name. Sections of a Chinese document have the anchors of the English document.
func render(files fs.FS) (map[string][]byte, error) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table))
	documents := map[string]*document{}
	err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		source, err := fs.ReadFile(files, name)
		if err == nil {
			documents[name] = parse(markdown, name, source)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	pages := map[string][]byte{}
	for name, d := range documents {
		for i, head := range d.heads {
			head.SetAttributeString("id", []byte(idOf(documents, name, d.anchors[i])))
		}
		d.followLinks(files, documents)
		if pages[name], err = d.page(markdown); err != nil {
			return nil, fmt.Errorf("write page %s: %w", name, err)
		}
	}
	return pages, nil
}

func parse(markdown goldmark.Markdown, name string, source []byte) *document {
	d := &document{name: name, source: source, root: markdown.Parser().Parse(text.NewReader(source))}
	count := map[string]int{}
	for node := d.root.FirstChild(); node != nil; node = node.NextSibling() {
		head, isHead := node.(*ast.Heading)
		if !isHead {
			continue
		}
		anchor := anchorOf(textOf(head, source))
		count[anchor]++
		if n := count[anchor]; n > 1 {
			anchor += "-" + strconv.Itoa(n-1)
		}
		d.heads, d.anchors = append(d.heads, head), append(d.anchors, anchor)
	}
	return d
}

// anchorOf returns the anchor that GitHub creates for a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func textOf(node ast.Node, source []byte) string {
	var all strings.Builder
	_ = ast.Walk(node, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) { // the function returns no error
		if t, isText := n.(*ast.Text); isText && isEntering {
			all.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return all.String()
}

// idOf returns the HTML id of the section of a document with the given anchor.
func idOf(documents map[string]*document, name, anchor string) string {
	d := documents[name]
	english := documents[strings.TrimPrefix(name, Chinese)]
	if d == nil || english == nil || len(english.anchors) != len(d.anchors) {
		return anchor
	}
	for i, own := range d.anchors {
		if own == anchor {
			return english.anchors[i]
		}
	}
	return anchor
}

// followLinks changes links to sections so that they use the ids of the sections, and removes links to files that are not served.
func (d *document) followLinks(files fs.FS, documents map[string]*document) {
	var lost []*ast.Link
	_ = ast.Walk(d.root, func(n ast.Node, isEntering bool) (ast.WalkStatus, error) { // the function returns no error
		link, isLink := n.(*ast.Link)
		if !isLink || !isEntering || bytes.Contains(link.Destination, []byte(":")) {
			return ast.WalkContinue, nil
		}
		file, anchor, hasAnchor := strings.Cut(string(link.Destination), "#")
		target := d.name
		if file != "" {
			target = path.Join(path.Dir(d.name), file)
		}
		switch {
		case !isFile(files, target):
			lost = append(lost, link)
		case hasAnchor:
			link.Destination = []byte(file + "#" + idOf(documents, target, anchor))
		}
		return ast.WalkContinue, nil
	})
	for _, link := range lost {
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			link.Parent().InsertBefore(link.Parent(), link, child)
		}
		link.Parent().RemoveChild(link.Parent(), link)
	}
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Language}}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}} · LKSMS</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem }
pre { overflow-x: auto; padding: .75rem; background: #8882 }
code { font-size: .9em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border: 1px solid #8886; padding: .25rem .5rem; text-align: left; vertical-align: top }
img { max-width: 100% }
:target { background: #fc06 }
</style>
</head>
<body>
<p><a href="{{.Index}}">LKSMS</a></p>
{{.Content}}</body>
</html>
`))

func (d *document) page(markdown goldmark.Markdown) ([]byte, error) {
	var content, page bytes.Buffer
	if err := markdown.Renderer().Render(&content, d.source, d.root); err != nil {
		return nil, err
	}
	language, title := "en", ""
	if strings.HasPrefix(d.name, Chinese) {
		language = "zh-CN"
	}
	if len(d.heads) > 0 {
		title = textOf(d.heads[0], d.source)
	}
	index := "README.md" // the index of the other documents in the folder
	if depth := strings.Count(strings.TrimPrefix(d.name, Chinese), "/"); depth > 0 {
		index = strings.Repeat("../", depth) + index
	}
	err := layout.Execute(&page, map[string]any{
		"Language": language, "Title": title, "Index": index,
		"Content": template.HTML(content.String()), //nolint:gosec // made of a document of this program
	})
	return page.Bytes(), err
}
