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

// output prints results on standard output, as a table or as JSON. It prints progress on a terminal.
type output struct {
	out      io.Writer
	progress io.Writer // nil if standard error is not a terminal
	isJSON   bool
	answers  *answers // nil if no server is called
}

// answers stores the original responses of the server, because the types of this program lack the fields of a newer server. A value of answers serves one
// call at a time.
type answers struct {
	last  json.RawMessage
	items []json.RawMessage // of lists and pages, in the same order as the items that the client returns
}

func (a *answers) keep(data json.RawMessage) {
	a.last = data
	var page struct{ Items []json.RawMessage }
	if json.Unmarshal(data, &page.Items) == nil || json.Unmarshal(data, &page) == nil {
		a.items = append(a.items, page.Items...)
	}
}

// take returns the first n items, and removes all items.
func (a *answers) take(n int) []json.RawMessage {
	items := a.items
	a.items = nil
	return items[:min(n, len(items))]
}

// asWritten returns the last original response of the server. It returns data if no response exists.
func (o output) asWritten(data any) any {
	if o.answers == nil || o.answers.last == nil {
		return data
	}
	return o.answers.last
}

// say prints progress.
func (o output) say(format string, values ...any) {
	if o.progress != nil {
		_, _ = fmt.Fprintf(o.progress, format+"\n", values...) // an error of the terminal does not stop the command
	}
}

// record is one object in a table: one line for each field that is not empty.
type record [][2]string

// show prints one object. As JSON, it prints the last response, or data if no response exists. In other formats, it prints the record.
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

// list prints several objects. In the format JSON, it prints an array of the items of the responses, one for each row. If the responses contained no items, it
// prints data. In other formats, it prints a table with a line for each row.
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

// json prints one JSON document.
func (o output) json(data any) error {
	return writeJSON(o.out, data, "  ")
}

// writeJSON writes data as JSON. It also escapes the control characters that JSON allows, because a terminal would interpret them as commands.
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
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) { // these characters occur only inside strings
			fmt.Fprintf(&safe, "\\u%04x", r)
		} else {
			safe.WriteRune(r)
		}
	}
	_, err := io.WriteString(to, safe.String())
	return err
}

// pad appends spaces to a text up to a width on the terminal, where a Chinese character has two columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-uniseg.StringWidth(text)))
}

// printable replaces characters that a terminal would interpret as commands, because texts come from other people.
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

// local formats a time in the time zone of this machine. For nil, it returns "".
func local(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// text returns the value of a pointer as text. For nil, it returns "".
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
