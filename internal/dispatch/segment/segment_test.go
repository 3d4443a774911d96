package segment_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/smstext"
)

func TestCountReturnsTheNumberOfSegments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"empty":                                {"", 1},
		"one septet":                           {"a", 1},
		"160 septets":                          {strings.Repeat("a", 160), 1},
		"161 septets":                          {strings.Repeat("a", 161), 2},
		"two parts, full":                      {strings.Repeat("a", 306), 2},
		"and one more":                         {strings.Repeat("a", 307), 3},
		"an extension character takes two":     {strings.Repeat("€", 80), 1},
		"and is escaped":                       {strings.Repeat("€", 80) + "a", 2},
		"an escape is not cut":                 {strings.Repeat("a", 152) + "€" + strings.Repeat("a", 152), 3},
		"as long, and nothing to cut":          {strings.Repeat("a", 151) + "€" + strings.Repeat("a", 153), 2},
		"the whole basic alphabet":             {"@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà", 1},
		"ç is not in it, Ç is":                 {strings.Repeat("ç", 71), 2},
		"70 units":                             {strings.Repeat("短", 70), 1},
		"71 units":                             {strings.Repeat("短", 71), 2},
		"134 units":                            {strings.Repeat("短", 134), 2},
		"135 units":                            {strings.Repeat("短", 135), 3},
		"an emoji takes two units":             {strings.Repeat("😀", 35), 1},
		"36 emoji":                             {strings.Repeat("😀", 36), 2},
		"a pair is not cut":                    {strings.Repeat("短", 66) + "😀" + strings.Repeat("短", 66), 3},
		"one character makes all of it UCS-2":  {strings.Repeat("a", 70) + "短", 2},
		"a backtick is not in the alphabet":    {strings.Repeat("`", 71), 2},
		"200 characters of Chinese":            {strings.Repeat("短", 200), 3},
		"200 letters":                          {strings.Repeat("a", 200), 2},
		"a signature counts with its brackets": {segment.Signed("公司", strings.Repeat("短", 67)), 2},
		"a signature counts once":              {segment.Signed("公司", "【公司】【公司】"+strings.Repeat("短", 66)), 1},
		"and makes letters UCS-2":              {segment.Signed("ACME", strings.Repeat("a", 65)), 2},
	} {
		if got := segment.Count(c.text); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestCountIsTheNumberOfPartsThatAreSent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aé€[短信😀")), 0, 500, -1).Draw(t, "text")
		alphabet, alone, inPart := smstext.AppendUCS2, 140, 134
		if segment.IsGSM(text) {
			alphabet, alone, inPart = smstext.AppendGSM7, 160, 153
		}
		parts, _ := smstext.Split(text, alone, alphabet)
		if len(parts) > 1 {
			parts, _ = smstext.Split(text, inPart, alphabet)
		}
		if got := segment.Count(text); got != len(parts) {
			t.Fatalf("%q is counted as %d segments, and sent in %d parts", text, got, len(parts))
		}
	})
}
