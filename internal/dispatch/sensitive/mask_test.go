package sensitive

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"lksms/internal/dispatch/segment"
)

func TestAMaskHasTheCharactersAndSegmentsOfItsText(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	characters := []rune("a1 *|€[]\n您码【】，😀🞶＊")
	for range 2000 {
		var text string
		for range random.IntN(200) {
			text += string(characters[random.IntN(len(characters))])
		}
		masked := Mask(text)
		if utf8.RuneCountInString(masked) != utf8.RuneCountInString(text) || strings.ContainsAny(masked, "a1您码【】") {
			t.Fatalf("%q is masked as %q", text, masked)
		}
		for _, sign := range []string{"", "公司", "ACME"} {
			if got, want := segment.Count(segment.Signed(sign, masked)), segment.Count(segment.Signed(sign, text)); got > want+1 || sign == "" && got != want {
				t.Fatalf("%q has %d segments, its mask %d", text, want, got)
			}
		}
	}
}

func TestHandedTextHasItsSignatureOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content, sign string
		isInText      bool
		want          string
	}{
		{"123456", "", true, "123456"},
		{"123456", "公司", true, "【公司】123456"},
		{"【公司】123456", "公司", true, "【公司】123456"},
		{"【公司】123456", "公司", false, "123456"},
		{"【123456】码", "公司", true, "【公司】【123456】码"},
	} {
		if got := (Text{Content: c.content}).Handed(c.sign, c.isInText); got != c.want {
			t.Errorf("%+v is handed out as %q", c, got)
		}
	}
}

func TestTextsOfOtherSystemsAreHidden(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"rejected: 871-205": "***", "ODcxLTIwNQ": "***", "": ""} {
		if got := Hide(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	long := strings.Repeat("a", 100)
	for token, want := range map[string]string{
		"isv.BUSINESS_LIMIT": "isv.BUSINESS_LIMIT", "900619746936498440^0": "900619746936498440^0", "a+/=~@#": "a+/=~@#", "4938": "4938", long: long,
		"Your code is 871": "", "８７１２０５": "", "a\t1": "", long + "a": "", "": "",
	} {
		if got := HideToken(token); got != want {
			t.Errorf("%q becomes %q", token, got)
		}
	}
}

func TestMaskRequestHidesTheTextsOfSensitiveMessages(t *testing.T) {
	t.Parallel()
	const code = "493817"
	for _, body := range []string{
		`{"sensitive":true,"content":"code 493817"}`,
		`{"Sensitive":true,"Content":"code 493817"}`,
		`{"s\u0065nsitive":true,"content":"code 493817"}`,
		`{"sensitive":"yes","content":"code 493817"}`,
		`{"sensitive":true,"template_no":"t","params":{"code":"493817"}}`,
		`{"sensitive":true,"template_no":"t","params":{"code":493817}}`,
		`{"sensitive":true,"template_no":"t","params":["493817"]}`,
		`{"messages":[{"content":"a"},{"content":"493817","sensitive":true}]}`,
		`{"content":"493817","content":"x","sensitive":true}`,
		`{"sensitive":true,"content":"493817"`,
		`{"sensitive":true,"content":"x"} 493817`,
		`{"sensitive":true,"text":"493817"}`,
		`{"sensitive":true,"content":"493817","sensitive":false}`,
		`{"messages":[{"sensitive":true,"content":"493817","sensitive":null}]}`,
		`{"sensitive":true,"messages":[{"phone_number":"1","content":"493817"}]}`,
		`{"sensitive":true,"template_no":"t","params":{"493817":"x"}}`,
	} {
		if got := string(MaskRequest([]byte(body))); strings.Contains(got, code) {
			t.Errorf("%s is stored as %s", body, got)
		}
	}
	for _, body := range []string{`{"content":"493817"}`, `{"sensitive":false,"content":"493817"}`, `{"content":"493817 \u00e9"`[:20], ""} {
		if got := string(MaskRequest([]byte(body))); got != body {
			t.Errorf("%s is stored as %s", body, got)
		}
	}
}
