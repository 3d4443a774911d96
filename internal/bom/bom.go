// Package bom skips the byte order mark of UTF-8, which some programs write before a text and JSON does not allow.
package bom

import "bytes"

var mark = []byte("\uFEFF")

// Skip returns text without the mark at its beginning.
func Skip(text []byte) []byte { return bytes.TrimPrefix(text, mark) }
