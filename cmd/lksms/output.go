package main

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
}

// say shows progress.
func (o output) say(format string, values ...any) {
	if o.progress != nil {
		_, _ = fmt.Fprintf(o.progress, format+"\n", values...) // progress that cannot be shown stops nothing
	}
}

// record is one object in a table: a line for each name, without those that are empty.
type record [][2]string

// show prints one object: data as JSON, or the record.
func (o output) show(data any, table func() record) error {
	if o.isJSON {
		return o.json(data)
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

// list prints several objects: an array as JSON, or a table. A list without rows has a head only.
func (o output) list(data any, head []string, rows [][]string) error {
	if o.isJSON {
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
