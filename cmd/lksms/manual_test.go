package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"lksms/internal/testkit/pgtest"
)

// manualPages contains the pages of the manual, with the maximum number of words of the English page.
var manualPages = map[string]int{
	"start": 1300, "sending": 2237, "senders": 2361, "dispatch": 2713, "channels": 3701, "carriers": 750, "batches": 2438, "templates": 1030, "codes": 1090,
	"webhooks": 1760, "receiving": 2260, "integrations": 3600, "console": 1955, "operations": 3530, "security": 2000, "clients": 1430, "settings": 2310,
}

const (
	manualWords   = 36300 // maximum number of words of all English pages together
	repository    = "../.."
	manualAddress = "127.0.0.1:8000" // address of the reader's server in the pages
	manualLimit   = 10 * time.Minute // time limit for the examples of one page
)

// TestTheExamplesOfTheManualWork runs the examples of each page of the manual, and compares the Chinese page with the English page.
//
// Each block sh of an English page is run. Each block go or ts is a part of a program in programs, which other tests run. All blocks of a page run in one bash, against a separate server. A block json directly after a block sh is the
// response of the last command in the block sh. Each field of the block json must exist in the response with the same type.
func TestTheExamplesOfTheManualWork(t *testing.T) {
	t.Parallel()
	total := 0
	for name, budget := range manualPages {
		english, chinese := filepath.Join(repository, "docs", name+".md"), filepath.Join(repository, "docs", "zh-CN", name+".md")
		page := readManual(t, english)
		words := len(strings.Fields(page.text))
		total += words
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if words > budget {
				t.Errorf("the page has %d words, at most %d", words, budget)
			}
			translated := readManual(t, chinese)
			comparePages(t, page, translated)
			page.checkPrograms(t)
			translated.checkPrograms(t)
			page.run(t)
		})
	}
	if total > manualWords {
		t.Errorf("the English pages have %d words together, at most %d", total, manualWords)
	}
}

// manualPage is a page of the manual.
type manualPage struct {
	text     string
	blocks   []manualBlock
	headings []string // headings with their # characters
	tables   []int    // number of rows of each table
}

// manualBlock is a fenced block.
type manualBlock struct {
	language, text string
	line           int  // number of its first line in the page
	isNext         bool // only blank lines separate it from the previous block
}

func (b manualBlock) isRun() bool { return b.language == "sh" }

var fence = regexp.MustCompile("^ *```(.*)$")

func readManual(t *testing.T, file string) manualPage {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page, err := parseManual(string(content))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return page
}

func parseManual(text string) (page manualPage, err error) {
	page.text = text
	inside, isNext, rows := false, false, 0
	endTable := func() {
		if rows > 0 {
			page.tables = append(page.tables, rows)
		}
		rows = 0
	}
	for i, line := range strings.Split(text, "\n") {
		mark := fence.FindStringSubmatch(line)
		last := len(page.blocks) - 1
		switch {
		case inside && mark != nil && mark[1] == "":
			inside, isNext = false, true
		case inside:
			page.blocks[last].text += line + "\n"
		case mark != nil:
			endTable()
			page.blocks = append(page.blocks, manualBlock{language: mark[1], line: i + 2, isNext: isNext})
			inside = true
		default:
			if strings.HasPrefix(line, "|") {
				rows++
			} else {
				endTable()
			}
			if strings.HasPrefix(line, "#") {
				page.headings = append(page.headings, line)
			}
			isNext = isNext && strings.TrimSpace(line) == ""
		}
	}
	endTable()
	if inside {
		return page, fmt.Errorf("the block in line %d has no end", page.blocks[len(page.blocks)-1].line)
	}
	return page, nil
}

// comparePages fails t unless two pages have the same headings, tables and blocks in the same order. Blocks that are run, and their responses, must have the
// same text apart from comments.
func comparePages(t *testing.T, english, chinese manualPage) {
	t.Helper()
	level := func(heading string) string {
		return heading[:strings.IndexFunc(heading+" ", func(r rune) bool { return r != '#' })]
	}
	levels := func(page manualPage) (all []string) {
		for _, heading := range page.headings {
			all = append(all, level(heading))
		}
		return all
	}
	if e, c := levels(english), levels(chinese); !slices.Equal(e, c) {
		t.Errorf("the Chinese page has other sections:\n%s\nand the English page\n%s", strings.Join(chinese.headings, "\n"), strings.Join(english.headings, "\n"))
	}
	if !slices.Equal(english.tables, chinese.tables) {
		t.Errorf("the tables of the Chinese page have %v lines, of the English page %v", chinese.tables, english.tables)
	}
	for i := range max(len(english.blocks), len(chinese.blocks)) {
		switch {
		case i >= len(chinese.blocks):
			t.Fatalf("the Chinese page lacks the block %s of line %d:\n%s", english.blocks[i].language, english.blocks[i].line, english.blocks[i].text)
		case i >= len(english.blocks):
			t.Fatalf("the English page lacks the block %s of line %d:\n%s", chinese.blocks[i].language, chinese.blocks[i].line, chinese.blocks[i].text)
		}
		e, c := english.blocks[i], chinese.blocks[i]
		if e.language != c.language {
			t.Fatalf("the Chinese page has a block %s in line %d, the English page a block %s in line %d", c.language, c.line, e.language, e.line)
		}
		if (e.isRun() || e.language == "json") && withoutComments(e.text) != withoutComments(c.text) {
			t.Errorf("the Chinese block of line %d differs from the English one of line %d:\n%s\nand\n%s", c.line, e.line, c.text, e.text)
		}
	}
}

var shellComment = regexp.MustCompile(`(?m)(^|[ \t]+)#.*$`)

func withoutComments(text string) string { return shellComment.ReplaceAllString(text, "") }

// programs contains the file of the tests that run the blocks of a language.
var programs = map[string]string{"go": "client/example_test.go", "ts": "clients/typescript/test/server/main.test.ts"}

// checkPrograms fails t unless each block of a language in programs is a part of its file.
func (page manualPage) checkPrograms(t *testing.T) {
	t.Helper()
	for _, b := range page.blocks {
		file := programs[b.language]
		if file == "" {
			continue
		}
		program, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(program), b.text) {
			t.Errorf("line %d: %s lacks the block:\n%s", b.line, file, b.text)
		}
	}
}

// run runs the examples of the page.
func (page manualPage) run(t *testing.T) {
	page.checkBlocks(t)
	folder, outputs, tools := pgtest.Dir(t), pgtest.Dir(t), pgtest.Dir(t)
	docs, err := filepath.Abs(filepath.Join(repository, "docs"))
	if err == nil {
		err = os.Symlink(docs, filepath.Join(folder, "docs")) // a page can use a file of docs/providers, as readers do in the repository
	}
	if err == nil {
		err = os.Symlink(binary, filepath.Join(tools, "lksms"))
	}
	if err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"DATABASE_URL=" + pgtest.New(t), "LKSMS_DATA=" + pgtest.Dir(t), "HISTORY_DIR=" + pgtest.Dir(t),
		"SECRETS_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)),
	}
	server := serve(t, append(settings, "ENABLE_KANNEL=true", "PLATFORM_URL=https://console.example.com")...)
	client := server.client()
	eventually(t, "the server is listed", func() bool { // pages list the servers, and a script is faster than a human reader
		listed, err := client.ListServersWithResponse(t.Context())
		return err == nil && listed.JSON200 != nil && len(listed.JSON200.Data.Items) > 0
	})
	host := strings.TrimPrefix(server.url, "http://")
	ctx, cancel := context.WithTimeout(t.Context(), manualLimit)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", page.script(host, outputs))
	bash.Dir = folder
	bash.Env = environment(append(settings, "LKSMS_URL="+server.url, "LKSMS_USER=admin", "LKSMS_PASSWORD="+testPassword,
		"HOME="+folder, "PATH="+tools+":"+os.Getenv("PATH"), "no_proxy=*")...)
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kill then also ends the programs that the page starts in the background
	kill := func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.Cancel, bash.WaitDelay = kill, time.Second
	failed := bash.Run()
	if bash.Process != nil {
		_ = kill() // no process is allowed to remain
	}
	page.checkOutputs(t, outputs, failed)
}

// checkBlocks fails t if the page has no block sh, or if a block json does not follow a block sh. It skips t if a program that the page uses is missing.
func (page manualPage) checkBlocks(t *testing.T) {
	t.Helper()
	runs := 0
	for i, b := range page.blocks {
		switch {
		case b.isRun():
			runs++
		case b.language == "json" && (!b.isNext || i == 0 || !page.blocks[i-1].isRun()):
			t.Errorf("line %d: a block json is the answer of the block sh directly before it: call it text", b.line)
		}
	}
	if runs == 0 {
		t.Fatal("the page has no block sh")
	}
	for _, program := range []string{"bash", "curl", "jq", "psql"} {
		if _, err := exec.LookPath(program); err != nil && regexp.MustCompile(`\b`+program+`\b`).MatchString(page.text+" bash") {
			t.Skipf("%s is not installed", program)
		}
	}
}

// script returns the blocks of the page as one script for a server. The output of each block goes to separate files.
func (page manualPage) script(host, outputs string) string {
	var script strings.Builder
	script.WriteString("set -Eeuo pipefail\n")
	for i, b := range page.blocks {
		if b.isRun() {
			text := strings.ReplaceAll(b.text, manualAddress, host)
			text = regexp.MustCompile(`\bPASSWORD\b`).ReplaceAllLiteralString(text, testPassword)
			fmt.Fprintf(&script, "exec >%[1]s/%[2]d.out 2>%[1]s/%[2]d.err\n%[3]s\n", outputs, i, text)
		}
	}
	return script.String()
}

// checkOutputs fails t if bash failed, or if the output of a block differs from the documented response.
func (page manualPage) checkOutputs(t *testing.T, outputs string, failed error) {
	t.Helper()
	for i, b := range page.blocks {
		if !b.isRun() {
			continue
		}
		out, err := os.ReadFile(filepath.Join(outputs, strconv.Itoa(i)+".out"))
		if err != nil {
			break // an earlier block ended the script
		}
		errors, _ := os.ReadFile(filepath.Join(outputs, strconv.Itoa(i)+".err"))
		isLast := failed != nil && page.isLastRun(i, outputs)
		var answer string
		if i+1 < len(page.blocks) && page.blocks[i+1].language == "json" && page.blocks[i+1].isNext {
			answer = page.blocks[i+1].text
		}
		err = checkOutput(string(out), answer)
		if isLast {
			err = fmt.Errorf("bash ended: %w", failed)
		}
		if err != nil {
			t.Errorf("line %d: %v\n%s\nstandard output:\n%s\nstandard error:\n%s", b.line, err, b.text, out, errors)
		}
	}
	if failed != nil && !t.Failed() {
		t.Errorf("bash ended: %v", failed)
	}
}

// isLastRun reports whether block i is the last block that ran: the next block has no output.
func (page manualPage) isLastRun(i int, outputs string) bool {
	next := slices.IndexFunc(page.blocks[i+1:], manualBlock.isRun)
	if next < 0 {
		return true
	}
	_, err := os.Stat(filepath.Join(outputs, strconv.Itoa(i+1+next)+".out"))
	return err != nil
}

var errorAnswer = regexp.MustCompile(`"code":\s*([45]\d\d)\b`)

// checkOutput compares the last JSON value of an output with a documented response. If documented is empty, any response without an error is correct.
func checkOutput(out, documented string) error {
	want := any(nil)
	if documented != "" {
		if err := json.Unmarshal([]byte(documented), &want); err != nil {
			return fmt.Errorf("the documented answer: %w", err)
		}
	}
	if found := errorAnswer.FindStringSubmatch(out); found != nil && !strings.Contains(strings.ReplaceAll(documented, " ", ""), `"code":`+found[1]) {
		return fmt.Errorf("a request was answered with %s", found[1])
	}
	if documented == "" {
		return nil
	}
	got, found := lastJSON(out)
	if !found {
		return fmt.Errorf("the output has no JSON to compare with %s", documented)
	}
	return compareJSON("", want, got)
}

// lastJSON returns the last JSON value of a text that ends with JSON values.
func lastJSON(text string) (last any, found bool) {
	for _, start := range regexp.MustCompile(`(?m)^[{\["]`).FindAllStringIndex(text, -1) {
		decoder := json.NewDecoder(strings.NewReader(text[start[0]:]))
		for {
			var value any
			err := decoder.Decode(&value)
			if err == io.EOF {
				return last, found
			}
			if err != nil {
				break
			}
			last, found = value, true
		}
	}
	return nil, false
}

// compareJSON returns an error if a field of want is missing in got, or has another type there. The first element of a list in want describes all elements. A
// null in want matches any type. The values of code and reason must be equal in errors.
func compareJSON(at string, want, got any) error {
	switch want := want.(type) {
	case nil:
		return nil
	case map[string]any:
		object, isObject := got.(map[string]any)
		if !isObject {
			return fmt.Errorf("%s is %v in the answer, not an object", at, got)
		}
		for name, value := range want {
			real, exists := object[name]
			if !exists {
				return fmt.Errorf("the answer has no field %s.%s: %v", at, name, object)
			}
			if err := compareJSON(at+"."+name, value, real); err != nil {
				return err
			}
			if (at == "" && name == "code" || at == ".error" && name == "reason") && fmt.Sprint(value) != fmt.Sprint(real) {
				return fmt.Errorf("%s.%s is %v in the answer, not %v", at, name, real, value)
			}
		}
		return nil
	case []any:
		list, isList := got.([]any)
		switch {
		case !isList:
			return fmt.Errorf("%s is %v in the answer, not a list", at, got)
		case len(want) == 0:
			return nil
		case len(list) == 0:
			return fmt.Errorf("%s is empty in the answer", at)
		}
		return compareJSON(at+"[0]", want[0], list[0])
	}
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		return fmt.Errorf("%s is %v in the answer, of another type than %v", at, got, want)
	}
	return nil
}

// TestLinksOfDocumentsExist follows each relative link of a document. It also follows each mention of a page of docs/ in code, errors, scripts and
// settings.
func TestLinksOfDocumentsExist(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	all := documents{root: root, anchors: map[string][]string{}}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "node_modules", "dist", "testdata", "bin", "migrations":
				return filepath.SkipDir
			}
			return nil
		}
		shown, _ := filepath.Rel(root, file)
		if file == filepath.Join(root, "CHANGELOG.md") || file == filepath.Join(root, "db", "schema.sql") || entry.Name() == "manual_test.go" || !entry.Type().IsRegular() {
			return nil // these files can mention pages that no longer exist
		}
		links, err := all.linksIn(file, entry)
		if err != nil {
			return err
		}
		for _, link := range links {
			if err := all.exists(link[0], link[1]); err != nil {
				target, _ := filepath.Rel(root, link[0])
				t.Errorf("%s links to %s, which %v", shown, target, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// documents checks the links to the documents of the repository.
type documents struct {
	root    string
	anchors map[string][]string // anchors of each document that was read
}

// exists returns an error if a file or its section does not exist in the repository.
func (d documents) exists(file, anchor string) error {
	if !strings.HasPrefix(file, d.root) {
		return fmt.Errorf("is outside of the repository")
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("does not exist")
	}
	if anchor == "" || filepath.Ext(file) != ".md" {
		return nil
	}
	if d.anchors[file] == nil {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		d.anchors[file] = append(anchorsOf(string(content)), "")
	}
	if !slices.Contains(d.anchors[file], anchor) {
		return fmt.Errorf("has no section #%s", anchor)
	}
	return nil
}

// linksIn returns the file and the anchor of each relative link of a document, or of each mention of a page of docs/ in another file.
func (d documents) linksIn(file string, entry fs.DirEntry) (links [][2]string, err error) {
	switch path.Ext(entry.Name()) {
	case ".md":
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, link := range linksOf(string(content)) {
			if link[0] == "" {
				links = append(links, [2]string{file, link[1]})
			} else {
				links = append(links, [2]string{filepath.Join(filepath.Dir(file), link[0]), link[1]})
			}
		}
	case ".go", ".vue", ".ts", ".yaml", ".yml", ".sh", ".cfg", ".json", ".sql", ".env", ".example", ".service", ".toml", "":
		if info, err := entry.Info(); err != nil || info.Size() > 2<<20 {
			return nil, err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, link := range mention.FindAllStringSubmatch(string(content), -1) {
			page := link[1]
			if served, isAddress := strings.CutPrefix(page, "manual/"); isAddress { // the page belongs to a server: Chinese pages have the anchors of English pages
				page = strings.TrimPrefix(served, "zh-CN/")
			}
			links = append(links, [2]string{filepath.Join(d.root, "docs", page), link[2]})
		}
	}
	return links, nil
}

var (
	mention    = regexp.MustCompile(`\bdocs/((?:[\w-]+/)*[\w-]+\.md)(?:#([\p{L}\p{N}_-]+))?`)
	link       = regexp.MustCompile(`\]\(([^()\s]+)(?: "[^"]*")?\)`)
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	htmlAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// linksOf returns the path and the anchor of each relative link of a document.
func linksOf(text string) (links [][2]string) {
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if fence.MatchString(line) {
			inside = !inside
		}
		if inside {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			if regexp.MustCompile(`^[a-z]+:`).MatchString(found[1]) {
				continue // the link is a URL
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			links = append(links, [2]string{file, anchor})
		}
	}
	return links
}

// anchorsOf returns the anchors of the headings of a document, as GitHub creates them.
func anchorsOf(text string) (all []string) {
	for _, found := range htmlAnchor.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	page, err := parseManual(text)
	if err != nil {
		return all
	}
	count := map[string]int{}
	for _, heading := range page.headings {
		heading = linkText.ReplaceAllString(strings.TrimSpace(strings.TrimLeft(heading, "#")), "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading)
		count[anchor]++
		if n := count[anchor]; n > 1 {
			anchor += "-" + strconv.Itoa(n-1)
		}
		all = append(all, anchor)
	}
	return all
}

func TestTheCheckOfManualExamplesFindsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ out, documented, want string }{
		{"", "", ""},
		{"text\n{\"a\":1}{\"code\":200,\"data\":{\"id\":\"x\"}}", `{"code":200,"data":{"id":"y"}}`, ""},
		{`{"code":200}`, `{"code":200,"data":1}`, "no field .data"},
		{`{"data":"1"}`, `{"data":1}`, "another type"},
		{`{"data":[]}`, `{"data":[{"a":1}]}`, "empty"},
		{`{"data":[{"a":1},{}]}`, `{"data":[{"a":2}]}`, ""},
		{`{"code":422,"error":{"reason":"a"}}`, "", "answered with 422"},
		{`{"code":422,"error":{"reason":"a"}}`, `{"code":422,"error":{"reason":"a"}}`, ""},
		{`{"code":422,"error":{"reason":"a"}}`, `{"code":422,"error":{"reason":"b"}}`, "not b"},
		{"none", `{}`, "no JSON"},
	} {
		err := checkOutput(c.out, c.documented)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.out, c.documented, err, c.want)
		}
	}
	page, err := parseManual("# A b\n\n```sh\ncurl x # c\n```\n\n```json\n{}\n```\ntext [x](y.md#z) `[no](n.md)`\n```json\n{}\n```\n\n| a |\n|---|\n## `C`, d!\n## `C`, d!\n")
	if err != nil || len(page.blocks) != 3 || !page.blocks[1].isNext || page.blocks[2].isNext || !slices.Equal(page.tables, []int{2}) {
		t.Errorf("%+v %v", page, err)
	}
	if got := anchorsOf(page.text); !slices.Equal(got, []string{"a-b", "c-d", "c-d-1"}) {
		t.Errorf("anchors %v", got)
	}
	if got := linksOf(page.text); !slices.Equal(got, [][2]string{{"y.md", "z"}}) {
		t.Errorf("links %v", got)
	}
	if got := withoutComments(page.blocks[0].text); got != "curl x\n" {
		t.Errorf("without comments: %q", got)
	}
}
