package phone

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"lksms/internal/platform/fault"
)

func TestNormaliseReturnsE164(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, region, want string }{
		{"13800138000", "", "+8613800138000"},
		{"138 0013 8000", "", "+8613800138000"},
		{"138-0013-8000", "", "+8613800138000"},
		{"+8613800138000", "", "+8613800138000"},
		{"+86 138-0013-8000", "", "+8613800138000"},
		{"8613800138000", "", "+8613800138000"},
		{"008613800138000", "", "+8613800138000"},
		{"010-62552266", "CN", "+861062552266"},
		{"+1 202 555 0143", "", "+12025550143"},
		{"+852 5123 4567", "", "+85251234567"},
		// These are numbers of countries with few digits.
		{"+376312345", "", "+376312345"},
		{"+299221234", "", "+299221234"},
		{"00376312345", "", "+376312345"},
		// These numbers have a default region.
		{"0812-3456-7890", "ID", "+6281234567890"},
		{"6281234567890", "ID", "+6281234567890"},
		{"13105551234", "US", "+13105551234"},
		{"(310) 555-1234", "US", "+13105551234"},
		{"+8613800138000", "ID", "+8613800138000"},
		{"312345", "AD", "+376312345"},
		// These numbers contain characters around and inside the digits.
		{" 13800138000", "", "+8613800138000"},
		{"138001380 00 ", "", "+8613800138000"},
		{"\u202a13800138000\u202c", "", "+8613800138000"},
		{"\u2066+86\u00a0138\u20110013\u20118000\u2069", "", "+8613800138000"},
		{"\u200b138\u200b00138000\ufeff", "", "+8613800138000"},
		{"１３８００１３８０００", "", "+8613800138000"},
		{"＋８６（１３８）００１３－８０００", "", "+8613800138000"},
		{"13800138000.0", "", "+8613800138000"},
		{"13800138000.00", "", "+8613800138000"},
		{"+6281234567890.0", "", "+6281234567890"},
		{"+62-812-345-678.0", "", "+62812345678"},
		{"+62 (812) 345-678.00", "", "+62812345678"},
		{"'0812345678.0", "ID", "+62812345678"},
		{"030-1234567.0", "DE", "+49301234567"},
		{"030 1234567.0", "DE", "+49301234567"},
		{"138.0013.8000", "", "+8613800138000"},
		{"01.23.45.67.00", "FR", "+33123456700"},
		{"+33 1 23 45.67.00", "", "+33123456700"},
		{"(+86) 138 0013 8000", "", "+8613800138000"},
		{"＋1-650-555-0123", "", "+16505550123"},
		{"[86]13800138000", "", "+8613800138000"},
		{"'13800138000", "", "+8613800138000"},
	} {
		if got, err := Normalise("phone_number", c.sent, c.region); err != nil || got != c.want {
			t.Errorf("%q in %q: got %q, %v; want %q", c.sent, c.region, got, err, c.want)
		}
	}
	for _, c := range []struct {
		sent, region string
		rule         fault.Rule
		limit        any
	}{
		{"", "", fault.NotAPhoneNumber, nil},
		{"138", "", fault.NotAPhoneNumber, nil},
		{"+", "", fault.NotAPhoneNumber, nil},
		{"+86138001380001", "", fault.NotAPhoneNumber, nil},
		{"1234567890123456", "", fault.NotAPhoneNumber, nil},
		// The last 0 of a number can be a digit or a decimal.
		{"+1-650-555-012.0", "", fault.NotAPhoneNumber, nil},
		{"+62.812.345.678.0", "", fault.NotAPhoneNumber, nil},
		{"+62.812.345.678.00", "", fault.NotAPhoneNumber, nil},
		{".0812345678.0", "ID", fault.NotAPhoneNumber, nil},
		{"0812345678.0.", "ID", fault.NotAPhoneNumber, nil},
		{"312345.00", "AD", fault.NotAPhoneNumber, nil},
		// The country of a national number is not guessed.
		{"0812-3456-7890", "", fault.RegionNotKnown, nil},
		{"081234567890", "", fault.RegionNotKnown, nil},
		{"1380013800", "", fault.RegionNotKnown, nil},
		{"12345678901", "", fault.RegionNotKnown, nil},
		{"010-62552266", "", fault.RegionNotKnown, nil},
		{"6281234567890", "", fault.RegionNotKnown, nil},
		{"1-650-555-0123", "", fault.RegionNotKnown, nil},
		{"1 (650) 555-0123", "", fault.RegionNotKnown, nil},
		{"(1) 650.555.0123", "", fault.RegionNotKnown, nil},
		{"１（６５０）５５５－０１２３", "", fault.RegionNotKnown, nil},
		// A number of another country needs its country code even if a default region is given.
		{"13800138000", "ID", fault.NotAPhoneNumber, nil},
		{"13800138000", "US", fault.NotAPhoneNumber, nil},
		{"1380013800a", "", fault.NoPartOfANumber, "U+0061 (11)"},
		{"13800138000\x00", "", fault.NoPartOfANumber, "U+0000 (12)"},
		{"tel:13800138000", "", fault.NoPartOfANumber, "U+0074 (1)"},
		{"138/00138000", "", fault.NoPartOfANumber, "U+002F (4)"},
		{"++8613800138000", "", fault.NoPartOfANumber, "U+002B (2)"},
		{"\u202a138☃00138000", "", fault.NoPartOfANumber, "U+2603 (5)"},
		{"13800138000, 13900139000", "", fault.NoPartOfANumber, "U+002C (12)"},
		{strings.Repeat("\u200b", 50) + "13800138000", "", fault.TooLong, Longest},
	} {
		got, err := Normalise("to", c.sent, c.region)
		var f *fault.Error
		if !errors.As(err, &f) || f.Fields[0] != (fault.Field{Name: "to", Rule: c.rule, Limit: c.limit}) {
			t.Errorf("%q in %q: got %q, %v", c.sent, c.region, got, err)
		}
	}
}

// A sender can parse a number differently from LKSMS. Therefore only plain numbers are stored in the notation of the caller.
func TestNumberInAnUnusualNotationIsStoredInE164(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, region, want string }{
		{"138-0013-8000", "", "138-0013-8000"},
		{"+86 138 0013 8000", "", "+86 138 0013 8000"},
		{"+376312345", "", "+376312345"},
		{"081234567890", "ID", "+6281234567890"},
		{"１３８００１３８０００", "", "+8613800138000"},
		{"13800138000.0", "", "+8613800138000"},
		{"\u202a13800138000", "", "+8613800138000"},
	} {
		if got, err := Read("to", c.sent, c.region); err != nil || got.Written != c.want {
			t.Errorf("%q: %q, %v", c.sent, got.Written, err)
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
		fast, err := Normalise("phone_number", number, "")
		if err != nil {
			t.Fatal(err)
		}
		slow, err := Normalise("phone_number", "+86 "+number, "")
		if err != nil || fast != slow {
			t.Errorf("%s: %q and %q, %v", number, fast, slow, err)
		}
	}
}

func TestMaskHidesFourDigits(t *testing.T) {
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
		got, err := Normalise("phone_number", number, "")
		if err != nil {
			return
		}
		if got[0] != '+' || len(got) > 20 {
			t.Errorf("%q gave %q", number, got)
		}
		if again, err := Normalise("phone_number", got, "ID"); err != nil || again != got {
			t.Errorf("%q gave %q, which gave %q, %v", number, got, again, err)
		}
	})
}

// FuzzRecipient compares any number in a receipt with any recipient of a task.
func FuzzRecipient(f *testing.F) {
	for _, seed := range []string{"+6591234567", "006591234567", "(415) 555-2671", "openid-1", "", "+", "\xff", "+8613800138000"} {
		f.Add("+8613800138000", seed)
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, number, said string) {
		if !HasCountryCode(number, number) {
			t.Errorf("%q is not the same as itself", number)
		}
		if IsNationalFormat(number, said) && digitsOf(said) == "" {
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

func TestNumbersMatchInAnyNotation(t *testing.T) {
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
		{"+8613800138000", "８６１３８００１３８０００", true, false},
		{"+8613800138000", "13800138000.0", false, true},
		{"+49301234567", "030-1234567.0", false, true},
		{"+493012345670", "030-1234567.0", false, false},
		{"+628123456780", "+62.812.345.678.0", false, false},
		{"+8613800138000", "\u202a138\u20110013\u00a08000\u202c", false, true},
		{"openid-1", "openid-1", true, false},
		{"openid-1", "1", false, false},
	} {
		if got := HasCountryCode(c.number, c.said); got != c.inFull {
			t.Errorf("%s as %q in full: %v", c.number, c.said, got)
		}
		if got := IsNationalFormat(c.number, c.said); got != c.atHome && !c.inFull {
			t.Errorf("%s as %q at home: %v", c.number, c.said, got)
		}
	}
}

func TestRegionReturnsTheRegionOfANumber(t *testing.T) {
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

func TestBeginningOfANumberIsParsedInAnyNotation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, region, want string }{
		{"138", "", "+86138"},
		{"138 0013-80", "", "+86138001380"},
		{"13800138000", "", "+8613800138000"},
		{"+86 138", "", "+86138"},
		{"+1-416", "DE", "+1416"},
		{"0062 812", "DE", "+62812"},
		{"１３８", "CN", "+86138"},
		{"86138", "CN", "+86138 +8686138"},
		{"06", "IT", "+3906"},
		{"0", "", "+860"}, // without a region, only mobile numbers are accepted
		{"0", "CN", "+86 +860"},
		{"0151", "DE", "+490151 +49151"},
		{"4915", "DE", "+4915 +494915"},
		{"1212", "US", "+11212 +1212"},
		{"+", "", "+"},
		{"", "", ""},
		{"-", "", ""},
		{"1380a", "", ""},
		{"++1", "", ""},
	} {
		if got := Prefixes(c.text, c.region); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q in %s: %q, want %q", c.text, c.region, got, c.want)
		}
	}
}
