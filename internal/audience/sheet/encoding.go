package sheet

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"lksms/internal/platform/bom"
)

// text is the text of a file, as UTF-8.
type text struct {
	*bufio.Reader
	start    string // its first characters
	encoding string // of the file
	doubtful bool   // encoding is a guess, and the file looks like one of Latin letters
}

// The encodings of texts. UTF-16 is known by its byte order mark only.
const (
	utf8Name    = "UTF-8"
	utf16Name   = "UTF-16"
	gb18030Name = "GB18030"
	windowsName = "Windows-1252"
)

// Encodings are those that the owner of a file may name.
var Encodings = []string{utf8Name, gb18030Name, windowsName}

// decodings has how a text is decoded; nil: not at all.
var decodings = map[string]encoding.Encoding{utf8Name: nil, gb18030Name: simplifiedchinese.GB18030, windowsName: charmap.Windows1252}

// isGood reports whether a part of the text is as it was written. What could not be decoded is U+FFFD; without decoding, it is invalid UTF-8.
func (t text) isGood(part []byte) bool {
	if t.encoding != utf8Name && bytes.Contains(part, []byte("\uFFFD")) {
		return false
	}
	return utf8.Valid(part) && bytes.IndexByte(part, 0) < 0
}

// textOf decodes a file: by its byte order mark, else as its owner says, else as a guess. head is its beginning.
func textOf(ctx context.Context, file File, head []byte) (text, error) {
	skip, name, isDoubtful := int64(0), file.Encoding(), false
	decoding, isNamed := decodings[name]
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		skip, name, decoding = 3, utf8Name, nil
	case bytes.HasPrefix(head, []byte("\xFF\xFE")):
		skip, name, decoding = 2, utf16Name, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case bytes.HasPrefix(head, []byte("\xFE\xFF")):
		skip, name, decoding = 2, utf16Name, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case !isNamed:
		isUTF8, isLatin, err := guess(ctx, file)
		if err != nil {
			return text{}, err
		}
		name = utf8Name
		if !isUTF8 {
			name, isDoubtful = gb18030Name, isLatin
		}
		decoding = decodings[name]
	}
	var plain io.Reader = io.NewSectionReader(file, skip, file.Size()-skip)
	if decoding != nil {
		plain = decoding.NewDecoder().Reader(bufio.NewReaderSize(plain, 64<<10))
	}
	t := text{Reader: bufio.NewReaderSize(plain, 64<<10), encoding: name, doubtful: isDoubtful}
	start, err := t.Peek(headSize)
	if err != nil && err != io.EOF { //nolint:errorlint // Peek returns it bare
		return text{}, err //nolint:wrapcheck // the file names itself
	}
	t.start = strings.ToValidUTF8(string(start), "")
	return t, nil
}

// guess reports whether a file without a byte order mark is UTF-8, and not GB18030, and whether it looks like a file of Latin letters in neither of
// them (see latinRuns). It looks at the whole file, whose first rows may be ASCII, and counts as bom.Count says.
func guess(ctx context.Context, file File) (isUTF8, isLatin bool, err error) {
	good, bad := 0, 0
	var runs latinRuns
	var rest []byte // the beginning of a character whose end is in the next chunk
	err = eachChunk(ctx, file, func(chunk []byte) bool {
		runs.add(chunk)
		if len(rest) > 0 {
			chunk = append(rest, chunk...)
		}
		whole := bom.Whole(chunk)
		rest = bytes.Clone(chunk[len(whole):])
		more, wrong := bom.Count(whole)
		good, bad = good+more, bad+wrong
		return true
	})
	if len(rest) > 0 {
		bad++
	}
	return bad <= good, runs.areMostly(), err
}

// latinRuns is the rule of doubt about GB18030. In an encoding of Latin letters, as Windows-1252, a letter with an accent is one byte among ASCII
// letters: M\xFCller, Ren\xE9. Many such texts are legal GB18030, where the byte and the letter behind it are one Chinese character (M黮ler). In Chinese
// texts a run of bytes that are not ASCII is longer, and rarely stands among ASCII letters. A file is doubtful if more than half of its runs are
// of Latin letters: one byte beside an ASCII letter, or two bytes between two ASCII letters (Gr\xF6\xDFer).
type latinRuns struct {
	all, latin int
	inside     int  // latin runs of one byte between two letters, which Chinese texts hardly have
	before     byte // the ASCII byte before the run
	length     int  // of the run that has not ended
}

// add reads the next bytes of a file.
func (r *latinRuns) add(chunk []byte) {
	for _, c := range chunk {
		if c >= utf8.RuneSelf {
			r.length++
			continue
		}
		r.end(c)
		r.before = c
	}
}

// end ends a run before a byte.
func (r *latinRuns) end(after byte) {
	if r.length == 0 {
		return
	}
	r.all++
	beside, behind := isLetter(r.before), isLetter(after)
	if r.length == 1 && (beside || behind) || r.length == 2 && beside && behind {
		r.latin++
	}
	if r.length == 1 && beside && behind {
		r.inside++
	}
	r.length = 0
}

// areMostly reports whether more than half of the runs are of Latin letters. Half of them inside of words are enough: a short list may have one such run
// (Jürgen) and one that says nothing (Höß).
func (r *latinRuns) areMostly() bool {
	r.end('\n')
	return 2*r.latin > r.all || r.inside > 0 && 2*r.inside >= r.all
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
