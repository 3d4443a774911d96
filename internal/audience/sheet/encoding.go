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

// text is the text of a file, decoded to UTF-8.
type text struct {
	*bufio.Reader
	start    string // the first characters
	encoding string // encoding of the file
	doubtful bool   // the encoding is a guess, and the file looks like text in another encoding
}

// These are the supported encodings. UTF-16 is recognised only by its byte order mark.
const (
	utf8Name    = "UTF-8"
	utf16Name   = "UTF-16"
	gb18030Name = "GB18030"
	windowsName = "Windows-1252"
)

// Encodings are the encodings that the owner of a file can name.
var Encodings = []string{utf8Name, gb18030Name, windowsName}

// decodings contains the decoder of each encoding; nil: the text needs no decoding.
var decodings = map[string]encoding.Encoding{utf8Name: nil, gb18030Name: simplifiedchinese.GB18030, windowsName: charmap.Windows1252}

// isGood reports whether part was decoded without errors. Invalid bytes become U+FFFD in a decoded text, and stay invalid UTF-8 in a text without decoding.
func (t text) isGood(part []byte) bool {
	if t.encoding != utf8Name && bytes.Contains(part, []byte("\uFFFD")) {
		return false
	}
	return utf8.Valid(part) && bytes.IndexByte(part, 0) < 0
}

// textOf decodes a file. The encoding is determined by the byte order mark, else by the owner of the file, else by a guess. head is the beginning of the file.
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
		isUTF8, isOther, err := guess(ctx, file)
		if err != nil {
			return text{}, err
		}
		name = utf8Name
		if !isUTF8 {
			name, isDoubtful = gb18030Name, isOther
		}
		decoding = decodings[name]
	}
	var plain io.Reader = io.NewSectionReader(file, skip, file.Size()-skip)
	if decoding != nil {
		plain = decoding.NewDecoder().Reader(bufio.NewReaderSize(plain, 64<<10))
	}
	t := text{Reader: bufio.NewReaderSize(plain, 64<<10), encoding: name, doubtful: isDoubtful}
	start, err := t.Peek(headSize)
	if err != nil && err != io.EOF { //nolint:errorlint // Peek returns io.EOF unwrapped
		return text{}, err //nolint:wrapcheck // the error names the file
	}
	t.start = strings.ToValidUTF8(string(start), "")
	return t, nil
}

// guess reports whether a file without a byte order mark is UTF-8; otherwise the file is read as GB18030. isOther reports whether the file looks like text in
// another encoding (see latinRuns and glyphs). guess reads the whole file, because the first rows can be ASCII. It counts characters in the same way as
// bom.Count.
func guess(ctx context.Context, file File) (isUTF8, isOther bool, err error) {
	good, bad := 0, 0
	var runs latinRuns
	var pairs glyphs
	var rest []byte // the first bytes of a character whose other bytes are in the next chunk
	err = eachChunk(ctx, file, func(chunk []byte) bool {
		runs.add(chunk)
		pairs.add(chunk)
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
	return bad <= good, runs.areMostly() || pairs.areForeign(), err
}

// glyphs contains the different characters of a file in GB18030, apart from characters of four bytes. The bytes of Chinese texts are spread over all
// ranges. Texts in other encodings can also be valid GB18030, but lack a range:
//   - the alphabets of Windows-1251, KOI8-R, Windows-1253, Windows-1255 and Windows-1256 have no letters, or few, below 0xC0. Half of the Chinese characters
//     have a byte below 0xC0
//   - EUC-KR and Shift JIS have no common characters whose first byte is between 0xC9 and 0xD7. Almost half of the simplified Chinese characters have such a
//     byte, but only a quarter of the traditional ones: without any of them, a text must be longer to be doubtful
type glyphs struct {
	seen  [1 << 16]bool // by both bytes
	first byte          // first byte of a character whose second byte was not read yet; 0: none
}

// add processes the next bytes of a file.
func (g *glyphs) add(chunk []byte) {
	for _, b := range chunk {
		switch {
		case g.first != 0:
			g.seen[int(g.first)<<8|int(b)] = true
			g.first = 0
		case b >= utf8.RuneSelf:
			g.first = b
		}
	}
}

// These are the numbers of different characters from which the lack of a range is no accident.
const (
	enoughForLow    = 10
	enoughForMiddle = 24
)

// areForeign reports whether one of the ranges is missing. Symbols, digits and punctuation of GB18030 (first bytes 0xA1 to 0xA9) are not counted.
func (g *glyphs) areForeign() bool {
	all, low, middle := 0, 0, 0
	for pair, isSeen := range g.seen {
		first, second := byte(pair>>8), byte(pair)
		if !isSeen || first >= 0xA1 && first <= 0xA9 {
			continue
		}
		all++
		if first < 0xC0 || second < 0xC0 {
			low++
		}
		if first >= 0xC9 && first <= 0xD7 {
			middle++
		}
	}
	return all >= enoughForLow && 12*low < all || all >= enoughForMiddle && 50*middle < all
}

// latinRuns decides whether GB18030 is a doubtful guess. A run is a sequence of non-ASCII bytes. In a Latin encoding such as Windows-1252, a letter with an
// accent is one byte among ASCII letters: M\xFCller, Ren\xE9. Many such texts are also valid GB18030, where this byte and the next letter form one Chinese
// character (M黮ler). In Chinese texts, runs are longer and rarely have ASCII letters as neighbours. GB18030 is doubtful if more than half of the runs are
// Latin. A Latin run is one byte beside an ASCII letter, or two bytes between two ASCII letters (Gr\xF6\xDFer).
type latinRuns struct {
	all, latin int
	inside     int  // Latin runs of one byte between two ASCII letters, which are rare in Chinese texts
	before     byte // the ASCII byte before the run
	length     int  // length of the current run
}

// add processes the next bytes of a file.
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

// end ends the current run. `after` is the byte that follows the run.
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

// areMostly reports whether more than half of the runs are Latin. If a run is between two ASCII letters, half of the runs are sufficient: a short list can
// contain one such run (Jürgen) and one ambiguous run (Höß).
func (r *latinRuns) areMostly() bool {
	r.end('\n')
	return 2*r.latin > r.all || r.inside > 0 && 2*r.inside >= r.all
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
