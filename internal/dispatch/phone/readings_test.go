package phone

import (
	"slices"
	"strings"
	"testing"
)

func TestANumberWithoutAPlusCanHaveTwoReadings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ number, region, want string }{
		{"4915112345678", "DE", "+4915112345678 +494915112345678"}, // begins with the code of the region
		{"491711234567", "DE", "+491711234567 +49491711234567"},
		{"8613800138000", "DE", "+498613800138000 +8613800138000"},
		{"8613800138000", "AT", "+8613800138000"},
		{"13102345678", "", "+8613102345678 +13102345678"},
		{"12025550143", "US", "+12025550143"},
		{"6581234567", "SG", "+6581234567"},
		{"015112345678", "DE", "+4915112345678"},
		{"0049 151 12345678", "SG", "+4915112345678"},
		{"+8613800138000", "DE", "+8613800138000"},
		{"1065550100", "", ""}, // too short for an international number
		{"10690", "CN", ""},
		{"+22395", "DE", ""},
		{"MyBank", "DE", ""},
	} {
		if got := Readings(c.number, c.region); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s in %s: %q, want %q", c.number, c.region, got, c.want)
		}
	}
}

func TestIsE164AcceptsOnlyValidNumbersInE164(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"+8613800138000": true, "+4915112345678": true, "13800138000": false, "+86 13800138000": false, "+22395": false, "+86106912345678": false, "+4930": false, "MyBank": false, "": false,
	} {
		if got := IsE164(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
