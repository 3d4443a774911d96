package smstext_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lksms/internal/platform/smstext"
)

// gsm7 contains every character of the GSM 7-bit default alphabet and of its extension table.
const gsm7 = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà\f^{}\\[~]|€"

func encode(t *testing.T, text string, alphabet smstext.Appender) []byte {
	t.Helper()
	octets, known := smstext.Encode(text, alphabet)
	if !known {
		t.Fatalf("a character of %q is not in the alphabet", text)
	}
	return octets
}

func TestAlphabetsEncodePublishedValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alphabet   smstext.Appender
		decode     func([]byte) string
		text, want string
	}{
		"GSM 7-bit":                {smstext.AppendGSM7, smstext.DecodeGSM7, "@A$ é", "0041022005"},
		"GSM 7-bit extension":      {smstext.AppendGSM7, smstext.DecodeGSM7, "€[]", "1b651b3c1b3e"},
		"UCS-2":                    {smstext.AppendUCS2, smstext.DecodeUCS2, "短a", "77ed0061"},
		"UCS-2 surrogate pair":     {smstext.AppendUCS2, smstext.DecodeUCS2, "😀", "d83dde00"},
		"Latin-1":                  {smstext.AppendLatin1, smstext.DecodeLatin1, "é@ÿ", "e940ff"},
		"ASCII":                    {smstext.AppendASCII, smstext.DecodeASCII, "a@~", "61407e"},
		"last of the basic planes": {smstext.AppendUCS2, smstext.DecodeUCS2, "\U0010ffff", "dbffdfff"},
	} {
		octets := encode(t, c.text, c.alphabet)
		if got := hex.EncodeToString(octets); got != c.want {
			t.Errorf("%s: %q is encoded as %s, want %s", name, c.text, got, c.want)
		}
		if got := c.decode(octets); got != c.text {
			t.Errorf("%s: decoded as %q, want %q", name, got, c.text)
		}
	}
}

func TestEveryGSM7CharacterSurvives(t *testing.T) {
	t.Parallel()
	for _, r := range gsm7 {
		octets, known := smstext.AppendGSM7(nil, r)
		if got := smstext.DecodeGSM7(octets); !known || got != string(r) || len(octets) != smstext.Septets(r) {
			t.Errorf("%q: %x, known %t, decoded as %q", r, octets, known, got)
		}
	}
	for _, r := range "\x1bç`短😀" {
		if _, known := smstext.AppendGSM7(nil, r); known || smstext.Septets(r) != 0 {
			t.Errorf("%q is in the alphabet", r)
		}
	}
}

func TestForeignOctetsAreDecoded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decode       func([]byte) string
		octets, want string
	}{
		"an unknown escaped code is the basic character": {smstext.DecodeGSM7, "\x1bA", "A"},
		"an escape at the end is a space":                {smstext.DecodeGSM7, "A\x1b", "A "},
		"two escapes are a space and an escape":          {smstext.DecodeGSM7, "\x1b\x1be", " €"},
		"an octet above 127 is no septet":                {smstext.DecodeGSM7, "a\xe9\x1b\xe9", "a\ufffd \ufffd"},
		"half of a surrogate pair":                       {smstext.DecodeUCS2, "\xd8\x3d\x00a", "\ufffda"},
		"half of a pair at the end":                      {smstext.DecodeUCS2, "\x00a\xd8\x3d", "a\ufffd"},
		"the wrong half first":                           {smstext.DecodeUCS2, "\xde\x00\xd8\x3d", "\ufffd\ufffd"},
		"an odd octet":                                   {smstext.DecodeUCS2, "\x00ab", "a\ufffd"},
		"no ASCII":                                       {smstext.DecodeASCII, "a\xe9", "a\ufffd"},
	} {
		if got := c.decode([]byte(c.octets)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPackedSeptetsAreThePublishedOctets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":           "",
		"a":          "61",
		"hellohello": "e8329bfd4697d9ec37",
		"1234567":    "31d98c56b3dd1a", // seven unused bits contain CR
		"12345678":   "31d98c56b3dd70",
		"€":          "9b32",
	} {
		if got := hex.EncodeToString(smstext.Pack(encode(t, text, smstext.AppendGSM7), 0)); got != want {
			t.Errorf("%q is packed as %s, want %s", text, got, want)
		}
	}
	full := encode(t, strings.Repeat("a", 152)+"@", smstext.AppendGSM7)
	if got := smstext.Unpack(smstext.Pack(full, 1), 1); !bytes.Equal(got, full) {
		t.Errorf("the last character of a full part is lost: %q", got)
	}
	if got := smstext.DecodeGSM7(smstext.Unpack([]byte{0x31, 0xd9, 0x8c, 0x56, 0xb3, 0xdd, 0x00}, 0)); got != "1234567" {
		t.Errorf("unused bits of zero are read: %q", got)
	}
}

func TestPackedSeptetsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		septets := rapid.SliceOfN(rapid.ByteRange(0, 127), 0, 200).Draw(t, "septets")
		fill := rapid.IntRange(0, 6).Draw(t, "fill")
		n := len(septets)
		if n > 0 && (n*7+fill)%8 == 0 && (septets[n-1] == '\r' || septets[n-1] == 0 && n < 152) {
			t.Skip("the receiver takes the last septet for unused bits")
		}
		if got := smstext.Unpack(smstext.Pack(septets, fill), fill); !bytes.Equal(got, septets) {
			t.Fatalf("%x became %x", septets, got)
		}
	})
}

func TestPartsAreFullAndSplitNoCharacter(t *testing.T) {
	t.Parallel()
	a, short := strings.Repeat("a", 152), strings.Repeat("短", 66)
	for name, c := range map[string]struct {
		text     string
		limit    int
		alphabet smstext.Appender
		want     []int
	}{
		"empty":                     {"", 153, smstext.AppendGSM7, []int{0}},
		"a full part":               {a + "a", 153, smstext.AppendGSM7, []int{153}},
		"an escape is not split":    {a + "€" + a, 153, smstext.AppendGSM7, []int{152, 153, 1}},
		"a pair is not split":       {short + "😀" + short, 134, smstext.AppendUCS2, []int{132, 134, 2}},
		"a limit of half a unit":    {short + short, 133, smstext.AppendUCS2, []int{132, 132}},
		"one octet for a character": {a, 134, smstext.AppendLatin1, []int{134, 18}},
	} {
		parts, known := smstext.Split(c.text, c.limit, c.alphabet)
		if !known {
			t.Errorf("%s: not split", name)
		}
		sizes := make([]int, len(parts))
		for i, p := range parts {
			sizes[i] = len(p)
		}
		if len(sizes) != len(c.want) || string(hexes(sizes)) != string(hexes(c.want)) {
			t.Errorf("%s: parts of %v octets, want %v", name, sizes, c.want)
		}
	}
	if _, known := smstext.Split("a短", 153, smstext.AppendGSM7); known {
		t.Error("a character outside the alphabet was encoded")
	}
	if _, known := smstext.Split("😀", 3, smstext.AppendUCS2); known {
		t.Error("a character larger than a part was split")
	}
}

func hexes(sizes []int) []byte {
	var b []byte
	for _, n := range sizes {
		b = append(b, byte(n))
	}
	return b
}

func TestSplitTextsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune(gsm7+"短信😀é"))).Draw(t, "text")
		limit := rapid.IntRange(4, 160).Draw(t, "limit")
		parts, known := smstext.Split(text, limit, smstext.AppendUCS2)
		if !known {
			t.Fatal("not split")
		}
		joined := ""
		for _, p := range parts {
			if len(p) > limit {
				t.Fatalf("a part has %d octets, at most %d", len(p), limit)
			}
			joined += smstext.DecodeUCS2(p)
		}
		if joined != text {
			t.Fatalf("%q became %q", text, joined)
		}
	})
}

func TestHeadersOfPartsSurvive(t *testing.T) {
	t.Parallel()
	c := smstext.Concat{Reference: 0x12AB, Total: 3, Part: 2}
	if got := hex.EncodeToString(c.UDH8()); got != "050003ab0302" {
		t.Errorf("the header with 8 bits is %s", got)
	}
	if got := hex.EncodeToString(c.UDH16()); got != "06080412ab0302" {
		t.Errorf("the header with 16 bits is %s", got)
	}
	for name, want := range map[string]struct {
		octets string
		concat smstext.Concat
		body   string
		err    error
	}{
		"8 bits":                      {"050003ab0302" + "6162", smstext.Concat{Reference: 0xAB, Total: 3, Part: 2}, "ab", nil},
		"16 bits":                     {"06080412ab0302" + "61", c, "a", nil},
		"after ports":                 {"0b05040b8423f0" + "00030703026161", smstext.Concat{Reference: 7, Total: 3, Part: 2}, "aa", nil},
		"ports alone":                 {"0605040b8423f061", smstext.Concat{}, "a", nil},
		"no body":                     {"050003ab0302", smstext.Concat{Reference: 0xAB, Total: 3, Part: 2}, "", nil},
		"a number above the total":    {"050003ab020361", smstext.Concat{}, "a", nil},
		"a number of zero":            {"050003ab020061", smstext.Concat{}, "a", nil},
		"longer than the message":     {"0500", smstext.Concat{}, "", smstext.ErrHeader},
		"an element that is too long": {"050004ab030261", smstext.Concat{}, "", smstext.ErrHeader},
		"empty":                       {"", smstext.Concat{}, "", smstext.ErrHeader},
	} {
		octets, _ := hex.DecodeString(want.octets)
		concat, body, err := smstext.SplitUDH(octets)
		if concat != want.concat || string(body) != want.body || !errors.Is(err, want.err) {
			t.Errorf("%s: %+v, %q, %v", name, concat, body, err)
		}
	}
}

// FuzzDecode decodes octets of other programs in each alphabet.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("a\x1be\x1b"))
	f.Add([]byte("\xd8\x3d\xde\x00\x00"))
	f.Fuzz(func(t *testing.T, octets []byte) {
		for name, text := range map[string]string{
			"GSM 7-bit": smstext.DecodeGSM7(octets), "packed": smstext.DecodeGSM7(smstext.Unpack(octets, 0)), "UCS-2": smstext.DecodeUCS2(octets),
			"Latin-1": smstext.DecodeLatin1(octets), "ASCII": smstext.DecodeASCII(octets),
		} {
			if !utf8.ValidString(text) {
				t.Errorf("%s: %q is not UTF-8", name, text)
			}
		}
		if c, body, err := smstext.SplitUDH(octets); err == nil && (len(body) >= len(octets) || c != smstext.Concat{} && !c.IsPart()) {
			t.Errorf("%x has the part %+v and the body %x", octets, c, body)
		}
		for fill := range 7 {
			smstext.Unpack(octets, fill)
		}
	})
}
