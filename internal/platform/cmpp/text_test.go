package cmpp

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lksms/internal/platform/smstext"
)

func TestShortTextsHaveNoHeader(t *testing.T) {
	for _, c := range []struct {
		text   string
		format Format
		octets string
	}{
		{"Your code: 4711", FormatASCII, "Your code: 4711"},
		{"汉", FormatUCS2, "\x6c\x49"},
		{"汉", FormatGBK, "\xba\xba"},
		{"中a", FormatGBK, "\xd6\xd0a"},
		{"😀", FormatUCS2, "\xd8\x3d\xde\x00"},
		{"", FormatUCS2, ""},
		{strings.Repeat("字", 70), FormatUCS2, strings.Repeat("\x5b\x57", 70)},
	} {
		parts, ok := SplitText(c.text, []Format{c.format}, Header8, 7)
		if !ok || len(parts) != 1 || parts[0].Format != c.format || parts[0].UDHI != 0 || parts[0].Total != 1 || parts[0].Number != 1 ||
			!bytes.Equal(parts[0].Content, []byte(c.octets)) {
			t.Errorf("%q: %+v, %v", c.text, parts, ok)
		}
	}
}

func TestTheFirstFormatWithAllCharactersIsUsed(t *testing.T) {
	all := []Format{FormatBinary, FormatASCII, FormatGBK, FormatUCS2}
	for text, want := range map[string]Format{"abc": FormatASCII, "汉字": FormatGBK, "汉字😀": FormatUCS2} {
		if parts, ok := SplitText(text, all, Header8, 7); !ok || parts[0].Format != want {
			t.Errorf("%q: %+v, %v", text, parts, ok)
		}
	}
	if parts, ok := SplitText("汉字😀", []Format{FormatASCII, FormatGBK}, Header8, 7); ok {
		t.Errorf("an emoji was encoded: %+v", parts)
	}
}

func TestPartsOfLongTexts(t *testing.T) {
	for _, c := range []struct {
		header Header
		octets string
		first  int // octets of text in the first part
	}{{Header8, "\x05\x00\x03\x34\x02\x01", 134}, {Header16, "\x06\x08\x04\x12\x34\x02\x01", 132}} {
		parts, ok := SplitText(strings.Repeat("字", 71), []Format{FormatUCS2}, c.header, 0x1234)
		if !ok || len(parts) != 2 {
			t.Fatalf("got %+v, %v", parts, ok)
		}
		var submit Submit
		parts[0].Apply(&submit)
		if submit.Total != 2 || submit.Number != 1 || submit.UDHI != 1 || submit.Format != FormatUCS2 || !strings.HasPrefix(string(submit.Content), c.octets) ||
			len(submit.Content) != len(c.octets)+c.first {
			t.Errorf("first part: %+v", submit)
		}
	}
}

func TestMoreThan255PartsAreRejected(t *testing.T) {
	if parts, ok := SplitText(strings.Repeat("a", 134*255), []Format{FormatASCII}, Header8, 1); !ok || len(parts) != 255 {
		t.Errorf("255 parts: %d, %v", len(parts), ok)
	}
	if _, ok := SplitText(strings.Repeat("a", 134*255+1), []Format{FormatASCII}, Header8, 1); ok {
		t.Error("256 parts were made")
	}
}

func TestEveryPartIsReadableAndJoinsToTheText(t *testing.T) {
	runes := map[Format]*rapid.Generator[rune]{
		FormatASCII: rapid.RuneFrom([]rune("aB3 ~")), FormatGBK: rapid.RuneFrom([]rune("a字汉，。1")), FormatUCS2: rapid.RuneFrom([]rune("a字😀𠀀é")),
	}
	for format, generator := range runes {
		t.Run(format.String(), rapid.MakeCheck(func(t *rapid.T) {
			text := string(rapid.SliceOfN(generator, 0, 900).Draw(t, "text"))
			header := rapid.SampledFrom([]Header{Header8, Header16}).Draw(t, "header")
			parts, ok := SplitText(text, []Format{format}, header, rapid.Uint16().Draw(t, "reference"))
			if !ok {
				t.Fatal("not encoded")
			}
			var joined []byte
			for i, p := range parts {
				concat, body, err := SplitContent(p.UDHI, p.Content)
				if err != nil || len(p.Content) > smstext.MaxOctets || int(p.Total) != len(parts) || int(p.Number) != i+1 {
					t.Fatalf("part %d: %+v, %v", i, p, err)
				}
				if len(parts) > 1 && (concat.Total != p.Total || concat.Part != p.Number) {
					t.Fatalf("part %d: header %+v", i, concat)
				}
				if part, _ := DecodeText(format, body); strings.ContainsRune(part, utf8.RuneError) {
					t.Fatalf("part %d contains half of a character: %q", i, part)
				}
				joined = append(joined, body...)
			}
			if got, ok := DecodeText(format, joined); !ok || got != text {
				t.Fatalf("got %q, want %q", got, text)
			}
		}))
	}
}

func TestCapturedPartIsReadable(t *testing.T) {
	concat, body, err := SplitContent(1, octets(t, captured))
	text, ok := DecodeText(FormatUCS2, body)
	if err != nil || concat != (smstext.Concat{Reference: 0xe4, Total: 4, Part: 1}) || !ok ||
		!strings.HasPrefix(text, "尊敬的客户,您好！您于2016-03-23 14:51:36通过") {
		t.Errorf("got %+v, %q, %v, %v", concat, text, ok, err)
	}
}

func TestReceivedTexts(t *testing.T) {
	for _, c := range []struct {
		format Format
		octets string
		text   string
	}{
		{FormatASCII, "T", "T"},
		{FormatASCII, "\xd6\xd0", "中"}, // GBK with the wrong format
		{FormatGBK, "\xd6", "\uFFFD"},
		{FormatUCS2, "\x6c\x49", "汉"},
		{FormatUCS2, "\x6c", "\uFFFD"},
	} {
		if got, ok := DecodeText(c.format, []byte(c.octets)); !ok || got != c.text {
			t.Errorf("%s %q: %q, %v", c.format, c.octets, got, ok)
		}
	}
	for _, format := range []Format{FormatCard, FormatBinary, 246} {
		if text, ok := DecodeText(format, []byte("x")); ok {
			t.Errorf("%s was read as %q", format, text)
		}
	}
	if _, _, err := SplitContent(1, []byte{9, 0}); !errors.Is(err, smstext.ErrHeader) {
		t.Errorf("a cut header: %v", err)
	}
}
