package sheet

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// text is the text of a file, as UTF-8.
type text struct {
	*bufio.Reader
	start    string // its first characters
	encoding string // of the file: utf8Name, "UTF-16" or "GB18030"
}

const utf8Name = "UTF-8"

// isGood reports whether a part of the text is as it was written. What could not be decoded is U+FFFD; without decoding, it is invalid UTF-8.
func (t text) isGood(part []byte) bool {
	if t.encoding != utf8Name && bytes.Contains(part, []byte("\uFFFD")) {
		return false
	}
	return utf8.Valid(part) && bytes.IndexByte(part, 0) < 0
}

// textOf decodes a file. head is its beginning.
func textOf(ctx context.Context, file File, head []byte) (text, error) {
	skip, name, decoding := int64(0), utf8Name, encoding.Encoding(nil)
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		skip = 3
	case bytes.HasPrefix(head, []byte("\xFF\xFE")):
		skip, name, decoding = 2, "UTF-16", unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case bytes.HasPrefix(head, []byte("\xFE\xFF")):
		skip, name, decoding = 2, "UTF-16", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	default:
		isUTF8, err := isMostlyUTF8(ctx, file)
		if err != nil {
			return text{}, err
		}
		if !isUTF8 {
			name, decoding = "GB18030", simplifiedchinese.GB18030
		}
	}
	var plain io.Reader = io.NewSectionReader(file, skip, file.Size()-skip)
	if decoding != nil {
		plain = decoding.NewDecoder().Reader(bufio.NewReaderSize(plain, 64<<10))
	}
	t := text{Reader: bufio.NewReaderSize(plain, 64<<10), encoding: name}
	start, err := t.Peek(headSize)
	if err != nil && err != io.EOF { //nolint:errorlint // Peek returns it bare
		return text{}, err //nolint:wrapcheck // the file names itself
	}
	t.start = strings.ToValidUTF8(string(start), "")
	return t, nil
}

// isMostlyUTF8 reports whether a file without a byte order mark is UTF-8, and not GB18030. It looks at the whole file, whose first rows may be
// ASCII. UTF-8 with a few broken characters would pass for GB18030, which has a character for nearly every pair of bytes, so characters are
// counted: of Chinese in GB18030, most bytes are wrong in UTF-8, and few pairs are right by chance.
func isMostlyUTF8(ctx context.Context, file File) (bool, error) {
	good, bad := 0, 0
	var rest []byte // the beginning of a character whose end is in the next chunk
	err := eachChunk(ctx, file, func(chunk []byte) bool {
		if len(rest) > 0 {
			chunk = append(rest, chunk...)
		}
		end := len(chunk)
		for i := 1; i < utf8.UTFMax && i <= end; i++ {
			if utf8.RuneStart(chunk[end-i]) {
				if !utf8.FullRune(chunk[end-i:]) {
					end -= i
				}
				break
			}
		}
		rest = bytes.Clone(chunk[end:])
		for i := 0; i < end; {
			c, size := utf8.DecodeRune(chunk[i:end])
			switch {
			case size > 1:
				good++
			case c == utf8.RuneError:
				bad++
			}
			i += size
		}
		return true
	})
	if len(rest) > 0 {
		bad++
	}
	return bad <= good, err
}
