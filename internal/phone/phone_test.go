package phone

import (
	"errors"
	"strings"
	"testing"

	"lksms/internal/fault"
)

func TestNormalise(t *testing.T) {
	for sent, want := range map[string]string{
		"13800138000":       "+8613800138000",
		"138 0013 8000":     "+8613800138000",
		"138-0013-8000":     "+8613800138000",
		"+8613800138000":    "+8613800138000",
		"+86 138-0013-8000": "+8613800138000",
		"8613800138000":     "+8613800138000",
		"010-62552266":      "+861062552266",
		"+1 202 555 0143":   "+12025550143",
		"+852 5123 4567":    "+85251234567",
	} {
		if got, err := Normalise("phone_number", sent); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", sent, got, err, want)
		}
	}
	for _, sent := range []string{
		"", "138", "1380013800", "138001380000", "12345678901", "1380013800a", "１３８００１３８０００", "+", "++8613800138000",
		"138001380 00 ", " 13800138000", "+86 138 0013 8000 000000", "13800138000\x00", "tel:13800138000", "138/00138000",
	} {
		got, err := Normalise("to", sent)
		var f *fault.Error
		if !errors.As(err, &f) || f.Fields[0] != (fault.Field{Name: "to", Rule: fault.NotAPhoneNumber}) {
			t.Errorf("%q: got %q, %v", sent, got, err)
		}
	}
}

// The fast path for mainland mobile numbers must agree with the library.
func TestTheFastPathForMainlandMobilesAgreesWithTheLibrary(t *testing.T) {
	for _, prefix := range []string{"130", "145", "150", "166", "173", "180", "191", "199"} {
		number := prefix + "00138000"
		if !isMainlandMobile(number) {
			t.Errorf("%s does not take the fast path", number)
		}
		fast, err := Normalise("phone_number", number)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := Normalise("phone_number", "+86 "+number)
		if err != nil || fast != slow {
			t.Errorf("%s: %q and %q, %v", number, fast, slow, err)
		}
	}
}

func TestMask(t *testing.T) {
	for number, want := range map[string]string{
		"13800138000": "138****8000", "+86 138-0013-8000": "86138****8000", "138": "****", "": "****", "1380013800013900139000": "****",
	} {
		if got := Mask(number); got != want {
			t.Errorf("%q: got %q, want %q", number, got, want)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"13800138000", "+86 138-0013-8000", "+1 202 555 0143", "010-62552266", "abc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got, err := Normalise("phone_number", number)
		if err != nil {
			return
		}
		if got[0] != '+' || len(got) > 20 {
			t.Errorf("%q gave %q", number, got)
		}
		if again, err := Normalise("phone_number", got); len(got) >= 11 && (err != nil || again != got) {
			t.Errorf("%q gave %q, which gave %q, %v", number, got, again, err)
		}
	})
}

// FuzzRecipient compares any number in a receipt with any recipient.
func FuzzRecipient(f *testing.F) {
	for _, seed := range []string{"+6591234567", "006591234567", "(415) 555-2671", "openid-1", "", "+", "\xff", "+8613800138000"} {
		f.Add("+8613800138000", seed)
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, number, said string) {
		if !IsInFull(number, number) {
			t.Errorf("%q is not the same as itself", number)
		}
		if IsAtHome(number, said) && digitsOf(said) == "" {
			t.Errorf("%q has no digit, and matches %q", said, number)
		}
		if region := Region(said); region != "" && len(region) != 2 {
			t.Errorf("%q has the region %q", said, region)
		}
		if masked := Mask(said); len(said) >= 8 && strings.Contains(masked, said) && strings.Trim(said, "*") != "" {
			t.Errorf("%q is masked as %q", said, masked)
		}
	})
}

func TestANumberCanBeWrittenInManyWays(t *testing.T) {
	for _, c := range []struct {
		number, said   string
		inFull, atHome bool
	}{
		{"+6591234567", "+65 9123 4567", true, true},
		{"+6591234567", "6591234567", true, false},
		{"+6591234567", "006591234567", true, false},
		{"+6591234567", "91234567", false, true},
		{"+4791234567", "91 23 45 67", false, true},
		{"+886912345678", "0912345678", false, true},
		{"+8613800138000", "13800138000", false, true},
		{"+14155552671", "(415) 555-2671", false, true},
		{"+6591234567", "1234567", false, false},
		{"+6591234567", "", false, false},
		{"+6591234567", "91234567 ext 5", false, false},
		{"openid-1", "openid-1", true, false},
		{"openid-1", "1", false, false},
	} {
		if got := IsInFull(c.number, c.said); got != c.inFull {
			t.Errorf("%s as %q in full: %v", c.number, c.said, got)
		}
		if got := IsAtHome(c.number, c.said); got != c.atHome && !c.inFull {
			t.Errorf("%s as %q at home: %v", c.number, c.said, got)
		}
	}
}

func TestRegion(t *testing.T) {
	for number, want := range map[string]string{
		"+14155552671": "US", "+14165550123": "CA", "+77012345678": "KZ", "+79161234567": "RU", "+8613800138000": "CN", "+999123": "", "zhang": "",
	} {
		if got := Region(number); got != want {
			t.Errorf("%s has the region %q", number, got)
		}
	}
	if HasDialPrefix("CN", "1") || !HasDialPrefix("BS", "1242") || HasDialPrefix("XX", "1") || SharesCallingCode("CN") || !SharesCallingCode("KZ") {
		t.Error("dial prefixes of regions")
	}
}

func TestTheBeginningOfANumberMayBeWrittenAsTheNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"138": "+86138", "138 0013-80": "+86138001380", "+86 138": "+86138", "+1-416": "+1416", "+": "+", "": "", "-": "", "1380a": "", "++1": "", "１３８": "",
	} {
		if got := Beginning(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
