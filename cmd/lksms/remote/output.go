package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
)

// output shows answers: on standard output as a table or as JSON, and progress on a terminal.
type output struct {
	out      io.Writer
	progress io.Writer // nil if nobody looks
	isJSON   bool
	answers  *answers // nil if no server is called
}

// answers keeps how the server wrote its answers: the types of this program drop the fields of a newer server. It serves one call at a time.
type answers struct {
	last  json.RawMessage
	items []json.RawMessage // of lists and pages, which are in one order with what the client returns
}

func (a *answers) keep(data json.RawMessage) {
	a.last = data
	var page struct{ Items []json.RawMessage }
	if json.Unmarshal(data, &page.Items) == nil || json.Unmarshal(data, &page) == nil {
		a.items = append(a.items, page.Items...)
	}
}

// take returns the first n items since it was called last.
func (a *answers) take(n int) []json.RawMessage {
	items := a.items
	a.items = nil
	return items[:min(n, len(items))]
}

// asWritten is the last answer as the server wrote it, or data if there was none.
func (o output) asWritten(data any) any {
	if o.answers == nil || o.answers.last == nil {
		return data
	}
	return o.answers.last
}

// say shows progress.
func (o output) say(format string, values ...any) {
	if o.progress != nil {
		_, _ = fmt.Fprintf(o.progress, format+"\n", values...) // progress that cannot be shown stops nothing
	}
}

// record is one object in a table: a line for each name, without those that are empty.
type record [][2]string

// show prints one object: the last answer as JSON, or data if there was none, or the record.
func (o output) show(data any, table func() record) error {
	if o.isJSON {
		return o.json(o.asWritten(data))
	}
	rows, width := table(), 0
	for _, row := range rows {
		if row[1] != "" {
			width = max(width, uniseg.StringWidth(row[0]))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(&text, "%s  %s\n", pad(row[0], width), printable(row[1]))
		}
	}
	_, err := io.WriteString(o.out, text.String())
	return err
}

// list prints several objects: an array as JSON, or a table. The array has an item of the answers for each row, or is data if these had no items.
// A list without rows has a head only.
func (o output) list(data any, head []string, rows [][]string) error {
	if o.isJSON {
		if o.answers != nil {
			if items := o.answers.take(len(rows)); len(items) > 0 {
				return o.json(items)
			}
		}
		return o.json(data)
	}
	widths := make([]int, len(head))
	all := append([][]string{head}, rows...)
	for r, row := range all {
		for i := range row {
			all[r][i] = printable(all[r][i])
			widths[i] = max(widths[i], uniseg.StringWidth(all[r][i]))
		}
	}
	var text strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(pad(cell, widths[i]) + "  ")
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(o.out, text.String())
	return err
}

// json prints one document.
func (o output) json(data any) error {
	return writeJSON(o.out, data, "  ")
}

// writeJSON writes data as JSON in which a terminal finds no command: JSON itself lets some control characters stand.
func writeJSON(to io.Writer, data any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(data); err != nil {
		return err
	}
	var safe strings.Builder
	for _, r := range text.String() {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) { // they stand in strings only
			fmt.Fprintf(&safe, "\\u%04x", r)
		} else {
			safe.WriteRune(r)
		}
	}
	_, err := io.WriteString(to, safe.String())
	return err
}

// pad fills a text with spaces up to a width on the terminal, where a Chinese character has two columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-uniseg.StringWidth(text)))
}

// printable replaces what a terminal would take for a command: texts come from other people.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return '�'
		}
		return r
	}, text)
}

// local is a time for people, in the zone of this machine.
func local(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// text is the value of a pointer, or an empty text.
func text[T any](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}

// shorten cuts a text to a number of columns on the terminal.
func shorten(s string, columns int) string {
	s = printable(s)
	if uniseg.StringWidth(s) <= columns {
		return s
	}
	var cut strings.Builder
	graphemes, width := uniseg.NewGraphemes(s), 1
	for graphemes.Next() {
		if width += graphemes.Width(); width > columns {
			break
		}
		cut.WriteString(graphemes.Str())
	}
	return cut.String() + "…"
}
